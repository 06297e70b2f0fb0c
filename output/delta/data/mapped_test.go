package data_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// Everything outside of the schema has physical names: the file, which has field ids too,
// the statistics, the partition values and the folders. People's names stay in batches,
// options and errors.
func TestWritingMappedColumns(t *testing.T) {
	t.Parallel()
	table := &schema.Struct{Fields: []schema.Field{
		mapped(schema.Field{Name: "order id", Type: schema.Long}, 1),
		mapped(schema.Field{Name: "part, of", Type: schema.String}, 2),
		mapped(schema.Field{Name: "s", Type: &schema.Struct{Fields: []schema.Field{
			mapped(schema.Field{Name: "x=y", Type: schema.Integer}, 4), mapped(schema.Field{Name: "z", Type: schema.Date}, 5)}}}, 3),
		mapped(schema.Field{Name: "l", Type: &schema.Array{ContainsNull: true, Element: &schema.Struct{Fields: []schema.Field{
			mapped(schema.Field{Name: "e", Type: schema.Long}, 7)}}}}, 6),
		mapped(schema.Field{Name: "m", Type: &schema.Map{Key: schema.String, Value: &schema.Struct{Fields: []schema.Field{
			mapped(schema.Field{Name: "v", Type: schema.Long}, 9)}}}}, 8),
	}}
	rows := `[{"order id":7,"part, of":"a:b","s":{"x=y":1,"z":"1970-01-02"},"l":[{"e":5},null],"m":[{"key":"k","value":{"v":3}}]},
		{"order id":9,"part, of":"a:b","s":{"x=y":null,"z":null},"l":null,"m":null}]`
	for _, m := range []schema.Mapping{schema.MapByName, schema.MapByID} {
		alloc, st := checked(t), mem.New()
		o := data.WriterOptions{Mapping: m, PartitionBy: []string{"part, of"}, Allocator: alloc,
			Stats: data.StatsColumns{Only: [][]string{{"order id"}, {"s", "x=y"}, {"l"}}}}
		rec := batch(t, alloc, table, rows)
		defer rec.Release()
		files := write(t, st, table, o, rec)
		require.Len(t, files, 1)
		f := files[0]
		require.Regexp(t, `^col-2=a%3Ab/part-`, f.Path)
		require.Equal(t, map[string]*string{"col-2": new("a:b")}, f.PartitionValues)
		require.JSONEq(t, `{"numRecords":2,"minValues":{"col-1":7,"col-3":{"col-4":1}},"maxValues":{"col-1":9,"col-3":{"col-4":1}},
			"nullCount":{"col-1":0,"col-3":{"col-4":1},"col-6":1}}`, f.Stats)

		ids := map[string]int32{}
		root := footer(t, st, f).Schema.Root()
		for i := range root.NumFields() {
			ids[root.Field(i).Name()] = root.Field(i).FieldID()
		}
		require.Equal(t, map[string]int32{"col-1": 1, "col-3": 3, "col-6": 6, "col-8": 8}, ids)
		paths := map[string]int32{}
		for i := range footer(t, st, f).Schema.NumColumns() {
			c := footer(t, st, f).Schema.Column(i)
			paths[c.Path()] = c.SchemaNode().FieldID()
		}
		require.Equal(t, map[string]int32{
			"col-1": 1, "col-3.col-4": 4, "col-3.col-5": 5, "col-6.list.element.col-7": 7, "col-8.key_value.key": -1, "col-8.key_value.value.col-9": 9,
		}, paths)

		in := data.Input{Path: f.Path, PartitionValues: f.PartitionValues, Mapping: m}
		var got [][]string
		for rec, err := range data.ReadFile(t.Context(), st, table, in, nil) {
			require.NoError(t, err)
			got = append(got, rowsOf(rec)...)
		}
		require.Equal(t, rowsOf(rec), got)

		w, err := data.NewWriter(t.Context(), st, table, o)
		require.NoError(t, err)
		err = w.Write(arrowBatch(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "order id", Type: arrow.BinaryTypes.String}}, nil), `[{"order id":"x"}]`))
		require.ErrorContains(t, err, "column order id: have string, want long")
		require.NoError(t, w.Abort())
	}
	_, err := data.NewWriter(t.Context(), mem.New(), columns("a"), data.WriterOptions{Mapping: schema.MapByName})
	require.ErrorContains(t, err, "column a has no delta.columnMapping.physicalName")
}

// Whatever the types, a mapped file gives back what was written, also after its columns were
// renamed.
func TestRandomMappedTablesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.SampledFrom([]schema.Mapping{schema.MapByName, schema.MapByID}).Draw(rt, "mapping")
		n := 0
		table, _ := m.Assign(drawStruct(rt, 3), rapid.Int64Range(0, 1000).Draw(rt, "last"), func(schema.Field) string { n++; return fmt.Sprint("col-", n) })
		rec := drawBatch(rt, memory.DefaultAllocator, table, rapid.IntRange(0, 50).Draw(rt, "rows"))
		st := mem.New()
		w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{Mapping: m})
		require.NoError(rt, err)
		require.NoError(rt, w.Write(rec))
		files, err := w.Close()
		require.NoError(rt, err)
		renamed := &schema.Struct{}
		for i, f := range table.Fields {
			f.Name = fmt.Sprint("other name ", i)
			renamed.Fields = append(renamed.Fields, f)
		}
		var got [][]string
		for _, f := range files {
			require.True(rt, json.Valid([]byte(f.Stats)))
			for rec, err := range data.ReadFile(t.Context(), st, renamed, data.Input{Path: f.Path, Mapping: m}, nil) {
				require.NoError(rt, err)
				got = append(got, rowsOf(rec)...)
			}
		}
		require.ElementsMatch(rt, rowsOf(rec), got)
	})
}

// Batches bring narrower types, as dictionaries and in slices, and structs with parts in
// another order or missing: values are the same in the table's shape.
func TestBatchesThatAreConverted(t *testing.T) {
	t.Parallel()
	long := arrow.PrimitiveTypes.Int64
	st, alloc := mem.New(), checked(t)
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "n", Type: schema.Long, Nullable: true},
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{
			{Name: "a", Type: schema.Long, Nullable: true}, {Name: "b", Type: schema.Double, Nullable: true}, {Name: "c", Type: schema.String, Nullable: true}}}, Nullable: true},
	}}
	parts := arrow.StructOf(arrow.Field{Name: "B", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "a", Type: long, Nullable: true})
	rec := arrowBatch(t, alloc, arrow.NewSchema([]arrow.Field{{Name: "N", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, {Name: "s", Type: parts, Nullable: true}}, nil),
		`[{"N":1},{"N":null,"s":{"B":2,"a":3}},{"N":-5,"s":{"B":null,"a":4}},{"N":7,"s":null}]`)
	defer rec.Release()
	slice := rec.NewSlice(1, 4)
	defer slice.Release()
	files := write(t, st, table, data.WriterOptions{Allocator: alloc}, slice)
	require.Equal(t, [][]string{{"NULL", "{3;2/4000000000000000;NULL;}"}, {"-5", "{4;NULL;NULL;}"}, {"7", "NULL"}}, read(t, st, table, nil, files...))

	entries := array.NewInt16Builder(memory.DefaultAllocator)
	entries.AppendValues([]int16{10, 0, 30}, []bool{true, false, true})
	index := array.NewInt32Builder(memory.DefaultAllocator)
	index.AppendValues([]int32{2, 1, 0, 2}, nil)
	dictionary := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.PrimitiveTypes.Int16}, index.NewArray(), entries.NewArray())
	narrow := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "n", Type: dictionary.DataType(), Nullable: true}}, nil), []arrow.Array{dictionary}, 4)
	files = write(t, st, columnsOf(schema.Long), data.WriterOptions{}, narrow)
	require.Equal(t, [][]string{{"30"}, {"NULL"}, {"10"}, {"30"}}, read(t, st, columnsOf(schema.Long), nil, files...))

	for name, c := range map[string]struct {
		part arrow.DataType
		want string
	}{
		"a part that the table does not have": {arrow.StructOf(arrow.Field{Name: "z", Type: long}), "column s.z: have long, want no such column"},
		"a part that does not fit":            {arrow.StructOf(arrow.Field{Name: "b", Type: long}), "column s.b: have long, want double"},
		"no struct":                           {long, "column s: have long, want struct<"},
	} {
		w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{})
		require.NoError(t, err)
		err = w.Write(arrowBatch(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "s", Type: c.part, Nullable: true}}, nil), "[]"))
		require.ErrorContains(t, err, c.want, name)
	}
}

// columnsOf is a table of one column n.
func columnsOf(t schema.Type) *schema.Struct {
	return &schema.Struct{Fields: []schema.Field{{Name: "n", Type: t, Nullable: true}}}
}
