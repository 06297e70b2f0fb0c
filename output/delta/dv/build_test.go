package dv_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func build(t require.TestingT, rows []int64) *dv.Rows {
	var b dv.Builder
	for _, row := range rows {
		b.Add(row)
	}
	out, err := b.Rows()
	require.NoError(t, err)
	return out
}

// drawRows draws an ascending set of rows: dense and sparse parts, in several blocks.
func drawRows(t *rapid.T, label string) []int64 {
	set := map[int64]bool{}
	for range rapid.IntRange(0, 5).Draw(t, label+" clusters") {
		start := rapid.Int64Range(0, 5).Draw(t, label+" block")<<16 + rapid.Int64Range(0, 1).Draw(t, label+" high")<<32 +
			rapid.Int64Range(0, 65_535).Draw(t, label+" start")
		step := rapid.SampledFrom([]int64{1, 1, 2, 3, 63, 64, 1000}).Draw(t, label+" step")
		for i := range rapid.Int64Range(1, 70_000/step).Draw(t, label+" n") {
			set[start+i*step] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// What is built has the rows that were added, is decoded again to the same, and is not larger
// than with one form for all blocks, but for what the header takes.
func TestBuildThereAndBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawRows(t, "rows")
		rows := build(t, want)
		require.EqualValues(t, len(want), rows.Len())
		content := rows.Encode()
		require.LessOrEqual(t, len(content), 32+min(len(encode(want, false)), len(encode(want, true))))
		again, err := dv.Decode(content)
		require.NoError(t, err)
		require.Equal(t, rows.Len(), again.Len())
		require.Equal(t, rows.Last(), again.Last())
		for _, r := range []*dv.Rows{rows, again} {
			for range 20 {
				from := rapid.Int64Range(0, 6<<16).Draw(t, "from") + rapid.Int64Range(0, 1).Draw(t, "high")<<32
				to := from + rapid.Int64Range(0, 70_000).Draw(t, "length")
				in := want[lowerBound(want, from):lowerBound(want, to)]
				require.Equal(t, len(in) > 0, r.AnyIn(from, to))
				require.Equal(t, append([]int64{}, in...), marked(r, from, to, 70_000))
			}
		}
	})
}

func TestUnion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRows(t, "a"), drawRows(t, "b")
		want := slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
		// One of them as it comes from a file.
		decoded, err := dv.Decode(encode(a, rapid.Bool().Draw(t, "runs")))
		require.NoError(t, err)
		union := dv.Union(decoded, build(t, b))
		require.EqualValues(t, len(want), union.Len())
		require.EqualValues(t, len(want), dv.Union(union, build(t, want)).Len(), "it has no other rows")
		again, err := dv.Decode(union.Encode())
		require.NoError(t, err)
		require.EqualValues(t, len(want), dv.Union(build(t, want), again).Len())
		require.EqualValues(t, len(want), again.Len())
	})
	require.Zero(t, dv.Union(nil, nil).Len())
	require.EqualValues(t, 1, dv.Union(nil, build(t, []int64{7})).Len())
}

func TestBuilderRefuses(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string][]int64{
		"an earlier block": {70_000, 1},
		"a negative row":   {-1},
		"a row too high":   {1 << 62, 5},
		"one above 2^63":   {-1 << 63},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b dv.Builder
			for _, row := range rows {
				b.Add(row)
			}
			_, err := b.Rows()
			require.ErrorContains(t, err, "building a deletion vector")
		})
	}
	require.EqualValues(t, 2, build(t, []int64{9, 3, 9}).Len(), "within a block any order will do")
}

// A file of vectors is read back by their descriptors.
func TestFileThereAndBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	st := mem.New()
	file := dv.NewFile([16]byte{0xd2, 0xc6, 0x39, 0xaa, 0x88, 0x16, 0x43, 0x1a, 0xaa, 0xf6, 0xd3, 0xfe, 0x25, 0x12, 0xff, 0x61})
	require.Equal(t, "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", file.Path())
	var vectors []action.DeletionVector
	var want []*dv.Rows
	for range 5 {
		var b dv.Builder
		for row := range int64(200_000) {
			if r.IntN(7) == 0 {
				b.Add(row)
			}
		}
		rows, err := b.Rows()
		require.NoError(t, err)
		d, err := file.Add(rows)
		require.NoError(t, err)
		require.Equal(t, rows.Len(), d.Cardinality)
		vectors, want = append(vectors, d), append(want, rows)
	}
	require.NoError(t, file.Write(t.Context(), st))
	for i, d := range vectors {
		path, err := d.Path()
		require.NoError(t, err)
		require.Equal(t, file.Path(), path)
		have, err := dv.Read(t.Context(), st, d, path)
		require.NoError(t, err)
		require.Equal(t, want[i].Encode(), have.Encode())
	}
}

// FuzzDecodeEncode: whatever can be decoded is the same set after it was encoded.
func FuzzDecodeEncode(f *testing.F) {
	f.Add(encode([]int64{1, 5, 70_000}, false))
	f.Add(encode([]int64{1, 2, 3, 9}, true))
	f.Add(encode([]int64{0, 1 << 33}, true))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := dv.Decode(data)
		if err != nil {
			return
		}
		again, err := dv.Decode(rows.Encode())
		require.NoError(t, err)
		require.Equal(t, rows.Len(), again.Len())
		require.Equal(t, dv.Union(rows, nil).Encode(), again.Encode())
		require.Equal(t, rows.Len(), dv.Union(rows, again).Len())
	})
}
