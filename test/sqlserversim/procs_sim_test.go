package sqlserversim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// TestFaultsOverSQL: a client in another process sets, lists, releases and removes faults.
func TestFaultsOverSQL(t *testing.T) {
	t.Parallel()
	sim, db := faulty(t)
	boss := connect(t, sim.DSN())
	require.Equal(t, []string{"1"}, rows(t, boss, `EXEC sim.fault @action = 'error', @statement = 'FROM dbo\.n', @after_rows = 10, @number = 1205, @class = 13, @state = 45`))
	got, err := tryRows(t.Context(), db, readAll)
	require.Equal(t, int32(1205), sqlError(t, err).Number)
	require.Len(t, got, 10)
	require.Len(t, rows(t, db, readAll), 1000, "once")
	require.Equal(t, []string{`1|1|FROM dbo\.n`}, rows(t, boss, "EXEC sim.faults"))

	require.Equal(t, []string{"2"}, rows(t, boss, "EXEC sim.fault 'hang', @times = -1"), "strikes everything but the controls")
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "SELECT 1")
		done <- err
	}()
	require.Eventually(t, func() bool { return rows(t, boss, "EXEC sim.faults")[1] == "2|1|NULL" }, 5*time.Second, time.Millisecond)
	_ = rows(t, boss, "EXEC sim.remove_fault 2; EXEC sim.remove_fault 1")
	require.NoError(t, <-done)
	require.Empty(t, rows(t, boss, "EXEC sim.faults"))

	for _, c := range []struct{ text, want string }{
		{"EXEC sim.remove_fault 2", "no fault rule 2"},
		{"EXEC sim.fault 'explode'", "@action is 'explode'"},
		{"EXEC sim.fault 'close', @when = 'never'", "@when is 'never'"},
		{"EXEC sim.fault 'close', @statement = '('", "no regular expression"},
		{"EXEC sim.fault 'route', @when = 'login'", "needs @host"},
		{"EXEC sim.nosuch", "Could not find stored procedure 'sim.nosuch'"},
	} {
		_, err := tryRows(t.Context(), boss, c.text)
		require.ErrorContains(t, err, c.want)
	}
}

// TestControlsOverSQL: capture, idle entries and clean-up on demand, for sysadmin only.
func TestControlsOverSQL(t *testing.T) {
	t.Parallel()
	clock := engine.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("reader", "", false), sqlserversim.WithClock(clock))
	tracked(t, sim)
	exec(t, sim, "INSERT dbo.orders (id) VALUES (1)")
	clock.Advance(time.Second) // a mark is lowered to the first commit of its tick
	exec(t, sim, "INSERT dbo.orders (id) VALUES (2)", "CREATE USER reader FOR LOGIN reader")
	db := connect(t, sim.DSN())
	require.Empty(t, rows(t, db, "SELECT id FROM cdc.dbo_orders_CT"))
	require.Equal(t, []string{"1", "2"}, rows(t, db, "EXEC sim.capture; SELECT id FROM cdc.dbo_orders_CT ORDER BY __$start_lsn"))
	require.Equal(t, []string{"1"}, rows(t, db, `DECLARE @n int = (SELECT COUNT(*) FROM cdc.lsn_time_mapping); EXEC sim.idle;
		SELECT COUNT(*) - @n FROM cdc.lsn_time_mapping`))
	require.Equal(t, []string{"2"}, rows(t, db, `DECLARE @mark binary(10) = (SELECT MAX(__$start_lsn) FROM cdc.dbo_orders_CT); EXEC sim.cleanup_below 'dbo_orders', @mark;
		SELECT id FROM cdc.dbo_orders_CT`))
	clock.Advance(time.Second)
	require.Empty(t, rows(t, db, "EXEC sim.idle; EXEC sim.cleanup_below 'dbo_orders'; EXEC sim.cleanup; SELECT id FROM cdc.dbo_orders_CT"))
	_, err := tryRows(t.Context(), connect(t, sim.DSN("reader")), "EXEC sim.capture")
	require.Equal(t, int32(229), sqlError(t, err).Number)
}
