package rowfilter

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// decoder turns rows of one rowset into records. Only one goroutine uses it at a time.
type decoder struct {
	statement fetch.Statement
	wire      []wireColumn
	columns   []column
	variable  []*column // those of any length
	fixed     int64     // bytes a row of the others, and of the offsets of these
	longest   int       // bytes of the longest row, or math.MaxInt
	rows      int64
	sizes     *sizes
	noted     bool // the first record's size is in sizes
}

// sizes is how much memory the first record of a connection's last statement took, column by column: the next statement with
// the same text gets it at once. A statement that returned little leaves little.
type sizes struct {
	text string
	rows int
	data []int
}

// recall takes the guesses over from the last statement.
func (d *decoder) recall(s *sizes) {
	d.sizes = s
	if s.text != d.statement.Text || len(s.data) != len(d.columns) {
		return
	}
	for i := range d.columns {
		d.columns[i].guessRows, d.columns[i].guessBytes = s.rows, s.data[i]
	}
}

// note keeps the size of the first record.
func (d *decoder) note() {
	if d.noted || d.sizes == nil {
		return
	}
	d.noted = true
	*d.sizes = sizes{text: d.statement.Text, rows: int(d.rows), data: d.sizes.data[:0]}
	for i := range d.columns {
		d.sizes.data = append(d.sizes.data, len(d.columns[i].values))
	}
}

// newDecoder decides whether a rowset with these columns is decoded.
func newDecoder(wire []wireColumn, statement fetch.Statement) (*decoder, *Refusal) {
	if len(wire) != len(statement.Columns) || len(wire) != statement.Schema.NumFields() || len(wire) == 0 {
		return nil, &Refusal{Reason: Shape, Detail: "the result has not the columns that were asked for"}
	}
	d := &decoder{statement: statement, wire: wire, columns: make([]column, len(wire)), longest: 1 + (len(wire)+7)/8}
	for i, w := range wire {
		want := statement.Columns[i]
		c, refused := match(w, want)
		if refused != nil {
			return nil, refused
		}
		if !arrow.TypeEqual(statement.Schema.Field(i).Type, c.typ) {
			return nil, &Refusal{Reason: Shape, Detail: "the schema is not that of the columns"}
		}
		d.columns[i] = c
		switch {
		case c.variable():
			d.variable = append(d.variable, &d.columns[i])
			d.fixed += 4
		case c.op == opBool:
			d.fixed++
		default:
			d.fixed += int64(c.width)
		}
		switch c.form {
		case chunkedForm, pointerForm:
			d.longest = math.MaxInt
		default:
			if d.longest != math.MaxInt {
				d.longest += 2 + c.size
			}
		}
	}
	return d, nil
}

// length measures the row at the front of b. need is 0 when it is wholly there, else how many bytes are wanted at least.
func (d *decoder) length(b []byte) (n, need int, err error) {
	absent, p := d.absent(b)
	if len(b) < p {
		return 0, p, nil
	}
	for i := range d.wire {
		if absent != nil && absent[i>>3]>>(i&7)&1 != 0 {
			continue
		}
		n, need, err := valueLength(&d.wire[i], b[p:])
		if err != nil || need > 0 {
			return 0, p + need, err
		}
		p += n
	}
	return p, 0, nil
}

// absent is the bitmap of an NBCROW, nil for a ROW, and where the values begin. The bitmap is empty if it is not wholly there.
func (d *decoder) absent(b []byte) ([]byte, int) {
	if b[0] != tokenNBCRow {
		return nil, 1
	}
	n := 1 + (len(d.wire)+7)/8
	if len(b) < n {
		return nil, n
	}
	return b[1:n], n
}

// row decodes the row at the front of b, which is wholly there or longer than any row. It returns its length.
func (d *decoder) row(b []byte) (int, error) {
	if d.rows == 0 {
		for i := range d.columns {
			d.columns[i].begin()
		}
	}
	absent, p := d.absent(b)
	for i := range d.columns {
		c := &d.columns[i]
		if absent != nil && absent[i>>3]>>(i&7)&1 != 0 {
			c.null()
			continue
		}
		var v []byte
		switch c.form {
		case exactForm:
			n := int(b[p])
			p++
			if n == 0 {
				c.null()
				continue
			}
			if n != c.size {
				return 0, wrongSize
			}
			v = b[p : p+n]
			p += n
		case shortForm:
			n := le16(b[p:])
			p += 2
			if n == shortNull {
				c.null()
				continue
			}
			if n > c.size {
				return 0, wrongSize
			}
			v = b[p : p+n]
			p += n
		case fixedForm:
			v = b[p : p+c.size]
			p += c.size
		case byteForm:
			n := int(b[p])
			p++
			if n == 0 {
				c.null()
				continue
			}
			if n > c.size {
				return 0, wrongSize
			}
			v = b[p : p+n]
			p += n
		default:
			n, null := 0, false
			if v, n, null = c.long(b[p:]); null {
				p += n
				c.null()
				continue
			}
			p += n
		}
		if err := c.put(v); err != nil {
			return 0, d.fault(c, err)
		}
	}
	d.rows++
	return p, nil
}

// fault names the column of a value that is not what was promised.
func (d *decoder) fault(c *column, err error) error {
	if reason, ok := err.(valueFault); ok {
		return &fetch.ValueError{Column: c.name, Reason: string(reason)}
	}
	return err
}

// long cuts a value that comes in chunks or behind a text pointer off the front of b, where it is wholly there and was measured.
func (c *column) long(b []byte) (v []byte, n int, null bool) {
	if c.form == pointerForm {
		if b[0] == 0 {
			return nil, 1, true
		}
		at := 1 + int(b[0]) + 8
		length := le32(b[at:])
		if length == 0xFFFFFFFF {
			return nil, at + 4, true
		}
		n = at + 4 + int(length)
		return b[at+4 : n], n, false
	}
	if le64(b) == chunkedNull {
		return nil, 8, true
	}
	n = 8
	for chunks := 0; ; chunks++ {
		length := int(le32(b[n:]))
		n += 4
		switch {
		case length == 0:
			return v, n, false
		case chunks == 0:
			v = b[n : n+length] // one chunk needs no copy
		case chunks == 1:
			c.scratch = append(append(c.scratch[:0], v...), b[n:n+length]...)
			v = c.scratch
		default:
			c.scratch = append(c.scratch, b[n:n+length]...)
			v = c.scratch
		}
		n += length
	}
}

// full tells whether the record has reached a limit of the statement.
func (d *decoder) full() bool {
	return d.rows >= d.statement.MaxRows || d.bytes() >= d.statement.MaxBytes
}

// bytes is the size of the rows as Arrow buffers, validity left out.
func (d *decoder) bytes() int64 {
	n := d.rows * d.fixed
	for _, c := range d.variable {
		n += int64(len(c.values))
	}
	return n
}

// flush hands the rows out, of which there must be some, and starts anew.
func (d *decoder) flush() fetch.Batch {
	d.note()
	batch := fetch.Batch{Bytes: d.bytes()}
	arrays := make([]arrow.Array, len(d.columns))
	for i := range d.columns {
		arrays[i] = d.columns[i].array()
	}
	batch.Record = array.NewRecordBatch(d.statement.Schema, arrays, d.rows)
	d.rows = 0
	return batch
}
