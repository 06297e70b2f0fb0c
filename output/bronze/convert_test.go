package bronze

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// text is value i of a text column, plain or dictionary.
func text(arr arrow.Array, i int) string {
	if d, ok := arr.(*array.Dictionary); ok {
		return d.Dictionary().(*array.String).Value(d.GetValueIndex(i))
	}
	return arr.(*array.String).Value(i)
}

func columnOf(t require.TestingT, rec arrow.RecordBatch, name string) arrow.Array {
	at := rec.Schema().FieldIndices(name)
	require.Len(t, at, 1)
	return rec.Column(at[0])
}

// Whatever the layout of a record in memory, its LSNs become the texts that
// LSN.String gives, and the other columns stay.
func TestConvertEqualsTheSlowWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		c := newConverter(true)
		for range 3 { // the scratch memory is taken over from record to record
			h := changetest.Random(rng, 1+rng.IntN(30), 1+rng.IntN(12))
			rows := h.Rows()
			record := changetest.Record(rows, false)
			from := rng.IntN(len(rows))
			to := from + rng.IntN(len(rows)-from+1)
			record, rows = record.NewSlice(int64(from), int64(to)), rows[from:to]

			got, err := c.convert(record, "dbo_orders", 77, nil)
			require.NoError(rt, err)
			require.Equal(rt, int64(len(rows)), got.NumRows())
			for i, r := range rows {
				require.Equal(rt, "dbo_orders", text(columnOf(rt, got, mssqlcdc.ColCaptureInstance), i))
				require.Equal(rt, r.Position.StartLSN.String(), text(columnOf(rt, got, mssqlcdc.ColStartLSN), i))
				require.Equal(rt, r.Position.SeqVal.String(), text(columnOf(rt, got, mssqlcdc.ColSeqVal), i))
				batch := columnOf(rt, got, mssqlcdc.ColBatchID).(*array.Dictionary)
				require.Equal(rt, int32(77), batch.Dictionary().(*array.Int32).Value(batch.GetValueIndex(i)))
				require.Equal(rt, r.Time.Format(time.DateOnly), columnOf(rt, got, ColCommitDate).(*array.Date32).Value(i).FormattedString())
				require.Equal(rt, r.ID, columnOf(rt, got, "id").(*array.Int64).Value(i))
			}
		}
	})
}

func TestConvertNulls(t *testing.T) {
	t.Parallel()
	b := array.NewRecordBuilder(memory.DefaultAllocator, mssqlcdc.RecordSchema(nil))
	defer b.Release()
	lsn := changetest.LSN(5)
	times := []int64{0, -1, -86_400_000_000, 253_402_300_799_999_999}
	dates := []string{"1970-01-01", "1969-12-31", "1969-12-31", "9999-12-31"}
	for i := range 5 {
		b.Field(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinaryBuilder).Append(lsn[:])
		if i%2 == 0 {
			b.Field(mssqlcdc.IdxSeqVal).AppendNull()
		} else {
			b.Field(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinaryBuilder).Append(lsn[:])
		}
		b.Field(mssqlcdc.IdxOperation).(*array.Int32Builder).Append(2)
		b.Field(mssqlcdc.IdxCommandID).AppendNull()
		if i == 4 {
			b.Field(mssqlcdc.IdxCommitTime).AppendNull()
			continue
		}
		b.Field(mssqlcdc.IdxCommitTime).(*array.TimestampBuilder).Append(arrow.Timestamp(times[i]))
	}
	c := newConverter(true)
	got, err := c.convert(b.NewRecordBatch(), "", 1, nil)
	require.NoError(t, err)
	seq, date := columnOf(t, got, mssqlcdc.ColSeqVal), columnOf(t, got, ColCommitDate).(*array.Date32)
	for i := range 5 {
		require.Equal(t, i%2 == 0, seq.IsNull(i))
		require.Equal(t, i == 4, date.IsNull(i))
		if i < 4 {
			require.Equal(t, dates[i], date.Value(i).FormattedString())
		}
	}
	_, err = c.convert(got, "", 1<<31, nil)
	require.ErrorContains(t, err, "2147483648")
}

// The schema that a table is made with takes the records that convert makes.
func TestSchemaMatchesTheRecords(t *testing.T) {
	t.Parallel()
	for _, byDate := range []bool{false, true} {
		record := changetest.Narrow(0, 10)
		want, err := Schema(record.Schema(), byDate)
		require.NoError(t, err)
		got, err := newConverter(byDate).convert(record, "dbo_orders", 1, nil)
		require.NoError(t, err)
		have, err := schema.FromArrow(got.Schema())
		require.NoError(t, err)
		merged, changed, err := schema.Merge(want, have)
		require.NoError(t, err)
		require.False(t, changed)
		require.True(t, schema.Equal(want, merged))
		names := []string{"_capture_instance", "_start_lsn", "_seqval", "_operation", "_command_id", "_commit_ts",
			"order_id", "customer_id", "status", "amount", "quantity", "ordered_at", "paid", "note", "_batch_id", "_snapshot", "_chunk"}
		if byDate {
			names = append(names, "_commit_date")
		}
		for i, f := range want.Fields {
			require.Equal(t, names[i], f.Name)
			require.True(t, f.Nullable)
			require.NotEmpty(t, f.Comment(), f.Name)
		}
		amount, _ := want.Field("amount")
		require.Equal(t, "SQL Server decimal(18,2)", amount.Comment())
	}
}

func BenchmarkConvert(b *testing.B) {
	record := changetest.Narrow(0, 8192)
	c := newConverter(false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.convert(record, "dbo_orders", 1, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8192, "ns/row")
}
