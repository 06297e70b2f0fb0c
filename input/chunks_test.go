package input

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

func tableA() mssqlcdc.TableID { return mssqlcdc.TableID{Schema: "dbo", Name: "a"} }

// ended drains a bounded run and closes it.
func (r *testRun) ended(t *testing.T, s *sink) {
	t.Helper()
	require.ErrorIs(t, r.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
	require.NoError(t, r.state.Err())
	require.NoError(t, r.Close(t.Context()))
}

// onlyYAML is a run of snapshots only.
func onlyYAML() string { return replaceOnce(snapshotYAML, "run: available_now", "run: snapshot_only") }

// filled is a source whose tables have so many rows in turn, committed from LSN 2 on.
func filled(rows int, names ...string) *fakeSource {
	source := newFakeSource(names...)
	for i := range rows {
		source.insert(names[i%len(names)], 2+i, int64(i))
	}
	return source
}

// The next chunk begins while one is handed out, also of another table, and no more than
// that.
func TestTwoChunksAtOnce(t *testing.T) {
	t.Parallel()
	for parallelism, want := range map[int]int{1: 1, 2: 2, 5: 2} {
		t.Run(fmt.Sprint(parallelism), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(30, "a", "b"), newSink()
				var mu sync.Mutex
				now, most, helpers := 0, 0, 0
				source.reading = func(request sqlserver.ChunkRequest) func() {
					mu.Lock()
					defer mu.Unlock()
					now++
					most, helpers = max(most, now), cap(request.Helpers)
					return func() {
						mu.Lock()
						defer mu.Unlock()
						now--
					}
				}
				config := testConfig(t, snapshotYAML)
				config.snapshotParallelism = parallelism
				newTestRun(config, resources(), source).ended(t, s)
				require.Equal(t, want, most)
				require.Equal(t, parallelism-1, helpers)
				require.Len(t, s.snapshot[tableA()], 15)
			})
		})
	}
}

// Tables that are opened together share one S, but for one that begins later, also if that
// one is opened first.
func TestSharedStamp(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"late", "0"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(9, "a", "b", last), newSink()
				late := mssqlcdc.TableID{Schema: "dbo", Name: last}
				source.tables[late].instance.StartLSN = fakeLSN(19).Next()
				source.headOf = map[string]int{"dbo_" + last: 19}
				run := newTestRun(testConfig(t, snapshotYAML), resources(), source)
				require.NoError(t, run.Connect(t.Context()))
				for name, want := range map[string]int{"a": 10, "b": 10, last: 19} {
					state, found := run.stored(t.Context(), name)
					require.True(t, found)
					require.Equal(t, fakeLSN(want), state.Snapshot.LSN, name)
				}
				source.commit("elsewhere", 30, 0)
				run.ended(t, s)
			})
		})
	}
}

// A row that moves behind the snapshot's back is in no chunk. The table counts as complete
// only when the change that moved it is there, too, in a bounded run as well.
func TestVerdictWaitsForWhatChunksMayShow(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{"available_now": snapshotYAML, "snapshot_only": onlyYAML()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(10, "a"), newSink()
				moved := false
				s.reject = func() bool {
					if !moved {
						moved = true
						source.move("a", 50, 9, -1)
					}
					return false
				}
				newTestRun(testConfig(t, yaml+"snapshot_parallelism: 1\n"), resources(), source).ended(t, s)
				require.NotContains(t, s.snapshot[tableA()], int64(9))
				require.NotContains(t, s.snapshot[tableA()], int64(-1))
				require.Equal(t, []int64{50_000}, s.rows[tableA()])
				require.Equal(t, fakeLSN(50), s.final[tableA()])
				require.False(t, s.held[tableA()])
			})
		})
	}
}

// A run of snapshots only ends when they are read, with what was committed until then. The
// next one has nothing to do; a run of another kind goes on from there.
func TestSnapshotOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, s, res := filled(20, "a", "b"), newSink(), resources()
		only := testConfig(t, replaceOnce(onlyYAML(), "stream_snapshot: true\n", ""))
		newTestRun(only, res, source).ended(t, s)
		require.Len(t, s.snapshot[tableA()], 10)
		require.Empty(t, s.rows[tableA()])
		require.False(t, s.held[tableA()])
		require.Equal(t, fakeLSN(21), s.final[tableA()])

		source.insert("a", 40, 3)
		events := len(s.events)
		newTestRun(only, res, source).ended(t, s)
		require.Empty(t, s.rows[tableA()])
		require.Len(t, s.events, events)

		newTestRun(testConfig(t, boundedYAML), res, source).ended(t, s)
		require.Equal(t, []int64{40_000}, s.rows[tableA()])
		require.Len(t, s.snapshot[tableA()], 10)
	})
}

// A crash in the middle of a run of snapshots only does not end it early: a row that moves
// meanwhile is in a chunk, or its change came.
func TestSnapshotOnlyGoesOn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := newDice(seed)
				source, s, res := filled(20, "a"), newSink(), resources()
				only := testConfig(t, onlyYAML())
				run := newTestRun(only, res, source)
				require.NoError(t, run.drainSome(t.Context(), s, rng, 1+rng.IntN(8)))
				require.NoError(t, run.Close(t.Context()))
				source.move("a", 30, 19, -1)
				newTestRun(only, res, source).ended(t, s)
				seen := map[int64]bool{}
				for _, id := range s.snapshot[tableA()] {
					seen[id] = true
				}
				for id := range int64(19) {
					require.True(t, seen[id], "row %d", id)
				}
				if !seen[19] && !seen[-1] {
					require.Equal(t, []int64{30_000}, s.rows[tableA()])
				}
			})
		})
	}
}

// A table that is read at one moment is one chunk, stamped with S whenever it is read.
func TestWholeSnapshot(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]bool{"quiet": false, "changed meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(10, "a"), newSink()
				source.reading = func(request sqlserver.ChunkRequest) func() {
					if request.Isolation != sqlserver.Snapshot || len(request.Key.Columns) > 0 {
						t.Errorf("read under %s on the key %v", request.Isolation, request.Key)
					}
					if change {
						source.insert("a", 30, 30)
					}
					return func() {}
				}
				newTestRun(testConfig(t, snapshotYAML+"snapshot_mode: whole\n"), resources(), source).ended(t, s)
				require.Len(t, s.snapshot[tableA()], 10)
				require.Equal(t, map[mssqlcdc.LSN]bool{fakeLSN(11): true}, s.stamps)
				require.Contains(t, s.events[0].Detail, `"mode":"full"`)
				require.Equal(t, mssqlcdc.EventBootstrap, s.events[1].Event)
				require.Contains(t, s.events[1].Detail, fmt.Sprintf(`"exact":%t`, !change))
				if change {
					require.Equal(t, fakeLSN(30), s.final[tableA()])
				}
			})
		})
	}
}

func TestWholeSnapshotNeedsIsolation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := filled(1, "a")
		source.notAllowed = &sqlserver.ConfigError{Field: "snapshot isolation", Reason: "not allowed"}
		run := newTestRun(testConfig(t, snapshotYAML+"snapshot_mode: whole\n"), resources(), source)
		require.ErrorIs(t, run.drain(t.Context(), newSink(), newDice(1)), service.ErrEndOfInput)
		require.ErrorIs(t, run.state.Err(), source.notAllowed)
		_, found := run.stored(t.Context(), "a")
		require.False(t, found, "nothing was begun")
		require.NoError(t, run.Close(t.Context()))
	})
}

// While clean-up is close behind the changes, they are read first.
func TestSnapshotPauses(t *testing.T) {
	t.Parallel()
	for least, pauses := range map[string]bool{"0s": false, "20s": true} {
		t.Run(least, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(40, "a"), newSink()
				source.lowTime = fakeTime(fakeLSN(41)) // what is read is at most so many seconds after it
				first := true
				s.reject = func() bool {
					time.Sleep(5 * time.Millisecond) // an output takes longer than a poll
					if first {
						first = false
						for n := 50; n < 62; n++ {
							source.commit("a", n, 1)
						}
					}
					return false
				}
				before := 0
				s.wrote = func(e mssqlcdc.Envelope) {
					if e.Chunk != nil && len(s.rows[tableA()]) < 12 {
						before++
					}
				}
				config := testConfig(t, replaceOnce(onlyYAML(), "max_rows_per_part: 2\n", "max_rows_per_part: 100\n")+
					"poll_interval: 1ms\nsnapshot_parallelism: 1\nsnapshot_min_headroom: "+least+"\n")
				newTestRun(config, resources(), source).ended(t, s)
				require.Len(t, s.snapshot[tableA()], 40)
				require.Len(t, s.rows[tableA()], 12)
				if pauses {
					require.LessOrEqual(t, before, 6, "none but those that were read before the poll")
				} else {
					require.Greater(t, before, 7, "chunks and windows take turns")
				}
			})
		})
	}
}

// A window that the server cannot send is cut finer and finer, until only the commit at
// fault is held up.
func TestWindowThatFailsIsCutFiner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, s := newFakeSource("a"), newSink()
		for n := 2; n < 300; n++ {
			source.commit("a", n, 1)
		}
		source.readWindow = func(w mssqlcdc.Window) error {
			if time.Now().Before(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)) && w.Contains(fakeLSN(200)) {
				return errTimeout{}
			}
			return nil
		}
		before := 0
		s.wrote = func(mssqlcdc.Envelope) {
			if time.Now().Before(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)) {
				before = len(s.rows[tableA()]) + 1
			}
		}
		run := newTestRun(testConfig(t, replaceOnce(boundedYAML, "max_commits_per_window: 3", "max_commits_per_window: 0")), resources(), source)
		run.ended(t, s)
		require.Len(t, s.rows[tableA()], 298)
		require.GreaterOrEqual(t, before, 190, "nearly everything before the commit came within the hour")
	})
}

// errTimeout is what a silent server makes of a read.
type errTimeout struct{}

func (errTimeout) Error() string   { return "i/o timeout" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return true }

// A chunk that fails takes those with it that were read behind it.
func TestChunkBehindAFailedOne(t *testing.T) {
	t.Parallel()
	for every := range 6 {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(40, "a"), newSink()
				var mu sync.Mutex
				calls := 0
				source.readErr = func(mssqlcdc.TableID, int) error {
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls%(every+3) == every {
						return errTimeout{}
					}
					return nil
				}
				newTestRun(testConfig(t, snapshotYAML), resources(), source).ended(t, s)
				require.Len(t, s.snapshot[tableA()], 40)
			})
		})
	}
}
