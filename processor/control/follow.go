package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Followed is what a table that is built from another one has of it.
type Followed struct {
	// Target is the row, Path the table as configured: two tables must not share a row.
	Target, Path string
	// Source is the verdict of the table that it is built from, read before the version
	// that was applied; the zero Verdict if that has none.
	Source Verdict
	// How far it is; see Verdict.
	AppliedLSN, SnapshotLSN, OpenSnapshot mssqlcdc.LSN
	SnapshotWave                          int64
	// SnapshotTime is when the first row of the snapshot of SnapshotLSN was read, UTC; zero if
	// unknown.
	SnapshotTime time.Time
	// HeldBy says why the verdict must not move; empty: nothing but the source holds it.
	HeldBy string
	// Anew says that the table is built anew, so that its row begins anew, too.
	Anew bool
}

// SharedRowError reports two tables that are configured with one row.
type SharedRowError struct {
	Target, Path, Other string
}

// Error names both tables and the way out.
func (e *SharedRowError) Error() string {
	return fmt.Sprintf("row %q of the control table is that of table %s, and table %s would write it, too: give one of them another name with the field table", e.Target, e.Other, e.Path)
}

// openEnd is where a gap ends that no snapshot has closed yet.
func openEnd() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

// Follow moves the verdict of a table to that of the table it is built from: never ahead
// of it. A stretch of lost changes lasts here until a complete snapshot that was read after
// it has brought the rows again. It tells the verdict after the call and whether the table
// changed.
func (t *Table) Follow(ctx context.Context, f Followed) (Verdict, bool, error) {
	v, changed, err := t.move(ctx, f.Target, f.advance)
	if err != nil {
		return Verdict{}, false, fmt.Errorf("moving the verdict of %q: %w", f.Target, err)
	}
	return v, changed, nil
}

// advance gives the verdict after f, and whether it differs.
func (f Followed) advance(v Verdict, now time.Time) (Verdict, bool, error) {
	if v.Path != "" && v.Path != f.Path {
		return v, false, &SharedRowError{Target: f.Target, Path: f.Path, Other: v.Path}
	}
	next := v
	if f.Anew {
		next = Verdict{}
	}
	next.Target, next.Path = f.Target, f.Path
	next.AppliedLSN, next.SnapshotLSN, next.OpenSnapshot, next.SnapshotWave = f.AppliedLSN, f.SnapshotLSN, f.OpenSnapshot, f.SnapshotWave
	next.Gaps = f.gaps(next)
	next.CompleteFrom = f.Source.CompleteFrom
	next.HeldBy = f.HeldBy
	if next.HeldBy == "" {
		next.HeldBy = f.Source.HeldBy
	}
	if f.HeldBy == "" && f.Source.FinalizedUntil.After(next.FinalizedUntil) {
		next.FinalizedUntil, next.EndLSN, next.EndCommitTime = f.Source.FinalizedUntil, f.Source.EndLSN, f.Source.EndCommitTime
	}
	changed := !next.same(v)
	return next.updated(changed, now), changed, nil
}

// gaps are those of the source, each until a snapshot closed it.
func (f Followed) gaps(before Verdict) []Gap {
	var gaps []Gap
	for _, lost := range f.Source.Gaps {
		gap := Gap{From: lost.From, To: openEnd()}
		at := slices.IndexFunc(before.Gaps, func(g Gap) bool { return g.From.Equal(lost.From) })
		switch {
		case at >= 0 && before.Gaps[at].To.Before(openEnd()):
			gap.To = before.Gaps[at].To
		case !f.SnapshotTime.IsZero() && !f.SnapshotTime.Before(lost.To):
			gap.To = f.SnapshotTime
		}
		gaps = append(gaps, gap)
	}
	return gaps
}

// same compares all but the time of the change.
func (v Verdict) same(o Verdict) bool {
	return v.Target == o.Target && v.Path == o.Path && v.FinalizedUntil.Equal(o.FinalizedUntil) && v.EndLSN == o.EndLSN &&
		v.EndCommitTime.Equal(o.EndCommitTime) && v.CompleteFrom.Equal(o.CompleteFrom) && v.HeldBy == o.HeldBy &&
		v.AppliedLSN == o.AppliedLSN && v.SnapshotLSN == o.SnapshotLSN && v.OpenSnapshot == o.OpenSnapshot && v.SnapshotWave == o.SnapshotWave &&
		slices.EqualFunc(v.Gaps, o.Gaps, func(a, b Gap) bool { return a.From.Equal(b.From) && a.To.Equal(b.To) })
}
