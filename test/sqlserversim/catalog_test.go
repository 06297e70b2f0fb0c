package sqlserversim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// TestEveryViewReads: a view whose rows do not fit its columns is found here.
func TestEveryViewReads(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("reader", "", false))
	tracked(t, sim)
	exec(t, sim, "CREATE USER reader; GRANT SELECT ON dbo.orders TO reader; CREATE ROLE r; ALTER ROLE r ADD MEMBER reader",
		"CREATE TABLE dbo.wide (id int IDENTITY(5,2) PRIMARY KEY, d datetime DEFAULT GETDATE(), c AS (id * 2), u int UNIQUE, CHECK (u > 0))",
		"CREATE PROCEDURE dbo.p AS SELECT 1", "CREATE INDEX ix ON dbo.wide (d DESC)", "INSERT dbo.wide (u) VALUES (1)", "ALTER TABLE dbo.orders ADD later int NULL",
		"GRANT SELECT ON dbo.wide (id) TO reader; DENY UPDATE ON dbo.wide TO reader; GRANT VIEW DATABASE STATE TO reader; GRANT EXECUTE ON SCHEMA::dbo TO reader")
	capture(t, sim)
	db := connect(t, sim.DSN())
	views := rows(t, db, "SELECT s.name + '.' + v.name FROM sys.system_views v JOIN sys.schemas s ON s.schema_id = v.schema_id ORDER BY 1")
	require.Greater(t, len(views), 50)
	for _, v := range append(views, "cdc.change_tables", "cdc.captured_columns", "cdc.index_columns", "cdc.ddl_history", "cdc.lsn_time_mapping", "msdb.dbo.cdc_jobs") {
		_, err := tryRows(t.Context(), db, "SELECT * FROM "+v)
		require.NoError(t, err, v)
	}
	reader := connect(t, sim.DSN("reader"))
	require.Equal(t, []string{"orders", "wide"}, rows(t, reader, "SELECT name FROM sys.tables WHERE schema_id = 1 ORDER BY name"))
	for query, want := range map[string]string{
		"SELECT name, type FROM sys.objects WHERE parent_object_id = OBJECT_ID('dbo.wide') AND type = 'C'":                             "",
		"SELECT COUNT(*) FROM sys.default_constraints":                                                                                 "1",
		"SELECT definition FROM sys.check_constraints":                                                                                 "",
		"SELECT definition FROM sys.computed_columns WHERE is_persisted = 0":                                                           "",
		"SELECT seed_value, increment_value, last_value FROM sys.identity_columns":                                                     "5|2|5",
		"SELECT IDENT_CURRENT('dbo.wide'), IDENT_SEED('dbo.wide'), IDENT_INCR('dbo.wide')":                                             "5|5|2",
		"SELECT COUNT(*) FROM sys.index_columns WHERE object_id = OBJECT_ID('dbo.wide') AND is_descending_key = 1":                     "1",
		"SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('dbo.wide') AND index_id = 1":                                     "1",
		"SELECT OBJECT_NAME(OBJECT_ID('dbo.wide')), OBJECT_SCHEMA_NAME(OBJECT_ID('wide')), COL_LENGTH('dbo.orders', 'name')":           "wide|dbo|100",
		"SELECT COL_NAME(OBJECT_ID('dbo.orders'), 2), TYPE_NAME(56), TYPE_ID('nvarchar'), SCHEMA_NAME(1), DB_NAME(DB_ID('master'))":    "name|int|231|dbo|master",
		"SELECT OBJECTPROPERTY(OBJECT_ID('dbo.wide'), 'TableHasPrimaryKey'), COLUMNPROPERTY(OBJECT_ID('dbo.wide'), 'c', 'IsComputed')": "1|1",
		"SELECT OBJECT_ID('dbo.nosuch'), OBJECT_ID('dbo.orders', 'P'), OBJECT_ID('[dbo].[orders]', 'U') - OBJECT_ID('orders')":         "NULL|NULL|0",
		"SELECT DATABASEPROPERTYEX('lab', 'Updateability'), DATABASEPROPERTYEX('lab', 'Collation'), HAS_DBACCESS('lab')":               "READ_WRITE|SQL_Latin1_General_CP1_CI_AS|1",
		"SELECT COUNT(*) FROM lab.sys.tables t JOIN lab.sys.schemas s ON s.schema_id = t.schema_id WHERE s.name = 'cdc'":               "6",
	} {
		got := rows(t, db, query)
		require.Len(t, got, 1, query)
		if want != "" {
			require.Equal(t, want, got[0], query)
		}
	}
	for _, call := range []string{"sp_help", "sp_help 'dbo.wide'", "sp_helpindex 'dbo.wide'", "sp_helptext 'dbo.p'", "sp_helpdb", "sp_who", "sp_databases", "sp_spaceused",
		"sp_columns 'wide'", "sp_statistics 'wide'", "sp_pkeys 'wide'", "sp_tables"} {
		require.NotEmpty(t, rows(t, db, "EXEC "+call), call)
	}
}

// TestColumnFacts compares sys.columns with the types as declared.
func TestColumnFacts(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	db := connect(t, sim.DSN())
	for declared, want := range map[string]string{
		"bit": "bit|1|1|0|NULL", "tinyint": "tinyint|1|3|0|NULL", "bigint": "bigint|8|19|0|NULL", "decimal(18,2)": "decimal|9|18|2|NULL",
		"money": "money|8|19|4|NULL", "real": "real|4|24|0|NULL", "float": "float|8|53|0|NULL", "date": "date|3|10|0|NULL", "time(0)": "time|3|8|0|NULL",
		"time(7)": "time|5|16|7|NULL", "datetime2(3)": "datetime2|7|23|3|NULL", "datetimeoffset(7)": "datetimeoffset|10|34|7|NULL",
		"datetime": "datetime|8|23|3|NULL", "smalldatetime": "smalldatetime|4|16|0|NULL", "char(5)": "char|5|0|0|SQL_Latin1_General_CP1_CI_AS",
		"nvarchar(50)": "nvarchar|100|0|0|SQL_Latin1_General_CP1_CI_AS", "nvarchar(max)": "nvarchar|-1|0|0|SQL_Latin1_General_CP1_CI_AS",
		"varchar(10) COLLATE Greek_CI_AS": "varchar|10|0|0|Greek_CI_AS", "varbinary(max)": "varbinary|-1|0|0|NULL", "uniqueidentifier": "uniqueidentifier|16|0|0|NULL",
		"xml": "xml|-1|0|0|NULL", "rowversion": "timestamp|8|0|0|NULL", "text": "text|16|0|0|SQL_Latin1_General_CP1_CI_AS", "sql_variant": "sql_variant|8016|0|0|NULL",
	} {
		exec(t, sim, fmt.Sprintf("DROP TABLE IF EXISTS dbo.x; CREATE TABLE dbo.x (c %s)", declared))
		require.Equal(t, []string{want}, rows(t, db, `SELECT ty.name, c.max_length, c.precision, c.scale, c.collation_name FROM sys.columns c
			JOIN sys.types ty ON ty.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID('dbo.x')`), declared)
	}
}

// TestObjectSeeks: a view asked for one object gives the same rows as the whole view filtered.
func TestObjectSeeks(t *testing.T) {
	t.Parallel()
	_, db := lab(t)
	for _, v := range []string{"objects", "tables", "columns", "indexes", "index_columns", "partitions", "dm_db_partition_stats", "key_constraints"} {
		all := rows(t, db, fmt.Sprintf("SELECT o, COUNT(*) FROM (SELECT object_id + 0 AS o FROM sys.%s) x GROUP BY o ORDER BY o", v))
		require.NotEmpty(t, all)
		var sought []string
		for _, id := range rows(t, db, fmt.Sprintf("SELECT DISTINCT object_id FROM sys.%s ORDER BY object_id", v)) {
			sought = append(sought, rows(t, db, fmt.Sprintf("SELECT object_id, COUNT(*) FROM sys.%s WHERE object_id = %s GROUP BY object_id", v, id))...)
		}
		require.Equal(t, all, sought, v)
		joined := rows(t, db, fmt.Sprintf("SELECT v.object_id, COUNT(*) FROM sys.objects o JOIN sys.%s v ON v.object_id = o.object_id GROUP BY v.object_id ORDER BY v.object_id", v))
		require.Equal(t, all, joined, v)
	}
	require.Empty(t, rows(t, db, "SELECT * FROM sys.columns WHERE object_id = NULL OR object_id = 7"))
}

// TestSpColumnsByODBCVersion: mssql-jdbc asks for the types of ODBC 3 and finds its own by these numbers.
func TestSpColumnsByODBCVersion(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	db := connect(t, sim.DSN())
	exec(t, sim, "CREATE TABLE dbo.times (d date, t time(3), dt datetime, sdt smalldatetime, dt2 datetime2(7), dto datetimeoffset(7), i int)")
	read := func(call string) []string {
		return rows(t, db, "DECLARE @t TABLE (c1 sysname NULL, c2 sysname NULL, c3 sysname, c4 sysname, c5 smallint, c6 sysname, c7 int NULL, c8 int NULL, c9 smallint NULL, c10 smallint NULL, "+
			"c11 smallint, c12 varchar(254) NULL, c13 nvarchar(4000) NULL, c14 smallint, c15 smallint NULL, c16 int NULL, c17 int, c18 varchar(254) NULL, c19 smallint, c20 smallint, c21 smallint, "+
			"c22 smallint, c23 sysname NULL, c24 sysname NULL, c25 nvarchar(1000) NULL, c26 sysname NULL, c27 sysname NULL, c28 sysname NULL, c29 tinyint NULL); INSERT INTO @t "+call+
			"; SELECT c4, c5, c14, c15 FROM @t ORDER BY c17")
	}
	require.Equal(t, []string{"d|91|9|1", "t|-154|-154|0", "dt|93|9|3", "sdt|93|9|3", "dt2|93|9|3", "dto|-155|-155|0", "i|4|4|NULL"},
		read("EXEC sp_columns_100 'times', 'dbo', 'lab', NULL, 2, 3"))
	require.Equal(t, []string{"d|-9|-9|NULL", "t|-9|-9|NULL", "dt|11|9|3", "sdt|11|9|3", "dt2|-9|-9|NULL", "dto|-9|-9|NULL", "i|4|4|NULL"},
		read("EXEC sp_columns_100 'times', 'dbo', 'lab'"))
}

// TestUTF8WithoutTheFeature: go-mssqldb does not ask for UTF-8 at its login, so text of a UTF-8 collation comes to it as UTF-16.
func TestUTF8WithoutTheFeature(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	db := connect(t, sim.DSN())
	const collation = " COLLATE Latin1_General_100_CI_AS_SC_UTF8"
	exec(t, sim, "CREATE TABLE dbo.utf8 (a varchar(30)"+collation+", b char(5)"+collation+", c varchar(max)"+collation+", d varchar(8000)"+collation+", e varchar(10))",
		"INSERT dbo.utf8 VALUES (N'東京 🏭', N'é', REPLICATE(CAST(N'Ω' AS nvarchar(max)), 5000), REPLICATE('x', 8000), 'plain')")
	got, err := db.QueryContext(t.Context(), "SELECT a, b, c, d, e FROM dbo.utf8")
	require.NoError(t, err)
	defer func() { require.NoError(t, got.Close()) }()
	types, err := got.ColumnTypes()
	require.NoError(t, err)
	var names []string
	for _, ty := range types {
		length, _ := ty.Length()
		names = append(names, fmt.Sprintf("%s %d", ty.DatabaseTypeName(), length))
	}
	require.Equal(t, []string{"NVARCHAR 30", "NCHAR 5", "NVARCHAR 1073741822", "NVARCHAR 1073741822", "VARCHAR 10"}, names)
	require.True(t, got.Next())
	var a, b, c, d, e string
	require.NoError(t, got.Scan(&a, &b, &c, &d, &e))
	require.Equal(t, []string{"東京 🏭", strings.Repeat("Ω", 5000), strings.Repeat("x", 8000), "plain"}, []string{a, c, d, e})
	require.Equal(t, "é", strings.TrimRight(b, " "))
}
