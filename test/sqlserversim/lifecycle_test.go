package sqlserversim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// TestLifecycle takes a table through everything CDC does to it, by T-SQL over the socket alone.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	clock := engine.NewManualClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithClock(clock))
	db := connect(t, sim.DSN())
	run := func(batch string, args ...any) {
		t.Helper()
		clock.Advance(time.Second)
		_, err := db.ExecContext(t.Context(), batch, args...)
		require.NoError(t, err, batch)
	}
	one := func(query string, args ...any) string {
		t.Helper()
		got := rows(t, db, query, args...)
		require.Len(t, got, 1, query)
		return got[0]
	}

	// Before: no CDC.
	require.Equal(t, "0", one("SELECT CAST(is_cdc_enabled AS int) FROM sys.databases WHERE name = DB_NAME()"))
	_, err := tryRows(t.Context(), db, "SELECT sys.fn_cdc_get_max_lsn()")
	require.Equal(t, int32(208), sqlError(t, err).Number)

	// Enable.
	run("CREATE TABLE dbo.item (id int NOT NULL, name nvarchar(20) NULL, big nvarchar(max) NULL, price decimal(9,2) NOT NULL DEFAULT 1.5, CONSTRAINT pk_item PRIMARY KEY (id))")
	run("INSERT dbo.item (id, name) VALUES (1, N'before CDC')")
	run("EXEC sys.sp_cdc_enable_db")
	require.Equal(t, "1", one("SELECT CAST(is_cdc_enabled AS int) FROM sys.databases WHERE name = DB_NAME()"))
	run("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'item', @role_name = NULL, @supports_net_changes = 1")
	require.Equal(t, "NULL|0x00000000000000000000", one("SELECT sys.fn_cdc_get_max_lsn(), sys.fn_cdc_get_min_lsn('dbo_item')"),
		"nothing is there until capture has run")
	require.Equal(t, "1", one("SELECT CAST(is_tracked_by_cdc AS int) FROM sys.tables WHERE name = 'item'"))
	help := one("EXEC sys.sp_cdc_help_change_data_capture")
	require.Contains(t, help, "dbo|item|dbo_item|")
	require.True(t, strings.HasSuffix(help, "|[id]|[id], [name], [big], [price]"), help)

	// One transaction with everything in it.
	run(`BEGIN TRAN;
		INSERT dbo.item (id, name, big) VALUES (2, N'two', N'long');
		UPDATE dbo.item SET name = N'zwei' WHERE id = 2;
		UPDATE dbo.item SET name = N'deux' WHERE id = 2;
		DELETE dbo.item WHERE id = 1;
		COMMIT`)
	run("UPDATE dbo.item SET name = name")
	run("UPDATE dbo.item SET id = 20 WHERE id = 2")
	run("EXEC sys.sp_cdc_scan")
	require.Equal(t, []string{
		"2|0x0F|2|two|long|1.50", "3|0x02|2|two|NULL|1.50", "4|0x02|2|zwei|long|1.50", "3|0x02|2|zwei|NULL|1.50", "4|0x02|2|deux|long|1.50",
		"1|0x0F|1|before CDC|NULL|1.50", "1|0x0F|2|deux|long|1.50", "2|0x0F|20|deux|long|1.50",
	}, rows(t, db, `SELECT __$operation, __$update_mask, id, name, big, price FROM cdc.dbo_item_CT
		ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation`))
	require.Equal(t, "2", one("SELECT COUNT(DISTINCT __$start_lsn) FROM cdc.dbo_item_CT"))
	require.Equal(t, "1", one("SELECT COUNT(*) FROM (SELECT MAX(start_lsn) AS m FROM cdc.lsn_time_mapping) x WHERE m = sys.fn_cdc_get_max_lsn()"))

	// The query functions.
	const window = "DECLARE @f binary(10) = sys.fn_cdc_get_min_lsn('dbo_item'), @t binary(10) = sys.fn_cdc_get_max_lsn(); "
	require.Equal(t, []string{"2|2", "4|2", "4|2", "1|1", "1|2", "2|20"},
		rows(t, db, window+"SELECT __$operation, id FROM cdc.fn_cdc_get_all_changes_dbo_item(@f, @t, N'all')"))
	require.Len(t, rows(t, db, window+"SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_item(@f, @t, N' ALL UPDATE OLD ')"), 8)
	require.Equal(t, []string{"1|1", "2|20"}, rows(t, db, window+"SELECT __$operation, id FROM cdc.fn_cdc_get_net_changes_dbo_item(@f, @t, N'all') ORDER BY id"))
	require.Equal(t, []string{"5|20"}, rows(t, db, window+"SELECT __$operation, id FROM cdc.fn_cdc_get_net_changes_dbo_item(@f, @t, N'all with merge') WHERE id = 20"))
	_, err = tryRows(t.Context(), db, "SELECT __$command_id FROM cdc.fn_cdc_get_all_changes_dbo_item(sys.fn_cdc_get_min_lsn('dbo_item'), sys.fn_cdc_get_max_lsn(), N'all')")
	require.Equal(t, int32(207), sqlError(t, err).Number)
	for name, args := range map[string]string{
		"below min": "0x01, sys.fn_cdc_get_max_lsn(), N'all'", "above max": "sys.fn_cdc_get_min_lsn('dbo_item'), 0xFFFFFFFFFFFFFFFFFFFF, N'all'",
		"NULL": "NULL, sys.fn_cdc_get_max_lsn(), N'all'", "inverted": "sys.fn_cdc_get_max_lsn(), sys.fn_cdc_get_min_lsn('dbo_item'), N'all'",
		"option": "sys.fn_cdc_get_min_lsn('dbo_item'), sys.fn_cdc_get_max_lsn(), N'everything'",
	} {
		_, err := tryRows(t.Context(), db, "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_item("+args+")")
		e := sqlError(t, err)
		require.Equal(t, int32(313), e.Number, name)
		require.Equal(t, uint8(3), e.State, name)
		require.Equal(t, "An insufficient number of arguments were supplied for the procedure or function cdc.fn_cdc_get_all_changes_ ... .", e.Message)
	}

	// Columns and bits.
	require.Equal(t, "2|false|true|true", one(`SELECT sys.fn_cdc_get_column_ordinal('dbo_item', 'name'), sys.fn_cdc_is_bit_set(1, 0x02),
		sys.fn_cdc_is_bit_set(2, 0x02), sys.fn_cdc_has_column_changed('dbo_item', 'name', 0x02)`))

	// DDL: a new column is not captured; a type change is; the history knows both.
	run("ALTER TABLE dbo.item ADD extra int NULL")
	run("ALTER TABLE dbo.item ALTER COLUMN name nvarchar(40) NULL")
	run("INSERT dbo.item (id, name, extra) VALUES (3, N'three', 33)")
	run("EXEC sys.sp_cdc_scan")
	require.Equal(t, []string{"0|ALTER TABLE dbo.item ADD extra int NULL", "1|ALTER TABLE dbo.item ALTER COLUMN name nvarchar(40) NULL"},
		rows(t, db, "SELECT CAST(required_column_update AS int), ddl_command FROM cdc.ddl_history ORDER BY ddl_lsn"))
	require.Len(t, rows(t, db, "EXEC sys.sp_cdc_get_ddl_history @capture_instance = 'dbo_item'"), 2)
	require.Equal(t, []string{"id|1|int|NULL", "name|2|nvarchar|40", "big|3|nvarchar|-1", "price|4|decimal|NULL"},
		rows(t, db, `DECLARE @t TABLE (source_schema sysname, source_table sysname, capture_instance sysname, column_name sysname, column_id int,
			column_ordinal int, data_type sysname, character_maximum_length int, numeric_precision tinyint, numeric_precision_radix smallint,
			numeric_scale int, datetime_precision smallint);
			INSERT INTO @t EXEC sys.sp_cdc_get_captured_columns @capture_instance = N'dbo_item';
			SELECT column_name, column_ordinal, data_type, character_maximum_length FROM @t ORDER BY column_ordinal`))

	// A second instance captures the new column from its start on; a third is refused.
	run("EXEC sys.sp_cdc_enable_table 'dbo', 'item', @capture_instance = 'dbo_item_v2', @role_name = NULL")
	run("INSERT dbo.item (id, name, extra) VALUES (4, N'four', 44)")
	run("EXEC sys.sp_cdc_scan")
	require.Equal(t, []string{"4|44"}, rows(t, db, "SELECT id, extra FROM cdc.dbo_item_v2_CT"))
	require.Equal(t, "1", one(`SELECT COUNT(*) FROM cdc.dbo_item_CT a JOIN cdc.dbo_item_v2_CT b ON a.__$start_lsn = b.__$start_lsn AND a.__$seqval = b.__$seqval`))
	_, err = db.ExecContext(t.Context(), "EXEC sys.sp_cdc_enable_table 'dbo', 'item', @capture_instance = 'dbo_item_v3', @role_name = NULL")
	require.Equal(t, int32(22962), sqlError(t, err).Number)

	// Clean-up to the newest commit moves min_lsn and deletes what is below.
	before := one("SELECT sys.fn_cdc_get_min_lsn('dbo_item')")
	run("DECLARE @m binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_item', @low_water_mark = @m, @threshold = 2")
	require.Less(t, before, one("SELECT sys.fn_cdc_get_min_lsn('dbo_item')"))
	require.Equal(t, []string{"4"}, rows(t, db, "SELECT id FROM cdc.dbo_item_CT"))
	require.Empty(t, rows(t, db, "SELECT * FROM cdc.dbo_item_CT WHERE __$start_lsn BETWEEN 0x00 AND "+before), "a purged range reads as empty")

	// Disable one, then all.
	run("EXEC sys.sp_cdc_disable_table 'dbo', 'item', 'dbo_item'")
	_, err = tryRows(t.Context(), db, "SELECT * FROM cdc.dbo_item_CT")
	require.Equal(t, "Invalid object name 'cdc.dbo_item_CT'.", sqlError(t, err).Message)
	require.Equal(t, "0x00000000000000000000", one("SELECT sys.fn_cdc_get_min_lsn('dbo_item')"))
	run("EXEC sys.sp_cdc_disable_db")
	_, err = tryRows(t.Context(), db, "SELECT * FROM cdc.change_tables")
	require.Equal(t, int32(208), sqlError(t, err).Number)
	require.Empty(t, rows(t, db, "SELECT name FROM sys.schemas WHERE name = 'cdc'"))
}

func TestCaptureJob(t *testing.T) {
	t.Parallel()
	sim, err := sqlserversim.Start(sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(1e6))
	require.NoError(t, err)
	defer sim.Close()
	exec(t, sim, "CREATE TABLE dbo.t (id int PRIMARY KEY)", "EXEC sys.sp_cdc_enable_db", "EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL")
	exec(t, sim, "INSERT dbo.t VALUES (1)")
	db := connect(t, sim.DSN())
	require.Eventually(t, func() bool { return len(rows(t, db, "SELECT id FROM cdc.dbo_t_CT")) == 1 }, wait, tick)
	jobs := rows(t, db, "EXEC sys.sp_cdc_help_jobs")
	require.Len(t, jobs, 2)
	require.Contains(t, jobs[0], "capture|500|10|true|1|0|0")
	require.Contains(t, jobs[1], "cleanup|0|0|false|0|4320|5000")
	require.Equal(t, []string{"capture", "cleanup"}, rows(t, db, "SELECT job_type FROM msdb.dbo.cdc_jobs ORDER BY job_type"))

	exec(t, sim, "EXEC sys.sp_cdc_stop_job")
	exec(t, sim, "INSERT dbo.t VALUES (2)")
	require.Equal(t, []string{"1"}, rows(t, db, "SELECT id FROM cdc.dbo_t_CT"), "nothing is captured while the job stands")
	exec(t, sim, "EXEC sys.sp_cdc_start_job")
	require.Eventually(t, func() bool { return len(rows(t, db, "SELECT id FROM cdc.dbo_t_CT")) == 2 }, wait, tick)

	exec(t, sim, "EXEC sys.sp_cdc_change_job @job_type = 'cleanup', @retention = 60")
	require.Equal(t, []string{"60"}, rows(t, db, "SELECT retention FROM msdb.dbo.cdc_jobs WHERE job_type = 'cleanup'"))
	require.NotEmpty(t, rows(t, db, "SELECT TOP 1 start_lsn FROM sys.dm_cdc_log_scan_sessions ORDER BY session_id DESC"))
	require.Empty(t, rows(t, db, "SELECT * FROM sys.dm_cdc_errors"))
}
