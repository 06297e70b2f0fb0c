package mssqlcdc

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// rowAppender gives the function that appends one non-null value to a builder.
func rowAppender(builder array.Builder, field arrow.Field) (func(any) error, error) {
	switch b := builder.(type) {
	case *array.BooleanBuilder:
		return func(v any) error { return appendAs(v, asBool, b.Append) }, nil
	case *array.Int8Builder:
		return integerAppender(math.MinInt8, math.MaxInt8, func(n int64) { b.Append(int8(n)) }), nil
	case *array.Int16Builder:
		return integerAppender(math.MinInt16, math.MaxInt16, func(n int64) { b.Append(int16(n)) }), nil
	case *array.Int32Builder:
		return integerAppender(math.MinInt32, math.MaxInt32, func(n int64) { b.Append(int32(n)) }), nil
	case *array.Int64Builder:
		return integerAppender(math.MinInt64, math.MaxInt64, b.Append), nil
	case *array.Float32Builder:
		return func(v any) error { return appendAs(v, asFloat, func(f float64) { b.Append(float32(f)) }) }, nil
	case *array.Float64Builder:
		return func(v any) error { return appendAs(v, asFloat, b.Append) }, nil
	case *array.StringBuilder:
		return func(v any) error { return appendAs(v, asText, b.Append) }, nil
	case *array.BinaryBuilder:
		return func(v any) error { return appendAs(v, asBytes, b.Append) }, nil
	case *array.FixedSizeBinaryBuilder:
		width := b.Type().(*arrow.FixedSizeBinaryType).ByteWidth
		return func(v any) error { return appendFixed(v, width, b) }, nil
	case *array.Decimal128Builder:
		typ := b.Type().(*arrow.Decimal128Type)
		return func(v any) error { return appendDecimal(v, typ, b) }, nil
	case *array.Date32Builder:
		return func(v any) error {
			return appendAs(v, asDate, func(t time.Time) { b.Append(arrow.Date32FromTime(t)) })
		}, nil
	case *array.TimestampBuilder:
		unit := b.Type().(*arrow.TimestampType).Unit
		return func(v any) error { return appendTimestamp(v, unit, b) }, nil
	}
	return nil, fmt.Errorf("column %q: rows cannot hold the type %s", field.Name, field.Type)
}

func appendAs[T any](v any, convert func(any) (T, error), add func(T)) error {
	converted, err := convert(v)
	if err != nil {
		return err
	}
	add(converted)
	return nil
}

func integerAppender(low, high int64, add func(int64)) func(any) error {
	return func(v any) error {
		n, err := asInt(v)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("%d does not fit into [%d, %d]", n, low, high)
		}
		add(n)
		return nil
	}
}

func asBool(v any) (bool, error) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	return false, typeError(v, "a boolean")
}

func asInt(v any) (int64, error) {
	switch n := v.(type) {
	case int64:
		return n, nil
	case int:
		return int64(n), nil
	case int32:
		return int64(n), nil
	case uint64:
		if n > math.MaxInt64 {
			return 0, fmt.Errorf("%d does not fit into 64 bits with sign", n)
		}
		return int64(n), nil
	case float64:
		// Bloblang arithmetic turns integers into floats; above 2^53 a float no
		// longer says which integer was meant.
		if n != math.Trunc(n) || math.Abs(n) > 1<<53 {
			return 0, fmt.Errorf("%v is not a whole number that a float holds exactly", n)
		}
		return int64(n), nil
	case json.Number:
		whole, err := strconv.ParseInt(n.String(), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s is not a whole number of 64 bits", n)
		}
		return whole, nil
	}
	return 0, typeError(v, "a whole number")
}

func asFloat(v any) (float64, error) {
	switch n := v.(type) {
	case float64:
		return n, nil
	case float32:
		return float64(n), nil
	case int64:
		return float64(n), nil
	case int:
		return float64(n), nil
	case json.Number:
		f, err := n.Float64()
		if err != nil {
			return 0, fmt.Errorf("%s is not a number: %w", n, err)
		}
		return f, nil
	}
	return 0, typeError(v, "a number")
}

func asText(v any) (string, error) {
	switch s := v.(type) {
	case string:
		return s, nil
	case []byte:
		return string(s), nil
	case json.Number:
		return s.String(), nil
	case bool, int, int32, int64, uint64, float64:
		return fmt.Sprint(s), nil
	case time.Time:
		return s.Format(time.RFC3339Nano), nil
	case map[string]any, []any:
		text, err := json.Marshal(s)
		if err != nil {
			return "", fmt.Errorf("writing a value as JSON: %w", err)
		}
		return string(text), nil
	}
	return "", typeError(v, "a text")
}

// asBytes takes text as base64, which is how JSON carries bytes.
func asBytes(v any) ([]byte, error) {
	switch b := v.(type) {
	case []byte:
		return b, nil
	case string:
		raw, err := base64.StdEncoding.DecodeString(b)
		if err != nil {
			return nil, fmt.Errorf("the text is not base64: %w", err)
		}
		return raw, nil
	}
	return nil, typeError(v, "bytes")
}

func appendFixed(v any, width int, b *array.FixedSizeBinaryBuilder) error {
	raw, err := asBytes(v)
	if err != nil {
		return err
	}
	if len(raw) != width {
		return fmt.Errorf("%d bytes, want %d", len(raw), width)
	}
	b.Append(raw)
	return nil
}

func appendDecimal(v any, typ *arrow.Decimal128Type, b *array.Decimal128Builder) error {
	var text string
	switch n := v.(type) {
	case string:
		text = n
	case json.Number:
		text = n.String()
	case int64, int:
		text = fmt.Sprint(n)
	case float64:
		text = strconv.FormatFloat(n, 'f', -1, 64)
	default:
		return typeError(v, typ.String())
	}
	unscaled, err := ParseDecimal(text, typ.Precision, typ.Scale)
	if err != nil {
		return err
	}
	b.Append(unscaled)
	return nil
}

// ParseDecimal reads a plain decimal text exactly. Digits that the precision or
// the scale cannot hold are an error, not a rounding.
func ParseDecimal(text string, precision, scale int32) (decimal128.Num, error) {
	n, err := exactDecimal(text, scale)
	if err != nil {
		return decimal128.Num{}, fmt.Errorf("%q as decimal(%d,%d): %w", text, precision, scale, err)
	}
	if !n.FitsInPrecision(precision) {
		return decimal128.Num{}, fmt.Errorf("%q does not fit into decimal(%d,%d)", text, precision, scale)
	}
	return n, nil
}

func asDate(v any) (time.Time, error) {
	switch d := v.(type) {
	case time.Time:
		return d, nil
	case string:
		t, err := time.Parse(time.DateOnly, d)
		if err != nil {
			return time.Time{}, fmt.Errorf("%q is not a date YYYY-MM-DD", d)
		}
		return t, nil
	}
	return time.Time{}, typeError(v, "a date")
}

func appendTimestamp(v any, unit arrow.TimeUnit, b *array.TimestampBuilder) error {
	var t time.Time
	switch d := v.(type) {
	case time.Time:
		t = d
	case string:
		parsed, err := time.Parse(time.RFC3339Nano, d)
		if err != nil {
			return fmt.Errorf("%q is not a time of RFC 3339", d)
		}
		t = parsed
	default:
		return typeError(v, "a time")
	}
	stamp, err := arrow.TimestampFromTime(t.UTC(), unit)
	if err != nil {
		return fmt.Errorf("time %s: %w", t, err)
	}
	b.Append(stamp)
	return nil
}

func typeError(v any, want string) error { return fmt.Errorf("a value of type %T, want %s", v, want) }
