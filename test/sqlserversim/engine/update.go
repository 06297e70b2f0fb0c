package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// plannedChange is a row that a statement has locked and is going to change.
type plannedChange struct {
	at            *loc
	before, after sqltype.Row
	keyed         bool   // a key of the clustered or of a unique index changes
	seq           lsnKey // of the delete, when keyed
}

// Update changes rows as one atomic statement and returns how many Change took. A row whose unique key changes is logged as a
// delete and an insert that share the delete's LSN; when a statement changes the keys of several rows, all deletes come before
// all inserts (deferred update) [peers O-01, O-13; KB 3030352]. Errors are those of Insert, and 8102 for an identity column.
func (tx *Tx) Update(ctx context.Context, t *Table, spec UpdateSpec) (int64, error) {
	s, err := tx.beginStatement(ctx, t, spec.Scan.Def)
	if err != nil {
		return 0, err
	}
	for _, i := range spec.Set {
		if i == s.def.identityCol {
			return 0, fail(ErrIdentityUpdate, s.def.Columns[i].Name)
		}
	}
	plan, err := s.planUpdate(ctx, spec)
	if err == nil {
		err = s.applyUpdate(ctx, plan)
	}
	if err == nil && spec.Updated != nil {
		for _, p := range plan {
			if err = spec.Updated(p.before, p.after); err != nil {
				break
			}
		}
	}
	if err != nil {
		return 0, s.undo(err)
	}
	return int64(len(plan)), nil
}

// planUpdate finds and locks the rows, and builds the new ones.
func (s *statement) planUpdate(ctx context.Context, spec UpdateSpec) ([]plannedChange, error) {
	var plan []plannedChange
	scan := spec.Scan
	scan.Update, scan.Def = true, s.def
	for e, err := range s.tx.scan(ctx, s.t, scan) {
		if err != nil {
			return nil, err
		}
		values, ok, err := spec.Change(e.row)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		after := s.apply(e.row, spec.Set, values)
		before, err := s.lockRow(ctx, e.at)
		if err != nil {
			return nil, err
		}
		if before == nil {
			continue
		}
		if &before[0] != &e.row[0] { // changed while we waited
			if values, ok, err = spec.Change(before); err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			after = s.apply(before, spec.Set, values)
		}
		if len(values) != len(spec.Set) {
			return nil, fmt.Errorf("updating %s: %d values for %d columns", s.def.FullName(), len(values), len(spec.Set))
		}
		if err := s.finishRow(before, after); err != nil {
			return nil, err
		}
		plan = append(plan, plannedChange{at: e.at, before: before, after: after, keyed: s.keyChanged(before, after)})
	}
	return plan, nil
}

func (s *statement) apply(old sqltype.Row, set []int, values sqltype.Row) sqltype.Row {
	row := slices.Clone(old)
	for n, i := range set[:min(len(set), len(values))] {
		row[i] = values[n]
	}
	return row
}

// finishRow fills in what the server computes and checks the row.
func (s *statement) finishRow(before, after sqltype.Row) error {
	if err := s.compute(after); err != nil {
		return err
	}
	if err := s.check(after, "UPDATE"); err != nil {
		return err
	}
	db := s.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	db.stampRowVersion(s.def, after)
	return s.checkLOBs(before, after)
}

// keyChanged tells whether a key of the clustered index or of a unique index changes.
func (s *statement) keyChanged(before, after sqltype.Row) bool {
	if !sameKey(s.def.keyCols, before, after) {
		return true
	}
	return slices.ContainsFunc(s.def.unique, func(x uniqueIndex) bool { return !sameKey(x.cols, before, after) })
}

// lockRow locks the row in a place and gives its present image, nil when it is gone.
func (s *statement) lockRow(ctx context.Context, at *loc) (sqltype.Row, error) {
	tx, db := s.tx, s.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	for {
		if err := tx.usable(); err != nil { // killed meanwhile: the undo is over, nothing may be added
			return nil, err
		}
		e := s.t.lookup(at)
		switch {
		case e == nil:
			return nil, nil
		case e.owner != nil && e.owner != tx:
			if err := tx.wait(ctx, e.owner); err != nil {
				return nil, err
			}
			continue
		case e.visible(tx) == nil:
			return nil, nil
		}
		if tx.opts.Isolation == Snapshot && e.owner == nil && e.version > tx.snapshot().version {
			err := fail(ErrSnapshotConflict, s.def.FullName(), db.name)
			tx.abort(err)
			return nil, err
		}
		row := e.visible(tx)
		if e.owner == nil {
			tx.change(s.t, e.loc, row)
		}
		return row, nil
	}
}

// applyUpdate makes the changes and logs them.
func (s *statement) applyUpdate(ctx context.Context, plan []plannedChange) error {
	db := s.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := s.tx.usable(); err != nil {
		return err
	}
	for i := range plan {
		p := &plan[i]
		var err error
		if p.keyed {
			err = s.takeOut(p, len(plan) == 1)
		} else {
			err = s.change(p)
		}
		if err != nil {
			return err
		}
	}
	for i := range plan {
		if p := &plan[i]; p.keyed {
			if err := s.putBack(ctx, p, len(plan) == 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// change updates a row in its place. An update that changes nothing is not logged.
func (s *statement) change(p *plannedChange) error {
	if slices.Equal(p.before, p.after) {
		return nil
	}
	if err := s.logChange(p.before, p.after, nil); err != nil {
		return err
	}
	s.tx.change(s.t, p.at, p.after)
	return nil
}

// takeOut is the first half of a key change.
func (s *statement) takeOut(p *plannedChange, single bool) error {
	if !s.asUpdate(single) {
		if err := s.logChange(p.before, nil, nil); err != nil {
			return err
		}
		if n := len(s.tx.log); n > 0 && s.t.tracked > 0 {
			p.seq = s.tx.log[n-1].lsn
		}
	}
	s.tx.change(s.t, p.at, nil)
	return nil
}

// asUpdate tells whether a key change is logged as an update all the same (trace flag 8207, one row only).
func (s *statement) asUpdate(single bool) bool { return single && s.tx.db.server.opts.TraceFlag8207 }

// putBack is the second half.
func (s *statement) putBack(ctx context.Context, p *plannedChange, single bool) error {
	at := p.at
	if !sameKey(s.def.keyCols, p.before, p.after) {
		at = s.t.newLoc(s.def, p.after)
	}
	if err := s.unique(ctx, at, p.after); err != nil {
		return err
	}
	var err error
	if s.asUpdate(single) {
		err = s.logChange(p.before, p.after, nil)
	} else {
		err = s.logChange(nil, p.after, &p.seq)
	}
	if err == nil {
		s.tx.change(s.t, at, p.after)
	}
	return err
}

// Delete removes rows as one atomic statement and returns how many.
func (tx *Tx) Delete(ctx context.Context, t *Table, spec DeleteSpec) (int64, error) {
	s, err := tx.beginStatement(ctx, t, spec.Scan.Def)
	if err != nil {
		return 0, err
	}
	plan, err := s.planDelete(ctx, spec)
	if err == nil {
		err = s.applyDelete(plan)
	}
	if err == nil && spec.Deleted != nil {
		for _, p := range plan {
			if err = spec.Deleted(p.before); err != nil {
				break
			}
		}
	}
	if err != nil {
		return 0, s.undo(err)
	}
	return int64(len(plan)), nil
}

func (s *statement) planDelete(ctx context.Context, spec DeleteSpec) ([]plannedChange, error) {
	match := spec.Match
	if match == nil {
		match = func(sqltype.Row) (bool, error) { return true, nil }
	}
	var plan []plannedChange
	scan := spec.Scan
	scan.Update, scan.Def = true, s.def
	for e, err := range s.tx.scan(ctx, s.t, scan) {
		if err != nil {
			return nil, err
		}
		ok, err := match(e.row)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		row, err := s.lockRow(ctx, e.at)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		if &row[0] != &e.row[0] {
			if ok, err = match(row); err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		plan = append(plan, plannedChange{at: e.at, before: row})
	}
	return plan, nil
}

func (s *statement) applyDelete(plan []plannedChange) error {
	db := s.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := s.tx.usable(); err != nil {
		return err
	}
	for _, p := range plan {
		if err := s.logChange(p.before, nil, nil); err != nil {
			return err
		}
		s.tx.change(s.t, p.at, nil)
	}
	return nil
}

// displayValue is a value as message 2627 prints it.
func displayValue(v sqltype.Value) string {
	if v.IsNull() {
		return "<NULL>"
	}
	return v.String()
}
