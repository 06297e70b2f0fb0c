package input

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// testConfig is a bounded run of record batches with small parts.
func testConfig(t testing.TB, more string) config {
	t.Helper()
	parsed, err := spec().ParseYAML("connection_string: fake\ncheckpoint_cache: position\n"+more, nil)
	require.NoError(t, err)
	config, err := parseConfig(parsed)
	require.NoError(t, err)
	return config
}

const boundedYAML = `
tables: [ dbo.* ]
run: available_now
format: record_batch
max_commits_per_window: 3
max_rows_per_part: 2
`

// testRun is an input with everything around it that it needs.
type testRun struct {
	*reader
	state *mssqlcdc.RunState
	res   *service.Resources
}

func newTestRun(config config, res *service.Resources, source *fakeSource) *testRun {
	state := mssqlcdc.NewRunState()
	r := newReader(config, res, source.open)
	r.state = state
	return &testRun{reader: r, state: state, res: res}
}

func resources() *service.Resources {
	return service.MockResources(service.MockResourcesOptAddCache("position"))
}

func (r *testRun) stored(ctx context.Context, name string) (checkpoint.State, bool) {
	access := func(ctx context.Context, fn func(checkpoint.Cache)) error {
		return r.res.AccessCache(ctx, "position", func(c service.Cache) { fn(c) })
	}
	state, found, err := checkpoint.NewStore(access, r.config.checkpointKey).Load(ctx, mssqlcdc.TableID{Schema: "dbo", Name: name})
	if err != nil {
		panic(err)
	}
	return state, found
}

func replaceOnce(text, old, new string) string {
	if strings.Count(text, old) != 1 {
		panic("the configuration has not exactly one " + old)
	}
	return strings.Replace(text, old, new, 1)
}

func recordIn(message *service.Message) *mssqlcdc.RecordBatch {
	body, err := message.AsStructured()
	if err != nil {
		return nil
	}
	batch, _ := body.(*mssqlcdc.RecordBatch)
	return batch
}

func idsOf(batch *mssqlcdc.RecordBatch) []int64 {
	column := batch.Record().Column(mssqlcdc.FirstCaptured).(*array.Int64)
	return append([]int64{}, column.Int64Values()...)
}

// dice is a seeded source of chance for several goroutines.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, 1))} }

func (d *dice) IntN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// drainSome drains at most so many batches.
func (r *testRun) drainSome(ctx context.Context, s *sink, rng *dice, batches int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := s.reject
	defer func() { s.reject = before }()
	s.reject = func() bool {
		if batches--; batches <= 0 {
			cancel()
		}
		return before()
	}
	if err := r.drain(ctx, s, rng); !errors.Is(err, context.Canceled) && !errors.Is(err, service.ErrEndOfInput) {
		return err
	}
	return nil
}

// drain plays the engine: one batch in hand, acknowledgements each from a goroutine
// of its own and out of order, until the input ends.
func (r *testRun) drain(ctx context.Context, s *sink, rng *dice) error {
	var acks sync.WaitGroup
	defer acks.Wait()
	for {
		if err := r.Connect(ctx); err != nil {
			return err
		}
		batch, ack, err := r.ReadBatch(ctx)
		if errors.Is(err, service.ErrNotConnected) {
			continue
		}
		if err != nil {
			return err
		}
		result := s.write(recordIn(batch[0]))
		delay := time.Duration(rng.IntN(3)) * time.Millisecond
		acks.Go(func() {
			time.Sleep(delay) // the engine's goroutines settle in any order
			if err := ack(ctx, result); err != nil {
				panic(err)
			}
		})
	}
}

// history fills a source with commits of two tables and returns the ids that a
// complete reader must end up with.
func history(source *fakeSource, rng *dice, from, commits int) map[string][]int64 {
	want := map[string][]int64{}
	for n := from; n < from+commits; n++ {
		name := []string{"a", "b", "elsewhere"}[rng.IntN(3)]
		rows := 1 + rng.IntN(5)
		source.commit(name, n, rows)
		for i := range rows {
			want[name] = append(want[name], int64(n)*1000+int64(i))
		}
	}
	return want
}

// Whatever is rejected, however acknowledgements are ordered and wherever reads
// fail, every row arrives once and in order in an output that keeps its side of the
// contract; restarts included.
func TestEveryRowOnceInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := newDice(seed)
				source, s, res := newFakeSource("a", "b"), newSink(), resources()
				want := map[string][]int64{}
				s.reject = func() bool { return rng.IntN(12) == 0 }
				source.readErr = func(mssqlcdc.TableID, int) error {
					if rng.IntN(15) == 0 {
						return &net.OpError{Op: "read", Err: errors.New("connection reset by the test")}
					}
					return nil
				}
				for round := range 3 {
					for name, ids := range history(source, rng, 2+round*100, 1+rng.IntN(40)) {
						want[name] = append(want[name], ids...)
					}
					config := testConfig(t, boundedYAML)
					config.parallelReads = 1 + rng.IntN(3)
					run := newTestRun(config, res, source)
					require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
					require.NoError(t, run.state.Err())
					require.NoError(t, run.Close(t.Context()))
					for _, name := range []string{"a", "b"} {
						id := mssqlcdc.TableID{Schema: "dbo", Name: name}
						require.Equal(t, want[name], s.rows[id])
						state, found := run.stored(t.Context(), name)
						require.True(t, found)
						require.Equal(t, source.head, state.LSN, "the position moves on a quiet table, too")
						require.Equal(t, s.position[id], state.DataLSN)
					}
				}
			})
		})
	}
}

func TestResumePositionNeverPassesAnUnacknowledgedWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("a")
		for n := 2; n < 8; n++ {
			source.commit("a", n, 1)
		}
		run := newTestRun(testConfig(t, boundedYAML+"max_commits_per_window: 1\n"), resources(), source)
		require.NoError(t, run.Connect(t.Context()))
		var acks []service.AckFunc
		for range 4 {
			batch, ack, err := run.ReadBatch(t.Context())
			require.NoError(t, err)
			recordIn(batch[0]).Mark("sink", mssqlcdc.Committed)
			acks = append(acks, ack)
		}
		position := func() mssqlcdc.LSN {
			state, _ := run.stored(t.Context(), "a")
			return state.LSN
		}
		require.NoError(t, acks[2](t.Context(), nil))
		require.NoError(t, acks[1](t.Context(), nil))
		require.Equal(t, fakeLSN(0), position(), "the first is still on its way")
		require.NoError(t, acks[0](t.Context(), nil))
		require.Equal(t, fakeLSN(4), position())
		require.NoError(t, run.Close(t.Context()), "the fourth was never acknowledged")
		require.Equal(t, fakeLSN(4), position())
	})
}

func TestAckWithoutMarkFailsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("a")
		source.commit("a", 2, 1)
		run := newTestRun(testConfig(t, boundedYAML), resources(), source)
		require.NoError(t, run.Connect(t.Context()))
		_, ack, err := run.ReadBatch(t.Context())
		require.NoError(t, err)
		require.NoError(t, ack(t.Context(), nil))
		_, _, err = run.ReadBatch(t.Context())
		require.ErrorIs(t, err, service.ErrEndOfInput)
		require.ErrorContains(t, run.state.Err(), "no delta_lake output has written it")
		require.ErrorContains(t, run.state.Err(), "require_commit: false")
		state, _ := run.stored(t.Context(), "a")
		require.Equal(t, fakeLSN(0), state.LSN)
		require.NoError(t, run.Close(t.Context()))
	})
}

func TestElsewhereAFatalConditionStaysVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("a")
		source.commit("a", 2, 1)
		source.tables[mssqlcdc.TableID{Schema: "dbo", Name: "a"}].low = fakeLSN(9)
		source.head = fakeLSN(9)
		res := resources()
		run := newTestRun(testConfig(t, boundedYAML+"start_from: 0x00000000010000000002\n"), res, source)
		run.reader.state = nil // another program
		err := run.Connect(t.Context())
		var backoff *service.ErrBackOff
		require.ErrorAs(t, err, &backoff, "an end of input would look like success")
		require.ErrorContains(t, err, "lies before the oldest change")
		require.NoError(t, run.Close(t.Context()))
	})
}

func TestPurgedPositionEndsTheRunOrTheTable(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{onErrorStop, onErrorIsolate} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s, res := newFakeSource("a", "b"), newSink(), resources()
				rng := newDice(1)
				source.commit("a", 2, 1)
				source.commit("b", 3, 1)
				config := testConfig(t, boundedYAML+"on_table_error: "+policy+"\n")
				first := newTestRun(config, res, source)
				require.ErrorIs(t, first.drain(t.Context(), s, rng), service.ErrEndOfInput)
				require.NoError(t, first.Close(t.Context()))

				source.commit("a", 10, 1)
				source.commit("b", 11, 1)
				source.tables[mssqlcdc.TableID{Schema: "dbo", Name: "a"}].low = fakeLSN(8)
				second := newTestRun(config, res, source)
				require.ErrorIs(t, second.drain(t.Context(), s, rng), service.ErrEndOfInput)
				require.NoError(t, second.Close(t.Context()))

				var loss *sqlserver.DataLossError
				require.ErrorAs(t, second.state.Err(), &loss)
				require.Equal(t, "dbo_a", loss.Instance)
				require.Equal(t, []int64{2000}, s.rows[mssqlcdc.TableID{Schema: "dbo", Name: "a"}], "nothing after the gap was delivered")
				if policy == onErrorIsolate {
					require.Equal(t, []int64{3000, 11000}, s.rows[mssqlcdc.TableID{Schema: "dbo", Name: "b"}])
				}
			})
		})
	}
}

// A table that the output cannot write ends the run, or only itself.
func TestRefusedTableEndsTheRunOrTheTable(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{onErrorStop, onErrorIsolate} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := newFakeSource("a", "b"), newSink()
				a, b := mssqlcdc.TableID{Schema: "dbo", Name: "a"}, mssqlcdc.TableID{Schema: "dbo", Name: "b"}
				for i := range 6 {
					source.commit("a", 2+2*i, 1)
					source.commit("b", 3+2*i, 1)
				}
				run := newTestRun(testConfig(t, boundedYAML+"on_table_error: "+policy+"\n"), resources(), source)
				schema := errors.New("the table has another schema")
				s.refuse = func(table mssqlcdc.TableID) error {
					if table != a || len(s.rows[a]) == 0 {
						return nil
					}
					run.state.FailTable(table, schema)
					return schema
				}
				require.ErrorIs(t, run.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
				require.NoError(t, run.Close(t.Context()))
				require.ErrorIs(t, run.state.Err(), schema)
				require.Less(t, len(s.rows[a]), 6)
				if policy == onErrorIsolate {
					require.ErrorContains(t, run.state.Err(), "table dbo.a was left out")
					require.Equal(t, []int64{3000, 5000, 7000, 9000, 11000, 13000}, s.rows[b])
				}
			})
		})
	}
}

// A quiet source is polled once per interval, and stopping does not wait for it.
func TestIdlePolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("a")
		run := newTestRun(testConfig(t, "tables: [ dbo.a ]\nformat: record_batch\npoll_interval: 10s\ntables_refresh_interval: 1h\n"), resources(), source)
		require.NoError(t, run.Connect(t.Context()))
		go func() {
			if batch, ack, err := run.ReadBatch(t.Context()); err == nil {
				recordIn(batch[0]).Mark("sink", mssqlcdc.Committed)
				_ = ack(t.Context(), nil)
			}
		}()
		source.mu.Lock()
		before := source.polls
		source.mu.Unlock()
		time.Sleep(101 * time.Second)
		source.mu.Lock()
		polls := source.polls - before
		source.mu.Unlock()
		require.InDelta(t, 10, polls, 2)
		begin := time.Now()
		require.NoError(t, run.Close(t.Context()))
		require.Less(t, time.Since(begin), time.Second)
	})
}

// A source that is out of reach makes the input disconnected, which the readiness
// probe shows, and connecting again goes on where it stopped.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, s, res := newFakeSource("a"), newSink(), resources()
		source.commit("a", 2, 1)
		down := true
		source.pollErr = func() error {
			if down {
				return &net.OpError{Op: "dial", Err: errors.New("refused by the test")}
			}
			return nil
		}
		run := newTestRun(testConfig(t, boundedYAML), res, source)
		require.NoError(t, run.Connect(t.Context()))
		_, _, err := run.ReadBatch(t.Context())
		require.ErrorIs(t, err, service.ErrNotConnected)
		require.NoError(t, run.state.Err(), "nothing that a retry cannot cure")
		source.mu.Lock()
		down = false
		source.mu.Unlock()
		require.ErrorIs(t, run.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
		require.Equal(t, []int64{2000}, s.rows[mssqlcdc.TableID{Schema: "dbo", Name: "a"}])
		require.NoError(t, run.Close(t.Context()))
	})
}
