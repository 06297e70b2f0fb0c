package data

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// source is the values of one leaf array, by position, in the form that the file has
// them. It refers to the array's memory where the two forms are the same, else to
// scratch memory that the next array of the leaf takes over.
type source struct {
	i32 []int32
	i64 []int64
	f32 []float32
	f64 []float64
	dec []decimal128.Num

	// fixed is the same as one of i32, i64, f32, f64 and dec, as bytes of the file.
	fixed []byte

	// Of byte arrays: value i is data[offsets[i]:offsets[i+1]].
	data    []byte
	offsets []int32

	// Of booleans: value i is bit bitOffset+i.
	bits      []byte
	bitOffset int

	// Of a dictionary array: value i is value index[i] of dictionary.
	dictionary arrow.Array
	index      []int32

	scratch struct {
		i32, index, offsets []int32
		i64                 []int64
		fixed               []byte
	}
}

// load takes an array of a type that schema.FromArrow takes for the leaf's type.
func (s *source) load(l *leaf, arr arrow.Array) error {
	*s = source{scratch: s.scratch}
	switch arr := arr.(type) {
	case *array.Dictionary:
		s.dictionary = arr.Dictionary()
		if s.dictionary.NullN() > 0 {
			return fmt.Errorf("a dictionary with NULL among its entries is not supported within nested columns")
		}
		s.index = s.indices(arr)
	case *array.Boolean:
		s.bits, s.bitOffset = bytesOf(arr, 1), arr.Data().Offset()
	case *array.Int8:
		s.i32 = widen(&s.scratch.i32, arr.Int8Values())
	case *array.Int16:
		s.i32 = widen(&s.scratch.i32, arr.Int16Values())
	case *array.Int32:
		s.i32 = arr.Int32Values()
	case *array.Date32:
		s.i32 = reinterpret32(arr)
	case *array.Int64:
		s.i64 = arr.Int64Values()
	case *array.Timestamp:
		s.i64 = reinterpret64(arr)
	case *array.Float32:
		s.f32 = arr.Float32Values()
		s.fixed = arrow.Float32Traits.CastToBytes(s.f32)
	case *array.Float64:
		s.f64 = arr.Float64Values()
		s.fixed = arrow.Float64Traits.CastToBytes(s.f64)
	case *array.Decimal128:
		s.decimals(l, arr.Values())
	default:
		return s.loadBytes(arr)
	}
	switch {
	case s.i32 != nil:
		s.fixed = arrow.Int32Traits.CastToBytes(s.i32)
	case s.i64 != nil:
		s.fixed = arrow.Int64Traits.CastToBytes(s.i64)
	}
	return nil
}

func (s *source) loadBytes(arr arrow.Array) error {
	switch arr := arr.(type) {
	case *array.String:
		s.data, s.offsets = bytesOf(arr, 2), arr.ValueOffsets()
	case *array.Binary:
		s.data, s.offsets = bytesOf(arr, 2), arr.ValueOffsets()
	case *array.LargeString:
		return s.narrow(bytesOf(arr, 2), arr.ValueOffsets())
	case *array.LargeBinary:
		return s.narrow(bytesOf(arr, 2), arr.ValueOffsets())
	case *array.FixedSizeBinary:
		width := arr.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		s.data = bytesOf(arr, 1)
		s.offsets = resize(&s.scratch.offsets, arr.Len()+1)
		for i := range s.offsets {
			s.offsets[i] = int32((arr.Data().Offset() + i) * width)
		}
	default:
		return fmt.Errorf("writing Arrow type %s is not supported", arr.DataType())
	}
	return nil
}

// narrow takes 64-bit offsets, which may begin anywhere but span less than 2 GiB.
func (s *source) narrow(data []byte, offsets []int64) error {
	if len(offsets) == 0 {
		return nil
	}
	first, last := offsets[0], offsets[len(offsets)-1]
	if last-first > math.MaxInt32 {
		return fmt.Errorf("%d bytes of text or binary in one batch are too many: write smaller batches", last-first)
	}
	s.data = data[first:last]
	s.offsets = resize(&s.scratch.offsets, len(offsets))
	for i, o := range offsets {
		s.offsets[i] = int32(o - first)
	}
	return nil
}

func (s *source) decimals(l *leaf, values []decimal128.Num) {
	switch l.phys {
	case asInt32:
		s.i32 = resize(&s.scratch.i32, len(values))
		for i, v := range values {
			s.i32[i] = int32(v.LowBits())
		}
	case asInt64:
		s.i64 = resize(&s.scratch.i64, len(values))
		for i, v := range values {
			s.i64[i] = int64(v.LowBits())
		}
	default:
		s.dec = values
		s.fixed = s.scratch.fixed[:0]
		for _, v := range values {
			s.fixed = appendDecimal(s.fixed, v, l.width)
		}
		s.scratch.fixed = s.fixed
	}
}

// indices are the dictionary indices of an array. Those of NULLs may be anything.
func (s *source) indices(arr *array.Dictionary) []int32 {
	switch indices := arr.Indices().(type) {
	case *array.Int32:
		return indices.Int32Values()
	case *array.Int8:
		return widen(&s.scratch.index, indices.Int8Values())
	case *array.Int16:
		return widen(&s.scratch.index, indices.Int16Values())
	case *array.Int64:
		return widen(&s.scratch.index, indices.Int64Values())
	case *array.Uint8:
		return widen(&s.scratch.index, indices.Uint8Values())
	case *array.Uint16:
		return widen(&s.scratch.index, indices.Uint16Values())
	case *array.Uint32:
		return widen(&s.scratch.index, indices.Uint32Values())
	default:
		return widen(&s.scratch.index, indices.(*array.Uint64).Uint64Values())
	}
}

// value is value i as bytes of the file, without the length of a byte array. It is
// not for booleans and dictionaries.
func (s *source) value(l *leaf, i int) []byte {
	if l.width > 0 {
		return s.fixed[i*l.width:][:l.width]
	}
	return s.data[s.offsets[i]:s.offsets[i+1]]
}

// decimalWidth is how many bytes hold every decimal of that precision.
func decimalWidth(precision int) int {
	most := decimal128.GetMaxValue(int32(precision)).BigInt()
	return most.BitLen()/8 + 1
}

// appendDecimal appends the last width bytes of the number, highest first.
func appendDecimal(dst []byte, v decimal128.Num, width int) []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], uint64(v.HighBits()))
	binary.BigEndian.PutUint64(raw[8:], v.LowBits())
	return append(dst, raw[16-width:]...)
}

func bytesOf(arr arrow.Array, buffer int) []byte {
	if b := arr.Data().Buffers()[buffer]; b != nil {
		return b.Bytes()
	}
	return nil
}

func reinterpret32(arr arrow.Array) []int32 {
	values := arrow.Int32Traits.CastFromBytes(bytesOf(arr, 1))
	return values[arr.Data().Offset():][:arr.Len()]
}

func reinterpret64(arr arrow.Array) []int64 {
	values := arrow.Int64Traits.CastFromBytes(bytesOf(arr, 1))
	return values[arr.Data().Offset():][:arr.Len()]
}

type integer interface {
	~int8 | ~int16 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func widen[T integer](scratch *[]int32, values []T) []int32 {
	out := resize(scratch, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out
}

// resize gives scratch memory of n elements, whatever they hold.
func resize[T any](scratch *[]T, n int) []T {
	*scratch = slices.Grow((*scratch)[:0], n)[:n]
	return *scratch
}

func orderOf(t schema.Type, phys physical) orderKind {
	switch {
	case t == schema.Boolean || t == schema.Binary:
		return orderNone
	case phys == asInt32 || phys == asInt64:
		return orderInt
	case phys == asFloat || phys == asDouble:
		return orderFloat
	case phys == asFixed:
		return orderDecimal
	default:
		return orderText
	}
}
