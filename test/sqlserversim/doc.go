// Package sqlserversim is a SQL Server for tests, demos and benchmarks: it speaks TDS 7.4 on a socket, runs T-SQL, and has
// Change Data Capture with a log, a capture job, change tables and clean-up. Unmodified clients connect to it.
//
// It joins three packages that can be used alone: test/tds (the wire), test/tsql (parser and evaluator) and
// sqlserversim/engine (tables, log, capture, clean-up). What is here is the server around them: logins and sessions, the
// catalogue views, system procedures and functions, permissions, faults, counters and workloads.
//
//	sim, err := sqlserversim.Start(sqlserversim.WithDatabase("lab"))
//	defer sim.Close()
//	err = sim.Exec(ctx, `CREATE TABLE dbo.orders (id bigint PRIMARY KEY, note nvarchar(200));
//	                     EXEC sys.sp_cdc_enable_db;
//	                     EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = 'orders', @role_name = NULL`)
//	db, err := sql.Open("sqlserver", sim.DSN())
//
// # What it promises
//
// Numbers, classes, states and texts of errors are SQL Server's where they are known (messages.go names the source of each).
// What it does not know it refuses: Msg 102 for syntax, 195 for a function, 208 for an object, 2812 for a procedure; a
// refused statement is kept in Server.Refused. It never answers silently.
//
// Everything that happens is deterministic under WithSeed, WithClock and WithCaptureInterval(0); then capture happens when
// Server.Capture is called or when a session runs sys.sp_cdc_scan.
//
// Faults, capture and clean-up are Go methods of Server, and procedures of schema sim for clients in other processes (EXEC sim.fault,
// sim.capture …; see controlProcedures).
//
// # What it is not
//
// It is not durable, has no query optimiser beyond a seek on the clustered key of change tables and source tables, and takes
// locks only as far as the engine models them. Behaviour that nobody could check against a real server is marked [K] in
// comments.
package sqlserversim
