package data

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// convert brings an array of a file to the table's type: the same values in a wider
// type, in another unit, or with parts in the order of the table and missing ones NULL.
// The caller releases the result.
func convert(ctx context.Context, mem memory.Allocator, arr arrow.Array, want schema.Type) (arrow.Array, error) {
	switch w := want.(type) {
	case *schema.Struct:
		if s, ok := arr.(*array.Struct); ok {
			return convertStruct(ctx, mem, s, w)
		}
	case *schema.Array:
		if l, ok := arr.(array.ListLike); ok {
			return convertList(ctx, mem, l, w)
		}
	case *schema.Map:
		if l, ok := arr.(array.ListLike); ok {
			return convertMap(ctx, mem, l, w)
		}
	default:
		return convertValues(ctx, mem, arr, want)
	}
	return nil, fmt.Errorf("the file has %s, the table %s", arr.DataType(), want)
}

func convertStruct(ctx context.Context, mem memory.Allocator, arr *array.Struct, want *schema.Struct) (arrow.Array, error) {
	have := arr.DataType().(*arrow.StructType)
	children := make([]arrow.Array, 0, len(want.Fields))
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for _, f := range want.Fields {
		at := -1
		for j := range have.NumFields() {
			if schema.SameName(have.Field(j).Name, f.Name) {
				at = j
			}
		}
		if at < 0 {
			children = append(children, array.MakeArrayOfNull(mem, schema.ArrowType(f.Type), arr.Len()))
			continue
		}
		child, err := convert(ctx, mem, arr.Field(at), f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		children = append(children, child)
	}
	return assemble(mem, arr, want, nil, children...), nil
}

func convertList(ctx context.Context, mem memory.Allocator, arr array.ListLike, want *schema.Array) (arrow.Array, error) {
	values, err := convert(ctx, mem, arr.ListValues(), want.Element)
	if err != nil {
		return nil, fmt.Errorf("element: %w", err)
	}
	defer values.Release()
	offsets, err := listOffsets(arr)
	if err != nil {
		return nil, err
	}
	return assemble(mem, arr, want, offsets, values), nil
}

func convertMap(ctx context.Context, mem memory.Allocator, arr array.ListLike, want *schema.Map) (arrow.Array, error) {
	entries, ok := arr.ListValues().(*array.Struct)
	if !ok || entries.NumField() != 2 {
		return nil, fmt.Errorf("the file has %s, the table %s", arr.DataType(), want)
	}
	key, err := convert(ctx, mem, entries.Field(0), want.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer key.Release()
	value, err := convert(ctx, mem, entries.Field(1), want.Value)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	defer value.Release()
	offsets, err := listOffsets(arr)
	if err != nil {
		return nil, err
	}
	pairs := &schema.Struct{Fields: []schema.Field{
		{Name: "key", Type: want.Key}, {Name: "value", Type: want.Value, Nullable: want.ValueContainsNull},
	}}
	data := array.NewData(schema.ArrowType(pairs), entries.Len(), []*memory.Buffer{nil},
		[]arrow.ArrayData{key.Data(), value.Data()}, 0, 0)
	defer data.Release()
	converted := array.MakeFromData(data)
	defer converted.Release()
	return assemble(mem, arr, want, offsets, converted), nil
}

// listOffsets are the offsets of a list, from its first on.
func listOffsets(arr array.ListLike) (*memory.Buffer, error) {
	offsets := make([]int32, arr.Len()+1)
	for i := range arr.Len() {
		from, to := arr.ValueOffsets(i)
		if to > math.MaxInt32 {
			return nil, fmt.Errorf("a list has too many elements in one batch")
		}
		offsets[i], offsets[i+1] = int32(from), int32(to)
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), nil
}

// assemble makes an array of the wanted type with the validity of arr.
func assemble(mem memory.Allocator, arr arrow.Array, want schema.Type, offsets *memory.Buffer, children ...arrow.Array) arrow.Array {
	buffers := []*memory.Buffer{nil}
	if arr.NullN() > 0 {
		buffers[0] = memory.NewResizableBuffer(mem)
		buffers[0].Resize(int(bitutil.BytesForBits(int64(arr.Len()))))
		bitutil.CopyBitmap(arr.NullBitmapBytes(), arr.Data().Offset(), arr.Len(), buffers[0].Bytes(), 0)
		defer buffers[0].Release()
	}
	if offsets != nil {
		buffers = append(buffers, offsets)
	}
	parts := make([]arrow.ArrayData, len(children))
	for i, c := range children {
		parts[i] = c.Data()
	}
	data := array.NewData(schema.ArrowType(want), arr.Len(), buffers, parts, arr.NullN(), 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// convertValues converts an array without parts.
func convertValues(ctx context.Context, mem memory.Allocator, arr arrow.Array, want schema.Type) (arrow.Array, error) {
	to := schema.ArrowType(want)
	from := arr.DataType()
	if arrow.TypeEqual(from, to) {
		arr.Retain()
		return arr, nil
	}
	switch {
	case from.ID() == arrow.NULL:
		return array.MakeArrayOfNull(mem, to, arr.Len()), nil
	case from.ID() == arrow.TIMESTAMP && to.ID() == arrow.TIMESTAMP:
		return convertTimestamps(mem, arr.(*array.Timestamp), to.(*arrow.TimestampType))
	case from.ID() == arrow.BINARY && to.ID() == arrow.STRING || from.ID() == arrow.STRING && to.ID() == arrow.BINARY:
		data := array.NewData(to, arr.Len(), arr.Data().Buffers(), nil, arr.NullN(), arr.Data().Offset())
		defer data.Release()
		return array.MakeFromData(data), nil
	case !convertible(from.ID(), to.ID()):
		return nil, fmt.Errorf("the file has %s, the table %s", from, want)
	}
	out, err := compute.CastArray(compute.WithAllocator(ctx, mem), arr, compute.SafeCastOptions(to))
	if err != nil {
		return nil, fmt.Errorf("the file has %s, the table %s: %w", from, want, err)
	}
	return out, nil
}

// convertible lists what files may hold in place of the table's type: narrower types
// from before a column was widened, and Arrow's other forms of the same type.
func convertible(from, to arrow.Type) bool {
	switch to {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		return arrow.IsInteger(from) || from == arrow.DICTIONARY
	case arrow.FLOAT32:
		return from == arrow.FLOAT16 || from == arrow.DICTIONARY
	case arrow.FLOAT64:
		return arrow.IsFloating(from) || from == arrow.INT8 || from == arrow.INT16 || from == arrow.INT32 || from == arrow.DICTIONARY
	case arrow.DECIMAL128:
		return arrow.IsDecimal(from) || arrow.IsInteger(from) || from == arrow.DICTIONARY
	case arrow.STRING, arrow.BINARY:
		return arrow.IsBaseBinary(from) || from == arrow.STRING_VIEW || from == arrow.BINARY_VIEW || from == arrow.DICTIONARY
	case arrow.DATE32:
		return from == arrow.DATE64 || from == arrow.DICTIONARY
	case arrow.TIMESTAMP:
		return from == arrow.DATE32 || from == arrow.DICTIONARY
	default:
		return false
	}
}

// convertTimestamps brings timestamps to microseconds, rounding down, in whatever zone
// the table has: a Parquet file holds instants or wall clocks, and no zone.
func convertTimestamps(mem memory.Allocator, arr *array.Timestamp, to *arrow.TimestampType) (arrow.Array, error) {
	unit := arr.DataType().(*arrow.TimestampType).Unit
	b := array.NewTimestampBuilder(mem, to)
	defer b.Release()
	b.Reserve(arr.Len())
	for i, v := range arr.TimestampValues() {
		if arr.IsNull(i) {
			b.UnsafeAppendBoolToBitmap(false)
			continue
		}
		micro := int64(v)
		switch unit {
		case arrow.Nanosecond:
			micro = floorDiv(micro, 1000)
		case arrow.Second, arrow.Millisecond:
			factor := int64(1000)
			if unit == arrow.Second {
				factor = 1_000_000
			}
			if micro > math.MaxInt64/factor || micro < math.MinInt64/factor {
				return nil, fmt.Errorf("a time does not fit in microseconds")
			}
			micro *= factor
		}
		b.UnsafeAppend(arrow.Timestamp(micro))
	}
	return b.NewArray(), nil
}
