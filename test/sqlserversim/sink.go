package sqlserversim

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// wireSink writes the results of a request to a client.
type wireSink struct {
	ses     *session
	w       *tds.Writer
	ctx     context.Context
	rpc     bool // a call by RPC: all statements end in DONEINPROC, the call itself in a DONEPROC that is not Done's to send
	encoder rowEncoder
	failed  bool // the last statement ended in an error

	status int32 // that the procedure of an RPC returned
	rows   int64

	fault *armed // not acted yet
	slow  time.Duration
}

func newWireSink(s *session, w *tds.Writer) *wireSink { return &wireSink{ses: s, w: w} }

// Columns begins a rowset.
func (k *wireSink) Columns(cols []tsql.ResultColumn) error {
	k.encoder.prepare(cols, k.ses.db.collation, k.ses.utf8)
	k.w.Columns(k.encoder.wire)
	return k.w.Err()
}

// Row encodes one row.
func (k *wireSink) Row(row sqltype.Row) error {
	if err := k.encoder.write(k.w, row); err != nil {
		return err
	}
	k.rows++
	if k.fault != nil || k.slow > 0 {
		return k.afterRow()
	}
	return nil
}

// Done ends a statement.
func (k *wireSink) Done(d tsql.Done) error {
	k.failed = d.Failed
	done := tds.Done{Command: commandOf(d.Kind)}
	if d.HasCount {
		done.Status |= tds.DoneCount
		done.Count = uint64(d.Count)
	}
	if d.Failed {
		done.Status |= tds.DoneError
	}
	switch {
	case k.rpc || d.InProc:
		k.w.DoneInProc(done)
	case d.Kind == tsql.DoneExec:
		k.w.DoneProc(done)
	default:
		k.w.Done(done)
	}
	return k.w.Err()
}

func commandOf(kind tsql.DoneKind) tds.Command {
	switch kind {
	case tsql.DoneSelect:
		return tds.CommandSelect
	case tsql.DoneInsert:
		return tds.CommandInsert
	case tsql.DoneUpdate:
		return tds.CommandUpdate
	case tsql.DoneDelete:
		return tds.CommandDelete
	case tsql.DoneMerge:
		return 0x117
	case tsql.DoneBegin:
		return tds.CommandBegin
	case tsql.DoneCommit:
		return tds.CommandCommit
	case tsql.DoneRollback:
		return tds.CommandRollback
	case tsql.DoneExec:
		return tds.CommandExecute
	}
	return tds.CommandNone
}

// Message sends an error or information.
func (k *wireSink) Message(e *tsql.Error) error {
	k.ses.noteMessage(e)
	k.w.Message(wireMessage(e))
	if e.Class >= 20 {
		return errFatal
	}
	return k.w.Err()
}

// errFatal ends a batch after an error of class 20 or more; the connection closes when the answer is out.
var errFatal = errors.New("an error of class 20 or more ended the session")

// ReturnStatus sends the status of an EXEC; that of an RPC is kept for the end of the call.
func (k *wireSink) ReturnStatus(status int32) error {
	if k.rpc {
		k.status = status
		return nil
	}
	k.w.ReturnStatus(status)
	return k.w.Err()
}

// noteMessage counts errors and keeps the text of statements that were not understood.
func (s *session) noteMessage(e *sqlerr.Error) {
	if e.IsInfo() {
		return
	}
	s.srv.log.errs.Add(1)
	switch e.Number {
	case 102, 105, 156, 195, 208, 2812, 4121:
		s.srv.log.refuse(fmt.Sprintf("Msg %d: %s: %s", e.Number, e.Message, s.text))
	}
}

// serverError is the wire form of an SQL error, nil for any other error.
func serverError(err error) *tds.ServerError {
	if e, ok := errors.AsType[*tds.ServerError](err); ok {
		return e
	}
	e := sqlerr.Of(err)
	if e == nil {
		return nil
	}
	return wireMessage(e)
}

// wireMessage is a message as a client gets it: class 10 is sent as 0 (documentation page "Database Engine error severities"), or DB-Library
// would take it for an error.
func wireMessage(e *sqlerr.Error) *tds.ServerError {
	class := e.Class
	if class == 10 {
		class = 0
	}
	return &tds.ServerError{Number: e.Number, State: e.State, Class: class, Text: e.Message, Proc: e.Procedure, Line: max(1, e.Line)}
}

// rowEncoder writes rows of one rowset.
type rowEncoder struct {
	wire  []tds.Column
	types []sqltype.Type
	kinds []sqltype.Kind
	coll  string
}

// prepare sets the columns of the next rowset. The wire columns are made afresh, since the writer keeps the slice.
func (e *rowEncoder) prepare(cols []tsql.ResultColumn, dbCollation string, utf8 bool) {
	e.wire = make([]tds.Column, len(cols))
	e.types, e.kinds, e.coll = e.types[:0], e.kinds[:0], dbCollation
	for i, c := range cols {
		w := tds.Column{Name: c.Name, Type: wireType(c.Type, c.Nullable, dbCollation), Flags: tds.FlagsNotNullOfTable}
		if !utf8 && w.Type.Collation.IsUTF8() {
			w.Type = withoutUTF8(w.Type)
		}
		if c.Nullable {
			w.Flags = tds.FlagsNullableOfTable
		}
		if c.Identity {
			w.Flags |= tds.FlagIdentity
		}
		if c.Computed {
			w.Flags |= tds.FlagComputed
		}
		if c.Type.Kind == sqltype.KindRowVersion {
			w.UserType = tds.UserTypeRowVersion
		}
		e.wire[i] = w
		e.types = append(e.types, c.Type)
		e.kinds = append(e.kinds, c.Type.Kind)
	}
}

// write encodes a row without allocating.
func (e *rowEncoder) write(w *tds.Writer, row sqltype.Row) error {
	if len(row) != len(e.kinds) {
		return fmt.Errorf("encoding a row: %d values for %d columns", len(row), len(e.kinds))
	}
	r := w.Row()
	for i := range row {
		v := &row[i]
		kind := v.Kind()
		if kind == sqltype.KindNull {
			r.Null()
			continue
		}
		if want := e.kinds[i]; kind != want && !sameWire(kind, want) {
			x, err := e.convert(i, *v)
			if err != nil {
				return err
			}
			r.Value(x)
			continue
		}
		writeValue(r, kind, v)
	}
	return r.End()
}

func writeValue(r *tds.Row, kind sqltype.Kind, v *sqltype.Value) {
	switch kind {
	case sqltype.KindBit:
		r.Bool(v.Bool())
	case sqltype.KindTinyInt, sqltype.KindSmallInt, sqltype.KindInt, sqltype.KindBigInt:
		r.Int(v.Int64())
	case sqltype.KindReal, sqltype.KindFloat:
		r.Float(v.Float64())
	case sqltype.KindDecimal:
		n := v.Number()
		r.Decimal(n.Neg, n.Hi, n.Lo)
	case sqltype.KindMoney, sqltype.KindSmallMoney:
		r.Money(tds.Money(v.Int64()))
	case sqltype.KindDate:
		r.Date(tds.Date(v.Days()))
	case sqltype.KindTime:
		r.Time(tds.Time(v.Ticks()))
	case sqltype.KindDateTime2:
		r.DateTime2(tds.Date(v.Days()), tds.Time(v.Ticks()))
	case sqltype.KindDateTimeOffset:
		r.DateTimeOffset(tds.Date(v.Days()), tds.Time(v.Ticks()), v.Offset())
	case sqltype.KindDateTime:
		r.DateTime(tds.DateTime{Days: v.Days(), Ticks: uint32(v.Ticks())})
	case sqltype.KindSmallDateTime:
		r.SmallDateTime(tds.SmallDateTime{Days: uint16(v.Days()), Minutes: uint16(v.Ticks())})
	case sqltype.KindUniqueIdentifier:
		r.UUID(tds.UUID(v.UUID()))
	case sqltype.KindBinary, sqltype.KindVarBinary, sqltype.KindRowVersion, sqltype.KindImage:
		r.Bytes(bytesOf(v.Str()))
	default:
		r.String(v.Str())
	}
}

// bytesOf looks at a string's bytes without copying them. They must not be changed: package tds only appends them to its buffer. A copy
// would be an allocation for each of the four binary columns that every change row has, a sixth of the time it takes to send one.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// sameWire tells whether a value of one kind is encoded in a column of another without conversion.
func sameWire(have, want sqltype.Kind) bool {
	return have.IsText() && want.IsText() || have.IsBinary() && want.IsBinary() || have.IsInteger() && want.IsInteger() && (have == sqltype.KindBit) == (want == sqltype.KindBit) ||
		have.IsFloat() && want.IsFloat() || have.IsMoney() && want.IsMoney()
}

// convert brings a value to the declared type where the evaluator left it in another one.
func (e *rowEncoder) convert(i int, v sqltype.Value) (tds.Value, error) {
	if e.kinds[i] == sqltype.KindVariant {
		return variantToWire(v, e.coll), nil
	}
	c, err := sqltype.Convert(v, e.types[i], sqltype.DefaultStyle)
	if err != nil {
		return nil, fmt.Errorf("encoding column %s: %w", e.wire[i].Name, err)
	}
	return toWire(c), nil
}
