package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// tableFiles is how many files, of ranges of keys, the table has before the changes.
const tableFiles = 10

// batchRows is how many rows are made at a time, perCommit how many of them one transaction of the source has.
const (
	batchRows = 10_000
	perCommit = 10
)

// bronzeSchema is that of a table of orders as the output makes it.
func bronzeSchema() *schema.Struct {
	s := &schema.Struct{}
	for _, f := range []struct {
		name string
		typ  schema.Type
	}{
		{mssqlcdc.ColCaptureInstance, schema.String},
		{mssqlcdc.ColStartLSN, schema.String},
		{mssqlcdc.ColSeqVal, schema.String},
		{mssqlcdc.ColOperation, schema.Integer},
		{mssqlcdc.ColCommandID, schema.Integer},
		{mssqlcdc.ColCommitTime, schema.TimestampNTZ},
		{"id", schema.Long},
		{"customer", schema.Integer},
		{"status", schema.String},
		{"currency", schema.String},
		{"total", schema.Decimal{Precision: 18, Scale: 2}},
		{"updated_at", schema.TimestampNTZ},
		{"note", schema.String},
		{mssqlcdc.ColBatchID, schema.Long},
	} {
		s.Fields = append(s.Fields, schema.Field{Name: f.name, Type: f.typ, Nullable: true})
	}
	return s
}

// bronze is a table of changes that is being made; the values are a function of the number of the change.
type bronze struct {
	table   *delta.Table
	changes int64 // made so far
	batch   int64
}

func newBronze(ctx context.Context, dir string) (*bronze, error) {
	st, err := file.New(dir)
	if err != nil {
		return nil, err
	}
	table, err := delta.Create(ctx, st, delta.Spec{Schema: bronzeSchema(), Properties: map[string]string{
		mssqlcdc.PropKeyColumns: mssqlcdc.EncodeKeyColumns([]string{"id"}), mssqlcdc.PropSourceTable: "dbo.orders",
	}}, delta.Options{})
	return &bronze{table: table}, err
}

// write commits changes as one window, whose keys are given by their place in it.
func (b *bronze) write(ctx context.Context, op mssqlcdc.Operation, count int, key func(i int) int64) error {
	b.batch++
	w, err := b.table.NewWriter(ctx, data.WriterOptions{})
	if err != nil {
		return err
	}
	for first := 0; first < count; first += batchRows {
		rec := b.rows(op, min(batchRows, count-first), func(i int) int64 { return key(first + i) })
		err := w.Write(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	adds, err := w.Close()
	if err != nil {
		return err
	}
	_, err = b.table.Commit(ctx, delta.Change{Operation: delta.OpStreamingWrite, Add: adds, BlindAppend: true, ReadVersion: b.table.Snapshot().Version()})
	return err
}

func (b *bronze) rows(op mssqlcdc.Operation, count int, key func(i int) int64) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, bronzeSchema().Arrow())
	defer builder.Release()
	builder.Reserve(count)
	text := func(column int, s string) { builder.Field(column).(*array.StringBuilder).Append(s) }
	integer := func(column int, v int32) { builder.Field(column).(*array.Int32Builder).Append(v) }
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for i := range count {
		n := b.changes
		b.changes++
		id, random := key(i), rand.New(rand.NewPCG(uint64(n), 7)).Uint64()
		at := arrow.Timestamp(begin + n/perCommit*10_000)
		text(0, "dbo_orders")
		text(1, lsn(n/perCommit).String())
		text(2, fmt.Sprintf("0x%020X", n))
		integer(3, int32(op))
		integer(4, int32(n%perCommit)+1)
		builder.Field(5).(*array.TimestampBuilder).Append(at)
		builder.Field(6).(*array.Int64Builder).Append(id)
		integer(7, int32(random%100_000))
		text(8, [...]string{"new", "paid", "packed", "shipped", "closed"}[random>>20%5])
		text(9, [...]string{"EUR", "USD", "CHF"}[random>>24%3])
		builder.Field(10).(*array.Decimal128Builder).Append(decimal128.FromU64(random >> 30 % 10_000_000))
		builder.Field(11).(*array.TimestampBuilder).Append(at - arrow.Timestamp(random%1_000_000))
		if random>>40%2 == 0 {
			builder.Field(12).AppendNull()
		} else {
			text(12, fmt.Sprintf("%016x", random)[:8+random>>50%8])
		}
		builder.Field(13).(*array.Int64Builder).Append(b.batch)
	}
	return builder.NewRecordBatch()
}

// lsn is the commit LSN of a transaction, by its number.
func lsn(n int64) (l mssqlcdc.LSN) {
	binary.BigEndian.PutUint64(l[2:], uint64(n)+1)
	return l
}

// random are keys below a number, the same ones each time.
func random(of int) func(int) int64 {
	rng := rand.New(rand.NewPCG(1, 1))
	return func(int) int64 { return rng.Int64N(int64(of)) }
}
