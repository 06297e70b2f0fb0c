package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// maxAhead is how many rows a seek reads ahead at most.
const maxAhead = 512

// seekOp looks up the one row of a key. It keeps the last answer, and with a key
// of one column the rows behind it too: outer rows mostly come in key order, so
// that the next key is likely among them. How far it reads ahead adapts to how
// many of these rows were wanted.
type seekOp struct {
	scan  *scanOp
	owner *frame
	last  []sqltype.Value
	found bool
	row   sqltype.Row
	key   []sqltype.Value

	ahead    int
	buf      []sqltype.Row
	store    []sqltype.Value
	pos      int
	wanted   int  // rows of the buffer that were asked for
	complete bool // the buffer ends where the table ends
	single   bool
}

func newSeek(s *scanOp, unique int) *seekOp {
	return &seekOp{scan: s, ahead: 1, single: unique == 1 && len(s.equal) == 1 && len(s.lower)+len(s.upper) == 0}
}

func (o *seekOp) run(f *frame, yield func() error) error {
	o.key = o.key[:0]
	for i, x := range o.scan.equal {
		v, err := x.eval(f)
		if err != nil || v.IsNull() {
			return err
		}
		o.key = append(o.key, o.scan.boundValue(v, i))
	}
	if o.owner != f || !sameKey(o.last, o.key) {
		if o.owner != f {
			o.buf, o.pos, o.owner, o.complete = o.buf[:0], 0, f, false
		}
		if err := o.lookup(f); err != nil {
			return err
		}
		o.last = append(o.last[:0], o.key...)
	}
	if !o.found {
		return nil
	}
	f.rows[o.scan.src.slot] = o.row
	if o.scan.filter != nil {
		ok, err := o.scan.filter(f)
		if err != nil || ok != isTrue {
			return err
		}
	}
	return yield()
}

func sameKey(a, b []sqltype.Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (o *seekOp) lookup(f *frame) error {
	if o.single && o.inBuffer(f) {
		return nil
	}
	return o.fill(f)
}

// inBuffer answers from the rows read ahead; false when they do not reach the key.
func (o *seekOp) inBuffer(f *frame) bool {
	if len(o.buf) == 0 {
		return false
	}
	col := o.scan.order[0]
	coll := o.scan.orderCollation(f, 0)
	if sqltype.Compare(o.key[0], o.buf[0][col], coll) < 0 {
		return false
	}
	if o.pos > 0 && sqltype.Compare(o.key[0], o.buf[o.pos-1][col], coll) <= 0 {
		o.pos = 0
	}
	for ; o.pos < len(o.buf); o.pos++ {
		c := sqltype.Compare(o.buf[o.pos][col], o.key[0], coll)
		if c < 0 {
			continue
		}
		if o.found = c == 0; o.found {
			o.row = o.buf[o.pos]
			o.wanted++
		}
		return true
	}
	o.found = false
	return o.complete
}

// fill scans from the key on.
func (o *seekOp) fill(f *frame) error {
	switch {
	case o.wanted*2 >= len(o.buf):
		o.ahead = min(o.ahead*2, maxAhead)
	default:
		o.ahead = max(1, o.ahead/4)
	}
	spec := ScanSpec{Columns: o.scan.src.neededColumns(), Lower: Bound{Values: append([]sqltype.Value(nil), o.key...), Inclusive: true}}
	spec.Columns = withColumn(spec.Columns, o.scan.order[0])
	n := o.ahead
	if !o.single {
		n = 1
		full, ok, err := o.scan.spec(f)
		if err != nil || !ok {
			o.found = false
			return err
		}
		spec = full
	} else if n == 1 {
		spec.Upper = spec.Lower
	}
	o.buf, o.store, o.pos, o.wanted, o.found, o.complete = o.buf[:0], o.store[:0], 0, 0, false, n > 1
	width := len(o.scan.src.cols)
	if cap(o.store) < n*width {
		o.store = make([]sqltype.Value, 0, n*width)
	}
	for row, err := range o.scan.table.Scan(f.ctx, spec) {
		if err != nil {
			return err
		}
		at := len(o.store)
		o.store = append(o.store, row[:width]...)
		o.buf = append(o.buf, o.store[at:at+width:at+width])
		if len(o.buf) == n {
			o.complete = false
			break
		}
	}
	if !o.single {
		if o.found = len(o.buf) > 0; o.found {
			o.row = o.buf[0]
		}
		return nil
	}
	if len(o.buf) > 0 {
		col, coll := o.scan.order[0], o.scan.orderCollation(f, 0)
		if sqltype.Compare(o.buf[0][col], o.key[0], coll) == 0 {
			o.found, o.row, o.wanted = true, o.buf[0], 1
		}
	}
	return nil
}

// withColumn adds a column to a list that may lack it.
func withColumn(cols []int, col int) []int {
	for _, c := range cols {
		if c == col {
			return cols
		}
	}
	return append(cols, col)
}
