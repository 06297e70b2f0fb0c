package sqlserver_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// lab is a simulator with a client, in which tests make tables by T-SQL.
type lab struct {
	t   testing.TB
	sim *sqlserversim.Server
	db  *sql.DB // the driver's own pool, for what the tests compare with
}

// newLab starts a simulator that captures only when told to, with CDC enabled.
func newLab(t testing.TB, options ...sqlserversim.Option) *lab {
	t.Helper()
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	connector, err := mssql.NewConnector(sim.DSN())
	require.NoError(t, err)
	l := &lab{t: t, sim: sim, db: sql.OpenDB(connector)}
	t.Cleanup(func() { require.NoError(t, l.db.Close()) })
	l.exec("EXEC sys.sp_cdc_enable_db")
	return l
}

// exec runs batches as sa.
func (l *lab) exec(batches ...string) {
	l.t.Helper()
	for _, batch := range batches {
		require.NoError(l.t, l.sim.Exec(l.t.Context(), batch), batch)
	}
}

// capture moves everything committed into the change tables.
func (l *lab) capture() { require.NoError(l.t, l.sim.Capture(l.t.Context())) }

// track enables CDC for a table, as instance <schema>_<table> unless a name is given.
func (l *lab) track(table mssqlcdc.TableID, more ...string) {
	l.t.Helper()
	text := fmt.Sprintf("EXEC sys.sp_cdc_enable_table @source_schema = N'%s', @source_name = N'%s', @role_name = NULL",
		strings.ReplaceAll(table.Schema, "'", "''"), strings.ReplaceAll(table.Name, "'", "''"))
	for _, m := range more {
		text += ", " + m
	}
	l.exec(text)
}

// client opens a client as a login, sa by default.
func (l *lab) client(login ...string) *sqlserver.Client {
	l.t.Helper()
	client, err := l.tryClient(login...)
	require.NoError(l.t, err)
	return client
}

func (l *lab) tryClient(login ...string) (*sqlserver.Client, error) {
	client, err := sqlserver.Open(l.t.Context(), sqlserver.Config{ConnectionString: l.sim.DSN(login...), Reader: os.Getenv("TEST_READER")})
	if client != nil {
		l.t.Cleanup(func() { require.NoError(l.t, client.Close()) })
	}
	return client, err
}

// instance finds an instance by name.
func (l *lab) instance(c *sqlserver.Client, name string) mssqlcdc.CaptureInstance {
	l.t.Helper()
	all, err := c.Instances(l.t.Context())
	require.NoError(l.t, err)
	found, err := sqlserver.FindInstance(all, name)
	require.NoError(l.t, err)
	return found
}

// layout is the layout of an instance with all its columns.
func (l *lab) layout(c *sqlserver.Client, name string, options ...sqlserver.ColumnOptions) sqlserver.Layout {
	l.t.Helper()
	found, err := c.Columns(l.t.Context(), l.instance(c, name), append(options, sqlserver.ColumnOptions{})[0])
	require.NoError(l.t, err)
	return found
}

// parts reads one window from start to max_lsn.
func (l *lab) parts(c *sqlserver.Client, layout sqlserver.Layout, start mssqlcdc.LSN, limits sqlserver.Limits) ([]sqlserver.Part, error) {
	head, err := c.MaxLSN(l.t.Context())
	if err != nil {
		return nil, err
	}
	plan, err := c.Plan(l.t.Context(), layout, start, head.LSN, limits)
	if err != nil {
		return nil, err
	}
	var parts []sqlserver.Part
	for part, err := range c.Read(l.t.Context(), sqlserver.ReadRequest{Layout: layout, Plan: plan, Limits: limits, Head: head}) {
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// start is the position before the first change of an instance.
func (l *lab) start(c *sqlserver.Client, name string) mssqlcdc.LSN {
	l.t.Helper()
	low, err := c.MinLSN(l.t.Context(), name)
	require.NoError(l.t, err)
	require.False(l.t, low.IsZero())
	return low.Prev()
}

// text is how a value of a record is compared: by Arrow's text, times with all digits.
func text(column arrow.Array, i int) string {
	if column.IsNull(i) {
		return "NULL"
	}
	if stamps, ok := column.(*array.Timestamp); ok {
		return stamps.Value(i).ToTime(arrow.Microsecond).Format("2006-01-02 15:04:05.000000")
	}
	if decimals, ok := column.(*array.Decimal128); ok {
		return mssqlcdc.FormatDecimal(decimals.Value(i), decimals.DataType().(*arrow.Decimal128Type).Scale)
	}
	return column.ValueStr(i)
}

// values reads the columns from first on of all parts as text.
func values(parts []sqlserver.Part, first int) [][]string {
	var rows [][]string
	for _, part := range parts {
		for i := range int(part.Record.NumRows()) {
			var row []string
			for k := first; k < int(part.Record.NumCols()); k++ {
				row = append(row, text(part.Record.Column(k), i))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// TestSimTypes reads every type that is supported, NULL and its extreme values, over a socket.
func TestSimTypes(t *testing.T) {
	t.Parallel()
	type sample struct{ literal, want string }
	null := sample{"NULL", "NULL"}
	cases := []struct {
		typ     string
		samples []sample
	}{
		{"bit", []sample{null, {"0", "false"}, {"1", "true"}}},
		{"tinyint", []sample{null, {"0", "0"}, {"255", "255"}}},
		{"smallint", []sample{null, {"-32768", "-32768"}, {"32767", "32767"}}},
		{"int", []sample{null, {"-2147483648", "-2147483648"}, {"2147483647", "2147483647"}}},
		{"bigint", []sample{null, {"-9223372036854775808", "-9223372036854775808"}, {"9223372036854775807", "9223372036854775807"}}},
		{"real", []sample{null, {"0.1", "0.1"}, {"-3.4028235E38", "-3.4028235e+38"}, {"1.1754944E-38", "1.1754944e-38"}}},
		{"float", []sample{null, {"0.1E0", "0.1"}, {"1.7976931348623157E308", "1.7976931348623157e+308"}, {"-2.2250738585072014E-308", "-2.2250738585072014e-308"}}},
		{"decimal(38,0)", []sample{null, {"99999999999999999999999999999999999999", "99999999999999999999999999999999999999"}, {"-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"}}},
		{"decimal(38,38)", []sample{null, {"0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"}}},
		{"numeric(9,2)", []sample{null, {"-1234567.89", "-1234567.89"}, {"0", "0.00"}}},
		{"money", []sample{null, {"922337203685477.5807", "922337203685477.5807"}, {"-922337203685477.5808", "-922337203685477.5808"}, {"0.0001", "0.0001"}}},
		{"smallmoney", []sample{null, {"214748.3647", "214748.3647"}, {"-214748.3648", "-214748.3648"}, {"-0.0001", "-0.0001"}}},
		{"date", []sample{null, {"'0001-01-01'", "0001-01-01"}, {"'9999-12-31'", "9999-12-31"}, {"'1969-12-31'", "1969-12-31"}}},
		{"datetime", []sample{null, {"'1753-01-01'", "1753-01-01 00:00:00.000000"}, {"'9999-12-31T23:59:59.997'", "9999-12-31 23:59:59.997000"}, {"'2024-02-29T12:00:00.003'", "2024-02-29 12:00:00.003000"}}},
		{"smalldatetime", []sample{null, {"'1900-01-01'", "1900-01-01 00:00:00.000000"}, {"'2079-06-06T23:59:00'", "2079-06-06 23:59:00.000000"}}},
		{"datetime2(7)", []sample{null, {"'0001-01-01'", "0001-01-01 00:00:00.000000"}, {"'9999-12-31T23:59:59.9999999'", "9999-12-31 23:59:59.999999"}, {"'1969-12-31T23:59:59.9999999'", "1969-12-31 23:59:59.999999"}}},
		{"datetime2(0)", []sample{null, {"'2024-02-29T23:59:59'", "2024-02-29 23:59:59.000000"}}},
		{"datetime2(3)", []sample{{"'2024-02-29T23:59:59.123'", "2024-02-29 23:59:59.123000"}}},
		{"datetimeoffset(7)", []sample{null, {"'2026-06-23T00:01:05.0900948-07:00'", "2026-06-23 07:01:05.090094"}, {"'0001-01-01T14:00:00+14:00'", "0001-01-01 00:00:00.000000"}, {"'9999-12-31T09:59:59.9999999-14:00'", "9999-12-31 23:59:59.999999"}}},
		{"time(7)", []sample{null, {"'23:59:59.9999999'", "23:59:59.999999900"}, {"'00:00:00'", "00:00:00.000000000"}}},
		{"time(0)", []sample{{"'12:34:56'", "12:34:56.000000000"}}},
		{"char(5)", []sample{null, {"'ab'", "ab   "}, {"''", "     "}}},
		{"varchar(50)", []sample{null, {"''", ""}, {"'Müller €'", "Müller €"}, {"'it''s'", "it's"}}},
		{"varchar(max)", []sample{null, {"REPLICATE(CAST('x' AS varchar(max)), 60000)", strings.Repeat("x", 60000)}}},
		{"nchar(3)", []sample{null, {"N'表'", "表  "}}},
		{"nvarchar(50)", []sample{null, {"N''", ""}, {"N'表 😀 \u0000x'", "表 😀 \u0000x"}}},
		{"nvarchar(max)", []sample{null, {"REPLICATE(CAST(N'ß' AS nvarchar(max)), 30000)", strings.Repeat("ß", 30000)}}},
		{"varchar(30) COLLATE Latin1_General_100_CI_AS_SC_UTF8", []sample{null, {"N'表 😀'", "表 😀"}}},
		{"sysname", []sample{{"N'name'", "name"}}},
		{"xml", []sample{null, {"N'<a>ä</a>'", "<a>ä</a>"}}},
		{"uniqueidentifier", []sample{null, {"'0e984725-c51c-4bf4-9960-e1c80e27aba0'", "0E984725-C51C-4BF4-9960-E1C80E27ABA0"}}},
		{"binary(3)", []sample{null, {"0x0102", "AQIA"}}},
		{"varbinary(10)", []sample{null, {"0x", ""}, {"0xFF00", "/wA="}}},
		{"varbinary(max)", []sample{null, {"CAST(REPLICATE(CAST('a' AS varchar(max)), 30000) AS varbinary(max))", strings.Repeat("YWFh", 10000)}}},
	}
	l := newLab(t)
	for i, c := range cases {
		name := mssqlcdc.TableID{Schema: "dbo", Name: fmt.Sprintf("t%d", i)}
		l.exec(fmt.Sprintf("CREATE TABLE %s (id int NOT NULL PRIMARY KEY, v %s NULL)", name.Quoted(), c.typ))
		l.track(name)
		for k, s := range c.samples {
			l.exec(fmt.Sprintf("INSERT %s (id, v) VALUES (%d, %s)", name.Quoted(), k, s.literal))
		}
	}
	l.capture()
	client := l.client()
	for i, c := range cases {
		t.Run(c.typ, func(t *testing.T) {
			instance := fmt.Sprintf("dbo_t%d", i)
			layout := l.layout(client, instance)
			parts, err := l.parts(client, layout, l.start(client, instance), sqlserver.Limits{})
			require.NoError(t, err)
			var want [][]string
			for k, s := range c.samples {
				want = append(want, []string{fmt.Sprint(k), s.want})
			}
			require.Equal(t, want, values(parts, mssqlcdc.FirstCaptured))
		})
	}
}

// TestSimCommitTimes compares commit times with the server's own, over a change of its clock.
func TestSimCommitTimes(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	clock := newClock(time.Date(2025, 10, 25, 23, 2, 0, 0, time.UTC))
	l := newLab(t, sqlserversim.WithClock(clock), sqlserversim.WithTimeZone("W. Europe Standard Time", berlin))
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	var want []string
	for i := range 40 {
		at := clock.Advance(5 * time.Minute)
		l.exec(fmt.Sprintf("INSERT dbo.t VALUES (%d)", i))
		want = append(want, at.UTC().Format("2006-01-02 15:04:05.000000"))
	}
	l.capture()
	client := l.client()
	require.Equal(t, "W. Europe Standard Time", client.Server().Zone)
	layout := l.layout(client, "dbo_t")
	parts, err := l.parts(client, layout, l.start(client, "dbo_t"), sqlserver.Limits{PartRows: 7})
	require.NoError(t, err)
	var got []string
	for _, row := range values(parts, mssqlcdc.IdxCommitTime) {
		got = append(got, row[0])
	}
	require.Equal(t, want, got)

	// Z-04: starting from a time gives the commits after it, never fewer.
	for i := range 39 {
		at, err := time.Parse("2006-01-02 15:04:05.000000", want[i])
		require.NoError(t, err)
		from, err := client.LSNForTime(t.Context(), at.Add(time.Second))
		require.NoError(t, err)
		if from.IsZero() {
			require.Zero(t, at.Hour(), "before the first commit, in the hour before the clock is set back")
			continue
		}
		found, exact, err := client.CommitTime(t.Context(), from, true)
		require.NoError(t, err)
		require.True(t, exact)
		require.False(t, found.After(at.Add(time.Second)))
		// Early by an hour before the clock is set back, exact otherwise.
		require.LessOrEqual(t, at.Sub(found), 65*time.Minute)
		if at.Hour() >= 1 || at.Day() == 25 && at.Hour() < 23 {
			require.Equal(t, at, found)
		}
	}
}
