package tds

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
)

// flushSize is the number of bytes gathered before they are written: whole packets of at least this much in one system
// call when there is no TLS, one record a packet when there is.
const flushSize = 64 << 10

// keepSize is the largest buffer kept for the next answer.
const keepSize = 1 << 20

// Writer writes the answer to one request as tokens. It belongs to the goroutine that runs [Session.Handle] and is not valid
// after Handle has returned. Nothing reaches the client before 64 kB have come together, [Writer.Flush] is called or the
// answer ends.
//
// Errors stick: once the request is cancelled or the connection broken, the methods do nothing and [Writer.Err] tells why;
// what Handle returns is of no importance then. A row that is refused ([Row.End]) leaves the answer as it was before it.
type Writer struct {
	c   *Conn
	ctx context.Context // the request's, looked at after every row
	err error

	buf     []byte // tokens not framed yet
	out     []byte // framed packets, reused
	text    []byte // of the long value being encoded, reused
	id      uint8  // of the next packet
	pending pendingDone
	fatal   bool // an error of class 20 or above was sent
	plp     PLP
	ended   bool // the message was ended by EndMessage

	columns    []Column
	rowColumns []rowColumn
	row        Row
	rows       int64 // written in this answer
}

// pendingDone is the last Done, held back because its more bit depends on what follows.
type pendingDone struct {
	token byte // 0 for none
	done  Done
}

// begin prepares the writer for the next answer.
func (w *Writer) begin(ctx context.Context) {
	w.ctx, w.err, w.id, w.ended, w.rows = ctx, nil, 1, false, 0
	w.buf, w.pending, w.columns, w.rowColumns = w.buf[:0], pendingDone{}, nil, w.rowColumns[:0]
	w.row = Row{}
	w.plp = PLP{}
}

// Err gives the error that stopped the answer: the cause of the request's context ([ErrAttention],
// [ErrDisconnected]), a failed write, [ErrFault], or a return value that did not belong to its type.
func (w *Writer) Err() error { return w.err }

// Conn gives the connection.
func (w *Writer) Conn() *Conn { return w.c }

// Rows gives the number of rows written in this answer.
func (w *Writer) Rows() int64 { return w.rows }

// open writes what was held back and reports whether tokens may be written.
func (w *Writer) open() bool {
	if w.err != nil || w.ended {
		return false
	}
	w.release(DoneMore)
	return true
}

// release writes the Done that was held back with more bits.
func (w *Writer) release(more DoneStatus) {
	if w.pending.token != 0 {
		d := w.pending.done
		d.Status |= more
		w.buf = appendDone(w.buf, w.pending.token, d)
		w.pending = pendingDone{}
	}
}

// Done ends the answer of a statement of a batch. It is held back until the next token or the end of the answer, to get
// its more bit right.
func (w *Writer) Done(d Done) { w.hold(tokenDone, d) }

// DoneInProc ends the answer of a statement inside a procedure.
func (w *Writer) DoneInProc(d Done) { w.hold(tokenDoneInProc, d) }

// DoneProc ends the answer of a procedure call.
func (w *Writer) DoneProc(d Done) { w.hold(tokenDoneProc, d) }

// hold keeps a Done back.
func (w *Writer) hold(token byte, d Done) {
	if w.open() {
		w.pending = pendingDone{token, d}
	}
}

// Columns begins a rowset. The slice is used until the next rowset and must not change.
func (w *Writer) Columns(columns []Column) {
	if !w.open() {
		return
	}
	w.columns, w.rowColumns = columns, w.rowColumns[:0]
	for i := range columns {
		w.rowColumns = append(w.rowColumns, newRowColumn(&columns[i].Type))
	}
	w.buf = appendColumns(w.buf, columns)
}

// NoColumns says that there is no metadata, as an answer to a call with [OptionNoMetadata].
func (w *Writer) NoColumns() {
	if w.open() {
		w.buf = append(w.buf, tokenColMetadata, 0xFF, 0xFF)
	}
}

// Order says by which columns, counted from 1, the rows are ordered.
func (w *Writer) Order(columns ...uint16) {
	if !w.open() {
		return
	}
	w.buf = binary.LittleEndian.AppendUint16(append(w.buf, tokenOrder), uint16(2*len(columns)))
	for _, c := range columns {
		w.buf = binary.LittleEndian.AppendUint16(w.buf, c)
	}
}

// Message sends an ERROR or INFO token, by the class. A following Done should have [DoneError] set after an error. After a
// class of 20 and above the connection is closed when the answer is complete.
func (w *Writer) Message(m *ServerError) {
	if !w.open() {
		return
	}
	w.buf = m.append(w.buf, w.c.cfg.ServerName)
	w.fatal = w.fatal || m.Class >= fatalClass
}

// ReturnStatus sends the status a procedure returned.
func (w *Writer) ReturnStatus(status int32) {
	if w.open() {
		w.buf = binary.LittleEndian.AppendUint32(append(w.buf, tokenReturnStatus), uint32(status))
	}
}

// ReturnValue is the value of an output parameter or of a user-defined function.
type ReturnValue struct {
	Ordinal  uint16
	Name     string
	Function bool // the result of a function, not an output parameter
	UserType uint32
	Flags    uint16
	Type     TypeInfo
	Value    Value
}

// ReturnValue sends an output parameter.
func (w *Writer) ReturnValue(v ReturnValue) {
	if !w.open() {
		return
	}
	at := len(w.buf)
	dst := binary.LittleEndian.AppendUint16(append(w.buf, tokenReturnValue), v.Ordinal)
	status := byte(1)
	if v.Function {
		status = 2
	}
	dst = append(appendBVarchar(dst, v.Name), status)
	dst = binary.LittleEndian.AppendUint32(dst, v.UserType)
	dst = binary.LittleEndian.AppendUint16(dst, v.Flags)
	dst, err := AppendValue(appendTypeInfo(dst, &v.Type, false), &v.Type, v.Value)
	if err != nil {
		w.buf = w.buf[:at]
		w.fail(fmt.Errorf("writing return value %s: %w", v.Name, err))
		return
	}
	w.buf = dst
}

// EnvDatabase tells the client of another database; INFO 5701 is the session's to send ([Writer.UseDatabase] does both).
func (w *Writer) EnvDatabase(name, old string) { w.envText(envDatabase, name, old) }

// UseDatabase tells of another database as USE does: ENVCHANGE 1 and INFO 5701.
func (w *Writer) UseDatabase(name, old string) {
	w.EnvDatabase(name, old)
	w.Message(databaseMessage(name))
}

// EnvLanguage tells the client of another language.
func (w *Writer) EnvLanguage(name, old string) { w.envText(envLanguage, name, old) }

// EnvMirror names the mirror partner.
func (w *Writer) EnvMirror(partner string) { w.envText(envMirror, partner, "") }

// EnvPacketSize tells the client of another packet size.
func (w *Writer) EnvPacketSize(size, old int) {
	w.envText(envPacketSize, strconv.Itoa(size), strconv.Itoa(old))
}

// EnvCollation tells the client of the collation of text without one.
func (w *Writer) EnvCollation(c Collation) { w.envBytes(envCollation, c[:], nil) }

// EnvBegin tells the client that a transaction has begun; the descriptor comes back in the headers of its requests and must not
// be zero. Text and transaction manager requests are answered alike.
func (w *Writer) EnvBegin(descriptor uint64) { w.envBytes(envBegin, descriptorBytes(descriptor), nil) }

// EnvCommit tells the client that a transaction was committed.
func (w *Writer) EnvCommit(descriptor uint64) {
	w.envBytes(envCommit, nil, descriptorBytes(descriptor))
}

// EnvRollback tells the client that a transaction was rolled back.
func (w *Writer) EnvRollback(descriptor uint64) {
	w.envBytes(envRollback, nil, descriptorBytes(descriptor))
}

// EnvTranEnded tells the client that a distributed transaction has ended.
func (w *Writer) EnvTranEnded(descriptor uint64) {
	w.envBytes(envTranEnded, nil, descriptorBytes(descriptor))
}

// EnvResetAck acknowledges a reset; the connection sends it by itself.
func (w *Writer) EnvResetAck() { w.envBytes(envResetAck, nil, nil) }

// EnvRouting sends the client on to another server.
func (w *Writer) EnvRouting(r Routing) {
	if w.open() {
		w.buf = appendRouting(w.buf, r)
	}
}

// descriptorBytes gives a descriptor as it is sent.
func descriptorBytes(d uint64) []byte { return binary.LittleEndian.AppendUint64(nil, d) }

// envText sends an ENVCHANGE of texts.
func (w *Writer) envText(typ byte, value, old string) {
	if w.open() {
		w.buf = appendEnvText(w.buf, typ, value, old)
	}
}

// envBytes sends an ENVCHANGE of bytes.
func (w *Writer) envBytes(typ byte, value, old []byte) {
	if w.open() {
		w.buf = appendEnvBytes(w.buf, typ, value, old)
	}
}

// Raw writes bytes as they are: whole tokens, or on purpose something else.
func (w *Writer) Raw(b []byte) {
	if w.open() {
		w.buf = append(w.buf, b...)
	}
}

// SetPLP says how (max) values are cut from here to the end of the answer.
func (w *Writer) SetPLP(p PLP) { w.plp = p }

// fail keeps the first error.
func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Flush sends everything written so far, the last packet being shorter than the others. A Done that is held back stays
// back. It gives [Writer.Err].
func (w *Writer) Flush() error {
	if w.err == nil && w.ctx.Err() != nil {
		w.fail(context.Cause(w.ctx))
	}
	if w.err == nil && !w.ended && len(w.buf) > 0 {
		w.send(0)
	}
	return w.err
}

// EndMessage ends the answer at once, without a Done: a broken answer. Nothing can be written after it.
func (w *Writer) EndMessage() error {
	if w.err == nil && !w.ended {
		w.pending = pendingDone{}
		w.send(statusEOM)
		w.ended = true
	}
	return w.err
}
