package mssqlcdc

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Rows yields the columns from first on of every row as a new object. The
// values are those that Bloblang knows: nil, bool, int64, float64, string,
// time.Time (UTC) and []byte. Decimals are canonical strings, dates
// YYYY-MM-DD; a column of a type without such a form is its Arrow text.
func Rows(record arrow.RecordBatch, first int) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		read := RowReader(record, first)
		for row := range int(record.NumRows()) {
			if !yield(read(row)) {
				return
			}
		}
	}
}

// RowReader gives the function that makes the object of one row, as [Rows] does
// for all.
func RowReader(record arrow.RecordBatch, first int) func(row int) map[string]any {
	columns := record.Columns()[first:]
	schema := record.Schema()
	names := make([]string, len(columns))
	readers := make([]func(int) any, len(columns))
	for i, column := range columns {
		names[i] = schema.Field(first + i).Name
		readers[i] = rowReader(column)
	}
	return func(row int) map[string]any {
		object := make(map[string]any, len(columns))
		for i, read := range readers {
			if columns[i].IsNull(row) {
				object[names[i]] = nil
				continue
			}
			object[names[i]] = read(row)
		}
		return object
	}
}

// rowReader gives the function that reads one valid value of a column.
func rowReader(column arrow.Array) func(row int) any {
	switch a := column.(type) {
	case *array.Boolean:
		return func(i int) any { return a.Value(i) }
	case *array.Int8:
		return func(i int) any { return int64(a.Value(i)) }
	case *array.Int16:
		return func(i int) any { return int64(a.Value(i)) }
	case *array.Int32:
		return func(i int) any { return int64(a.Value(i)) }
	case *array.Int64:
		return func(i int) any { return a.Value(i) }
	case *array.Float32:
		return func(i int) any { return shortest(a.Value(i)) }
	case *array.Float64:
		return func(i int) any { return a.Value(i) }
	case *array.String:
		return func(i int) any { return a.Value(i) }
	case *array.Binary:
		return func(i int) any { return append([]byte{}, a.Value(i)...) }
	case *array.FixedSizeBinary:
		return func(i int) any { return append([]byte{}, a.Value(i)...) }
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(i int) any { return FormatDecimal(a.Value(i), scale) }
	case *array.Date32:
		return func(i int) any { return a.Value(i).ToTime().Format(time.DateOnly) }
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType).Unit
		return func(i int) any { return a.Value(i).ToTime(unit).UTC() }
	}
	return func(i int) any { return column.ValueStr(i) }
}

// shortest widens a real by its shortest decimal text, so that 0.1 stays 0.1
// and does not become 0.10000000149011612.
func shortest(v float32) float64 {
	wide, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil {
		return float64(v)
	}
	return wide
}

// FormatDecimal writes a decimal as plain text with exactly scale digits after
// the point.
func FormatDecimal(v decimal128.Num, scale int32) string {
	n := int64(v.LowBits())
	if v.HighBits() != n>>63 || n == math.MinInt64 || scale < 0 || scale > maxScale {
		return v.ToString(scale)
	}
	return formatDecimal64(n, int(scale))
}

// maxScale is that of SQL Server's decimals, and of Delta's.
const maxScale = 38

// formatDecimal64 is FormatDecimal of an unscaled number of 64 bits, which most are.
func formatDecimal64(unscaled int64, scale int) string {
	var buf [3 + maxScale + 20]byte // sign, 0, point
	end := len(buf)
	rest := max(unscaled, -unscaled)
	for digits := 0; digits <= scale || rest > 0; digits++ {
		if digits == scale && scale > 0 {
			end--
			buf[end] = '.'
		}
		end--
		buf[end] = byte('0' + rest%10)
		rest /= 10
	}
	if unscaled < 0 {
		end--
		buf[end] = '-'
	}
	return string(buf[end:])
}

// jsonRow replaces the values that JSON has no form for.
func jsonRow(row map[string]any) map[string]any {
	for name, value := range row {
		f, ok := value.(float64)
		if ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			row[name] = fmt.Sprint(f)
		}
	}
	return row
}

// RowBuilder packs rows into a record of a fixed schema. It is not safe for
// concurrent use.
type RowBuilder struct {
	fields  []arrow.Field
	builder *array.RecordBuilder
	append  []func(value any) error
	null    []func()
}

// NewRowBuilder makes a builder for records of the schema. Types that Rows does
// not produce are an error that names the column.
func NewRowBuilder(schema *arrow.Schema, builder *array.RecordBuilder) (*RowBuilder, error) {
	b := &RowBuilder{fields: schema.Fields(), builder: builder}
	for i, field := range b.fields {
		appendValue, err := rowAppender(builder.Field(i), field)
		if err != nil {
			return nil, err
		}
		b.append, b.null = append(b.append, appendValue), append(b.null, builder.Field(i).AppendNull)
	}
	return b, nil
}

// Set appends a value to column i: what Rows yields, and what reads as the
// column's type without loss. The error names the column and both types. Call it
// once per column and row.
func (b *RowBuilder) Set(i int, value any) error {
	if value == nil {
		if !b.fields[i].Nullable {
			return fmt.Errorf("column %q must not be null", b.fields[i].Name)
		}
		b.null[i]()
		return nil
	}
	if err := b.append[i](value); err != nil {
		return fmt.Errorf("column %q: %w", b.fields[i].Name, err)
	}
	return nil
}

// NewRecord hands out the rows since the last call and starts anew.
func (b *RowBuilder) NewRecord() arrow.RecordBatch { return b.builder.NewRecordBatch() }
