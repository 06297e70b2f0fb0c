package target_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// What the output writes is compacted by itself, unless the table says otherwise.
func TestTargetsAreKeptInShape(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec target.Spec
		want bool
	}{
		"by default":  {want: true},
		"by property": {spec: target.Spec{Properties: map[string]string{delta.PropAutoCompact: "false"}}},
		"by spec":     {spec: target.Spec{Upkeep: maintain.Auto{NoCompact: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			tg := open(t, st, c.spec)
			s := columns(schema.Field{Name: "a", Type: schema.Long})
			require.NoError(t, tg.Create(t.Context(), fresh(s), nil, ""))
			for range maintain.DefaultAutoFiles {
				w, err := tg.NewWriter(t.Context(), fresh(s))
				require.NoError(t, err)
				require.NoError(t, w.Write(record(t, true)))
				adds, err := w.Close()
				require.NoError(t, err)
				_, err = tg.Table().Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds})
				require.NoError(t, err)
			}
			if c.want {
				require.Eventually(t, func() bool { return tg.Snapshot().NumFiles() == 1 }, time.Minute, time.Millisecond)
			}
			require.NoError(t, tg.Close(t.Context()))
			require.Equal(t, c.want, tg.Snapshot().NumFiles() == 1)
		})
	}
}

// disturb optimizes a table with a handle of its own until the test stops it.
func disturb(t *testing.T, st store.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			table, err := delta.Open(ctx, st, delta.Options{CheckpointInterval: -1})
			if err != nil {
				continue // not made yet, or stopped
			}
			_, err = maintain.Optimize(ctx, table, maintain.OptimizeOptions{})
			if err != nil && ctx.Err() == nil {
				t.Errorf("optimizing beside the writer: %v", err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// The positions of a bronze table live in transactions of its log. Compaction by the
// table itself and by somebody else at the same time, and restarts, leave every row
// once, every position, and what the log records of the windows.
func TestBronzeIsExactlyOnceUnderUpkeep(t *testing.T) {
	t.Parallel()
	const app = "orders-pipeline"
	rng := rand.New(rand.NewPCG(5, 5))
	h := changetest.Random(rng, 60, 5)
	st := mem.New()
	var mu sync.Mutex
	var done []maintain.Done
	cfg := bronze.Config{AppID: app, Table: target.Spec{
		Name:   "lake/orders",
		Delta:  delta.Options{CheckpointInterval: 7},
		Upkeep: maintain.Auto{MinFiles: 4, Done: func(d maintain.Done) { mu.Lock(); defer mu.Unlock(); done = append(done, d) }},
	}}
	stop := disturb(t, st)
	defer stop()
	var table *bronze.Table
	at, windows := changetest.Cursor{}, 0
	for at.Next < len(h.Commits) {
		if table == nil {
			var err error
			table, err = bronze.Open(t.Context(), st, cfg)
			require.NoError(t, err)
		}
		w := h.Cut(at, 1, 2)
		var last bronze.Result
		for _, part := range w.Parts {
			var err error
			last, err = table.Write(t.Context(), part)
			require.NoError(t, err)
		}
		switch windows++; windows % 9 {
		case 3: // a crash before the acknowledgement: the window comes again
			table = nil
			continue
		case 6:
			require.NoError(t, table.Close(t.Context()))
			table = nil
		}
		require.Contains(t, []mssqlcdc.Mark{mssqlcdc.Committed, mssqlcdc.Skipped}, last.Mark)
		at = w.After
	}
	stop()
	if table != nil {
		require.NoError(t, table.Close(t.Context()))
	}
	got, err := changetest.ReadBack(t.Context(), st)
	require.NoError(t, err)
	require.Empty(t, changetest.Difference(h.Rows(), got))

	table, err = bronze.Open(t.Context(), st, cfg)
	require.NoError(t, err)
	position, ok := table.Position()
	require.True(t, ok)
	require.Equal(t, h.End(), position)
	next := int64(1)
	for r, err := range table.Recorded(t.Context(), 0, true) {
		require.NoError(t, err)
		require.Equal(t, next, r.BatchID)
		require.Equal(t, h.Commits[next-1].LSN, r.Window.EndLSN)
		next++
	}
	require.EqualValues(t, len(h.Commits)+1, next)
	mu.Lock()
	defer mu.Unlock()
	for _, d := range done {
		require.NoError(t, d.Err, d.Task())
	}
	// Where the files end up in one, its rows are in the order of their positions.
	_, err = maintain.Optimize(t.Context(), table.Target().Table(), maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Len(t, startLSNs(t, table.Target()), len(got))
	require.True(t, slices.IsSorted(startLSNs(t, table.Target())))
	require.NoError(t, table.Close(t.Context()))
}

// startLSNs are the LSNs of the rows in the order in which the table has them.
func startLSNs(t *testing.T, tg *target.Target) []string {
	t.Helper()
	var out []string
	for rec, err := range tg.Table().Read(t.Context(), tg.Snapshot(), delta.ReadOptions{Columns: []string{mssqlcdc.ColStartLSN}}) {
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			out = append(out, string([]byte(rec.Column(0).(*array.String).Value(i))))
		}
	}
	return out
}
