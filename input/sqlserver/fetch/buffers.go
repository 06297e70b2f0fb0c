package fetch

import (
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Buffers collects rows in Arrow's own memory layout: values side by side, a bitmap of what is not null. They become a
// record without a copy, and the next record gets buffers of its own, sized by the one before. Builders of arrow-go would
// do the same at about 0.2 µs more a row, for the capacity checks and the interface between.
//
// It is not safe for concurrent use.
type Buffers struct {
	schema  *arrow.Schema
	columns []column
	appends []func(driver.Value) error
	rows    int64
	fixed   int64 // bytes a row of the columns of fixed width
	bytes   int64 // bytes of the columns of variable width
}

// column is one column's buffer.
type column interface {
	// begin asks for the memory of a record like the one before.
	begin()
	// appendNull adds a null.
	appendNull()
	// flush hands out the values and starts anew.
	flush() arrow.ArrayData
}

// NewBuffers makes buffers for records of the schema, one field per column.
func NewBuffers(schema *arrow.Schema, columns []Column) (*Buffers, error) {
	if schema.NumFields() != len(columns) {
		return nil, fmt.Errorf("a schema of %d fields for %d columns", schema.NumFields(), len(columns))
	}
	b := &Buffers{schema: schema}
	for i, c := range columns {
		if got, want := schema.Field(i).Type, c.Type(); !arrow.TypeEqual(got, want) {
			return nil, fmt.Errorf("column %q is %s in the schema, want %s", c.Name, got, want)
		}
		if err := b.add(c); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Rows is the number of rows since the last flush.
func (b *Buffers) Rows() int64 { return b.rows }

// Bytes is the size of these rows as Arrow buffers, validity left out.
func (b *Buffers) Bytes() int64 { return b.bytes + b.rows*b.fixed }

// Append adds one row of the driver's values. They are copied. After an error the buffers are unusable.
func (b *Buffers) Append(row []driver.Value) error {
	if b.rows == 0 {
		for _, c := range b.columns {
			c.begin()
		}
	}
	for i, value := range row {
		if value == nil {
			b.columns[i].appendNull()
			continue
		}
		if err := b.appends[i](value); err != nil {
			return &ValueError{Column: b.schema.Field(i).Name, Reason: err.Error()}
		}
	}
	b.rows++
	return nil
}

// Flush hands out the rows, of which there must be some, as a record and starts anew.
func (b *Buffers) Flush() Batch {
	arrays := make([]arrow.Array, len(b.columns))
	for i, c := range b.columns {
		arrays[i] = array.MakeFromData(c.flush())
	}
	batch := Batch{Record: array.NewRecordBatch(b.schema, arrays, b.rows), Bytes: b.Bytes()}
	b.rows, b.bytes = 0, 0
	return batch
}

// validity is the bitmap that all columns share. It is nil until the first null, which most columns never see.
type validity struct {
	bits  []byte
	nulls int
}

// set notes that value i is there.
func (v *validity) set(i int) {
	if v.bits == nil {
		return
	}
	if i>>3 >= len(v.bits) {
		v.bits = append(v.bits, 0)
	}
	v.bits[i>>3] |= 1 << (i & 7)
}

// clear notes that value i is null.
func (v *validity) clear(i int) {
	if v.bits == nil {
		v.bits = make([]byte, i>>3, i>>3+64)
		for j := range v.bits {
			v.bits[j] = 0xFF
		}
		if i&7 != 0 {
			v.bits = append(v.bits, 1<<(i&7)-1)
		}
	}
	if i>>3 >= len(v.bits) {
		v.bits = append(v.bits, 0)
	}
	v.nulls++
}

func (v *validity) flush() (*memory.Buffer, int) {
	bits, nulls := v.bits, v.nulls
	v.bits, v.nulls = nil, 0
	if bits == nil {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}

// fixedColumn holds values of one width.
type fixedColumn[T any] struct {
	validity
	typ    arrow.DataType
	values []T
	bytes  func([]T) []byte
	guess  int // values of the record before
}

func (c *fixedColumn[T]) begin() { c.values = make([]T, 0, c.guess) }

func (c *fixedColumn[T]) add(v T) {
	c.set(len(c.values))
	c.values = append(c.values, v)
}

func (c *fixedColumn[T]) appendNull() {
	var zero T
	c.clear(len(c.values))
	c.values = append(c.values, zero)
}

func (c *fixedColumn[T]) flush() arrow.ArrayData {
	bits, nulls := c.validity.flush()
	n := len(c.values)
	data := array.NewData(c.typ, n, []*memory.Buffer{bits, memory.NewBufferBytes(c.bytes(c.values))}, nil, nulls, 0)
	c.values, c.guess = nil, n
	return data
}

// boolColumn holds bits.
type boolColumn struct {
	validity
	bits  []byte
	n     int
	guess int // bytes of the record before
}

func (c *boolColumn) begin() { c.bits = make([]byte, 0, c.guess) }

func (c *boolColumn) add(v bool) {
	c.set(c.n)
	c.put(v)
}

func (c *boolColumn) put(v bool) {
	if c.n>>3 >= len(c.bits) {
		c.bits = append(c.bits, 0)
	}
	if v {
		c.bits[c.n>>3] |= 1 << (c.n & 7)
	}
	c.n++
}

func (c *boolColumn) appendNull() {
	c.clear(c.n)
	c.put(false)
}

func (c *boolColumn) flush() arrow.ArrayData {
	bits, nulls := c.validity.flush()
	data := array.NewData(arrow.FixedWidthTypes.Boolean, c.n, []*memory.Buffer{bits, memory.NewBufferBytes(c.bits)}, nil, nulls, 0)
	c.bits, c.guess, c.n = nil, len(c.bits), 0
	return data
}

// bytesColumn holds values of any length, and of one length when width is not 0.
type bytesColumn struct {
	validity
	typ     arrow.DataType
	width   int
	offsets []int32 // nil when width is not 0
	data    []byte
	n       int
	total   *int64 // bytes of all columns of variable width

	guess, guessData int // values and bytes of the record before
}

// begin asks for memory at once for a record like the one before; one huge value must not make the rule.
func (c *bytesColumn) begin() {
	c.data = make([]byte, 0, min(c.guessData+c.guessData/8, maxGuess))
	if c.width == 0 {
		c.offsets = append(make([]int32, 0, c.guess+1), 0)
	}
}

// room says whether n more bytes can be addressed: offsets have 32 bits.
func (c *bytesColumn) room(n int) error {
	if len(c.data)+n > math.MaxInt32 {
		return fmt.Errorf("a value of %d bytes does not fit into a record", n)
	}
	return nil
}

// close ends the value whose bytes were appended to data.
func (c *bytesColumn) close() {
	c.set(c.n)
	c.n++
	if c.width == 0 {
		c.note()
	}
}

func (c *bytesColumn) note() {
	before := int64(c.offsets[len(c.offsets)-1])
	c.offsets = append(c.offsets, int32(len(c.data)))
	*c.total += int64(len(c.data)) - before + 4
}

func (c *bytesColumn) appendNull() {
	c.clear(c.n)
	c.n++
	if c.width == 0 {
		c.note()
		return
	}
	c.data = append(c.data, make([]byte, c.width)...)
}

func (c *bytesColumn) flush() arrow.ArrayData {
	bits, nulls := c.validity.flush()
	buffers := []*memory.Buffer{bits}
	if c.width == 0 {
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(c.offsets)))
	}
	buffers = append(buffers, memory.NewBufferBytes(c.data))
	data := array.NewData(c.typ, c.n, buffers, nil, nulls, 0)
	c.guess, c.guessData = c.n, len(c.data)
	c.offsets, c.data, c.n = nil, nil, 0
	return data
}

// maxGuess bounds what is allocated before it is needed.
const maxGuess = 1 << 20
