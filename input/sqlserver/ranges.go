package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// queueParts is how many parts of a sub-range may wait for the sub-ranges before it. A sub-range is made to fill about
// as many, so that its connection hardly ever stands still.
const queueParts = 3

// queued is how many of these parts lie in the queue. The row filter has two more at hand: the one that it hands over and the
// one that it fills.
func (c *Client) queued() int {
	if c.config.Reader == readerDriver {
		return queueParts
	}
	return queueParts - 2
}

// boundStatement finds the LSN some commits of the database further. It reads the mapping only, whose rows are short;
// commit density differs between tables and times, which pace learns.
const boundStatement = `SELECT MAX(x.start_lsn) AS lsn, COUNT(*) AS n FROM (
SELECT TOP (@n) start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn >= @from AND start_lsn <= @to ORDER BY start_lsn) AS x`

// inRanges reads the window in sub-ranges, several at once, and yields their rows in order.
func (r *reading) inRanges(ctx context.Context, yield func(Part, error) bool) error {
	return r.session(ctx, func(ctx context.Context, conn *sql.Conn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx)
		t := newTiler(r)
		// This session's connection reads, too; the others get theirs.
		group.Go(func() error { return t.work(ctx, conn) })
		for range r.limits.Ranges - 1 {
			group.Go(func() error { return r.helper(ctx, t) })
		}
		consumed := consume(ctx, t.order, t.tokens, func(batch fetch.Batch) error { return r.accept(batch, yield) })
		t.halt()
		// Workers stop at their next batch, which keeps their connections. One that waits for the server is cancelled.
		impatient := time.AfterFunc(haltGrace, cancel)
		worked := group.Wait()
		impatient.Stop()
		r.metrics.ReadSeconds += t.seconds()
		r.addWait(t.waits())
		switch {
		case errors.Is(consumed, errCut):
			return nil
		case consumed != nil && !errors.Is(consumed, errWorker):
			return consumed
		}
		return worked
	})
}

// haltGrace is how long a worker may go on after the window has ended.
const haltGrace = time.Second

// errWorker says that a worker failed; the group has its error. errHalted says that nobody wants more rows. Neither leaves
// the package.
var (
	errWorker = errors.New("a worker failed")
	errHalted = errors.New("the window has ended")
)

// helper works on a connection of its own. Waiting for one does not hold up the window, and not getting one does not fail
// it: the first connection reads on alone. When the window is tiled before the helper got one, it is not needed.
func (r *reading) helper(ctx context.Context, t *tiler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var connected atomic.Bool
	stop := context.AfterFunc(t.tiled, func() {
		if !connected.Load() {
			cancel()
		}
	})
	defer stop()
	err := r.client.hold(ctx, func(ctx context.Context, conn *sql.Conn) error {
		connected.Store(true)
		before, err := r.client.ownWaits(ctx, conn)
		if err != nil {
			return err
		}
		if err := t.work(ctx, conn); err != nil {
			return err
		}
		after, err := r.client.ownWaits(ctx, conn)
		if err == nil {
			t.addWait(after - before)
		}
		return err
	})
	if errors.Is(err, errSubrange) {
		return err
	}
	return nil // whatever it was, the others claim every sub-range
}

// errSubrange marks the failure of a sub-range that was claimed, without which the window has a hole.
var errSubrange = errors.New("a sub-range was not read")

// ownWaits asks for the session's waits for the network so far; 0 where it may not see them.
func (c *Client) ownWaits(ctx context.Context, conn *sql.Conn) (int64, error) {
	if !c.waits {
		return 0, nil
	}
	var waits int64
	err := c.within(ctx, conn, func(ctx context.Context) error {
		row, err := one(ctx, conn, "SELECT "+waitColumn+" AS waits")
		waits, _ = row.number("waits")
		return err
	})
	return waits, err
}

// stream is one sub-range on its way.
type stream struct {
	from, to mssqlcdc.LSN
	step     int64
	full     bool // it spans the whole step, not only what was left of the window
	pipe
}

// tiler hands out sub-ranges in LSN order. A token is held for each sub-range that was claimed and not yet consumed.
type tiler struct {
	r      *reading
	order  chan *stream // in LSN order; closed when the window is tiled
	tokens chan struct{}

	halted chan struct{}   // closed when nobody wants more rows
	tiled  context.Context // ends when every sub-range is claimed
	all    context.CancelFunc

	claim sync.Mutex // held while a sub-range is claimed, which asks the server
	next  mssqlcdc.LSN
	done  bool

	mu    sync.Mutex
	spent time.Duration
	wait  int64
}

func newTiler(r *reading) *tiler {
	tiled, all := context.WithCancel(context.Background())
	return &tiler{
		r:      r,
		halted: make(chan struct{}),
		tiled:  tiled,
		all:    all,
		order:  make(chan *stream, r.limits.Ranges),
		tokens: make(chan struct{}, r.limits.Ranges),
		next:   r.request.Plan.Window.From(),
	}
}

// halt tells the workers that nobody wants more rows.
func (t *tiler) halt() {
	close(t.halted)
	t.all()
}

// work claims and reads sub-ranges until the window is tiled or has ended.
func (t *tiler) work(ctx context.Context, conn *sql.Conn) error {
	for {
		select {
		case t.tokens <- struct{}{}:
		case <-t.halted:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		s, err := t.take(ctx, conn)
		if err != nil || s == nil {
			return err
		}
		switch err := t.read(ctx, conn, s); {
		case errors.Is(err, errHalted):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errSubrange, err)
		}
	}
}

// take claims the next sub-range; nil if there is none.
func (t *tiler) take(ctx context.Context, conn *sql.Conn) (*stream, error) {
	t.claim.Lock()
	defer t.claim.Unlock()
	if t.done {
		return nil, nil
	}
	end := t.r.request.Plan.Window.End
	s := &stream{from: t.next, to: end, step: t.r.pace.next(), pipe: pipe{batches: make(chan fetch.Batch, t.r.client.queued())}}
	bound, full, err := t.bound(ctx, conn, s.from, end, s.step)
	if err != nil {
		return nil, err
	}
	if s.full = full; full && bound.Less(end) {
		s.to = bound
	}
	t.next = s.to.Next()
	t.done = !s.to.Less(end)
	t.order <- s // never blocks: it has room for every token
	if t.done {
		close(t.order)
		t.all()
	}
	return s, nil
}

func (t *tiler) bound(ctx context.Context, conn *sql.Conn, from, to mssqlcdc.LSN, step int64) (bound mssqlcdc.LSN, full bool, err error) {
	err = t.r.client.within(ctx, conn, func(ctx context.Context) error {
		row, err := one(ctx, conn, boundStatement, sql.Named("n", step), lsnArg("from", from), lsnArg("to", to))
		if err != nil {
			return err
		}
		n, _ := row.number("n")
		full = n >= step
		bound, err = row.lsn("lsn")
		return err
	})
	return bound, full, err
}

// read reads a sub-range into its queue.
func (t *tiler) read(ctx context.Context, conn *sql.Conn, s *stream) error {
	defer close(s.batches)
	var rows, size int64
	begin := time.Now()
	var blocked time.Duration
	err := t.r.each(ctx, conn, s.from, s.to, func(batch fetch.Batch) error {
		rows += batch.Record.NumRows()
		size += batch.Bytes
		left := time.Now()
		defer func() { blocked += time.Since(left) }()
		select {
		case s.batches <- batch:
			return nil
		case <-t.halted:
			return errHalted
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.mu.Lock()
	t.spent += time.Since(begin) - blocked
	t.mu.Unlock()
	if err != nil {
		return err
	}
	s.complete = true
	if !s.full {
		return nil
	}
	parts := max(float64(rows)/float64(t.r.limits.PartRows), float64(size)/float64(t.r.limits.PartBytes))
	t.r.pace.learn(s.step, parts, queueParts)
	return nil
}

func (t *tiler) seconds() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spent.Seconds()
}

func (t *tiler) addWait(milliseconds int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wait += milliseconds
}

func (t *tiler) waits() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wait
}
