package engine

import (
	"context"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Tx is a transaction of one database. It is used by one goroutine at a time, except for [Tx.Kill]. A statement that fails with
// an ordinary error undoes itself and leaves the transaction open; after 1205, 3960, Kill or a fail-over the transaction is
// rolled back and every call returns the reason.
type Tx struct {
	db   *Database
	id   uint64
	opts TxOptions
	done chan struct{} // closed at the end

	// What follows is guarded by db.mu.
	ended     bool
	err       error // why the transaction ended by itself
	undo      []undoStep
	log       []logRecord
	began     bool // something was logged
	beginLSN  lsnKey
	beginTime time.Time
	tables    map[*Table]bool // with a lock of this transaction
	waitsFor  *Tx
	killed    chan struct{}
	dead      bool
	snap      *txSnapshot
	rebuilt   map[*Table]bool // by DDL: places have moved
	cdc       []cdcStep
	cdcLock   bool // see lockCDC
}

// undoStep is what rolling back one step takes.
type undoStep struct {
	table *Table
	loc   *loc
	prev  *entry // nil: nothing was there
	ddl   func() // undoes a DDL step; then table is nil
}

// txSnapshot is what a transaction under SNAPSHOT reads: all tables as of its first read.
type txSnapshot struct {
	version uint64
	tables  map[*Table]tableSnapshot
}

type tableSnapshot struct {
	def  *TableDef
	rows *sorted[*entry]
}

// CommitInfo says what a commit did.
type CommitInfo struct {
	LSN    LSN       // of the commit record; zero when nothing was logged
	Time   time.Time // of the commit, in the server's zone
	Logged bool
}

// Begin starts a transaction. It must end with Commit or Rollback.
func (db *Database) Begin(opts TxOptions) *Tx {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.begin(opts)
}

func (db *Database) begin(opts TxOptions) *Tx {
	db.nextTx++
	tx := &Tx{
		db: db, id: db.nextTx, opts: opts, done: make(chan struct{}), killed: make(chan struct{}), tables: map[*Table]bool{},
	}
	db.open[tx] = true
	return tx
}

// Do runs f in a transaction of its own: committed when f returns nil, else rolled back.
func (db *Database) Do(ctx context.Context, f func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := db.Begin(TxOptions{})
	if err := f(tx); err != nil {
		tx.Rollback()
		return err
	}
	_, err := tx.Commit()
	return err
}

// ID is the transaction's number, the tran_id of the mapping.
func (tx *Tx) ID() uint64 { return tx.id }

// SetLockTimeout changes how long statements wait for one lock (NoLockTimeout: for ever, 0: not at all).
func (tx *Tx) SetLockTimeout(d time.Duration) {
	tx.opts.LockTimeout, tx.opts.FailAtFirstLock = d, d == 0
}

// SetIsolation changes the isolation level of the following statements.
func (tx *Tx) SetIsolation(level Isolation) { tx.opts.Isolation = level }

// Err tells why the transaction was rolled back by itself; nil while it is open or when it was ended by its owner.
func (tx *Tx) Err() error {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	return tx.err
}

// Mark is a savepoint for RollbackTo.
func (tx *Tx) Mark() Mark {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	return tx.mark()
}

// RollbackTo undoes what came after the mark. Locks stay.
func (tx *Tx) RollbackTo(m Mark) error {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	if err := tx.usable(); err != nil {
		return err
	}
	tx.undoTo(m)
	return nil
}

func (tx *Tx) mark() Mark { return Mark{undo: len(tx.undo), log: len(tx.log)} }

// Commit makes the changes visible and puts them into the log for capture. A transaction counts at its commit: its commit LSN
// is above all its rows' and above every earlier commit's.
func (tx *Tx) Commit() (CommitInfo, error) {
	info, startCapture, err := tx.commit()
	if startCapture {
		tx.db.StartCapture()
	}
	return info, err
}

func (tx *Tx) commit() (info CommitInfo, startCapture bool, err error) {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := tx.usable(); err != nil {
		return CommitInfo{}, false, err
	}
	info = CommitInfo{Time: db.server.Now()}
	if tx.began {
		lsn := db.log.commit()
		info.LSN, info.Logged = lsn.lsn(), true
		if len(tx.log) > 0 && db.CDC().enabled {
			db.backlog = append(db.backlog, &logTx{
				id: tx.id, begin: tx.beginLSN, commit: lsn, beginTime: tx.beginTime, endTime: info.Time, records: tx.log,
			})
		}
		startCapture = tx.publishCDC(lsn)
	}
	db.version++
	for _, u := range tx.undo {
		if u.table == nil {
			continue
		}
		e := u.table.lookup(u.loc)
		if e == nil || e.owner != tx {
			continue
		}
		var to *entry
		if e.new != nil {
			to = &entry{loc: e.loc, old: e.new, version: db.version}
		}
		u.table.put(u.table.def.Load(), e, to)
	}
	for t := range tx.rebuilt {
		tx.settleRebuilt(t)
	}
	tx.end(nil)
	return info, startCapture, nil
}

// settleRebuilt commits the rows of a table whose places a DDL statement has moved.
func (tx *Tx) settleRebuilt(t *Table) {
	def := t.def.Load()
	for e := range t.rows.snapshot().ascend(nil) {
		if e.owner != tx {
			continue
		}
		var to *entry
		if e.new != nil {
			to = &entry{loc: e.loc, old: e.new, version: tx.db.version}
		}
		t.put(def, e, to)
	}
}

// Rollback undoes everything. It does nothing after the transaction has ended.
func (tx *Tx) Rollback() {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	tx.abort(nil)
}

// Kill rolls the transaction back from another goroutine, with err as the reason that its owner will see; nil means 596. A statement that
// waits for a lock stops waiting.
func (tx *Tx) Kill(err error) {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	if err == nil {
		err = fail(ErrSessionKilled)
	}
	if tx.ended || tx.dead {
		return
	}
	tx.dead = true
	close(tx.killed)
	tx.abort(err)
}

// usable tells whether statements may run; db.mu is held.
func (tx *Tx) usable() error {
	if !tx.ended {
		return nil
	}
	if tx.err != nil {
		return tx.err
	}
	return fail(ErrTransactionEnded)
}

// abort rolls back; db.mu is held.
func (tx *Tx) abort(reason error) {
	if tx.ended {
		return
	}
	tx.undoTo(Mark{})
	tx.end(reason)
}

func (tx *Tx) end(reason error) {
	tx.ended, tx.err = true, reason
	for t := range tx.tables {
		delete(t.lock.shared, tx)
		delete(t.lock.writers, tx)
		if t.lock.schema == tx {
			t.lock.schema = nil
		}
	}
	tx.tables, tx.undo, tx.log, tx.snap, tx.cdc = nil, nil, nil, nil, nil
	delete(tx.db.open, tx)
	close(tx.done)
}

// undoTo takes back the steps after a mark, newest first.
func (tx *Tx) undoTo(m Mark) {
	tx.log = tx.log[:min(m.log, len(tx.log))]
	for len(tx.undo) > m.undo {
		u := tx.undo[len(tx.undo)-1]
		tx.undo = tx.undo[:len(tx.undo)-1]
		if u.ddl != nil {
			u.ddl()
			continue
		}
		u.table.put(u.table.def.Load(), u.table.lookup(u.loc), u.prev)
	}
}

// change puts a row image into a place under this transaction's lock; db.mu is held and the place is free or ours.
func (tx *Tx) change(t *Table, l *loc, row sqltype.Row) {
	prev := t.lookup(l)
	next := &entry{loc: l, new: row, owner: tx}
	if prev != nil {
		next.loc, next.old, next.version = prev.loc, prev.old, prev.version
	}
	tx.undo = append(tx.undo, undoStep{table: t, loc: next.loc, prev: prev})
	t.put(t.def.Load(), prev, next)
}

// record writes a log record of about n bytes and gives its LSN; the first one begins the transaction in the log.
func (tx *Tx) record(n int) lsnKey {
	if !tx.began {
		tx.began = true
		tx.beginLSN = tx.db.log.next(recordBytes)
		tx.beginTime = tx.db.server.Now()
	}
	return tx.db.log.next(n)
}
