package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func TestTooManyDigits(t *testing.T) {
	t.Parallel()
	for name, typ := range map[string]schema.Type{
		"column d: row 1 has": schema.Decimal{Precision: 3, Scale: 1},
		"column d.element":    &schema.Array{Element: schema.Decimal{Precision: 3, Scale: 1}},
		"column d.x":          &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Decimal{Precision: 3, Scale: 1}}}},
		"column d.value":      &schema.Map{Key: schema.Long, Value: schema.Decimal{Precision: 3, Scale: 1}},
	} {
		for _, digits := range []int64{1000, -1000} {
			table := &schema.Struct{Fields: []schema.Field{{Name: "d", Type: typ, Nullable: true}}}
			b := array.NewRecordBuilder(memory.DefaultAllocator, table.Arrow())
			for _, v := range []int64{999, digits} {
				appendDecimal(b.Field(0), v)
			}
			w, err := data.NewWriter(t.Context(), mem.New(), table, data.WriterOptions{})
			require.NoError(t, err)
			err = w.Write(b.NewRecordBatch())
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, "100.0")
		}
	}
}

func appendDecimal(builder array.Builder, v int64) {
	switch b := builder.(type) {
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(v)) // builders do not count digits
	case *array.MapBuilder:
		b.Append(true)
		b.KeyBuilder().(*array.Int64Builder).Append(1)
		appendDecimal(b.ItemBuilder(), v)
	case *array.ListBuilder:
		b.Append(true)
		appendDecimal(b.ValueBuilder(), v)
	case *array.StructBuilder:
		b.Append(true)
		appendDecimal(b.FieldBuilder(0), v)
	}
}

// NULLs and digits below a NULL are nobody's values.
func TestValuesBelowNullsDoNotCount(t *testing.T) {
	t.Parallel()
	child := array.NewInt64Builder(memory.DefaultAllocator)
	child.AppendNull()
	child.Append(1)
	values := child.NewArray()
	valid := memory.NewBufferBytes([]byte{2}) // row 0 is NULL
	s, err := array.NewStructArrayWithFieldsAndNulls([]arrow.Array{values}, []arrow.Field{{Name: "x", Type: values.DataType()}}, valid, 1, 0)
	require.NoError(t, err)
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Long}}}, Nullable: true}}}
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "s", Type: s.DataType(), Nullable: true}}, nil), []arrow.Array{s}, 2)
	st := mem.New()
	files := write(t, st, table, data.WriterOptions{}, rec)
	require.Equal(t, [][]string{{"NULL"}, {"{1;}"}}, read(t, st, table, nil, files...))
}

func TestOtherArrowFormsOfText(t *testing.T) {
	t.Parallel()
	alloc, st := checked(t), mem.New()
	dict := func(index, value arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: index, ValueType: value}
	}
	types := []arrow.DataType{
		arrow.BinaryTypes.LargeString, dict(arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String),
		dict(arrow.PrimitiveTypes.Uint16, arrow.BinaryTypes.String), dict(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64),
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.BinaryTypes.LargeBinary,
		dict(arrow.PrimitiveTypes.Int32, &arrow.Decimal128Type{Precision: 20, Scale: 0}),
	}
	var fields []arrow.Field
	for i, typ := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: typ, Nullable: true})
	}
	as := arrow.NewSchema(fields, nil)
	table, err := schema.FromArrow(as)
	require.NoError(t, err)
	var want [][]string
	var recs []arrow.RecordBatch
	for b := range 3 {
		var rows []string
		for i := range 100 {
			if i%7 == 0 {
				rows = append(rows, `{}`)
				continue
			}
			rows = append(rows, fmt.Sprintf(`{"c0":"%d","c1":"v%d","c2":"w%d","c3":%d,"c4":"YWJ%c","c5":"YWJj","c6":"%d"}`,
				i, i%(b+2), i, i%3, 'j'+rune(i%4), i%5))
		}
		rec := arrowBatch(t, alloc, as, "["+strings.Join(rows, ",")+"]")
		defer rec.Release()
		slice := rec.NewSlice(3, 90)
		defer slice.Release()
		recs = append(recs, rec, slice)
		want = append(append(want, rowsOf(rec)...), rowsOf(slice)...)
	}
	for _, o := range []data.WriterOptions{
		{Allocator: alloc},
		data.WithLimits(data.WriterOptions{Allocator: alloc}, 16, 100, 40, 5),
		data.WithLimits(data.WriterOptions{Allocator: alloc, RowGroupRows: 33}, 1000, 1000, 1000, 1000),
	} {
		files := write(t, st, table, o, recs...)
		require.Equal(t, want, read(t, st, table, nil, files...))
	}
}

func TestNullAmongTheEntriesOfADictionary(t *testing.T) {
	t.Parallel()
	alloc, st := checked(t), mem.New()
	entries := array.NewStringBuilder(alloc)
	defer entries.Release()
	entries.AppendValues([]string{"a", ""}, []bool{true, false})
	values := entries.NewArray()
	defer values.Release()
	indices := array.NewInt8Builder(alloc)
	defer indices.Release()
	indices.AppendValues([]int8{0, 1, 0}, []bool{true, true, false})
	index := indices.NewArray()
	defer index.Release()
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	column := array.NewDictionaryArray(typ, index, values)
	defer column.Release()
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ, Nullable: true}}, nil), []arrow.Array{column}, 3)
	defer rec.Release()
	table := &schema.Struct{Fields: []schema.Field{{Name: "v", Type: schema.String, Nullable: true}}}
	files := write(t, st, table, data.WriterOptions{Allocator: alloc}, rec)
	require.Equal(t, [][]string{{`"a"`}, {"NULL"}, {"NULL"}}, read(t, st, table, nil, files...))
	require.Equal(t, minMax(3, `"a"`, `"a"`, 2), files[0].Stats)
}
