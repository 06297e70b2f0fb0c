package tsql

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Sleeper is an optional interface of a Host whose clock is not the machine's:
// WAITFOR waits through it.
type Sleeper interface {
	Sleep(ctx context.Context, d time.Duration) error
}

func (r *runner) ifStmt(ctx context.Context, x *ast.If) error {
	ok, err := r.test(ctx, x.Cond)
	switch {
	case err != nil:
		return err
	case ok:
		return r.guarded(ctx, x.Then)
	case x.Else != nil:
		return r.guarded(ctx, x.Else)
	}
	return nil
}

func (r *runner) while(ctx context.Context, x *ast.While) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := r.test(ctx, x.Cond)
		if err != nil || !ok {
			return err
		}
		err = r.guarded(ctx, x.Body)
		var loop *loopSignal
		if errors.As(err, &loop) {
			if loop.again {
				continue
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *runner) returnStmt(ctx context.Context, x *ast.Return) error {
	if x.X == nil {
		return &returnSignal{}
	}
	if !r.inProc {
		return &abortError{err: sqlerr.Make(178).At(x.Line)}
	}
	v, err := r.valueAs(ctx, x.X, sqltype.Type{Kind: sqltype.KindInt})
	if err != nil {
		return err
	}
	r.status = int32(v.Int64())
	return &returnSignal{}
}

// try runs BEGIN TRY … BEGIN CATCH. Names that cannot be bound are not caught at their own level,
// as SQL Server compiles the statement there.
func (r *runner) try(ctx context.Context, x *ast.Try) error {
	r.tryDepth++
	err := r.statements(ctx, x.Body)
	r.tryDepth--
	if err == nil || isSignal(err) {
		return err
	}
	e := sqlerr.Of(err)
	if e == nil || e.Class >= 20 || r.ownBinding(err) {
		return err
	}
	r.caught = append(r.caught, e)
	r.s.lastError = e.Number
	err = r.statements(ctx, x.Catch)
	r.caught = r.caught[:len(r.caught)-1]
	return err
}

// bindingError is a name that could not be bound by a runner of that nesting.
type bindingError struct {
	abortError
	nesting int
}

func (r *runner) ownBinding(err error) bool {
	var b *bindingError
	return errors.As(err, &b) && b.nesting == r.nesting
}

func isBinding(number int32) bool {
	switch number {
	case 207, 208, 209, 4104:
		return true
	}
	return false
}

func (r *runner) throw(ctx context.Context, x *ast.Throw) error {
	if x.Number == nil {
		if len(r.caught) == 0 {
			return sqlerr.Make(10704)
		}
		return &abortError{err: r.caught[len(r.caught)-1]}
	}
	n, err := r.valueAs(ctx, x.Number, sqltype.Type{Kind: sqltype.KindInt})
	if err != nil {
		return err
	}
	msg, err := r.valueAs(ctx, x.Message, sqltype.NVarCharType(2048))
	if err != nil {
		return err
	}
	state, err := r.valueAs(ctx, x.State, sqltype.Type{Kind: sqltype.KindTinyInt})
	if err != nil {
		return err
	}
	if n.Int64() < 50000 {
		return sqlerr.Make(35100, n.Int64())
	}
	return &abortError{err: sqlerr.New(int32(n.Int64()), 16, uint8(state.Int64()), "%s", msg.Str()).At(x.Line).In(r.procedure)}
}

func (r *runner) print(ctx context.Context, x *ast.PrintStmt) error {
	v, err := r.valueAs(ctx, x.X, sqltype.NVarCharType(sqltype.Max))
	if err != nil {
		return err
	}
	e := sqlerr.Info("%s", v.Str()).At(x.Line).In(r.procedure)
	return r.sink.Message(e)
}

// waitFor waits for a delay, or until a time of day.
func (r *runner) waitFor(ctx context.Context, x *ast.WaitFor) error {
	v, _, err := r.value(ctx, x.X)
	if err != nil {
		return err
	}
	t, err := sqltype.Convert(v, sqltype.Type{Kind: sqltype.KindTime, Scale: 3}, sqltype.DefaultStyle)
	if err != nil || t.IsNull() || v.Kind().IsText() && !strings.Contains(v.Str(), ":") {
		return sqlerr.Make(148, v.String())
	}
	d := time.Duration(t.Ticks()) * 100
	if x.Time {
		now := r.host.Now()
		y, m, day := now.Date()
		until := time.Date(y, m, day, 0, 0, 0, 0, now.Location()).Add(d)
		if until.Before(now) {
			until = until.AddDate(0, 0, 1)
		}
		d = until.Sub(now)
	}
	if s, ok := r.host.(Sleeper); ok {
		if err := s.Sleep(ctx, d); err != nil {
			return err
		}
		return r.done(Done{Kind: DoneOther})
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.done(Done{Kind: DoneOther})
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *runner) declare(ctx context.Context, x *ast.Declare) error {
	for _, d := range x.Vars {
		v := &variable{typ: d.Type}
		if d.Table != nil {
			t, err := newMemTable(ObjectName{Name: d.Name}, d.Table)
			if err != nil {
				return err
			}
			v.table = t
		}
		r.vars[sqltype.DefaultKey(d.Name)] = v
		if d.Value == nil {
			continue
		}
		val, err := r.castAs(ctx, d.Value, d.Type)
		if err != nil {
			return err
		}
		v.val = val
	}
	return nil
}

// castAs computes an expression and converts it as an assignment to a variable
// does: text is cut.
func (r *runner) castAs(ctx context.Context, e ast.Expr, t sqltype.Type) (sqltype.Value, error) {
	return r.valueAs(ctx, e, t)
}

func (r *runner) setVariable(ctx context.Context, x *ast.SetVariable) error {
	v, err := r.lookup(x.Name)
	if err != nil {
		return err
	}
	e := x.X
	if x.Op != "=" {
		e = &ast.Binary{Op: x.Op[:1], L: &ast.Variable{Name: x.Name, Line: x.Line}, R: x.X}
	}
	val, err := r.valueAs(ctx, e, v.typ)
	if err != nil {
		return err
	}
	v.val = val
	return nil
}

// setOption keeps the options of the evaluator and tells the host about all.
func (r *runner) setOption(ctx context.Context, x *ast.SetOption) error {
	value := x.Value
	if v, ok := x.X.(*ast.Variable); ok {
		val, err := r.valueAs(ctx, v, sqltype.NVarCharType(4000))
		if err != nil {
			return err
		}
		value = val.Str()
	}
	for _, name := range x.Names {
		if err := r.keepOption(name, value, x); err != nil {
			return err
		}
		if err := r.host.SetOption(ctx, SetOption{Name: name, Value: value, Table: x.Table}); err != nil {
			return err
		}
	}
	return r.done(Done{Kind: DoneOther})
}

func (r *runner) keepOption(name, value string, x *ast.SetOption) error {
	o := &r.s.opt
	on := value == "ON"
	switch name {
	case "NOCOUNT":
		o.noCount = on
	case "XACT_ABORT":
		o.xactAbort = on
	case "IMPLICIT_TRANSACTIONS":
		o.implicitTransactions = on
	case "QUOTED_IDENTIFIER":
		o.quotedOff = !on
	case "NOEXEC":
		o.noExec = on
	case "PARSEONLY":
		o.parseOnly = on
	case "FMTONLY":
		o.fmtOnly = on
	case "ANSI_DEFAULTS":
		o.quotedOff, o.implicitTransactions = !on, on
	case "IDENTITY_INSERT":
		return r.identityInsert(x.Table, on)
	case "ROWCOUNT", "DATEFIRST", "TEXTSIZE":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return sqlerr.Make(8114, "nvarchar", "int")
		}
		switch name {
		case "ROWCOUNT":
			o.rowCount = max(0, n)
		case "TEXTSIZE":
			o.textSize = n
		default:
			if n < 1 || n > 7 {
				return sqlerr.New(2742, 16, 1, "SET DATEFIRST %d is out of range.", n)
			}
			o.dateFirst = int(n)
		}
	case "DATEFORMAT":
		if !strings.EqualFold(value, "mdy") {
			return sqlerr.New(2741, 16, 1, "SET DATEFORMAT date order '%s' is invalid.", value)
		}
	}
	return nil
}

// identityInsert keeps the one table that takes explicit identity values.
func (r *runner) identityInsert(name ObjectName, on bool) error {
	key := strings.ToLower(name.Name)
	switch {
	case !on:
		if r.s.opt.identityInsert == key {
			r.s.opt.identityInsert = ""
		}
	case r.s.opt.identityInsert != "" && r.s.opt.identityInsert != key:
		return sqlerr.Make(8107, r.s.opt.identityInsert, name.String())
	default:
		r.s.opt.identityInsert = key
	}
	return nil
}

func (r *runner) tran(ctx context.Context, x *ast.Tran) error {
	name := x.Name
	if x.NameVar != "" {
		v, err := r.lookup(x.NameVar)
		if err != nil {
			return err
		}
		name = v.val.Str()
	}
	var err error
	switch x.Kind {
	case ast.BeginTran:
		if r.host.Doomed() {
			return sqlerr.Make(3930)
		}
		err = r.host.Begin(ctx, name)
	case ast.CommitTran:
		if r.host.Doomed() {
			return sqlerr.Make(3930)
		}
		err = r.host.Commit(ctx, name)
	case ast.RollbackTran:
		if r.insertExe {
			return sqlerr.Make(3915)
		}
		err = r.host.Rollback(ctx, name)
	case ast.SaveTran:
		if r.host.Doomed() {
			return sqlerr.Make(3931)
		}
		err = r.host.Save(ctx, name)
	}
	if err != nil {
		return err
	}
	return r.done(Done{Kind: doneKind(x)})
}

// ddl hands a statement to the host, but for temporary tables.
func (r *runner) ddl(ctx context.Context, s ast.Statement) error {
	handled, err := r.tempTable(s)
	if err != nil {
		return err
	}
	if !handled {
		if r.host.Doomed() {
			return sqlerr.Make(3930)
		}
		if r.s.opt.implicitTransactions && r.host.TranCount() == 0 {
			if err := r.host.Begin(ctx, ""); err != nil {
				return err
			}
		}
		if err := r.host.DDL(ctx, s); err != nil {
			return err
		}
	}
	return r.done(Done{Kind: DoneOther})
}
