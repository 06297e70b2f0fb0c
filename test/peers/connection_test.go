package peers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// virtual runs a test in a bubble of virtual time with a simulator behind a network that
// can be broken. The bubble ends only when every goroutine has: nothing is left behind.
func virtual(t *testing.T, test func(t *testing.T, l *lab, p *pipeline, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, sqlserversim.WithoutListener())
		l.table(t, "t", "id int NOT NULL PRIMARY KEY")
		l.exec(t, "INSERT dbo.t VALUES (0)")
		l.capture(t)
		n := newNetwork(l.sim.Dial)
		// Rows, because Parquet's decompressor has goroutines outside of every bubble.
		p := l.pipeline(t, "dbo.t").rows().with("poll_interval: 1s")
		p.dialer = n
		test(t, l, p, n)
	})
}

// reaches waits until so many change rows have come, and says how long that took.
func (r *running) reaches(t testing.TB, l *lab, rows int) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		got := r.p.sink.identities()
		if came := distinct(got); len(came) >= rows {
			require.Equal(t, l.changes(t, "dbo_t"), came)
			return time.Since(begin)
		}
		require.Less(t, time.Since(begin), time.Hour, "waited in vain for %d rows: %s", rows, r.p.log)
		require.NoError(t, r.state.Err())
		time.Sleep(time.Second)
	}
}

// distinct leaves out what came again, which rows may.
func distinct(lines []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
}

// C-01: connections are killed while the stream is idle. The next poll connects anew.
func TestConnectionsKilledBetweenPolls(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
		r := p.begin(t, "continuous")
		r.reaches(t, l, 1)
		for i := range 10 {
			if i%2 == 0 {
				n.cut()
			} else {
				for spid := range 200 {
					l.sim.Kill(spid)
				}
			}
			l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i+1))
			l.capture(t)
			require.Less(t, r.reaches(t, l, i+2), 10*time.Second)
		}
		require.NoError(t, r.stop(t))
	})
}

// C-10: the server is away for ten minutes. The input is disconnected meanwhile, which
// the readiness probe shows, and after that changes flow within a minute.
func TestServerAwayForAWhile(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
		r := p.begin(t, "continuous")
		r.reaches(t, l, 1)
		for i := range 3 {
			n.away(true)
			n.cut()
			l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i+1))
			l.capture(t)
			before, dials := p.mets.get("input_connection_lost"), n.dials()
			time.Sleep(10 * time.Minute)
			require.Greater(t, p.mets.get("input_connection_lost"), before, "the input is not connected")
			require.Greater(t, n.dials(), dials+5, "and goes on trying")
			require.Less(t, n.dials(), dials+2000, "but not all the time")
			n.away(false)
			require.Less(t, r.reaches(t, l, i+2), time.Minute)
		}
		require.NoError(t, r.stop(t))
	})
}

// C-03b: the network falls silent, in both directions, at once or in the middle of rows.
// Nothing waits for ever; when it is over changes flow.
func TestNetworkThatFallsSilent(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
		p.with("read_timeout: 30s")
		r := p.begin(t, "continuous")
		r.reaches(t, l, 1)
		for i := range 3 {
			n.silence(true)
			l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i+1))
			l.capture(t)
			time.Sleep(10 * time.Minute)
			require.NotZero(t, p.mets.get("mssql_cdc_errors_total{transient}"))
			n.silence(false)
			require.Less(t, r.reaches(t, l, i+2), 3*time.Minute)
		}
		require.NoError(t, r.stop(t))
	})
}

// C-03b: the server sends some rows and then hangs.
func TestServerThatHangsInTheMiddleOfRows(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, _ *network) {
		l.exec(t, "INSERT dbo.t VALUES "+values(1, 50, func(i int) string { return fmt.Sprint(i) }))
		l.capture(t)
		p.with("read_timeout: 30s", "max_rows_per_part: 5")
		rule := l.sim.Fault(sqlserversim.Fault{Statement: changesOf("dbo_t"), AfterRows: 23, Times: 2, Action: sqlserversim.Hang()})
		r := p.begin(t, "continuous")
		require.Less(t, r.reaches(t, l, 50), 5*time.Minute)
		require.Equal(t, 2, rule.Hits())
		require.NoError(t, r.stop(t))
	})
}

// C-03b: the stream is asked to stop while the network is silent, and does.
func TestStopUnderASilentNetwork(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 500 * time.Millisecond, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
				r := p.begin(t, "continuous")
				r.reaches(t, l, 1)
				n.silence(true)
				time.Sleep(after)
				begin := time.Now()
				require.NoError(t, r.stop(t))
				require.Less(t, time.Since(begin), 10*time.Second)
			})
		})
	}
}

// C-07: the stream is asked to stop while its output takes nothing any more and all
// queues are full.
func TestStopWithAFullOutput(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
		l.exec(t, "INSERT dbo.t VALUES "+values(1, 900, func(i int) string { return fmt.Sprint(i) }))
		l.capture(t)
		p.with("max_rows_per_part: 10", "checkpoint_limit: 20")
		p.sink.decide = func(ctx context.Context, _ int, _ service.MessageBatch) error {
			<-ctx.Done()
			return ctx.Err()
		}
		r := p.begin(t, "continuous")
		time.Sleep(time.Minute)
		r.state.Stop()
		_ = r.stream.StopWithin(10 * time.Second)
		_ = r.end(t)
	})
}

// C-11: an instance that never had a change is asked once per interval and not in a tight
// loop, and the wait ends at once when the stream stops.
func TestFreshInstanceIsAskedOncePerInterval(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, _ *network) {
		l.table(t, "fresh", "id int NOT NULL PRIMARY KEY")
		l.capture(t)
		p.tables = []string{"dbo.fresh"}
		p.with("poll_interval: 60s", "idle_interval: 60s", "tables_refresh_interval: 24h")
		r := p.begin(t, "continuous")
		time.Sleep(time.Minute)
		l.sim.ResetStatements()
		time.Sleep(time.Hour)
		require.Less(t, len(l.sim.Statements()), 2*60)
		begin := time.Now()
		require.NoError(t, r.stop(t))
		require.Less(t, time.Since(begin), time.Second)
	})
}

// C-02: every error that passes by itself passes, wherever it strikes: at the poll, at
// the question which tables moved, in the middle of rows, at a login after the first.
func TestErrorsThatPass(t *testing.T) {
	t.Parallel()
	statements := map[string]*regexp.Regexp{
		"max_lsn": regexp.MustCompile("fn_cdc_get_max_lsn"), "moved": regexp.MustCompile("EXISTS"), "rows": changesOf("dbo_t"), "low watermark": regexp.MustCompile("fn_cdc_get_min_lsn"),
		"ddl": regexp.MustCompile("sp_cdc_get_ddl_history"), "catalogue": regexp.MustCompile("sp_cdc_help_change_data_capture"),
	}
	numbers := map[int32]uint8{
		1205: 13, 1222: 16, 3960: 16, 40197: 20, 40501: 20, 40613: 17, 49918: 16, 49919: 16, 49920: 16, 10928: 16, 10929: 16, 233: 20, 10053: 20, 10054: 20, 10060: 20,
		983: 14, 976: 14, 601: 12, 942: 14, 945: 21, 596: 21, 6005: 14, 17142: 14, 701: 17, 8645: 17,
	}
	for place, statement := range statements {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, l *lab, p *pipeline, _ *network) {
				p.with("tables_refresh_interval: 2s")
				r := p.begin(t, "continuous")
				r.reaches(t, l, 1)
				rows := 1
				for number, class := range numbers {
					for _, after := range []int64{0, 1} {
						rule := l.sim.Fault(sqlserversim.Fault{Statement: statement, AfterRows: after, Times: 2, Action: sqlserversim.RaiseError(number, class, 1, "injected")})
						l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", rows))
						l.capture(t)
						rows++
						r.reaches(t, l, rows)
						for begin := time.Now(); rule.Hits() == 0; time.Sleep(time.Second) {
							require.Less(t, time.Since(begin), time.Minute, "%d did not strike", number)
						}
						rule.Remove()
						require.NoError(t, r.state.Err(), "%d", number)
					}
				}
				require.NoError(t, r.stop(t))
			})
		})
	}
	t.Run("login", func(t *testing.T) {
		t.Parallel()
		virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
			r := p.begin(t, "continuous")
			r.reaches(t, l, 1)
			rows := 1
			for _, number := range []int32{4060, 40613, 40501, 40197, 18401, 10928, 49918, 942} {
				rule := l.sim.Fault(sqlserversim.Fault{When: sqlserversim.AtLogin, Times: 3, Action: sqlserversim.RaiseError(number, 14, 1, "injected")})
				n.cut()
				l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", rows))
				l.capture(t)
				rows++
				r.reaches(t, l, rows)
				require.NotZero(t, rule.Hits(), "%d", number)
				rule.Remove()
			}
			require.NoError(t, r.stop(t))
		})
	})
}

// C-03c: an empty answer never hangs: a table without changes is asked again and again
// over real sockets.
func TestManyEmptyAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.t VALUES (0)")
	l.capture(t)
	client := l.client(t)
	done := make(chan error, 1)
	go func() {
		for range 3_000 {
			if _, err := client.MaxLSN(t.Context()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		require.NoError(t, errors.New("a poll hangs"))
	}
}
