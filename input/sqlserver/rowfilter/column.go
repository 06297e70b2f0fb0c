package rowfilter

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// column is one column of the rowset: how its values lie in a row, how they are decoded, and what has been decoded, in Arrow's
// own memory layout. It becomes an array without a copy, and the next record gets memory of its own, since nobody promises to
// give records back.
type column struct {
	form form
	op   op
	size int // largest length on the wire

	width int // bytes of a value in values; 0 for bits and for values of any length
	scale int64
	limit uint128  // of a decimal's magnitude
	chars *charset // of a character type
	from  int      // bytes of an integer on the wire

	name string
	typ  arrow.DataType

	values  []byte  // values of fixed width, or bits, or bytes of any length
	offsets []int32 // of values of any length, else nil
	rows    int
	valid   []byte // bitmap; nil until the first NULL
	nulls   int
	scratch []byte // where a value's chunks are joined

	guessRows, guessBytes int // of the record before
}

// variable tells whether values are of any length.
func (c *column) variable() bool { return c.width == 0 && c.op != opBool }

// begin asks for memory for a record like the one before and a little more, since records that are closed by their bytes
// differ by some rows; one huge value must not make the rule.
func (c *column) begin() {
	rows := c.guessRows + c.guessRows/32 + 1
	switch {
	case c.width > 0:
		c.values = make([]byte, 0, c.width*rows)
	case c.op == opBool:
		c.values = make([]byte, 0, (rows+7)/8)
	default:
		c.values = make([]byte, 0, min(c.guessBytes+c.guessBytes/16, mostGuessed))
		c.offsets = append(make([]int32, 0, rows+1), 0)
	}
	c.rows, c.valid, c.nulls = 0, nil, 0
}

const (
	mostGuessed = 1 << 20 // bytes of a column that are allocated before they are needed
	firstRows   = 256     // rows that the first record's memory is for
)

// extend makes room for n more bytes of values and returns them. Storing the length alone keeps the garbage collector's
// write barrier out of it, which storing what append returns would not.
func (c *column) extend(n int) []byte {
	at := len(c.values)
	if n > cap(c.values)-at {
		c.grow(n)
	}
	c.values = c.values[:at+n]
	return c.values[at:]
}

// grow makes room for n more bytes. The first record of a reading has no guess to go by and
// grows by doubling: slices.Grow alone goes on in steps of a quarter, which copies a record
// several times.
func (c *column) grow(n int) { c.values = slices.Grow(c.values, max(n, cap(c.values), leastGrown)) }

const leastGrown = 512 // bytes

// added notes one value that is not NULL.
func (c *column) added() {
	if c.valid != nil {
		if c.rows&7 == 0 {
			c.valid = append(c.valid, 0)
		}
		c.valid[c.rows>>3] |= 1 << (c.rows & 7)
	}
	c.rows++
}

// ended notes the end of a value of any length.
func (c *column) ended() {
	c.offsets = append(c.offsets, int32(len(c.values)))
	c.added()
}

// null adds a NULL.
func (c *column) null() {
	if c.valid == nil {
		c.valid = make([]byte, (c.rows+7)/8, max((c.guessRows+7)/8, (c.rows+7)/8+64))
		for i := range c.valid {
			c.valid[i] = 0xFF
		}
		if c.rows&7 != 0 {
			c.valid[c.rows>>3] = 1<<(c.rows&7) - 1
		}
	}
	if c.rows&7 == 0 {
		c.valid = append(c.valid, 0)
	}
	switch {
	case c.width > 0:
		c.values = append(c.values, zeros[:c.width]...)
	case c.op == opBool:
		if c.rows&7 == 0 {
			c.values = append(c.values, 0)
		}
	default:
		c.offsets = append(c.offsets, int32(len(c.values)))
	}
	c.rows++
	c.nulls++
}

// zeros is the value of a NULL of fixed width.
var zeros = [16]byte{}

// array hands the values out.
func (c *column) array() arrow.Array {
	var valid *memory.Buffer
	if c.nulls > 0 {
		valid = memory.NewBufferBytes(c.valid)
	}
	buffers := []*memory.Buffer{valid}
	if c.variable() {
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(c.offsets)))
	}
	buffers = append(buffers, memory.NewBufferBytes(c.values))
	data := array.NewData(c.typ, c.rows, buffers, nil, c.nulls, 0)
	c.guessRows, c.guessBytes = c.rows, len(c.values)
	c.values, c.offsets, c.valid = nil, nil, nil
	if cap(c.scratch) > mostGuessed {
		c.scratch = nil
	}
	return array.MakeFromData(data)
}
