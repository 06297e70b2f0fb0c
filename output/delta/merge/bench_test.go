package merge_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// The 12-column table that the figures of other engines were taken with.
func benchSchema() *schema.Struct {
	notNull := func(name string, t schema.Type) schema.Field { return schema.Field{Name: name, Type: t} }
	return columns(
		notNull("start_lsn", schema.String), notNull("seqval", schema.String), notNull("operation", schema.Integer),
		notNull("commit_time", schema.Timestamp), notNull("table_name", schema.String), notNull("position", schema.Long),
		notNull("id", schema.Long), notNull("status", schema.String), notNull("region", schema.String),
		notNull("amount", schema.Decimal{Precision: 18, Scale: 2}), notNull("updated_at", schema.Timestamp), field("note", schema.String))
}

func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// benchRows makes n rows, the number of row j being number(j) and its id id(j).
func benchRows(n int, number, id func(int) uint64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, benchSchema().Arrow())
	defer b.Release()
	text := func(column int, value string) { b.Field(column).(*array.StringBuilder).Append(value) }
	long := func(column int, value uint64) { b.Field(column).(*array.Int64Builder).Append(int64(value)) }
	at := func(column int, value uint64) {
		b.Field(column).(*array.TimestampBuilder).Append(arrow.Timestamp(value))
	}
	for j := range n {
		i := number(j)
		r := func(k uint64) uint64 { return mix(i*16 + k) }
		t := i / 10
		commit := 1767225600000000 + t*10000
		text(0, fmt.Sprintf("0x%08X%08X%04X", 42, 16*t, 3))
		text(1, fmt.Sprintf("0x%08X%08X%04X", 42, 16*t+1+i%10, 1+i%10))
		b.Field(2).(*array.Int32Builder).Append(int32(1 + r(3)%4))
		at(3, commit)
		text(4, [...]string{"dbo.orders", "dbo.order_lines", "dbo.customers", "dbo.payments"}[r(5)%4])
		long(5, i)
		long(6, id(j))
		text(7, [...]string{"NEW", "PAID", "PACKED", "SHIPPED", "CLOSED"}[r(8)%5])
		text(8, [...]string{"north", "south", "east", "west", "emea", "apac", "amer", "latam"}[r(9)%8])
		b.Field(9).(*array.Decimal128Builder).Append(decimal128.FromU64(r(10) % 10000000))
		at(10, commit-r(11)%60000000)
		if q := r(12); q%2 == 1 {
			b.Field(11).AppendNull()
		} else {
			text(11, strings.Repeat(hex.EncodeToString(fmt.Appendf(nil, "%08x", uint32(mix(q)))), 2)[:8+(q>>1)%24])
		}
	}
	return b.NewRecordBatch()
}

const benchTarget = 1_000_000

// benchTable writes a table of so many files.
func benchTable(b *testing.B, files int) (*mem.Store, []action.Add) {
	st := mem.New()
	t, err := delta.Create(b.Context(), st, delta.Spec{Schema: benchSchema()}, delta.Options{})
	require.NoError(b, err)
	var adds []action.Add
	each := benchTarget / files
	for f := range files {
		w, err := t.NewWriter(b.Context(), data.WriterOptions{})
		require.NoError(b, err)
		for from := f * each; from < (f+1)*each; from += 10_000 {
			number := func(j int) uint64 { return uint64(from + j) }
			rec := benchRows(10_000, number, number)
			require.NoError(b, w.Write(rec))
			rec.Release()
		}
		more, err := w.Close()
		require.NoError(b, err)
		adds = append(adds, more...)
	}
	require.NoError(b, t.Close(b.Context()))
	return st, adds
}

// benchCopy is another table with the same files.
func benchCopy(b *testing.B, from *mem.Store, adds []action.Add) *delta.Table {
	st := mem.New()
	for _, a := range adds {
		content, err := from.Get(b.Context(), a.Path)
		require.NoError(b, err)
		require.NoError(b, st.Put(b.Context(), a.Path, content))
	}
	t, err := delta.Create(b.Context(), st, delta.Spec{Schema: benchSchema(), Properties: map[string]string{delta.PropDeletionVectors: "true"}}, delta.Options{})
	require.NoError(b, err)
	_, err = t.Commit(b.Context(), delta.Change{BlindAppend: true, Add: adds})
	require.NoError(b, err)
	return t
}

// BenchmarkRun merges rows of which every other one has a key of the target, which are spread
// over all of it; cpu-ms/op is what other engines are compared by.
func BenchmarkRun(b *testing.B) {
	for _, files := range []int{10, 1} {
		st, adds := benchTable(b, files)
		for _, n := range []int{10_000, 100_000} {
			step := uint64(benchTarget / (n / 2))
			src := benchRows(n, func(j int) uint64 { return uint64(10_000_000 + j) }, func(j int) uint64 {
				if j%2 == 0 {
					return uint64(j/2) * step
				}
				return benchTarget + uint64(j/2)
			})
			for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
				b.Run(fmt.Sprintf("files=%d/rows=%d/%s", files, n, strategy), func(b *testing.B) {
					var cpu time.Duration
					b.ReportAllocs()
					for b.Loop() {
						b.StopTimer()
						t := benchCopy(b, st, adds)
						before := cpuTime()
						b.StartTimer()
						r, err := merge.Run(b.Context(), t, merge.Source{Upserts: []arrow.RecordBatch{src}},
							merge.Options{Keys: []string{"id"}, Strategy: strategy})
						b.StopTimer()
						cpu += cpuTime() - before
						require.NoError(b, err)
						require.EqualValues(b, n/2, r.Metrics.RowsUpdated)
						require.EqualValues(b, n/2, r.Metrics.RowsInserted)
						require.NoError(b, t.Close(b.Context()))
						b.StartTimer()
					}
					b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
				})
			}
		}
	}
}
