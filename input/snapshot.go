package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// snapshot is the snapshot of a table while it is open: its chunks are read one
// after the other beside the windows. Fields belong to the scheduler's goroutine
// but for those that say otherwise.
type snapshot struct {
	lsn     mssqlcdc.LSN
	time    time.Time // commit time of lsn
	key     sqlserver.SnapshotKey
	next    int64           // number of the next chunk to read
	from    sqlserver.Bound // where it begins
	ended   bool            // the final chunk was read
	reading bool
	turn    bool // the last read of the table was a window

	// released says that a window went out after the last acknowledgement: the
	// verdict, which the snapshot held, moves with it.
	released bool
	told     bool // that it is complete

	// Of the goroutine that hands out: what went out so far.
	prev, rows int64
}

// chunk is a chunk that is being read.
type chunk struct {
	of     *snapshot // another may take its place while the chunk is handed out
	number int64
	from   sqlserver.Bound

	// Set by the reading goroutine before the first part.
	to    sqlserver.Bound
	final bool
	stamp sqlserver.Head
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
	stamp, err := s.source.SnapshotStamp(ctx, instance)
	if err != nil {
		return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
	}
	key, err := s.snapshotKey(ctx, layout, names)
	if err != nil {
		return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
	}
	var last sqlserver.Bound
	if len(key.Columns) > 0 {
		if last, err = s.source.MaxKey(ctx, layout, key); err != nil {
			return checkpoint.State{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	state := startAt(instance, stamp.LSN, stamp.Time)
	state.Snapshot = checkpoint.NewSnapshot(stamp.LSN, stamp.Time, time.Now(), keyNames(key), last)
	return state, nil
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
		t.snapshot = &snapshot{lsn: open.LSN, time: open.Time, ended: true, told: true}
		return nil
	}
	same := func(a, b string) bool { return strings.EqualFold(a, b) }
	if len(names) > 0 && !slices.EqualFunc(names, open.Keys, same) {
		return &sqlserver.ConfigError{Field: overrideSnapshotKeys, Reason: fmt.Sprintf(
			"the snapshot %s of %s that is open is cut on the columns %q, not on %q: leave them until it is complete, or take it again with another %s",
			open.LSN, t.id, open.Keys, names, fieldCheckpointKey)}
	}
	t.snapshot = &snapshot{lsn: open.LSN, time: open.Time}
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
	s.next, s.from, s.ended = state.Done, state.From, state.Complete
	s.prev, s.rows = state.Prev, state.Rows
	s.reading, s.released = false, false
}

// chunkDue tells whether a chunk of the table can be read now.
func (t *table) chunkDue() bool {
	// A table that has chunks counts as having every change up to the snapshot, so those
	// leave first.
	return t.snapshot != nil && !t.snapshot.ended && !t.snapshot.reading && !t.sent.Less(t.snapshot.lsn)
}

// snapshotOpen tells whether a snapshot still keeps a bounded run from its end.
func (t *table) snapshotOpen() bool {
	return t.snapshot != nil && !t.snapshot.released || t.snapshotDue()
}

// snapshotDue tells whether the table is to be read whole after a switch.
func (t *table) snapshotDue() bool { return !t.isolated && t.tracker.acknowledged().SnapshotDue }

// openDue opens the snapshots that switches of the capture instance ask for.
func (s *scheduler) openDue(ctx context.Context) error {
	for _, t := range s.tables {
		if t.waits(time.Now()) || !t.snapshotDue() || t.snapshot != nil && t.snapshot.reading {
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
	if err := s.save(ctx, t, t.tracker.openSnapshot(fresh.Snapshot)); err != nil {
		return fmt.Errorf("storing that a snapshot is open: %w", err)
	}
	s.log.Infof("Table %s is read whole with the columns of capture instance %s, snapshot %s", t.id, t.layout.Instance.Name, fresh.Snapshot.LSN)
	return s.setup.resumeSnapshot(ctx, t, nil)
}

// startChunk starts to read the next chunk of the table's snapshot.
func (s *scheduler) startChunk(ctx context.Context, t *table) error {
	r := s.newRead(t, mssqlcdc.Window{})
	r.chunk = &chunk{of: t.snapshot, number: t.snapshot.next, from: t.snapshot.from}
	select {
	case s.reads <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.snapshot.reading, t.snapshot.turn = true, false
	s.running++
	s.group.Go(func() {
		defer func() { s.finished <- r }()
		defer close(r.parts)
		r.err = s.readChunk(ctx, r)
	})
	return nil
}

// readChunk decides where the chunk ends, stores that, and passes its parts on.
func (s *scheduler) readChunk(ctx context.Context, r *read) (err error) {
	t, c := r.table, r.chunk
	if c.to, c.final, err = s.planChunk(ctx, t, c); err != nil {
		return err
	}
	defer s.planAhead(ctx, t, c)()
	if c.stamp, err = s.source.SnapshotStamp(ctx, r.instance); err != nil {
		return fmt.Errorf("asking for the LSN of the chunk: %w", err)
	}
	if c.stamp.LSN.Less(c.of.lsn) {
		return &sqlserver.DataLossError{
			Instance: r.instance.Name, Table: t.id, From: c.of.lsn, During: true, Restored: true,
			Reason: fmt.Sprintf("max_lsn went back to %s behind the snapshot: the database was restored", c.stamp.LSN),
		}
	}
	return s.passOn(ctx, r, s.source.ReadChunk(ctx, sqlserver.ChunkRequest{
		Layout: t.layout, Key: c.of.key, From: c.from, To: c.to, Stamp: c.stamp,
		Isolation: s.config.snapshotIsolation, LockTimeout: s.config.server.LockTimeout, Limits: s.config.limits,
	}))
}

// planAhead decides where the chunk after this one ends while this one is read. The
// function that it returns waits for that. An error comes again when that chunk is
// read.
func (s *scheduler) planAhead(ctx context.Context, t *table, c *chunk) (wait func()) {
	if c.final {
		return func() {}
	}
	next := &chunk{of: c.of, number: c.number + 1, from: c.to}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, _, err := s.planChunk(ctx, t, next); err != nil && ctx.Err() == nil {
			s.log.Debugf("Deciding where chunk %d of %s ends is tried again later: %v", next.number, t.id, err)
		}
	}()
	return func() { <-done }
}

// planChunk is where the chunk ends, and whether it is the last. The answer is
// stored before the chunk is read: see checkpoint.Snapshot.
func (s *scheduler) planChunk(ctx context.Context, t *table, c *chunk) (to sqlserver.Bound, final bool, err error) {
	open := t.tracker.acknowledged().Snapshot
	if to, final, planned := open.End(c.number); planned {
		return to, final, nil
	}
	last := sqlserver.Bound(open.Last)
	key := c.of.key
	if len(last) > 0 {
		if to, err = s.source.NextBound(ctx, t.layout, key, c.from, last, s.config.snapshotChunkRows); err != nil {
			return nil, false, fmt.Errorf("looking for the end of the chunk: %w", err)
		}
	}
	if len(to) == 0 {
		final = true
		// Rows behind the last key of the open come as changes.
		if len(last) > 0 {
			if to, err = s.source.EndBound(ctx, t.layout, key, last); err != nil {
				return nil, false, fmt.Errorf("looking for the end of the snapshot: %w", err)
			}
		}
	}
	t.tracker.plan(to, final)
	if err := s.save(ctx, t, t.tracker.acknowledged()); err != nil {
		return nil, false, fmt.Errorf("storing where the chunk ends: %w", err)
	}
	return to, final, nil
}

// settleChunk takes a finished chunk into account.
func (s *scheduler) settleChunk(ctx context.Context, r *read) error {
	t := r.table
	r.chunk.of.reading = false
	if r.err != nil {
		return s.tableFailed(ctx, t, fmt.Errorf("reading chunk %d of snapshot %s of %s: %w", r.chunk.number, r.chunk.of.lsn, t.id, r.err))
	}
	t.backoff.reset()
	r.chunk.of.next, r.chunk.of.from, r.chunk.of.ended = r.chunk.number+1, r.chunk.to, r.chunk.final
	return nil
}

// release sends a window without rows after the last chunk of a snapshot was
// acknowledged, so that the verdict does not wait for the next change.
func (s *scheduler) release(ctx context.Context) error {
	for _, t := range s.tables {
		if t.isolated || t.reading || t.snapshot == nil || !t.snapshot.ended || t.snapshot.released {
			continue
		}
		state := t.tracker.acknowledged()
		if !state.Snapshot.Complete || state.LSN != t.sent {
			continue
		}
		if !t.snapshot.told {
			t.snapshot.told = true
			s.log.Infof("Snapshot %s of %s is complete: %d rows in %d chunks", t.snapshot.lsn, t.id, state.Snapshot.Rows, state.Snapshot.Done)
		}
		window := mssqlcdc.Window{Start: t.sent, End: t.sent, EndTime: state.CommitTime}
		if window.End == t.snapshot.lsn {
			window.EndTime = t.snapshot.time
		}
		if err := s.sendIdle(ctx, t, window, sqlserver.Movement{}); err != nil {
			return err
		}
		t.snapshot.released = true
	}
	return nil
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
	s.rows += rows
}

// openDetail is the detail of the event that a snapshot was opened.
func openDetail(generation int, key sqlserver.SnapshotKey, loss *sqlserver.DataLossError) map[string]any {
	detail := map[string]any{"mode": "chunked", "kind": "bootstrap", "generation": generation, "keys": keyNames(key)}
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
		add(mssqlcdc.EventSnapshotOpen, openDetail(generation, s.key, nil))
	}
	if r.chunk.final {
		event := mssqlcdc.EventBootstrap
		if open.LostFrom != nil {
			event = mssqlcdc.EventResnapshot
		}
		whole := add(event, map[string]any{
			"snapshot": s.lsn, "chunks": r.chunk.number + 1, "rows": s.rows + rows, "last_lsn": r.chunk.stamp.LSN,
		})
		whole.Rows, whole.LostFrom, whole.LostTo = s.rows+rows, open.LostFrom, open.LostTo
	}
	return events, errors.Join(errs...)
}
