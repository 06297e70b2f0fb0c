package bronze_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func history(seed uint64, commits int) changetest.History {
	return changetest.Random(rand.New(rand.NewPCG(seed, 2)), commits, 8)
}

func TestGapIsRefusedAndNamesBothPositions(t *testing.T) {
	t.Parallel()
	h := history(1, 9)
	table := open(t, mem.New(), config())
	first := h.Cut(changetest.Cursor{}, 3, 100)
	second := h.Cut(first.After, 3, 100)
	third := h.Cut(second.After, 3, 100)

	_, err := table.Write(t.Context(), second.Parts[0])
	var gap *bronze.GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, bronze.Resend, bronze.Decide(err))
	require.Contains(t, err.Error(), first.After.LSN.String())
	require.Contains(t, err.Error(), `holds nothing of application id "orders-pipeline"`)

	write(t, table, first)
	_, err = table.Write(t.Context(), third.Parts[0])
	require.ErrorAs(t, err, &gap)
	require.Contains(t, err.Error(), first.After.LSN.String())
	require.Contains(t, err.Error(), second.After.LSN.String())

	// An idle window says what it continues from, too.
	idle := h.Cut(second.After, 0, 1)
	_, err = table.Write(t.Context(), idle.Parts[0])
	require.ErrorAs(t, err, &gap)

	write(t, table, second)
	write(t, table, third)
}

func TestAStreamBegunAboveThePositionIsRefused(t *testing.T) {
	t.Parallel()
	h := history(2, 9)
	table := open(t, mem.New(), config())
	first := h.Cut(changetest.Cursor{}, 3, 100)
	write(t, table, first)

	// The resume position is lost, and start_from says latest.
	begun := changetest.Cursor{Next: 6, LSN: h.Commits[5].LSN}
	w := h.Cut(begun, 3, 100)
	env := w.Env
	env.CompleteFrom = begun.LSN
	_, err := table.Write(t.Context(), changetest.Batch(env, h.Rows()[len(h.Rows())-w.Rows:], false))
	var gap *bronze.GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, begun.LSN, gap.Prev)

	// A gap that the input recorded is one that somebody knows of.
	env.Events = []mssqlcdc.Fact{{Event: mssqlcdc.EventDataSkipped, MinLSN: begun.LSN, MaxLSN: begun.LSN}}
	result, err := table.Write(t.Context(), changetest.Batch(env, h.Rows()[len(h.Rows())-w.Rows:], false))
	require.NoError(t, err)
	require.Len(t, result.Events, 1)
	require.Equal(t, app, result.Events[0].AppID)
	require.Equal(t, result.Window.BatchID, result.Events[0].BatchID)
}

func TestPartsComeInOrder(t *testing.T) {
	t.Parallel()
	h := history(3, 12)
	st := mem.New()
	table := open(t, st, config())
	w := h.Cut(changetest.Cursor{}, 6, 3)
	require.Greater(t, len(w.Parts), 4)

	var order *bronze.OrderError
	_, err := table.Write(t.Context(), w.Parts[1])
	require.ErrorAs(t, err, &order)
	require.Equal(t, -1, order.Want)
	require.Equal(t, bronze.Resend, bronze.Decide(err))

	_, err = table.Write(t.Context(), w.Parts[0])
	require.NoError(t, err)
	_, err = table.Write(t.Context(), w.Parts[2])
	require.ErrorAs(t, err, &order)
	require.Equal(t, 1, order.Want)

	// Part 0 starts the window anew, and nothing of the first try is in the table.
	write(t, table, w)
	requireRows(t, st, h.Rows()[:w.Rows])

	// A window of a new generation, or one that was read again, does not go on with
	// the parts of the old one.
	next := h.Cut(w.After, 6, 3)
	_, err = table.Write(t.Context(), next.Parts[0])
	require.NoError(t, err)
	for _, change := range []func(*mssqlcdc.Envelope){
		func(env *mssqlcdc.Envelope) { env.Generation++ },
		func(env *mssqlcdc.Envelope) { env.Attempt++ },
	} {
		env := next.Parts[1].Envelope()
		change(&env)
		_, err = table.Write(t.Context(), changetest.Batch(env, nil, false))
		require.ErrorAs(t, err, &order)
	}
	_, err = table.Write(t.Context(), next.Parts[1])
	require.NoError(t, err)
}

func TestRowsOutsideTheirWindowAreRefused(t *testing.T) {
	t.Parallel()
	h := history(4, 6)
	table := open(t, mem.New(), config())
	w := h.Cut(changetest.Cursor{}, 3, 100)
	_, err := table.Write(t.Context(), changetest.Batch(w.Env, h.Rows(), false))
	var invalid *bronze.BatchError
	require.ErrorAs(t, err, &invalid)
	require.Contains(t, err.Error(), "outside of its window")
	require.Equal(t, bronze.Stop, bronze.Decide(err))
}

func TestChangesOfAnotherSourceAreRefused(t *testing.T) {
	t.Parallel()
	h := history(5, 6)
	st := mem.New()
	w := h.Cut(changetest.Cursor{}, 3, 100)
	write(t, open(t, st, config()), w)

	for _, change := range []func(*mssqlcdc.Envelope){
		func(env *mssqlcdc.Envelope) { env.Table.Name = "customers" },
		func(env *mssqlcdc.Envelope) { env.Database = "warehouse" },
	} {
		next := h.Cut(w.After, 3, 100)
		env := next.Env
		change(&env)
		_, err := open(t, st, config()).Write(t.Context(), changetest.Batch(env, h.Rows()[w.Rows:], false))
		var source *bronze.SourceError
		require.ErrorAs(t, err, &source)
		require.Equal(t, bronze.Stop, bronze.Decide(err))
	}
}

// record makes a record with one more captured column.
func record(t *testing.T, rows []changetest.Row, column mssqlcdc.Column) arrow.RecordBatch {
	t.Helper()
	base := changetest.Record(rows, false)
	b := array.NewBuilder(memory.DefaultAllocator, column.Type)
	defer b.Release()
	for range rows {
		b.AppendNull()
	}
	fields := append(base.Schema().Fields(), column.Field())
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), append(base.Columns(), b.NewArray()), base.NumRows())
}

func TestColumnsThatDoNotFit(t *testing.T) {
	t.Parallel()
	text, number := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	for _, test := range []struct {
		name   string
		column mssqlcdc.Column
		fixed  bool
		want   []string
	}{
		{"a type that changed", mssqlcdc.Column{Name: "amount2", Type: text}, false, []string{"amount2", "string", "long"}},
		{"a type that changed, in other letters", mssqlcdc.Column{Name: "AMOUNT2", Type: text}, false, []string{"amount2", "string", "long"}},
		{"a metadata column", mssqlcdc.Column{Name: "_CHUNK", Type: number}, false, []string{`"_CHUNK"`, "metadata column"}},
		{"a name that Delta does not take", mssqlcdc.Column{Name: "unit price", Type: number}, false, []string{`"unit price"`, "rename"}},
		{"a new column where none may come", mssqlcdc.Column{Name: "fresh", Type: number}, true, []string{"fresh", "schema_evolution.enabled"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := history(6, 6)
			st := mem.New()
			w := h.Cut(changetest.Cursor{}, 3, 100)
			first, err := mssqlcdc.NewRecordBatch(w.Env, record(t, h.Rows()[:w.Rows], mssqlcdc.Column{Name: "amount2", Type: number}))
			require.NoError(t, err)
			_, err = open(t, st, config()).Write(t.Context(), first)
			require.NoError(t, err)

			cfg := config()
			cfg.Table.Fixed = test.fixed
			next := h.Cut(w.After, 3, 100)
			batch, err := mssqlcdc.NewRecordBatch(next.Env, record(t, h.Rows()[w.Rows:], test.column))
			require.NoError(t, err)
			_, err = open(t, st, cfg).Write(t.Context(), batch)
			require.Error(t, err)
			require.Equal(t, bronze.Stop, bronze.Decide(err))
			for _, part := range test.want {
				require.Contains(t, err.Error(), part)
			}
			requireRows(t, st, h.Rows()[:w.Rows])
		})
	}
}

func TestNewColumnsInTheMiddleOfAWindow(t *testing.T) {
	t.Parallel()
	h := history(7, 8)
	h.ExtraFrom = 0
	for i := range h.Commits[4:] {
		for j := range h.Commits[4+i].Rows {
			h.Commits[4+i].Rows[j].Extra = int64(1 + j)
		}
	}
	st := mem.New()
	table := open(t, st, config())
	w := h.Cut(changetest.Cursor{}, 8, 1000)
	env := w.Env
	split := 0
	for _, c := range h.Commits[:4] {
		split += len(c.Rows)
	}
	env.Last, env.Part = false, 0
	_, err := table.Write(t.Context(), changetest.Batch(env, h.Rows()[:split], false))
	require.NoError(t, err)
	env.Last, env.Part = true, 1
	result, err := table.Write(t.Context(), changetest.Batch(env, h.Rows()[split:], true))
	require.NoError(t, err)
	require.Equal(t, int64(2), result.Files, "a file per layout")
	requireRows(t, st, h.Rows())
}

func TestSecondWriterIsFenced(t *testing.T) {
	t.Parallel()
	h := history(8, 12)
	st := mem.New()
	first, second := open(t, st, config()), open(t, st, config())
	w := h.Cut(changetest.Cursor{}, 3, 100)
	write(t, first, w)
	// The second has opened the table before and knows nothing of it.
	_, err := second.Write(t.Context(), w.Parts[0])
	require.Error(t, err)
	require.NotEqual(t, bronze.Retry, bronze.Decide(err))

	second = open(t, st, config())
	w2 := h.Cut(w.After, 3, 100)
	write(t, first, w2)
	_, err = second.Write(t.Context(), w2.Parts[0])
	require.ErrorIs(t, err, delta.ErrFenced)
	require.Equal(t, bronze.Stop, bronze.Decide(err))
	require.Contains(t, err.Error(), app)
	requireRows(t, st, h.Rows()[:w.Rows+w2.Rows])

	// An application id of its own does not help: the rows are not its.
	cfg := config()
	cfg.AppID = "another"
	_, err = open(t, st, cfg).Write(t.Context(), w.Parts[0])
	var foreign *bronze.ForeignRowsError
	require.ErrorAs(t, err, &foreign)
	require.Equal(t, bronze.Stop, bronze.Decide(err))
}

// The answer to a commit is lost, the window comes again, and another writer was
// there in between.
func TestAnotherWriterShowsAfterALostAnswer(t *testing.T) {
	t.Parallel()
	h := history(9, 12)
	inner := mem.New()
	down := false
	st := fault.Wrap(inner, func(c fault.Call) fault.Fault {
		if down && strings.HasPrefix(c.Path, "_delta_log") {
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	cfg := config()
	cfg.Table.Delta.CommitTimeout = 10 * time.Millisecond
	table := open(t, st, cfg)
	w := h.Cut(changetest.Cursor{}, 3, 100)
	write(t, table, w)
	other := open(t, inner, config())

	w2 := h.Cut(w.After, 3, 100)
	down = true
	_, err := table.Write(t.Context(), w2.Parts[0])
	require.ErrorIs(t, err, delta.ErrUnknownOutcome)
	write(t, other, w2)
	down = false
	w3 := h.Cut(w.After, 1, 100) // cut differently, so that it is not the same attempt
	_, err = table.Write(t.Context(), w3.Parts[0])
	require.ErrorIs(t, err, delta.ErrFenced)
	require.Equal(t, bronze.Stop, bronze.Decide(err))
}

// A context that ends while files are written, or a store that fails when the
// table is made, leaves the last part taken: it goes on when it comes again.
func TestTheLastPartGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	h := history(9, 12)
	inner := mem.New()
	fail := true
	st := fault.Wrap(inner, func(c fault.Call) fault.Fault {
		if fail && c.Op == fault.PutIfAbsent {
			return fault.Fault{Before: fmt.Errorf("%w: %w", fault.ErrInjected, store.ErrNotDone)}
		}
		return fault.Fault{}
	})
	cfg := config()
	cfg.Table.Delta.CommitTimeout = 10 * time.Millisecond
	table := open(t, st, cfg)
	w := h.Cut(changetest.Cursor{}, 3, 1)
	last := len(w.Parts) - 1
	for _, part := range w.Parts[:last] {
		_, err := table.Write(t.Context(), part)
		require.NoError(t, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		_, err := table.Write(ended, w.Parts[last])
		require.Error(t, err)
		require.Equal(t, bronze.Retry, bronze.Decide(err))
	}
	_, err := table.Write(t.Context(), w.Parts[last])
	require.ErrorIs(t, err, fault.ErrInjected)
	require.Equal(t, bronze.Retry, bronze.Decide(err))
	fail = false
	result, err := table.Write(t.Context(), w.Parts[last])
	require.NoError(t, err)
	require.Equal(t, int64(w.Rows), result.Rows)
	requireRows(t, inner, h.Rows()[:w.Rows])
}

func TestStagedFilesThatAVacuumTook(t *testing.T) {
	t.Parallel()
	h := history(10, 6)
	st := mem.New()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	cfg := config()
	cfg.Now = func() time.Time { return now }
	cfg.Table.Writer.TargetFileBytes = 1 // a file per part
	table := open(t, st, cfg)
	w := h.Cut(changetest.Cursor{}, 6, 5)
	last := len(w.Parts) - 1
	for _, part := range w.Parts[:last] {
		_, err := table.Write(t.Context(), part)
		require.NoError(t, err)
	}
	// Wait until the background has the first file done.
	var path string
	require.Eventually(t, func() bool {
		for info, err := range st.List(t.Context(), "", "") {
			require.NoError(t, err)
			path = info.Path
			return true
		}
		return false
	}, 5*time.Second, time.Millisecond)
	now = now.Add(2 * time.Hour)
	require.NoError(t, st.Delete(t.Context(), path))
	_, err := table.Write(t.Context(), w.Parts[last])
	var staging *bronze.StagingError
	require.ErrorAs(t, err, &staging)
	require.Contains(t, err.Error(), "vacuum")
	require.Equal(t, bronze.Resend, bronze.Decide(err))
	write(t, table, w)
	requireRows(t, st, h.Rows())
}

func TestIdleWindowsCommitNothing(t *testing.T) {
	t.Parallel()
	h := history(11, 4)
	st := mem.New()
	table := open(t, st, config())
	idle := h.Cut(changetest.Cursor{}, 0, 1)
	result := write(t, table, idle)
	require.True(t, result.Idle)
	require.Equal(t, mssqlcdc.Committed, result.Mark)
	require.Nil(t, result.Window.BatchID)
	_, err := delta.Open(t.Context(), st, delta.Options{})
	require.ErrorIs(t, err, delta.ErrNotTable)

	write(t, table, h.Cut(idle.After, 4, 100))
	result = write(t, table, h.Cut(changetest.Cursor{Next: 4, LSN: h.End(), DataLSN: h.End()}, 0, 1))
	require.True(t, result.Idle)
	require.Equal(t, int64(1), table.Target().Snapshot().Version())
}

// A window whose rows were all filtered moves the position: the next one continues
// from its end.
func TestAFilteredWindowMovesThePosition(t *testing.T) {
	t.Parallel()
	h := history(12, 6)
	st := mem.New()
	table := open(t, st, config())
	first := h.Cut(changetest.Cursor{}, 2, 100)
	write(t, table, first)
	second := h.Cut(first.After, 2, 100)
	empty, err := second.Parts[0].WithRecord(changetest.Record(nil, false), int64(second.Rows))
	require.NoError(t, err)
	result, err := table.Write(t.Context(), empty)
	require.NoError(t, err)
	require.False(t, result.Idle)
	require.Equal(t, int64(second.Rows), result.Window.RowsFiltered)
	write(t, table, h.Cut(second.After, 2, 100))
	want := append(h.Rows()[:first.Rows:first.Rows], h.Rows()[first.Rows+second.Rows:]...)
	requireRows(t, st, want)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bronze.Decision
	}{
		{errors.New("connection reset"), bronze.Retry},
		{context.DeadlineExceeded, bronze.Retry},
		{&delta.UnknownOutcomeError{Err: errors.New("x")}, bronze.Retry},
		{fmt.Errorf("committing: %w", delta.ErrCommitTimeout), bronze.Retry},
		{&delta.ConflictError{Kind: delta.ConflictMetadata}, bronze.Retry},
		{&delta.FencedError{AppID: "a"}, bronze.Stop},
		{&delta.FencedError{AppID: "a", Own: true}, bronze.Resend},
		{&bronze.GapError{}, bronze.Resend},
		{&bronze.StagingError{Err: errors.New("disk full")}, bronze.Resend},
		{&bronze.StagingError{Err: &delta.FeatureError{Name: "x"}}, bronze.Stop},
		{&delta.FeatureError{Name: "x"}, bronze.Stop},
		{fmt.Errorf("x: %w", delta.ErrTableReplaced), bronze.Stop},
		{&schema.SchemaError{Column: "a"}, bronze.Stop},
	} {
		require.Equal(t, test.want, bronze.Decide(test.err), "%v", test.err)
	}
}
