package sqlserversim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// TestLeastPrivilege is the table of seed-system.md 2.6: what each grant lets a reader do, and what it sees without.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("reader", "", false))
	tracked(t, sim)
	exec(t, sim, "CREATE USER reader FOR LOGIN reader", "INSERT dbo.orders VALUES (1, N'a', 1)")
	capture(t, sim)
	db := connect(t, sim.DSN("reader"))
	number := func(query string) int32 {
		t.Helper()
		_, err := tryRows(t.Context(), db, query)
		if err == nil {
			return 0
		}
		return sqlError(t, err).Number
	}
	const (
		maxLSN, mapping = "SELECT sys.fn_cdc_get_max_lsn()", "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping"
		help            = "EXEC sys.sp_cdc_help_change_data_capture"
		helpTable       = "EXEC sys.sp_cdc_help_change_data_capture 'dbo', 'orders'"
		captured        = "EXEC sys.sp_cdc_get_captured_columns 'dbo_orders'"
		history         = "EXEC sys.sp_cdc_get_ddl_history 'dbo_orders'"
		minLSN          = "SELECT sys.fn_cdc_get_min_lsn('dbo_orders')"
		changes         = "SELECT * FROM cdc.dbo_orders_CT"
		function        = "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_orders(sys.fn_cdc_get_min_lsn('dbo_orders'), sys.fn_cdc_get_max_lsn(), N'all')"
		source          = "SELECT * FROM dbo.orders"
		hasPerms        = "SELECT HAS_PERMS_BY_NAME('cdc.[dbo_orders_CT]', 'OBJECT', 'SELECT')"
		zero            = "0x00000000000000000000"
	)
	public := func(t *testing.T) {
		require.Equal(t, int32(0), number(maxLSN))
		require.Equal(t, int32(0), number(mapping))
		require.Equal(t, int32(0), number("SELECT sys.fn_cdc_increment_lsn(0x01), sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_max_lsn())"))
		for _, table := range []string{"change_tables", "captured_columns", "ddl_history", "index_columns"} {
			_, err := tryRows(t.Context(), db, "SELECT * FROM cdc."+table)
			e := sqlError(t, err)
			require.Equal(t, int32(229), e.Number)
			require.Equal(t, "The SELECT permission was denied on the object '"+table+"', database 'lab', schema 'cdc'.", e.Message)
		}
		require.NotEqual(t, int32(0), number("SELECT * FROM sys.dm_cdc_log_scan_sessions"))
	}
	t.Run("nothing granted", func(t *testing.T) {
		public(t)
		require.Empty(t, rows(t, db, help))
		require.Equal(t, int32(22981), number(helpTable))
		require.Equal(t, int32(22981), number(captured))
		require.Equal(t, int32(22981), number(history))
		require.Equal(t, []string{zero}, rows(t, db, minLSN))
		_, err := tryRows(t.Context(), db, changes)
		e := sqlError(t, err)
		require.Equal(t, int32(229), e.Number)
		require.Equal(t, uint8(14), e.Class)
		require.Equal(t, uint8(5), e.State)
		require.Equal(t, "The SELECT permission was denied on the object 'dbo_orders_CT', database 'lab', schema 'cdc'.", e.Message)
		require.Equal(t, int32(229), number(source))
		require.Equal(t, []string{"0"}, rows(t, db, hasPerms))
		require.Empty(t, rows(t, db, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('dbo.orders')"))
	})
	exec(t, sim, "GRANT SELECT ON cdc.[dbo_orders_CT] TO reader")
	t.Run("the change table alone", func(t *testing.T) {
		public(t)
		require.Len(t, rows(t, db, changes), 1)
		require.Equal(t, []string{"1"}, rows(t, db, hasPerms))
		require.Empty(t, rows(t, db, help))
		require.Equal(t, int32(22981), number(captured))
		require.Equal(t, []string{zero}, rows(t, db, minLSN))
	})
	exec(t, sim, "REVOKE SELECT ON cdc.[dbo_orders_CT] FROM reader; GRANT SELECT ON dbo.orders TO reader")
	t.Run("the source alone", func(t *testing.T) {
		public(t)
		require.Len(t, rows(t, db, help), 1)
		require.Len(t, rows(t, db, helpTable), 1)
		require.Len(t, rows(t, db, captured), 3)
		require.Empty(t, rows(t, db, history))
		require.NotEqual(t, []string{zero}, rows(t, db, minLSN))
		require.Equal(t, int32(229), number(changes))
		require.Len(t, rows(t, db, function), 1, "the function needs no more than the source")
		require.Len(t, rows(t, db, source), 1)
		require.Equal(t, []string{"id", "name", "amount"}, rows(t, db, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('dbo.orders') ORDER BY column_id"))
	})
	exec(t, sim, "REVOKE SELECT ON dbo.orders FROM reader; GRANT SELECT ON dbo.orders (id, name, amount) TO reader; GRANT SELECT ON cdc.dbo_orders_CT TO reader")
	t.Run("columns are enough", func(t *testing.T) {
		require.Len(t, rows(t, db, captured), 3)
		require.NotEqual(t, []string{zero}, rows(t, db, minLSN))
		require.Len(t, rows(t, db, changes), 1)
	})
	exec(t, sim, "REVOKE SELECT ON dbo.orders (amount) FROM reader")
	t.Run("one column missing", func(t *testing.T) {
		require.Equal(t, []string{zero}, rows(t, db, minLSN))
		require.Len(t, rows(t, db, "SELECT id, name FROM dbo.orders"), 1)
		_, err := tryRows(t.Context(), db, "SELECT amount FROM dbo.orders")
		e := sqlError(t, err)
		require.Equal(t, int32(230), e.Number)
		require.Equal(t, "The SELECT permission was denied on the column 'amount' of the object 'orders', database 'lab', schema 'dbo'.", e.Message)
		_, err = tryRows(t.Context(), db, function)
		require.Error(t, err)
	})
	exec(t, sim, "GRANT VIEW DATABASE STATE TO reader")
	require.Equal(t, int32(0), number("SELECT * FROM sys.dm_cdc_log_scan_sessions"))
	require.Equal(t, int32(22904), number("EXEC sys.sp_cdc_scan"))
	require.Equal(t, int32(22902), number("EXEC sys.sp_cdc_enable_db"))
	require.Equal(t, int32(22904), number("EXEC sys.sp_cdc_help_jobs"))
}

func TestGatingRole(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("reader", "", false))
	exec(t, sim, "CREATE TABLE dbo.t (id int PRIMARY KEY)", "EXEC sys.sp_cdc_enable_db",
		"EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = N'cdc_reader'", "CREATE USER reader; GRANT SELECT ON dbo.t TO reader", "INSERT dbo.t VALUES (1)")
	capture(t, sim)
	db := connect(t, sim.DSN("reader"))
	require.Equal(t, []string{"cdc_reader"}, rows(t, connect(t, sim.DSN()), "SELECT name FROM sys.database_principals WHERE type = 'R' AND name = 'cdc_reader'"))
	require.Equal(t, []string{"0x00000000000000000000"}, rows(t, db, "SELECT sys.fn_cdc_get_min_lsn('dbo_t')"))
	require.Empty(t, rows(t, db, "EXEC sys.sp_cdc_help_change_data_capture"))
	exec(t, sim, "GRANT SELECT ON cdc.dbo_t_CT TO reader")
	require.Len(t, rows(t, db, "SELECT * FROM cdc.dbo_t_CT"), 1, "a grant on the change table sidesteps the role")
	exec(t, sim, "ALTER ROLE cdc_reader ADD MEMBER reader")
	require.NotEqual(t, []string{"0x00000000000000000000"}, rows(t, db, "SELECT sys.fn_cdc_get_min_lsn('dbo_t')"))
	require.Len(t, rows(t, db, "EXEC sys.sp_cdc_help_change_data_capture"), 1)
	exec(t, sim, "ALTER ROLE cdc_reader DROP MEMBER reader")
	require.Equal(t, []string{"0x00000000000000000000"}, rows(t, db, "SELECT sys.fn_cdc_get_min_lsn('dbo_t')"), "a right that is lost is lost at once")
}

func TestRolesAndDeny(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("u", "", false))
	exec(t, sim, "CREATE TABLE dbo.a (id int PRIMARY KEY)", "CREATE SCHEMA s", "CREATE TABLE s.b (id int PRIMARY KEY)", "CREATE USER u", "CREATE ROLE team", "ALTER ROLE team ADD MEMBER u")
	db := connect(t, sim.DSN("u"))
	for _, tt := range []struct {
		name, change, query string
		number              int32
	}{
		{"nothing", "", "SELECT * FROM dbo.a", 229},
		{"through a role", "GRANT SELECT ON dbo.a TO team", "SELECT * FROM dbo.a", 0},
		{"insert is another right", "", "INSERT dbo.a VALUES (1)", 229},
		{"deny beats grant", "DENY SELECT ON dbo.a TO u", "SELECT * FROM dbo.a", 229},
		{"revoke takes the deny away", "REVOKE SELECT ON dbo.a FROM u", "SELECT * FROM dbo.a", 0},
		{"schema", "GRANT SELECT ON SCHEMA::s TO u", "SELECT * FROM s.b", 0},
		{"db_datawriter", "ALTER ROLE db_datawriter ADD MEMBER u", "INSERT s.b VALUES (1)", 0},
		{"db_denydatareader", "ALTER ROLE db_denydatareader ADD MEMBER u", "SELECT * FROM s.b", 229},
		{"no DDL", "", "CREATE TABLE dbo.c (id int)", 262},
		{"no DDL on a table", "", "ALTER TABLE dbo.a ADD x int", 1088},
		{"db_owner", "ALTER ROLE db_denydatareader DROP MEMBER u; ALTER ROLE db_owner ADD MEMBER u", "CREATE TABLE dbo.c (id int)", 0},
	} {
		if tt.change != "" {
			exec(t, sim, tt.change)
		}
		_, err := tryRows(t.Context(), db, tt.query)
		if tt.number == 0 {
			require.NoError(t, err, tt.name)
			continue
		}
		require.Equal(t, tt.number, sqlError(t, err).Number, tt.name)
	}
}
