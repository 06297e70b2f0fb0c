package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// snapshot is the snapshot of a table while it is open: its chunks are read beside
// the windows, one or two at once, and leave in order. Fields belong to the
// scheduler's goroutine but for those that say otherwise.
type snapshot struct {
	lsn   mssqlcdc.LSN
	time  time.Time // commit time of lsn
	key   sqlserver.SnapshotKey
	whole bool // read at one moment

	next    int64            // number of the next chunk to read
	reading int              // chunks that are being read
	latest  map[int64]*chunk // the last attempt at each of those
	ended   bool             // the final chunk was read
	turn    bool             // the last read of the table was a window
	through mssqlcdc.LSN     // max_lsn after the last chunk was read
	clock   time.Time        // the server's clock then
	paused  bool             // clean-up is too close behind the stream

	// released says that a window went out after the last acknowledgement: the
	// verdict, which the snapshot held, moves with it.
	released bool
	told     bool // that it is complete
	waits    bool // a window after that went out, whether or not it was released

	planning sync.Mutex // held while the end of a chunk is decided

	// Of the goroutine that hands out: which chunk is next, what went out so far.
	out        int64
	prev, rows int64
}

// chunk is a chunk that is being read.
type chunk struct {
	of     *snapshot // another may take its place while the chunk is handed out
	layout sqlserver.Layout
	number int64
	from   sqlserver.Bound

	cancel    context.CancelFunc
	discarded atomic.Bool // a chunk before it failed

	// Set by the reading goroutine: before the first part, and before the last.
	to      sqlserver.Bound
	final   bool
	stamp   sqlserver.Head
	through mssqlcdc.LSN // max_lsn after it was read
	clock   time.Time    // the server's clock then
	exact   *bool        // of a snapshot at one moment: the moment is S; nil is not known
}

// snapshot names the snapshot of a chunk; zero for nil, which is a window.
func (c *chunk) snapshot() mssqlcdc.LSN {
	if c == nil {
		return mssqlcdc.LSN{}
	}
	return c.of.lsn
}

// begin opens a snapshot: its S, and what will be read. The changes after S come as
// windows.
func (s setup) beginSnapshot(ctx context.Context, layout sqlserver.Layout, names []string) (checkpoint.State, error) {
	instance := layout.Instance
	doing := "opening a snapshot of " + instance.Table.String()
	stamp, err := s.stampOf(ctx, instance)
	if err != nil {
		return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
	}
	whole := s.config.snapshotMode == snapshotWhole
	if whole {
		if err := s.source.CheckSnapshotAllowed(ctx); err != nil {
			return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	var key sqlserver.SnapshotKey
	if !whole {
		if key, err = s.snapshotKey(ctx, layout, names); err != nil {
			return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	var last sqlserver.Bound
	if len(key.Columns) > 0 {
		if last, err = s.source.MaxKey(ctx, layout, key); err != nil {
			return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	state := startAt(instance, stamp.LSN, stamp.Time)
	state.Snapshot = checkpoint.NewSnapshot(stamp.LSN, stamp.Time, time.Now(), keyNames(key), last)
	state.Snapshot.Whole = whole
	return state, nil
}

// stampOf is the S of a snapshot. Tables that are opened together share it, but for one
// that began later: its S may lie behind max_lsn, which is what others stamp their rows with.
func (s setup) stampOf(ctx context.Context, instance mssqlcdc.CaptureInstance) (sqlserver.Head, error) {
	first := instance.StartLSN.Prev()
	if s.shared != nil && !s.shared.LSN.IsZero() && !s.shared.LSN.Less(first) {
		return *s.shared, nil
	}
	stamp, err := s.source.SnapshotStamp(ctx, instance)
	if err == nil && s.shared != nil && s.shared.LSN.IsZero() && stamp.LSN != first {
		*s.shared = stamp
	}
	return stamp, err
}

func (s setup) snapshotKey(ctx context.Context, layout sqlserver.Layout, names []string) (sqlserver.SnapshotKey, error) {
	key, err := s.source.SnapshotKey(ctx, layout, names)
	key.Isolation = s.config.snapshotIsolation
	return key, err
}

func keyNames(key sqlserver.SnapshotKey) []string {
	var names []string
	for _, c := range key.Columns {
		names = append(names, c.Name)
	}
	return names
}

// resumeSnapshot goes on with a snapshot that is open, on the columns that it was
// opened with.
func (s setup) resumeSnapshot(ctx context.Context, t *table, names []string) error {
	state := t.tracker.acknowledged()
	open := state.Snapshot
	if open == nil {
		return nil
	}
	if open.Complete {
		// The process may have ended before the verdict was released.
		t.snapshot = &snapshot{lsn: open.LSN, time: open.Time, ended: true, told: true, through: open.Through, clock: open.ThroughTime}
		return nil
	}
	same := func(a, b string) bool { return strings.EqualFold(a, b) }
	if len(names) > 0 && !open.Whole && !slices.EqualFunc(names, open.Keys, same) {
		return &sqlserver.ConfigError{Field: overrideSnapshotKeys, Reason: fmt.Sprintf(
			"the snapshot %s of %s that is open is cut on the columns %q, not on %q: leave them until it is complete, or take it again with another %s",
			open.LSN, t.id, open.Keys, names, fieldCheckpointKey)}
	}
	t.snapshot = &snapshot{lsn: open.LSN, time: open.Time, whole: open.Whole}
	if len(open.Keys) > 0 {
		key, err := s.snapshotKey(ctx, t.layout, open.Keys)
		if err != nil {
			return fmt.Errorf("going on with the snapshot %s of %s: %w", open.LSN, t.id, err)
		}
		t.snapshot.key = key
	}
	t.snapshot.rewind(open)
	return nil
}

// rewind goes back to what was acknowledged.
func (s *snapshot) rewind(state *checkpoint.Snapshot) {
	s.next, s.ended, s.through, s.clock = state.Done, state.Complete, state.Through, state.ThroughTime
	s.out, s.prev, s.rows = state.Done, state.Prev, state.Rows
	s.reading, s.latest, s.released = 0, map[int64]*chunk{}, false
	s.waits = false
}

// snapshotDue tells whether the table is to be read whole after a switch.
func (t *table) snapshotDue() bool { return !t.isolated && t.tracker.acknowledged().SnapshotDue }

// openDue opens the snapshots that switches of the capture instance ask for.
func (s *scheduler) openDue(ctx context.Context) error {
	for _, t := range s.tables {
		if t.waits(time.Now()) || !t.snapshotDue() || t.snapshot != nil && t.snapshot.reading > 0 {
			continue
		}
		if err := s.openOnSwitch(ctx, t); err != nil {
			if err := s.tableFailed(ctx, t, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// openOnSwitch reads the table whole with the columns of its newer instance. A
// snapshot that is still open has no use beside it.
func (s *scheduler) openOnSwitch(ctx context.Context, t *table) error {
	keys := s.config.overrideFor(t.id).snapshotKeys
	fresh, err := s.setup.beginSnapshot(ctx, t.layout, keys)
	if err != nil {
		return err
	}
	// Every change up to here comes in a window of this run.
	fresh.Snapshot.OnSwitch, fresh.Snapshot.LSN, fresh.Snapshot.Time = true, s.upto(), time.Time{}
	if s.head.LSN == fresh.Snapshot.LSN {
		fresh.Snapshot.Time = s.head.Time
	}
	t.tracker.openSnapshot(fresh.Snapshot)
	if err := s.save(ctx, t); err != nil {
		return fmt.Errorf("storing that a snapshot is open: %w", err)
	}
	s.log.Infof("Table %s is read whole with the columns of capture instance %s, snapshot %s", t.id, t.layout.Instance.Name, fresh.Snapshot.LSN)
	return s.setup.resumeSnapshot(ctx, t, nil)
}

// handingOut is what the envelope of a chunk says about those before it. It belongs
// to the goroutine that hands out.
func (s *snapshot) handingOut(r *read, e *mssqlcdc.Envelope) {
	c := r.chunk
	e.Window = mssqlcdc.Window{Start: c.stamp.LSN, End: c.stamp.LSN, EndTime: c.stamp.Time}
	e.Chunk = &mssqlcdc.Chunk{
		Snapshot: s.lsn, Number: c.number, Prev: s.prev, Stamp: c.stamp.LSN, StampTime: c.stamp.Time, Final: c.final,
	}
}

// handedOut counts a chunk that is out whole.
func (s *snapshot) handedOut(c *chunk, rows int64) {
	if rows > 0 {
		s.prev = c.number
	}
	s.out = c.number + 1
	s.rows += rows
}

// openDetail is the detail of the event that a snapshot was opened.
func (s *snapshot) openDetail(generation int, loss *sqlserver.DataLossError) map[string]any {
	detail := map[string]any{"mode": "chunked", "kind": "bootstrap", "generation": generation, "keys": keyNames(s.key)}
	if s.whole {
		detail["mode"] = "full"
	}
	if loss != nil {
		detail["kind"], detail["reason"] = "resnapshot", loss.Reason
	}
	return detail
}

// events are the facts of a chunk's last part: that the snapshot was opened, and
// that it is complete.
func (s *snapshot) events(r *read, generation int, open checkpoint.Snapshot, rows int64) ([]mssqlcdc.Fact, error) {
	var events []mssqlcdc.Fact
	var errs []error
	add := func(event mssqlcdc.Event, detail map[string]any) *mssqlcdc.Fact {
		text, err := json.Marshal(detail)
		errs = append(errs, err)
		fact := eventAt(event, r.instance, s.lsn)
		fact.EndCommitTime, fact.StartedAt, fact.Detail = known(s.time), known(open.Opened), string(text)
		events = append(events, fact)
		return &events[len(events)-1]
	}
	if r.chunk.number == 0 && open.LostFrom == nil { // otherwise it was said with the loss
		add(mssqlcdc.EventSnapshotOpen, s.openDetail(generation, nil))
	}
	if r.chunk.final {
		event := mssqlcdc.EventBootstrap
		if open.LostFrom != nil {
			event = mssqlcdc.EventResnapshot
		}
		detail := map[string]any{
			"snapshot": s.lsn, "chunks": r.chunk.number + 1, "rows": s.rows + rows, "last_lsn": r.chunk.stamp.LSN,
		}
		if r.chunk.exact != nil {
			detail["exact"] = *r.chunk.exact
		}
		whole := add(event, detail)
		whole.Rows, whole.LostFrom, whole.LostTo = s.rows+rows, open.LostFrom, open.LostTo
	}
	return events, errors.Join(errs...)
}
