package reconcile

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkCompare is what a comparison costs beside reading: digests of 8 columns on both sides, piles and the join.
func BenchmarkCompare(b *testing.B) {
	const rows = 16_384
	fields := []arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "customer", Type: arrow.PrimitiveTypes.Int32}, {Name: "sku", Type: arrow.BinaryTypes.String}, {Name: "currency", Type: arrow.BinaryTypes.String},
		{Name: "amount", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}}, {Name: "created", Type: &arrow.TimestampType{Unit: arrow.Microsecond}}, {Name: "note", Type: arrow.BinaryTypes.String}, {Name: "flag", Type: arrow.FixedWidthTypes.Boolean},
	}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for i := range int64(rows) {
		builder.Field(0).(*array.Int64Builder).Append(i)
		builder.Field(1).(*array.Int32Builder).Append(int32(i % 1000))
		builder.Field(2).(*array.StringBuilder).Append(fmt.Sprint("SKU-", i%5000))
		builder.Field(3).(*array.StringBuilder).Append("EUR")
		builder.Field(4).(*array.Decimal128Builder).Append(decimal128.FromI64(i))
		builder.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(i))
		builder.Field(6).(*array.StringBuilder).AppendNull()
		builder.Field(7).(*array.BooleanBuilder).Append(i%2 == 0)
	}
	rec := builder.NewRecordBatch()
	p := &plan{}
	for i, f := range fields {
		common, _ := formOf(f.Type)
		p.columns = append(p.columns, column{name: f.Name, target: f.Name, key: i == 0, form: common})
	}
	b.ReportAllocs()
	for b.Loop() {
		var room atomic.Int64
		room.Store(DefaultMemory)
		j := join{
			kind: Bronze, partitions: 256, buckets: []*bucket{{}}, outside: &tally{},
			source: newPile(sourceWidth, 256, "", &room), target: newPile(targetWidth, 256, "", &room), changes: newPile(changeWidth, 256, "", &room),
		}
		var source, target []byte
		d, err := p.bind(rec, ofSource, true)
		if err != nil {
			b.Fatal(err)
		}
		for row := range rows {
			source = appendSource(source, d.key(row), 0, passRows, d.value(row))
		}
		for row := range rows {
			target = appendTarget(target, d.key(row), rank{}, d.value(row))
		}
		if err := j.source.add(source); err != nil {
			b.Fatal(err)
		}
		if err := j.target.add(target); err != nil {
			b.Fatal(err)
		}
		if err := j.run(b.Context(), func(finding) { b.Error("a difference") }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
