package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// A chunk is read in sub-ranges of its key, several at once, and handed out in key order. A sub-range is made to fill what may wait
// for those before it: its statement then ends without waiting for the consumer, so it holds no lock longer than it reads. Where
// one sub-range ends is asked for while others are read. Bounds of sub-ranges live as long as the read: nothing depends on
// them, so a read that failed may be cut finer.

// subchunkParts is how many parts of a sub-range may wait for the sub-ranges before it.
const subchunkParts = 2

// The rows of a sub-range at most, before it is known how wide they are, and ever.
const (
	firstSubchunkRows = 2_048
	mostSubchunkRows  = 1_000_000
)

// subchunkSizes remembers how many rows a sub-range of each table should have.
type subchunkSizes struct {
	mu   sync.Mutex
	byCI map[string]int64
	cut  map[string]bool // a read failed: it was made smaller
}

// of is the rows of the next sub-range, whose parts have so many at most.
func (s *subchunkSizes) of(instance string, partRows int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rows, known := s.byCI[instance]; known {
		return rows
	}
	return min(firstSubchunkRows, partRows*subchunkParts)
}

// small tells whether a read of the table failed since the last one that was whole.
func (s *subchunkSizes) small(instance string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut[instance]
}

// learn takes in that a whole sub-range of so many rows filled so many parts. What was made smaller stays so until the chunk is whole.
func (s *subchunkSizes) learn(instance string, rows int64, parts float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut[instance] {
		return
	}
	better := float64(rows * paceChange)
	if parts > 0 {
		better = min(better, float64(rows)*subchunkParts/parts)
	}
	s.set(instance, int64(better))
}

// failed makes the next sub-ranges smaller, down to one row: whatever the server takes too long over, or cannot send, holds up
// no more than itself.
func (s *subchunkSizes) failed(instance string, rows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut == nil {
		s.cut = map[string]bool{}
	}
	s.cut[instance] = true
	s.set(instance, rows/paceChange)
}

// whole says that a chunk of the table was read whole.
func (s *subchunkSizes) whole(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cut, instance)
}

func (s *subchunkSizes) set(instance string, rows int64) {
	if s.byCI == nil {
		s.byCI = map[string]int64{}
	}
	s.byCI[instance] = max(1, min(rows, mostSubchunkRows))
}

// subchunk is one sub-range on its way.
type subchunk struct {
	from, to Bound
	rows     int64 // that it was made to have; 0 of the last
	pipe
}

// chunkTiler hands out sub-ranges in key order. A slot is held for each sub-range that was claimed and not yet consumed.
type chunkTiler struct {
	r           *chunkReading
	expressions []string
	order       chan *subchunk // in key order; closed when the chunk is tiled
	slots       chan struct{}

	halted chan struct{} // closed when nobody wants more rows
	tiled  chan struct{} // closed when every sub-range is claimed

	claim sync.Mutex // held while a sub-range is claimed, which asks the server
	from  Bound
	done  bool

	mu    sync.Mutex
	spent time.Duration
	wait  int64
}

// inRanges reads the chunk in sub-ranges and yields their rows in order.
func (r *chunkReading) inRanges(ctx context.Context, conn *sql.Conn, expressions []string, yield func(Part, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	workers := 1 + cap(r.request.Helpers)
	t := &chunkTiler{
		r: r, expressions: expressions, order: make(chan *subchunk, workers), slots: make(chan struct{}, workers),
		halted: make(chan struct{}), tiled: make(chan struct{}), from: r.request.From,
	}
	group.Go(func() error { return t.work(ctx, conn) })
	for range workers - 1 {
		group.Go(func() error { return t.help(ctx) })
	}
	consumed := consume(ctx, t.order, t.slots, func(batch fetch.Batch) error { return t.r.accept(batch, yield) })
	close(t.halted)
	// Workers stop at their next batch, which keeps their connections. One that waits for the server is cancelled.
	impatient := time.AfterFunc(haltGrace, cancel)
	worked := group.Wait()
	impatient.Stop()
	r.metrics.ReadSeconds = t.spent.Seconds()
	r.helped = t.wait
	if consumed != nil && !errors.Is(consumed, errWorker) {
		return consumed
	}
	return worked
}

// work reads sub-ranges on the chunk's own connection, which is never taken away: the chunk goes on whoever else reads.
func (t *chunkTiler) work(ctx context.Context, conn *sql.Conn) error {
	for {
		select {
		case t.slots <- struct{}{}:
		case <-t.halted:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if more, err := t.next(ctx, conn); err != nil || !more {
			return err
		}
	}
}

// help reads sub-ranges on further connections, as many as the chunks that are read at once may have together. One that would
// have to wait for the consumer leaves its connection to others. Not getting one does not fail the chunk.
func (t *chunkTiler) help(ctx context.Context) error {
	for t.acquire(ctx, t.slots) {
		if !t.acquire(ctx, t.r.request.Helpers) {
			<-t.slots
			return nil
		}
		more, err := t.helpOnce(ctx)
		<-t.r.request.Helpers
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// acquire waits for a place in a channel; false if there is nothing to do any more.
func (t *chunkTiler) acquire(ctx context.Context, places chan struct{}) bool {
	select {
	case <-t.tiled:
	case <-t.halted:
	case <-ctx.Done():
	case places <- struct{}{}:
		return true
	}
	return false
}

// helpOnce reads sub-ranges on one connection until one would have to wait. It owns a slot at first.
func (t *chunkTiler) helpOnce(ctx context.Context) (more bool, err error) {
	claimed := false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connected := make(chan struct{})
	go func() { // not needed any more once the chunk is tiled
		select {
		case <-connected:
		case <-ctx.Done():
		case <-t.tiled:
			select {
			case <-connected:
			default:
				cancel()
			}
		}
	}()
	c := t.r.client
	err = c.hold(ctx, func(ctx context.Context, conn *sql.Conn) error {
		close(connected)
		return c.under(ctx, conn, t.r.settings(), func() error {
			before, err := c.ownWaits(ctx, conn)
			if err != nil {
				return err
			}
			for claimed = true; ; {
				if more, err = t.next(ctx, conn); err != nil || !more {
					return err
				}
				select {
				case t.slots <- struct{}{}:
					continue
				default:
				}
				after, err := c.ownWaits(ctx, conn)
				t.mu.Lock()
				t.wait += max(after-before, 0)
				t.mu.Unlock()
				return err
			}
		})
	})
	switch {
	case errors.Is(err, errSubrange):
		return false, err
	case claimed:
		return more && err == nil, nil
	}
	<-t.slots // for the others; without a connection there is nothing to help with
	return false, nil
}

// next claims and reads one sub-range in a slot that is held; false if there is none left.
func (t *chunkTiler) next(ctx context.Context, conn *sql.Conn) (bool, error) {
	s, err := t.take(ctx, conn)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errSubrange, err)
	}
	if s == nil {
		return false, nil
	}
	switch err := t.read(ctx, conn, s); {
	case errors.Is(err, errHalted):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", errSubrange, err)
	}
	return true, nil
}

// take claims the next sub-range; nil if there is none, and then the slot is given back.
func (t *chunkTiler) take(ctx context.Context, conn *sql.Conn) (*subchunk, error) {
	t.claim.Lock()
	defer t.claim.Unlock()
	if t.done {
		<-t.slots
		return nil, nil
	}
	r := t.r
	s := &subchunk{from: t.from, to: r.request.To, pipe: pipe{batches: make(chan fetch.Batch, subchunkParts)}}
	rows := r.client.subchunks.of(r.instance(), r.limits.PartRows)
	bound, err := r.splitBound(ctx, onConn(conn), t.from, rows)
	if err != nil {
		r.client.subchunks.failed(r.instance(), rows)
		return nil, fmt.Errorf("looking for the end of a sub-range: %w", err)
	}
	if t.done = bound.open(); !t.done {
		s.to, s.rows = bound, rows
		t.from = bound
	}
	t.order <- s // never blocks: it has room for every slot
	if t.done {
		close(t.order)
		close(t.tiled)
	}
	return s, nil
}

// splitBound is the first key behind so many rows from a place in the chunk on; open if what is left are no more.
func (r *chunkReading) splitBound(ctx context.Context, ask asking, from Bound, rows int64) (Bound, error) {
	lower, upper := edge{bound: from, inclusive: true, param: "f"}, edge{bound: r.request.To, param: "t"}
	return keyBehind(ctx, ask, r.request.Layout, r.request.Key, keyRange{r.key, lower, upper}, rows)
}

// read reads a sub-range into its queue.
func (t *chunkTiler) read(ctx context.Context, conn *sql.Conn, s *subchunk) error {
	defer close(s.batches)
	var rows, size int64
	begin := time.Now()
	var blocked time.Duration
	within := keyRange{columns: t.r.key, lower: edge{bound: s.from, inclusive: true, param: "f"}, upper: edge{bound: s.to, param: "t"}}
	err := t.r.each(ctx, conn, t.expressions, within, func(batch fetch.Batch) error {
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
	sizes := &t.r.client.subchunks
	if err != nil {
		if !errors.Is(err, errHalted) && ctx.Err() == nil {
			sizes.failed(t.r.instance(), max(s.rows, 1))
		}
		return err
	}
	s.complete = true
	if s.rows > 0 && rows > 0 {
		limits := t.r.limits
		sizes.learn(t.r.instance(), s.rows, max(float64(rows)/float64(limits.PartRows), float64(size)/float64(limits.PartBytes)))
	}
	return nil
}
