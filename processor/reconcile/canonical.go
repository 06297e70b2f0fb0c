package reconcile

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// class is what kind of value a column is compared as; see the package comment for the rules.
type class int

const (
	asBool class = iota + 1
	asInteger
	asFloat32
	asFloat64
	asDecimal
	asDate
	asTimestamp
	asInstant
	asText
	asBinary
)

// form is the canonical form of a column. It is chosen for the types of both sides together, so that equal values are equal
// bytes.
type form struct {
	class class
	scale int32 // of asDecimal
}

const microsPerDay = 24 * 60 * 60 * 1_000_000

// formOf is the form of values of one type; false for types that are not compared.
func formOf(t arrow.DataType) (form, bool) {
	switch t := t.(type) {
	case *arrow.Decimal128Type:
		return form{class: asDecimal, scale: t.Scale}, true
	case *arrow.TimestampType:
		if t.Unit != arrow.Microsecond {
			return form{}, false
		}
		if t.TimeZone == "" {
			return form{class: asTimestamp}, true
		}
		return form{class: asInstant}, true
	}
	switch t.ID() {
	case arrow.BOOL:
		return form{class: asBool}, true
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		return form{class: asInteger}, true
	case arrow.FLOAT32:
		return form{class: asFloat32}, true
	case arrow.FLOAT64:
		return form{class: asFloat64}, true
	case arrow.DATE32:
		return form{class: asDate}, true
	case arrow.STRING:
		return form{class: asText}, true
	case arrow.BINARY, arrow.FIXED_SIZE_BINARY:
		return form{class: asBinary}, true
	}
	return form{}, false
}

// commonForm is the form in which values of two types can be compared: the wider of them, where one widens into the other as
// Delta tables widen. False if they cannot.
func commonForm(a, b arrow.DataType) (form, bool) {
	x, okX := formOf(a)
	y, okY := formOf(b)
	if !okX || !okY {
		return form{}, false
	}
	if x.class > y.class {
		x, y, a = y, x, b
	}
	switch {
	case x.class == y.class:
		return form{class: x.class, scale: max(x.scale, y.scale)}, true
	case x.class == asInteger && y.class == asDecimal, x.class == asDate && y.class == asTimestamp, x.class == asFloat32 && y.class == asFloat64:
		return y, true
	case x.class == asInteger && y.class == asFloat64 && a.ID() != arrow.INT64:
		return y, true // a double holds every int of 32 bits
	}
	return form{}, false
}

// appender adds the canonical bytes of one valid value.
type appender func(dst []byte, row int) []byte

// encoder gives the canonical bytes of a column: a byte for NULL or not, then the value; of what has no fixed width, its
// length first.
func (f form) encoder(column arrow.Array) (appender, error) {
	value := f.values(column)
	if value == nil {
		return nil, fmt.Errorf("values of type %s cannot be compared", column.DataType())
	}
	return func(dst []byte, row int) []byte {
		if column.IsNull(row) {
			return append(dst, 0)
		}
		return value(append(dst, 1), row)
	}, nil
}

func (f form) values(column arrow.Array) appender {
	switch f.class {
	case asBool:
		if a, ok := column.(*array.Boolean); ok {
			return func(dst []byte, row int) []byte {
				if a.Value(row) {
					return append(dst, 1)
				}
				return append(dst, 0)
			}
		}
	case asInteger:
		return whole(column, func(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) })
	case asFloat32:
		if a, ok := column.(*array.Float32); ok {
			return func(dst []byte, row int) []byte {
				return binary.BigEndian.AppendUint32(dst, math.Float32bits(a.Value(row)+0)) // -0 + 0 is 0
			}
		}
	case asFloat64:
		return doubles(column)
	case asDecimal:
		return decimals(column, f.scale)
	case asDate, asTimestamp, asInstant:
		return times(column, f.class)
	case asText, asBinary:
		return texts(column)
	}
	return nil
}

// whole adds integers of any width.
func whole(column arrow.Array, add func([]byte, int64) []byte) appender {
	switch a := column.(type) {
	case *array.Int8:
		return func(dst []byte, row int) []byte { return add(dst, int64(a.Value(row))) }
	case *array.Int16:
		return func(dst []byte, row int) []byte { return add(dst, int64(a.Value(row))) }
	case *array.Int32:
		return func(dst []byte, row int) []byte { return add(dst, int64(a.Value(row))) }
	case *array.Int64:
		return func(dst []byte, row int) []byte { return add(dst, a.Value(row)) }
	}
	return nil
}

func doubles(column arrow.Array) appender {
	add := func(dst []byte, v float64) []byte { return binary.BigEndian.AppendUint64(dst, math.Float64bits(v+0)) }
	switch a := column.(type) {
	case *array.Float64:
		return func(dst []byte, row int) []byte { return add(dst, a.Value(row)) }
	case *array.Float32:
		return func(dst []byte, row int) []byte { return add(dst, float64(a.Value(row))) }
	}
	return whole(column, func(dst []byte, v int64) []byte { return add(dst, float64(v)) })
}

func decimals(column arrow.Array, scale int32) appender {
	add := func(dst []byte, n decimal128.Num) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(n.HighBits())), n.LowBits())
	}
	if a, ok := column.(*array.Decimal128); ok {
		up := scale - a.DataType().(*arrow.Decimal128Type).Scale
		if up == 0 {
			return func(dst []byte, row int) []byte { return add(dst, a.Value(row)) }
		}
		return func(dst []byte, row int) []byte { return add(dst, a.Value(row).IncreaseScaleBy(up)) }
	}
	return whole(column, func(dst []byte, v int64) []byte {
		return add(dst, decimal128.FromI64(v).IncreaseScaleBy(scale))
	})
}

func times(column arrow.Array, as class) appender {
	add := func(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }
	switch a := column.(type) {
	case *array.Timestamp:
		return func(dst []byte, row int) []byte { return add(dst, int64(a.Value(row))) }
	case *array.Date32:
		unit := int64(1)
		if as == asTimestamp {
			unit = microsPerDay
		}
		return func(dst []byte, row int) []byte { return add(dst, int64(a.Value(row))*unit) }
	}
	return nil
}

func texts(column arrow.Array) appender {
	switch a := column.(type) {
	case *array.String:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}
	case *array.Binary:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}
	case *array.FixedSizeBinary:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}
	}
	return nil
}

// digestSize is how much of SHA-256 is kept: of 10^12 rows, two that differ share a digest with a chance of 10^-15.
const digestSize = 16

// digest stands for a key, or for the other values of a row.
type digest [digestSize]byte

func digestOf(canonical []byte) digest {
	sum := sha256.Sum256(canonical)
	return digest(sum[:digestSize])
}

// rowDigests computes digests of the rows of one record. It is not safe for concurrent use.
type rowDigests struct {
	keys, values []appender
	buf          []byte
}

// key is the digest of a row's key.
func (d *rowDigests) key(row int) digest { return d.of(d.keys, row) }

// value is the digest of a row's other columns.
func (d *rowDigests) value(row int) digest { return d.of(d.values, row) }

func (d *rowDigests) of(columns []appender, row int) digest {
	d.buf = d.buf[:0]
	for _, add := range columns {
		d.buf = add(d.buf, row)
	}
	return digestOf(d.buf)
}
