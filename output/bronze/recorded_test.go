package bronze_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// What the log recorded is what Write had returned, from any batch id on, with
// commits of others in between, and as numbers of rows where the log is gone.
func TestRecorded(t *testing.T) {
	t.Parallel()
	h := history(31, 30)
	st := mem.New()
	table := open(t, st, config())
	var written []mssqlcdc.Fact
	at := changetest.Cursor{}
	for at.Next < len(h.Commits) {
		w := h.Cut(at, 2, 5)
		if len(written) == 4 {
			env := w.Parts[len(w.Parts)-1].Envelope()
			env.Events = []mssqlcdc.Fact{{Event: mssqlcdc.EventSchemaChange, MinLSN: env.Window.End, MaxLSN: env.Window.End, Detail: "ALTER TABLE"}}
			env.Warnings = []string{"slow"}
			w.Parts[len(w.Parts)-1] = changetest.Batch(env, rowsOf(t, w.Parts[len(w.Parts)-1].NumRows(), w), false)
		}
		result := write(t, table, w)
		written = append(written, *result.Window)
		at = w.After
		if len(written)%3 == 0 {
			noise(t, st, 7)
		}
	}
	require.Equal(t, `{"warnings":["slow"]}`, written[4].Detail)

	table = open(t, st, config())
	for after := range int64(len(written)) + 1 {
		next := after
		for r, err := range table.Recorded(t.Context(), after, true) {
			require.NoError(t, err)
			want := written[next]
			r.Window.DurationMS, want.DurationMS = nil, nil
			require.Equal(t, want, r.Window)
			require.Equal(t, next+1, r.BatchID)
			require.Len(t, r.Events, map[bool]int{true: 1}[next == 4])
			next++
		}
		require.Equal(t, int64(len(written)), next)
	}

	// A clean-up takes the log up to the middle.
	require.NoError(t, table.Target().Table().Checkpoint(t.Context()))
	cut := table.Target().Snapshot().Version() / 2
	for version := range cut {
		require.NoError(t, st.Delete(t.Context(), fmt.Sprintf("_delta_log/%020d.json", version)))
	}
	table = open(t, st, config())
	seen := int64(0)
	for r, err := range table.Recorded(t.Context(), 0, true) {
		require.NoError(t, err)
		want := written[seen]
		seen++
		require.Equal(t, seen, r.BatchID)
		require.Equal(t, []any{want.Rows, want.Deletes, want.Inserts, want.Updates, want.MinLSN, want.MaxLSN, want.Commits, want.CaptureInstance, *want.MinCommitTime, *want.MaxCommitTime},
			[]any{r.Window.Rows, r.Window.Deletes, r.Window.Inserts, r.Window.Updates, r.Window.MinLSN, r.Window.MaxLSN, r.Window.Commits, r.Window.CaptureInstance, *r.Window.MinCommitTime, *r.Window.MaxCommitTime})
	}
	require.Equal(t, int64(len(written)), seen)

	kept := 0
	for _, err := range table.Recorded(t.Context(), 0, false) {
		require.NoError(t, err)
		kept++
	}
	require.Less(t, kept, len(written))
	require.Positive(t, kept)
}

func rowsOf(t *testing.T, n int64, w changetest.Window) []changetest.Row {
	t.Helper()
	var rows []changetest.Row
	for _, r := range history(31, 30).Rows() {
		if w.Env.Window.Contains(r.Position.StartLSN) {
			rows = append(rows, r)
		}
	}
	return rows[int64(len(rows))-n:]
}

// noise makes commits of somebody else.
func noise(t *testing.T, st *mem.Store, commits int) {
	t.Helper()
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	for i := range commits {
		_, err := table.Commit(t.Context(), delta.Change{Operation: "NOISE", Marks: []delta.Txn{{AppID: "noise", Version: int64(i)}}, BlindAppend: true})
		require.NoError(t, err)
	}
	require.NoError(t, table.Close(t.Context()))
}
