package sqlserversim_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// lab is a database with CDC, some changes, and the tables that the statements below name.
func lab(t *testing.T, opts ...sqlserversim.Option) (*sqlserversim.Server, *sql.DB) {
	t.Helper()
	sim := start(t, append([]sqlserversim.Option{sqlserversim.WithoutTLS()}, opts...)...)
	tracked(t, sim)
	exec(t, sim, "ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON", "CREATE TABLE dbo.pair (a int, b varchar(10) COLLATE Greek_CI_AS, v int, PRIMARY KEY (a, b))")
	for i := range 12 {
		exec(t, sim, fmt.Sprintf("INSERT dbo.orders VALUES (%d, N'n%d', %d.25); INSERT dbo.pair VALUES (%d, 'k%d', %d)", i, i, i, i/4, i, i))
	}
	exec(t, sim, "UPDATE dbo.orders SET name = N'new' WHERE id = 3", "DELETE dbo.orders WHERE id = 4")
	capture(t, sim)
	return sim, connect(t, sim.DSN())
}

// maxLSN is the position of capture, minLSN the low watermark of dbo_orders.
func maxLSN(t *testing.T, db queryer) []byte {
	t.Helper()
	return queryLSN(t, db, "SELECT sys.fn_cdc_get_max_lsn()")
}

func minLSN(t *testing.T, db queryer) []byte {
	t.Helper()
	return queryLSN(t, db, "SELECT sys.fn_cdc_get_min_lsn('dbo_orders')")
}

// queryLSN is the one value that a query gives.
func queryLSN(t *testing.T, db queryer, query string) []byte {
	t.Helper()
	r, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer r.Close()
	require.True(t, r.Next())
	var lsn []byte
	require.NoError(t, r.Scan(&lsn))
	return lsn
}

// TestSeedStatements are those that mssql-cdc-pyspark sends (simulator.md, last section; parameters are text).
func TestSeedStatements(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	top := rows(t, db, "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0]
	low := rows(t, db, "SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn(@p1), 1)", "dbo_orders")[0]
	require.Len(t, top, 22)
	require.Less(t, low, top)
	require.Equal(t, []string{"1"}, rows(t, db, `SELECT CASE WHEN CAST(SERVERPROPERTY('ProductMajorVersion') AS int) >= 16
		OR CAST(SERVERPROPERTY('EngineEdition') AS int) IN (5, 8) THEN 1 ELSE 0 END`))
	require.Equal(t, []string{"UTC"}, rows(t, db, "SELECT CURRENT_TIMEZONE_ID()"))
	require.Equal(t, []string{"0"}, rows(t, db, "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())"))
	require.Equal(t, []string{"id|1|false", "name|2|false", "amount|3|false"},
		rows(t, db, "SELECT name, column_id, is_computed FROM sys.columns WHERE object_id = OBJECT_ID(QUOTENAME(@p1) + '.' + QUOTENAME(@p2))", "dbo", "orders"))
	require.Len(t, rows(t, db, "EXEC sys.sp_cdc_get_captured_columns @capture_instance = @p1", "dbo_orders"), 3)
	require.Len(t, rows(t, db, "EXEC sys.sp_cdc_help_change_data_capture @source_schema = @p1, @source_name = @p2", "dbo", "orders"), 1)
	require.Empty(t, rows(t, db, "EXEC sys.sp_cdc_get_ddl_history @capture_instance = @p1", "dbo_orders"))
	require.Len(t, rows(t, db, `SELECT CONVERT(varchar(22), MAX(start_lsn), 1) FROM (SELECT TOP (3) start_lsn FROM cdc.lsn_time_mapping
		WHERE start_lsn > CONVERT(binary(10), @p1, 1) ORDER BY start_lsn) t`, low)[0], 22)
	require.Equal(t, []string{"1"}, rows(t, db, `SELECT COUNT(*) FROM (SELECT TOP (1) CONVERT(varchar(23), CAST(m.tran_end_time AS datetime2(3)), 126) AS x
		FROM cdc.lsn_time_mapping m WHERE m.start_lsn = CONVERT(binary(10), @p1, 1) ORDER BY m.start_lsn DESC) q WHERE x LIKE '20__-__-__T__:__:__.___'`, top))
	require.Equal(t, []string{low}, rows(t, db, "SELECT CONVERT(varchar(22), sys.fn_cdc_increment_lsn(sys.fn_cdc_decrement_lsn(CONVERT(binary(10), @p1, 1))), 1)", low))

	split := rows(t, db, `SELECT CONVERT(varchar(22), MAX(__$start_lsn), 1) AS b, CONVERT(varchar(22), sys.fn_cdc_increment_lsn(MAX(__$start_lsn)), 1) AS n,
		COUNT_BIG(*) AS r FROM (SELECT __$start_lsn, NTILE(4) OVER (ORDER BY __$start_lsn) AS g FROM cdc.[dbo_orders_CT]
		WHERE __$start_lsn BETWEEN CONVERT(binary(10), @p1, 1) AND CONVERT(binary(10), @p2, 1)) x GROUP BY g ORDER BY b`, low, top)
	require.Len(t, split, 4)

	changes := rows(t, db, `SELECT CONVERT(varchar(22), c.[__$start_lsn], 1) AS _start_lsn, CONVERT(varchar(22), c.[__$seqval], 1) AS _seqval,
		c.[__$operation] AS _operation, c.[__$command_id] AS _command_id, CAST(m.tran_end_time AS datetime2(3)) AS _commit_ts, c.[id], c.[name], c.[amount]
		FROM cdc.[dbo_orders_CT] c JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn]
		WHERE c.[__$start_lsn] BETWEEN CONVERT(binary(10), @p1, 1) AND CONVERT(binary(10), @p2, 1)
		ORDER BY c.[__$start_lsn], c.[__$command_id], c.[__$seqval], c.[__$operation]`, low, top)
	require.Len(t, changes, 12+2+1)
	require.IsIncreasing(t, []string{changes[0][:22], changes[5][:22], changes[14][:22]})

	require.Equal(t, []string{"1"}, rows(t, db, "SELECT 1"))
	_ = rows(t, db, "SELECT wait_time_ms FROM sys.dm_exec_session_wait_stats WHERE session_id = @@SPID AND wait_type = 'ASYNC_NETWORK_IO'")
	require.Equal(t, []string{"0|11"}, rows(t, db, "SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT (SELECT MIN([id]) FROM [dbo].[orders]) AS lo, (SELECT MAX([id]) FROM [dbo].[orders]) AS hi"))
	require.Equal(t, []string{"2|k9"}, rows(t, db, "SELECT TOP (1) [a], [b] FROM [dbo].[pair] ORDER BY [a] DESC, [b] DESC"))
	require.Contains(t, rows(t, db, "EXEC sys.sp_spaceused @objname = @p1", "dbo.orders")[0], "orders|11 ")
	require.Equal(t, []string{"1|k5|5", "1|k6|6", "1|k7|7", "2|k10|10", "2|k11|11"}, rows(t, db, `SELECT [a], [b], [v] FROM [dbo].[pair] WHERE [a] = 1 AND [b] >= CAST(@p1 COLLATE Greek_CI_AS AS varchar(10))
		UNION ALL SELECT [a], [b], [v] FROM [dbo].[pair] WHERE [a] > 1 AND [a] < 2
		UNION ALL SELECT [a], [b], [v] FROM [dbo].[pair] WHERE [a] = 2 AND [b] < CAST(@p2 COLLATE Greek_CI_AS AS varchar(10)) ORDER BY [a], [b]`, "k5", "k2"))
	require.Empty(t, rows(t, db, "SELECT * FROM dbo.pair WHERE 1 = 0"))
	require.Equal(t, []string{"7"}, rows(t, db, `SELECT v FROM (SELECT * FROM (SELECT TOP (5) [a], [b], [v] FROM [dbo].[pair] WHERE [a] = 1 ORDER BY [a], [b]) p
		UNION ALL SELECT * FROM (SELECT TOP (5) [a], [b], [v] FROM [dbo].[pair] WHERE [a] > 1 ORDER BY [a], [b]) p) q ORDER BY [a], [b] OFFSET 3 ROWS FETCH NEXT 1 ROWS ONLY`))
	require.Equal(t, []string{"0|4|6", "1|3|18", "2|4|38"}, rows(t, db, `SELECT CASE WHEN o >= 0 THEN o / 4 ELSE (o + 1) / 4 - 1 END AS g, COUNT_BIG(*), SUM(CAST(o AS decimal(38,0)))
		FROM (SELECT CAST([id] AS bigint) AS o FROM [dbo].[orders]) x GROUP BY CASE WHEN o >= 0 THEN o / 4 ELSE (o + 1) / 4 - 1 END ORDER BY g`))
	require.Equal(t, []string{"1"}, rows(t, db, `SELECT CASE WHEN sys.fn_cdc_get_min_lsn(@p1) > 0x00000000000000000000 THEN HAS_PERMS_BY_NAME(@p2, 'OBJECT', 'SELECT') END`,
		"dbo_orders", "cdc.[dbo_orders_CT]"))
	require.Len(t, rows(t, db, `SELECT CONVERT(varchar(22), x.start_lsn, 1), x.back FROM (SELECT m.start_lsn, DATEDIFF(second, LAG(m.tran_end_time) OVER (ORDER BY m.start_lsn), m.tran_end_time) AS back
		FROM cdc.lsn_time_mapping m) x WHERE x.back < -60 OR x.back IS NULL`), 1)
	require.Equal(t, []string{top}, rows(t, db, "SELECT CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn(N'largest less than or equal', CONVERT(datetime2(0), @p1, 126)), 1)", "2100-01-01T00:00:00"))
	require.Equal(t, []string{"NULL"}, rows(t, db, "SELECT sys.fn_cdc_map_time_to_lsn(N'largest less than', @p1)", time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// TestBinaryParameters: LSNs bound as binary, as a Go reader sends them.
func TestBinaryParameters(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	top := maxLSN(t, db)
	require.Len(t, rows(t, db, "SELECT __$start_lsn, __$seqval, __$operation, __$update_mask, __$command_id, id FROM cdc.dbo_orders_CT WHERE __$start_lsn > @p1 AND __$start_lsn <= @p2 ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation",
		make([]byte, 10), top), 15)
	require.Len(t, rows(t, db, "SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = @p1", top), 1)
	require.Len(t, rows(t, db, "SELECT TOP (@p1) start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn > @p2 ORDER BY start_lsn", 4, make([]byte, 10)), 4)
	require.Len(t, rows(t, db, "SELECT TOP (1) start_lsn, tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn <= @p1 ORDER BY start_lsn DESC", top), 1)
	require.Len(t, rows(t, db, "SELECT id FROM cdc.fn_cdc_get_all_changes_dbo_orders(@p1, @p2, N'all')", minLSN(t, db), top), 14)
}

// TestConnectStatements are those of Redpanda Connect's SQL Server input (simulator.md 3.2).
func TestConnectStatements(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	top := maxLSN(t, db)
	require.Equal(t, []string{"dbo|orders", "dbo|pair"}, rows(t, db, `SELECT s.name, t.name FROM sys.tables t INNER JOIN sys.schemas s ON t.schema_id = s.schema_id
		WHERE s.name = 'dbo' ORDER BY t.name`))
	require.Len(t, rows(t, db, "SELECT TOP 1 start_lsn FROM cdc.change_tables WHERE capture_instance = @p1", "dbo_orders"), 1)
	require.Len(t, rows(t, db, `SELECT * FROM cdc.dbo_orders_CT WITH (NOLOCK) WHERE (@p1 IS NULL OR [__$start_lsn] > @p1) AND (@p2 IS NULL OR [__$start_lsn] <= @p2)
		ORDER BY [__$start_lsn], [__$command_id], [__$operation]`, []byte(nil), top), 15)
	require.Equal(t, []string{"a", "b"}, rows(t, db, `SELECT c.name FROM sys.indexes i INNER JOIN sys.index_columns ic ON i.object_id = ic.object_id AND i.index_id = ic.index_id
		INNER JOIN sys.columns c ON ic.object_id = c.object_id AND ic.column_id = c.column_id INNER JOIN sys.tables t ON i.object_id = t.object_id
		INNER JOIN sys.schemas s ON t.schema_id = s.schema_id WHERE i.is_primary_key = 1 AND t.name = @p1 AND s.name = @p2 ORDER BY ic.key_ordinal`, "pair", "dbo"))
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSnapshot})
	require.NoError(t, err)
	require.Len(t, rows(t, tx, "SELECT TOP (3) * FROM [dbo].[pair] WHERE (a > @p1) OR (a = @p1 AND b > @p2) ORDER BY a, b", 0, "k2"), 3)
	require.NoError(t, tx.Commit())
	require.Equal(t, []string{"true"}, rows(t, db, `DECLARE @created BIT = 0; IF NOT EXISTS (SELECT 1 FROM sys.tables WHERE name = 'cp' AND schema_id = SCHEMA_ID('dbo'))
		BEGIN CREATE TABLE dbo.cp (k nvarchar(50) PRIMARY KEY, v varbinary(10)); SET @created = 1 END; SELECT @created`))
	require.Equal(t, []string{"k|nvarchar", "v|varbinary"}, rows(t, db, `SELECT c.name, ty.name FROM sys.columns c JOIN sys.types ty ON c.user_type_id = ty.user_type_id
		WHERE c.object_id = OBJECT_ID(@p1) ORDER BY c.column_id`, "dbo.cp"))
	_, err = db.ExecContext(t.Context(), `CREATE OR ALTER PROCEDURE dbo.put @Key nvarchar(50), @Value varbinary(10) AS BEGIN SET NOCOUNT ON;
		IF EXISTS (SELECT 1 FROM dbo.cp WHERE k = @Key) UPDATE dbo.cp SET v = @Value WHERE k = @Key ELSE INSERT INTO dbo.cp (k, v) VALUES (@Key, @Value) END`)
	require.NoError(t, err)
	for range 2 {
		_, err = db.ExecContext(t.Context(), "EXEC [dbo].[put] @Key = @p1, @Value = @p2", "pos", top)
		require.NoError(t, err)
	}
	require.Equal(t, []string{text(top) + "|10"}, rows(t, db, "SELECT CONVERT(varbinary(10), v), DATALENGTH(v) FROM dbo.cp"))
}

// TestDebeziumStatements are those of Debezium 3.6 (clients.md 3).
func TestDebeziumStatements(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	top, zero := maxLSN(t, db), make([]byte, 10)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	run := func(batch string) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), batch)
		require.NoError(t, err, batch)
	}
	run("set implicit_transactions on ")
	require.Contains(t, rows(t, conn, "SELECT @@VERSION")[0], "SQL Server")
	run("IF @@TRANCOUNT > 0 COMMIT TRAN")
	require.Len(t, rows(t, conn, "EXEC [lab].sys.sp_cdc_help_change_data_capture"), 1)
	require.Equal(t, []string{"lab"}, rows(t, conn, "SELECT name FROM sys.databases WHERE name = @p1", "lab"))
	require.Len(t, rows(t, conn, "EXEC sp_tables @p1, @p2, @p3, @p4", "%", nil, "lab", "'TABLE'"), 2+6)
	run("SET LOCK_TIMEOUT 10000")
	run("set transaction isolation level  repeatable read ")
	run("IF @@TRANCOUNT = 0 BEGIN BEGIN TRAN IF @@TRANCOUNT = 2 COMMIT TRAN END SAVE TRAN [dbz_schema_snapshot]")
	require.Empty(t, rows(t, conn, "SELECT TOP(0) * FROM [lab].[dbo].[orders] WITH (TABLOCKX)"))
	require.Equal(t, []string{text(top)}, rows(t, conn, "SELECT [lab].sys.fn_cdc_get_max_lsn()"))
	require.Len(t, rows(t, conn, "SELECT object_id, column_name FROM [lab].cdc.captured_columns ORDER BY object_id, column_id"), 3)
	require.Equal(t, []string{"dbo|orders|dbo_orders"}, rows(t, conn, `WITH ordered_change_tables AS (SELECT ROW_NUMBER() OVER (PARTITION BY ct.source_object_id, ct.start_lsn ORDER BY ct.create_date DESC) AS ct_sequence, ct.*
		FROM [lab].cdc.change_tables AS ct WHERE ct.start_lsn <= @p2)
		SELECT OBJECT_SCHEMA_NAME(source_object_id, DB_ID(@p1)), OBJECT_NAME(source_object_id, DB_ID(@p1)), capture_instance FROM ordered_change_tables WHERE ct_sequence = 1`, "lab", top))
	require.Equal(t, []string{"3"}, rows(t, conn, "SELECT CAST(SERVERPROPERTY('EngineEdition') as INT)"))
	require.Len(t, rows(t, conn, `DECLARE @t TABLE (c1 sysname NULL, c2 sysname NULL, c3 sysname, c4 sysname, c5 smallint, c6 sysname, c7 int NULL, c8 int NULL, c9 smallint NULL, c10 smallint NULL, c11 smallint,
		c12 varchar(254) NULL, c13 nvarchar(4000) NULL, c14 smallint, c15 smallint NULL, c16 int NULL, c17 int, c18 varchar(254) NULL, c19 smallint, c20 smallint, c21 smallint, c22 smallint,
		c23 sysname NULL, c24 sysname NULL, c25 nvarchar(1000) NULL, c26 sysname NULL, c27 sysname NULL, c28 sysname NULL, c29 tinyint NULL);
		INSERT INTO @t EXEC sp_columns_100 @p1, @p2, @p3, @p4, @p5, @p6; SELECT c4, CAST(c5 AS int), CASE WHEN c22 = 1 THEN 'YES' ELSE 'NO' END FROM @t ORDER BY c1, c2, c3, c17`,
		"orders", "dbo", "lab", nil, 2, 3), 3)
	require.Equal(t, []string{"lab|dbo|pair|a|1", "lab|dbo|pair|b|2"}, cutLast(rows(t, conn, "EXEC sp_pkeys @p1, @p2, @p3", "pair", "dbo", "lab")))
	run("IF @@TRANCOUNT > 0 ROLLBACK TRAN [dbz_schema_snapshot]")
	require.Len(t, rows(t, conn, "SELECT SYSDATETIMEOFFSET()"), 1)
	require.Len(t, rows(t, conn, "SELECT [id], [name] FROM [lab].[dbo].[orders]"), 11)
	run("IF @@TRANCOUNT > 0 ROLLBACK TRAN")
	run("set transaction isolation level  read committed ")
	run("SET LOCK_TIMEOUT -1")
	require.Len(t, rows(t, conn, "EXEC sys.sp_cdc_help_jobs"), 2)
	require.Equal(t, []string{text(top)}, rows(t, conn, `SELECT MAX(start_lsn) FROM (SELECT TOP (@p1 + 1) start_lsn FROM [lab].cdc.lsn_time_mapping
		WHERE start_lsn >= @p2 AND tran_id <> 0x00 ORDER BY start_lsn) as next_lsns`, 500, zero))
	require.Len(t, rows(t, conn, "SELECT * FROM [lab].cdc.change_tables WHERE start_lsn BETWEEN @p1 AND @p2", zero, top), 1)
	require.Len(t, rows(t, conn, "select min(start_lsn) from [lab].cdc.change_tables"), 1)
	require.Len(t, rows(t, conn, `SELECT cdc_data.[__$start_lsn], cdc_data.[__$seqval], cdc_data.[__$operation], cdc_data.[__$update_mask], cdc_data.[id], cdc_data.[name],
		TODATETIMEOFFSET(ltm.tran_begin_time, DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) FROM [lab].cdc.[dbo_orders_CT] AS cdc_data
		LEFT JOIN [lab].cdc.lsn_time_mapping AS ltm ON cdc_data.[__$start_lsn] = ltm.start_lsn
		WHERE ((cdc_data.[__$start_lsn] = @p1 AND cdc_data.[__$seqval] = @p2 AND cdc_data.[__$operation] > @p3) OR (cdc_data.[__$start_lsn] = @p4 AND cdc_data.[__$seqval] > @p5) OR cdc_data.[__$start_lsn] > @p6)
		AND cdc_data.[__$start_lsn] <= @p7 ORDER BY cdc_data.[__$start_lsn] ASC, cdc_data.[__$command_id] ASC, cdc_data.[__$seqval] ASC, cdc_data.[__$operation] ASC`,
		zero, zero, 0, zero, zero, zero, top), 15)
	require.Len(t, rows(t, conn, `SELECT [__$start_lsn], [__$operation], [id], TODATETIMEOFFSET([lab].sys.fn_cdc_map_lsn_to_time([__$start_lsn]), DATEPART(TZOFFSET, SYSDATETIMEOFFSET()))
		FROM [lab].cdc.[fn_cdc_get_all_changes_dbo_orders](@p1, @p2, N'all update old') ORDER BY [__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC`, minLSN(t, db), top), 15)
	_, err = tryRows(t.Context(), conn, "SELECT * FROM [lab].cdc.[fn_cdc_get_all_changes_gone](@p1, @p2, N'all update old')", zero, top)
	require.Equal(t, "Invalid object name 'lab.cdc.fn_cdc_get_all_changes_gone'.", sqlError(t, err).Message)
	require.Equal(t, []string{"4"}, rows(t, conn, "SELECT CAST(dss.[status] AS int) FROM [lab].sys.dm_server_services dss WHERE dss.[servicename] LIKE N'SQL Server (%'"))
	require.NotEmpty(t, rows(t, conn, "SELECT TOP 1 start_lsn FROM sys.dm_cdc_log_scan_sessions ORDER BY session_id DESC"))
}

// cutLast drops the last column, which holds a made-up name.
func cutLast(list []string) []string {
	for i, s := range list {
		for n := len(s) - 1; n >= 0; n-- {
			if s[n] == '|' {
				list[i] = s[:n]
				break
			}
		}
	}
	return list
}

// TestPeerStatements are those of rivet, ingestr, sling, connectorx and dlt (clients.md 4).
func TestPeerStatements(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	require.Len(t, rows(t, db, "SELECT CONVERT(varchar(36), family_guid), CONVERT(varchar(36), recovery_fork_guid) FROM sys.database_recovery_status WHERE database_id = DB_ID()"), 1)
	require.Equal(t, []string{"dbo|orders"}, rows(t, db, "SELECT OBJECT_SCHEMA_NAME(source_object_id), OBJECT_NAME(source_object_id) FROM cdc.change_tables WHERE capture_instance = @p1", "dbo_orders"))
	require.Len(t, rows(t, db, "SELECT CONVERT(varchar(24), sys.fn_cdc_get_max_lsn(), 1)")[0], 22)
	require.Len(t, rows(t, db, `DECLARE @from binary(10) = sys.fn_cdc_get_min_lsn(N'dbo_orders'), @max binary(10) = sys.fn_cdc_get_max_lsn(), @to binary(10);
		DECLARE @min binary(10) = (SELECT start_lsn FROM cdc.change_tables WHERE capture_instance = N'dbo_orders');
		IF @from IS NOT NULL AND @from < @min THROW 51000, 'checkpoint is behind retention', 1;
		SELECT @to = MAX(s) FROM (SELECT TOP (5) __$start_lsn AS s FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @max, N'all') ORDER BY __$start_lsn) q;
		IF @to IS NOT NULL SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @to, N'all update old') ORDER BY __$start_lsn, __$seqval, __$operation`), 5)
	_, err := tryRows(t.Context(), db, "IF 0x01 < 0x02 THROW 51000, 'behind', 1; SELECT 1")
	require.Equal(t, int32(51000), sqlError(t, err).Number)
	require.Equal(t, []string{"true"}, rows(t, db, "SELECT CAST(is_cdc_enabled AS bit) FROM sys.databases WHERE name = DB_NAME()"))
	require.Len(t, rows(t, db, "SELECT CONVERT(varchar(20), sys.fn_cdc_get_max_lsn(), 2)")[0], 20)
	require.Equal(t, []string{"cdc.dbo_orders_CT"}, rows(t, db, `SELECT TOP (1) OBJECT_SCHEMA_NAME(ct.object_id) + N'.' + OBJECT_NAME(ct.object_id) FROM cdc.change_tables ct
		JOIN sys.tables t ON t.object_id = ct.source_object_id JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE s.name = @p1 AND t.name = @p2 AND ct.end_lsn IS NULL ORDER BY ct.start_lsn DESC`, "dbo", "orders"))
	require.Equal(t, []string{"id", "name", "amount"}, rows(t, db, "SELECT c.name FROM sys.columns c JOIN sys.types ty ON ty.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID('cdc.dbo_orders_CT') AND c.name NOT LIKE '[_][_]$%' ORDER BY c.column_id"))
	require.Equal(t, []string{"id"}, rows(t, db, `SELECT c.name FROM sys.key_constraints kc JOIN sys.index_columns ic ON ic.object_id = kc.parent_object_id AND ic.index_id = kc.unique_index_id
		JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id WHERE kc.type = 'PK' AND kc.parent_object_id = OBJECT_ID('dbo.orders') ORDER BY ic.key_ordinal`))
	require.Equal(t, []string{"1"}, rows(t, db, "SELECT CONVERT(int, snapshot_isolation_state) FROM sys.databases WHERE name = DB_NAME()"))
	require.Len(t, rows(t, db, `DECLARE @from_lsn binary(10) = sys.fn_cdc_increment_lsn(CONVERT(binary(10), @p1, 2)); DECLARE @to_lsn binary(10) = sys.fn_cdc_get_max_lsn();
		SELECT [id], [name], CONCAT(CONVERT(varchar(20), __$start_lsn, 2), ':', CONVERT(varchar(20), __$seqval, 2), ':', RIGHT('00' + CONVERT(varchar(2), __$operation), 2)) AS pos, __$operation AS op
		FROM [cdc].[fn_cdc_get_all_changes_dbo_orders](@from_lsn, @to_lsn, N'all update old') WHERE __$operation IN (1, 2, 3, 4) ORDER BY __$start_lsn, __$seqval, __$operation`,
		rows(t, db, "SELECT CONVERT(varchar(20), sys.fn_cdc_get_min_lsn('dbo_orders'), 2)")[0]), 15)
	require.Equal(t, []string{"orders", "pair"}, rows(t, db, "select TABLE_NAME from INFORMATION_SCHEMA.TABLES where TABLE_SCHEMA = 'dbo' and TABLE_TYPE = 'BASE TABLE' order by TABLE_NAME"))
	require.Equal(t, []string{"id|int|NO|NULL", "name|nvarchar|YES|50", "amount|decimal|YES|NULL"}, rows(t, db, `SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH
		FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'orders' ORDER BY ORDINAL_POSITION`))
	require.Len(t, rows(t, db, `select * from "dbo"."orders"`), 11)
	require.Equal(t, []string{"0|11"}, rows(t, db, "SELECT min(CXTMPTAB_RANGE.id), max(CXTMPTAB_RANGE.id) FROM (SELECT id FROM dbo.orders) AS CXTMPTAB_RANGE"))
	require.Equal(t, []string{"dbo"}, rows(t, db, "SELECT schema_name()"))
	require.Empty(t, rows(t, db, "SELECT 1 FROM fn_listextendedproperty(default, default, default, default, default, default, default)"))
	require.Len(t, rows(t, db, "SELECT name FROM sys.system_views WHERE name IN ('dm_exec_sessions', 'dm_pdw_nodes_exec_sessions')"), 1)
	require.Len(t, rows(t, db, "SELECT CAST('test max support' AS NVARCHAR(max))"), 1)
	require.Empty(t, rows(t, db, "SELECT base_object_name FROM sys.synonyms"))
	require.Equal(t, []string{"-1|32767"}, rows(t, db, "SELECT @@LOCK_TIMEOUT, @@MAX_CONNECTIONS"))
	require.NotEmpty(t, rows(t, db, "EXEC [sys].sp_datatype_info_100 12, 4"))
	require.NotEmpty(t, rows(t, db, "sp_datatype_info_100 -9, 3"))
	require.Empty(t, rows(t, db, "SELECT TOP (1) error_message FROM sys.dm_cdc_errors ORDER BY entry_time DESC"))
}

// TestSetBatches: session start texts are answered without a rowset.
func TestSetBatches(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	for _, batch := range []string{
		"set textsize 2147483647 ",
		" SET TRANSACTION ISOLATION LEVEL READ COMMITTED ",
		`SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET ANSI_NULLS ON; SET ANSI_NULL_DFLT_ON ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON;
			SET CURSOR_CLOSE_ON_COMMIT ON; SET QUOTED_IDENTIFIER ON; SET TEXTSIZE 2147483647; SET IMPLICIT_TRANSACTIONS OFF`,
		"set ansi_nulls on\nset ansi_null_dflt_on on\nset ansi_padding on\nset ansi_warnings on\nset arithabort on\nset concat_null_yields_null on\nset cursor_close_on_commit off\nset datefirst 7\nset dateformat mdy\nset implicit_transactions off\nset language us_english\nset numeric_roundabort off\nset quoted_identifier on\nset textsize 2147483647\nset transaction isolation level read committed",
	} {
		r, err := db.QueryContext(t.Context(), batch)
		require.NoError(t, err, batch)
		cols, err := r.Columns()
		require.NoError(t, err)
		require.Empty(t, cols, batch)
		require.NoError(t, r.Close())
	}
}

// NULL sorts below every value and is not below any: an upper bound alone must not let
// it in.
func TestUpperBoundLeavesNullsOut(t *testing.T) {
	t.Parallel()
	sim := start(t)
	require.NoError(t, sim.Exec(t.Context(), "CREATE TABLE o (a int NULL, b int NULL, id int NOT NULL); CREATE CLUSTERED INDEX i ON o (a, b); INSERT o VALUES (NULL, 5, 1), (1, 2, 2), (1, NULL, 3)"))
	for text, want := range map[string][][]string{
		"SELECT id FROM o WHERE a < 5 ORDER BY id":            {{"2"}, {"3"}},
		"SELECT id FROM o WHERE a = 1 AND b < 5":              {{"2"}},
		"SELECT id FROM o WHERE a <= 1 AND a > 0 ORDER BY id": {{"2"}, {"3"}},
		"SELECT id FROM o WHERE a IS NULL":                    {{"1"}},
	} {
		answer, err := sim.Query(t.Context(), text)
		require.NoError(t, err, text)
		require.Equal(t, want, answer.Strings(), text)
	}
}
