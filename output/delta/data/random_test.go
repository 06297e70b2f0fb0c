package data_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func arrowBatch(t *testing.T, mem memory.Allocator, as *arrow.Schema, json string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(mem, as, strings.NewReader(json))
	require.NoError(t, err)
	return rec
}

var primitives = []schema.Type{
	schema.String, schema.Long, schema.Integer, schema.Short, schema.Byte, schema.Float, schema.Double,
	schema.Boolean, schema.Binary, schema.Date, schema.Timestamp, schema.TimestampNTZ,
}

// drawType draws a type nested at most depth deep.
func drawType(t *rapid.T, depth int) schema.Type {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case kind < 6 || depth == 0:
		return rapid.SampledFrom(primitives).Draw(t, "type")
	case kind == 6:
		p := rapid.IntRange(1, 38).Draw(t, "precision")
		return schema.Decimal{Precision: p, Scale: rapid.IntRange(0, p).Draw(t, "scale")}
	case kind == 7:
		return &schema.Array{Element: drawType(t, depth-1), ContainsNull: rapid.Bool().Draw(t, "containsNull")}
	case kind == 8:
		return &schema.Map{Key: drawType(t, 0), Value: drawType(t, depth-1), ValueContainsNull: rapid.Bool().Draw(t, "valueContainsNull")}
	default:
		return drawStruct(t, depth-1)
	}
}

func drawStruct(t *rapid.T, depth int) *schema.Struct {
	s := &schema.Struct{}
	for i := range rapid.IntRange(1, 4).Draw(t, "fields") {
		s.Fields = append(s.Fields, schema.Field{
			Name: fmt.Sprintf("f%d", i), Type: drawType(t, depth), Nullable: rapid.Bool().Draw(t, "nullable"),
		})
	}
	return s
}

// drawBatch draws rows of a schema.
func drawBatch(t *rapid.T, mem memory.Allocator, s *schema.Struct, rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, s.Arrow())
	defer b.Release()
	for range rows {
		for i, f := range s.Fields {
			drawValue(t, b.Field(i), f.Type, f.Nullable)
		}
	}
	return b.NewRecordBatch()
}

var nastyStrings = []string{
	"", "a", "\x00", "zebra", strings.Repeat("é", 40), strings.Repeat("😀", 40), strings.Repeat("\U0010FFFF", 40),
	"\U0010FFFF", strings.Repeat("x", 31) + "\U0010FFFF", strings.Repeat("x", 32) + "\U0010FFFFy",
	strings.Repeat("x", 32), strings.Repeat("x", 33), "\uFFFD", "\uE000", "<&>\u2028\"\\", strings.Repeat("long ", 300),
}

// drawValue appends a value that is often small, often one of the edges of its type.
func drawValue(t *rapid.T, builder array.Builder, typ schema.Type, nullable bool) {
	if nullable && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
		builder.AppendNull()
		return
	}
	switch b := builder.(type) {
	case *array.StringBuilder:
		b.Append(drawString(t))
	case *array.BinaryBuilder:
		b.Append([]byte(drawString(t)))
	case *array.BooleanBuilder:
		b.Append(rapid.Bool().Draw(t, "bool"))
	case *array.Int8Builder:
		b.Append(int8(drawInt(t, math.MinInt8, math.MaxInt8)))
	case *array.Int16Builder:
		b.Append(int16(drawInt(t, math.MinInt16, math.MaxInt16)))
	case *array.Int32Builder:
		b.Append(int32(drawInt(t, math.MinInt32, math.MaxInt32)))
	case *array.Int64Builder:
		b.Append(drawInt(t, math.MinInt64, math.MaxInt64))
	case *array.Date32Builder:
		b.Append(arrow.Date32(drawInt(t, -719162-400, 2932896+400)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(drawInt(t, -62135596800000000-5, 253402300799999999)))
	case *array.Float32Builder:
		b.Append(float32(drawFloat(t)))
	case *array.Float64Builder:
		b.Append(drawFloat(t))
	case *array.Decimal128Builder:
		b.Append(drawDecimal(t, typ.(schema.Decimal)))
	case *array.MapBuilder: // before ListBuilder, which it embeds
		b.Append(true)
		drawEntries(t, b, typ.(*schema.Map))
	case *array.ListBuilder:
		a := typ.(*schema.Array)
		b.Append(true)
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			drawValue(t, b.ValueBuilder(), a.Element, a.ContainsNull)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range typ.(*schema.Struct).Fields {
			drawValue(t, b.FieldBuilder(i), f.Type, f.Nullable)
		}
	default:
		t.Fatalf("no values for %T", builder)
	}
}

// drawEntries appends entries of one map: several only if keys can be made that differ.
func drawEntries(t *rapid.T, b *array.MapBuilder, m *schema.Map) {
	n := rapid.IntRange(0, 4).Draw(t, "entries")
	for i := range n {
		switch key := b.KeyBuilder().(type) {
		case *array.Int64Builder:
			key.Append(int64(i))
		case *array.StringBuilder:
			key.Append(fmt.Sprint(i))
		default:
			if i > 0 {
				return
			}
			drawValue(t, key, m.Key, false)
		}
		drawValue(t, b.ItemBuilder(), m.Value, m.ValueContainsNull)
	}
}

func drawString(t *rapid.T) string {
	if rapid.Bool().Draw(t, "nasty") {
		return rapid.SampledFrom(nastyStrings).Draw(t, "string")
	}
	return rapid.StringN(0, 6, -1).Draw(t, "string")
}

func drawInt(t *rapid.T, lo, hi int64) int64 {
	switch rapid.IntRange(0, 3).Draw(t, "size") {
	case 0:
		return rapid.SampledFrom([]int64{lo, hi, 0, -1, lo + 1, hi - 1}).Draw(t, "int")
	case 1:
		return rapid.Int64Range(max(lo, -5), min(hi, 5)).Draw(t, "int")
	default:
		return rapid.Int64Range(lo, hi).Draw(t, "int")
	}
}

func drawFloat(t *rapid.T) float64 {
	if rapid.Bool().Draw(t, "nasty") {
		return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1, -1, 0.1,
			math.MaxFloat64, math.SmallestNonzeroFloat64, math.MaxFloat32, 1e15, 1e21, 123456789}).Draw(t, "float")
	}
	return rapid.Float64().Draw(t, "float")
}

func drawDecimal(t *rapid.T, d schema.Decimal) decimal128.Num {
	most := decimal128.GetMaxValue(int32(d.Precision))
	switch rapid.IntRange(0, 3).Draw(t, "size") {
	case 0:
		return most
	case 1:
		return most.Negate()
	case 2:
		return decimal128.FromI64(rapid.Int64Range(-9, 9).Draw(t, "decimal"))
	default:
		n := new(big.Int).SetUint64(rapid.Uint64().Draw(t, "high"))
		n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(rapid.Uint64().Draw(t, "low")))
		n.Mod(n, most.BigInt())
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		return decimal128.FromBigInt(n)
	}
}
