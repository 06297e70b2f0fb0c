package reconcile_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

const rowColumns = "id int NOT NULL PRIMARY KEY, v int, w varchar(max)"

// onSay does something at each line that a comparison says and that contains a text.
func onSay(text string, do func()) func(*reconcile.Config) {
	return func(c *reconcile.Config) {
		say := c.Say
		c.Say = func(line string) {
			say(line)
			if strings.Contains(line, text) {
				do()
			}
		}
	}
}

func settle(c *reconcile.Config) { c.Settle = 10 * time.Second }

// What the stream has not brought yet is in flight, and right once it has.
func TestLaggingStream(t *testing.T) {
	t.Parallel()
	for _, kind := range []reconcile.Kind{reconcile.Bronze, reconcile.Current} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd')")
			k := l.lake("dbo.t", kind)
			if kind == reconcile.Current {
				k.read()
			} else {
				k.stream()
			}
			k.requireMatch()
			l.exec("UPDATE dbo.t SET v = 20 WHERE id = 2", "DELETE dbo.t WHERE id = 3", "INSERT dbo.t VALUES (5, 5, 'e')", "UPDATE dbo.t SET id = 40 WHERE id = 4", "UPDATE dbo.t SET v = 1 WHERE id = 1")
			result := k.compare() // nothing is captured yet: it waits
			require.Equal(t, map[reconcile.FailureType]int64{reconcile.InFlight: 5}, result.Counts)
			require.Equal(t, reconcile.Flying, result.Status)
			require.Empty(t, result.Failures)
			require.NotEmpty(t, result.SourceLSN)
			if kind == reconcile.Current {
				return // the lab does not apply changes
			}
			result = k.compare(settle, onSay("in flight", func() { k.stream() }))
			require.Equal(t, reconcile.Match, result.Status, describe(result))
			require.Equal(t, int64(5), result.Settled)
			k.requireMatch()
		})
	}
}

// A change that never arrives is found although its key was in flight: the table has passed it.
func TestLostChangeInFlight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		want   reconcile.FailureType
	}{
		"update": {"UPDATE dbo.t SET v = 20 WHERE id = 2", reconcile.RecordDiff},
		"insert": {"INSERT dbo.t VALUES (9, 9, 'e')", reconcile.MissingTarget},
		"delete": {"DELETE dbo.t WHERE id = 3", reconcile.MissingSource},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
			k := l.lake("dbo.t", reconcile.Bronze).stream()
			l.exec(c.change)
			result := k.compare(settle, onSay("in flight", func() {
				// The stream moves on without the rows.
				head, err := k.client.MaxLSN(t.Context())
				require.NoError(t, err)
				k.position = head.LSN
				k.append(nil)
			}))
			require.Equal(t, map[reconcile.FailureType]int64{c.want: 1}, result.Counts, describe(result))
			require.Contains(t, result.Failures[0].Note, "after the table has passed")
			require.Equal(t, c.want, k.compare().Failures[0].Type, "a second comparison finds it at once")
		})
	}
}

// A key that changes again and again is never called wrong.
func TestKeyThatKeepsChanging(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b')")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	l.exec("UPDATE dbo.t SET v = v + 1 WHERE id = 1")
	result := k.compare(settle, onSay("in flight", func() {
		k.stream()
		l.exec("UPDATE dbo.t SET v = v + 1 WHERE id = 1")
		l.pass()
	}))
	require.Equal(t, reconcile.Match, result.Status, "the table has the image of its own position: %s", describe(result))
}

// Capture that stands still leaves it open what a difference is: that is an error, not a finding.
func TestCaptureStandsStill(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a')")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	l.exec("UPDATE dbo.t SET v = 2")
	c := k.config()
	c.Say, c.Wait = nil, 20*time.Millisecond
	result, err := reconcile.Run(t.Context(), c)
	var behind *reconcile.CaptureBehindError
	require.ErrorAs(t, err, &behind)
	require.Equal(t, int64(1), behind.Keys)
	require.ErrorContains(t, err, "capture job")
	require.NotNil(t, result)
}

// A source under load and a stream that lags behind it: whatever the moment, nothing is called wrong.
func TestLiveLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := newLab(t)
	orders, err := workload.NewOrders(t.Context(), l.sim, workload.OrdersConfig{Seed: int64(seed % 1000)})
	require.NoError(t, err)
	require.NoError(t, orders.Run(t.Context(), 60))
	l.pass()
	lakes := []*lake{l.lake("dbo.orders", reconcile.Bronze).stream(), l.lake("dbo.order_lines", reconcile.Bronze).read()}

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 2))
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			<-tick.C
			l.clock.Advance(time.Second)
			if n > 1500 { // the tables must not outgrow a slow machine
				if err := l.sim.Idle(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				continue
			}
			if err := orders.Step(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			if rng.IntN(3) == 0 {
				if err := l.sim.Capture(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		}
	})
	flying := int64(0)
	for n := range 9 {
		for _, k := range lakes {
			result := k.compare(buckets(40), func(c *reconcile.Config) {
				c.Say = nil // capture goes on by itself
				if n%3 == 2 {
					c.Settle = 20 * time.Millisecond
				}
			}, onSayless(func() {
				if n%3 == 2 {
					k.stream()
				}
			}))
			require.Zero(t, result.Wrong(), "round %d: %s", n, describe(result))
			flying += result.Counts[reconcile.InFlight] + result.Settled
		}
		if n%2 == 1 {
			for _, k := range lakes {
				k.stream()
			}
		}
	}
	require.Positive(t, flying, "the load tested something")
	stop()
	load.Wait()
	l.pass()
	for _, k := range lakes {
		k.stream().requireMatch()
	}
}

// onSayless is onSay for a comparison that says nothing else.
func onSayless(do func()) func(*reconcile.Config) {
	return func(c *reconcile.Config) {
		c.Say = func(line string) {
			if strings.Contains(line, "are in flight") {
				do()
			}
		}
	}
}

// The rows before the newest snapshot do not count: what was deleted unread must not come back, and a snapshot that is not complete is not
// compared.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
	k := l.lake("dbo.t", reconcile.Bronze).read()
	l.exec("DELETE dbo.t WHERE id = 2")
	l.pass()
	// The delete is lost, and a snapshot makes it good.
	head, err := l.client.MaxLSN(t.Context())
	require.NoError(t, err)
	k.position = head.LSN
	k.append(nil)
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.MissingSource: 1}, k.compare().Counts)
	k.read().requireMatch()
	l.exec("UPDATE dbo.t SET v = 10 WHERE id = 1")
	l.pass()
	k.stream().requireMatch()
}

// Two instances: changes are looked for in each of them for its own time.
func TestSwitchedInstance(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	l.exec("UPDATE dbo.t SET v = 10 WHERE id = 1", "ALTER TABLE dbo.t ADD x int NULL",
		"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL, @capture_instance = N'dbo_t_2'")
	l.capture()
	l.exec("UPDATE dbo.t SET v = 20, x = 1 WHERE id = 2")
	l.pass()
	result := k.compare()
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.InFlight: 2}, result.Counts, describe(result))
	require.Equal(t, []string{"x"}, result.NotCompared, "the table does not have it yet")
	k.stream().requireMatch()
}

// What clean-up took cannot be in flight any more.
func TestPurgedChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b')")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	l.exec("UPDATE dbo.t SET v = 10 WHERE id = 1")
	l.pass()
	l.exec("UPDATE dbo.t SET v = 10 WHERE id = 2")
	l.pass()
	low := "DECLARE @low binary(10) = (SELECT MAX(__$start_lsn) FROM cdc.dbo_t_CT); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_t', @low_water_mark = @low"
	l.exec(low)
	result := k.compare()
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.RecordDiff: 1, reconcile.InFlight: 1}, result.Counts, describe(result))
	require.Equal(t, map[string]any{"id": int64(1)}, result.Failures[0].Key)
	require.True(t, slices.ContainsFunc(result.Notes, func(n string) bool { return strings.Contains(n, "no stream can bring it") }))
}
