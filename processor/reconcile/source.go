package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// bucket is a range of keys of the source. Where it ends the server has decided.
type bucket struct {
	number   uint32
	from, to sqlserver.Bound
	hashed   bool // its rows were read whole
	again    bool // they were, after its keys had been
	tally    tally
}

// reader reads buckets of the source at a bounded pace.
type reader struct {
	cfg   Config
	plan  *plan
	stamp sqlserver.Head
	pace  *pace
}

// scan cuts the source into buckets, in key order, and reads them into the pile. What is chosen by the sample is read whole. The last bucket ends
// with the key that is the last at the begin: a table that grows at its end, faster than it is read, would never be read to the end, and
// what comes in behind is a change after the target's position.
func (r *reader) scan(ctx context.Context, into *pile) ([]*bucket, error) {
	last, err := r.cfg.Client.MaxKey(ctx, r.plan.whole, r.plan.cut)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan *bucket)
	var all []*bucket
	group.Go(func() error {
		defer close(queue)
		rng := rand.New(rand.NewPCG(r.cfg.Seed, 0))
		var from sqlserver.Bound
		for {
			to, final, err := r.cut(ctx, from, last)
			if err != nil {
				return err
			}
			b := &bucket{number: uint32(len(all)), from: from, to: to, hashed: rng.Float64() < r.cfg.Sample}
			all = append(all, b)
			select {
			case queue <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
			if final {
				return nil
			}
			from = to
		}
	})
	r.work(ctx, group, queue, into)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// cut decides where the bucket ends that begins at from.
func (r *reader) cut(ctx context.Context, from, last sqlserver.Bound) (to sqlserver.Bound, final bool, err error) {
	if len(last) == 0 {
		return nil, true, nil // no rows, or no key to cut on
	}
	to, err = r.cfg.Client.NextBound(ctx, r.plan.whole, r.plan.cut, from, last, r.cfg.BucketRows)
	if err != nil || len(to) > 0 {
		return to, false, err
	}
	to, err = r.cfg.Client.EndBound(ctx, r.plan.whole, r.plan.cut, last)
	return to, true, err
}

// rescan reads buckets whole of which only the keys were read.
func (r *reader) rescan(ctx context.Context, buckets []*bucket, into *pile) error {
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan *bucket)
	group.Go(func() error {
		defer close(queue)
		for _, b := range buckets {
			b.hashed, b.again = true, true
			select {
			case queue <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	r.work(ctx, group, queue, into)
	return group.Wait()
}

// work reads the buckets of a queue.
func (r *reader) work(ctx context.Context, group *errgroup.Group, queue <-chan *bucket, into *pile) {
	for range r.cfg.Connections {
		group.Go(func() error {
			for b := range queue {
				if err := r.digest(ctx, b, into); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// digest reads one bucket into the pile.
func (r *reader) digest(ctx context.Context, b *bucket, into *pile) error {
	var entries []byte
	return r.read(ctx, b, b.hashed, func(rec arrow.RecordBatch) error {
		d, err := r.plan.bind(rec, ofSource, b.hashed)
		if err != nil {
			return err
		}
		entries = entries[:0]
		for row := range int(rec.NumRows()) {
			pass, value := passKeys, digest{}
			if b.hashed {
				pass, value = passRows, d.value(row)
			}
			entries = appendSource(entries, d.key(row), b.number, pass, value)
		}
		return into.add(entries)
	})
}

// read reads the rows of a bucket, whole or only their keys, at the pace of the budget.
func (r *reader) read(ctx context.Context, b *bucket, whole bool, each func(arrow.RecordBatch) error) error {
	layout := r.plan.keysOnly
	if whole {
		layout = r.plan.whole
	}
	if err := r.pace.wait(ctx); err != nil {
		return err
	}
	var rows int64
	for part, err := range r.cfg.Client.ReadChunk(ctx, sqlserver.ChunkRequest{
		Layout: layout, Key: r.plan.cut, From: b.from, To: b.to, Stamp: r.stamp, Isolation: r.cfg.Isolation,
	}) {
		if err != nil {
			return fmt.Errorf("reading bucket %d of the source: %w", b.number, err)
		}
		rows += part.Record.NumRows()
		if err := each(part.Record); err != nil {
			return err
		}
	}
	r.pace.spend(rows)
	return nil
}

// pace spreads reads so that on average no more rows a second are read than the budget allows. It never holds up a read that has begun:
// the pause comes before the next one.
type pace struct {
	budget int64
	now    func() time.Time

	mu   sync.Mutex
	next time.Time // when the rows that were read are paid off
}

func (p *pace) spend(rows int64) {
	if p.budget <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(rows) / float64(p.budget) * float64(time.Second)))
}

func (p *pace) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		left := p.next.Sub(p.now())
		p.mu.Unlock()
		if p.budget <= 0 || left <= 0 {
			return nil
		}
		if err := pause(ctx, left); err != nil {
			return err
		}
	}
}

// pause waits for a while or the end of the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lsnBefore is the LSN from which a window of changes after a position can be read, given what clean-up has left.
func lsnBefore(position, low mssqlcdc.LSN) (from mssqlcdc.LSN, purged bool) {
	if low.Prev().Less(position) || low.Prev() == position {
		return position, false
	}
	return low.Prev(), true
}
