package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// run is one comparison.
type run struct {
	cfg     Config
	target  *pinned
	plan    *plan
	reader  *reader
	changes *changeReader
	head    sqlserver.Head // changes up to it are in the pile; zero if none were read

	join    *join
	outside tally
	room    atomic.Int64

	counts  map[FailureType]int64
	wrong   []finding          // the first of them
	flights map[digest]finding // in flight, as many as are looked at again
	settled int64
	notes   []string
}

// maxFlights bounds how many keys in flight are looked at again. The others stay in flight.
const maxFlights = 100_000

// Run compares a source table with a Delta table. A result comes with an error only where everything was read and could not be
// told: [CaptureBehindError].
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("comparing table %s: %w", c.Table, err)
	}
	r := &run{cfg: c, counts: map[FailureType]int64{}, flights: map[digest]finding{}}
	r.room.Store(c.Memory)
	begun := c.Now()
	if err := r.prepare(ctx); err != nil {
		return nil, fmt.Errorf("comparing table %s: %w", c.Table, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	behind := r.compare(ctx)
	var unsure *CaptureBehindError
	if behind != nil && !errors.As(behind, &unsure) {
		return nil, fmt.Errorf("comparing table %s: %w", c.Table, behind)
	}
	result, err := r.result(ctx, begun)
	if err != nil {
		return nil, fmt.Errorf("comparing table %s: %w", c.Table, err)
	}
	return result, behind
}

// prepare pins the target before anything is read of the source, and makes room.
func (r *run) prepare(ctx context.Context) error {
	if r.cfg.Target.Open != nil {
		open, reason, err := r.cfg.Target.Open(ctx)
		if err != nil {
			return err
		}
		if open {
			return &OpenSnapshotError{Target: r.cfg.Target.Name, Reason: reason}
		}
	}
	var err error
	if r.target, err = pin(ctx, r.cfg); err != nil {
		return err
	}
	if r.plan, err = newPlan(ctx, r.cfg, r.target.snapshot.Schema()); err != nil {
		return err
	}
	stamp, err := r.cfg.Client.SnapshotStamp(ctx, r.plan.instance)
	if err != nil {
		return err
	}
	r.reader = &reader{cfg: r.cfg, plan: r.plan, stamp: stamp, pace: &pace{budget: r.cfg.Budget, now: r.cfg.Now}}
	r.changes = &changeReader{cfg: r.cfg, plan: r.plan}
	n := r.target.partitions(ctx)
	pile := func(width int) *pile { return newPile(width, n, r.cfg.Dir, &r.room) }
	r.join = &join{
		kind: r.cfg.Target.Kind, partitions: n, outside: &r.outside,
		source: pile(sourceWidth), target: pile(targetWidth), changes: pile(changeWidth),
	}
	return nil
}

func (r *run) close() error {
	return errors.Join(r.join.source.close(), r.join.target.close(), r.join.changes.close())
}

// compare reads both sides and decides about every key.
func (r *run) compare(ctx context.Context) error {
	r.cfg.Say(fmt.Sprintf("reading %s and version %d of %s, which holds changes up to %s", r.plan.instance.Table, r.target.snapshot.Version(), r.cfg.Target.Name, r.target.position))
	group, scanning := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		r.join.buckets, err = r.reader.scan(scanning, r.join.source)
		return err
	})
	group.Go(func() error { return r.target.scan(scanning, r.plan, r.join.target) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := r.judge(ctx); err != nil || r.suspects() == 0 {
		return err
	}
	if err := r.readSuspects(ctx); err != nil {
		return err
	}
	if err := r.explainByChanges(ctx); err != nil {
		return err
	}
	if err := r.checkComplete(ctx); err != nil {
		return err
	}
	return r.settle(ctx)
}

// judge joins what is in the piles.
func (r *run) judge(ctx context.Context) error {
	clear(r.counts)
	clear(r.flights)
	r.wrong = r.wrong[:0]
	return r.join.run(ctx, func(f finding) {
		r.counts[f.kind]++
		switch {
		case f.kind == InFlight && len(r.flights) < maxFlights:
			r.flights[f.key] = f
		case f.kind != InFlight && len(r.wrong) < r.cfg.MaxKeys:
			r.wrong = append(r.wrong, f)
		}
	})
}

// suspects is how many keys differ, unless CDC has a change of them.
func (r *run) suspects() int64 {
	var n int64
	for kind, count := range r.counts {
		if kind != InFlight {
			n += count
		}
	}
	return n
}

// readSuspects reads whole the buckets in which keys differ and of which only those were read.
func (r *run) readSuspects(ctx context.Context) error {
	var again []*bucket
	for _, b := range r.join.buckets {
		if !b.hashed && b.tally.wrong > 0 {
			again = append(again, b)
		}
	}
	if len(again) == 0 {
		return nil
	}
	r.cfg.Say(fmt.Sprintf("reading %d buckets whole, in which keys differ", len(again)))
	return r.reader.rescan(ctx, again, r.join.source)
}

// explainByChanges tells keys in flight from wrong ones. What still differs after the changes that are captured now may be a change that
// is not: then it waits until capture has passed the read.
func (r *run) explainByChanges(ctx context.Context) error {
	read, err := r.cfg.Client.ServerTime(ctx)
	if err != nil {
		return err
	}
	// Commit times are rounded to 1/300 s.
	read = read.Add(10 * time.Millisecond)
	deadline := r.cfg.Now().Add(r.cfg.Wait)
	after, told := r.target.position, false
	for {
		head, err := r.cfg.Client.MaxLSN(ctx)
		if err != nil {
			return err
		}
		passed := head.Time.After(read)
		late := !r.cfg.Now().Before(deadline)
		if r.head.LSN.IsZero() || passed || late {
			if err := r.changes.read(ctx, after, head, r.join.changes.add); err != nil {
				return err
			}
			if after.Less(head.LSN) {
				after = head.LSN
			}
			r.head = head
			if err := r.judge(ctx); err != nil {
				return err
			}
			switch {
			case r.suspects() == r.counts[Doubled] || passed: // what is doubled needs no explanation
				return nil
			case late:
				return &CaptureBehindError{Keys: r.suspects(), MaxLSN: head.LSN}
			}
		}
		if !told {
			told = true
			r.cfg.Say(fmt.Sprintf("%d keys differ: waiting for capture to pass %s, so that no change is missed (on a quiet database up to five minutes)", r.suspects(), read.Format(time.RFC3339)))
		}
		if err := pause(ctx, r.cfg.Poll); err != nil {
			return err
		}
	}
}

// result adds everything up.
func (r *run) result(ctx context.Context, begun time.Time) (*Result, error) {
	result := &Result{
		RunID: uuid.NewString(), RunAt: begun.UTC(), Source: r.plan.instance.Table.String(), Target: r.cfg.Target.Name,
		Kind: r.cfg.Target.Kind.String(), Version: r.target.snapshot.Version(), TargetLSN: lsnText(r.target.position), SourceLSN: lsnText(r.head.LSN),
		Seed: r.cfg.Seed, Counts: r.counts, Settled: r.settled, NotCompared: r.plan.skipped,
	}
	for _, b := range r.join.buckets {
		out := b.tally.bucket()
		out.From, out.To, out.Hashed = b.from, b.to, b.hashed
		if b.hashed {
			result.Hashed += out.SourceRows
		}
		result.Buckets = append(result.Buckets, out)
	}
	if r.outside != (tally{}) {
		out := r.outside.bucket()
		out.Outside = true
		result.Buckets = append(result.Buckets, out)
	}
	for _, b := range result.Buckets {
		result.SourceRows += b.SourceRows
		result.TargetRows += b.TargetRows
	}
	if !r.changes.purged.IsZero() {
		r.notes = append(r.notes, fmt.Sprintf("CDC has no changes before %s any more, and the table holds them up to %s only: what was changed in between counts as wrong, since no stream can bring it", r.changes.purged, r.target.position))
	}
	chunks, err := r.checkChunks(ctx)
	if err != nil {
		return nil, err
	}
	if result.Failures, err = r.explain(ctx); err != nil {
		return nil, err
	}
	result.Failures = append(result.Failures, chunks...)
	for _, p := range []*pile{r.join.source, r.join.target, r.join.changes} {
		result.SpilledMB += float64(p.end) / 1e6
	}
	result.Notes = r.notes
	result.Status = statusOf(result.Wrong(), r.counts[InFlight])
	result.TookMS = r.cfg.Now().Sub(begun).Milliseconds()
	return result, nil
}

func lsnText(l mssqlcdc.LSN) string {
	if l.IsZero() {
		return ""
	}
	return l.String()
}
