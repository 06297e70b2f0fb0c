package data_test

import (
	"bytes"
	"io"
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

// The bytes of the files do not depend on how many goroutines encode them.
func TestFilesDoNotDependOnParallel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		table := drawStruct(rt, 2)
		o := data.WithLimits(data.WriterOptions{
			Compression:  rapid.SampledFrom([]data.Compression{data.Zstd, data.Snappy, data.Uncompressed}).Draw(rt, "compression"),
			Encodings:    rapid.SampledFrom([]data.Encodings{data.Plain, data.Compact}).Draw(rt, "encodings"),
			RowGroupRows: rapid.Int64Range(1, 60).Draw(rt, "rowGroupRows"),
		}, rapid.IntRange(1, 40).Draw(rt, "pageRows"), rapid.SampledFrom([]int{8, 100, 10000}).Draw(rt, "pageBytes"),
			rapid.SampledFrom([]int{1, 50, 10000}).Draw(rt, "dictBytes"), rapid.IntRange(1, 50).Draw(rt, "sample"))
		var recs []arrow.RecordBatch
		for range rapid.IntRange(1, 3).Draw(rt, "batches") {
			recs = append(recs, drawBatch(rt, memory.DefaultAllocator, table, rapid.IntRange(1, 50).Draw(rt, "rows")))
		}
		var want []byte
		for _, o.Parallel = range []int{1, 2, 7} {
			st := mem.New()
			files := write(t, st, table, o, recs...)
			require.Len(rt, files, 1)
			got := content(t, st, files[0])
			if want == nil {
				want = got
			}
			require.True(rt, bytes.Equal(want, got), "parallel %d", o.Parallel)
		}
	})
}

// content is a whole file.
func content(t *testing.T, st data.Store, f data.File) []byte {
	t.Helper()
	object, err := st.Open(t.Context(), f.Path)
	require.NoError(t, err)
	text, err := io.ReadAll(io.NewSectionReader(object, 0, f.Size))
	require.NoError(t, err)
	require.NoError(t, object.Close())
	return text
}

// A column that cannot be encoded is told, whichever goroutine finds it, and ends the writer.
func TestAnErrorOfOneLaneEndsTheWriter(t *testing.T) {
	t.Parallel()
	table, rec := tableWithABadColumn(t)
	for _, parallel := range []int{1, 4} {
		w, err := data.NewWriter(t.Context(), mem.New(), table, data.WithLimits(data.WriterOptions{Parallel: parallel}, 100, 1000, 1000, 10))
		require.NoError(t, err)
		require.ErrorContains(t, w.Write(rec), "bad")
		require.ErrorContains(t, w.Write(rec), "cannot be used after an error")
		require.NoError(t, w.Abort())
	}
}

// tableWithABadColumn is a batch with a part of a nested column that no page can be made of:
// a dictionary with NULL among its entries.
func tableWithABadColumn(t *testing.T) (*schema.Struct, arrow.RecordBatch) {
	t.Helper()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues([]string{"a", ""}, []bool{true, false})
	index := array.NewInt32Builder(memory.DefaultAllocator)
	index.AppendValues([]int32{0, 1, 0}, nil)
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	dictionary := array.NewDictionaryArray(typ, index.NewArray(), b.NewArray())
	nested, err := array.NewStructArray([]arrow.Array{dictionary}, []string{"bad"})
	require.NoError(t, err)
	ids := array.NewInt64Builder(memory.DefaultAllocator)
	ids.AppendValues([]int64{1, 2, 3}, nil)
	id := ids.NewArray()
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "id", Type: schema.Long, Nullable: true},
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{{Name: "bad", Type: schema.String, Nullable: true}}}, Nullable: true},
		{Name: "more", Type: schema.Long, Nullable: true},
	}}
	return table, array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: id.DataType(), Nullable: true},
		{Name: "s", Type: nested.DataType(), Nullable: true},
		{Name: "more", Type: id.DataType(), Nullable: true},
	}, nil), []arrow.Array{id, nested, id}, 3)
}
