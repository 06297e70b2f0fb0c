package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// The server's clock shows one hour twice. Commit times in bronze are the right ones in
// UTC and never go back, and the verdict follows them. Runs end at every place: before,
// in the first and in the second pass of the hour, and after it. Clean-up takes the
// rows that would tell the passes apart.
func TestHourThatComesTwice(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	zone := sqlserversim.WithTimeZone("W. Europe Standard Time", berlin)
	for name, tc := range map[string]struct {
		options []sqlserversim.Option
		yaml    []string
		clean   bool
	}{
		"zone from the server":  {options: []sqlserversim.Option{zone}},
		"with clean-up":         {options: []sqlserversim.Option{zone}, clean: true},
		"zone in the config":    {options: []sqlserversim.Option{zone, sqlserversim.WithVersion(2016)}, yaml: []string{"tables:", "source_time_zone: W. Europe Standard Time\n    tables:"}},
		"one window for it all": {options: []sqlserversim.Option{zone}, yaml: []string{"max_commits_per_window: 5", "max_commits_per_window: 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The clock goes back at 01:00 UTC, from 03:00 to 02:00.
			l := newClockedLab(t, time.Date(2026, 10, 24, 23, 30, 0, 0, time.UTC), tc.options...)
			require.NoError(t, l.sim.Idle(t.Context()))
			yaml := with(t, boundedYAML, tc.yaml...)
			l.run(t, yaml)
			var want []time.Time
			var until time.Time
			steps := 5
			if name == "one window for it all" {
				steps = 30
			}
			for len(want) < 30 {
				for range steps {
					at := l.clock.Advance(7 * time.Minute)
					// One commit that touches both tables.
					l.exec(t, fmt.Sprintf("BEGIN TRANSACTION; INSERT INTO dbo.orders (order_id, customer_id, status, currency, total, ordered_at, is_gift) VALUES (%d, 1, 'new', 'EUR', 1, '2026-01-01', 0);"+
						"INSERT INTO dbo.order_lines (order_id, line_no, sku, quantity, price) VALUES (%[1]d, 1, 'a', 1, 1); COMMIT TRANSACTION;", len(want)+1))
					want = append(want, at.UTC())
				}
				require.NoError(t, l.sim.Capture(t.Context()))
				l.run(t, yaml)
				for _, table := range []string{"orders", "order_lines"} {
					require.Equal(t, texts(want), texts(l.commitTimes(t, table)), "commit times of %s", table)
					v := l.verdicts(t)["dbo."+table]
					require.Equal(t, want[len(want)-1].Truncate(time.Minute), v.FinalizedUntil, "verdict of %s", table)
					require.False(t, v.FinalizedUntil.Before(until), "the verdict went back")
				}
				until = l.verdicts(t)["dbo.orders"].FinalizedUntil
				if tc.clean {
					for _, table := range []string{"orders", "order_lines"} {
						l.exec(t, "DECLARE @mark binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_"+table+"', @low_water_mark = @mark")
					}
				}
			}
			require.True(t, want[0].Before(time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)) && want[29].After(time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC)), "the commits span both passes")
		})
	}
}

// commitTimes are the commit times of a table in the order of its commits.
func (l *lab) commitTimes(t *testing.T, name string) []time.Time {
	t.Helper()
	byLSN := map[string]time.Time{}
	var lsns []string
	for _, row := range l.rows(t, name, mssqlcdc.ColStartLSN, mssqlcdc.ColCommitTime) {
		lsn := row[mssqlcdc.ColStartLSN].(string)
		at, known := byLSN[lsn]
		if !known {
			lsns = append(lsns, lsn)
			byLSN[lsn] = row[mssqlcdc.ColCommitTime].(time.Time)
			continue
		}
		require.Equal(t, at, row[mssqlcdc.ColCommitTime], "rows of commit %s", lsn)
	}
	slices.Sort(lsns)
	var times []time.Time
	for _, lsn := range lsns {
		times = append(times, byLSN[lsn].UTC())
	}
	return times
}

func texts(times []time.Time) []string {
	var out []string
	for _, at := range times {
		out = append(out, at.Format(time.RFC3339Nano))
	}
	return out
}

// A table without changes becomes final with the rest of the database, without a
// commit of its own.
func TestQuietTable(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC))
	l.exec(t, "CREATE TABLE dbo.quiet (id int NOT NULL PRIMARY KEY); EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = 'quiet', @role_name = NULL;")
	require.NoError(t, l.sim.Idle(t.Context()))
	yaml := with(t, boundedYAML, "dbo.order_lines", "dbo.quiet", "facts_path: ./lake/_facts", "facts_path: ./lake/_facts\n    idle_facts_interval: 1ms")
	l.run(t, yaml)
	var last time.Time
	for round := range 3 {
		l.writeEvery(t, 50*time.Second, 5)
		l.run(t, yaml)
		want := l.newestTime(t).Truncate(time.Minute)
		require.True(t, want.After(last))
		last = want
		for _, table := range []string{"dbo.orders", "dbo.quiet"} {
			require.Equal(t, want, l.verdicts(t)[table].FinalizedUntil, "verdict of %s", table)
		}
		windows, idle := l.facts(t, "./lake/quiet")
		require.Empty(t, windows, "a commit without rows")
		require.Len(t, idle, round+2, "a row for each idle window: %+v", idle)
		require.Nil(t, l.table(t, "lake", "quiet"), "a table without rows was made")
	}
	// A change at last: the windows before it left nothing out.
	l.exec(t, "INSERT INTO dbo.quiet (id) VALUES (1)")
	require.NoError(t, l.sim.Capture(t.Context()))
	l.run(t, yaml)
	l.requireOnce(t, "orders", "quiet")
	// The same in a run without end.
	cmd, out := l.start(t, with(t, yaml, "run: available_now", "run: continuous", "tables:", "poll_interval: 50ms\n    idle_interval: 50ms\n    tables:"))
	l.writeEvery(t, 50*time.Second, 3)
	want := l.newestTime(t).Truncate(time.Minute)
	eventually(t, "the verdict of the quiet table", out, func() bool { return l.verdicts(t)["dbo.quiet"].FinalizedUntil.Equal(want) })
	stop(t, cmd, out)
}
