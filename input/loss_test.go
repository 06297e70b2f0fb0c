package input

import (
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

// lossLab is a table that was read up to LSN 5, and then lost its changes below low.
func lossLab(t *testing.T, rng *dice, res *service.Resources) (*fakeSource, *sink) {
	source, s := newFakeSource("a", "b"), newSink()
	for n := 2; n <= 5; n++ {
		source.insert("a", n, int64(n))
	}
	first := newTestRun(testConfig(t, boundedYAML), res, source)
	require.ErrorIs(t, first.drain(t.Context(), s, rng), service.ErrEndOfInput)
	require.NoError(t, first.state.Err())
	require.NoError(t, first.Close(t.Context()))
	for n := 6; n <= 20; n++ {
		source.insert("a", n, int64(n))
	}
	source.commit("b", 21, 1)
	return source, s
}

func TestLossPolicies(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		for _, policy := range []string{lossSkip, lossResnapshot} {
			for _, how := range []string{"purged", "dropped"} {
				t.Run(fmt.Sprintf("%s %s seed %d", policy, how, seed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						rng := newDice(seed)
						res := resources()
						source, s := lossLab(t, rng, res)
						a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
						table := source.tables[a]
						table.low = fakeLSN(11)
						if how == "dropped" {
							table.instance.Name, table.newer = "", newerInstance(11)
						}
						s.reject = func() bool { return rng.IntN(8) == 0 }
						source.readErr = func(mssqlcdc.TableID, int) error {
							if rng.IntN(15) == 0 {
								return &net.OpError{Op: "read", Err: errors.New("connection reset by the test")}
							}
							return nil
						}
						config := testConfig(t, boundedYAML+"snapshot_chunk_rows: 4\non_data_loss: "+policy+"\n")
						for range rng.IntN(3) {
							run := newTestRun(config, res, source)
							require.NoError(t, run.drainSome(t.Context(), s, rng, 1+rng.IntN(8)))
							require.NoError(t, run.Close(t.Context()))
						}
						run := newTestRun(config, res, source)
						require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
						require.NoError(t, run.state.Err())
						require.NoError(t, run.Close(t.Context()))
						state, _ := run.stored(t.Context(), "a")
						require.Equal(t, source.head, state.LSN)
						requireGap(t, s, policy)
						want := []int64{2000, 3000, 4000, 5000}
						if policy == lossSkip {
							for n := int64(11); n <= 20; n++ {
								want = append(want, n*1000)
							}
							require.Nil(t, state.Snapshot)
						} else {
							require.Equal(t, 1, state.Generation)
							require.True(t, state.Snapshot.Complete)
							require.Equal(t, []int64{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, s.snapshot[a])
						}
						require.Equal(t, want, s.rows[a])
						require.False(t, s.held[a])
					})
				})
			}
		}
	}
}

// requireGap looks for the event of the loss: what the verdict is marked by.
func requireGap(t *testing.T, s *sink, policy string) {
	found := false
	for _, event := range s.events {
		var detail map[string]any
		if event.LostFrom == nil {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(event.Detail), &detail))
		require.Equal(t, fakeTime(fakeLSN(5)), *event.LostFrom)
		require.True(t, event.LostTo.After(fakeTime(fakeLSN(10))))
		switch event.Event {
		case mssqlcdc.EventDataSkipped:
			require.Equal(t, lossSkip, policy)
			require.Equal(t, fakeLSN(6).String(), detail["from"])
			require.Equal(t, fakeLSN(10).String(), detail["to"])
			found = true
		case mssqlcdc.EventSnapshotOpen:
			require.Equal(t, lossResnapshot, policy)
			require.Equal(t, "resnapshot", detail["kind"])
			found = true
		case mssqlcdc.EventResnapshot:
			require.Equal(t, lossResnapshot, policy)
		default:
			t.Fatalf("event %s with a gap", event.Event)
		}
	}
	require.True(t, found)
}

// A table that loses changes again soon after a snapshot is not read for ever.
func TestResnapshotInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rng, res := newDice(1), resources()
		source, s := lossLab(t, rng, res)
		a := mssqlcdc.TableID{Schema: "dbo", Name: "a"}
		lose := func(n int) error {
			source.tables[a].low = fakeLSN(n)
			run := newTestRun(testConfig(t, boundedYAML+"on_data_loss: resnapshot\n"), res, source)
			require.ErrorIs(t, run.drain(t.Context(), s, rng), service.ErrEndOfInput)
			require.NoError(t, run.Close(t.Context()))
			return run.state.Err()
		}
		require.NoError(t, lose(11))
		for n := 22; n < 30; n++ {
			source.insert("a", n, int64(n))
		}
		time.Sleep(6 * 24 * time.Hour)
		var loss *sqlserver.DataLossError
		require.ErrorAs(t, lose(26), &loss)
		time.Sleep(2 * 24 * time.Hour)
		require.NoError(t, lose(26))
	})
}
