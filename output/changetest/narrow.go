package changetest

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// NarrowColumns are the eight captured columns of a row of 13 columns and about
// 150 bytes, for benchmarks.
func NarrowColumns() []mssqlcdc.Column {
	return []mssqlcdc.Column{
		{Name: "order_id", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint", Key: true},
		{Name: "customer_id", Type: arrow.PrimitiveTypes.Int32, SourceType: "int"},
		{Name: "status", Type: arrow.BinaryTypes.String, SourceType: "varchar(16)"},
		{Name: "amount", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}, SourceType: "decimal(18,2)"},
		{Name: "quantity", Type: arrow.PrimitiveTypes.Int16, SourceType: "smallint"},
		{Name: "ordered_at", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, SourceType: "datetime2(6)"},
		{Name: "paid", Type: arrow.FixedWidthTypes.Boolean, SourceType: "bit"},
		{Name: "note", Type: arrow.BinaryTypes.String, SourceType: "nvarchar(100)"},
	}
}

// Narrow makes a record of rows change rows of the narrow shape, the first of them
// number first, with commits of ten rows.
func Narrow(first, rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, mssqlcdc.RecordSchema(NarrowColumns()))
	defer b.Release()
	b.Reserve(rows)
	statuses := []string{"new", "paid", "shipped", "delivered", "returned"}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	at := func(i int) array.Builder { return b.Field(mssqlcdc.FirstCaptured + i) }
	for n := first; n < first+rows; n++ {
		commit := NarrowLSN(n)
		seq, _ := mssqlcdc.LSNFromParts(7, int64(n)+1)
		b.Field(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinaryBuilder).Append(commit[:])
		b.Field(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinaryBuilder).Append(seq[:])
		b.Field(mssqlcdc.IdxOperation).(*array.Int32Builder).Append(int32(1 + n%4))
		b.Field(mssqlcdc.IdxCommandID).(*array.Int32Builder).Append(int32(n % 10))
		b.Field(mssqlcdc.IdxCommitTime).(*array.TimestampBuilder).Append(arrow.Timestamp(start + int64(n/10)*1000))
		at(0).(*array.Int64Builder).Append(int64(n))
		at(1).(*array.Int32Builder).Append(int32(n * 7919 % 100_000))
		at(2).(*array.StringBuilder).Append(statuses[n%len(statuses)])
		at(3).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(n * 37 % 1_000_000)))
		at(4).(*array.Int16Builder).Append(int16(n % 100))
		at(5).(*array.TimestampBuilder).Append(arrow.Timestamp(start + int64(n)*977))
		at(6).(*array.BooleanBuilder).Append(n%3 == 0)
		at(7).(*array.StringBuilder).Append(fmt.Sprintf("order note %d of customer %d", n, n*7919%100_000))
	}
	return b.NewRecordBatch()
}

// NarrowLSN is the commit LSN of row number n of the narrow shape.
func NarrowLSN(n int) mssqlcdc.LSN {
	lsn, _ := mssqlcdc.LSNFromParts(7, int64(n/10+1)<<16)
	return lsn
}
