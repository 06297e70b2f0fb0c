package engine

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Ordinals of the metadata columns that come first in every change table; the captured columns follow, __$command_id is last.
const (
	ChangeStartLSN   = 0
	ChangeEndLSN     = 1 // always NULL [D]
	ChangeSeqVal     = 2
	ChangeOperation  = 3
	ChangeUpdateMask = 4
	ChangeFirst      = 5 // of the captured columns
)

// ChangeColumns lists the columns of the change table: the five metadata columns, the captured columns in ordinal order, all
// nullable, and __$command_id [D, M25].
func (i *Instance) ChangeColumns() []sqltype.Column {
	out := []sqltype.Column{
		{Name: "__$start_lsn", Type: sqltype.BinaryType(10)},
		{Name: "__$end_lsn", Type: sqltype.BinaryType(10), Nullable: true},
		{Name: "__$seqval", Type: sqltype.BinaryType(10)},
		{Name: "__$operation", Type: sqltype.TypeOf(sqltype.KindInt)},
		{Name: "__$update_mask", Type: sqltype.VarBinaryType(128), Nullable: true},
	}
	for _, c := range i.Columns {
		out = append(out, sqltype.Column{Name: c.Name, Type: c.Type, Nullable: true})
	}
	return append(out, sqltype.Column{Name: "__$command_id", Type: sqltype.TypeOf(sqltype.KindInt), Nullable: true})
}

// ChangeOrder lists the ordinals of the change table's clustered unique index: start_lsn, command_id, seqval, operation [M25].
func (i *Instance) ChangeOrder() []int {
	return []int{ChangeStartLSN, ChangeFirst + len(i.Columns), ChangeSeqVal, ChangeOperation}
}

// ChangeScan says which rows of a change table are wanted. Bounds are on ChangeOrder; LSNs are binary values of any length up
// to 10 bytes, compared as SQL Server compares binary (the shorter one padded with zeros).
type ChangeScan struct {
	Columns      []int // ordinals that are needed; nil means all. The others are NULL in the rows
	Lower, Upper Bound
	Reverse      bool
	// WithoutBefore leaves out operation 3.
	WithoutBefore bool
}

// Cursor iterates over rows of a change table, or of one of its query functions. It is not safe for concurrent use and holds no
// lock; a cursor that is dropped needs no close.
type Cursor struct {
	view     *View
	instance *Instance
	store    *changeStore
	spec     ChangeScan
	wanted   []cell
	width    int

	lo, hi  int64 // rows still to decode: absolute numbers, lo <= row < hi
	block   []sqltype.Value
	size    int64 // rows of the next block: small at first, since many cursors are read for one row only
	order   []int // rows of the block, in the order to yield
	next    int   // in order
	row     sqltype.Row
	yielded int64
	hooked  int64 // yielded when the hook is due
	hooks   *Hooks
	source  func() (*View, bool) // newest view, for live scans
}

// cell is one output column: where it goes and where it comes from.
type cell struct {
	out, in int
}

const (
	firstBlockRows = 4
	blockRows      = 64
)

// ScanChanges opens a cursor on the change table, in the order of ChangeOrder.
func (v *View) ScanChanges(i *Instance, spec ChangeScan) *Cursor {
	width := ChangeFirst + len(i.Columns) + 1
	wanted := make([]cell, 0, width)
	if spec.Columns == nil {
		for c := range width {
			wanted = append(wanted, cell{c, c})
		}
	}
	for _, c := range spec.Columns {
		wanted = append(wanted, cell{c, c})
	}
	return v.newCursor(i, spec, wanted, width)
}

func (v *View) newCursor(i *Instance, spec ChangeScan, wanted []cell, width int) *Cursor {
	c := &Cursor{view: v, instance: i, spec: spec, wanted: wanted, width: width, size: firstBlockRows}
	slices.SortFunc(c.wanted, func(a, b cell) int { return cmp.Compare(a.in, b.in) })
	c.wanted = slices.Compact(c.wanted)
	if v.db != nil {
		c.hooks = v.db.hooks.Load()
		c.source = func() (*View, bool) { return v.db.CDC(), true }
	}
	c.bind(i.changes)
	return c
}

// bind sets the rows to read from a store.
func (c *Cursor) bind(store *changeStore) {
	c.store = store
	c.lo, c.hi = store.base, store.end
	if len(c.spec.Lower.Values) > 0 {
		c.lo = store.searchBound(c.spec.Lower, !c.spec.Lower.Inclusive)
	}
	if len(c.spec.Upper.Values) > 0 {
		c.hi = max(c.lo, store.searchBound(c.spec.Upper, c.spec.Upper.Inclusive))
	}
}

// searchBound finds the first row not below the bound, or with past the first row above it.
func (c *changeStore) searchBound(b Bound, past bool) int64 {
	return c.search(func(p position) bool {
		d := p.compareBound(b.Values)
		return d > 0 || d == 0 && !past
	})
}

// compareBound compares the leading columns of a position with values.
func (p position) compareBound(values []sqltype.Value) int {
	for i, v := range values {
		var d int
		switch i {
		case 0:
			d = sqltype.CompareBytes(string(p.start[:]), v.Str())
		case 1:
			d = cmp.Compare(int64(p.command), v.Int64())
		case 2:
			d = sqltype.CompareBytes(string(p.seq[:]), v.Str())
		case 3:
			d = cmp.Compare(int64(p.op), v.Int64())
		}
		if d != 0 {
			return d
		}
	}
	return 0
}

// Next moves to the next row; false at the end.
func (c *Cursor) Next() bool {
	if c.hooks != nil && c.hooks.ChangeScan != nil && c.yielded >= c.hooked {
		c.runHook()
	}
	for c.next == len(c.order) {
		if c.lo >= c.hi {
			return false
		}
		c.fill()
	}
	at := c.order[c.next] * c.width
	c.row = c.block[at : at+c.width : at+c.width]
	c.next++
	c.yielded++
	return true
}

// Row is the present row. The slice is valid until the next call of Next; its values may be kept.
func (c *Cursor) Row() sqltype.Row { return c.row }

// All yields the remaining rows.
func (c *Cursor) All() iter.Seq[sqltype.Row] {
	return func(yield func(sqltype.Row) bool) {
		for c.Next() {
			if !yield(c.row) {
				return
			}
		}
	}
}

// Len is the number of rows between the bounds that have not been decoded yet, before WithoutBefore.
func (c *Cursor) Len() int64 { return max(0, c.hi-c.lo) }

func (c *Cursor) runHook() {
	c.hooked = c.yielded + max(1, c.hooks.ChangeScanEvery)
	c.hooks.ChangeScan(c.instance.Name, c.yielded)
	if !c.hooks.LiveScans || c.spec.Reverse {
		return
	}
	// What was decoded but not yielded is read again from the newest view, after the rows that were.
	resume := c.lo - int64(c.undelivered())
	view, ok := c.source()
	if !ok {
		return
	}
	i, ok := view.Instance(c.instance.Name)
	if !ok || i.ObjectID != c.instance.ObjectID {
		c.lo, c.hi, c.order, c.next = 0, 0, nil, 0
		return
	}
	c.view, c.instance = view, i
	c.bind(i.changes)
	c.lo = max(c.lo, resume)
	c.order, c.next = c.order[:0], 0
}

// undelivered counts the rows decoded behind the last yielded one.
func (c *Cursor) undelivered() int {
	if c.next == len(c.order) {
		return 0
	}
	return c.blockLen() - c.order[c.next]
}

func (c *Cursor) blockLen() int { return len(c.block) / c.width }

// fill decodes the next block.
func (c *Cursor) fill() {
	var from int64
	n := c.size
	c.size = min(4*c.size, blockRows)
	if c.spec.Reverse {
		s, at := c.store.at(c.hi - 1)
		n = min(n, c.hi-c.lo, int64(at)+1)
		from = s.first + int64(at) + 1 - n
		c.hi = from
	} else {
		s, at := c.store.at(c.lo)
		n = min(n, c.hi-c.lo, int64(s.n-at))
		from = c.lo
		c.lo += n
	}
	s, at := c.store.at(from)
	if need := int(n) * c.width; cap(c.block) < need {
		c.block = make([]sqltype.Value, need)
	} else {
		c.block = c.block[:need]
	}
	c.decode(s, at, int(n))
	c.arrange(s, at, int(n))
}

// arrange lists the block's rows in the order to yield.
func (c *Cursor) arrange(s *segment, at, n int) {
	c.order, c.next = c.order[:0], 0
	for i := range n {
		if c.spec.Reverse {
			i = n - 1 - i
		}
		if c.spec.WithoutBefore && s.op[at+i] == opBefore {
			continue
		}
		c.order = append(c.order, i)
	}
}

// decode fills the block's wanted cells from n rows of a segment.
func (c *Cursor) decode(s *segment, at, n int) {
	l := c.store.layout
	for _, w := range c.wanted {
		out := c.block[w.out:]
		switch w.in {
		case ChangeStartLSN:
			c.decodeStart(s, at, n, out)
		case ChangeEndLSN:
			for i := range n {
				out[i*c.width] = sqltype.Value{}
			}
		case ChangeSeqVal:
			for i := range n {
				r := (at + i) * 10
				out[i*c.width] = sqltype.Bytes(sqltype.KindBinary, frozen(s.seq[r:r+10]))
			}
		case ChangeOperation:
			for i, op := range s.op[at : at+n] {
				out[i*c.width] = sqltype.Int(int32(op))
			}
		case ChangeUpdateMask:
			for i := range n {
				r := (at + i) * l.maskLen
				out[i*c.width] = sqltype.Bytes(sqltype.KindVarBinary, frozen(s.mask[r:r+l.maskLen]))
			}
		case ChangeFirst + len(l.cells):
			for i, id := range s.command[at : at+n] {
				out[i*c.width] = sqltype.Int(id)
			}
		default:
			c.decodeCaptured(s, w.in-ChangeFirst, at, n, out)
		}
	}
}

func (c *Cursor) decodeStart(s *segment, at, n int, out []sqltype.Value) {
	r := s.runAt(at)
	for i := 0; i < n; r++ {
		v := sqltype.Bytes(sqltype.KindBinary, frozen(s.runs[r].lsn[:]))
		for end := min(n, s.runEnd(r)-at); i < end; i++ {
			out[i*c.width] = v
		}
	}
}

func (c *Cursor) decodeCaptured(s *segment, col, at, n int, out []sqltype.Value) {
	l := c.store.layout
	s.cols[col].decode(l.cells[col], at, n, out, c.width)
	if !s.hasNull[col] {
		return
	}
	bit := byte(1) << (col % 8)
	for i := range n {
		if s.nulls[(at+i)*l.nullsLen+col/8]&bit != 0 {
			out[i*c.width] = sqltype.Value{}
		}
	}
}

// LSNValue is an LSN as binary(10).
func LSNValue(l LSN) sqltype.Value { return sqltype.Bytes(sqltype.KindBinary, string(l[:])) }

// lsnBound is a bound on start_lsn.
func lsnBound(l LSN) Bound { return Bound{Values: []sqltype.Value{LSNValue(l)}, Inclusive: true} }

// LSNRange is the closed interval of start LSNs as a scan of whole change rows; columns as in ChangeScan.
func LSNRange(from, to LSN, columns []int) ChangeScan {
	return ChangeScan{Columns: columns, Lower: lsnBound(from), Upper: lsnBound(to)}
}
