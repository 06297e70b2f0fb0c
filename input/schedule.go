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
	reads    chan<- *read // windows in the order in which they leave
	finished chan *read   // reads whose last part was read
	running  int
	group    sync.WaitGroup

	head     sqlserver.Head
	polledAt time.Time
	foundAt  time.Time
	turn     int // where the round of tables goes on
	retry    backoff
	failures int // polls in a row that failed
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

	end  mssqlcdc.LSN // exact end, set before the read is finished
	rows int64
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

// pollIfDue asks how far capture has come and which tables moved.
func (s *scheduler) pollIfDue(ctx context.Context) error {
	now := time.Now()
	if !s.polledAt.IsZero() && now.Sub(s.polledAt) < s.config.pollInterval {
		return nil
	}
	if now.Sub(s.foundAt) >= s.tablesInterval() {
		s.foundAt = now
		if err := s.findMore(ctx); err != nil {
			return err
		}
	}
	head, err := s.source.MaxLSN(ctx)
	if err != nil {
		return fmt.Errorf("polling max_lsn: %w", err)
	}
	if !head.LSN.Less(s.head.LSN) || s.head.LSN.IsZero() {
		s.head = head
	}
	s.polledAt = now
	s.metrics.polled(head)
	if s.config.run == runAvailableNow && s.target == nil {
		target := head.LSN
		s.target = &target
	}
	if err := s.look(ctx, now); err != nil {
		return err
	}
	if err := s.lookForNewer(ctx); err != nil {
		return err
	}
	s.retry.reset()
	s.failures = 0
	return nil
}

// tablesInterval is how often tables are looked for: soon again while some wait for
// capture.
func (s *scheduler) tablesInterval() time.Duration {
	if len(s.waiting) > 0 {
		return min(s.config.tablesInterval, max(s.config.pollInterval, time.Second))
	}
	return s.config.tablesInterval
}

// upto is the last LSN that a window may end at.
func (s *scheduler) upto() mssqlcdc.LSN {
	if s.target != nil {
		return *s.target
	}
	return s.head.LSN
}

// look finds out which tables moved and advances the ones that did not.
func (s *scheduler) look(ctx context.Context, now time.Time) error {
	var asked []*table
	var cursors []sqlserver.Cursor
	for _, t := range s.tables {
		if !t.ready(now) || t.moved || !t.sent.Less(s.upto()) {
			continue
		}
		if err := t.loss; err != nil {
			t.loss = nil
			if err := s.tableFailed(ctx, t, err); err != nil {
				return err
			}
			continue
		}
		if !t.checked {
			done, err := s.setup.checkRestored(ctx, t, s.head)
			if err != nil {
				if err := s.tableFailed(ctx, t, err); err != nil {
					return err
				}
				continue
			}
			if !done {
				continue
			}
			t.checked = true
		}
		asked, cursors = append(asked, t), append(cursors, t.cursor())
	}
	if len(asked) == 0 {
		return nil
	}
	movements, err := s.source.Moved(ctx, cursors, s.upto())
	if err != nil {
		return fmt.Errorf("looking for changed tables: %w", err)
	}
	for i, t := range asked {
		if err := s.moved(ctx, t, movements[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (s *scheduler) moved(ctx context.Context, t *table, m sqlserver.Movement, now time.Time) error {
	switch {
	case m.Err != nil:
		return s.tableFailed(ctx, t, m.Err)
	case m.Moved:
		t.moved = true
		return nil
	case s.target == nil && now.Sub(t.idleAt) < s.config.idleInterval:
		return nil
	}
	window := mssqlcdc.Window{Start: t.sent, End: s.upto()}
	if window.End == s.head.LSN {
		window.EndTime = s.head.Time
	}
	t.idleAt = now
	return s.sendIdle(ctx, t, window, m)
}

// sendIdle sends a window without rows, which nobody needs to read.
func (s *scheduler) sendIdle(ctx context.Context, t *table, window mssqlcdc.Window, m sqlserver.Movement) error {
	r := s.newRead(t, window)
	r.end, r.events, t.events = window.End, t.events, nil
	part := s.source.Idle(t.layout, window, m, s.head)
	r.parts <- part
	close(r.parts)
	t.sent = window.End
	select {
	case s.reads <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *scheduler) newRead(t *table, window mssqlcdc.Window) *read {
	return &read{table: t, instance: t.layout.Instance, window: window, attempt: s.attempts.Add(1), head: s.head, prev: t.sentData, parts: make(chan sqlserver.Part, 1)}
}

// startReads starts a window of each table that moved, as many as may run.
func (s *scheduler) startReads(ctx context.Context) (bool, error) {
	started := false
	for range s.tables {
		if s.running >= s.config.parallelReads {
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
	window := t.moved && !t.reading
	switch {
	case t.chunkDue() && (!window || t.snapshot.turn):
		return true, s.startChunk(ctx, t)
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
	plan, err := s.source.Plan(ctx, t.layout, t.sent, s.uptoOf(t), limits)
	if err != nil || plan.Window.IsEmpty() {
		return plan, nil, err
	}
	events, err := s.reactToDDL(ctx, t, plan.Window)
	return plan, slices.Concat(t.events, events), err
}

// active counts the tables that have something to read.
func (s *scheduler) active() int {
	n := 0
	for _, t := range s.tables {
		if t.moved && !t.isolated {
			n++
		}
		if t.chunkDue() && !t.isolated {
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
	s.running--
	if r.chunk != nil {
		return s.settleChunk(ctx, r)
	}
	t.reading = false
	if r.err != nil {
		return s.tableFailed(ctx, t, fmt.Errorf("reading window %s of %s: %w", r.window, t.id, r.err))
	}
	t.backoff.reset()
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
	if s.target == nil || s.running > 0 {
		return false
	}
	for _, t := range s.tables {
		if !t.isolated && (t.sent.Less(*s.target) || t.snapshotOpen()) {
			return false
		}
	}
	return true
}

// pause waits for a read to finish, the next poll, or a table's next attempt.
func (s *scheduler) pause(ctx context.Context, started bool) error {
	if started && s.running < s.config.parallelReads && s.active() > s.running {
		return nil
	}
	next := s.config.pollInterval - time.Since(s.polledAt)
	for _, t := range s.tables {
		if !t.isolated && (t.moved && !t.reading || t.chunkDue()) {
			next = min(next, time.Until(t.retryAt))
		}
	}
	if s.running >= s.config.parallelReads {
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

// findMore opens tables that appeared since the last look.
func (s *scheduler) findMore(ctx context.Context) error {
	known := map[mssqlcdc.TableID]bool{}
	for _, t := range s.tables {
		known[t.id] = true
	}
	all, err := s.setup.find(ctx)
	var gone *sqlserver.ConfigError
	if errors.As(err, &gone) {
		return nil // the tables that run have their own errors
	}
	if err != nil {
		return err
	}
	for _, f := range all {
		if known[f.table] {
			continue
		}
		start := startFrom{kind: startEarliest}
		if s.waiting[f.table] {
			start = s.config.start
		}
		t, err := s.setup.open(ctx, f, start)
		switch {
		case err == nil:
			delete(s.waiting, f.table)
			s.refused.own(f.table)
			s.tables = append(s.tables, t)
			s.log.Infof("Table %s was found and is read from %s on", t.id, t.sent)
		case notReady(err), sqlserver.Classify(err) == sqlserver.Transient:
			s.log.Debugf("Table %s is not ready yet: %v", f.table, err)
		case s.config.onTableError == onErrorIsolate:
			s.log.Warnf("Table %s is left out: %v", f.table, err)
		default:
			return err
		}
	}
	return nil
}
