package output_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

// readFacts reads the facts table as objects.
func readFacts(t *testing.T, st store.Store) []map[string]any {
	t.Helper()
	table, err := delta.Open(t.Context(), st, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	var rows []map[string]any
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		rows = slices.AppendSeq(rows, mssqlcdc.Rows(rec, 0))
	}
	return rows
}

// windows are the facts of windows, by batch id; none may come twice.
func windowFacts(t *testing.T, facts []map[string]any) map[int64]map[string]any {
	t.Helper()
	byBatch := map[int64]map[string]any{}
	for _, f := range facts {
		if f["event"] != nil || f["batch_id"] == nil {
			continue
		}
		id := f["batch_id"].(int64)
		require.NotContains(t, byBatch, id)
		byBatch[id] = f
	}
	return byBatch
}

func TestAFactsRowSaysWhatAWindowWas(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(31, 5)
	now := time.Date(2026, 3, 29, 12, 0, 1, 500_000_000, time.UTC)
	d := newDirect(t, l, ordersConfig, output.WithClock(func() time.Time { return now }))
	w := h.Cut(changetest.Cursor{}, 5, 4)
	last := w.Parts[len(w.Parts)-1]
	env := last.Envelope()
	env.Warnings = []string{"a \"quoted\" one"}
	env.Metrics.NetworkWait = new(int64(17))
	w.Parts[len(w.Parts)-1] = changetest.Batch(env, h.Rows()[w.Rows-int(last.NumRows()):], false)
	d.window(w, "")
	d.close()

	facts := readFacts(t, l.plain("mem://facts"))
	require.Len(t, facts, 1)
	f := facts[0]
	var deletes, inserts, updates int64
	for _, r := range h.Rows() {
		switch r.Position.Operation {
		case mssqlcdc.Delete:
			deletes++
		case mssqlcdc.Insert:
			inserts++
		case mssqlcdc.UpdateAfter:
			updates++
		}
	}
	lastCommit := h.Commits[4]
	want := map[string]any{
		"app_id": "orders", "batch_id": int64(1), "rows": int64(len(h.Rows())), "min_lsn": h.Commits[0].LSN.String(), "max_lsn": h.End().String(),
		"min_commit_ts": h.Commits[0].Time, "max_commit_ts": lastCommit.Time, "deletes": deletes, "inserts": inserts, "updates": updates,
		"started_at": now, "duration_ms": int64(0), "source_rtt_ms": 1.3, "read_seconds": 0.123, "read_mb": float64(len(h.Rows())*100) / 1e6,
		"network_wait_ms": int64(17), "retention_watermark_ts": time.Date(2026, 3, 26, 12, 0, 0, 0, time.UTC),
		"event": nil, "lost_from_ts": nil, "lost_to_ts": nil, "source_max_commit_ts": lastCommit.Time, "capture_lag_seconds": 1.5, "ingestion_lag_seconds": 0.0,
		"end_lsn": h.End().String(), "end_commit_ts": lastCommit.Time, "detail": `{"warnings":["a \"quoted\" one"]}`, "target": "mem://orders", "written_at": now,
		"source_table": "dbo.orders", "capture_instance": "dbo_orders", "generation": int64(0), "start_lsn": nil, "commits": int64(5),
		"parts": int64(len(w.Parts)), "rows_filtered": int64(0),
	}
	headroom := lastCommit.Time.Sub(want["retention_watermark_ts"].(time.Time)).Hours()
	require.InDelta(t, headroom, f["retention_headroom_hours"], 0.005)
	delete(f, "retention_headroom_hours")
	require.Equal(t, want, f)
}

// Whatever is lost between the commit, the facts and the acknowledgement: after a
// restart every window has one facts row.
func TestFactsAreRebuiltAfterACrash(t *testing.T) {
	t.Parallel()
	for _, static := range []bool{true, false} {
		config := ordersConfig
		if !static {
			config = "path: mem://${! @table }\napp_id: orders\nfacts_path: mem://facts\n"
		}
		t.Run(fmt.Sprint("static path ", static), func(t *testing.T) {
			t.Parallel()
			l, h := newLake(), history(32, 20)
			rng := rand.New(rand.NewPCG(32, 9))
			at := changetest.Cursor{}
			batches := int64(0)
			d := newDirect(t, l, config)
			for at.Next < len(h.Commits) {
				w := h.Cut(at, 2, 3)
				if d.window(w, bronze.Sink("orders", "mem://orders")) == mssqlcdc.Committed {
					batches++
				}
				if rng.IntN(3) > 0 {
					at = w.After // the acknowledgement was stored
				}
				if rng.IntN(3) == 0 {
					d = newDirect(t, l, config) // a crash: nobody closes the old one
				}
			}
			d = newDirect(t, l, config)
			d.window(h.Cut(at, 0, 1), "") // opens the table of a router
			d.close()
			facts := windowFacts(t, readFacts(t, l.plain("mem://facts")))
			require.Len(t, facts, int(batches))
			total := int64(0)
			for _, f := range facts {
				total += f["rows"].(int64)
			}
			require.Equal(t, int64(len(h.Rows())), total)
			requireRows(t, l.plain("mem://orders"), h.Rows())
		})
	}
}

// With a static path the facts come at the start already, without any change.
func TestFactsAreRebuiltOnConnect(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(33, 4)
	d := newDirect(t, l, ordersConfig)
	d.window(h.Cut(changetest.Cursor{}, 4, 100), "")
	require.Empty(t, readFacts(t, l.plain("mem://facts")))
	d = newDirect(t, l, ordersConfig)
	d.close()
	require.Len(t, readFacts(t, l.plain("mem://facts")), 1)
}

func TestEventsAreWrittenBeforeTheWriteReturns(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(34, 8)
	d := newDirect(t, l, ordersConfig)
	skip := mssqlcdc.Fact{
		Event: mssqlcdc.EventDataSkipped, MinLSN: changetest.LSN(1), MaxLSN: changetest.LSN(1), Detail: `{"certain":true}`,
		LostFrom: new(h.Commits[0].Time), LostTo: new(h.Commits[1].Time),
	}
	w := h.Cut(changetest.Cursor{}, 4, 100)
	env := w.Env
	env.Events = []mssqlcdc.Fact{skip}
	part := changetest.Batch(env, h.Rows()[:w.Rows], false)
	require.NoError(t, d.send(part))
	facts := readFacts(t, l.plain("mem://facts"))
	require.Len(t, facts, 2, "the event and the row of its window, not only at the interval")

	// The acknowledgement was lost: the window comes again, to a new process too.
	require.NoError(t, d.send(changetest.Batch(env, h.Rows()[:w.Rows], false)))
	d.close()
	d = newDirect(t, l, ordersConfig)
	require.NoError(t, d.send(changetest.Batch(env, h.Rows()[:w.Rows], false)))

	// An idle window can have events too, and is nothing that the table remembers.
	idle := h.Cut(w.After, 0, 1)
	env = idle.Env
	change := mssqlcdc.Fact{Event: mssqlcdc.EventSchemaChange, MinLSN: env.Window.End, MaxLSN: env.Window.End, Detail: "ALTER TABLE dbo.orders ADD x int"}
	env.Events = []mssqlcdc.Fact{change}
	for range 2 {
		require.NoError(t, d.send(changetest.Batch(env, nil, false)))
	}
	d.close()

	events := map[any]int{}
	for _, f := range readFacts(t, l.plain("mem://facts")) {
		events[f["event"]]++
		if f["event"] == "data_skipped" {
			require.Equal(t, int64(1), f["batch_id"])
			require.Equal(t, "mem://orders", f["target"])
			require.Equal(t, h.Commits[0].Time, f["lost_from_ts"])
		}
	}
	require.Equal(t, 1, events["data_skipped"])
	require.Equal(t, 1, events["schema_change"])
	require.Equal(t, 2, events["position_passed"])
}

// A crash at any call of the store, between data, facts and mark: the restart ends
// with every row and every facts row once.
func TestCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	h := history(35, 6)
	deliver := func(ctx context.Context, out service.BatchOutput) {
		for at := (changetest.Cursor{}); at.Next < len(h.Commits); {
			w := h.Cut(at, 2, 4)
			last := w.Parts[len(w.Parts)-1]
			if env := last.Envelope(); at.Next == 2 {
				env.Events = []mssqlcdc.Fact{{Event: mssqlcdc.EventSchemaChange, MinLSN: env.Window.End, MaxLSN: env.Window.End, Detail: "ALTER"}}
				b, err := mssqlcdc.NewRecordBatch(env, last.Record())
				require.NoError(t, err)
				w.Parts[len(w.Parts)-1] = b
			}
			for _, part := range w.Parts {
				if err := out.WriteBatch(ctx, service.MessageBatch{message(part)}); err != nil {
					return
				}
			}
			at = w.After
		}
	}
	calls := 0
	count := newLake()
	var mu sync.Mutex
	count.fail(func(string, fault.Call) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return fault.Fault{}
	})
	d := newDirect(t, count, ordersConfig)
	deliver(t.Context(), d)
	d.close()
	require.Greater(t, calls, 25)

	for crash := 1; crash <= calls; crash++ {
		l := newLake()
		n := 0
		ctx, cancel := context.WithCancel(t.Context())
		l.fail(func(string, fault.Call) fault.Fault {
			mu.Lock()
			defer mu.Unlock()
			if n++; n < crash {
				return fault.Fault{}
			}
			cancel() // the process is gone: nothing works any more
			if n == crash && crash%2 == 1 {
				return fault.Fault{After: fault.ErrInjected}
			}
			return fault.Fault{Before: fault.ErrInjected}
		})
		dying, err := output.New(ordersConfig, service.MockResources(), output.WithStores(store.NewRegistry(l.provider())))
		require.NoError(t, err)
		if err := dying.Connect(ctx); err == nil {
			deliver(ctx, dying)
		}
		l.fail(nil)
		d := newDirect(t, l, ordersConfig)
		deliver(t.Context(), d)
		d.close()
		cancel()
		requireRows(t, l.plain("mem://orders"), h.Rows())
		facts := readFacts(t, l.plain("mem://facts"))
		windows := windowFacts(t, facts)
		total, events := int64(0), 0
		for _, f := range windows {
			total += f["rows"].(int64)
		}
		for _, f := range facts {
			if f["event"] == "schema_change" {
				events++
			}
		}
		require.Equal(t, int64(len(h.Rows())), total, "crash at call %d of %d", crash, calls)
		require.Equal(t, 1, events, "crash at call %d of %d", crash, calls)
	}
}
