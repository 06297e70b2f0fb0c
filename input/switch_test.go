package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

func newerInstance(start int) *mssqlcdc.CaptureInstance {
	return &mssqlcdc.CaptureInstance{
		Name: "dbo_a_v2", Table: mssqlcdc.TableID{Schema: "dbo", Name: "a"}, StartLSN: fakeLSN(start),
		CreateDate: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Rows before the start of a newer instance come from the old one, rows from there
// on from the new one, each once and in order, whatever is rejected, fails or ends
// around the switch.
func TestSwitchOfCaptureInstance(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := newDice(seed)
				source, s, res := newFakeSource("a", "b"), newSink(), resources()
				a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
				start := 2 + rng.IntN(30)
				source.tables[a].newer = newerInstance(start)
				var want []int64
				n := 2
				write := func(commits int) {
					for range commits {
						name := []string{"a", "b"}[rng.IntN(2)]
						source.commit(name, n, 1)
						if name == "a" {
							want = append(want, int64(n)*1000)
						}
						n++
					}
				}
				write(rng.IntN(20))
				s.reject = func() bool {
					if rng.IntN(5) == 0 && n < 60 {
						write(1)
					}
					return rng.IntN(12) == 0
				}
				source.readErr = func(mssqlcdc.TableID, int) error {
					if rng.IntN(15) == 0 {
						return &net.OpError{Op: "read", Err: errors.New("connection reset by the test")}
					}
					return nil
				}
				config := testConfig(t, boundedYAML)
				for range 3 {
					run := newTestRun(config, res, source)
					require.NoError(t, run.drainSome(t.Context(), s, rng, 1+rng.IntN(12)))
					require.NoError(t, run.Close(t.Context()))
				}
				write(5)
				s.reject = func() bool { return false }
				run := newTestRun(config, res, source)
				require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
				require.NoError(t, run.state.Err())
				require.NoError(t, run.Close(t.Context()))
				require.Equal(t, want, s.rows[a])
				switches := map[string]bool{}
				for _, id := range want {
					expected := "dbo_a"
					if id/1000 >= int64(start) {
						expected = "dbo_a_v2"
					}
					require.Equal(t, expected, s.from[id], "row %d, the new instance starts at %d", id, start)
				}
				for _, event := range s.events {
					if event.Event == mssqlcdc.EventSwitched {
						switches[event.Detail] = true
					}
				}
				state, _ := run.stored(t.Context(), "a")
				if state.Instance == "dbo_a_v2" {
					require.Len(t, switches, 1)
				}
				for text := range switches {
					var detail map[string]any
					require.NoError(t, json.Unmarshal([]byte(text), &detail))
					require.Equal(t, "dbo_a", detail["old"])
					require.Equal(t, "dbo_a_v2", detail["new"])
					require.Equal(t, fakeLSN(start).String(), detail["start_lsn"])
					require.Equal(t, []any{"old"}, detail["not_captured"])
				}
			})
		})
	}
}

// The old instance is dropped while the stream runs, when nothing is left in it that
// the newer one does not have.
func TestInstanceDroppedAtTheSwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, s := newFakeSource("a"), newSink()
		a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
		for n := 2; n <= 5; n++ {
			source.commit("a", n, 1)
		}
		run := newTestRun(testConfig(t, "tables: [ dbo.a ]\nformat: record_batch\npoll_interval: 1s\n"), resources(), source)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run.drain(ctx, s, newDice(1)) }()
		time.Sleep(10 * time.Second)
		source.mu.Lock()
		source.tables[a].newer, source.tables[a].instance.Name = newerInstance(6), ""
		source.mu.Unlock()
		source.commit("a", 8, 1)
		time.Sleep(10 * time.Second)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, run.Close(t.Context()))
		require.NoError(t, run.state.Err(), "nothing is lost")
		require.Equal(t, []int64{2000, 3000, 4000, 5000, 8000}, s.rows[a])
		require.Equal(t, "dbo_a_v2", s.from[8000])
	})
}

// With snapshot_on_switch every row that is there comes once more, with the columns of
// the newer instance; the verdict does not wait for it.
func TestSnapshotOnSwitch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := newDice(seed)
				source, s, res := newFakeSource("a"), newSink(), resources()
				a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
				start := 8 + rng.IntN(8)
				source.tables[a].newer = newerInstance(start)
				for n := 2; n <= 20; n++ {
					source.insert("a", n, int64(n))
				}
				s.reject = func() bool { return rng.IntN(10) == 0 }
				more, rows := "", 19
				if seed%2 == 1 { // a snapshot that is open is given up for the newer one
					more, rows = "stream_snapshot: true\n", -1
					source.head = fakeLSN(start - 1)
				}
				config := testConfig(t, boundedYAML+"snapshot_chunk_rows: 3\nsnapshot_on_switch: true\n"+more)
				if rows < 0 {
					run := newTestRun(config, res, source)
					require.NoError(t, run.drainSome(t.Context(), s, rng, 1+rng.IntN(4)))
					require.NoError(t, run.Close(t.Context()))
					source.head = fakeLSN(20)
				}
				for range rng.IntN(4) {
					run := newTestRun(config, res, source)
					require.NoError(t, run.drainSome(t.Context(), s, rng, 1+rng.IntN(8)))
					require.NoError(t, run.Close(t.Context()))
				}
				run := newTestRun(config, res, source)
				require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
				require.NoError(t, run.state.Err())
				require.NoError(t, run.Close(t.Context()))
				if rows > 0 {
					require.Len(t, s.rows[a], rows, "each change once")
					require.False(t, s.everHeld, "nothing is missing without it")
				}
				require.Len(t, s.snapshot[a], 19, "each row once")
				state, _ := run.stored(t.Context(), "a")
				require.True(t, state.Snapshot.Complete)
				require.False(t, state.SnapshotDue)
				require.Zero(t, state.Generation)
			})
		})
	}
}

// An instance that was dropped is no loss if a newer one records everything after
// the position.
func TestDroppedInstance(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		start int // of the newer instance; the position is at 5
		lost  bool
	}{"covered": {6, false}, "a gap": {7, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s, res := newFakeSource("a"), newSink(), resources()
				a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
				for n := 2; n <= 5; n++ {
					source.commit("a", n, 1)
				}
				config := testConfig(t, boundedYAML)
				run := newTestRun(config, res, source)
				require.ErrorIs(t, run.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
				require.NoError(t, run.Close(t.Context()))
				source.tables[a].newer = newerInstance(tc.start)
				source.tables[a].instance.Name = ""
				source.commit("a", 8, 1)
				run = newTestRun(config, res, source)
				require.ErrorIs(t, run.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
				require.NoError(t, run.Close(t.Context()))
				if tc.lost {
					var loss *sqlserver.DataLossError
					require.ErrorAs(t, run.state.Err(), &loss)
					return
				}
				require.NoError(t, run.state.Err())
				require.Equal(t, []int64{2000, 3000, 4000, 5000, 8000}, s.rows[a])
				require.Equal(t, "dbo_a_v2", s.from[8000])
			})
		})
	}
}
