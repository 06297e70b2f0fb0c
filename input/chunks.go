package input

import (
	"context"
	"fmt"
	"iter"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// Chunks of all tables are read one after the other; while one is handed out, the
// next may begin. Each of the two has a connection of its own, and they share
// snapshot_parallelism - 1 more, which go to the second when the first needs no more of
// them.

// mostChunks is how many chunks are read at once.
func (c config) mostChunks() int { return min(2, c.snapshotParallelism) }

// nextChunk is where the next chunk of the table begins, false if none can be read now.
func (t *table) nextChunk() (from sqlserver.Bound, due bool) {
	s := t.snapshot
	// A table that has chunks counts as having every change up to the snapshot, so those
	// leave first.
	if s == nil || s.ended || s.paused || t.isolated || t.sent.Less(s.lsn) {
		return nil, false
	}
	return t.tracker.acknowledged().Snapshot.Begin(s.next)
}

// chunkDue tells whether a chunk of the table can be read now.
func (t *table) chunkDue() bool {
	_, due := t.nextChunk()
	return due
}

// startChunk starts to read the next chunk of the table's snapshot.
func (s *scheduler) startChunk(ctx context.Context, t *table, from sqlserver.Bound) error {
	of := t.snapshot
	r := s.newRead(t, mssqlcdc.Window{})
	r.chunk = &chunk{of: of, layout: t.layout, number: of.next, from: from}
	reading, cancel := context.WithCancel(ctx)
	r.chunk.cancel = cancel
	select {
	case s.reads <- r:
	case <-ctx.Done():
		cancel()
		return context.Cause(ctx)
	}
	of.latest[r.chunk.number] = r.chunk
	of.next++
	of.reading++
	of.turn = false
	s.chunks++
	s.group.Go(func() {
		defer func() { s.finished <- r }()
		defer cancel()
		defer close(r.parts)
		r.err = s.readChunk(reading, r)
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
	if err := s.stamp(ctx, r); err != nil {
		return err
	}
	request := sqlserver.ChunkRequest{
		Layout: c.layout, Key: c.of.key, From: c.from, To: c.to, Stamp: c.stamp,
		Isolation: s.config.snapshotIsolation, LockTimeout: s.config.server.LockTimeout, Limits: s.config.limits,
		Helpers: s.helpers,
	}
	if c.of.whole {
		request.Isolation = sqlserver.Snapshot
	}
	return s.passOn(ctx, r, s.throughOf(ctx, r, s.source.ReadChunk(ctx, request)))
}

// stamp records the LSN of the chunk's rows, before they are read.
func (s *scheduler) stamp(ctx context.Context, r *read) (err error) {
	c := r.chunk
	if c.stamp, err = s.source.SnapshotStamp(ctx, r.instance); err != nil {
		return fmt.Errorf("asking for the LSN of the chunk: %w", err)
	}
	if c.stamp.LSN.Less(c.of.lsn) {
		return &sqlserver.DataLossError{
			Instance: r.instance.Name, Table: r.table.id, From: c.of.lsn, During: true, Restored: true,
			Reason: fmt.Sprintf("max_lsn went back to %s behind the snapshot: the database was restored", c.stamp.LSN),
		}
	}
	if c.of.whole {
		c.stamp.LSN, c.stamp.Time = c.of.lsn, c.of.time
	}
	return nil
}

// throughOf records max_lsn and the server's clock after the rows were read and before the last part leaves.
// Of a snapshot at one moment it is found out, too, whether that moment is S: whether
// nothing of the table was committed from S until the statement had begun.
func (s *scheduler) throughOf(ctx context.Context, r *read, parts iter.Seq2[sqlserver.Part, error]) iter.Seq2[sqlserver.Part, error] {
	c := r.chunk
	return func(yield func(sqlserver.Part, error) bool) {
		begun := ""
		for part, err := range parts {
			if err == nil && c.of.whole && begun == "" {
				begun, err = s.source.ServerClock(ctx)
			}
			if err == nil && part.Last {
				err = s.lookBack(ctx, r, begun)
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

func (s *scheduler) lookBack(ctx context.Context, r *read, begun string) error {
	c := r.chunk
	head, err := s.source.MaxLSN(ctx)
	if err != nil {
		return fmt.Errorf("asking for max_lsn after the chunk was read: %w", err)
	}
	c.through = head.LSN
	if c.clock, err = s.source.ServerTime(ctx); err != nil {
		return fmt.Errorf("asking for the time after the chunk was read: %w", err)
	}
	if c.of.whole {
		unchanged, known, err := s.source.UnchangedSince(ctx, r.instance, c.of.lsn, begun)
		if err != nil {
			return fmt.Errorf("asking for changes while the snapshot was taken: %w", err)
		}
		if known {
			c.exact = &unchanged
		}
	}
	return nil
}

// planAhead decides where the chunk after this one ends while this one is read. The
// function that it returns waits for that. An error comes again when that chunk is
// read.
func (s *scheduler) planAhead(ctx context.Context, t *table, c *chunk) (wait func()) {
	if c.final {
		return func() {}
	}
	next := &chunk{of: c.of, layout: c.layout, number: c.number + 1, from: c.to}
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
	c.of.planning.Lock()
	defer c.of.planning.Unlock()
	open := t.tracker.acknowledged().Snapshot
	if to, final, planned := open.End(c.number); planned {
		return to, final, nil
	}
	if to, final, err = s.chunkEnd(ctx, t, c, open); err != nil {
		return nil, false, err
	}
	t.tracker.plan(to, final)
	if err := s.save(ctx, t); err != nil {
		return nil, false, fmt.Errorf("storing where the chunk ends: %w", err)
	}
	s.wakeUp() // the next chunk can be read
	return to, final, nil
}

// chunkEnd asks where a chunk ends.
func (s *scheduler) chunkEnd(ctx context.Context, t *table, c *chunk, open *checkpoint.Snapshot) (to sqlserver.Bound, final bool, err error) {
	last, key := sqlserver.Bound(open.Last), c.of.key
	if len(last) == 0 {
		return nil, true, nil
	}
	// A question that fails again and again is asked for fewer rows.
	rows := max(1, s.config.snapshotChunkRows>>min(62, 3*t.failed.Load()))
	if to, err = s.source.NextBound(ctx, c.layout, key, c.from, last, rows); err != nil {
		return nil, false, fmt.Errorf("looking for the end of the chunk: %w", err)
	}
	if len(to) > 0 {
		return to, false, nil
	}
	// Rows behind the last key of the open come as changes.
	if to, err = s.source.EndBound(ctx, c.layout, key, last); err != nil {
		return nil, false, fmt.Errorf("looking for the end of the snapshot: %w", err)
	}
	return to, true, nil
}

// settleChunk takes a finished chunk into account.
func (s *scheduler) settleChunk(ctx context.Context, r *read) error {
	t, c, of := r.table, r.chunk, r.chunk.of
	s.chunks--
	of.reading--
	if of.latest[c.number] != c {
		return nil // it is read again, or belongs to another time
	}
	if c.discarded.Load() || r.err != nil {
		// Those after it are not handed out before it, so they are read again, too.
		for number := range of.latest {
			if number >= c.number {
				delete(of.latest, number)
			}
		}
		of.next, of.ended = c.number, false
		if c.discarded.Load() {
			return nil
		}
		return s.tableFailed(ctx, t, fmt.Errorf("reading chunk %d of snapshot %s of %s: %w", c.number, of.lsn, t.id, r.err))
	}
	delete(of.latest, c.number)
	t.recovered()
	if of.through.Less(c.through) {
		of.through = c.through
	}
	if c.clock.After(of.clock) {
		of.clock = c.clock
	}
	of.ended = of.ended || c.final
	return nil
}

// inOrder tells whether the chunk is the next to hand out. It is not if one before it
// failed: it is then thrown away.
func (c *chunk) inOrder() bool {
	if c.number == c.of.out {
		return true
	}
	c.discarded.Store(true)
	c.cancel()
	return false
}

// mind pauses the chunks of a table while clean-up is close behind its changes, which are
// read first then. A table that has no changes to read has nothing to lose.
func (s *scheduler) mind(t *table) {
	least := s.config.snapshotMinHeadroom
	if t.snapshot == nil || least <= 0 {
		return
	}
	paused := t.headroom != nil && *t.headroom < least && t.sent.Less(s.upto()) && !t.snapshot.ended
	if paused == t.snapshot.paused {
		return
	}
	t.snapshot.paused = paused
	s.metrics.pausing(t.id, paused)
	if paused {
		s.log.Warnf("The snapshot of %s pauses until its changes are read: clean-up is only %s behind them, %s is %s",
			t.id, t.headroom.Round(time.Second), fieldSnapshotMinHeadroom, least)
		return
	}
	s.log.Infof("The snapshot of %s goes on", t.id)
}

// measured takes in how far clean-up is behind what was read of a table.
func (t *table) measured(position, watermark time.Time) {
	if !position.IsZero() && !watermark.IsZero() {
		t.headroom = new(position.Sub(watermark))
	}
}
