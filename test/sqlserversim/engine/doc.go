// Package engine is the database engine of the SQL Server simulator: tables, transactions, a log with LSNs, and Change Data
// Capture with its capture cycle, change tables, LSN time mapping, DDL history and clean-up. There is no SQL text and no
// wire in it: package sqlserversim puts sessions, procedures and catalogue views on top.
//
//	srv := engine.NewServer(engine.Options{Seed: 1})
//	defer srv.Close()
//	db, err := srv.CreateDatabase("lab")
//	err = db.Do(ctx, func(tx *engine.Tx) error { _, err := tx.CreateTable(ctx, spec); return err })
//	err = db.EnableCDC()
//	_, err = db.EnableTable(ctx, engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
//	… tx.Insert, tx.Update, tx.Delete, tx.Commit …
//	res, err := db.Scan(ctx, engine.ScanLimits{})   // one run of the capture job, on demand
//	view := db.CDC()                                // everything captured, immutable
//	max, ok := view.MaxLSN()
//	cur, err := view.AllChanges("dbo_orders", &from, &to, "all", nil)
//	for cur.Next() { use(cur.Row()) }
//
// # Shape
//
// A [Server] has [Database]s; a database has [Table]s, whose [TableDef] is an immutable value that DDL replaces. All statements
// run inside a [Tx]. Readers of base tables see committed rows only and wait for writers (or read versions, where the
// database says so). What capture has produced is one immutable [View] behind an atomic pointer: a scan publishes all change
// tables and the mapping together, clean-up publishes the moved low watermark first and each deleted chunk after it, and
// whoever holds a view keeps it. Reading a view takes no lock.
//
// # Evidence
//
// Comments and test names carry a tag for each rule: [D] documented by Microsoft, [M22] and [M25] measured on SQL Server 2022
// and 2025, [K] common knowledge that nobody could check here. Errors are [Error] values with SQL Server's numbers; the layer
// above words them.
//
// # Determinism
//
// Under one seed, an injected [Clock] and calls in one order everything repeats, LSNs and object ids included. There is no
// goroutine unless the capture job is started; Close waits for it.
//
// # Limits
//
// Nothing is durable. Locks are row locks of writers, shared and schema locks of whole tables, with deadlock detection; no
// lock escalation and no key-range locks. Text is UTF-8 in memory. DDL and the CDC metadata that follows it (a dropped table's
// instances) are visible to others before the transaction commits, though a rollback takes them back; creating a schema is not
// undone. A base-table row costs 40 bytes a value: benchmarks with millions of rows use [Database.BulkCaptured] or a table that is
// not materialized. A transaction is of one database.
package engine
