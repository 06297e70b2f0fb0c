package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// widenedTables is a table with files from before and after its columns were widened, once and twice, and files of the narrow types
// that were committed after.
func widenedTables(t *testing.T, l *lake) []readTable {
	t.Helper()
	dec := func(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }
	narrow := &schema.Struct{Fields: []schema.Field{
		field("id", schema.Long), field("i", schema.Integer), field("s", schema.Short), field("f", schema.Float), field("d", schema.Date), field("m", dec(9, 2)), field("x", schema.Integer),
	}}
	wider := &schema.Struct{Fields: []schema.Field{
		field("i", schema.Long), field("s", schema.Integer), field("f", schema.Double), field("d", schema.TimestampNTZ), field("m", dec(20, 4)), field("x", schema.Double),
	}}
	table := makeTable(t, l, "widened", delta.Spec{Schema: narrow})
	appendRows(t, table, nil, `[{"id":1,"i":-2147483648,"s":32767,"f":1.5,"d":"2026-01-02","m":"1234567.89","x":2147483647},{"id":2}]`)
	widen := func(to *schema.Struct) func(*schema.Struct) *schema.Struct {
		return func(s *schema.Struct) *schema.Struct {
			merged, _, err := schema.Evolution{Widen: true}.Merge(s, to)
			require.NoError(t, err)
			return merged
		}
	}
	evolveTable(t, table, delta.PropTypeWidening, "true", widen(wider))
	appendRows(t, table, nil, `[{"id":3,"i":5000000000,"s":70000,"f":1.1,"d":"2026-01-02 03:04:05.000006","m":"1234567890123456.7891","x":0.1}]`)
	appendRows(t, table, narrow, `[{"id":4,"i":4,"s":-4,"f":0.25,"d":"1999-12-31","m":"-0.01","x":-4}]`)
	require.NoError(t, table.Checkpoint(t.Context()))
	evolveTable(t, table, delta.PropTypeWidening, "true", widen(&schema.Struct{Fields: []schema.Field{field("s", schema.Long), field("m", dec(22, 4))}}))
	appendRows(t, table, nil, `[{"id":5,"s":5000000000,"m":"123456789012345678.0001"}]`)
	require.NoError(t, table.Close(t.Context()))
	want := l.own(t, "widened")
	require.Len(t, want.Rows, 5)
	return []readTable{
		{"widened", request{Path: l.path("widened")}, want},
		{"widened, by a wide value", request{l.path("widened"), []condition{{"i", ">", "integer", "4000000000"}}}, only(t, want, "3")},
		{"widened, by a narrow value", request{l.path("widened"), []condition{{"s", "=", "integer", "32767"}}}, only(t, want, "1")},
		{"widened, by a time that was a date", request{l.path("widened"), []condition{{"d", "<", "time", "2000-01-01 00:00:00"}}}, only(t, want, "4")},
	}
}

// only is the row of an id.
func only(t *testing.T, all rows, id string) rows {
	t.Helper()
	out := rows{Columns: all.Columns, Count: 1}
	for i, row := range all.pick(t, "id") {
		if row[0] == id {
			out.Rows = append(out.Rows, all.Rows[i])
		}
	}
	require.Len(t, out.Rows, 1)
	return out
}

// DuckDB and Spark read widened tables as we do, also through statistics from before the change; delta-rs says that it does not.
func TestEnginesReadWidenedTables(t *testing.T) {
	t.Parallel()
	interopPython(t, "pyarrow")
	l := &lake{dir: t.TempDir()}
	tables := widenedTables(t, l)
	t.Run("duckdb", func(t *testing.T) { requireSame(t, interopPython(t, "duckdb"), "duckdb", tables) })
	t.Run("spark", func(t *testing.T) { requireSame(t, interopPython(t, "pyspark"), "spark", tables) })
	for _, engine := range []string{"datafusion", "pyarrow"} {
		t.Run(engine, func(t *testing.T) {
			requireRefused(t, interopPython(t, "deltalake"), engine, tables[0].request)
		})
	}
}
