package engine

import (
	"context"
	"iter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Scan yields the rows of a base table that the transaction may see, in the order of the clustered key. Under READ COMMITTED it
// shows the rows as of its start and waits at a row that another transaction has locked. Rows are immutable and may be kept,
// but not changed. An error ends the sequence. The table may be changed while it is scanned: the scan does not see it. With
// spec.Update each row is locked before it is yielded (UPDLOCK, XLOCK).
func (tx *Tx) Scan(ctx context.Context, t *Table, spec ScanSpec) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		for e, err := range tx.scan(ctx, t, spec) {
			if err != nil {
				yield(nil, err)
				return
			}
			row := e.row
			if spec.Update {
				if row, err = tx.lockScanned(ctx, t, e.at); err != nil {
					yield(nil, err)
					return
				}
				if row == nil {
					continue // gone while we waited
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// lockScanned locks a row that a scan has met and gives its present image.
func (tx *Tx) lockScanned(ctx context.Context, t *Table, at *loc) (sqltype.Row, error) {
	s := &statement{tx: tx, t: t, def: t.def.Load()}
	return s.lockRow(ctx, at)
}

// seen is a row that a scan shows, and its place.
type seen struct {
	at  *loc
	row sqltype.Row
}

// reader is the state of one scan.
type reader struct {
	tx    *Tx
	t     *Table
	spec  ScanSpec
	level Isolation
	def   *TableDef
	rows  *sorted[*entry]
	rcsi  bool
}

func (tx *Tx) scan(ctx context.Context, t *Table, spec ScanSpec) iter.Seq2[seen, error] {
	return func(yield func(seen, error) bool) {
		r := &reader{tx: tx, t: t, spec: spec, level: tx.opts.Isolation}
		if spec.Isolation != nil {
			r.level = *spec.Isolation
		}
		if err := r.start(ctx); err != nil {
			yield(seen{}, err)
			return
		}
		r.run(ctx, yield)
	}
}

// start takes the locks and the snapshot that the scan needs.
func (r *reader) start(ctx context.Context) error {
	db := r.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := r.tx.usable(); err != nil {
		return err
	}
	var err error
	switch {
	case r.spec.Exclusive:
		err = r.tx.lockSchema(ctx, r.t)
	case r.spec.HoldShared || r.level == RepeatableRead || r.level == Serializable:
		if err = r.tx.lockShared(ctx, r.t); err == nil && r.spec.Update {
			err = r.tx.lockWrite(ctx, r.t)
		}
	case r.spec.Update:
		err = r.tx.lockWrite(ctx, r.t)
	case r.level == ReadCommitted:
		err = r.tx.passSchema(ctx, r.t)
	}
	if err != nil {
		return err
	}
	if r.t.dropped {
		return fail(ErrInvalidObject, r.t.def.Load().FullName())
	}
	r.def = r.t.def.Load()
	if r.spec.Def != nil && r.spec.Def != r.def {
		return ErrDefinitionChanged
	}
	r.rcsi = db.settings.ReadCommittedSnapshot && r.level == ReadCommitted && !r.spec.Update
	if r.level == Snapshot {
		return r.startSnapshot()
	}
	r.rows = r.t.rows.snapshot()
	return nil
}

// startSnapshot binds the scan to the transaction's versions.
func (r *reader) startSnapshot() error {
	db := r.tx.db
	if !db.settings.AllowSnapshot {
		return fail(ErrSnapshotNotAllowed, db.name)
	}
	snap, ok := r.tx.snapshot().tables[r.t]
	if !ok || snap.def != r.def {
		return fail(ErrSnapshotDDL, db.name)
	}
	r.rows = snap.rows
	own := false
	for _, u := range r.tx.undo {
		if u.table == r.t {
			if !own {
				r.rows, own = r.rows.snapshot(), true
			}
			if e := r.t.lookup(u.loc); e != nil && e.owner == r.tx {
				r.rows.set(e)
			}
		}
	}
	return nil
}

// snapshot takes the versions that the transaction reads, at its first read; db.mu is held.
func (tx *Tx) snapshot() *txSnapshot {
	if tx.snap == nil {
		tx.snap = &txSnapshot{version: tx.db.version, tables: map[*Table]tableSnapshot{}}
		for _, t := range tx.db.tables {
			tx.snap.tables[t] = tableSnapshot{t.def.Load(), t.rows.snapshot()}
		}
	}
	return tx.snap
}

// run yields the rows.
func (r *reader) run(ctx context.Context, yield func(seen, error) bool) {
	var last *loc // the row yielded or passed last
	for {
		again := false
		for e := range r.from(last) {
			if last != nil && e.loc == last {
				continue
			}
			if r.beyond(e) {
				return
			}
			if ctx.Err() != nil {
				yield(seen{}, ctx.Err())
				return
			}
			row, wait := r.see(e)
			if wait {
				if err := r.await(ctx, e.owner); err != nil {
					yield(seen{}, err)
					return
				}
				again = true
				break
			}
			last = e.loc
			if row != nil && !yield(seen{e.loc, row}, nil) {
				return
			}
		}
		if !again {
			return
		}
	}
}

// see decides what the scan makes of an entry.
func (r *reader) see(e *entry) (row sqltype.Row, wait bool) {
	switch {
	case e.owner == nil:
		return e.old, false
	case e.owner == r.tx:
		return e.new, false
	case r.level == ReadUncommitted && !r.spec.Update:
		return e.new, false
	case r.spec.ReadPast:
		return nil, false
	case r.rcsi || r.level == Snapshot:
		return e.old, false
	}
	return nil, true
}

// await waits for the owner of a row and takes a new snapshot of the rows.
func (r *reader) await(ctx context.Context, owner *Tx) error {
	db := r.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := r.tx.wait(ctx, owner); err != nil {
		return err
	}
	if r.t.dropped {
		return fail(ErrInvalidObject, r.t.def.Load().FullName())
	}
	if r.t.def.Load() != r.def {
		return ErrDefinitionChanged
	}
	r.rows = r.t.rows.snapshot()
	return nil
}

// from iterates behind the row seen last, or from the bound.
func (r *reader) from(last *loc) iter.Seq[*entry] {
	def := r.def
	if last != nil {
		if r.spec.Reverse {
			return r.rows.descend(func(e *entry) bool { return compareLocs(def.keyCols, def.keyUnique, e.loc, last) >= 0 })
		}
		return r.rows.ascend(func(e *entry) bool { return compareLocs(def.keyCols, def.keyUnique, e.loc, last) > 0 })
	}
	if r.spec.Reverse {
		if len(r.spec.Upper.Values) == 0 {
			return r.rows.descend(nil)
		}
		return r.rows.descend(func(e *entry) bool { return !r.below(e, r.spec.Upper) })
	}
	if len(r.spec.Lower.Values) == 0 {
		return r.rows.ascend(nil)
	}
	return r.rows.ascend(func(e *entry) bool { return r.above(e, r.spec.Lower) })
}

// beyond tells whether the scan has passed its far bound.
func (r *reader) beyond(e *entry) bool {
	if r.spec.Reverse {
		return len(r.spec.Lower.Values) > 0 && !r.above(e, r.spec.Lower)
	}
	return len(r.spec.Upper.Values) > 0 && !r.below(e, r.spec.Upper)
}

// above tells whether an entry satisfies a lower bound, below an upper one.
func (r *reader) above(e *entry, b Bound) bool {
	d := compareKeys(r.def.keyCols, e.key, b.Values)
	return d > 0 || d == 0 && b.Inclusive
}

func (r *reader) below(e *entry, b Bound) bool {
	d := compareKeys(r.def.keyCols, e.key, b.Values)
	return d < 0 || d == 0 && b.Inclusive
}

// passSchema waits while another transaction holds the schema lock.
func (tx *Tx) passSchema(ctx context.Context, t *Table) error {
	for t.lock.schema != nil && t.lock.schema != tx {
		if err := tx.wait(ctx, t.lock.schema); err != nil {
			return err
		}
	}
	return nil
}
