package data_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
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
