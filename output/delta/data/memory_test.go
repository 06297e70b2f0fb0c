package data_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// What the writer holds does not depend on how much went through it. Not parallel: it
// looks at the heap of the process.
func TestMemoryStaysSmall(t *testing.T) {
	table := generatorSchema()
	recs, _ := benchBatches(table.Arrow())
	before := liveHeap()
	w, err := data.NewWriter(t.Context(), &nowhere{}, table, data.WriterOptions{})
	require.NoError(t, err)
	for round := range 4 { // a million rows
		for _, rec := range recs {
			require.NoError(t, w.Write(rec))
			_, held := w.Buffered()
			require.Less(t, held, int64(6<<20))
		}
		live := liveHeap() - before
		t.Logf("%d rows written, %.1f MB live", (round+1)*benchRows, float64(live)/1e6)
		require.Less(t, live, int64(16<<20))
	}
	_, err = w.Close()
	require.NoError(t, err)
	runtime.KeepAlive(recs)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A dictionary page larger than a block of the compression costs no encoder of its own. Not
// parallel: it looks at what the process allocates.
func TestDictionaryPagesTakeLittleMemory(t *testing.T) {
	const groups, rows, distinct = 8, 40_000, 4000
	table := &schema.Struct{Fields: []schema.Field{{Name: "text", Type: schema.String}}}
	b := array.NewRecordBuilder(memory.DefaultAllocator, table.Arrow())
	for i := range rows {
		b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("%060d", i/10%distinct))
	}
	rec := b.NewRecordBatch()
	w, err := data.NewWriter(t.Context(), &nowhere{}, table, data.WriterOptions{RowGroupRows: rows})
	require.NoError(t, err)
	require.NoError(t, w.Write(rec)) // what is allocated once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range groups {
		runtime.GC()
		runtime.GC() // pools are emptied by the second
		require.NoError(t, w.Write(rec))
	}
	runtime.ReadMemStats(&after)
	_, err = w.Close()
	require.NoError(t, err)
	each := (after.TotalAlloc - before.TotalAlloc) / groups
	t.Logf("%.1f MB allocated a row group", float64(each)/1e6)
	require.Less(t, each, uint64(2<<20))
}
