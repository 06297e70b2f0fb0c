package main

import (
	"encoding/hex"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// The rows of the benchmark: 12 columns of a change table, every value a function of the row's number, so that any
// program can make the same ones. rows_test.go has their digest.

const (
	firstCommit = 1767225600000000 // 2026-01-01T00:00:00Z in microseconds

	// mergeTarget is how many rows the target of the merges has, and firstMerged the number of the source's first row.
	mergeTarget = 1_000_000
	firstMerged = 10_000_000
)

func tableSchema() *schema.Struct {
	s := &schema.Struct{}
	for _, f := range []struct {
		name string
		typ  schema.Type
	}{
		{"start_lsn", schema.String},
		{"seqval", schema.String},
		{"operation", schema.Integer},
		{"commit_time", schema.Timestamp},
		{"table_name", schema.String},
		{"position", schema.Long},
		{"id", schema.Long},
		{"status", schema.String},
		{"region", schema.String},
		{"amount", schema.Decimal{Precision: 18, Scale: 2}},
		{"updated_at", schema.Timestamp},
		{"note", schema.String},
	} {
		s.Fields = append(s.Fields, schema.Field{Name: f.name, Type: f.typ, Nullable: f.name == "note"})
	}
	return s
}

// mix is the output function of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// draw is the random number of row i for column k, counted from 1.
func draw(i, k uint64) uint64 { return mix(i*16 + k) }

// words picks one of the words of a column.
func words(column int, n uint64) string {
	switch column {
	case 5:
		return [...]string{"dbo.orders", "dbo.order_lines", "dbo.customers", "dbo.payments"}[n%4]
	case 8:
		return [...]string{"NEW", "PAID", "PACKED", "SHIPPED", "CLOSED"}[n%5]
	default:
		return [...]string{"north", "south", "east", "west", "emea", "apac", "amer", "latam"}[n%8]
	}
}

// appendHex appends the low digits of x in upper-case hex.
func appendHex(b []byte, x uint64, digits int) []byte {
	for d := digits - 1; d >= 0; d-- {
		b = append(b, "0123456789ABCDEF"[x>>(4*d)&15])
	}
	return b
}

func appendLSN(b []byte, block, slot uint64) []byte {
	b = append(b, "0x0000002A"...)
	return appendHex(appendHex(b, block, 8), slot, 4)
}

// note is the text of the last column; nil is NULL.
func note(b []byte, q uint64) []byte {
	if q%2 == 1 {
		return nil
	}
	var raw [16]byte
	for i, half := range []uint64{mix(q), mix(q + 1)} {
		for j := range 8 {
			raw[8*i+j] = byte(half >> (56 - 8*j))
		}
	}
	return hex.AppendEncode(b, raw[:])[:8+(q>>1)%24]
}

// makeRows makes rows first, first+1 … as one batch. ids, if not nil, gives column id by the row's place in the batch.
func makeRows(first, count int, ids func(j int) int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, tableSchema().Arrow())
	defer b.Release()
	b.Reserve(count)
	text := func(column int) *array.StringBuilder { return b.Field(column - 1).(*array.StringBuilder) }
	long := func(column int, v int64) { b.Field(column - 1).(*array.Int64Builder).Append(v) }
	var scratch [64]byte
	for j := range count {
		i := uint64(first + j)
		t := i / 10
		commit := int64(firstCommit + t*10000)
		text(1).BinaryBuilder.Append(appendLSN(scratch[:0], 16*t, 3))
		text(2).BinaryBuilder.Append(appendLSN(scratch[:0], 16*t+1+i%10, 1+i%10))
		b.Field(2).(*array.Int32Builder).Append(int32(1 + draw(i, 3)%4))
		b.Field(3).(*array.TimestampBuilder).Append(arrow.Timestamp(commit))
		text(5).Append(words(5, draw(i, 5)))
		long(6, int64(i))
		id := int64(i)
		if ids != nil {
			id = ids(j)
		}
		long(7, id)
		text(8).Append(words(8, draw(i, 8)))
		text(9).Append(words(9, draw(i, 9)))
		b.Field(9).(*array.Decimal128Builder).Append(decimal128.FromU64(draw(i, 10) % 10_000_000))
		b.Field(10).(*array.TimestampBuilder).Append(arrow.Timestamp(commit - int64(draw(i, 11)%60_000_000)))
		if n := note(scratch[:0], draw(i, 12)); n == nil {
			text(12).AppendNull()
		} else {
			text(12).BinaryBuilder.Append(n)
		}
	}
	return b.NewRecordBatch()
}

// mergeSource is a batch of which the even rows have ids of the target, evenly spread, and the odd ones new ids.
func mergeSource(count int) arrow.RecordBatch {
	return makeRows(firstMerged, count, func(j int) int64 {
		if j%2 == 0 {
			return int64(j / 2 * (mergeTarget / (count / 2)))
		}
		return int64(mergeTarget + j/2)
	})
}
