package dv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Builder makes a set of rows that come in ascending order. The zero Builder is an empty set.
type Builder struct {
	containers []container
	n          int64

	words [bitmapWords]uint64 // of the block that rows come for
	first int64               // its first row
	any   bool                // it has a row
	err   error
}

// Add adds a row. Blocks of 65,536 rows must come one after the other, and within one rows may
// come in any order and several times.
func (b *Builder) Add(row int64) {
	if first := row &^ 0xffff; first != b.first {
		b.flush()
		if first < b.first || row>>32 > maxKey {
			b.err = fmt.Errorf("row %d comes out of order or is too high", row)
		}
		b.first = first
	}
	b.words[row&0xffff/64] |= 1 << (row & 63)
	b.any = true
}

func (b *Builder) flush() {
	if !b.any {
		return
	}
	c, n := compact(b.first, &b.words)
	b.containers = append(b.containers, c)
	b.n += int64(n)
	b.words, b.any = [bitmapWords]uint64{}, false
}

// Rows is the set of all rows added. The error says that one came out of order.
func (b *Builder) Rows() (*Rows, error) {
	b.flush()
	if b.err != nil {
		return nil, fmt.Errorf("building a deletion vector: %w", b.err)
	}
	return &Rows{containers: b.containers, n: b.n}, nil
}

// Union is the rows that are in one of two sets; nil is an empty one.
func Union(a, b *Rows) *Rows {
	switch {
	case a == nil && b == nil:
		return &Rows{}
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := &Rows{containers: make([]container, 0, len(a.containers)+len(b.containers))}
	x, y := a.containers, b.containers
	for len(x) > 0 || len(y) > 0 {
		var c container
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].first < y[0].first:
			c, x = x[0], x[1:]
		case len(x) == 0 || y[0].first < x[0].first:
			c, y = y[0], y[1:]
		default:
			var words [bitmapWords]uint64
			x[0].set(&words)
			y[0].set(&words)
			c, _ = compact(x[0].first, &words)
			x, y = x[1:], y[1:]
		}
		out.containers = append(out.containers, c)
		out.n += int64(c.cardinality())
	}
	return out
}

// Has reports whether a row is in the set.
func (r *Rows) Has(row int64) bool {
	if r == nil {
		return false
	}
	keep := [1]byte{1}
	return r.Clear(keep[:], row, 1) == 1
}

// AnyIn reports whether the set has a row from from on and before to.
func (r *Rows) AnyIn(from, to int64) bool {
	for i := range r.containers {
		c := &r.containers[i]
		if c.first+1<<16 <= from || c.first >= to {
			continue
		}
		found := false
		c.each(max(from, c.first)-c.first, min(to, c.first+1<<16)-c.first, func(int64) { found = true })
		if found {
			return true
		}
	}
	return false
}

// compact is a block in its smallest form, and how many rows it has.
func compact(first int64, words *[bitmapWords]uint64) (container, int) {
	n, runs := 0, 0
	var last uint64 // the bit before
	for _, w := range words {
		n += bits.OnesCount64(w)
		runs += bits.OnesCount64(w &^ (w<<1 | last))
		last = w >> 63
	}
	c := container{first: first}
	switch size := min(2*n, 8*bitmapWords); {
	case 2+4*runs < size:
		c.runs = runsOf(words, runs)
	case n <= arrayMax:
		c.values = make([]uint16, 0, n)
		for i, w := range words {
			for ; w != 0; w &= w - 1 {
				c.values = append(c.values, uint16(i*64+bits.TrailingZeros64(w)))
			}
		}
	default:
		c.words = append([]uint64(nil), words[:]...)
	}
	return c, n
}

func runsOf(words *[bitmapWords]uint64, n int) []run {
	out := make([]run, 0, n)
	for row := 0; row < 1<<16; {
		rest := words[row/64] >> (row % 64)
		if rest == 0 {
			row += 64 - row%64
			continue
		}
		row += bits.TrailingZeros64(rest)
		start := row
		for row < 1<<16 {
			ones := bits.TrailingZeros64(^(words[row/64] >> (row % 64)))
			left := 64 - row%64
			row += min(ones, left)
			if ones < left {
				break
			}
		}
		out = append(out, run{uint16(start), uint16(row - 1)})
	}
	return out
}

// set sets the bits of the block's rows.
func (c *container) set(words *[bitmapWords]uint64) {
	if c.words != nil {
		for i, w := range c.words {
			words[i] |= w
		}
		return
	}
	c.each(0, 1<<16, func(row int64) { words[row/64] |= 1 << (row % 64) })
}

func (c *container) cardinality() int {
	n := len(c.values)
	for _, r := range c.runs {
		n += int(r.end) - int(r.start) + 1
	}
	for _, w := range c.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Encode is the content of the vector, as Decode reads it: the portable form of Roaring
// bitmaps.
func (r *Rows) Encode() []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, magic)
	at := len(out)
	out = le.AppendUint64(out, 0)
	for from := 0; from < len(r.containers); {
		key, to := r.containers[from].first>>32, from+1
		for to < len(r.containers) && r.containers[to].first>>32 == key {
			to++
		}
		out = le.AppendUint32(out, uint32(key))
		out = appendBitmap(out, r.containers[from:to])
		le.PutUint64(out[at:], le.Uint64(out[at:])+1)
		from = to
	}
	return out
}

// appendBitmap appends the 32-bit bitmap of some containers.
func appendBitmap(out []byte, containers []container) []byte {
	le, start, n := binary.LittleEndian, len(out), len(containers)
	flags, anyRuns := make([]byte, (n+7)/8), false
	for i, c := range containers {
		if c.runs != nil {
			flags[i/8] |= 1 << (i % 8)
			anyRuns = true
		}
	}
	if anyRuns {
		out = le.AppendUint32(out, cookieRuns|uint32(n-1)<<16)
		out = append(out, flags...)
	} else {
		out = le.AppendUint32(le.AppendUint32(out, cookiePlain), uint32(n))
	}
	for _, c := range containers {
		out = le.AppendUint16(out, uint16(c.first>>16))
		out = le.AppendUint16(out, uint16(c.cardinality()-1))
	}
	offsets := -1
	if !anyRuns || n >= noOffsetsBelow {
		offsets = len(out)
		out = append(out, make([]byte, 4*n)...)
	}
	for i, c := range containers {
		if offsets >= 0 {
			le.PutUint32(out[offsets+4*i:], uint32(len(out)-start))
		}
		out = c.append(out)
	}
	return out
}

func (c *container) append(out []byte) []byte {
	le := binary.LittleEndian
	switch {
	case c.runs != nil:
		out = le.AppendUint16(out, uint16(len(c.runs)))
		for _, r := range c.runs {
			out = le.AppendUint16(le.AppendUint16(out, r.start), r.end-r.start)
		}
	case c.values != nil:
		for _, v := range c.values {
			out = le.AppendUint16(out, v)
		}
	default:
		for _, w := range c.words {
			out = le.AppendUint64(out, w)
		}
	}
	return out
}

var errTooLarge = errors.New("deletion vectors of one file take more than 2 GiB: change fewer rows at a time")
