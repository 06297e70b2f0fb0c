package silver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

// plan is what a version of bronze has that the table does not.
type plan struct {
	before progress
	after  progress

	rows, bytes int64 // of the files with new rows, for the number of slices
	files       []action.Add

	base  string // lowest _start_lsn among the new rows; "" if there are none
	since string // history: changes above it are applied, new or again

	// completed is a snapshot that is complete now and was not before, "" for none.
	completed string
	// snapshotTime is when the first row of the newest complete snapshot was read,
	// microseconds since 1970 UTC, 0: not known.
	snapshotTime int64
	// times are the same of all snapshots of which it is known.
	times map[string]int64
}

// isNew tells whether the table does not have a row yet.
func (p *plan) isNew(c *changes, row int) bool {
	if c.op(row) != mssqlcdc.Read {
		return c.start.Value(row) > lsnText(p.before.applied)
	}
	s, seen := c.snapshotOf(row), lsnText(p.before.seen())
	return s > seen || s == seen && c.chunkOf(row) > p.before.wave
}

// lsnText is an LSN as the text of bronze columns; the zero LSN is below all.
func lsnText(l mssqlcdc.LSN) string {
	if l.IsZero() {
		return ""
	}
	return l.String()
}

// makePlan looks through what is new.
func (a *Applier) makePlan(ctx context.Context, s *delta.Snapshot, l *layout, before progress) (*plan, error) {
	p := &plan{before: before, after: before}
	p.after.bronze, p.after.any = s.Version(), true
	log, err := readTold(s)
	if err != nil {
		return nil, err
	}
	if !log.position.IsZero() && log.position.Less(before.applied) {
		return nil, &BehindError{Target: a.cfg.TargetName, Bronze: a.cfg.BronzeName, Applied: before.applied, Have: log.position}
	}
	if p.files, err = a.newFiles(ctx, s, before); err != nil {
		return nil, err
	}
	f := &finding{plan: p}
	columns := l.read[:len(l.read)-len(l.captured)]
	for _, add := range p.files {
		p.bytes += add.Size
		for rec, err := range a.bronze.ReadFile(ctx, s, add, delta.ReadOptions{Columns: columns}) {
			if err != nil {
				return nil, fmt.Errorf("looking for new rows in %s: %w", a.cfg.BronzeName, err)
			}
			if err := f.look(rec); err != nil {
				return nil, err
			}
		}
	}
	return p, a.settle(ctx, s, p, f, log)
}

// settle finds out which snapshots are complete, and how far the table is afterwards.
func (a *Applier) settle(ctx context.Context, s *delta.Snapshot, p *plan, f *finding, log told) error {
	if err := f.advance(&p.after); err != nil {
		return err
	}
	whole, at := log.snapshot, log.snapshotTime
	if f.whole != "" {
		lsn, err := mssqlcdc.ParseLSN(f.whole)
		if err != nil {
			return fmt.Errorf("reading column %s: %w", mssqlcdc.ColSnapshot, err)
		}
		if whole.Less(lsn) {
			whole, at = lsn, f.wholeTime
		}
	}
	if open := p.after.seen(); whole.Less(open) && a.cfg.Facts != nil {
		lsn, err := a.completeByFacts(ctx)
		if err != nil {
			return err
		}
		if whole.Less(lsn) {
			// The facts were read after the version was pinned: the last chunks may have come
			// in between. Then the next call has them.
			now, err := a.bronze.Refresh(ctx)
			if err != nil {
				return fmt.Errorf("reading bronze: %w", err)
			}
			if now.Version() == s.Version() {
				whole, at = lsn, 0
			}
		}
	}
	p.since = lsnText(p.before.applied)
	for _, s := range []string{f.first, lsnText(whole)} {
		// What changes made of the table since a snapshot that nobody knew then was made
		// without it.
		if s != "" && s > lsnText(p.before.seen()) {
			p.since = min(p.since, s)
		}
	}
	if p.before.snapshot.Less(whole) {
		p.completed, p.after.snapshot = whole.String(), whole
	}
	if whole == p.after.snapshot {
		p.snapshotTime = at
	}
	p.times = map[string]int64{}
	if p.snapshotTime != 0 {
		p.times[p.after.snapshot.String()] = p.snapshotTime
	}
	if p.after.snapshot.Less(p.after.open) && log.begun != 0 {
		p.times[p.after.open.String()] = log.begun
	}
	if !p.after.snapshot.Less(p.after.open) {
		if p.after.open.Less(p.after.snapshot) { // a newer one, of which nothing more comes
			p.after.wave = -1
		}
		p.after.open = mssqlcdc.LSN{}
	}
	return nil
}

// finding gathers what new rows there are.
type finding struct {
	plan *plan

	applied   string // highest commit LSN of a change
	seen      string // newest snapshot
	first     string // oldest new snapshot
	wave      int64  // its last chunk
	whole     string // newest snapshot that came as a whole
	wholeTime int64
}

func (f *finding) look(rec arrow.RecordBatch) error {
	c, err := newChanges(rec)
	if err != nil {
		return err
	}
	for row := range int(rec.NumRows()) {
		if !f.plan.isNew(c, row) {
			continue
		}
		f.plan.rows++
		start := c.start.Value(row)
		if f.plan.base == "" || start < f.plan.base {
			f.plan.base = strings.Clone(start)
		}
		if c.op(row) != mssqlcdc.Read {
			if start > f.applied {
				f.applied = strings.Clone(start)
			}
			continue
		}
		s, chunk := c.snapshotOf(row), c.chunkOf(row)
		if s > lsnText(f.plan.before.seen()) && (f.first == "" || s < f.first) {
			f.first = strings.Clone(s)
		}
		switch {
		case s > f.seen:
			f.seen, f.wave = strings.Clone(s), chunk
		case s == f.seen:
			f.wave = max(f.wave, chunk)
		}
		if chunk < 0 && s > f.whole {
			f.whole, f.wholeTime = strings.Clone(s), 0
			if c.at.IsValid(row) {
				f.wholeTime = int64(c.at.Value(row))
			}
		}
	}
	return nil
}

// advance moves progress over what was found.
func (f *finding) advance(p *progress) error {
	if f.applied != "" {
		lsn, err := mssqlcdc.ParseLSN(f.applied)
		if err != nil {
			return fmt.Errorf("reading column %s: %w", mssqlcdc.ColStartLSN, err)
		}
		p.applied = lsn
	}
	if f.seen == "" {
		return nil
	}
	lsn, err := mssqlcdc.ParseLSN(f.seen)
	if err != nil {
		return fmt.Errorf("reading column %s: %w", mssqlcdc.ColSnapshot, err)
	}
	if lsn == p.snapshot {
		p.wave = max(p.wave, f.wave)
		return nil
	}
	if lsn == p.open {
		p.wave = max(p.wave, f.wave)
		return nil
	}
	p.open, p.wave = lsn, f.wave
	return nil
}

// newFiles are the data files that may have new rows: those that commits since the
// version applied last have added, where the log still has these commits, else those
// that statistics do not rule out. The rule for rows is that of isNew either way.
func (a *Applier) newFiles(ctx context.Context, s *delta.Snapshot, before progress) ([]action.Add, error) {
	if before.any && before.bronze >= s.Version() {
		return nil, nil
	}
	if before.any {
		files, ok, err := a.addedFiles(ctx, s, before.bronze)
		if err != nil || ok {
			return files, err
		}
	}
	at := map[string]bool{}
	var files []action.Add
	take := func(conditions ...prune.Condition) error {
		for add, err := range s.PrunedFiles(ctx, conditions) {
			if err != nil {
				return fmt.Errorf("choosing files of %s: %w", a.cfg.BronzeName, err)
			}
			if !at[add.Path] {
				at[add.Path] = true
				files = append(files, add)
			}
		}
		return nil
	}
	if !before.any {
		return files, take()
	}
	applied, seen := lsnText(before.applied), lsnText(before.seen())
	if _, ok := s.Schema().Field(mssqlcdc.ColSnapshot); !ok {
		// Rows of a whole snapshot may carry the very LSN that was applied last.
		return files, take(condition(mssqlcdc.ColStartLSN, prune.GreaterOrEqual, min(applied, seen)))
	}
	err := take(condition(mssqlcdc.ColStartLSN, prune.Greater, applied))
	return files, errors.Join(err, take(condition(mssqlcdc.ColSnapshot, prune.GreaterOrEqual, seen)))
}

func condition(column string, op prune.Op, text string) prune.Condition {
	return prune.Condition{Column: column, Op: op, Value: text}
}

// addedFiles are the files that the commits after a version added; not ok where the log
// does not have all of them, or where other commits have rearranged the rows since.
func (a *Applier) addedFiles(ctx context.Context, s *delta.Snapshot, after int64) (files []action.Add, ok bool, err error) {
	st := a.cfg.Bronze
	first, _, err := replay.CommitRange(ctx, st, after+1)
	if err != nil {
		return nil, false, fmt.Errorf("reading the log of %s: %w", a.cfg.BronzeName, err)
	}
	if first != after+1 {
		return nil, false, nil
	}
	byPath := map[string]bool{}
	for e, err := range replay.Commits(ctx, st, first, s.Version()) {
		if err != nil {
			return nil, false, fmt.Errorf("reading the log of %s: %w", a.cfg.BronzeName, err)
		}
		for _, r := range e.Commit.Removes {
			if byPath[r.Path] {
				return nil, false, nil
			}
		}
		for _, add := range e.Commit.Adds {
			if add.DataChange {
				byPath[add.Path] = true
				files = append(files, add)
			}
		}
	}
	return files, true, nil
}
