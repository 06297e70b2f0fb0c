package remotetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	writers = 4
	commits = 5 // of each writer
)

// RunTable makes a Delta table, lets several writers append to it at once, and
// reads it again from its checkpoint: over a network that works, and over one that
// fails.
func RunTable(t *testing.T, opener Opener) {
	t.Run("table", func(t *testing.T) {
		t.Parallel()
		table(t, opener, func(uint64) *http.Client { return &http.Client{} })
	})
	t.Run("table over a bad network", func(t *testing.T) {
		t.Parallel()
		seed := uint64(time.Now().UnixNano())
		t.Log("seed", seed)
		table(t, opener, func(n uint64) *http.Client { return client(Random(seed+n, 0.15)) })
	})
}

func table(t *testing.T, opener Opener, network func(n uint64) *http.Client) {
	place := opener(t)
	st := place(network(0), Options())
	created, err := delta.Create(t.Context(), st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{
		{Name: "writer", Type: schema.Long, Nullable: true}, {Name: "n", Type: schema.Long, Nullable: true},
	}}}, delta.Options{CheckpointInterval: 7})
	require.NoError(t, err)
	require.NoError(t, created.Close(t.Context()))

	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		st := place(network(uint64(w)+1), Options())
		wg.Go(func() { errs[w] = appendAll(t.Context(), st, w) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))

	reader, err := delta.Open(t.Context(), place(&http.Client{}, Options()), delta.Options{})
	require.NoError(t, err)
	require.EqualValues(t, writers*commits, reader.Snapshot().Version(), "no commit is lost and none is doubled")
	want := wantRows()
	require.Equal(t, want, rowsOf(t, reader))
	require.NoError(t, reader.Checkpoint(t.Context()))
	require.NoError(t, reader.Close(t.Context()))
	again, err := delta.Open(t.Context(), place(&http.Client{}, Options()), delta.Options{})
	require.NoError(t, err)
	at, ok := again.Snapshot().CheckpointVersion()
	require.True(t, ok)
	require.EqualValues(t, writers*commits, at)
	require.Equal(t, want, rowsOf(t, again))
	require.NoError(t, again.Close(t.Context()))
}

func wantRows() []string {
	var rows []string
	for w := range writers {
		for n := range commits {
			rows = append(rows, fmt.Sprintf(`{"n":%d,"writer":%d}`, n+1, w))
		}
	}
	slices.Sort(rows)
	return rows
}

// appendAll appends a writer's rows, each as one commit, from where the table says
// that the writer is.
func appendAll(ctx context.Context, st store.Store, writer int) error {
	app := fmt.Sprint("writer-", writer)
	t, err := delta.Open(ctx, st, delta.Options{CheckpointInterval: 7})
	if err != nil {
		return err
	}
	for n := 1; n <= commits; n++ {
		if err := appendRow(ctx, t, app, writer, n); err != nil {
			return fmt.Errorf("%s, row %d: %w", app, n, err)
		}
	}
	return t.Close(ctx)
}

func appendRow(ctx context.Context, t *delta.Table, app string, writer, n int) error {
	row := fmt.Sprintf(`[{"writer":%d,"n":%d}]`, writer, n)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, t.Snapshot().Schema().Arrow(), strings.NewReader(row))
	if err != nil {
		return err
	}
	w, err := t.NewWriter(ctx, data.WriterOptions{})
	if err != nil {
		return err
	}
	if err := w.Write(rec); err != nil {
		return err
	}
	adds, err := w.Close()
	if err != nil {
		return err
	}
	_, err = t.Commit(ctx, delta.Change{
		Operation: delta.OpStreamingWrite, Add: adds, BlindAppend: true,
		Fenced: &delta.Txn{AppID: app, Version: int64(n)},
	})
	return err
}

func rowsOf(t *testing.T, table *delta.Table) []string {
	t.Helper()
	rows := []string{}
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		text, err := rec.MarshalJSON()
		require.NoError(t, err)
		for line := range strings.SplitSeq(strings.Trim(string(text), "[]\n"), "\n,") {
			rows = append(rows, line)
		}
	}
	slices.Sort(rows)
	return rows
}
