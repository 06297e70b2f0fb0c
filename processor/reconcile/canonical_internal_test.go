package reconcile

import (
	"bytes"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// oneValue makes an array of one value and a NULL.
func oneValue[B array.Builder](b B, add func(B)) arrow.Array {
	add(b)
	b.AppendNull()
	return b.NewArray()
}

func canonical(t *testing.T, f form, column arrow.Array) []byte {
	t.Helper()
	add, err := f.encoder(column)
	require.NoError(t, err)
	require.Equal(t, []byte{0}, add(nil, 1), "NULL")
	return add(nil, 0)
}

// Values that are equal over types that widen into each other are equal bytes, and nothing else is.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	mem := memory.DefaultAllocator
	i16 := func(v int16) arrow.Array {
		return oneValue(array.NewInt16Builder(mem), func(b *array.Int16Builder) { b.Append(v) })
	}
	i64 := func(v int64) arrow.Array {
		return oneValue(array.NewInt64Builder(mem), func(b *array.Int64Builder) { b.Append(v) })
	}
	f32 := func(v float32) arrow.Array {
		return oneValue(array.NewFloat32Builder(mem), func(b *array.Float32Builder) { b.Append(v) })
	}
	f64 := func(v float64) arrow.Array {
		return oneValue(array.NewFloat64Builder(mem), func(b *array.Float64Builder) { b.Append(v) })
	}
	dec := func(unscaled int64, scale int32) arrow.Array {
		return oneValue(array.NewDecimal128Builder(mem, &arrow.Decimal128Type{Precision: 38, Scale: scale}), func(b *array.Decimal128Builder) { b.Append(decimal128.FromI64(unscaled)) })
	}
	date := func(days int32) arrow.Array {
		return oneValue(array.NewDate32Builder(mem), func(b *array.Date32Builder) { b.Append(arrow.Date32(days)) })
	}
	stamp := func(micros int64) arrow.Array {
		return oneValue(array.NewTimestampBuilder(mem, &arrow.TimestampType{Unit: arrow.Microsecond}), func(b *array.TimestampBuilder) { b.Append(arrow.Timestamp(micros)) })
	}
	text := func(v string) arrow.Array {
		return oneValue(array.NewStringBuilder(mem), func(b *array.StringBuilder) { b.Append(v) })
	}
	for name, c := range map[string]struct {
		a, b  arrow.Array
		equal bool
	}{
		"integers":                      {i16(-5), i64(-5), true},
		"other integers":                {i16(-5), i64(5), false},
		"integer and decimal":           {i16(-5), dec(-500, 2), true},
		"integer and other decimal":     {i16(-5), dec(-501, 2), false},
		"scales":                        {dec(15, 1), dec(15000, 4), true},
		"other scales":                  {dec(15, 1), dec(15, 4), false},
		"zero":                          {dec(0, 1), i64(0), true},
		"floats":                        {f32(0.1), f64(float64(float32(0.1))), true},
		"float and the nearest double":  {f32(0.1), f64(0.1), false},
		"negative zero":                 {f64(math.Copysign(0, -1)), f64(0), true},
		"negative zero of real":         {f32(float32(math.Copysign(0, -1))), f32(0), true},
		"neighbours":                    {f64(1), f64(math.Nextafter(1, 2)), false},
		"integer and double":            {i16(7), f64(7), true},
		"date and timestamp":            {date(-1), stamp(-microsPerDay), true},
		"date and another microsecond":  {date(-1), stamp(-microsPerDay + 1), false},
		"text":                          {text("a"), text("a"), true},
		"trailing space":                {text("a"), text("a "), false},
		"letter case":                   {text("a"), text("A"), false},
		"empty and NUL":                 {text(""), text("\x00"), false},
		"composed and decomposed marks": {text("\u00e9"), text("e\u0301"), false},
	} {
		f, ok := commonForm(c.a.DataType(), c.b.DataType())
		require.True(t, ok, name)
		back, ok := commonForm(c.b.DataType(), c.a.DataType())
		require.True(t, ok, name)
		require.Equal(t, f, back, name)
		require.Equal(t, c.equal, bytes.Equal(canonical(t, f, c.a), canonical(t, f, c.b)), name)
	}
	for name, pair := range map[string][2]arrow.DataType{
		"text and number": {arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32}, "bigint and double": {arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64},
		"text and binary": {arrow.BinaryTypes.String, arrow.BinaryTypes.Binary}, "instant and timestamp": {arrow.FixedWidthTypes.Timestamp_us, &arrow.TimestampType{Unit: arrow.Microsecond}},
		"void": {arrow.Null, arrow.Null}, "decimal and double": {&arrow.Decimal128Type{Precision: 9}, arrow.PrimitiveTypes.Float64},
	} {
		_, ok := commonForm(pair[0], pair[1])
		require.False(t, ok, name)
	}
}

// The columns of a row do not run into each other.
func TestRowsAreToldApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.SliceOfN(rapid.StringMatching("[ab]{0,3}"), 3, 3)
		a, b := one.Draw(t, "a"), one.Draw(t, "b")
		of := func(values []string) digest {
			d := rowDigests{}
			for _, v := range values {
				builder := array.NewStringBuilder(memory.DefaultAllocator)
				if v == "b" {
					builder.AppendNull()
				} else {
					builder.Append(v)
				}
				add, err := form{class: asText}.encoder(builder.NewArray())
				require.NoError(t, err)
				d.values = append(d.values, add)
			}
			return d.value(0)
		}
		require.Equal(t, slices.Equal(a, b), of(a) == of(b))
	})
}

// What is put into a pile comes out of it once, in its partition, whatever was spilled.
func TestPile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var room atomic.Int64
		room.Store(rapid.Int64Range(0, 200_000).Draw(t, "room"))
		partitions := 1 << rapid.IntRange(0, 4).Draw(t, "bits")
		p := newPile(sourceWidth, partitions, dir, &room)
		defer func() { require.NoError(t, p.close()) }()
		want := make([][][]byte, partitions)
		for n := range rapid.IntRange(0, 8000).Draw(t, "entries") {
			key := digestOf([]byte{byte(n), byte(n >> 8), byte(n >> 16)})
			entry := appendSource(nil, key, uint32(n), passRows, digest{byte(n)})
			require.NoError(t, p.add(entry))
			part := partitionOf(entry, partitions)
			want[part] = append(want[part], entry)
		}
		for part := range partitions {
			all, err := p.load(part)
			require.NoError(t, err)
			got := sorted(all, sourceWidth, sourceWidth)
			slices.SortFunc(want[part], bytes.Compare)
			require.Equal(t, len(want[part]), len(got))
			for i := range got {
				require.Equal(t, want[part][i], got[i])
			}
		}
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
