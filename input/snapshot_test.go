package input

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

const snapshotYAML = boundedYAML + `
stream_snapshot: true
snapshot_chunk_rows: 4
`

// Whatever is rejected, wherever reads fail and processes end, and whatever is
// written meanwhile: a snapshot brings each row that was there when it was opened
// once, in chunks that follow each other, beside every change after that; and no
// window claims completeness before it is complete.
func TestSnapshotBesideTheStream(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := newDice(seed)
				source, s, res := newFakeSource("a", "b"), newSink(), resources()
				a, b := mssqlcdc.TableID{Schema: "dbo", Name: "a"}, mssqlcdc.TableID{Schema: "dbo", Name: "b"}
				n := 2
				write := func(rows int) {
					for range rows {
						name := []string{"a", "b"}[rng.IntN(2)]
						source.insert(name, n, int64(rng.IntN(1000))*10_000+int64(n)) // anywhere among the keys
						n++
					}
				}
				write(rng.IntN(40))
				before := map[mssqlcdc.TableID][]int64{a: source.sourceIDs(layoutOf(source, a), nil, nil), b: source.sourceIDs(layoutOf(source, b), nil, nil)}
				opened := source.head
				s.reject = func() bool {
					if rng.IntN(6) == 0 && n < 200 {
						write(1) // while the pipeline runs
					}
					return rng.IntN(12) == 0
				}
				source.readErr = func(mssqlcdc.TableID, int) error {
					if rng.IntN(15) == 0 {
						return &net.OpError{Op: "read", Err: errors.New("connection reset by the test")}
					}
					return nil
				}
				config := testConfig(t, snapshotYAML)
				config.parallelReads, config.snapshotParallelism = 1+rng.IntN(3), 1+rng.IntN(3)
				for range rng.IntN(4) { // the process ends in the middle
					run := newTestRun(config, res, source)
					require.NoError(t, run.drainSome(t.Context(), s, rng, 1+rng.IntN(12)))
					require.NoError(t, run.Close(t.Context()))
				}
				run := newTestRun(config, res, source)
				require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
				require.NoError(t, run.state.Err())
				require.NoError(t, run.Close(t.Context()))

				s.reject = func() bool { return false } // what came during the last run
				run = newTestRun(config, res, source)
				require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
				require.NoError(t, run.Close(t.Context()))

				for _, id := range []mssqlcdc.TableID{a, b} {
					state, found := run.stored(t.Context(), id.Name)
					require.True(t, found)
					require.True(t, state.Snapshot.Complete)
					require.Empty(t, state.Snapshot.Planned, "no key stays in the cache")
					require.GreaterOrEqual(t, state.Snapshot.Rows, int64(len(s.snapshot[id])), "a chunk that is read again may have more")
					seen := map[int64]int{}
					for i, row := range s.snapshot[id] {
						seen[row]++
						require.Equal(t, 1, seen[row], "row %d twice", row)
						require.True(t, i == 0 || s.snapshot[id][i-1] < row, "in the order of the key")
					}
					for _, row := range before[id] {
						require.Equal(t, 1, seen[row], "row %d was there when the snapshot was opened", row)
					}
					var changes []int64
					for _, c := range source.tables[id].commits {
						if opened.Less(c.lsn) {
							_, lo := c.lsn.Parts()
							changes = append(changes, lo*1000)
						}
					}
					require.Equal(t, changes, s.rows[id])
					require.False(t, s.held[id], "the last window releases the verdict")
				}
			})
		})
	}
}

func layoutOf(f *fakeSource, id mssqlcdc.TableID) sqlserver.Layout {
	return sqlserver.Layout{Instance: f.tables[id].instance}
}

func TestSnapshotEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, s := newFakeSource("a"), newSink()
		a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
		for i := range 10 {
			source.insert("a", 2+i, int64(i))
		}
		run := newTestRun(testConfig(t, snapshotYAML), resources(), source)
		require.ErrorIs(t, run.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
		require.NoError(t, run.Close(t.Context()))
		require.Empty(t, s.rows[a], "what is in the snapshot comes once")
		require.Len(t, s.snapshot[a], 10)
		require.Len(t, s.events, 2)
		require.Equal(t, mssqlcdc.EventSnapshotOpen, s.events[0].Event)
		require.JSONEq(t, `{"mode":"chunked","kind":"bootstrap","generation":0,"keys":["id"]}`, s.events[0].Detail)
		require.Equal(t, mssqlcdc.EventBootstrap, s.events[1].Event)
		require.Equal(t, int64(10), s.events[1].Rows)
		require.JSONEq(t, fmt.Sprintf(`{"snapshot":%q,"chunks":3,"rows":10,"last_lsn":%q}`, fakeLSN(11), fakeLSN(11)), s.events[1].Detail)
	})
}

// The columns that an open snapshot is cut on cannot change.
func TestSnapshotOfOtherColumns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, s, res := newFakeSource("a"), newSink(), resources()
		for i := range 30 {
			source.insert("a", 2+i, int64(i))
		}
		run := newTestRun(testConfig(t, snapshotYAML), res, source)
		require.NoError(t, run.drainSome(t.Context(), s, newDice(1), 3))
		require.NoError(t, run.Close(t.Context()))
		other := newTestRun(testConfig(t, snapshotYAML+"table_overrides: [ { table: dbo.a, snapshot_keys: [ name ] } ]\n"), res, source)
		require.ErrorIs(t, other.drain(t.Context(), s, newDice(1)), service.ErrEndOfInput)
		require.NoError(t, other.Close(t.Context()))
		var wrong *sqlserver.ConfigError
		require.ErrorAs(t, other.state.Err(), &wrong)
		require.Equal(t, overrideSnapshotKeys, wrong.Field)
	})
}
