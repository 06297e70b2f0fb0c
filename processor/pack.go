package processor

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// pack makes a record of the rows that are left: the old schema and a column for
// each field that a processor added.
func pack(batch *mssqlcdc.RecordBatch, rows []survivor) (arrow.RecordBatch, error) {
	old := batch.Record()
	added, err := addedFields(old.Schema(), rows)
	if err != nil {
		return nil, err
	}
	fields := append(old.Schema().Fields(), added...)
	schema := arrow.NewSchema(fields, nil)
	builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
	if err != nil {
		return nil, err
	}
	position := metadataReader(old)
	for _, row := range rows {
		for i := range mssqlcdc.FirstCaptured {
			if err := builder.Set(i, position(row.number, i)); err != nil {
				return nil, err
			}
		}
		for i := mssqlcdc.FirstCaptured; i < len(fields); i++ {
			if err := builder.Set(i, row.body[fields[i].Name]); err != nil {
				return nil, fmt.Errorf("row %d: %w", row.number, err)
			}
		}
	}
	return builder.NewRecord(), nil
}

// metadataReader reads the metadata columns as the row builder takes them.
func metadataReader(record arrow.RecordBatch) func(row, column int) any {
	binary := func(column int) func(int) any {
		values := record.Column(column).(*array.FixedSizeBinary)
		return func(i int) any { return values.Value(i) }
	}
	integer := func(column int) func(int) any {
		values := record.Column(column).(*array.Int32)
		return func(i int) any { return int64(values.Value(i)) }
	}
	commit := record.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp)
	readers := [mssqlcdc.FirstCaptured]func(int) any{
		mssqlcdc.IdxStartLSN:   binary(mssqlcdc.IdxStartLSN),
		mssqlcdc.IdxSeqVal:     binary(mssqlcdc.IdxSeqVal),
		mssqlcdc.IdxOperation:  integer(mssqlcdc.IdxOperation),
		mssqlcdc.IdxCommandID:  integer(mssqlcdc.IdxCommandID),
		mssqlcdc.IdxCommitTime: func(i int) any { return time.UnixMicro(int64(commit.Value(i))) },
	}
	return func(row, column int) any {
		if record.Column(column).IsNull(row) {
			return nil
		}
		return readers[column](row)
	}
}

// addedFields are the fields that no column has, typed by their values, in the
// order of their names. A field that is null in every row has no type yet and is
// left out: the column appears with its first value.
func addedFields(schema *arrow.Schema, rows []survivor) ([]arrow.Field, error) {
	types := map[string]arrow.DataType{}
	for _, row := range rows {
		for name, value := range row.body {
			if schema.HasField(name) || value == nil {
				continue
			}
			t := typeOf(value)
			if t == nil {
				return nil, fmt.Errorf("row %d: added field %q is a %T, which no column can hold", row.number, name, value)
			}
			if before, ok := types[name]; ok && !arrow.TypeEqual(before, t) {
				if t = wider(before, t); t == nil {
					return nil, fmt.Errorf("row %d: added field %q is a %T here and was a %s before: give it one type in the mapping", row.number, name, value, before)
				}
			}
			types[name] = t
		}
	}
	var fields []arrow.Field
	for name, t := range types {
		fields = append(fields, arrow.Field{Name: name, Type: t, Nullable: true})
	}
	slices.SortFunc(fields, func(a, b arrow.Field) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return fields, nil
}

func typeOf(value any) arrow.DataType {
	switch v := value.(type) {
	case bool:
		return arrow.FixedWidthTypes.Boolean
	case int, int32, int64, uint64:
		return arrow.PrimitiveTypes.Int64
	case float32, float64:
		return arrow.PrimitiveTypes.Float64
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return arrow.PrimitiveTypes.Int64
		}
		return arrow.PrimitiveTypes.Float64
	case string, map[string]any, []any:
		return arrow.BinaryTypes.String
	case []byte:
		return arrow.BinaryTypes.Binary
	case time.Time:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	}
	return nil
}

// wider joins an integer and a float: a mapping that divides gives both.
func wider(a, b arrow.DataType) arrow.DataType {
	number := func(t arrow.DataType) bool { return t.ID() == arrow.INT64 || t.ID() == arrow.FLOAT64 }
	if number(a) && number(b) {
		return arrow.PrimitiveTypes.Float64
	}
	return nil
}
