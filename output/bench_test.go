package output_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// BenchmarkWriteBatch writes windows of narrow rows, as record batches of 8,192
// rows, into a table on the local disk.
func BenchmarkWriteBatch(b *testing.B) {
	const partRows, parts = 8192, 24
	records := make([]arrow.RecordBatch, parts)
	for i := range records {
		records[i] = changetest.Narrow(i*partRows, partRows)
	}
	dir := b.TempDir()
	out, err := output.New("path: "+dir+"/orders\napp_id: bench\nfacts_path: "+dir+"/facts\n", service.MockResources(),
		output.WithStores(store.NewRegistry(file.Provider())))
	require.NoError(b, err)
	require.NoError(b, out.Connect(b.Context()))
	runtime.GC()
	peak := watchHeap(b)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := 0
	start := time.Now()
	prev := mssqlcdc.LSN{}
	for n := int64(0); b.Loop(); n++ {
		end, err := mssqlcdc.LSNFromParts(n+1, 1<<39)
		require.NoError(b, err)
		env := mssqlcdc.Envelope{
			Version: mssqlcdc.EnvelopeVersion, Table: mssqlcdc.TableID{Schema: "dbo", Name: "orders"}, Instance: "dbo_orders",
			Window: mssqlcdc.Window{Start: prev, End: end}, PrevDataLSN: prev,
		}
		for i := range parts {
			env.Part, env.Last = i, i == parts-1
			moveTo(records[i], end)
			batch, err := mssqlcdc.NewRecordBatch(env, records[i])
			require.NoError(b, err)
			m := service.NewMessage(nil)
			m.SetStructured(batch)
			require.NoError(b, out.WriteBatch(b.Context(), service.MessageBatch{m}))
			rows += partRows
		}
		prev = end
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	require.NoError(b, out.Close(context.Background()))
	b.ReportMetric(float64(rows)/took.Seconds(), "rows/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(rows), "allocs/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(rows), "B/row")
	b.ReportMetric(float64(peak())/1e6, "peak-heap-MB")
	b.ReportMetric(0, "ns/op")
}

// moveTo moves the commits of a record into the window that ends at end. Nothing
// reads the record any more that a window before wrote.
func moveTo(record arrow.RecordBatch, end mssqlcdc.LSN) {
	raw := record.Column(mssqlcdc.IdxStartLSN).Data().Buffers()[1].Bytes()
	for i := 0; i+mssqlcdc.LSNSize <= len(raw); i += mssqlcdc.LSNSize {
		copy(raw[i:i+5], end[:5])
	}
}

// watchHeap samples the live heap.
func watchHeap(b *testing.B) func() uint64 {
	var peak atomic.Uint64
	var base runtime.MemStats
	runtime.ReadMemStats(&base)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse > base.HeapInuse {
				peak.Store(max(peak.Load(), m.HeapInuse-base.HeapInuse))
			}
		}
	}()
	b.Cleanup(func() { stop(); <-done })
	return peak.Load
}
