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
	b     []byte // the writer's buffer, with the row at its end
	start int
	next  int  // index of the next column
	open  bool // between Writer.Row and End
	nbc   bool // nulls go into the bitmap
	nulls int  // bytes of bitmap inserted so far
	err   error
}

// Row begins a row. The value returned is the writer's own; it is valid until End.
func (w *Writer) Row() *Row {
	r := &w.row
	r.w, r.next, r.nulls, r.err, r.open = w, 0, 0, nil, true
	if w.err != nil || w.ended {
		r.b, r.start, r.err = nil, 0, errEnded
		return r
	}
	w.release(DoneMore)
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
	r.next++
	if r.err != nil || uint(i) >= uint(len(r.w.kinds)) {
		return nil
	}
	if r.w.kinds[i] != k {
		r.refuse(i, errKind)
		return nil
	}
	return &r.w.columns[i].Type
}

// refuse keeps the reason why the row is dropped.
func (r *Row) refuse(i int, err error) {
	if r.err == nil {
		c := &r.w.columns[i]
		r.err = fmt.Errorf("writing column %d, %s %s: %w", i+1, c.Name, c.Type, err)
	}
}

// Null writes NULL.
func (r *Row) Null() {
	i := r.next
	r.next++
	if r.err != nil || uint(i) >= uint(len(r.w.columns)) {
		return
	}
	t := &r.w.columns[i].Type
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
		if t.Size < 17 && smallestDecimal(hi, lo) > t.Size {
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
	if r.w.plp != (PLP{}) && t.IsPLP() {
		r.b = AppendPLP(r.b, appendText(nil, t, s), r.w.plp)
		return
	}
	at := len(r.b)
	r.b = AppendString(r.b, t, s)
	r.checkLength(t, at)
}

// Bytes writes a binary value, a rowversion, an image or a CLR value.
func (r *Row) Bytes(b []byte) {
	t := r.column(kindBytes)
	if t == nil {
		return
	}
	if r.w.plp != (PLP{}) && t.IsPLP() {
		r.b = AppendPLP(r.b, b, r.w.plp)
		return
	}
	at := len(r.b)
	r.b = AppendBytes(r.b, t, b)
	r.checkLength(t, at)
}

// checkLength refuses a value of a counted type that is longer than declared.
func (r *Row) checkLength(t *TypeInfo, at int) {
	if len(r.b)-at-2 > t.Size && !t.IsPLP() && !t.isLOB() {
		r.refuse(r.next-1, errLong)
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
	if r.err != nil || uint(i) >= uint(len(r.w.columns)) {
		return
	}
	b, err := AppendValue(r.b, &r.w.columns[i].Type, v)
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
		w.inject(hook(w.c, w.rows))
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
