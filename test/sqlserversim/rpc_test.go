package sqlserversim_test

import (
	"database/sql"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// TestProcedureCalls: a bare name goes out as an RPC; output parameters and the return status come back.
func TestProcedureCalls(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	exec(t, sim, `CREATE PROCEDURE dbo.twice @n int, @text nvarchar(20) = N'none', @out int OUTPUT, @back varbinary(10) = NULL OUTPUT AS
		BEGIN SET @out = 2 * @n; SET @back = 0x0A0B; SELECT @text AS t, @n AS n; RETURN 7 END`)
	db := connect(t, sim.DSN())
	var out int
	var back []byte
	var status mssql.ReturnStatus
	r, err := db.QueryContext(t.Context(), "dbo.twice", sql.Named("n", 21), sql.Named("out", sql.Out{Dest: &out}), sql.Named("back", sql.Out{Dest: &back}), &status)
	require.NoError(t, err)
	require.True(t, r.Next())
	var text string
	var n int
	require.NoError(t, r.Scan(&text, &n))
	require.False(t, r.Next())
	require.NoError(t, r.Close())
	require.Equal(t, "none", text)
	require.Equal(t, 42, out)
	require.Equal(t, []byte{10, 11}, back)
	require.Equal(t, mssql.ReturnStatus(7), status)

	_, err = db.ExecContext(t.Context(), "dbo.twice", sql.Named("n", 21))
	require.Equal(t, int32(201), sqlError(t, err).Number)
	_, err = db.ExecContext(t.Context(), "sys.sp_nosuch")
	require.Equal(t, int32(2812), sqlError(t, err).Number)
	require.Contains(t, sim.Statements(), "dbo.twice")
}

// TestPrepared: the prepared family by T-SQL. Drivers send it as RPC; the handle comes back the same way.
func TestPrepared(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	db := connect(t, sim.DSN())
	require.Equal(t, []string{"5", "6", "7"}, rows(t, db, `DECLARE @h int; EXEC sp_prepexec @h OUTPUT, N'@p int', N'SELECT @p', 5; EXEC sp_execute @h, 6; EXEC sp_unprepare @h;
		EXEC sp_prepare @h OUTPUT, N'@p int', N'SELECT @p'; EXEC sp_execute @h, 7`))
	_, err := tryRows(t.Context(), db, "EXEC sp_execute 99")
	require.Equal(t, int32(8179), sqlError(t, err).Number)
}

// TestTimeZone: mapping times are the server's wall clock, which repeats when summer ends; LSNs go on.
func TestTimeZone(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	clock := engine.NewManualClock(time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)) // 02:30 summer time
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithClock(clock), sqlserversim.WithTimeZone("W. Europe Standard Time", berlin))
	tracked(t, sim)
	for i := range 3 {
		exec(t, sim, "INSERT dbo.orders (id) VALUES ("+[]string{"1", "2", "3"}[i]+")")
		capture(t, sim)
		clock.Advance(30 * time.Minute)
	}
	db := connect(t, sim.DSN())
	require.Equal(t, []string{"2026-10-25 02:30:00", "2026-10-25 02:00:00", "2026-10-25 02:30:00"},
		rows(t, db, "SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00 ORDER BY start_lsn"))
	require.Equal(t, []string{"60|W. Europe Standard Time"}, rows(t, db, "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET()), CURRENT_TIMEZONE_ID()"))
	require.Equal(t, []string{"2026-10-25 03:00:00|2026-10-25 02:00:00"}, rows(t, db, "SELECT CAST(SYSDATETIME() AS datetime2(0)), CAST(SYSUTCDATETIME() AS datetime2(0))"))
}

// TestFailOverAndRestore: what the engine can do to a database shows through the wire.
func TestFailOverAndRestore(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	tracked(t, sim)
	backup := sim.DefaultDB().Backup()
	exec(t, sim, "INSERT dbo.orders (id) VALUES (1)")
	capture(t, sim)
	db := connect(t, sim.DSN())
	before := maxLSN(t, db)
	exec(t, sim, "INSERT dbo.orders (id) VALUES (2)")
	lost, err := sim.DefaultDB().FailOver(t.Context(), engine.FailOverOptions{LoseTail: true})
	require.NoError(t, err)
	require.Equal(t, 1, lost)
	require.Equal(t, before, maxLSN(t, db), "what was captured stays valid")
	require.Equal(t, []string{"1"}, rows(t, db, "SELECT id FROM dbo.orders"))
	require.NoError(t, sim.DefaultDB().Restore(t.Context(), backup, engine.RestoreOptions{KeepCDC: true}))
	exec(t, sim, "INSERT dbo.orders (id) VALUES (3)")
	capture(t, sim)
	require.Equal(t, []string{"3"}, rows(t, db, "SELECT id FROM cdc.dbo_orders_CT"), "another history")
}
