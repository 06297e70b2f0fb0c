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

// converter brings arrays of a file to the table's types.
type converter struct {
	ctx     context.Context // of the one call of Read
	mem     memory.Allocator
	mapping schema.Mapping
}

// convert brings an array of a file to the table's type: the same values in a wider
// type, in another unit, or with parts in the order of the table and missing ones NULL.
// The caller releases the result.
func (c converter) convert(arr arrow.Array, want schema.Type) (arrow.Array, error) {
	switch w := want.(type) {
	case *schema.Struct:
		if s, ok := arr.(*array.Struct); ok {
			return c.convertStruct(s, w)
		}
	case *schema.Array:
		if l, ok := arr.(array.ListLike); ok {
			return c.convertList(l, w)
		}
	case *schema.Map:
		if l, ok := arr.(array.ListLike); ok {
			return c.convertMap(l, w)
		}
	default:
		return c.convertValues(arr, want)
	}
	return nil, fmt.Errorf("the file has %s, the table %s", arr.DataType(), want)
}

func (c converter) convertStruct(arr *array.Struct, want *schema.Struct) (arrow.Array, error) {
	have := arr.DataType().(*arrow.StructType)
	children := make([]arrow.Array, 0, len(want.Fields))
	defer func() {
		for _, child := range children {
			child.Release()
		}
	}()
	for _, f := range want.Fields {
		at := find(c.mapping, f, have.NumFields(), have.Field)
		if at < 0 {
			children = append(children, array.MakeArrayOfNull(c.mem, schema.ArrowType(f.Type), arr.Len()))
			continue
		}
		child, err := c.convert(arr.Field(at), f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		children = append(children, child)
	}
	return c.assemble(arr, want, nil, children...), nil
}

func (c converter) convertList(arr array.ListLike, want *schema.Array) (arrow.Array, error) {
	values, err := c.convert(arr.ListValues(), want.Element)
	if err != nil {
		return nil, fmt.Errorf("element: %w", err)
	}
	defer values.Release()
	offsets, err := listOffsets(arr)
	if err != nil {
		return nil, err
	}
	return c.assemble(arr, want, offsets, values), nil
}

func (c converter) convertMap(arr array.ListLike, want *schema.Map) (arrow.Array, error) {
	entries, ok := arr.ListValues().(*array.Struct)
	if !ok || entries.NumField() != 2 {
		return nil, fmt.Errorf("the file has %s, the table %s", arr.DataType(), want)
	}
	key, err := c.convert(entries.Field(0), want.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer key.Release()
	value, err := c.convert(entries.Field(1), want.Value)
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
	return c.assemble(arr, want, offsets, converted), nil
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
func (c converter) assemble(arr arrow.Array, want schema.Type, offsets *memory.Buffer, children ...arrow.Array) arrow.Array {
	buffers := []*memory.Buffer{nil}
	if arr.NullN() > 0 {
		buffers[0] = memory.NewResizableBuffer(c.mem)
		buffers[0].Resize(int(bitutil.BytesForBits(int64(arr.Len()))))
		bitutil.CopyBitmap(arr.NullBitmapBytes(), arr.Data().Offset(), arr.Len(), buffers[0].Bytes(), 0)
		defer buffers[0].Release()
	}
	if offsets != nil {
		buffers = append(buffers, offsets)
	}
	parts := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		parts[i] = child.Data()
	}
	data := array.NewData(schema.ArrowType(want), arr.Len(), buffers, parts, arr.NullN(), 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// convertValues converts an array without parts.
func (c converter) convertValues(arr arrow.Array, want schema.Type) (arrow.Array, error) {
	to := schema.ArrowType(want)
	from := arr.DataType()
	if arrow.TypeEqual(from, to) {
		arr.Retain()
		return arr, nil
	}
	switch {
	case from.ID() == arrow.NULL:
		return array.MakeArrayOfNull(c.mem, to, arr.Len()), nil
	case from.ID() == arrow.TIMESTAMP && to.ID() == arrow.TIMESTAMP:
		return c.convertTimestamps(arr.(*array.Timestamp), to.(*arrow.TimestampType))
	case from.ID() == arrow.BINARY && to.ID() == arrow.STRING || from.ID() == arrow.STRING && to.ID() == arrow.BINARY:
		data := array.NewData(to, arr.Len(), arr.Data().Buffers(), nil, arr.NullN(), arr.Data().Offset())
		defer data.Release()
		return array.MakeFromData(data), nil
	case !convertible(from.ID(), to.ID()):
		return nil, fmt.Errorf("the file has %s, the table %s", from, want)
	}
	out, err := compute.CastArray(compute.WithAllocator(c.ctx, c.mem), arr, compute.SafeCastOptions(to))
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
func (c converter) convertTimestamps(arr *array.Timestamp, to *arrow.TimestampType) (arrow.Array, error) {
	unit := arr.DataType().(*arrow.TimestampType).Unit
	b := array.NewTimestampBuilder(c.mem, to)
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
