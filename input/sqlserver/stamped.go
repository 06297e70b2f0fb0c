package sqlserver

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// stamped puts the metadata columns of snapshot rows in front of captured columns.
type stamped struct {
	schema  *arrow.Schema
	head    Head
	columns []arrow.Array // of the record before; most parts are equally long
	rows    int64
}

// record is the captured columns with the metadata columns.
func (s *stamped) record(captured arrow.RecordBatch) arrow.RecordBatch {
	if s.rows != captured.NumRows() || s.columns == nil {
		s.rows, s.columns = captured.NumRows(), metadataColumns(s.schema, s.head, int(captured.NumRows()))
	}
	columns := append(s.columns[:len(s.columns):len(s.columns)], captured.Columns()...)
	return array.NewRecordBatch(s.schema, columns, captured.NumRows())
}

// metadataColumns are those of so many snapshot rows: all were read at one position of the log.
func metadataColumns(schema *arrow.Schema, head Head, rows int) []arrow.Array {
	columns := make([]arrow.Array, mssqlcdc.FirstCaptured)
	for i := range columns {
		builder := array.NewBuilder(memory.DefaultAllocator, schema.Field(i).Type)
		builder.Reserve(rows)
		for range rows {
			appendStamp(builder, i, head)
		}
		columns[i] = builder.NewArray()
		builder.Release()
	}
	return columns
}

func appendStamp(builder array.Builder, column int, head Head) {
	switch b := builder.(type) {
	case *array.FixedSizeBinaryBuilder:
		if column == mssqlcdc.IdxStartLSN {
			b.Append(head.LSN[:])
			return
		}
	case *array.Int32Builder:
		if column == mssqlcdc.IdxOperation {
			b.Append(int32(mssqlcdc.Read))
			return
		}
	case *array.TimestampBuilder:
		if !head.Time.IsZero() {
			b.Append(arrow.Timestamp(head.Time.UnixMicro()))
			return
		}
	}
	builder.AppendNull()
}
