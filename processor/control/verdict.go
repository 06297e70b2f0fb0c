package control

import (
	"encoding/json"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Granularity is the length of the periods that verdicts speak of.
type Granularity string

// The granularities. Periods begin at full minutes, hours or days of UTC.
const (
	Minute Granularity = "minute"
	Hour   Granularity = "hour"
	Day    Granularity = "day"
)

// Truncate gives the begin of the period that holds t, in UTC: the latest time
// before which nothing can come any more once t was reached. The period of t
// itself stays open, since commits of one 1/300 s share a time.
func (g Granularity) Truncate(t time.Time) (time.Time, error) {
	t = t.UTC()
	switch g {
	case Minute:
		return t.Truncate(time.Minute), nil
	case Hour:
		return t.Truncate(time.Hour), nil
	case Day:
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC), nil
	}
	return time.Time{}, fmt.Errorf("unknown granularity %q: want minute, hour or day", g)
}

// Verdict is one row of the control table.
type Verdict struct {
	Target         string       // the key: the name as configured
	FinalizedUntil time.Time    // UTC; zero before the first verdict
	EndLSN         mssqlcdc.LSN // end of the window that last moved it
	EndCommitTime  time.Time    // its commit time, UTC
	UpdatedAt      time.Time    // when it moved, UTC
	CompleteFrom   time.Time    // UTC; commits up to it, those of that very time included, may be missing; zero: none is
	Gaps           []Gap        // what was lost on the way, oldest first
	HeldBy         string       // why the verdict stands still; empty: it does not

	// Of tables that are built from another one; see Followed. Zero for all others.
	Path         string       // of the table, as configured
	AppliedLSN   mssqlcdc.LSN // highest commit applied
	SnapshotLSN  mssqlcdc.LSN // newest snapshot that is in the table whole
	OpenSnapshot mssqlcdc.LSN // a newer one, of which rows are still to come
	SnapshotWave int64        // last chunk of the newest one that is applied, -1 for none
}

// Gap is a stretch of commit times whose changes were lost.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Answer says whether a period is complete.
type Answer int

// The answers.
const (
	NotYet       Answer = iota // further rows can come, or completeness begins later
	Final                      // complete
	FinalOverGap               // no further rows will come, but some were lost
)

// Answer says whether everything from one time (inclusive) to another
// (exclusive) is complete. A zero from asks for the end only.
func (v Verdict) Answer(from, until time.Time) Answer {
	if v.FinalizedUntil.IsZero() || v.FinalizedUntil.Before(until) {
		return NotYet
	}
	if !v.CompleteFrom.IsZero() && (!until.After(v.CompleteFrom) || !from.IsZero() && !from.After(v.CompleteFrom)) {
		return NotYet
	}
	for _, gap := range v.Gaps {
		if gap.From.Before(until) && (from.IsZero() || gap.To.After(from)) {
			return FinalOverGap
		}
	}
	return Final
}

// gapText is the column gap: NULL without gaps, otherwise JSON.
func gapText(gaps []Gap) (any, error) {
	if len(gaps) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(gaps)
	if err != nil {
		return nil, fmt.Errorf("writing gaps: %w", err)
	}
	return string(text), nil
}

func parseGaps(text string) ([]Gap, error) {
	var gaps []Gap
	if err := json.Unmarshal([]byte(text), &gaps); err != nil {
		return nil, fmt.Errorf("reading column gap: %w", err)
	}
	return gaps, nil
}

// Candidate is what a committed window brings to a verdict.
type Candidate struct {
	Target        string
	Granularity   Granularity
	EndLSN        mssqlcdc.LSN
	EndCommitTime time.Time // UTC; zero moves nothing
	CompleteFrom  time.Time // UTC
	Gaps          []Gap     // newly lost
	HeldBy        string    // why the verdict must not move now; empty: nothing holds it
}

// advance gives the verdict after the candidate, and whether it differs.
func (v Verdict) advance(c Candidate, now time.Time) (Verdict, bool, error) {
	next := v
	next.Target = c.Target
	changed := false
	gaps := c.Gaps
	if !v.FinalizedUntil.IsZero() && !v.EndCommitTime.IsZero() && c.CompleteFrom.After(v.EndCommitTime) {
		// The stream was begun anew above what the verdict stands on, with a snapshot: the
		// changes between are in no window.
		gaps = append(gaps[:len(gaps):len(gaps)], Gap{From: v.EndCommitTime, To: c.CompleteFrom.UTC()})
	}
	for _, gap := range gaps {
		if !containsGap(next.Gaps, gap) {
			next.Gaps = append(next.Gaps[:len(next.Gaps):len(next.Gaps)], gap)
			changed = true
		}
	}
	if c.CompleteFrom.After(next.CompleteFrom) && v.FinalizedUntil.IsZero() {
		next.CompleteFrom, changed = c.CompleteFrom.UTC(), true
	}
	if next.HeldBy != c.HeldBy {
		next.HeldBy, changed = c.HeldBy, true
	}
	if c.EndCommitTime.IsZero() || c.HeldBy != "" {
		return next.updated(changed, now), changed, nil
	}
	until, err := c.Granularity.Truncate(c.EndCommitTime)
	if err != nil {
		return v, false, err
	}
	// Nothing before the begin of completeness is ever called final.
	if until.After(next.FinalizedUntil) && until.After(next.CompleteFrom) {
		next.FinalizedUntil, next.EndLSN, next.EndCommitTime = until, c.EndLSN, c.EndCommitTime.UTC()
		changed = true
	}
	return next.updated(changed, now), changed, nil
}

func (v Verdict) updated(changed bool, now time.Time) Verdict {
	if changed {
		v.UpdatedAt = now.UTC().Truncate(time.Microsecond)
	}
	return v
}

func containsGap(gaps []Gap, gap Gap) bool {
	for _, g := range gaps {
		if g.From.Equal(gap.From) && g.To.Equal(gap.To) {
			return true
		}
	}
	return false
}
