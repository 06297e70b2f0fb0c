package dv_test

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// encode is the content of a vector, from the format's specification and from nothing of
// the decoder. runs stores containers as runs.
func encode(rows []int64, runs bool) []byte {
	blocks := map[int64]map[uint16][]uint16{}
	for _, row := range rows {
		key := row >> 32
		if blocks[key] == nil {
			blocks[key] = map[uint16][]uint16{}
		}
		block := uint16(row >> 16)
		blocks[key][block] = append(blocks[key][block], uint16(row))
	}
	le := binary.LittleEndian
	out := le.AppendUint32(nil, 1681511377)
	out = le.AppendUint64(out, uint64(len(blocks)))
	for _, key := range slices.Sorted(maps.Keys(blocks)) {
		out = append(le.AppendUint32(out, uint32(key)), bitmap(blocks[key], runs)...)
	}
	return out
}

func bitmap(blocks map[uint16][]uint16, runs bool) []byte {
	le := binary.LittleEndian
	keys := slices.Sorted(maps.Keys(blocks))
	var out, header, body []byte
	var offsets []int
	for _, key := range keys {
		values := blocks[key]
		header = le.AppendUint16(le.AppendUint16(header, key), uint16(len(values)-1))
		offsets = append(offsets, len(body))
		switch {
		case runs:
			var pairs []byte
			for i := 0; i < len(values); {
				j := i
				for j+1 < len(values) && values[j+1] == values[j]+1 {
					j++
				}
				pairs = le.AppendUint16(le.AppendUint16(pairs, values[i]), values[j]-values[i])
				i = j + 1
			}
			body = append(le.AppendUint16(body, uint16(len(pairs)/4)), pairs...)
		case len(values) <= 4096:
			for _, v := range values {
				body = le.AppendUint16(body, v)
			}
		default:
			words := make([]uint64, 1024)
			for _, v := range values {
				words[v/64] |= 1 << (v % 64)
			}
			for _, w := range words {
				body = le.AppendUint64(body, w)
			}
		}
	}
	if runs {
		out = le.AppendUint32(out, uint32(12347|(len(keys)-1)<<16))
		flags := make([]byte, (len(keys)+7)/8)
		for i := range keys {
			flags[i/8] |= 1 << (i % 8)
		}
		out = append(out, flags...)
	} else {
		out = le.AppendUint32(le.AppendUint32(out, 12346), uint32(len(keys)))
	}
	out = append(out, header...)
	if !runs || len(keys) >= 4 {
		start := len(out) + 4*len(keys)
		for _, o := range offsets {
			out = le.AppendUint32(out, uint32(start+o))
		}
	}
	return append(out, body...)
}

// marked are the rows that Clear clears between two rows, asked for in pieces.
func marked(r *dv.Rows, from, to int64, step int) []int64 {
	out := []int64{}
	for ; from < to; from += int64(step) {
		n := int(min(int64(step), to-from))
		keep := make([]byte, (n+7)/8)
		for i := range keep {
			keep[i] = 0xff
		}
		cleared, before := r.Clear(keep, from, n), len(out)
		for i := range n {
			if keep[i/8]>>(i%8)&1 == 0 {
				out = append(out, from+int64(i))
			}
		}
		if cleared != len(out)-before {
			return nil
		}
	}
	return out
}

func TestRowsThereAndBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Clusters in different blocks, dense and sparse ones.
		set := map[int64]bool{}
		var highest int64
		for range rapid.IntRange(0, 6).Draw(t, "clusters") {
			base := rapid.Int64Range(0, 5).Draw(t, "block")<<16 + rapid.Int64Range(0, 1).Draw(t, "high")<<32
			start := base + rapid.Int64Range(0, 65_535).Draw(t, "start")
			step := rapid.SampledFrom([]int64{1, 2, 7, 1000}).Draw(t, "step")
			for i := range rapid.Int64Range(1, 6000).Draw(t, "n") {
				set[start+i*step] = true
				highest = max(highest, start+i*step)
			}
		}
		want := slices.AppendSeq([]int64{}, maps.Keys(set))
		slices.Sort(want)
		rows, err := dv.Decode(encode(want, rapid.Bool().Draw(t, "runs")))
		require.NoError(t, err)
		require.EqualValues(t, len(want), rows.Len())
		if len(want) == 0 {
			require.EqualValues(t, -1, rows.Last())
			return
		}
		require.Equal(t, highest, rows.Last())
		from := max(0, want[rapid.IntRange(0, len(want)-1).Draw(t, "from")]-rapid.Int64Range(0, 100).Draw(t, "before"))
		to := from + 400_000
		in := want[lowerBound(want, from):lowerBound(want, to)]
		require.Equal(t, slices.Clone(in), marked(rows, from, to, rapid.IntRange(1000, 100_000).Draw(t, "step")))
	})
}

func lowerBound(rows []int64, row int64) int {
	at, _ := slices.BinarySearch(rows, row)
	return at
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	good := encode([]int64{1, 5, 70_000}, false)
	_, err := dv.Decode(good)
	require.NoError(t, err)
	change := func(at int, with ...byte) []byte {
		out := slices.Clone(good)
		copy(out[at:], with)
		return out
	}
	runs := encode([]int64{1, 2, 3, 9}, true)
	twice := append(le.AppendUint64(le.AppendUint32(nil, 1681511377), 2), append(good[12:], good[12:]...)...)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "ends early"},
		"not a vector":         {change(0, 0), "magic number"},
		"the old native form":  {change(0, 0x10), "magic number"},
		"something behind it":  {append(slices.Clone(good), 0), "1 bytes follow"},
		"cut":                  {good[:len(good)-1], "ends early"},
		"more bitmaps":         {change(4, 2), "ends early"},
		"very many bitmaps":    {change(4, 255, 255, 255, 255, 255, 255, 255, 255), "ends early"},
		"key above all rows":   {change(12, 0, 0, 0, 0x80), "too high"},
		"one key twice":        {twice, "out of order"},
		"cookie":               {change(16, 1), "cookie"},
		"many containers":      {change(20, 1, 0, 1), "65537 containers"},
		"containers in order":  {change(24, 1, 0, 1, 0, 1, 0), "containers of a bitmap are out of order"},
		"values in order":      {change(len(good)-6, 5, 0, 1, 0), "values of a container are out of order"},
		"same value twice":     {change(len(good)-6, 5, 0, 5, 0), "values of a container are out of order"},
		"rows of runs":         {slices.Replace(slices.Clone(runs), 23, 24, 9), "header says 10"},
		"runs that overlap":    {slices.Replace(slices.Clone(runs), len(runs)-4, len(runs)-3, 2), "runs of a container are out of order"},
		"run beyond the block": {slices.Replace(slices.Clone(runs), len(runs)-4, len(runs), 0xff, 0xff, 1, 0), "runs of a container are out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dv.Decode(c.data)
			require.ErrorContains(t, err, c.want)
		})
	}
	var dense []int64
	for i := range int64(5000) {
		dense = append(dense, 2*i)
	}
	words := encode(dense, false)
	words[len(words)-1] ^= 1
	_, err = dv.Decode(words)
	require.ErrorContains(t, err, "header says 5000")
}

// vectorFile is a file of one vector behind some bytes.
func vectorFile(content []byte, offset int) []byte {
	file := make([]byte, offset)
	file[0] = 1
	file = binary.BigEndian.AppendUint32(file, uint32(len(content)))
	file = append(file, content...)
	return binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(content))
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	content := encode([]int64{3, 4, 9}, false)
	for name, c := range map[string]struct {
		offset  int
		change  func(file []byte, d *action.DeletionVector) []byte
		refused string
	}{
		"first":            {offset: 1},
		"behind others":    {offset: 1000},
		"far behind":       {offset: 200_000},
		"offset left out":  {offset: 1, change: func(f []byte, d *action.DeletionVector) []byte { d.Offset = nil; return f }},
		"something behind": {offset: 1, change: func(f []byte, _ *action.DeletionVector) []byte { return append(f, 1, 2, 3) }},
		"checksum": {offset: 1, refused: "checksum",
			change: func(f []byte, _ *action.DeletionVector) []byte { f[len(f)-1] ^= 1; return f }},
		"content": {offset: 1, refused: "checksum",
			change: func(f []byte, _ *action.DeletionVector) []byte { f[len(f)-5] ^= 1; return f }},
		"size": {offset: 1, refused: "the log says",
			change: func(f []byte, _ *action.DeletionVector) []byte { f[4] ^= 1; return f }},
		"version": {offset: 1, refused: "format version is 2",
			change: func(f []byte, _ *action.DeletionVector) []byte { f[0] = 2; return f }},
		"short file": {offset: 1, refused: "do not fit",
			change: func(f []byte, _ *action.DeletionVector) []byte { return f[:len(f)-1] }},
		"cardinality": {offset: 1, refused: "it has 3 rows, the log says 4",
			change: func(f []byte, d *action.DeletionVector) []byte { d.Cardinality = 4; return f }},
		"negative size": {offset: 1, refused: "cannot be",
			change: func(f []byte, d *action.DeletionVector) []byte { d.SizeInBytes = -1; return f }},
		"offset of the version": {offset: 1, refused: "cannot be",
			change: func(f []byte, d *action.DeletionVector) []byte { d.Offset = new(int32(0)); return f }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := action.DeletionVector{StorageType: "u", Offset: new(int32(c.offset)), SizeInBytes: int32(len(content)), Cardinality: 3}
			file := vectorFile(content, c.offset)
			if c.change != nil {
				file = c.change(file, &d)
			}
			st := mem.New()
			require.NoError(t, st.Put(t.Context(), "v.bin", file))
			rows, err := dv.Read(t.Context(), st, d, "v.bin")
			if c.refused != "" {
				require.ErrorContains(t, err, "reading deletion vector v.bin: ")
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []int64{3, 4, 9}, marked(rows, 0, 20, 7))
		})
	}
	_, err := dv.Read(t.Context(), mem.New(), action.DeletionVector{StorageType: "u", SizeInBytes: 1}, "absent")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// The sample of PROTOCOL.md.
func TestReadInline(t *testing.T) {
	t.Parallel()
	d := action.DeletionVector{StorageType: "i", PathOrInlineDv: "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", SizeInBytes: 44, Cardinality: 6}
	rows, err := dv.Read(t.Context(), mem.New(), d, "")
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4, 7, 11, 18, 29}, marked(rows, 0, 100, 100))
	d.Cardinality = 5
	_, err = dv.Read(t.Context(), mem.New(), d, "")
	require.ErrorContains(t, err, "reading inline deletion vector: it has 6 rows, the log says 5")
}

// Whatever a vector's content is, it gives rows that agree with each other, or an error.
func FuzzDecode(f *testing.F) {
	f.Add(encode([]int64{3, 4, 7, 1 << 33}, false))
	f.Add(encode([]int64{3, 4, 5, 6, 100_000, 200_000, 300_000}, true))
	var dense []int64
	for i := range int64(5000) {
		dense = append(dense, 3*i)
	}
	f.Add(encode(dense, false))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := dv.Decode(data)
		if err != nil {
			return
		}
		if rows.Last() < 0 {
			require.Zero(t, rows.Len())
			return
		}
		require.LessOrEqual(t, rows.Len(), rows.Last()+1)
		last := marked(rows, rows.Last(), rows.Last()+10, 10)
		require.Equal(t, []int64{rows.Last()}, last)
		if rows.Last() < 1<<22 {
			require.Len(t, marked(rows, 0, rows.Last()+1, 1<<20), int(rows.Len()))
		}
	})
}
