package dv

import (
	"math/bits"
	"sort"
)

// Clear clears those of n bits in keep that stand for rows of the set; bit i, least
// significant first as in an Arrow bitmap, stands for row from+i. It returns how many rows
// of the set there are among them: as many as it cleared, if all bits were set.
func (r *Rows) Clear(keep []byte, from int64, n int) int {
	to := from + int64(n)
	at := sort.Search(len(r.containers), func(i int) bool { return r.containers[i].first+1<<16 > from })
	cleared := 0
	for ; at < len(r.containers) && r.containers[at].first < to; at++ {
		c := &r.containers[at]
		// The part of the block that is asked for.
		lo, hi := max(from, c.first)-c.first, min(to, c.first+1<<16)-c.first
		clearRow := func(row int64) {
			i := c.first + row - from
			keep[i/8] &^= 1 << (i % 8)
			cleared++
		}
		c.each(lo, hi, clearRow)
	}
	return cleared
}

// each calls f for every row of the block from lo to hi, hi not included.
func (c *container) each(lo, hi int64, f func(int64)) {
	switch {
	case c.runs != nil:
		for _, r := range c.runs {
			for row := max(lo, int64(r.start)); row < min(hi, int64(r.end)+1); row++ {
				f(row)
			}
		}
	case c.values != nil:
		first := sort.Search(len(c.values), func(i int) bool { return int64(c.values[i]) >= lo })
		for _, v := range c.values[first:] {
			if int64(v) >= hi {
				return
			}
			f(int64(v))
		}
	default:
		for row := lo; row < hi; {
			word := c.words[row/64] >> (row % 64)
			if word == 0 {
				row += 64 - row%64
				continue
			}
			row += int64(bits.TrailingZeros64(word))
			if row < hi {
				f(row)
			}
			row++
		}
	}
}
