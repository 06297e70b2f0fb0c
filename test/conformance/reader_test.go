package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// read reads an instance from its beginning to the head with our own client.
func (d *database) read(t *testing.T, instance string) []string {
	t.Helper()
	c, err := sqlserver.Open(t.Context(), sqlserver.Config{ConnectionString: d.dsn})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	all, err := c.Instances(t.Context())
	require.NoError(t, err)
	found, err := sqlserver.FindInstance(all, instance)
	require.NoError(t, err)
	layout, err := c.Columns(t.Context(), found, sqlserver.ColumnOptions{})
	require.NoError(t, err)
	low, err := c.MinLSN(t.Context(), instance)
	require.NoError(t, err)
	head, err := c.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := c.Plan(t.Context(), layout, low.Prev(), head.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	var lines []string
	for part, err := range c.Read(t.Context(), sqlserver.ReadRequest{Layout: layout, Plan: plan, Head: head}) {
		require.NoError(t, err)
		for i := range int(part.Record.NumRows()) {
			line := []string{part.Record.Column(mssqlcdc.FirstCaptured - 1).ValueStr(i)}
			for _, column := range part.Record.Columns()[mssqlcdc.FirstCaptured:] {
				line = append(line, valueText(column, i))
			}
			lines = append(lines, strings.Join(line[1:], " "))
		}
	}
	return lines
}

func valueText(column arrow.Array, i int) string {
	if column.IsNull(i) {
		return "NULL"
	}
	switch a := column.(type) {
	case *array.Timestamp:
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC().Format("2006-01-02T15:04:05.999999")
	case *array.Binary:
		return fmt.Sprintf("0x%X", a.Value(i))
	case *array.Decimal128:
		return mssqlcdc.FormatDecimal(a.Value(i), a.DataType().(*arrow.Decimal128Type).Scale)
	}
	return column.ValueStr(i)
}

// values are a column type, a literal of it, and what our reader makes of it.
func values() [][3]string {
	return [][3]string{
		{"bit", "1", "true"}, {"tinyint", "255", "255"}, {"smallint", "-32768", "-32768"}, {"int", "-2147483648", "-2147483648"},
		{"bigint", "-9223372036854775808", "-9223372036854775808"}, {"decimal(38,10)", "1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"},
		{"money", "-922337203685477.5808", "-922337203685477.5808"}, {"smallmoney", "214748.3647", "214748.3647"}, {"real", "0.5", "0.5"}, {"float", "-1.5e300", "-1.5e+300"},
		{"date", "'9999-12-31'", "9999-12-31"}, {"datetime", "'2026-03-01T12:00:00.003'", "2026-03-01T12:00:00.003"}, {"smalldatetime", "'2026-03-01T12:00:00'", "2026-03-01T12:00:00"},
		{"datetime2(6)", "'2026-03-01T12:00:00.123456'", "2026-03-01T12:00:00.123456"}, {"datetimeoffset(6)", "'2026-03-01T12:00:00.123456+05:30'", "2026-03-01T06:30:00.123456"},
		{"char(5)", "'ab'", "ab   "}, {"varchar(20)", "'Zürich'", "Zürich"}, {"nvarchar(20)", "N'日本😀'", "日本😀"}, {"nvarchar(max)", "REPLICATE(CONVERT(nvarchar(max), N'x'), 3)", "xxx"},
		{"binary(4)", "0x0102", "0x01020000"}, {"varbinary(max)", "0xFF", "0xFF"}, {"uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6F9619FF-8B86-D011-B42D-00C04FC964FF"},
	}
}

func readerFacts() []fact {
	return []fact{
		{"reader-types", "Our reader reads each type of column as it was written", func(t *testing.T, d *database) {
			var columns, literals, want []string
			for i, v := range values() {
				columns = append(columns, fmt.Sprintf("c%d %s NULL", i, v[0]))
				literals = append(literals, v[1])
				want = append(want, v[2])
			}
			d.exec(t, "CREATE TABLE dbo.types (id int NOT NULL PRIMARY KEY, "+strings.Join(columns, ", ")+")")
			d.track(t, "types")
			d.exec(t, "INSERT dbo.types VALUES (1, "+strings.Join(literals, ", ")+")", "INSERT dbo.types (id) VALUES (2)")
			d.capture(t)
			require.Equal(t, []string{"1 " + strings.Join(want, " "), "2" + strings.Repeat(" NULL", len(want))}, d.read(t, "dbo_types"))
		}},
		{"reader-order", "Our reader has the rows of the change table in its order, key changes and shifts among them", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1), (2, N'b', 2), (3, N'c', 3)", "UPDATE dbo.orders SET id = id + 1", "DELETE dbo.orders WHERE id = 4", "UPDATE dbo.orders SET status = N'z'")
			d.capture(t)
			want := d.lines(t, "SELECT id, status, CONVERT(nvarchar(20), amount) FROM cdc.dbo_orders_CT ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation")
			require.NotEmpty(t, want)
			require.Equal(t, want, d.read(t, "dbo_orders"))
		}},
		{"reader-snapshot", "Our reader reads a table in chunks of its key, each row once", func(t *testing.T, d *database) {
			d.exec(t, "CREATE TABLE dbo.keys (a nvarchar(10) NOT NULL, b int NOT NULL, PRIMARY KEY (a, b))")
			d.track(t, "keys")
			var want []string
			for _, a := range []string{"a", "A2", "b", "Ž", "ß"} {
				for b := range 7 {
					d.exec(t, fmt.Sprintf("INSERT dbo.keys VALUES (N'%s', %d)", a, b))
					want = append(want, fmt.Sprintf("%s %d", a, b))
				}
			}
			d.capture(t)
			got := d.chunks(t, "dbo_keys", 4)
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got)
		}},
	}
}

// chunks reads a table whole in chunks of so many rows.
func (d *database) chunks(t *testing.T, instance string, size int64) []string {
	t.Helper()
	c, err := sqlserver.Open(t.Context(), sqlserver.Config{ConnectionString: d.dsn})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	all, err := c.Instances(t.Context())
	require.NoError(t, err)
	found, err := sqlserver.FindInstance(all, instance)
	require.NoError(t, err)
	layout, err := c.Columns(t.Context(), found, sqlserver.ColumnOptions{})
	require.NoError(t, err)
	key, err := c.SnapshotKey(t.Context(), layout, nil)
	require.NoError(t, err)
	last, err := c.MaxKey(t.Context(), layout, key)
	require.NoError(t, err)
	var lines []string
	var from sqlserver.Bound
	for final := false; !final; {
		to, err := c.NextBound(t.Context(), layout, key, from, last, size)
		require.NoError(t, err)
		final = to == nil
		stamp, err := c.SnapshotStamp(t.Context(), found)
		require.NoError(t, err)
		for part, err := range c.ReadChunk(t.Context(), sqlserver.ChunkRequest{Layout: layout, Key: key, From: from, To: to, Stamp: stamp}) {
			require.NoError(t, err)
			for i := range int(part.Record.NumRows()) {
				var line []string
				for _, column := range part.Record.Columns()[mssqlcdc.FirstCaptured:] {
					line = append(line, valueText(column, i))
				}
				lines = append(lines, strings.Join(line, " "))
			}
		}
		from = to
	}
	return lines
}
