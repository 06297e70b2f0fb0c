package silver_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// bulk is a bronze table of many narrow rows.
type bulk struct {
	tb    testing.TB
	st    store.Store
	table *delta.Table
	lsn   int
}

func newBulk(tb testing.TB) *bulk {
	tb.Helper()
	st, err := file.New(tb.TempDir())
	require.NoError(tb, err)
	table, err := delta.Create(tb.Context(), st, delta.Spec{Schema: bronzeSchema(false), Properties: map[string]string{
		mssqlcdc.PropKeyColumns: mssqlcdc.EncodeKeyColumns([]string{"id"}),
	}}, delta.Options{})
	require.NoError(tb, err)
	return &bulk{tb: tb, st: st, table: table, lsn: 1}
}

// write commits changes of keys, ten to a commit LSN.
func (b *bulk) write(op mssqlcdc.Operation, keys func(yield func(int64) bool)) {
	b.tb.Helper()
	w, err := b.table.NewWriter(b.tb.Context(), data.WriterOptions{})
	require.NoError(b.tb, err)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, bronzeSchema(false).Arrow())
	defer builder.Release()
	flush := func() {
		rec := builder.NewRecordBatch()
		require.NoError(b.tb, w.Write(rec))
		rec.Release()
	}
	n := 0
	for id := range keys {
		if n++; n%10 == 0 {
			b.lsn++
		}
		builder.Field(0).(*array.StringBuilder).Append("dbo_orders")
		builder.Field(1).(*array.StringBuilder).Append(lsnOf(b.lsn).String())
		builder.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("0x%020X", n))
		builder.Field(3).(*array.Int32Builder).Append(int32(op))
		builder.Field(4).(*array.Int32Builder).Append(int32(n % 10))
		builder.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(timeOf(b.lsn).UnixMicro()))
		builder.Field(6).(*array.Int64Builder).Append(id)
		builder.Field(7).(*array.StringBuilder).Append([]string{"new", "paid", "shipped"}[n%3])
		builder.Field(8).(*array.Int64Builder).Append(int64(n) * 37)
		builder.Field(9).(*array.StringBuilder).Append(fmt.Sprintf("order note %d of customer %d", n, id*7919%100_000))
		builder.Field(10).(*array.Int32Builder).Append(1)
		builder.Field(11).AppendNull()
		builder.Field(12).AppendNull()
		if n%10_000 == 0 {
			flush()
		}
	}
	flush()
	b.lsn++
	adds, err := w.Close()
	require.NoError(b.tb, err)
	_, err = b.table.Commit(b.tb.Context(), delta.Change{Operation: delta.OpStreamingWrite, Add: adds, BlindAppend: true, ReadVersion: b.table.Snapshot().Version()})
	require.NoError(b.tb, err)
}

func random(seed uint64, n int, of int64) func(func(int64) bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(yield func(int64) bool) {
		for range n {
			if !yield(rng.Int64N(of)) {
				return
			}
		}
	}
}

func (b *bulk) config(target store.Store) silver.Config {
	return silver.Config{
		Bronze: b.st, BronzeName: "bronze", Target: target, TargetName: "silver", TempDir: b.tb.TempDir(),
		Upkeep: maintain.Auto{NoCompact: true, NoCleanLog: true},
	}
}

// watchHeap looks at the heap, garbage included, until its result is called, which is the
// most that it saw.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		for {
			select {
			case <-stop:
				most <- peak
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-most
	}
}

func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkApply: 10,000 random keys of a table of 1 M rows in 10 files change, from bronze
// to the committed table.
func BenchmarkApply(b *testing.B) {
	for name, config := range map[string]silver.Config{
		"current/copy_on_write": {Strategy: merge.CopyOnWrite}, "current/deletion_vectors": {Strategy: merge.DeletionVectors},
		"history/copy_on_write": {Mode: silver.History}, "history/deletion_vectors": {Mode: silver.History, Strategy: merge.DeletionVectors},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				bronze := newBulk(b)
				target, err := file.New(b.TempDir())
				require.NoError(b, err)
				c := bronze.config(target)
				c.Mode, c.Strategy = config.Mode, config.Strategy
				a, err := silver.New(c)
				require.NoError(b, err)
				for part := range int64(10) { // files of ranges of keys, as a snapshot makes them
					bronze.write(mssqlcdc.Insert, func(yield func(int64) bool) {
						for i := range int64(100_000) {
							if !yield(part*100_000 + i) {
								return
							}
						}
					})
					_, err = a.Apply(b.Context())
					require.NoError(b, err)
				}
				bronze.write(mssqlcdc.UpdateAfter, random(1, 10_000, 1_000_000))
				runtime.GC()
				before := cpu(b)
				b.StartTimer()
				r, err := a.Apply(b.Context())
				b.StopTimer()
				require.NoError(b, err)
				b.ReportMetric(float64((cpu(b) - before).Milliseconds()), "cpu-ms/op")
				b.ReportMetric(float64(r.Rows), "rows/op")
				require.NoError(b, a.Close(b.Context()))
				b.StartTimer()
			}
		})
	}
}

// A large batch, which does not fit into memory, stays within bounds.
func TestMemoryOfALargeBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a million rows")
	}
	for mode, changes := range map[silver.Mode]int{silver.Current: largeBatch, silver.History: largeBatch / 2} {
		t.Run(string(mode), func(t *testing.T) {
			bronze := newBulk(t)
			for part := range 5 {
				bronze.write(mssqlcdc.Insert, random(uint64(part), changes/5, 3_000_000))
			}
			files, err := file.New(t.TempDir())
			require.NoError(t, err)
			target := &storetest.HeapSampler{Store: files}
			c := bronze.config(target)
			c.Mode, c.Parallel = mode, 1
			runtime.GC()
			a, err := silver.New(c)
			require.NoError(t, err)
			before := cpu(t)
			peak := watchHeap(t)
			r, err := a.Apply(t.Context())
			require.NoError(t, err)
			t.Logf("%s: %d rows, %d merges, peak live heap %d MB, with garbage %d MB, CPU %s", mode, r.Rows, r.Merges, target.Peak>>20, peak()>>20, cpu(t)-before)
			require.Less(t, target.Peak>>20, uint64(150))
			require.Positive(t, r.Inserted)
			require.NoError(t, a.Close(t.Context()))
		})
	}
}
