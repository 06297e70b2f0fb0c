package facts_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/facts"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

func open(t *testing.T, st store.Store) *facts.Writer {
	t.Helper()
	return openAt(t, st, time.Now)
}

func openAt(t *testing.T, st store.Store, now func() time.Time) *facts.Writer {
	t.Helper()
	w, err := facts.Open(t.Context(), st, facts.Config{
		Table: target.Spec{Name: "lake/facts", Delta: delta.Options{CommitTimeout: 20 * time.Millisecond, CheckpointInterval: 10}}, Now: now,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close(context.Background())) })
	return w
}

func window(app string, batch int64) mssqlcdc.Fact {
	return mssqlcdc.Fact{
		Version: 1, AppID: app, BatchID: &batch, Rows: batch * 10, Target: "lake/" + app, EndLSN: changetest.LSN(int(batch) + 1),
		Table: mssqlcdc.TableID{Schema: "dbo", Name: app}, CaptureInstance: "dbo_" + app,
	}
}

// read gives app/batch/event/rows of every row of the table.
func read(t *testing.T, st store.Store) map[string]int {
	t.Helper()
	table, err := delta.Open(t.Context(), st, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	seen := map[string]int{}
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: []string{"app_id", "batch_id", "event", "rows"}}) {
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			batch, event := "-", "-"
			if ids := rec.Column(1).(*array.Int64); ids.IsValid(i) {
				batch = fmt.Sprint(ids.Value(i))
			}
			if events := rec.Column(2).(*array.String); events.IsValid(i) {
				event = events.Value(i)
			}
			seen[fmt.Sprintf("%s/%s/%s/%d", rec.Column(0).(*array.String).Value(i), batch, event, rec.Column(3).(*array.Int64).Value(i))]++
		}
	}
	return seen
}

func flush(t *testing.T, w *facts.Writer) int {
	t.Helper()
	rows, err := w.Flush(t.Context())
	require.NoError(t, err)
	return rows
}

func TestRowsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	st := mem.New()
	w := open(t, st)
	for i := range int64(5) {
		w.AddWindow("a#facts", window("a", i+1), false)
		w.AddWindow("b#facts", window("b", i+1), false)
	}
	require.Equal(t, 10, w.Pending())
	require.Equal(t, 10, flush(t, w))
	require.Zero(t, w.Pending())
	require.Zero(t, flush(t, w))
	require.Len(t, read(t, st), 10)

	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	require.Equal(t, int64(1), table.Snapshot().Version(), "one commit")
	require.Equal(t, int64(1), table.Snapshot().NumFiles())
	mark, ok := open(t, st).Watermark("a#facts")
	require.True(t, ok)
	require.Equal(t, int64(5), mark)
}

func TestIdleWindows(t *testing.T) {
	t.Parallel()
	st := mem.New()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	w := openAt(t, st, func() time.Time { return now })
	idle := window("a", 1)
	idle.BatchID = nil
	for range 20 { // ten minutes and a bit
		w.AddWindow("", idle, true)
		now = now.Add(31 * time.Second)
	}
	require.Equal(t, 2, w.Pending())
	w.AddWindow("a#facts", window("a", 1), false)
	w.AddWindow("a#facts", idle, true)
	require.Equal(t, 3, w.Pending(), "a window with rows counts, too")
	other := idle
	other.Target = "lake/other"
	w.AddWindow("", other, true)
	require.Equal(t, 4, w.Pending(), "each target for itself")
}

func TestEventsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	st := mem.New()
	w := open(t, st)
	event := mssqlcdc.Fact{AppID: "a", Target: "lake/a", Event: mssqlcdc.EventDataSkipped, MinLSN: changetest.LSN(1), MaxLSN: changetest.LSN(1), Detail: `{"certain":true}`}
	other := event
	other.Detail = `{"certain":false}`
	for range 2 {
		_, err := w.AddEvents(t.Context(), "", []mssqlcdc.Fact{event, event})
		require.NoError(t, err)
	}
	require.Equal(t, 1, flush(t, w))
	w = open(t, st) // a restart
	added, err := w.AddEvents(t.Context(), "", []mssqlcdc.Fact{event, other})
	require.NoError(t, err)
	require.Equal(t, 1, added)
	require.Equal(t, 1, flush(t, w))
	require.Equal(t, map[string]int{"a/-/data_skipped/0": 2}, read(t, st))

	// That a snapshot is complete is said once, whatever was counted on the way.
	whole := mssqlcdc.Fact{AppID: "a", Target: "lake/a", Event: mssqlcdc.EventBootstrap, MinLSN: changetest.LSN(1), MaxLSN: changetest.LSN(1), Detail: `{"rows":7}`}
	again := whole
	again.Detail = `{"rows":8}`
	added, err = w.AddEvents(t.Context(), "", []mssqlcdc.Fact{whole, again})
	require.NoError(t, err)
	require.Equal(t, 1, added)
}

// A process that was taken for dead writes facts that its successor has rebuilt.
func TestTwoProcessesDoNotDoubleRows(t *testing.T) {
	t.Parallel()
	st := mem.New()
	old := open(t, st)
	for i := range int64(4) {
		old.AddWindow("a#facts", window("a", i+1), false)
	}
	fresh := open(t, st)
	for i := range int64(3) {
		fresh.AddWindow("a#facts", window("a", i+1), false)
	}
	fresh.AddWindow("b#facts", window("b", 1), false)
	require.Equal(t, 4, flush(t, fresh))
	require.Equal(t, 1, flush(t, old))
	require.Equal(t, map[string]int{"a/1/-/10": 1, "a/2/-/20": 1, "a/3/-/30": 1, "a/4/-/40": 1, "b/1/-/10": 1}, read(t, st))
}

func TestManyWriters(t *testing.T) {
	t.Parallel()
	st := mem.New()
	var writers sync.WaitGroup
	for n := range 4 {
		w, err := facts.Open(t.Context(), st, facts.Config{Table: target.Spec{Name: "facts"}})
		require.NoError(t, err)
		writers.Go(func() {
			app := fmt.Sprint("app", n%2) // pairs that rebuild the same
			for i := range int64(10) {
				w.AddWindow(app, window(app, i+1), false)
				if _, err := w.Flush(context.Background()); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	seen := read(t, st)
	require.Len(t, seen, 20)
	for row, n := range seen {
		require.Equal(t, 1, n, row)
	}
}

// Requests fail and answers get lost; every row is written once all the same.
func TestFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inner := mem.New()
			w0 := open(t, inner) // makes the table
			require.Zero(t, w0.Pending())
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			left := 0
			st := fault.Wrap(inner, func(c fault.Call) fault.Fault {
				mu.Lock()
				defer mu.Unlock()
				if left > 0 {
					left--
					return fault.Fault{Before: fault.ErrInjected}
				}
				if rng.IntN(6) > 0 {
					return fault.Fault{}
				}
				left = rng.IntN(12)
				if rng.IntN(2) == 0 {
					return fault.Fault{After: fault.ErrInjected}
				}
				return fault.Fault{Before: fault.ErrInjected}
			})
			var w *facts.Writer
			reopen := func() {
				for {
					var err error
					w, err = facts.Open(t.Context(), st, facts.Config{Table: target.Spec{Name: "facts", Delta: delta.Options{CommitTimeout: 15 * time.Millisecond}}})
					if err == nil {
						return
					}
					require.ErrorIs(t, err, fault.ErrInjected)
				}
			}
			reopen()
			for batch := int64(1); batch <= 30; batch++ {
				w.AddWindow("a#facts", window("a", batch), false)
				switch rng.IntN(4) {
				case 0:
					reopen() // a crash: what is missing comes from the data table's log
					mark, _ := w.Watermark("a#facts")
					for missing := mark + 1; missing <= batch; missing++ {
						w.AddWindow("a#facts", window("a", missing), false)
					}
				case 1, 2:
					if _, err := w.Flush(t.Context()); err != nil {
						require.ErrorIs(t, err, fault.ErrInjected)
					}
				}
			}
			for w.Pending() > 0 {
				if _, err := w.Flush(t.Context()); err != nil {
					require.ErrorIs(t, err, fault.ErrInjected)
				}
			}
			for {
				if _, err := w.Flush(t.Context()); err == nil {
					break
				}
			}
			seen := read(t, inner)
			require.Len(t, seen, 30)
			for row, n := range seen {
				require.Equal(t, 1, n, row)
			}
		})
	}
}

func TestColumnsOfThePredecessorStay(t *testing.T) {
	t.Parallel()
	names := strings.Fields(`app_id batch_id rows min_lsn max_lsn min_commit_ts max_commit_ts deletes inserts updates started_at duration_ms
		source_rtt_ms read_seconds read_mb network_wait_ms retention_watermark_ts retention_headroom_hours event lost_from_ts lost_to_ts
		source_max_commit_ts capture_lag_seconds ingestion_lag_seconds end_lsn end_commit_ts detail target written_at`)
	s := facts.Schema()
	for i, name := range names {
		require.Equal(t, name, s.Fields[i].Name)
	}
	for _, f := range s.Fields {
		require.True(t, f.Nullable)
		require.NotEmpty(t, f.Comment())
		want := schema.Type(schema.String)
		switch {
		case strings.HasSuffix(f.Name, "_ts"), strings.HasSuffix(f.Name, "_at"):
			want = schema.TimestampNTZ
		case strings.HasSuffix(f.Name, "_hours"), strings.HasSuffix(f.Name, "_seconds"), f.Name == "source_rtt_ms", f.Name == "read_mb":
			want = schema.Double
		case strings.HasSuffix(f.Name, "s") && !strings.HasSuffix(f.Name, "_ts"), f.Name == "batch_id", f.Name == "rows_filtered":
			want = schema.Long
		case f.Name == "generation":
			want = schema.Integer
		}
		require.Equal(t, want, f.Type, f.Name)
	}
}

func TestATableOfThePredecessorIsCarriedOn(t *testing.T) {
	t.Parallel()
	st := mem.New()
	old := &schema.Struct{Fields: facts.Schema().Fields[:29]}
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: old, Properties: map[string]string{"mssql_cdc.schema_version": "15"}}, delta.Options{})
	require.NoError(t, err)
	w := open(t, st)
	w.AddWindow("a#facts", window("a", 1), false)
	require.Equal(t, 1, flush(t, w))
	_, err = table.Refresh(t.Context())
	require.NoError(t, err)
	require.Len(t, table.Snapshot().Schema().Fields, len(facts.Schema().Fields))

	st = mem.New()
	_, err = delta.Create(t.Context(), st, delta.Spec{Schema: old, Properties: map[string]string{"mssql_cdc.min_version": "16"}}, delta.Options{})
	require.NoError(t, err)
	_, err = facts.Open(t.Context(), st, facts.Config{Table: target.Spec{Name: "facts"}})
	require.ErrorContains(t, err, "mssql_cdc.min_version is 16")
}

func TestLastEnd(t *testing.T) {
	t.Parallel()
	row := func(app, target string, event mssqlcdc.Event, end, highest int) mssqlcdc.Fact {
		f := mssqlcdc.Fact{AppID: app, Target: target, Event: event}
		if end > 0 {
			f.EndLSN = changetest.LSN(end)
		}
		if highest > 0 {
			f.MaxLSN = changetest.LSN(highest)
		}
		return f
	}
	rows := []mssqlcdc.Fact{
		row("orders", "lake.orders", "", 10, 9),
		row("orders.g1", "lake.orders", "", 0, 12),
		row("orders", "lake.orders", mssqlcdc.EventSnapshotChunk, 99, 99),
		row("customers", "/lake/customers/", "", 30, 0),
		row("customers", "/lake/customers/", mssqlcdc.EventBootstrap, 31, 31),
		row("shared", "lake.a", "", 50, 0),
		row("shared", "lake.b", "", 60, 0),
	}
	st := mem.New()
	w := open(t, st)
	for _, f := range rows {
		w.AddWindow("", f, false)
	}
	flush(t, w)
	for _, test := range []struct {
		target, app string
		want        int
	}{
		{"/lake/orders", "orders", 12},
		{"lake.orders", "new", 12},
		{"/lake/customers", "new", 31},
		{"/lake/x", "shared", 0}, // nobody knows which of the two it was
		{"lake.b", "shared", 60},
		{"/lake/x", "unknown", 0},
	} {
		got, err := w.LastEnd(t.Context(), test.target, test.app)
		require.NoError(t, err)
		want := mssqlcdc.LSN{}
		if test.want > 0 {
			want = changetest.LSN(test.want)
		}
		require.Equal(t, want, got, "%s of %s", test.target, test.app)
	}
}
