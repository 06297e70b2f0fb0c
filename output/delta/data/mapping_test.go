package data_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

func zeros(n int) string { return strings.Repeat("0", n) }

// physical is the file of a table with column mapping: physical names and field ids.
func physical(name string, id int, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})}
}

// Columns were renamed, swapped their names, dropped and added again since the file was
// written: by physical name or by id, at any depth, each finds its own values.
func TestColumnMapping(t *testing.T) {
	t.Parallel()
	long := arrow.PrimitiveTypes.Int64
	inner := func(a, b string, first int) arrow.DataType {
		return arrow.StructOf(physical(a, first, long), physical(b, first+1, long))
	}
	st, f := foreign(t, arrowBatch(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		physical("col-1", 1, long), physical("col-2", 2, long), physical("col-3", 3, inner("col-4", "col-5", 4)),
		physical("col-6", 6, arrow.ListOf(inner("col-14", "col-15", 14))), physical("col-7", 7, long),
	}, nil), `[{"col-1":1,"col-2":2,"col-3":{"col-4":4,"col-5":5},"col-6":[{"col-14":14,"col-15":15}],"col-7":7}]`))
	part := func(first int, names ...string) schema.Type {
		return &schema.Struct{Fields: []schema.Field{
			mapped(schema.Field{Name: names[0], Type: schema.Long}, first+1), mapped(schema.Field{Name: names[1], Type: schema.Long}, first),
			mapped(schema.Field{Name: names[2], Type: schema.Long}, first+90),
		}}
	}
	table := &schema.Struct{Fields: []schema.Field{
		mapped(schema.Field{Name: "b", Type: schema.Long}, 1),
		mapped(schema.Field{Name: "a", Type: schema.Long}, 2),
		mapped(schema.Field{Name: "col-7", Type: schema.Long}, 8), // added after another of this name was dropped
		mapped(schema.Field{Name: "s", Type: part(4, "x", "col-5", "new")}, 3),
		mapped(schema.Field{Name: "l", Type: &schema.Array{Element: part(14, "y", "col-15", "new"), ContainsNull: true}}, 6),
		mapped(schema.Field{Name: "p", Type: schema.Long}, 10),
	}}
	for _, mapping := range []schema.Mapping{schema.MapByName, schema.MapByID} {
		require.NoError(t, mapping.Check(table))
		in := data.Input{Path: f.Path, Mapping: mapping, PartitionValues: map[string]*string{"col-10": new("9"), "a": new("100")}}
		for rec, err := range data.ReadFile(t.Context(), st, table, in, nil) {
			require.NoError(t, err)
			require.Equal(t, [][]string{{"1", "2", "NULL", "{5;4;NULL;}", "[{15;14;NULL;};]", "9"}}, rowsOf(rec), mapping)
			require.Equal(t, "b", rec.ColumnName(0), "rows have the table's names")
		}
		for rec, err := range data.ReadFile(t.Context(), st, table, in, []string{"A"}) {
			require.NoError(t, err)
			require.Equal(t, [][]string{{"2"}}, rowsOf(rec))
		}
	}
}

// In a file without ids every column would be NULL.
func TestColumnMappingByIDNeedsIDs(t *testing.T) {
	t.Parallel()
	as := arrow.NewSchema([]arrow.Field{{Name: "col-1", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	st, f := foreign(t, arrowBatch(t, memory.DefaultAllocator, as, `[{"col-1":1}]`))
	table := &schema.Struct{Fields: []schema.Field{mapped(schema.Field{Name: "a", Type: schema.Long}, 1)}}
	for _, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: f.Path, Mapping: schema.MapByID}, nil) {
		require.ErrorContains(t, err, "no field ids")
	}
	for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: f.Path, Mapping: schema.MapByName}, nil) {
		require.NoError(t, err)
		require.Equal(t, [][]string{{"1"}}, rowsOf(rec))
	}
}

// A file may have names that differ in case only: the same spelling wins.
func TestSameSpellingWins(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"a", "A"}, {"A", "a"}} {
		as := arrow.NewSchema([]arrow.Field{
			{Name: names[0], Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: names[1], Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
		st, f := foreign(t, arrowBatch(t, memory.DefaultAllocator, as, `[{"a":1,"A":2}]`))
		require.Equal(t, [][]string{{"1"}}, read(t, st, columns("a"), nil, f))
		require.Equal(t, [][]string{{"2"}}, read(t, st, columns("A"), nil, f))
	}
}

// A column asked for twice has its values twice, in every form it can be stored in.
func TestOneColumnTwice(t *testing.T) {
	t.Parallel()
	as := arrow.NewSchema([]arrow.Field{{Name: "v", Type: &arrow.TimestampType{Unit: arrow.Nanosecond}, Nullable: true}}, nil)
	rec := arrowBatch(t, memory.DefaultAllocator, as, `[{"v":"1970-01-01"},{"v":"1970-01-01T00:00:00.000001"},{"v":null},{"v":"1970-01-02"}]`)
	table := &schema.Struct{Fields: []schema.Field{{Name: "v", Type: schema.TimestampNTZ, Nullable: true}}}
	want := [][]string{{"0", "0"}, {"1", "1"}, {"NULL", "NULL"}, {"86400000000", "86400000000"}}
	for _, int96 := range []bool{false, true} {
		st, f := foreign(t, rec, pqarrow.WithDeprecatedInt96Timestamps(int96))
		require.Equal(t, want, read(t, st, table, []string{"v", "V"}, f))
	}
}
