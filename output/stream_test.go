package output_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

const ordersStream = `
input: { source: {} }
pipeline: { threads: 1, processors: [] }
output:
  delta_lake:
    path: mem://lake/${! @database_schema }/${! @table }
    app_id: orders
    facts_path: mem://lake/facts
`

// sourceOf cuts a history into windows of up to commits commits, differently every
// time if there is a source of randomness.
func sourceOf(h changetest.History, commits, partRows int, rng *rand.Rand) *source {
	var mu sync.Mutex
	return newSource(func(at changetest.Cursor) (changetest.Window, bool) {
		mu.Lock()
		defer mu.Unlock()
		n, rows := commits, partRows
		if rng != nil {
			n, rows = rng.IntN(commits+1), 1+rng.IntN(partRows)
		}
		return h.Cut(at, n, rows), at.Next < len(h.Commits)
	})
}

func TestStreamFromSourceToTable(t *testing.T) {
	t.Parallel()
	h := changetest.Random(rand.New(rand.NewPCG(3, 1)), 40, 30)
	src := sourceOf(h, 3, 20, nil)
	b := newBench(t, src)
	b.run(ordersStream)
	require.Empty(t, src.nacks)
	require.Zero(t, src.unmark)
	require.NoError(t, b.state.Err())
	b.requireRows("mem://lake/dbo/orders", h.Rows())
	for name, want := range map[string]int{
		"rows_total{dbo.orders}": len(h.Rows()), "commits_total{dbo.orders}": 14, "files_total{dbo.orders}": 14, "facts_rows_total": 14,
		"commit_latency_ns{dbo.orders}": 14, "staged_parts{dbo.orders}": 0, "retries_total{dbo.orders}": 0, "skipped_windows_total{dbo.orders}": 0,
	} {
		require.Equal(t, float64(want), b.count.get("delta_lake_"+name), name)
	}
	require.Positive(t, b.count.get("delta_lake_bytes_total{dbo.orders}"))
	require.Equal(t, float64(h.Commits[39].Time.UnixMilli())/1000, b.count.get("delta_lake_position_timestamp_seconds{dbo.orders}"))
}

// Nacks in the middle of windows, with others behind them, and the input going
// back and cutting differently: every row is there once, and every window that was
// committed has one facts row.
func TestNacksWithWindowsBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for name, where := range map[string]string{"in the pipeline": "pipeline", "after the commit": "after_commit", "in the store": "store"} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 11))
				h := changetest.Random(rng, 30, 20)
				src := sourceOf(h, 4, 15, rng)
				b := newBench(t, src)
				var mu sync.Mutex
				chance := rand.New(rand.NewPCG(seed, 12))
				flaky := func() bool {
					mu.Lock()
					defer mu.Unlock()
					return chance.IntN(6) == 0
				}
				b.processor("flaky", func(*service.Message) error {
					if flaky() {
						return errors.New("bad luck")
					}
					return nil
				})
				config := ordersStream
				switch where {
				case "pipeline":
					config = strings.Replace(config, "processors: []", "processors: [ { flaky: {} } ]", 1)
				case "after_commit":
					config += "    after_commit: [ { flaky: {} } ]\n"
				case "store":
					b.lake.fail(func(uri string, c fault.Call) fault.Fault {
						if uri != "mem://lake/facts" && c.Op == fault.Close && strings.HasSuffix(c.Path, ".parquet") && flaky() {
							return fault.Fault{Before: fault.ErrInjected}
						}
						return fault.Fault{}
					})
				}
				b.run(config)
				b.lake.fail(nil)
				require.NoError(t, b.state.Err())
				require.Zero(t, src.unmark)
				b.requireRows("mem://lake/dbo/orders", h.Rows())
				total := int64(0)
				for _, f := range windowFacts(t, readFacts(t, b.lake.plain("mem://lake/facts"))) {
					total += f["rows"].(int64)
				}
				require.Equal(t, int64(len(h.Rows())), total)
			})
		}
	}
}

func TestFanOutToTwoTables(t *testing.T) {
	t.Parallel()
	h := history(41, 20)
	src := sourceOf(h, 3, 6, nil)
	b := newBench(t, src)
	b.run(`
input: { source: {} }
pipeline: { threads: 1, processors: [] }
output:
  broker:
    pattern: fan_out
    outputs:
      - delta_lake: { path: "mem://a", app_id: orders, facts_path: "mem://facts" }
      - delta_lake: { path: "mem://b", app_id: orders, facts_path: "mem://facts" }
`)
	require.Empty(t, src.nacks)
	for _, uri := range []string{"mem://a", "mem://b"} {
		b.requireRows(uri, h.Rows())
	}
	for part := range src.after {
		require.Equal(t, map[string]mssqlcdc.Mark{
			bronze.Sink("orders", "mem://a"): mssqlcdc.Committed, bronze.Sink("orders", "mem://b"): mssqlcdc.Committed,
		}, part.Marks())
	}
	require.Len(t, readFacts(t, b.lake.plain("mem://facts")), 14, "one app_id for two tables keeps their facts apart")
}

func TestAfterCommit(t *testing.T) {
	t.Parallel()
	h := history(42, 10)
	src := sourceOf(h, 2, 3, nil)
	b := newBench(t, src)
	var mu sync.Mutex
	var seen []string
	failOnce := true
	b.processor("first", func(m *service.Message) error {
		body, err := m.AsStructured()
		if err != nil {
			return err
		}
		part := body.(*mssqlcdc.RecordBatch)
		env := part.Envelope()
		mu.Lock()
		defer mu.Unlock()
		if !env.Last {
			t.Errorf("part %d is not the last", env.Part)
		}
		seen = append(seen, part.MarkOf(bronze.Sink("orders", "mem://lake/dbo/orders")).String())
		if len(seen) == 3 && failOnce {
			failOnce = false
			return errors.New("verdict not written")
		}
		return nil
	})
	second := 0
	b.processor("second", func(*service.Message) error {
		mu.Lock()
		defer mu.Unlock()
		second++
		return nil
	})
	b.run(ordersStream + "    after_commit: [ { first: {} }, { second: {} } ]\n")
	require.NotEmpty(t, src.nacks)
	require.ErrorContains(t, src.nacks[0], "after_commit: processor 0: verdict not written")
	require.Positive(t, count(seen, "skipped"), "the window whose processors failed comes again")
	require.Equal(t, len(seen)-1, second, "the first error ends the chain")
	b.requireRows("mem://lake/dbo/orders", h.Rows())
}

func count(all []string, what string) int {
	n := 0
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// A fatal condition reaches the run state even under a broker that never lets a
// nack through.
func TestAFatalConditionUnderFanOut(t *testing.T) {
	t.Parallel()
	h := history(43, 10)
	src := sourceOf(h, 2, 100, nil)
	b := newBench(t, src)
	d := newDirect(t, b.lake, "path: mem://a\napp_id: somebody\n")
	d.window(h.Cut(changetest.Cursor{}, 1, 100), "")
	d.close()
	stream := b.stream(`
input: { source: {} }
pipeline: { threads: 1, processors: [] }
shutdown_timeout: 200ms
output:
  broker:
    outputs:
      - delta_lake: { path: "mem://a", app_id: orders }
      - drop: {}
`)
	done := make(chan error, 1)
	go func() { done <- stream.Run(context.Background()) }()
	select {
	case <-b.state.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody heard of it")
	}
	require.ErrorContains(t, b.state.Err(), "adopt")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = stream.Stop(ctx) // the broker never gives up, so the stop is a hard one
	<-done
}

func TestFactsComeAtTheInterval(t *testing.T) {
	t.Parallel()
	h := history(44, 2)
	first := h.Cut(changetest.Cursor{}, 2, 100)
	released := make(chan struct{})
	src := newSource(func(at changetest.Cursor) (changetest.Window, bool) {
		if at.Next == 0 {
			return first, true
		}
		<-released
		return changetest.Window{}, false
	})
	b := newBench(t, src)
	stream := b.stream(ordersStream + "    facts_interval: 5ms\n")
	done := make(chan error, 1)
	go func() { done <- stream.Run(context.Background()) }()
	require.Eventually(t, func() bool { return b.count.get("delta_lake_facts_rows_total") == 1 }, 10*time.Second, time.Millisecond)
	close(released)
	require.NoError(t, <-done)
}
