package input

import (
	"context"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// A chunk shows whatever was committed until its statement read a row, also what
// capture has not come to. A row that such a commit moved from a part of the table that
// is not read yet to one that was read is in no chunk. So the verdict stands still after
// the last chunk until the changes have come as far as the server's clock was then: every
// commit that a chunk can show has an earlier time, and LSNs follow commit times.

// captureWait is how long a bounded run waits for capture to go on, which scans every
// five seconds if it has something to do. A run that ends before leaves the verdict to
// the next one.
const captureWait = 10 * time.Second

// covered tells whether the changes up to the table's position hold what the chunks of
// its snapshot may show, and a commit time that proves it.
func (s *scheduler) covered(state checkpoint.State) (at time.Time, covered bool) {
	open := state.Snapshot
	if !open.Holds(state.LSN, state.CommitTime) {
		return state.CommitTime, true
	}
	at = s.timeBefore(state.LSN)
	return at, !open.Holds(state.LSN, at)
}

// timeBefore is the latest commit time that is known of an LSN that does not lie after a
// position; zero if none is.
func (s *scheduler) timeBefore(position mssqlcdc.LSN) (at time.Time) {
	if s.target != nil && !position.Less(*s.target) {
		at = s.targetTime
	}
	if !position.Less(s.head.LSN) && s.head.Time.After(at) {
		at = s.head.Time
	}
	return at
}

// awaits tells whether the verdict waits for nothing but a window up to the head.
func (s *scheduler) awaits(t *table) bool {
	if t.snapshot == nil || !t.snapshot.ended || t.snapshot.released || !checkpoint.Covers(s.head.Time, t.snapshot.clock) {
		return false
	}
	_, covered := s.covered(t.tracker.acknowledged())
	return !covered
}

// snapshotOpen tells whether a snapshot still keeps a bounded run from its end. One
// that is read whole does not if capture stands still.
func (s *scheduler) snapshotOpen(t *table) bool {
	switch {
	case t.snapshotDue():
		return true
	case t.snapshot == nil || t.snapshot.released:
		return false
	}
	state := t.tracker.acknowledged()
	open := state.Snapshot
	return !open.Complete || !t.snapshot.waits || state.LSN.Less(open.Through) || checkpoint.Covers(s.head.Time, open.ThroughTime) || s.capturing()
}

// capturing tells whether capture was seen to go on a short while ago.
func (s *scheduler) capturing() bool {
	return !s.headMoved.IsZero() && time.Since(s.headMoved) < captureWait
}

// release sends a window without rows after the last chunk of a snapshot was
// acknowledged and the changes came as far as the chunks, so that the verdict does not
// wait for the next change.
func (s *scheduler) release(ctx context.Context) error {
	for _, t := range s.tables {
		if t.isolated || t.reading || t.snapshot == nil || !t.snapshot.ended || t.snapshot.released {
			continue
		}
		state := t.tracker.acknowledged()
		open := state.Snapshot
		if !open.Complete || state.LSN.Less(open.Through) || state.LSN != t.sent {
			continue
		}
		if !t.snapshot.told {
			t.snapshot.told = true
			s.log.Infof("Snapshot %s of %s is complete: %d rows in %d chunks", t.snapshot.lsn, t.id, open.Rows, open.Done)
		}
		at, covered := s.covered(state)
		if !covered && t.snapshot.waits {
			continue
		}
		// One that is not covered says what the verdict waits for.
		window := mssqlcdc.Window{Start: t.sent, End: t.sent, EndTime: at}
		if err := s.sendIdle(ctx, t, window, sqlserver.Movement{}); err != nil {
			return err
		}
		if t.snapshot.released, t.snapshot.waits = covered, true; !covered {
			s.log.Infof("The verdict of %s moves when capture has come to a commit after %s, when the last of its rows were read",
				t.id, open.ThroughTime.Format(time.RFC3339))
		}
	}
	return nil
}
