package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Backup is a database as it was: tables, CDC, log position. Taking one costs little, since storage is shared.
type Backup struct {
	db       *Database
	tables   []tableBackup
	schemas  []Schema
	view     *View
	backlog  []*logTx
	log      logTail
	scanned  lsnKey
	rowVer   uint64
	version  uint64
	captured captureState
}

type tableBackup struct {
	table       *Table
	def         *TableDef
	rows        *sorted[*entry]
	identity    int64
	identitySet bool
	nextRowID   int64
	tracked     int
}

// Backup takes a copy of the database. What open transactions have written is not in it.
func (db *Database) Backup() *Backup {
	db.mu.Lock()
	defer db.mu.Unlock()
	b := &Backup{
		db: db, schemas: slices.Clone(db.schemas), view: db.CDC(), backlog: slices.Clone(db.backlog), log: *db.log,
		scanned: db.scanned, rowVer: db.rowVer, version: db.version, captured: captureState{lastEntry: db.captured.lastEntry},
	}
	for _, t := range db.tables {
		b.tables = append(b.tables, tableBackup{
			t, t.def.Load(), t.rows.snapshot(), t.identity, t.identitySet, t.nextRowID, t.tracked,
		})
	}
	return b
}

// RestoreOptions says how a backup is restored.
type RestoreOptions struct {
	// KeepCDC restores CDC with it (WITH KEEP_CDC); without, CDC is off afterwards [D].
	KeepCDC bool
	// LogStart is where the log goes on: a restored database has another log, and its LSNs may be below positions that readers
	// have stored. Zero goes on where the backup's log ended, so LSNs used since come again. With KeepCDC it must be above
	// the backup's max LSN.
	LogStart LSN
}

// Restore puts a backup of this database back under the same name. It stops the capture job, waits for a running scan, and ends all
// transactions (596). Jobs do not exist afterwards and must be added again [D]. Table handles of the backup stay valid.
func (db *Database) Restore(ctx context.Context, b *Backup, opts RestoreOptions) error {
	if b.db != db {
		return fmt.Errorf("restoring database %s: the backup is of %s", db.name, b.db.name)
	}
	if top, ok := b.view.MaxLSN(); ok && opts.KeepCDC && !opts.LogStart.IsZero() && !top.Less(opts.LogStart) {
		return fmt.Errorf("restoring database %s: the log would go on at %s, not above max LSN %s", db.name, opts.LogStart, top)
	}
	release, err := db.quiesce(ctx, fail(ErrSessionKilled))
	if err != nil {
		return err
	}
	defer release()
	db.mu.Lock()
	defer db.mu.Unlock()
	kept := map[*Table]bool{}
	for _, t := range b.tables {
		kept[t.table] = true
		t.restore()
	}
	for _, t := range db.tables {
		t.dropped = !kept[t]
	}
	db.tables = db.tables[:0:0]
	for _, t := range b.tables {
		db.tables = append(db.tables, t.table)
	}
	rng := db.log.rng
	tail := b.log
	db.log = &tail
	db.log.rng = rng
	if !opts.LogStart.IsZero() {
		db.log = newLogTail(rng, opts.LogStart)
	}
	db.schemas, db.rowVer = slices.Clone(b.schemas), max(db.rowVer, b.rowVer)
	db.version++
	db.backlog, db.scanned, db.captured = slices.Clone(b.backlog), b.scanned, b.captured
	db.jobs.created = false
	if !opts.KeepCDC {
		db.forgetCDC()
		return nil
	}
	db.view.Store(b.view.detached())
	return nil
}

// restore puts a table's committed rows back.
func (t tableBackup) restore() {
	t.table.def.Store(t.def)
	t.table.emptyStorage(t.def)
	for e := range t.rows.ascend(nil) {
		if e.old != nil {
			t.table.put(t.def, nil, &entry{loc: e.loc, old: e.old, version: e.version})
		}
	}
	t.table.identity, t.table.identitySet, t.table.tracked = t.identity, t.identitySet, t.tracked
	t.table.nextRowID, t.table.dropped = t.nextRowID, false
}

// detached is a view whose storage a new history may append to without touching what the old history's readers see.
func (v *View) detached() *View {
	return v.with(func(v *View) {
		for n, i := range v.instances {
			c := *i
			store := *i.changes
			store.sealed = true
			c.changes = &store
			v.instances[n] = &c
		}
		v.mapping = v.mapping.detached()
	})
}

// quiesce stops the capture job, takes the scan session and ends all transactions with reason.
func (db *Database) quiesce(ctx context.Context, reason error) (release func(), err error) {
	db.StopCapture()
	db.mu.Lock()
	for db.scanBusy {
		idle := db.scanIdle
		db.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		db.mu.Lock()
	}
	db.scanBusy, db.scanIdle = true, make(chan struct{})
	db.mu.Unlock()
	db.killAll(reason)
	return db.endScan, nil
}

// FailOverOptions says how a fail-over goes.
type FailOverOptions struct {
	// LoseTail is a forced fail-over to an asynchronous replica: committed transactions that capture has not read are lost, in
	// the change tables and in the tracked base tables. What is in the change tables stays valid [D].
	LoseTail bool
	// JobsExist tells that the capture and clean-up jobs were made on the new primary too.
	JobsExist bool
}

// FailOver moves the database to another replica: transactions end (983), the capture job stops and is not started again by
// itself, scan sessions and errors are forgotten. It returns the number of transactions lost.
func (db *Database) FailOver(ctx context.Context, opts FailOverOptions) (lost int, err error) {
	release, err := db.quiesce(ctx, fail(ErrDatabaseShuttingDown, db.name))
	if err != nil {
		return 0, err
	}
	defer release()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.captured = captureState{lastEntry: db.captured.lastEntry, sessionNo: 0}
	db.jobs.created = db.jobs.created && opts.JobsExist
	if !opts.LoseTail {
		return 0, nil
	}
	for _, tx := range slices.Backward(db.backlog) {
		if tx.marker {
			db.loseEnable(tx.commit)
			continue
		}
		lost++
		for _, r := range slices.Backward(tx.records) {
			db.loseRecord(&r)
		}
	}
	if len(db.backlog) > 0 && db.scanned != (lsnKey{}) {
		db.log.vlf, db.log.block = uint32(db.scanned.hi>>32), uint32(db.scanned.hi)
		db.log.bytes = logSector
		db.log.flush()
	}
	db.backlog = nil
	return lost, nil
}

// loseEnable drops the instance whose enabling was lost.
func (db *Database) loseEnable(commit lsnKey) {
	for _, i := range db.CDC().instances {
		if i.enableLSN == commit {
			db.dropInstances([]*Instance{i})
			if t, ok := db.tableByID(i.SourceObjectID); ok {
				t.tracked--
			}
		}
	}
}

// loseRecord takes a row's change back. DDL is not taken back, nor are rows logged under another definition.
func (db *Database) loseRecord(r *logRecord) {
	t, ok := db.tableByID(r.def.ObjectID)
	if !ok || r.ddl != nil || t.def.Load() != r.def || r.def.unmaterialized {
		return
	}
	db.version++
	if r.after != nil {
		if e := t.entryOf(r.after); e != nil {
			t.put(r.def, e, nil)
		}
	}
	if r.before != nil {
		t.put(r.def, nil, &entry{loc: t.newLoc(r.def, r.before), old: r.before, version: db.version})
	}
}

func (db *Database) tableByID(id int32) (*Table, bool) {
	i := slices.IndexFunc(db.tables, func(t *Table) bool { return t.def.Load().ObjectID == id })
	if i < 0 {
		return nil, false
	}
	return db.tables[i], true
}

// entryOf finds the committed entry that holds exactly this row.
func (t *Table) entryOf(row sqltype.Row) *entry {
	if def := t.def.Load(); def.keyUnique {
		return t.lookup(&loc{key: keyOf(def.keyCols, row)})
	}
	for e := range t.rows.ascend(nil) {
		if len(e.old) > 0 && &e.old[0] == &row[0] {
			return e
		}
	}
	return nil
}
