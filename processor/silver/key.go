package silver

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// keyReader writes the keys of one batch as bytes: two have the same bytes if and only if
// they are equal, NULL to NULL, NaN to NaN and -0 to 0, as in package merge.
type keyReader struct {
	columns []arrow.Array
	append  []func(dst []byte, row int) []byte
}

// newKeyReader refuses types that have no equality.
func newKeyReader(rec arrow.RecordBatch, names []string) (*keyReader, error) {
	k := &keyReader{}
	for _, name := range names {
		at := columnOf(rec.Schema(), name)
		if at < 0 {
			return nil, fmt.Errorf("reading keys: there is no column %s", name)
		}
		appendValue, err := appender(rec.Column(at))
		if err != nil {
			return nil, fmt.Errorf("reading keys: column %s: %w", name, err)
		}
		k.columns, k.append = append(k.columns, rec.Column(at)), append(k.append, appendValue)
	}
	return k, nil
}

// of appends the key of a row.
func (k *keyReader) of(dst []byte, row int) []byte {
	for i, column := range k.columns {
		if column.IsNull(row) {
			dst = append(dst, 0)
			continue
		}
		dst = k.append[i](append(dst, 1), row)
	}
	return dst
}

// null is the index of a key column that is NULL in a row, -1 if none is.
func (k *keyReader) null(row int) int {
	for i, column := range k.columns {
		if column.NullN() > 0 && column.IsNull(row) {
			return i
		}
	}
	return -1
}

func appender(arr arrow.Array) (func([]byte, int) []byte, error) {
	switch a := arr.(type) {
	case *array.Int64:
		return fixed(a.Int64Values(), func(v int64) uint64 { return uint64(v) }), nil
	case *array.Int32:
		return fixed(a.Int32Values(), func(v int32) uint64 { return uint64(int64(v)) }), nil
	case *array.Int16:
		return fixed(a.Int16Values(), func(v int16) uint64 { return uint64(int64(v)) }), nil
	case *array.Int8:
		return fixed(a.Int8Values(), func(v int8) uint64 { return uint64(int64(v)) }), nil
	case *array.Date32:
		return fixed(a.Date32Values(), func(v arrow.Date32) uint64 { return uint64(int64(v)) }), nil
	case *array.Timestamp:
		return fixed(a.TimestampValues(), func(v arrow.Timestamp) uint64 { return uint64(v) }), nil
	case *array.Float64:
		return fixed(a.Float64Values(), floatBits), nil
	case *array.Float32:
		return fixed(a.Float32Values(), func(v float32) uint64 { return floatBits(float64(v)) }), nil
	case *array.Boolean:
		return func(dst []byte, row int) []byte {
			if a.Value(row) {
				return append(dst, 1)
			}
			return append(dst, 0)
		}, nil
	case *array.Decimal128:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			dst = binary.BigEndian.AppendUint64(dst, uint64(v.HighBits()))
			return binary.BigEndian.AppendUint64(dst, v.LowBits())
		}, nil
	case *array.String:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}, nil
	case *array.Binary:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}, nil
	}
	return nil, fmt.Errorf("values of type %s cannot be compared", arr.DataType())
}

func fixed[T any](values []T, bits func(T) uint64) func([]byte, int) []byte {
	return func(dst []byte, row int) []byte { return binary.BigEndian.AppendUint64(dst, bits(values[row])) }
}

func floatBits(v float64) uint64 {
	switch {
	case v == 0:
		v = 0 // of -0, too
	case math.IsNaN(v):
		v = math.NaN()
	}
	return math.Float64bits(v)
}
