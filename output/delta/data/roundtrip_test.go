package data_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// Whatever the schema, the rows, the sizes of batches, pages, dictionaries, row groups
// and files: what is read is what was written, and the statistics hold for every row.
func TestRandomTablesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
		table := drawStruct(rt, 3)
		o := data.WithLimits(data.WriterOptions{
			Compression:     rapid.SampledFrom([]data.Compression{data.Zstd, data.Snappy, data.Uncompressed}).Draw(rt, "compression"),
			Encodings:       rapid.SampledFrom([]data.Encodings{data.Plain, data.Compact}).Draw(rt, "encodings"),
			RowGroupRows:    rapid.Int64Range(1, 60).Draw(rt, "rowGroupRows"),
			TargetFileBytes: rapid.SampledFrom([]int64{0, 1, 2000}).Draw(rt, "targetFileBytes"),
			Allocator:       alloc,
		},
			rapid.IntRange(1, 40).Draw(rt, "pageRows"), rapid.SampledFrom([]int{8, 100, 10000}).Draw(rt, "pageBytes"),
			rapid.SampledFrom([]int{1, 50, 10000}).Draw(rt, "dictBytes"), rapid.IntRange(1, 50).Draw(rt, "sample"))
		st := mem.New()
		w, err := data.NewWriter(t.Context(), st, table, o)
		require.NoError(rt, err)
		var want [][]string
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			rec := drawBatch(rt, alloc, table, rapid.IntRange(0, 50).Draw(rt, "rows"))
			slice := rec.NewSlice(rapid.Int64Range(0, rec.NumRows()).Draw(rt, "from"), rec.NumRows())
			require.NoError(rt, w.Write(slice))
			want = append(want, rowsOf(slice)...)
			slice.Release()
			rec.Release()
		}
		files, err := w.Close()
		require.NoError(rt, err)

		var got [][]string
		for _, f := range files {
			rows := int64(0)
			for rec, err := range data.ReadFile(t.Context(), st, f.Path, f.Size, table, nil, nil) {
				require.NoError(rt, err)
				require.True(rt, rec.Schema().Equal(table.Arrow()))
				got = append(got, rowsOf(rec)...)
				rows += rec.NumRows()
				requireBounds(rt, table, f.Stats, rec)
			}
			require.Equal(rt, f.NumRecords, rows)
		}
		require.Equal(rt, want, got)
		alloc.AssertSize(t, 0)
	})
}
