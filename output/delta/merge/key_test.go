package merge_test

import (
	"bytes"
	"cmp"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Every two values of a type, in every spelling, have the same encoding if they are equal, and
// encodings in their order otherwise; bounds of ranges are encoded like rows.
func TestKeysOfEveryType(t *testing.T) {
	t.Parallel()
	for name, d := range domains() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := []schema.Field{field("k", d.typ)}
			b := array.NewBuilder(memory.DefaultAllocator, schema.ArrowType(d.typ))
			var positions []int
			b.AppendNull() // cut off: arrays may begin anywhere
			for at, spellings := range d.values {
				for _, v := range spellings {
					appendValue(b, v)
					positions = append(positions, at)
				}
			}
			all := b.NewArray()
			keys, err := merge.EncodeKeys(fields, []arrow.Array{array.NewSlice(all, 1, int64(all.Len()))})
			require.NoError(t, err)
			for i, a := range keys {
				for j, b := range keys {
					require.Equal(t, cmp.Compare(positions[i], positions[j]), bytes.Compare(a, b), "values %d and %d", positions[i], positions[j])
				}
				for _, spelling := range d.values[positions[i]] {
					bound, err := merge.EncodeBound(fields, []any{spelling})
					require.NoError(t, err)
					require.Equal(t, a, bound)
				}
			}
		})
	}
}

func TestTypesWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, typ := range []schema.Type{schema.Void, &schema.Array{Element: schema.Long}, &schema.Struct{}, &schema.Map{Key: schema.Long, Value: schema.Long}} {
		_, err := merge.EncodeKeys([]schema.Field{field("k", typ)}, nil)
		require.ErrorContains(t, err, "cannot be compared")
	}
}

// FuzzKeys compares the encodings of two keys of a text, a number, a float and another text with
// the values themselves, and takes one apart again.
func FuzzKeys(f *testing.F) {
	// Floats come as their bits: NaN is not equal to itself, and minimising it has no end.
	bits := math.Float64bits
	f.Add([]byte("a"), int64(1), bits(1.5), []byte("b"), []byte("a\x00"), int64(-1), bits(math.NaN()), []byte(""), uint8(0))
	f.Add([]byte("\x00"), int64(0), bits(0), []byte("\x00\x01"), []byte(""), int64(0), bits(math.Copysign(0, -1)), []byte("\x00\xff"), uint8(0b1010))
	f.Add([]byte("\x00\x01"), int64(0), bits(0), []byte(""), []byte("\x00"), int64(math.MinInt64), bits(math.Inf(-1)), []byte("\x01"), uint8(0b1))
	f.Fuzz(func(t *testing.T, t0 []byte, n0 int64, f0 uint64, u0, t1 []byte, n1 int64, f1 uint64, u1 []byte, nulls uint8) {
		checkKeys(t, t0, n0, math.Float64frombits(f0), u0, t1, n1, math.Float64frombits(f1), u1, nulls)
	})
}

// TestKeyOrder is the same for keys that are alike, which random ones are not.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 254, 255}), 0, 4)
		numbers := rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64})
		floats := rapid.SampledFrom([]float64{math.Inf(-1), -1, math.Copysign(0, -1), 0, 1e-300, math.Inf(1), math.NaN()})
		checkKeys(t, texts.Draw(t, "t0"), numbers.Draw(t, "n0"), floats.Draw(t, "f0"), texts.Draw(t, "u0"),
			texts.Draw(t, "t1"), numbers.Draw(t, "n1"), floats.Draw(t, "f1"), texts.Draw(t, "u1"), rapid.Byte().Draw(t, "nulls")&rapid.Byte().Draw(t, "mask"))
	})
}

func checkKeys(t require.TestingT, t0 []byte, n0 int64, f0 float64, u0, t1 []byte, n1 int64, f1 float64, u1 []byte, nulls uint8) {
	fields := []schema.Field{field("t", schema.Binary), field("n", schema.Long), field("f", schema.Double), field("u", schema.String)}
	text, long := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary), array.NewInt64Builder(memory.DefaultAllocator)
	float, other := array.NewFloat64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	null := func(i int) bool { return nulls>>i&1 == 1 }
	for i, row := range []struct {
		t []byte
		n int64
		f float64
		u []byte
	}{{t0, n0, f0, u0}, {t1, n1, f1, u1}} {
		if null(4 * i) {
			text.AppendNull()
		} else {
			text.Append(row.t)
		}
		if null(4*i + 1) {
			long.AppendNull()
		} else {
			long.Append(row.n)
		}
		if null(4*i + 2) {
			float.AppendNull()
		} else {
			float.Append(row.f)
		}
		if null(4*i + 3) {
			other.AppendNull()
		} else {
			other.Append(string(row.u))
		}
	}
	keys, err := merge.EncodeKeys(fields, []arrow.Array{text.NewArray(), long.NewArray(), float.NewArray(), other.NewArray()})
	require.NoError(t, err)
	order := func(column int, values int) int {
		switch a, b := null(column), null(4+column); {
		case a && b:
			return 0
		case a:
			return -1
		case b:
			return 1
		}
		return values
	}
	floats := cmp.Compare(f0, f1)
	switch a, b := math.IsNaN(f0), math.IsNaN(f1); {
	case a && !b:
		floats = 1 // above all numbers, where cmp has it below
	case b && !a:
		floats = -1
	}
	want := cmp.Or(order(0, bytes.Compare(t0, t1)), order(1, cmp.Compare(n0, n1)), order(2, floats), order(3, bytes.Compare(u0, u1)))
	require.Equal(t, want, bytes.Compare(keys[0], keys[1]))
	for _, key := range keys {
		parts, err := merge.SplitKey(fields, key)
		require.NoError(t, err)
		require.Equal(t, key, bytes.Join(parts, nil))
		for _, part := range parts {
			require.NotEmpty(t, part)
		}
	}
}

// The statistics of a file that gets a deletion vector keep every digit of its bounds.
func TestStatsWithVector(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stats, want, refused string }{
		"none":       {stats: "", want: `{"numRecords":5,"tightBounds":false}`},
		"unreadable": {stats: "{", want: `{"numRecords":5,"tightBounds":false}`},
		"digits": {
			stats: `{"numRecords":5,"minValues":{"d":12345678901234567890.12,"t":"<&>"},"nullCount":{"d":0},"tightBounds":true}`,
			want:  `{"minValues":{"d":12345678901234567890.12,"t":"<&>"},"nullCount":{"d":0},"numRecords":5,"tightBounds":false}`,
		},
		"another number of rows": {stats: `{"numRecords":6}`, refused: "it has 5 rows and the log says 6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have, err := merge.LooseStats(c.stats, 5)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, have)
		})
	}
}
