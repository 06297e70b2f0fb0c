package silver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// world is a source, a lake and an applier over random steps.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	seed   uint64
	source *source
	lake   *lake
	target *breaking
	config silver.Config
	apply  *silver.Applier

	open     *snapshot
	complete int // S of the newest complete snapshot, -1: the stream is complete from its begin
	readTo   int // highest LSN at which a row of a snapshot was read
	segments []segment
	lossy    bool // changes were skipped, and no snapshot has brought the rows since
	healing  int  // S of the snapshot that does
}

// segment is a stretch of LSNs without a gap in which history is exact: from its snapshot on.
type segment struct{ from, to int }

// snapshot is one that is being read.
type snapshot struct {
	s, next, chunks int
	withRows        bool
	queue           []chunk // read, and not in bronze yet
}

// breaking is a store that dies at a call.
type breaking struct {
	*fault.Store
	mu   sync.Mutex
	left int // writes until it dies; negative: never
	died func()
}

func newBreaking(inner store.Store) *breaking {
	b := &breaking{left: -1}
	b.Store = fault.Wrap(inner, func(c fault.Call) fault.Fault {
		if c.Op != fault.Create && c.Op != fault.PutIfAbsent {
			return fault.Fault{}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.left < 0 {
			return fault.Fault{}
		}
		if b.left--; b.left < 0 {
			b.left = 0
			b.died()
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	return b
}

func (b *breaking) dieAfter(n int, died func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.died = n, died
}

func newWorld(t *testing.T, seed uint64, config silver.Config) *world {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &world{t: t, rng: rng, seed: seed, source: newSource(rng), target: newBreaking(mem.New()), config: config, complete: -1, segments: []segment{{0, 0}}}
	w.lake = newLake(t, mem.New(), mem.New())
	w.config.Bronze, w.config.BronzeName = w.lake.bronze, "lake/orders"
	w.config.Target, w.config.TargetName = w.target, "lake/silver"
	w.config.Control, w.config.Row, w.config.BronzeRow = w.lake.control, "silver.dbo.orders", "dbo.orders"
	w.config.SliceRows = int64(1 + rng.IntN(30))
	w.config.Delta = delta.Options{CheckpointInterval: 5}
	w.config.Upkeep = maintain.Auto{NoCompact: true, NoCleanLog: true}
	w.config.TempDir = t.TempDir()
	w.restart()
	if rng.IntN(2) == 0 { // the table was there before the stream began
		for range 1 + rng.IntN(10) {
			w.source.commit(3)
		}
		w.lose()
	}
	return w
}

func (w *world) restart() {
	var err error
	if w.apply != nil {
		require.NoError(w.t, w.apply.Close(w.t.Context()))
	}
	w.apply, err = silver.New(w.config)
	require.NoError(w.t, err)
}

// lose is a gap: what was not read is purged, and a snapshot begins.
func (w *world) lose() {
	if !w.lossy {
		w.segments[len(w.segments)-1].to = w.lake.end
	}
	w.lossy = false
	now := w.source.now()
	if w.lake.end > 0 && now > w.lake.end {
		w.lake.gaps = append(w.lake.gaps, control.Gap{From: timeOf(w.lake.end), To: timeOf(now)})
	}
	w.lake.end = now
	w.segments = append(w.segments, segment{now, now})
	w.begin(now)
	w.lake.finalize(w.t.Context())
}

// skip is a gap that the stream goes over without a snapshot.
func (w *world) skip() {
	now := w.source.now()
	if w.open != nil || w.lossy || now == w.lake.end {
		return
	}
	w.segments[len(w.segments)-1].to = w.lake.end
	w.lake.gaps = append(w.lake.gaps, control.Gap{From: timeOf(w.lake.end), To: timeOf(now)})
	w.lake.end, w.lossy, w.healing = now, true, -1
	w.lake.finalize(w.t.Context())
}

func (w *world) begin(s int) {
	if w.lossy {
		w.segments = append(w.segments, segment{s, s})
		w.healing = s
	}
	w.open = &snapshot{s: s, chunks: 1 + w.rng.IntN(4)}
	w.lake.held = "snapshot " + lsnOf(s).String() + " is not complete"
}

// read reads the next chunk: its stamp first, then perhaps something is committed, then rows.
func (w *world) read() {
	o := w.open
	if o == nil || o.next == o.chunks {
		return
	}
	c := chunk{snapshot: o.s, number: o.next, stamp: w.source.now(), final: o.next == o.chunks-1}
	for range w.rng.IntN(4) {
		w.source.commit(4)
	}
	for k, v := range w.source.rows {
		if int(k.id)*o.chunks/8 == o.next {
			v.extraIsNull = v.extraIsNull || !w.lake.wide
			c.rows = append(c.rows, record{lsn: c.stamp, op: mssqlcdc.Read, key: k, values: v, snapshot: o.s, chunk: o.next})
		}
	}
	w.readTo = w.source.now()
	o.next++
	if len(c.rows) > 0 || c.final {
		c.first = !o.withRows
		o.withRows = true
		o.queue = append(o.queue, c)
	}
}

// bring writes the next chunk to bronze.
func (w *world) bring() {
	o := w.open
	if o == nil || len(o.queue) == 0 {
		return
	}
	c := o.queue[0]
	o.queue = o.queue[1:]
	w.lake.open(w.t.Context())
	w.lake.chunk(w.t.Context(), c)
	if c.final {
		w.complete, w.open, w.lake.held = o.s, nil, ""
		w.lossy = w.lossy && w.healing != o.s
		w.lake.finalize(w.t.Context())
	}
}

func (w *world) step() {
	switch n := w.rng.IntN(20); {
	case n < 7:
		w.source.commit(4)
	case n < 11:
		if end := w.lake.end + w.rng.IntN(w.source.now()-w.lake.end+1); end > w.lake.end || w.rng.IntN(3) == 0 {
			w.lake.window(w.t.Context(), w.source, end)
		}
	case n < 13:
		w.read()
	case n < 15:
		w.bring()
	case n == 15 && w.rng.IntN(4) == 0:
		w.lose()
	case n == 18 && w.rng.IntN(5) == 0:
		w.skip()
	case n == 15 && w.open == nil && w.rng.IntN(3) == 0: // a snapshot without a loss
		w.begin(w.source.now())
		w.lake.finalize(w.t.Context())
	case n == 16 && !w.lake.wide && w.rng.IntN(3) == 0:
		w.lake.window(w.t.Context(), w.source, w.source.now())
		w.source.wide, w.lake.wide = true, true
	case n == 17 && w.lake.table != nil && w.rng.IntN(3) == 0:
		_, err := maintain.Optimize(w.t.Context(), w.lake.table, maintain.OptimizeOptions{})
		require.NoError(w.t, err)
	default:
		w.call()
	}
}

// call applies, perhaps dies in it, perhaps with a second process beside it.
func (w *world) call() {
	ctx := w.t.Context()
	switch w.rng.IntN(5) {
	case 0:
		dying, died := context.WithCancel(ctx)
		w.target.dieAfter(w.rng.IntN(12), died)
		_, err := w.apply.Apply(dying)
		w.target.dieAfter(-1, nil)
		require.True(w.t, err == nil || dying.Err() != nil, "seed %d: %v", w.seed, err)
		died()
		if w.rng.IntN(2) == 0 {
			w.restart()
		}
		w.checkVerdict()
		return
	case 1:
		other, err := silver.New(w.config)
		require.NoError(w.t, err)
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := other.Apply(context.Background()); err != nil && !errors.Is(err, silver.ErrOvertaken) {
				w.t.Errorf("seed %d: %v", w.seed, err)
			}
		})
		if _, err := w.apply.Apply(ctx); err != nil {
			require.ErrorIs(w.t, err, silver.ErrOvertaken, "seed %d", w.seed)
		}
		group.Wait()
		require.NoError(w.t, other.Close(ctx))
		w.checkVerdict()
		return
	}
	for range 1 + w.rng.IntN(2) {
		_, err := w.apply.Apply(ctx)
		require.NoError(w.t, err, "seed %d", w.seed)
	}
	w.check()
}

// exact tells whether the table must be that of the stream's position now: no snapshot
// is open, and the stream has passed the moment at which rows were read.
func (w *world) exact() bool {
	return w.lake.table != nil && w.open == nil && !w.lossy && w.lake.end >= w.readTo
}

func (w *world) check() {
	w.checkVerdict()
	if w.lake.table == nil {
		return
	}
	rows := readRows(w.t, w.target)
	if w.config.Mode == silver.History {
		w.checkHistory(rows)
		return
	}
	got := map[key]values{}
	for _, r := range rows {
		k, v := image(r)
		if gone, _ := r[silver.ColDeleted].(bool); gone {
			continue
		}
		_, twice := got[k]
		require.False(w.t, twice, "seed %d: key %v is there twice", w.seed, k)
		got[k] = v
	}
	if w.exact() {
		want := w.source.states[w.lake.end]
		require.Equal(w.t, "[]", describe(want, got), "seed %d: at %d", w.seed, w.lake.end)
	}
}

// checkHistory replays the table to every moment of which it must know.
func (w *world) checkHistory(rows []map[string]any) {
	for _, r := range rows {
		end, ended := r[silver.ColEndLSN].(string)
		require.Equal(w.t, !ended, r[silver.ColIsCurrent], "seed %d", w.seed)
		require.True(w.t, !ended || end >= r[mssqlcdc.ColStartLSN].(string), "seed %d: %v", w.seed, r)
		from, to := r[silver.ColValidFrom].(time.Time), timeOf(1<<20)
		if ended {
			to = r[silver.ColValidTo].(time.Time)
		}
		require.False(w.t, to.Before(from), "seed %d: %v", w.seed, r)
	}
	if !w.exact() {
		return
	}
	for i, s := range w.segments {
		to := s.to
		if i == len(w.segments)-1 {
			to = w.lake.end
		}
		// A snapshot that a loss cut off says nothing for sure about keys that did not change.
		if i < len(w.segments)-1 && !w.finished(i) {
			continue
		}
		for n := s.from; n <= to; n++ {
			got := w.at(rows, n)
			want := w.source.states[n]
			require.Equal(w.t, "[]", describe(want, got), "seed %d: segment %d of %v, at %d of %d\n%s", w.seed, i, w.segments, n, w.lake.end, w.dump(rows))
		}
	}
}

// finished tells whether the first snapshot of a segment was complete before it ended.
func (w *world) finished(i int) bool { return i == 0 && w.segments[0].to > 0 && w.complete >= 0 }

// at is the table as of an LSN.
func (w *world) at(rows []map[string]any, n int) map[key]values {
	lsn := lsnOf(n).String()
	got := map[key]values{}
	for _, r := range rows {
		start := r[mssqlcdc.ColStartLSN].(string)
		end, ended := r[silver.ColEndLSN].(string)
		if start > lsn || ended && end <= lsn {
			continue
		}
		k, v := image(r)
		_, twice := got[k]
		require.False(w.t, twice, "seed %d: key %v has two images at %d\n%s", w.seed, k, n, w.dump(rows))
		got[k] = v
	}
	return got
}

func (w *world) dump(rows []map[string]any) string {
	var lines []string
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("%v/%v %v..%v op %v amount %v note %v extra %v", r["id"], r["part"], r[mssqlcdc.ColStartLSN], r[silver.ColEndLSN], r[mssqlcdc.ColOperation], r["amount"], r["note"], r["extra"]))
	}
	slices.Sort(lines)
	for _, log := range w.source.log {
		for _, r := range log {
			lines = append(lines, fmt.Sprintf("%d (%s): %v %v %v", r.lsn, lsnOf(r.lsn), r.op, r.key, r.values))
		}
	}
	return strings.Join(lines, "\n")
}

// checkVerdict: never ahead of bronze's verdict, held while a snapshot is open, and over a
// gap only with a mark.
func (w *world) checkVerdict() {
	own, err := w.lake.control.Get(w.t.Context(), "silver.dbo.orders")
	if errors.Is(err, control.ErrUnknownTarget) {
		return
	}
	require.NoError(w.t, err)
	bronze, err := w.lake.control.Get(w.t.Context(), "dbo.orders")
	require.NoError(w.t, err)
	require.False(w.t, own.FinalizedUntil.After(bronze.FinalizedUntil), "seed %d", w.seed)
	require.False(w.t, lsnOf(w.lake.end).Less(own.AppliedLSN), "seed %d", w.seed)
	for _, gap := range bronze.Gaps {
		if !own.FinalizedUntil.IsZero() && own.FinalizedUntil.After(gap.To) {
			require.NotEqual(w.t, control.Final, own.Answer(gap.From, gap.To), "seed %d", w.seed)
		}
	}
}

func sweep(t *testing.T, seeds int, config silver.Config) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, config)
			for range 70 {
				w.step()
			}
			w.finish()
		})
	}
}

// finish lets everything arrive.
func (w *world) finish() {
	if w.lossy && w.open == nil {
		w.begin(w.source.now())
	}
	for w.open != nil {
		w.read()
		w.bring()
	}
	w.lake.window(w.t.Context(), w.source, w.source.now())
	_, err := w.apply.Apply(w.t.Context())
	require.NoError(w.t, err, "seed %d", w.seed)
	w.check()
	require.True(w.t, w.exact())
	own, err := w.lake.control.Get(w.t.Context(), "silver.dbo.orders")
	require.NoError(w.t, err)
	bronze, err := w.lake.control.Get(w.t.Context(), "dbo.orders")
	require.NoError(w.t, err)
	require.Equal(w.t, bronze.FinalizedUntil, own.FinalizedUntil, "seed %d: everything is applied", w.seed)
	require.Empty(w.t, own.HeldBy)
	require.NoError(w.t, w.apply.Close(w.t.Context()))
}

const seeds = 5

func TestCurrentIsTheSourceTable(t *testing.T) {
	t.Parallel()
	sweep(t, seeds, silver.Config{})
}

func TestCurrentWithDeletionVectors(t *testing.T) {
	t.Parallel()
	sweep(t, seeds, silver.Config{Strategy: merge.DeletionVectors})
}

func TestSoftDeletes(t *testing.T) {
	t.Parallel()
	sweep(t, seeds, silver.Config{Deletes: silver.Soft})
}

func TestHistoryReplaysToEveryMoment(t *testing.T) {
	t.Parallel()
	sweep(t, seeds, silver.Config{Mode: silver.History})
}
