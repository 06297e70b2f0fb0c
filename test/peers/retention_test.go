package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

func march() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// insert commits rows one by one, a second apart, since clean-up counts commits of one
// time as one.
func (l *lab) insert(t testing.TB, table string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		l.clock.Advance(time.Second)
		l.exec(t, fmt.Sprintf("INSERT dbo.%s VALUES (%d)", table, i))
	}
	l.capture(t)
}

// clean-up has passed the position while nothing ran. The run
// says what is lost and writes nothing. What counts is the low watermark of the table's
// own instance, strictly: clean-up that stops at the position has taken nothing, and an
// old instance of another table hides nothing.
func TestCleanUpWhileNothingRan(t *testing.T) {
	t.Parallel()
	for beyond := range 4 { // unread commits that clean-up takes
		for _, onError := range []string{"stop", "isolate"} {
			t.Run(fmt.Sprintf("%d lost, %s", beyond, onError), func(t *testing.T) {
				t.Parallel()
				l := newClockedLab(t, march())
				l.table(t, "other", "id int NOT NULL PRIMARY KEY")
				l.table(t, "t", "id int NOT NULL PRIMARY KEY")
				l.insert(t, "t", 0, 3)
				l.insert(t, "other", 0, 3)
				p := l.pipeline(t, "dbo.*").with("on_table_error: " + onError)
				p.run(t)
				l.insert(t, "t", 3, 8)
				l.insert(t, "other", 3, 6)
				all := l.changes(t, "dbo_t", "id")
				unread := l.commits(t, "dbo_t")[3:]
				if beyond == 0 {
					state, _ := p.position(t, "t")
					l.cleanBelow(t, "dbo_t", state.LSN)
					p.run(t)
					require.Equal(t, all, p.bronze(t, "t", "id"))
					l.requireSame(t, p, "other", "id")
					return
				}
				l.cleanBelow(t, "dbo_t", unread[beyond])
				before := p.bronze(t, "t", "id")
				state, _ := p.position(t, "t")
				for range 2 {
					err := p.fail(t)
					require.ErrorContains(t, err, "are lost")
					require.ErrorContains(t, err, "dbo_t")
					require.ErrorContains(t, err, state.LSN.Next().String(), "from where")
					require.ErrorContains(t, err, unread[beyond].String(), "up to where")
					require.Equal(t, before, p.bronze(t, "t", "id"))
				}
				after, _ := p.position(t, "t")
				require.Equal(t, state.LSN, after.LSN, "a position over a gap would hide it")
				if onError == "isolate" {
					l.requireSame(t, p, "other", "id")
				}
			})
		}
	}
}

// a table without changes, and a database without any, over many retention periods.
// Its position goes along, so that clean-up takes nothing of it and the next change comes.
func TestQuietOverManyCleanUps(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one table is quiet", "all is quiet", "all is quiet, capture too"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			busy, idle := name == "one table is quiet", name == "all is quiet"
			l := newClockedLab(t, march())
			l.table(t, "quiet", "id int NOT NULL PRIMARY KEY")
			l.table(t, "busy", "id int NOT NULL PRIMARY KEY")
			l.insert(t, "quiet", 0, 2)
			l.insert(t, "busy", 0, 2)
			p := l.pipeline(t, "dbo.*").facts()
			p.run(t)
			first, _ := p.position(t, "quiet")
			want, wantBusy := l.changes(t, "dbo_quiet", "id"), l.changes(t, "dbo_busy", "id")
			for day := range 12 { // retention is three days
				l.clock.Advance(24 * time.Hour)
				if busy {
					l.insert(t, "busy", 10+day, 11+day)
					all := l.changes(t, "dbo_busy", "id")
					wantBusy = append(wantBusy, all[len(all)-1])
				}
				if idle {
					require.NoError(t, l.sim.Idle(t.Context())) // as capture does on a quiet database
				}
				p.run(t)
				require.NoError(t, l.sim.Cleanup(t.Context()))
			}
			if busy || idle {
				last, _ := p.position(t, "quiet")
				require.True(t, first.LSN.Less(last.LSN), "empty polls move the position")
				require.True(t, p.verdict(t, "quiet").FinalizedUntil.After(l.clock.Now().Add(-24*time.Hour)), "and the verdict")
			}
			l.insert(t, "quiet", 2, 3)
			rows := l.changes(t, "dbo_quiet", "id")
			p.run(t)
			require.Equal(t, append(want, rows[len(rows)-1]), p.bronze(t, "quiet", "id"))
			require.Equal(t, wantBusy, p.bronze(t, "busy", "id"))
		})
	}
}

// the server that is asked lies behind the position, as a replica does that was
// read in turn with another. The run waits, without error and without a new start, and
// goes on where it stood when the server has caught up.
func TestServerBehindThePosition(t *testing.T) {
	t.Parallel()
	// Two servers with the same history commit by commit: same seed, same clock.
	ahead, behind := newClockedLab(t, march()), newClockedLab(t, march())
	for _, l := range []*lab{ahead, behind} {
		l.table(t, "t", "id int NOT NULL PRIMARY KEY")
		l.insert(t, "t", 0, 6)
	}
	ahead.insert(t, "t", 6, 10)
	p := ahead.pipeline(t, "dbo.t").facts()
	p.run(t)
	want := ahead.changes(t, "dbo_t", "id")
	require.Equal(t, want[:6], behind.changes(t, "dbo_t", "id"), "the servers are twins")
	state, _ := p.position(t, "t")
	verdict := p.verdict(t, "t")

	p.dsn = behind.sim.DSN()
	for range 2 {
		p.run(t)
		require.Equal(t, want, p.bronze(t, "t", "id"))
		again, _ := p.position(t, "t")
		require.Equal(t, state.LSN, again.LSN)
		require.Equal(t, verdict.FinalizedUntil, p.verdict(t, "t").FinalizedUntil)
	}
	behind.insert(t, "t", 6, 13)
	p.run(t)
	require.Equal(t, behind.changes(t, "dbo_t", "id"), p.bronze(t, "t", "id"))
	require.Len(t, p.bronze(t, "t"), 13)
}

// what is no longer the same history is told from one that is quiet, each way by
// its own words, and nothing is written.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, l *lab)
		want   string
	}{
		"restored without CDC": {func(t *testing.T, l *lab) {
			require.NoError(t, l.sim.DefaultDB().Restore(t.Context(), l.sim.DefaultDB().Backup(), engine.RestoreOptions{}))
		}, "change data capture is not enabled"},
		"disabled": {func(t *testing.T, l *lab) { l.exec(t, "EXEC sys.sp_cdc_disable_db") }, "change data capture is not enabled"},
		"enabled again": {func(t *testing.T, l *lab) {
			l.exec(t, "EXEC sys.sp_cdc_disable_db", "EXEC sys.sp_cdc_enable_db")
			l.track(t, mssqlcdc.TableID{Schema: "dbo", Name: "t"})
			l.insert(t, "t", 20, 23)
		}, "created again"},
		"instance made anew": {func(t *testing.T, l *lab) {
			l.exec(t, "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
			l.clock.Advance(time.Minute)
			l.track(t, mssqlcdc.TableID{Schema: "dbo", Name: "t"})
			l.insert(t, "t", 20, 23)
		}, "created again"},
		"instance gone": {func(t *testing.T, l *lab) {
			l.track(t, mssqlcdc.TableID{Schema: "dbo", Name: "t"}, "@capture_instance = N'another'")
			l.exec(t, "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
			l.insert(t, "t", 20, 23)
		}, "dropped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, march())
			l.table(t, "t", "id int NOT NULL PRIMARY KEY")
			l.insert(t, "t", 0, 3)
			p := l.pipeline(t, "dbo.t")
			p.run(t)
			before := p.bronze(t, "t", "id")
			l.insert(t, "t", 3, 5)
			c.change(t, l)
			for range 2 {
				require.ErrorContains(t, p.fail(t), c.want)
				require.Equal(t, before, p.bronze(t, "t", "id"))
			}
		})
	}
}

// a database that was restored to an older point and goes on from there has other
// changes at the same positions or beyond them.
func TestRestoredToAnOlderPoint(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"later": time.Hour, "at the same times": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, march())
			l.table(t, "t", "id int NOT NULL PRIMARY KEY")
			l.insert(t, "t", 0, 3)
			backup, at := l.sim.DefaultDB().Backup(), l.clock.Now()
			l.insert(t, "t", 3, 6)
			p := l.pipeline(t, "dbo.t")
			p.run(t)
			before := p.bronze(t, "t", "id")
			require.NoError(t, l.sim.DefaultDB().Restore(t.Context(), backup, engine.RestoreOptions{KeepCDC: true}))
			l.clock.Set(at.Add(pause + 500*time.Millisecond))
			p.run(t) // the server is behind: nothing can be said yet
			l.insert(t, "t", 13, 19)
			require.ErrorContains(t, p.fail(t), "restored")
			require.Equal(t, before, p.bronze(t, "t", "id"))
		})
	}
}

// capture stands still, or fails, while the application writes. That is lag, which
// grows, and not a quiet source: position and verdict stay.
func TestCaptureThatStandsStillIsLag(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.t VALUES (1)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t").facts()
	r := p.begin(t, "continuous")
	lag := func() float64 { return p.mets.get("mssql_cdc_capture_lag_seconds") }
	r.eventually(t, "the first row", func() bool { return len(p.bronze(t, "t")) == 1 })
	r.eventually(t, "the position", func() bool { s, _ := p.position(t, "t"); return !s.DataLSN.IsZero() })
	state, _ := p.position(t, "t")
	l.sim.DefaultDB().InjectCaptureError(fmt.Errorf("the log cannot be read"), 1)
	l.exec(t, "INSERT dbo.t VALUES (2)")
	require.Error(t, l.sim.Capture(t.Context()))
	begin := lag()
	r.eventually(t, "lag", func() bool { return lag() > begin+0.5 })
	again, _ := p.position(t, "t")
	require.Equal(t, state.LSN, again.LSN)
	require.Len(t, p.bronze(t, "t"), 1)
	grown := lag()
	l.capture(t)
	r.eventually(t, "the second row", func() bool { return len(p.bronze(t, "t")) == 2 })
	r.eventually(t, "the end of the lag", func() bool { return lag() < grown+0.5 })
	require.NoError(t, r.stop(t))
}

// the same for the verdict, hour by hour.
func TestVerdictStandsWhileCaptureStands(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	require.NoError(t, l.sim.Idle(t.Context()))
	p := l.pipeline(t, "dbo.t").facts()
	p.run(t)
	l.clock.Advance(time.Hour)
	l.insert(t, "t", 0, 1)
	p.run(t)
	until := p.verdict(t, "t").FinalizedUntil
	require.Equal(t, march().Add(time.Hour), until)
	for i := range 3 {
		l.clock.Advance(time.Hour)
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", 10+i))
		p.run(t)
		require.Equal(t, until, p.verdict(t, "t").FinalizedUntil, "three hours of changes are not captured")
	}
	l.capture(t)
	p.run(t)
	require.Equal(t, march().Add(4*time.Hour), p.verdict(t, "t").FinalizedUntil)
	l.requireSame(t, p, "t", "id")
}

// a stream that waits holds no lock and no transaction: the owner disables CDC at
// once, and the stream says what that means.
func TestIdleStreamBlocksNobody(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.t VALUES (1)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	r := p.begin(t, "continuous")
	r.eventually(t, "the first row", func() bool { return len(p.bronze(t, "t")) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, l.sim.Exec(ctx, "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'"))
	l.exec(t, "INSERT dbo.t VALUES (2)")
	l.table(t, "more", "id int NOT NULL PRIMARY KEY") // so that max_lsn moves
	l.exec(t, "INSERT dbo.more VALUES (1)")
	l.capture(t)
	err := r.end(t)
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(err), "%v", err)
}

// a tracked table cannot be truncated, so no truncation goes by unseen.
func TestTrackedTableCannotBeTruncated(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.t VALUES (1)")
	require.ErrorContains(t, l.sim.Exec(t.Context(), "TRUNCATE TABLE dbo.t"), "4711")
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	l.requireSame(t, p, "t", "id")
}
