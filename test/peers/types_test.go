package peers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// asText asks for columns as text, which is how a value is kept that has no exact type.
func asText(columns ...string) sqlserver.ColumnOptions {
	types := map[string]string{}
	for _, c := range columns {
		types[c] = "string"
	}
	return sqlserver.ColumnOptions{Types: types}
}

// T-02, T-03, T-18: every precision and every offset: the instant is right, and as text
// the offset is kept.
func TestEveryOffsetIsAnInstant(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var columns, names []string
	for p := range 8 {
		names = append(names, fmt.Sprintf("o%d", p))
		columns = append(columns, fmt.Sprintf("o%d datetimeoffset(%d)", p, p))
	}
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, "+strings.Join(columns, ", "))
	type sample struct{ wall, offset string }
	var samples []sample
	for minutes := -14 * 60; minutes <= 14*60; minutes += 15 {
		sign, m := "+", minutes
		if minutes < 0 {
			sign, m = "-", -minutes
		}
		offset := fmt.Sprintf("%s%02d:%02d", sign, m/60, m%60)
		samples = append(samples, sample{"2024-05-11 02:00:00", offset}, sample{"2024-02-29 23:59:59", offset}, sample{"1969-12-31 12:00:01", offset})
	}
	samples = append(samples, sample{"0001-01-10 00:00:00", "+01:00"}, sample{"2026-06-23 00:01:05", "-07:00"}, sample{"9999-12-31 09:59:59", "-14:00"})
	const fraction = "9876543"
	literalOf := func(s sample, p int) string {
		return strings.TrimSuffix(s.wall+"."+fraction[:p], ".") + " " + s.offset
	}
	l.exec(t, "INSERT dbo.t VALUES "+values(0, len(samples), func(i int) string {
		row := []string{fmt.Sprint(i)}
		for p := range 8 {
			row = append(row, "'"+literalOf(samples[i], p)+"'")
		}
		return strings.Join(row, ", ")
	}))
	l.capture(t)
	client := l.client(t)
	instants, texts := read(t, client, "dbo_t", sqlserver.ColumnOptions{}), read(t, client, "dbo_t", asText(names...))
	require.Len(t, instants, len(samples))
	for i, s := range samples {
		for p := range 8 {
			want, err := time.Parse("2006-01-02 15:04:05 -07:00", literalOf(s, p))
			require.NoError(t, err)
			require.Equal(t, want.UTC().Truncate(time.Microsecond).Format(stampLayout), instants[i][p+1], "%s", literalOf(s, p))
			require.Equal(t, literalOf(s, p), texts[i][p+1])
		}
	}
}

// T-05, T-08: every precision of time and datetime2 keeps its digits, down to what the
// type of the lake has; nothing rounds up, and as text all are there. The declared
// precision goes along.
func TestEveryDigitOfATime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var columns, names []string
	for p := range 8 {
		names = append(names, fmt.Sprintf("t%d", p), fmt.Sprintf("d%d", p))
		columns = append(columns, fmt.Sprintf("t%d time(%d), d%d datetime2(%d)", p, p, p, p))
	}
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, "+strings.Join(columns, ", "))
	cases := []struct{ date, clock, fraction string }{
		{"9999-12-31", "23:59:59", "9999999"}, {"0001-01-01", "00:00:00", "0000001"}, {"1969-12-31", "23:59:59", "1234567"}, {"2024-02-29", "12:34:56", "0000009"},
	}
	digits := func(clock, fraction string, p int) string { return strings.TrimSuffix(clock+"."+fraction[:p], ".") }
	l.exec(t, "INSERT dbo.t VALUES "+values(0, len(cases), func(i int) string {
		c := cases[i]
		row := []string{fmt.Sprint(i)}
		for p := range 8 {
			row = append(row, "'"+digits(c.clock, c.fraction, p)+"'", "'"+c.date+" "+digits(c.clock, c.fraction, p)+"'")
		}
		return strings.Join(row, ", ")
	}))
	l.capture(t)
	client := l.client(t)
	typed, texts := read(t, client, "dbo_t", sqlserver.ColumnOptions{}), read(t, client, "dbo_t", asText(names...))
	for i, c := range cases {
		for p := range 8 {
			padded := c.fraction[:p] + strings.Repeat("0", 9-p)
			require.Equal(t, c.clock+"."+padded, typed[i][1+2*p], "time(%d)", p)
			require.Equal(t, c.date+" "+c.clock+"."+padded[:6], typed[i][2+2*p], "datetime2(%d)", p)
			require.Equal(t, digits(c.clock, c.fraction, p), texts[i][1+2*p])
			require.Equal(t, c.date+" "+digits(c.clock, c.fraction, p), texts[i][2+2*p])
		}
	}
}

// T-07, T-08, T-09, T-16, T-19, T-21, T-22: what a column was declared as is what the
// Delta table says, defaults or not; times without a zone are timestamp_ntz, with the
// table feature on both sides.
func TestDeclaredTypesReachDelta(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	types := []struct {
		declared, more string
		want           schema.Type
		comment        string
	}{
		{"bit", "NOT NULL DEFAULT 1", schema.Boolean, "bit"},
		{"tinyint", "", schema.Short, "tinyint"},
		{"smallint", "DEFAULT (NULL)", schema.Short, "smallint"},
		{"int", "DEFAULT (0)", schema.Integer, "int"},
		{"bigint", "SPARSE NULL", schema.Long, "bigint"},
		{"real", "", schema.Float, "real"},
		{"float", "", schema.Double, "float"},
		{"float(24)", "", schema.Float, "real"},
		{"decimal", "", schema.Decimal{Precision: 18, Scale: 0}, "decimal(18,0)"},
		{"decimal(38)", "", schema.Decimal{Precision: 38, Scale: 0}, "decimal(38,0)"},
		{"decimal(38,38)", "", schema.Decimal{Precision: 38, Scale: 38}, "decimal(38,38)"},
		{"numeric(9,2)", "DEFAULT (1.5)", schema.Decimal{Precision: 9, Scale: 2}, ""},
		{"money", "", schema.Decimal{Precision: 19, Scale: 4}, "money"},
		{"smallmoney", "", schema.Decimal{Precision: 10, Scale: 4}, "smallmoney"},
		{"date", "", schema.Date, "date"},
		{"time(3)", "", schema.String, "time(3)"},
		{"datetime", "DEFAULT (getdate())", schema.TimestampNTZ, "datetime"},
		{"smalldatetime", "", schema.TimestampNTZ, "smalldatetime"},
		{"datetime2", "", schema.TimestampNTZ, "datetime2(7)"},
		{"datetime2(0)", "", schema.TimestampNTZ, "datetime2(0)"},
		{"datetimeoffset(2)", "", schema.Timestamp, "datetimeoffset(2)"},
		{"uniqueidentifier", "DEFAULT (newid())", schema.String, "uniqueidentifier"},
		{"rowversion", "", schema.Binary, ""},
		{"binary(8)", "", schema.Binary, "binary(8)"},
		{"varbinary(max)", "", schema.Binary, "varbinary(max)"},
		{"nvarchar(50)", "DEFAULT (N'NULL')", schema.String, "nvarchar(50)"},
		{"xml", "", schema.String, "xml"},
	}
	columns := []string{"id int NOT NULL PRIMARY KEY"}
	for i, typ := range types {
		columns = append(columns, fmt.Sprintf("c%d %s %s", i, typ.declared, typ.more))
	}
	l.table(t, "t", strings.Join(columns, ", "))
	l.exec(t, "INSERT dbo.t (id) VALUES (1)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	snapshot := p.open(t, "lake", "t").Snapshot()
	for i, typ := range types {
		field := snapshot.Schema().Fields[snapshot.Schema().Index(fmt.Sprintf("c%d", i))]
		require.Equal(t, typ.want, field.Type, "%s", typ.declared)
		if typ.comment != "" {
			require.Equal(t, "SQL Server "+typ.comment, field.Comment())
		}
	}
	protocol := snapshot.Protocol()
	require.EqualValues(t, 3, protocol.MinReaderVersion)
	require.EqualValues(t, 7, protocol.MinWriterVersion)
	require.Contains(t, protocol.ReaderFeatures, "timestampNtz")
	require.Contains(t, protocol.WriterFeatures, "timestampNtz")
}

// T-22: eight bytes are eight bytes, above 2^63 too.
func TestRowVersionsAreBytes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, b binary(8) NULL, v rowversion")
	l.exec(t, "INSERT dbo.t (id, b) VALUES (1, 0xFFFFFFFFFFFFFFFF), (2, 0x00000000000007D1), (3, 0x8000000000000000)", "UPDATE dbo.t SET b = NULL WHERE id = 3")
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	require.Equal(t, []string{"0xFFFFFFFFFFFFFFFF", "0x00000000000007D1", "0x8000000000000000", "0x8000000000000000", "NULL"}, p.column(t, "t", "b"))
	var want []string
	for _, row := range l.query(t, "SELECT CONVERT(varchar(20), CONVERT(binary(8), v), 1) FROM "+changeTable("dbo_t")+" ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation") {
		want = append(want, row[0])
	}
	require.Equal(t, want, p.column(t, "t", "v"))
}

// T-10: CDC does not record large columns that an update left alone in the row before it;
// the row after it has them, so no value is overwritten by NULL, and one that was set to
// NULL is NULL.
func TestLargeColumnsThatAnUpdateLeavesAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, n int, body nvarchar(max), raw varbinary(max), old ntext, older text, picture image")
	columns := []string{"id", "n", "body", "raw", "old", "older", "picture"}
	l.exec(t, "INSERT dbo.t VALUES (1, 1, N'body', 0x01, N'old', 'older', 0x02), (2, 1, N'body', 0x01, N'old', 'older', 0x02)",
		"UPDATE dbo.t SET n = n + 1",
		"UPDATE dbo.t SET body = NULL WHERE id = 1",
		"UPDATE dbo.t SET raw = NULL, n = 7 WHERE id = 1",
		"UPDATE dbo.t SET body = N'new' WHERE id = 2")
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	require.Equal(t, []string{"1|7|NULL|NULL|old|older|0x02", "2|2|new|0x01|old|older|0x02"}, replay(p.bronze(t, "t", columns...)))
	// Which columns a row before an update has is the server's business and comes as it is.
	l.requireSame(t, p, "t", "id", "n", "body", "old", "older")
}

// T-12: large values come whole.
func TestLargeValuesComeWhole(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sim.Engine().SetMaxTextReplSize(-1)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, body nvarchar(max), raw varbinary(max)")
	sizes := []int{0, 1 << 20, 8<<20 + 1, 20 << 20}
	for i, size := range sizes {
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d, NULL, CAST(REPLICATE(CAST('r' AS varchar(max)), %d) AS varbinary(max)))", 2*i, size),
			fmt.Sprintf("INSERT dbo.t VALUES (%d, REPLICATE(CAST(N'ß' AS nvarchar(max)), %d) + N'end', NULL)", 2*i+1, size/2))
	}
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	raws, bodies := map[int64][]byte{}, map[int64]string{}
	table := p.open(t, "lake", "t")
	for record, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: []string{"id", "raw", "body"}}) {
		require.NoError(t, err)
		for row := range mssqlcdc.Rows(record, 0) {
			id := row["id"].(int64)
			raws[id], _ = row["raw"].([]byte)
			body, _ := row["body"].(string)
			bodies[id] = strings.Clone(body)
		}
	}
	for i, size := range sizes {
		require.True(t, string(raws[int64(2*i)]) == strings.Repeat("r", size), "%d bytes", size)
		require.True(t, bodies[int64(2*i+1)] == strings.Repeat("ß", size/2)+"end", "%d characters", size/2)
	}
}

// T-13, T-21: a GUID is its canonical text, whatever the driver is told, in either format.
func TestUniqueIdentifierIsItsText(t *testing.T) {
	t.Parallel()
	const guid = "0E984725-C51C-4BF4-9960-E1C80E27ABA0"
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, g uniqueidentifier NULL")
	l.exec(t, "INSERT dbo.t VALUES (1, '"+guid+"'), (2, NULL)")
	l.capture(t)
	require.Equal(t, guid, l.query(t, "SELECT CONVERT(varchar(36), g) FROM dbo.t WHERE id = 1")[0][0])
	for _, more := range []string{"", "&guid+conversion=true", "&guid+conversion=false"} {
		client := l.client(t, func(c *sqlserver.Config) { c.ConnectionString += more })
		require.Equal(t, [][]string{{"1", guid}, {"2", "NULL"}}, read(t, client, "dbo_t", sqlserver.ColumnOptions{}), "%s", more)
		p := l.pipeline(t, "dbo.t")
		p.dsn += more
		p.run(t)
		require.Equal(t, []string{guid, "NULL"}, p.column(t, "t", "g"))
	}
	p := l.pipeline(t, "dbo.t").rows()
	p.run(t)
	rows, _ := p.sink.rows()
	require.Equal(t, guid, rows[0]["g"])
	require.Nil(t, rows[1]["g"])
}

// T-14: sql_variant is refused by name, and as text has the value of each base type.
func TestVariantOfEachBaseType(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, v sql_variant NULL")
	literals := []string{
		"CAST(42 AS int)", "CAST(-1.50 AS decimal(9,2))", "CAST('2026-06-23 00:01:05.0900948' AS datetime2(7))", "CAST(N'表 😀' AS nvarchar(20))",
		"CAST('0E984725-C51C-4BF4-9960-E1C80E27ABA0' AS uniqueidentifier)", "NULL", "CAST(922337203685477.5807 AS money)",
	}
	want := []string{"42", "-1.50", "2026-06-23 00:01:05.0900948", "表 😀", "0E984725-C51C-4BF4-9960-E1C80E27ABA0", "NULL", ""}
	l.exec(t, "INSERT dbo.t VALUES "+values(0, len(literals), func(i int) string { return fmt.Sprintf("%d, %s", i, literals[i]) }))
	l.capture(t)
	refused := l.pipeline(t, "dbo.t")
	require.ErrorContains(t, refused.fail(t), "values of type sql_variant cannot be read")
	p := l.pipeline(t, "dbo.t").with(`table_overrides: [ { table: dbo.t, column_types: { v: string } } ]`)
	p.run(t)
	got := p.column(t, "t", "v")
	want[6] = l.query(t, "SELECT CONVERT(nvarchar(4000), v) FROM dbo.t WHERE id = 6")[0][0]
	require.Equal(t, want, got)
}

// T-16: a real stays what it is, in a row and in Parquet.
func TestRealStaysShort(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, r real")
	l.exec(t, "INSERT dbo.t VALUES (1, 0.1), (2, -3.4028235E38), (3, 1.1754944E-38)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t").rows()
	p.run(t)
	rows, _ := p.sink.rows()
	require.Equal(t, []any{0.1, -3.4028235e38, 1.1754944e-38}, []any{rows[0]["r"], rows[1]["r"], rows[2]["r"]})
	p = l.pipeline(t, "dbo.t")
	p.run(t)
	require.Equal(t, []string{"0.1", "-3.4028235e+38", "1.1754944e-38"}, p.column(t, "t", "r"))
}

// T-17: text in columns whose collation, and code page, is not the database's.
func TestTextInForeignCollations(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	samples := []struct{ collation, text string }{
		{"Latin1_General_CI_AS", "Müller €"}, {"Cyrillic_General_CI_AS", "Привет, мир"}, {"Greek_CI_AS", "Καλημέρα"}, {"Turkish_CI_AS", "İstanbul ışığı"}, {"Hebrew_CI_AS", "שלום"},
		{"Arabic_CI_AS", "سلام"}, {"Polish_CI_AS", "Zażółć gęślą"}, {"Japanese_CI_AS", "日本語"}, {"Thai_CI_AS", "สวัสดี"}, {"Latin1_General_100_CI_AS_SC_UTF8", "表 😀 é"}, {"Latin1_General_BIN2", "é÷ÿ"},
	}
	columns := []string{"id int NOT NULL PRIMARY KEY"}
	row := []string{"1"}
	want := []string{"1"}
	for i, s := range samples {
		if _, known := sqltype.LookupCollation(s.collation); !known {
			t.Logf("the simulator has no %s", s.collation)
			continue
		}
		columns = append(columns, fmt.Sprintf("v%d varchar(100) COLLATE %s, n%d nvarchar(100) COLLATE %s", i, s.collation, i, s.collation))
		row = append(row, literal(s.text), literal(s.text))
		want = append(want, s.text, s.text)
	}
	l.table(t, "t", strings.Join(columns, ", "))
	l.exec(t, "INSERT dbo.t VALUES ("+strings.Join(row, ", ")+")")
	l.capture(t)
	require.Equal(t, [][]string{want}, read(t, l.client(t), "dbo_t", sqlserver.ColumnOptions{}))
	require.GreaterOrEqual(t, len(want), 13, "most collations are known")

	// The same as the collation of a database, for columns that name none: what the server
	// says is in the table is what comes.
	for i, s := range samples {
		database := fmt.Sprintf("db%d", i)
		l.exec(t, fmt.Sprintf("CREATE DATABASE %s COLLATE %s", database, s.collation))
		for _, batch := range []string{
			"EXEC sys.sp_cdc_enable_db", "CREATE TABLE dbo.t (v varchar(100), n nvarchar(100))", "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL",
			fmt.Sprintf("INSERT dbo.t VALUES (%s, %s)", literal(s.text), literal(s.text)),
		} {
			l.exec(t, "USE "+database+"; "+batch)
		}
		l.capture(t)
		client := l.client(t, func(c *sqlserver.Config) { c.ConnectionString = l.sim.DSNFor("sa", database) })
		require.Equal(t, l.query(t, "USE "+database+"; SELECT CONVERT(nvarchar(100), v), n FROM dbo.t"), read(t, client, "dbo_t", sqlserver.ColumnOptions{}), "%s", s.collation)
	}
}
