package input

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// scheduler decides what is read next: one poll of max_lsn for all tables, then a
// window for each table that moved, in turn, a few of them at once. It runs on
// one goroutine; each read has one of its own.
type scheduler struct {
	*stream
	reads    chan<- *read  // windows in the order in which they leave
	finished chan *read    // reads whose last part was read
	running  int           // windows that are being read
	chunks   int           // chunks that are being read
	helpers  chan struct{} // places of connections that read chunks beside those of their own
	group    sync.WaitGroup

	head      sqlserver.Head
	headMoved time.Time // when it was seen to move
	polledAt  time.Time
	foundAt   time.Time
	turn      int // where the round of tables goes on
	retry     backoff
	failures  int // polls in a row that failed
}

// read is a window that is being read.
type read struct {
	table    *table
	instance mssqlcdc.CaptureInstance
	window   mssqlcdc.Window
	chunk    *chunk // of the table's snapshot; nil of a window
	head     sqlserver.Head
	events   []mssqlcdc.Fact
	attempt  int64
	prev     mssqlcdc.LSN // end of the table's last window with rows before this one
	parts    chan sqlserver.Part
	err      error // set before parts is closed

	end       mssqlcdc.LSN // exact end, set before the read is finished
	endTime   time.Time
	watermark time.Time // commit time of min_lsn after the read
	rows      int64
}

// run polls and starts reads until the bounded run is complete, the context ends
// or nothing can go on.
func (s *scheduler) run(ctx context.Context) error {
	s.retry = backoff{first: retryFirst, most: retryMost}
	s.foundAt = time.Now()
	for {
		if err := s.pollIfDue(ctx); err != nil {
			if again, err := s.recover(ctx, err); !again {
				return err
			}
			continue
		}
		started, err := s.startReads(ctx)
		if err != nil {
			return err
		}
		if err := s.openDue(ctx); err != nil {
			return err
		}
		if err := s.release(ctx); err != nil {
			return err
		}
		if s.complete() {
			return nil
		}
		if err := s.pause(ctx, started); err != nil {
			return err
		}
	}
}

// maxFailures is how many polls in a row may fail before the input counts as
// disconnected, which is what the readiness probe asks for.
const maxFailures = 3

// recover waits after an error that trying again may cure.
func (s *scheduler) recover(ctx context.Context, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	class := sqlserver.Classify(err)
	s.metrics.errors.Incr(1, className(class))
	s.failures++
	if class != sqlserver.Transient || s.failures >= maxFailures {
		return false, err
	}
	pause := s.retry.step()
	s.log.Warnf("Trying again in %s: %v", pause, err)
	s.polledAt = time.Time{}
	if !wait(ctx.Done(), pause) {
		return false, context.Cause(ctx)
	}
	return true, nil
}

func (s *scheduler) newRead(t *table, window mssqlcdc.Window) *read {
	return &read{table: t, instance: t.layout.Instance, window: window, attempt: s.attempts.Add(1), head: s.head, prev: t.sentData, parts: make(chan sqlserver.Part, 1)}
}

// startReads starts a window of each table that moved, as many as may run.
func (s *scheduler) startReads(ctx context.Context) (bool, error) {
	started := false
	for range s.tables {
		if s.running >= s.config.parallelReads && s.chunks >= s.config.mostChunks() {
			break
		}
		t := s.tables[s.turn%len(s.tables)]
		s.turn++
		ok, err := s.startNext(ctx, t)
		if err != nil {
			return started, err
		}
		started = started || ok
	}
	return started, nil
}

// startNext starts a window or a chunk of the table, in turn where it has both.
func (s *scheduler) startNext(ctx context.Context, t *table) (bool, error) {
	if t.waits(time.Now()) {
		return false, nil
	}
	s.mind(t)
	window := t.moved && !t.reading && s.running < s.config.parallelReads
	from, chunk := t.nextChunk()
	chunk = chunk && s.chunks < s.config.mostChunks()
	switch {
	case chunk && (!window || t.snapshot.turn):
		return true, s.startChunk(ctx, t, from)
	case window:
		if t.snapshot != nil {
			t.snapshot.turn = true
		}
		return s.startRead(ctx, t)
	}
	return false, nil
}

// startRead plans the table's next window and starts to read it.
func (s *scheduler) startRead(ctx context.Context, t *table) (bool, error) {
	limits := s.config.limits
	limits.Ranges = max(1, s.config.parallelReads/max(1, s.active()))
	plan, events, err := s.plan(ctx, t, limits)
	if err == nil && plan.Window.IsEmpty() {
		t.moved = false
		return false, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, s.tableFailed(ctx, t, fmt.Errorf("planning a window of %s: %w", t.id, err))
	}
	r := s.newRead(t, plan.Window)
	r.events = events
	select {
	case s.reads <- r:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	t.reading = true
	s.running++
	request := sqlserver.ReadRequest{Layout: t.layout, Plan: plan, Limits: limits, Head: s.head}
	s.group.Go(func() { s.readWindow(ctx, r, request) })
	return true, nil
}

// plan decides the table's next window, in which capture instance it is read, and
// what happened in it beside the changes.
func (s *scheduler) plan(ctx context.Context, t *table, limits sqlserver.Limits) (sqlserver.Plan, []mssqlcdc.Fact, error) {
	if s.switchDue(t) {
		if err := s.switchInstance(ctx, t); err != nil {
			return sqlserver.Plan{}, nil, err
		}
	}
	upto, err := s.narrowed(ctx, t)
	if err != nil {
		return sqlserver.Plan{}, nil, err
	}
	plan, err := s.source.Plan(ctx, t.layout, t.sent, upto, limits)
	if err != nil || plan.Window.IsEmpty() {
		return plan, nil, err
	}
	events, err := s.reactToDDL(ctx, t, plan.Window)
	return plan, slices.Concat(t.events, events), err
}

// narrowed is where the table's next window may end: after reads that failed, fewer and
// fewer commits further, down to one. What the server takes too long over, or cannot
// send, holds up no more than itself.
func (s *scheduler) narrowed(ctx context.Context, t *table) (mssqlcdc.LSN, error) {
	upto := s.uptoOf(t)
	if t.narrow < 2 || !t.sent.Less(upto) {
		return upto, nil
	}
	commits := max(1, int64(65_536)>>min(62, 3*(t.narrow-1)))
	bound, err := s.source.CommitsAfter(ctx, t.sent, upto, commits)
	if err != nil || bound.IsZero() {
		return upto, err
	}
	s.log.Debugf("Table %s: the next window is cut to %d commits after %d reads that failed", t.id, commits, t.narrow)
	return bound, nil
}

// active counts the tables that have changes to read.
func (s *scheduler) active() int {
	n := 0
	for _, t := range s.tables {
		if t.moved && !t.isolated {
			n++
		}
	}
	return n
}

// readWindow reads a window. It holds one part in hand and one in the channel, which
// is all the read-ahead there is.
func (s *scheduler) readWindow(ctx context.Context, r *read, request sqlserver.ReadRequest) {
	defer func() { s.finished <- r }()
	defer close(r.parts)
	r.err = s.passOn(ctx, r, s.source.Read(ctx, request))
}

// passOn passes the parts on as they come.
func (s *scheduler) passOn(ctx context.Context, r *read, parts iter.Seq2[sqlserver.Part, error]) error {
	last := false
	for part, err := range parts {
		if err != nil {
			return err
		}
		r.rows += part.Record.NumRows()
		if part.Last {
			r.end, last = part.Window.End, true
			r.endTime, r.watermark = part.Window.EndTime, part.Metrics.MinLSNTime
		}
		select {
		case r.parts <- part:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !last {
		return errors.New("the last part is missing")
	}
	return nil
}

// settleRead takes a finished read into account.
func (s *scheduler) settleRead(ctx context.Context, r *read) error {
	t := r.table
	if r.chunk != nil {
		return s.settleChunk(ctx, r)
	}
	s.running--
	t.reading = false
	if r.err != nil {
		t.narrow++
		return s.tableFailed(ctx, t, fmt.Errorf("reading window %s of %s: %w", r.window, t.id, r.err))
	}
	t.recovered()
	t.narrow = max(0, t.narrow-1)
	t.measured(r.endTime, r.watermark)
	t.events = nil
	t.sent = r.end
	if r.rows > 0 {
		t.sentData = r.end
	}
	t.moved = t.sent.Less(s.upto())
	return nil
}

// complete tells whether a bounded run has read all it was to read.
func (s *scheduler) complete() bool {
	if s.setTarget(); s.target == nil || s.running+s.chunks > 0 {
		return false
	}
	for _, t := range s.tables {
		if !t.isolated && (t.sent.Less(*s.target) || s.snapshotOpen(t)) {
			return false
		}
	}
	return true
}

// pause waits for a read to finish, the next poll, or a table's next attempt.
func (s *scheduler) pause(ctx context.Context, started bool) error {
	if started {
		return nil // more may start
	}
	next := s.config.pollInterval - time.Since(s.polledAt)
	windows, chunks := s.running < s.config.parallelReads, s.chunks < s.config.mostChunks()
	for _, t := range s.tables {
		if !t.isolated && (windows && t.moved && !t.reading || chunks && t.chunkDue()) {
			next = min(next, time.Until(t.retryAt))
		}
	}
	if !windows {
		next = s.config.pollInterval // nothing can start before one finishes
	}
	timer := time.NewTimer(max(next, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case r := <-s.finished:
		return s.settleRead(ctx, r)
	case <-s.wake:
		return nil
	case err := <-s.nacked: // nothing is being handed out that would notice it
		return err
	case <-timer.C:
		return nil
	}
}

// wait returns when no read runs any more.
func (s *scheduler) wait() { s.group.Wait() }
