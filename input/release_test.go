package input

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
)

// A row that moves behind the snapshot's back by a commit that capture has not come to is
// in no chunk, and max_lsn does not tell. The verdict stands still until capture has come
// to a commit that was written after the chunks were read; a bounded run ends without it.
func TestVerdictWaitsForWhatIsNotCaptured(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{"available_now": snapshotYAML, "snapshot_only": onlyYAML()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s, res := filled(10, "a"), newSink(), resources()
				captured := source.head
				moved := false
				s.reject = func() bool {
					if !moved {
						moved = true
						source.move("a", 50, 9, -1)
						source.mu.Lock()
						source.head, source.clock = captured, fakeTime(fakeLSN(50)).Add(500*time.Millisecond)
						source.mu.Unlock()
					}
					return false
				}
				config := testConfig(t, yaml+"snapshot_parallelism: 1\n")
				newTestRun(config, res, source).ended(t, s)
				require.NotContains(t, s.snapshot[tableA()], int64(9))
				require.NotContains(t, s.snapshot[tableA()], int64(-1))
				require.Empty(t, s.rows[tableA()])
				require.True(t, s.final[tableA()].IsZero(), "the row is in no table yet")

				source.commit("elsewhere", 50, 0) // its time is not after the server's clock
				newTestRun(config, res, source).ended(t, s)
				require.True(t, s.final[tableA()].IsZero(), "more may have been committed until then")

				source.commit("elsewhere", 51, 0)
				newTestRun(config, res, source).ended(t, s)
				require.Equal(t, []int64{50_000}, s.rows[tableA()])
				require.Equal(t, fakeLSN(51), s.final[tableA()])
				state, _ := newTestRun(config, res, source).stored(t.Context(), "a")
				require.True(t, state.Snapshot.ThroughTime.IsZero(), "not to be waited for again")
			})
		})
	}
}

// A stream that goes on releases the verdict as soon as capture has come so far, and a
// bounded run waits for it while capture is at work.
func TestVerdictIsReleasedWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"continuous", "available_now"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, s := filled(10, "a"), newSink()
				source.clock = fakeTime(fakeLSN(12))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var capture sync.WaitGroup
				capture.Go(func() { // a scan every five seconds, each of one commit
					for n := 12; n < 15; n++ {
						select {
						case <-ctx.Done():
							return
						case <-time.After(5 * time.Second):
							source.commit("elsewhere", n, 0)
						}
					}
				})
				defer capture.Wait()
				slow := false
				s.reject = func() bool {
					if !slow {
						time.Sleep(6 * time.Second) // so that capture is seen to move
						slow = true
					}
					return false
				}
				s.wrote = func(e mssqlcdc.Envelope) {
					if kind == "continuous" && e.Chunk == nil && e.OpenSnapshot.IsZero() {
						cancel()
					}
				}
				run := newTestRun(testConfig(t, replaceOnce(snapshotYAML, "run: available_now", "run: "+kind)), resources(), source)
				err := run.drain(ctx, s, newDice(1))
				cancel()
				require.NoError(t, run.Close(t.Context()))
				require.NoError(t, run.state.Err())
				if kind == "available_now" {
					require.ErrorIs(t, err, service.ErrEndOfInput)
				}
				require.Equal(t, fakeLSN(13), s.final[tableA()], "the first after the server's clock")
			})
		})
	}
}

// gatedCache holds back the first value that is set until it is let go.
type gatedCache struct {
	service.Cache
	mu    sync.Mutex
	first bool
	held  chan struct{} // closed when a value is held back
	open  chan struct{}
}

func (c *gatedCache) Set(ctx context.Context, key string, value []byte, ttl *time.Duration) error {
	c.mu.Lock()
	first := !c.first
	c.first = true
	c.mu.Unlock()
	if first {
		close(c.held)
		<-c.open
	}
	return c.Cache.Set(ctx, key, value, ttl)
}

// A state that is stored is read after the one before it was stored: an acknowledgement
// that was stored beside the plan of a chunk, and read before it, would take the end of a
// chunk away that is read already.
func TestOlderStateIsNotStoredOverANewerOne(t *testing.T) {
	t.Parallel()
	res := resources()
	cache := &gatedCache{held: make(chan struct{}), open: make(chan struct{})}
	require.NoError(t, res.AccessCache(t.Context(), "position", func(c service.Cache) { cache.Cache = c }))
	store := checkpoint.NewStore(func(_ context.Context, fn func(checkpoint.Cache)) error { fn(cache); return nil }, "key")
	source := newFakeSource("a")
	state := startAt(source.tables[tableA()].instance, fakeLSN(5), time.Time{})
	state.Snapshot = checkpoint.NewSnapshot(fakeLSN(5), time.Time{}, time.Now(), []string{"id"}, bound(9))
	tb := newTable(layoutOf(source, tableA()), state)
	s := &stream{setup: setup{store: store}}
	saved := make(chan error, 2)
	go func() { saved <- s.save(t.Context(), tb) }() // the cache takes long over it
	<-cache.held
	go func() { saved <- s.save(t.Context(), tb) }()
	time.Sleep(20 * time.Millisecond) // it would have read the state by now; waiting for a lock cannot be seen from here
	tb.tracker.plan(bound(4), false)
	close(cache.open)
	require.NoError(t, <-saved)
	require.NoError(t, <-saved)
	last, found, err := store.Load(t.Context(), tableA())
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, last.Snapshot.Planned, 1, "the end of the chunk is stored")
}
