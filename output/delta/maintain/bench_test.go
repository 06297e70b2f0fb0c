package maintain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

// wide appends files of rows of 8 columns, one commit each.
func wide(t testing.TB, table *delta.Table, files, rows int) {
	t.Helper()
	rb := array.NewRecordBuilder(memory.DefaultAllocator, table.Snapshot().Schema().Arrow())
	defer rb.Release()
	for f := range files {
		for i := range rows {
			n := int64(f*rows + i)
			rb.Field(0).(*array.Int64Builder).Append(n)
			rb.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("0x%020X", n/7))
			rb.Field(2).(*array.Int32Builder).Append(int32(n % 4))
			rb.Field(3).(*array.StringBuilder).Append(fmt.Sprint("name ", n*2654435761%100_003))
			rb.Field(4).(*array.Int64Builder).Append(n * 2654435761)
			rb.Field(5).(*array.Int64Builder).Append(n % 1000)
			rb.Field(6).(*array.Float64Builder).Append(float64(n) / 7)
			rb.Field(7).(*array.StringBuilder).Append(strings.Repeat("note ", int(n%5)))
		}
		w, err := table.NewWriter(t.Context(), data.WriterOptions{})
		require.NoError(t, err)
		rec := rb.NewRecordBatch()
		require.NoError(t, w.Write(rec))
		rec.Release()
		adds, err := w.Close()
		require.NoError(t, err)
		commit(t, table, delta.Change{BlindAppend: true, Add: adds})
	}
}

func wideColumns() *schema.Struct {
	return columns("id", "lsn string", "op integer", "name string", "x", "y", "z double", "note string")
}

// BenchmarkOptimize packs 50 files of 20,000 rows of 8 columns.
func BenchmarkOptimize(b *testing.B) {
	const files, rows = 50, 20_000
	st := mem.New()
	table, err := delta.Create(b.Context(), st, delta.Spec{Schema: wideColumns()}, delta.Options{CheckpointInterval: -1})
	require.NoError(b, err)
	wide(b, table, files, rows)
	version := table.Snapshot().Version()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer() // the table as it was
		for v := version + 1; v <= version+2; v++ {
			require.NoError(b, st.Delete(b.Context(), fmt.Sprintf("_delta_log/%020d.json", v)))
		}
		again, err := delta.Open(b.Context(), st, delta.Options{CheckpointInterval: -1})
		require.NoError(b, err)
		b.StartTimer()
		result, err := maintain.Optimize(b.Context(), again, maintain.OptimizeOptions{})
		require.NoError(b, err)
		require.EqualValues(b, files, result.FilesRemoved)
		b.SetBytes(result.BytesRemoved)
	}
	b.ReportMetric(float64(files*rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// What packing takes does not depend on how much is packed. Not parallel: it looks at
// the heap of the process.
func TestOptimizeMemoryStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, count := range []int{10, 40} {
		files, err := file.New(t.TempDir())
		require.NoError(t, err)
		st := &storetest.HeapSampler{Store: files}
		table, err := delta.Create(t.Context(), st, delta.Spec{Schema: wideColumns()}, delta.Options{CheckpointInterval: -1})
		require.NoError(t, err)
		wide(t, table, count, 50_000)
		st.Peak = 0
		before := storetest.LiveHeap()
		result, err := maintain.Optimize(t.Context(), table, maintain.OptimizeOptions{})
		require.NoError(t, err)
		require.EqualValues(t, count, result.FilesRemoved)
		require.NotZero(t, st.Peak)
		taken := float64(st.Peak-min(st.Peak, before)) / 1e6
		t.Logf("%d rows, %.0f MB: %.1f MB of memory", count*50_000, float64(result.BytesRemoved)/1e6, taken)
		require.Less(t, taken, 60.0)
		require.NoError(t, table.Close(t.Context()))
	}
}

// BenchmarkDue is what the upkeep costs a commit.
func BenchmarkDue(b *testing.B) {
	table, err := delta.Create(b.Context(), mem.New(), delta.Spec{Schema: columns("a")}, delta.Options{})
	require.NoError(b, err)
	keeper := maintain.Auto{}.Upkeep(table)
	s := table.Snapshot()
	for b.Loop() {
		require.False(b, keeper.Due(s))
	}
}
