package data

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Layouts of partition values of times: the section "Partition Value Serialization" of
// the Delta protocol. A Timestamp is written as an instant.
const (
	layoutInstant  = "2006-01-02T15:04:05.000000Z"
	layoutNTZ      = "2006-01-02 15:04:05"
	layoutNTZMicro = "2006-01-02 15:04:05.000000"
)

// formatPartitionValue is the value of a row, which is not NULL, in the form of the log.
func formatPartitionValue(t schema.Type, arr arrow.Array, i int) (string, error) {
	switch a := arr.(type) {
	case *array.Dictionary:
		return formatPartitionValue(t, a.Dictionary(), a.GetValueIndex(i))
	case *array.String:
		return formatText(a.Value(i))
	case *array.LargeString:
		return formatText(a.Value(i))
	case *array.Int8:
		return strconv.Itoa(int(a.Value(i))), nil
	case *array.Int16:
		return strconv.Itoa(int(a.Value(i))), nil
	case *array.Int32:
		return strconv.Itoa(int(a.Value(i))), nil
	case *array.Int64:
		return strconv.FormatInt(a.Value(i), 10), nil
	case *array.Float32:
		return formatFloat(float64(a.Value(i)), 32), nil
	case *array.Float64:
		return formatFloat(a.Value(i), 64), nil
	case *array.Boolean:
		return strconv.FormatBool(a.Value(i)), nil
	case *array.Decimal128:
		return a.Value(i).ToString(int32(t.(schema.Decimal).Scale)), nil
	case *array.Date32:
		days := int64(a.Value(i))
		if days < firstDay || days > lastDay {
			return "", fmt.Errorf("a date outside of the years 1 to 9999 cannot be a partition value")
		}
		return formatDate(days), nil
	case *array.Timestamp:
		return formatTimestamp(t, int64(a.Value(i)))
	default:
		return "", fmt.Errorf("%s cannot be a partition value", arr.DataType())
	}
}

func formatText(s string) (string, error) {
	if s == "" {
		return "", errors.New("the empty string cannot be a partition value, since Delta readers take it for NULL: map it to another value")
	}
	if s == hiveNull {
		return "", fmt.Errorf("%q cannot be a partition value, since it stands for NULL in the name of a directory: map it to another value", s)
	}
	return strings.Clone(s), nil
}

func formatFloat(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	text := strconv.FormatFloat(f, 'g', -1, bits)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func formatTimestamp(t schema.Type, micro int64) (string, error) {
	if days := floorDiv(micro, dayMilli*1000); days < firstDay || days > lastDay {
		return "", fmt.Errorf("a time outside of the years 1 to 9999 cannot be a partition value")
	}
	at := time.UnixMicro(micro).UTC()
	switch {
	case t == schema.Timestamp:
		return at.Format(layoutInstant), nil
	case micro%1e6 == 0:
		return at.Format(layoutNTZ), nil
	default:
		return at.Format(layoutNTZMicro), nil
	}
}

// partitionArray is n rows of one partition value in the form of the log; nil and "" are
// NULL. A timestamp without a zone is taken as UTC.
func partitionArray(mem memory.Allocator, t schema.Type, text *string, n int) (arrow.Array, error) {
	at := schema.ArrowType(t)
	if text == nil || *text == "" {
		return array.MakeArrayOfNull(mem, at, n), nil
	}
	v, err := scalar.Parse(t, *text)
	if err != nil {
		return nil, fmt.Errorf("partition value %w", err)
	}
	b := array.NewBuilder(mem, at)
	defer b.Release()
	b.Reserve(n)
	for range n {
		appendScalar(b, v)
	}
	return b.NewArray(), nil
}

// appendScalar appends a value to the builder of its type.
func appendScalar(builder array.Builder, v scalar.Value) {
	switch b := builder.(type) {
	case *array.StringBuilder:
		b.Append(v.Text)
	case *array.BinaryBuilder:
		b.AppendString(v.Text)
	case *array.BooleanBuilder:
		b.Append(v.Int != 0)
	case *array.Int8Builder:
		b.Append(int8(v.Int))
	case *array.Int16Builder:
		b.Append(int16(v.Int))
	case *array.Int32Builder:
		b.Append(int32(v.Int))
	case *array.Int64Builder:
		b.Append(v.Int)
	case *array.Float32Builder:
		b.Append(float32(v.Float))
	case *array.Float64Builder:
		b.Append(v.Float)
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.Int))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.Int))
	case *array.Decimal128Builder:
		b.Append(v.Decimal)
	}
}
