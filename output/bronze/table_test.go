package bronze_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

const app = "orders-pipeline"

func config() bronze.Config {
	return bronze.Config{AppID: app, Table: target.Spec{Name: "lake/orders"}}
}

func open(t *testing.T, st store.Store, cfg bronze.Config) *bronze.Table {
	t.Helper()
	table, err := bronze.Open(t.Context(), st, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close(context.Background())) })
	return table
}

// write writes all parts of a window and returns the result of the last.
func write(t *testing.T, table *bronze.Table, w changetest.Window) bronze.Result {
	t.Helper()
	var last bronze.Result
	for i, part := range w.Parts {
		var err error
		last, err = table.Write(t.Context(), part)
		require.NoError(t, err, "part %d", i)
		if i < len(w.Parts)-1 {
			require.Equal(t, mssqlcdc.Staged, last.Mark)
		}
	}
	return last
}

func requireRows(t *testing.T, st store.Store, want []changetest.Row) {
	t.Helper()
	got, err := changetest.ReadBack(t.Context(), st)
	require.NoError(t, err)
	require.Empty(t, changetest.Difference(want, got))
}

func TestWindowsBecomeCommits(t *testing.T) {
	t.Parallel()
	h := changetest.Random(rand.New(rand.NewPCG(1, 1)), 20, 40)
	st := mem.New()
	table := open(t, st, config())

	at := changetest.Cursor{}
	windows := 0
	for at.Next < len(h.Commits) {
		w := h.Cut(at, 5, 30)
		result := write(t, table, w)
		require.Equal(t, mssqlcdc.Committed, result.Mark)
		windows++
		require.Equal(t, int64(windows), result.Version, "one commit per window after the one that makes the table")
		require.Equal(t, int64(w.Rows), result.Rows)
		require.Equal(t, int64(windows), *result.Window.BatchID)
		require.Equal(t, len(w.Parts), result.Window.Parts)
		at = w.After
	}
	requireRows(t, st, h.Rows())

	position, ok := table.Position()
	require.True(t, ok)
	require.Equal(t, h.End(), position)

	d, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	require.Equal(t, int64(windows), d.Snapshot().Version())
	version, ok := d.Snapshot().AppVersion(app)
	require.True(t, ok)
	require.Equal(t, int64(windows), version)
	require.Contains(t, d.Snapshot().Metadata().Description, "dbo.orders")
}
