package facts_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/facts"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// Two writers of one facts table, its own compaction and somebody else's at the same
// time: every row is there once, and the watermarks stand.
func TestFactsUnderUpkeep(t *testing.T) {
	t.Parallel()
	st := mem.New()
	var writers []*facts.Writer
	for range 2 {
		w, err := facts.Open(t.Context(), st, facts.Config{Table: target.Spec{
			Name: "lake/facts", Delta: delta.Options{CheckpointInterval: 7},
			Upkeep: maintain.Auto{MinFiles: 4, Done: func(d maintain.Done) {
				if d.Err != nil {
					t.Errorf("%s: %v", d.Task(), d.Err)
				}
			}},
		}})
		require.NoError(t, err)
		writers = append(writers, w)
	}
	const batches = 30
	var writing sync.WaitGroup
	for i, w := range writers {
		writing.Go(func() {
			app := fmt.Sprint("app", i)
			for b := range int64(batches) {
				w.AddWindow(app+"#facts", window(app, b+1), false)
				if _, err := w.Flush(t.Context()); err != nil {
					t.Errorf("writing facts: %v", err)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		table, err := delta.Open(ctx, st, delta.Options{CheckpointInterval: -1})
		for err == nil && ctx.Err() == nil {
			_, err = maintain.Optimize(ctx, table, maintain.OptimizeOptions{})
		}
		if ctx.Err() == nil {
			t.Errorf("optimizing beside the writers: %v", err)
		}
	})
	writing.Wait()
	stop()
	disturbing.Wait()
	rows := read(t, st)
	require.Len(t, rows, 2*batches)
	for _, n := range rows {
		require.Equal(t, 1, n)
	}
	for i, w := range writers {
		mark, ok := w.Watermark(fmt.Sprintf("app%d#facts", i))
		require.True(t, ok)
		require.EqualValues(t, batches, mark)
		require.NoError(t, w.Close(t.Context()))
	}
}

// The log of a data table stays as far as its facts are not written.
func TestLogFloor(t *testing.T) {
	t.Parallel()
	const app, key = "orders", "orders#facts@1"
	w := open(t, mem.New())
	data, err := delta.Create(t.Context(), mem.New(), delta.Spec{Schema: facts.Schema()}, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	for batch := range int64(9) { // becomes version batch+1
		_, err := data.Commit(t.Context(), delta.Change{BlindAppend: true, Fenced: &delta.Txn{AppID: app, Version: batch + 1}})
		require.NoError(t, err)
	}
	floor := func() int64 {
		version, err := w.LogFloor(t.Context(), data, app, key, 8)
		require.NoError(t, err)
		return version
	}
	require.EqualValues(t, 1, floor(), "no facts yet")
	for batch := range int64(4) {
		w.AddWindow(key, window(app, batch+1), false)
	}
	require.EqualValues(t, 1, floor(), "none written yet")
	flush(t, w)
	require.EqualValues(t, 5, floor())
	for batch := int64(4); batch < 9; batch++ {
		w.AddWindow(key, window(app, batch+1), false)
	}
	require.EqualValues(t, 5, floor())
	flush(t, w)
	require.EqualValues(t, 8, floor(), "all are written")
	require.NoError(t, data.Close(t.Context()))
}
