package tds

import (
	"context"
	"errors"
	"fmt"
)

// Row builds one row of the current rowset: one call for every column, in order, then [Row.End]. The methods name the kind of
// value, and each takes the column's type from the metadata. A value of another kind, one too many or too few, and one that
// does not fit are errors of End.
//
//	row := w.Row()
//	row.Bytes(lsn[:])
//	row.Int(4)
//	row.Null()
//	err := row.End()
type Row struct {
	w     *Writer
	cols  []rowColumn // of the rowset; nil once the row is refused
	next  int         // index of the next column
	b     []byte      // the writer's buffer, with the row at its end
	start int
	open  bool // between Writer.Row and End
	nbc   bool // nulls go into the bitmap
	nulls int  // bytes of bitmap inserted so far
	err   error
}

// rowColumn is what a row needs of a column at hand.
type rowColumn struct {
	t      *TypeInfo
	k      kind
	hi, lo uint64 // of a decimal: the first magnitude too large for it
	short  bool   // text or bytes counted by two bytes
	wide   bool   // text as UTF-16
}

// newRowColumn looks at a column once, for all rows.
func newRowColumn(t *TypeInfo) rowColumn {
	c := rowColumn{t: t, k: kindOf(t), wide: t.IsUnicode()}
	c.short = (c.k == kindString || c.k == kindBytes) && !t.IsPLP() && !t.isLOB()
	if c.k == kindDecimal {
		c.hi, c.lo = decimalLimit(t)
	}
	return c
}

// Row begins a row. The value returned is the writer's own; it is valid until End.
func (w *Writer) Row() *Row {
	r := &w.row
	r.w, r.next, r.nulls, r.err, r.open = w, 0, 0, nil, true
	if w.err != nil || w.ended {
		r.b, r.start, r.err, r.cols = nil, 0, errEnded, nil
		return r
	}
	w.release(DoneMore)
	r.cols = w.rowColumns
	r.nbc = w.c.nbc != NBCNever
	r.start = len(w.buf)
	r.b = append(w.buf, tokenRow)
	if w.c.nbc == NBCAlways && w.nullable() {
		r.insertBitmap()
	}
	return r
}

// nullable reports whether any column can hold NULL.
func (w *Writer) nullable() bool {
	for i := range w.columns {
		if !w.columns[i].Type.IsFixed() {
			return true
		}
	}
	return false
}

// dropRow forgets a row that was not ended.
func (w *Writer) dropRow() {
	w.row.open = false
}

// Reasons for refusing a row.
var (
	errColumns = errors.New("number of values differs from the number of columns")
	errClosed  = errors.New("row was not begun")
	errEnded   = errors.New("writing row: answer has ended")
)

// column gives the next column's type if it takes values of the kind, and counts it.
func (r *Row) column(k kind) *TypeInfo {
	i := r.next
	r.next = i + 1
	if uint(i) < uint(len(r.cols)) && r.cols[i].k == k {
		return r.cols[i].t
	}
	r.refuse(i, errKind)
	return nil
}

// refuse keeps the reason why the row is dropped. Values beyond the last column are counted only.
func (r *Row) refuse(i int, err error) {
	if r.err == nil && i < len(r.w.columns) {
		c := &r.w.columns[i]
		r.err = fmt.Errorf("writing column %d, %s %s: %w", i+1, c.Name, c.Type, err)
		r.cols = nil
	}
}

// Null writes NULL.
func (r *Row) Null() {
	i := r.next
	r.next++
	if uint(i) >= uint(len(r.cols)) {
		return
	}
	t := r.cols[i].t
	switch {
	case t.IsFixed():
		r.refuse(i, errNull)
	case r.nbc:
		if r.nulls == 0 {
			r.insertBitmap()
		}
		r.b[r.start+1+i/8] |= 1 << (i % 8)
	default:
		r.b = AppendNull(r.b, t)
	}
}

// insertBitmap turns the row begun as ROW into NBCROW: the bitmap goes in behind the token.
func (r *Row) insertBitmap() {
	r.nulls = (len(r.w.columns) + 7) / 8
	at := r.start + 1
	for range r.nulls {
		r.b = append(r.b, 0)
	}
	copy(r.b[at+r.nulls:], r.b[at:len(r.b)-r.nulls])
	clear(r.b[at : at+r.nulls])
	r.b[r.start] = tokenNBCRow
}

// Int writes a tinyint, smallint, int or bigint; a value out of the type's range is cut to its low bytes.
func (r *Row) Int(v int64) {
	if t := r.column(kindInt); t != nil {
		r.b = AppendInt(r.b, t, v)
	}
}

// Bool writes a bit.
func (r *Row) Bool(v bool) {
	if t := r.column(kindBit); t != nil {
		n := int64(0)
		if v {
			n = 1
		}
		r.b = AppendInt(r.b, t, n)
	}
}

// Float writes a real or float.
func (r *Row) Float(v float64) {
	if t := r.column(kindFloat); t != nil {
		r.b = AppendFloat(r.b, t, v)
	}
}

// Decimal writes a decimal or numeric: the magnitude hi×2^64+lo in units of the column's scale.
func (r *Row) Decimal(negative bool, hi, lo uint64) {
	if t := r.column(kindDecimal); t != nil {
		if c := &r.cols[r.next-1]; hi > c.hi || hi == c.hi && lo >= c.lo {
			r.refuse(r.next-1, errRange)
			return
		}
		r.b = AppendDecimal(r.b, t, negative, hi, lo)
	}
}

// Money writes a money or smallmoney.
func (r *Row) Money(v Money) {
	if t := r.column(kindMoney); t != nil {
		r.b = AppendMoney(r.b, t, v)
	}
}

// Date writes a date.
func (r *Row) Date(d Date) {
	if t := r.column(kindDate); t != nil {
		r.b = AppendDate(r.b, d)
	}
}

// Time writes a time.
func (r *Row) Time(v Time) {
	if t := r.column(kindTime); t != nil {
		r.b = AppendTime(r.b, t.Scale, v)
	}
}

// DateTime2 writes a datetime2.
func (r *Row) DateTime2(d Date, v Time) {
	if t := r.column(kindDateTime2); t != nil {
		r.b = AppendDateTime2(r.b, t.Scale, d, v)
	}
}

// DateTimeOffset writes a datetimeoffset; date and time are UTC, the offset is in minutes.
func (r *Row) DateTimeOffset(d Date, v Time, offset int16) {
	if t := r.column(kindDateTimeOffset); t != nil {
		r.b = AppendDateTimeOffset(r.b, t.Scale, d, v, offset)
	}
}

// DateTime writes a datetime.
func (r *Row) DateTime(v DateTime) {
	if t := r.column(kindDateTime); t != nil {
		r.b = AppendDateTime(r.b, t, v)
	}
}

// SmallDateTime writes a smalldatetime.
func (r *Row) SmallDateTime(v SmallDateTime) {
	if t := r.column(kindSmallDateTime); t != nil {
		r.b = AppendSmallDateTime(r.b, t, v)
	}
}

// String writes a text value.
func (r *Row) String(s string) {
	t := r.column(kindString)
	if t == nil {
		return
	}
	c := &r.cols[r.next-1]
	if !c.short {
		r.long(t, appendText(r.w.text[:0], t, s))
		return
	}
	at := len(r.b)
	dst := append(r.b, 0, 0)
	if c.wide {
		dst = appendUTF16(dst, s)
	} else {
		dst = appendCodePage(dst, s, t.Collation)
	}
	n := len(dst) - at - 2
	dst[at], dst[at+1] = byte(n), byte(n>>8)
	r.b = dst
	if n > t.Size {
		r.refuse(r.next-1, errLong)
	}
}

// Bytes writes a binary value, a rowversion, an image or a CLR value.
func (r *Row) Bytes(b []byte) {
	t := r.column(kindBytes)
	switch {
	case t == nil:
	case !r.cols[r.next-1].short:
		r.long(t, b)
	case len(b) > t.Size:
		r.refuse(r.next-1, errLong)
	default:
		r.b = append(append(r.b, byte(len(b)), byte(len(b)>>8)), b...)
	}
}

// long writes a value of a LOB or of a type that travels in chunks.
func (r *Row) long(t *TypeInfo, b []byte) {
	if t.isLOB() {
		r.b = AppendBytes(r.b, t, b)
	} else {
		r.b = AppendPLP(r.b, b, r.w.plp)
	}
	if kindOf(t) == kindString && cap(b) <= keepSize {
		r.w.text = b[:0]
	}
}

// UUID writes a uniqueidentifier.
func (r *Row) UUID(u UUID) {
	if t := r.column(kindUUID); t != nil {
		r.b = AppendUUID(r.b, u)
	}
}

// Value writes any value; see [Value]. It checks more than the typed methods do.
func (r *Row) Value(v Value) {
	switch v := v.(type) {
	case nil:
		r.Null()
		return
	case string:
		r.String(v)
		return
	case []byte:
		r.Bytes(v)
		return
	}
	i := r.next
	r.next++
	if uint(i) >= uint(len(r.cols)) {
		return
	}
	b, err := AppendValue(r.b, r.cols[i].t, v)
	if err != nil {
		r.refuse(i, err)
		return
	}
	r.b = b
}

// End completes the row and sends what has come together when it is enough. The error is [Writer.Err], or the reason why the
// row was refused: it is then left out, and the answer can go on with something else.
func (r *Row) End() error {
	w := r.w
	if w.err != nil {
		return w.err
	}
	if !r.open {
		return errClosed
	}
	r.open = false
	if r.err == nil && r.next != len(w.columns) {
		r.err = fmt.Errorf("writing row: %w: %d of %d", errColumns, r.next, len(w.columns))
	}
	if r.err != nil {
		return r.err
	}
	w.buf = r.b
	return w.rowDone()
}

// rowDone counts a row that was written and looks whether to send, to break, or to stop.
func (w *Writer) rowDone() error {
	w.rows++
	if hook := w.c.hooks.Row; hook != nil {
		_ = w.Inject(hook(w.c, w.rows)) // it sticks in w.err
	}
	if w.err == nil && w.ctx.Err() != nil {
		w.fail(context.Cause(w.ctx))
	}
	if len(w.buf) >= flushSize && w.err == nil && !w.ended {
		w.sendFull()
	}
	return w.err
}

// WriteRow writes a row of values. The error is that of [Row.End].
func (w *Writer) WriteRow(values ...Value) error {
	r := w.Row()
	for _, v := range values {
		r.Value(v)
	}
	return r.End()
}

// RawRow writes a row that is encoded already, token included.
func (w *Writer) RawRow(b []byte) error {
	if !w.open() {
		return w.err
	}
	w.buf = append(w.buf, b...)
	return w.rowDone()
}
