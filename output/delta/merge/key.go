package merge

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Keys and versions are compared in an encoding of their own: two have the same bytes if and
// only if they are equal, and the order of bytes is the order of keys. Of each column it has
//
//	0                       NULL
//	1 and 8 bytes           integers, dates, times, booleans, decimals of up to 18 digits: big
//	                        endian, the sign inverted; floats: the bits of the float64, inverted
//	                        such that they ascend, -0 as 0 and any NaN as one
//	1 and 16 bytes          larger decimals: big endian, the sign inverted
//	1, bytes, 0 and 1       strings and binary; a byte 0 among them is followed by 255
//
// No encoding of a column is the beginning of another, so those of several columns follow each
// other.
const (
	tagNull  = 0
	tagValue = 1

	textEnd    = 1
	textEscape = 0xff
)

// kind is how the values of a column are encoded.
type kind int

const (
	kindInt kind = iota
	kindFloat
	kindDecimal
	kindText
)

// longDecimal is the precision above which a decimal takes 16 bytes.
const longDecimal = 18

func kindOf(f schema.Field) (kind, error) {
	switch t := f.Type.(type) {
	case schema.Decimal:
		if t.Precision > longDecimal {
			return kindDecimal, nil
		}
		return kindInt, nil
	case schema.Primitive:
		switch t {
		case schema.String, schema.Binary:
			return kindText, nil
		case schema.Float, schema.Double:
			return kindFloat, nil
		case schema.Void:
		default:
			return kindInt, nil
		}
	}
	return 0, fmt.Errorf("column %s: values of type %s cannot be compared", f.Name, f.Type)
}

const signBit = 1 << 63

func sortableInt(v int64) uint64 { return uint64(v) ^ signBit }

func sortableFloat(v float64) uint64 {
	switch {
	case v == 0:
		v = 0 // of -0, too
	case math.IsNaN(v):
		v = math.NaN()
	}
	b := math.Float64bits(v)
	if b&signBit != 0 {
		return ^b
	}
	return b | signBit
}

func appendFixed(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tagValue), v)
}

func appendDecimal(dst []byte, v decimal128.Num) []byte {
	dst = appendFixed(dst, sortableInt(v.HighBits()))
	return binary.BigEndian.AppendUint64(dst, v.LowBits())
}

func appendText(dst []byte, text []byte) []byte {
	dst = append(dst, tagValue)
	for _, b := range text {
		dst = append(dst, b)
		if b == 0 {
			dst = append(dst, textEscape)
		}
	}
	return append(dst, 0, textEnd)
}

// appendScalar encodes a value that is not NULL.
func appendScalar(dst []byte, t schema.Type, k kind, v scalar.Value) []byte {
	switch k {
	case kindFloat:
		return appendFixed(dst, sortableFloat(v.Float))
	case kindDecimal:
		return appendDecimal(dst, v.Decimal)
	case kindText:
		return appendText(dst, []byte(v.Text))
	default:
		if _, ok := t.(schema.Decimal); ok {
			return appendFixed(dst, sortableInt(int64(v.Decimal.LowBits())))
		}
		return appendFixed(dst, sortableInt(v.Int))
	}
}

// values are those of one column in one batch, ready to be encoded.
type values struct {
	kind  kind
	nulls int
	valid []byte // bitmap; nil if no value is NULL
	from  int    // first bit of it

	fixed   []uint64 // kindInt and kindFloat, sortable
	decimal []decimal128.Num
	text    []byte // kindText: value i is text[offsets[i]:offsets[i+1]]
	short   []int32
	long    []int64
	width   int // kindText of fixed width, then text begins with the first value
}

// load takes an array of a type that is one of the column's in Arrow; see schema.FromArrow. It
// refers to the array's memory until the next load.
func (v *values) load(k kind, arr arrow.Array) error {
	*v = values{kind: k, fixed: v.fixed[:0], nulls: arr.NullN()}
	if v.nulls > 0 {
		v.valid, v.from = arr.NullBitmapBytes(), arr.Data().Offset()
	}
	ok := false
	switch k {
	case kindInt:
		ok = v.loadInts(arr)
	case kindFloat:
		ok = v.loadFloats(arr)
	case kindDecimal:
		var a *array.Decimal128
		if a, ok = arr.(*array.Decimal128); ok {
			v.decimal = a.Values()
		}
	case kindText:
		ok = v.loadText(arr)
	}
	if !ok {
		return fmt.Errorf("values of Arrow type %s cannot be compared", arr.DataType())
	}
	return nil
}

func (v *values) loadInts(arr arrow.Array) bool {
	switch a := arr.(type) {
	case *array.Int64:
		v.fixed = appendInts(v.fixed, a.Int64Values())
	case *array.Int32:
		v.fixed = appendInts(v.fixed, a.Int32Values())
	case *array.Int16:
		v.fixed = appendInts(v.fixed, a.Int16Values())
	case *array.Int8:
		v.fixed = appendInts(v.fixed, a.Int8Values())
	case *array.Date32:
		v.fixed = appendInts(v.fixed, a.Date32Values())
	case *array.Timestamp:
		v.fixed = appendInts(v.fixed, a.TimestampValues())
	case *array.Boolean:
		for i := range a.Len() {
			n := int64(0)
			if a.Value(i) {
				n = 1
			}
			v.fixed = append(v.fixed, sortableInt(n))
		}
	case *array.Decimal128:
		for _, n := range a.Values() {
			v.fixed = append(v.fixed, sortableInt(int64(n.LowBits())))
		}
	default:
		return false
	}
	return true
}

func appendInts[T ~int8 | ~int16 | ~int32 | ~int64](dst []uint64, from []T) []uint64 {
	for _, n := range from {
		dst = append(dst, sortableInt(int64(n)))
	}
	return dst
}

func (v *values) loadFloats(arr arrow.Array) bool {
	switch a := arr.(type) {
	case *array.Float64:
		for _, f := range a.Float64Values() {
			v.fixed = append(v.fixed, sortableFloat(f))
		}
	case *array.Float32:
		for _, f := range a.Float32Values() {
			v.fixed = append(v.fixed, sortableFloat(float64(f)))
		}
	default:
		return false
	}
	return true
}

func (v *values) loadText(arr arrow.Array) bool {
	switch a := arr.(type) {
	case *array.String:
		v.text, v.short = bytesOf(arr, 2), a.ValueOffsets()
	case *array.Binary:
		v.text, v.short = bytesOf(arr, 2), a.ValueOffsets()
	case *array.LargeString:
		v.text, v.long = bytesOf(arr, 2), a.ValueOffsets()
	case *array.LargeBinary:
		v.text, v.long = bytesOf(arr, 2), a.ValueOffsets()
	case *array.FixedSizeBinary:
		v.width = a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		v.text = bytesOf(arr, 1)[a.Data().Offset()*v.width:]
	default:
		return false
	}
	return true
}

// bytesOf is a buffer of an array, nil if it has none.
func bytesOf(arr arrow.Array, buffer int) []byte {
	if b := arr.Data().Buffers()[buffer]; b != nil {
		return b.Bytes()
	}
	return nil
}

func (v *values) isNull(i int) bool { return v.valid != nil && !bitutil.BitIsSet(v.valid, v.from+i) }

// append encodes value i.
func (v *values) append(dst []byte, i int) []byte {
	if v.isNull(i) {
		return append(dst, tagNull)
	}
	switch v.kind {
	case kindDecimal:
		return appendDecimal(dst, v.decimal[i])
	case kindText:
		return appendText(dst, v.textAt(i))
	default:
		return appendFixed(dst, v.fixed[i])
	}
}

func (v *values) textAt(i int) []byte {
	switch {
	case v.width > 0:
		return v.text[i*v.width:][:v.width]
	case v.long != nil:
		return v.text[v.long[i]:v.long[i+1]]
	case v.short != nil:
		return v.text[v.short[i]:v.short[i+1]]
	default:
		return nil
	}
}

// keyReader encodes the values of some columns, row by row.
type keyReader struct {
	kinds  []kind
	values []values
}

func newKeyReader(kinds []kind) *keyReader {
	return &keyReader{kinds: kinds, values: make([]values, len(kinds))}
}

func (r *keyReader) load(columns []arrow.Array) error {
	for i := range r.kinds {
		if err := r.values[i].load(r.kinds[i], columns[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *keyReader) append(dst []byte, row int) []byte {
	for i := range r.values {
		dst = r.values[i].append(dst, row)
	}
	return dst
}
