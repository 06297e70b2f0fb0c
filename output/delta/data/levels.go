package data

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// span is a run of positions of a leaf array whose values are in the file: not NULL
// and not below a NULL.
type span struct{ start, end int }

// shredded is a piece of a column taken apart: what of it goes where.
type shredded struct {
	values arrow.Array // the leaf array the spans are positions of
	spans  []span
	n      int // number of values in the spans
	levels int // number of levels; rows if the leaf is not repeated
	nulls  int // rows in which the leaf (or the list above it) is NULL
}

// levels are the definition and repetition levels of the values of one data page. They
// are kept as runs as long as nothing is NULL, as a bitmap for a nullable column of the
// top, and value by value for the rest.
type levels struct {
	maxDef, maxRep uint32
	flat           bool // the leaf is a column of the top, which is no list or map
	n, nulls       int
	bitmap         []byte // flat and nullable: one bit a row, set where there is a value
	defs, reps     []uint32
}

func (l *levels) reset() {
	l.n, l.nulls = 0, 0
	l.bitmap, l.defs, l.reps = l.bitmap[:0], l.defs[:0], l.reps[:0]
}

// appendFlat adds the rows of a column of the top and finds the spans of its values.
func (l *levels) appendFlat(arr arrow.Array, out *shredded) {
	rows := arr.Len()
	out.values, out.levels, out.nulls = arr, rows, arr.NullN()
	out.n = rows - out.nulls
	if l.maxDef > 0 {
		l.appendValidity(arr, rows, out.nulls)
	}
	if out.nulls == 0 {
		out.spans = append(out.spans[:0], span{0, rows})
	} else {
		out.spans = spansOf(out.spans[:0], arr.NullBitmapBytes(), arr.Data().Offset(), rows)
	}
	l.n += rows
	l.nulls += out.nulls
}

// appendValidity adds the validity of an array's rows to the bitmap.
func (l *levels) appendValidity(arr arrow.Array, rows, nulls int) {
	need := (l.n + rows + 7) / 8
	for len(l.bitmap) < need {
		l.bitmap = append(l.bitmap, 0)
	}
	valid, offset := arr.NullBitmapBytes(), arr.Data().Offset()
	for i := 0; i < rows; {
		at := l.n + i
		// Byte by byte once the destination is aligned, bit by bit at the edges.
		if at&7 == 0 && rows-i >= 8 {
			l.bitmap[at/8] = byteAt(valid, offset+i, nulls)
			i += 8
			continue
		}
		if nulls == 0 || valid[(offset+i)/8]>>((offset+i)&7)&1 == 1 {
			l.bitmap[at/8] |= 1 << (at & 7)
		}
		i++
	}
}

// byteAt is the eight bits from position i on; all set if the array has no NULL.
func byteAt(bitmap []byte, i, nulls int) byte {
	if nulls == 0 {
		return 0xff
	}
	b := bitmap[i/8] >> (i & 7)
	if i&7 != 0 {
		b |= bitmap[i/8+1] << (8 - i&7)
	}
	return b
}

// spansOf lists the runs of set bits among n bits from offset on.
func spansOf(spans []span, bitmap []byte, offset, n int) []span {
	start := -1
	for i := 0; i < n; {
		word, size := wordAt(bitmap, offset+i, n-i)
		for j := 0; j < size; {
			rest := word >> j
			if start < 0 {
				skip := min(bits.TrailingZeros64(rest), size-j)
				j += skip
				if j < size {
					start = i + j
				}
				continue
			}
			run := min(bits.TrailingZeros64(^rest), size-j)
			j += run
			if j < size {
				spans = append(spans, span{start, i + j})
				start = -1
			}
		}
		i += size
	}
	if start >= 0 {
		spans = append(spans, span{start, n})
	}
	return spans
}

// wordAt reads up to 56 bits from position i on, and tells how many it read.
func wordAt(bitmap []byte, i, n int) (word uint64, size int) {
	from := bitmap[i/8:]
	if len(from) >= 8 {
		word = binary.LittleEndian.Uint64(from)
	} else {
		for j, b := range from {
			word |= uint64(b) << (8 * j)
		}
	}
	size = min(n, 56, 8*len(from)-i&7)
	return word >> (i & 7) & (1<<size - 1), size
}

// appendNested adds the rows of a nested column, by the rules of the Dremel paper.
func (l *levels) appendNested(lf *leaf, arr arrow.Array, out *shredded) {
	out.spans, out.n, out.nulls = out.spans[:0], 0, 0
	before := len(l.defs)
	w := levelWalk{levels: l, leaf: lf, out: out}
	for row := range arr.Len() {
		w.walk(arr, lf.steps, row, 0, 0)
	}
	out.levels = len(l.defs) - before
	l.n += out.levels
	l.nulls += out.levels - out.n
}

type levelWalk struct {
	*levels
	leaf *leaf
	out  *shredded
}

func (w *levelWalk) emit(def, rep uint32) {
	w.defs = append(w.defs, def)
	if w.maxRep > 0 {
		w.reps = append(w.reps, rep)
	}
	if rep == 0 && def < w.leaf.presentDef {
		w.out.nulls++
	}
}

// walk emits the levels of position i of an array that stands before the given steps.
func (w *levelWalk) walk(arr arrow.Array, steps []step, i int, def, rep uint32) {
	s := steps[0]
	if s.nullable {
		if arr.IsNull(i) {
			w.emit(def, rep)
			return
		}
		def++
	}
	switch s.kind {
	case stepStruct:
		w.walk(arr.(*array.Struct).Field(s.child), steps[1:], i, def, rep)
	case stepValue:
		w.emit(def, rep)
		w.value(arr, i)
	default:
		values, start, end := elements(arr, s.kind, i)
		if start == end {
			w.emit(def, rep)
			return
		}
		for j := start; j < end; j++ {
			w.walk(values, steps[1:], int(j), def+1, rep)
			rep = s.repLevel
		}
	}
}

func (w *levelWalk) value(arr arrow.Array, i int) {
	w.out.values = arr
	w.out.n++
	if last := len(w.out.spans) - 1; last >= 0 && w.out.spans[last].end == i {
		w.out.spans[last].end = i + 1
		return
	}
	w.out.spans = append(w.out.spans, span{i, i + 1})
}

// elements are the values of list or map i and where they begin and end.
func elements(arr arrow.Array, kind stepKind, i int) (values arrow.Array, start, end int64) {
	list := arr.(array.ListLike)
	start, end = list.ValueOffsets(i)
	switch kind {
	case stepMapKey:
		return list.ListValues().(*array.Struct).Field(0), start, end
	case stepMapValue:
		return list.ListValues().(*array.Struct).Field(1), start, end
	default:
		return list.ListValues(), start, end
	}
}

// appendRepetition and appendDefinition append the levels as a data page of version 1
// has them: their length in four bytes, then the hybrid encoding.
func (l *levels) appendRepetition(dst []byte) []byte {
	if l.maxRep == 0 {
		return dst
	}
	return withLength(dst, func(dst []byte) []byte { return appendHybrid(dst, l.reps, bitWidth(l.maxRep)) })
}

func (l *levels) appendDefinition(dst []byte) []byte {
	if l.maxDef == 0 {
		return dst
	}
	return withLength(dst, func(dst []byte) []byte {
		switch {
		case l.nulls == 0:
			return appendRun(dst, l.maxDef, l.n, bitWidth(l.maxDef))
		case !l.flat:
			return appendHybrid(dst, l.defs, bitWidth(l.maxDef))
		case l.nulls == l.n:
			return appendRun(dst, 0, l.n, 1)
		default: // the bitmap is what bit-packing one bit a value gives
			dst = binary.AppendUvarint(dst, uint64(len(l.bitmap))<<1|1)
			return append(dst, l.bitmap...)
		}
	})
}

func withLength(dst []byte, fill func([]byte) []byte) []byte {
	at := len(dst)
	dst = fill(append(dst, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
