package tsql

import (
	"context"
	"errors"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// abortError is an error that ends the batch, not only its statement.
type abortError struct{ err *Error }

func (a *abortError) Error() string { return a.err.Error() }
func (a *abortError) Unwrap() error { return a.err }

// returnSignal is RETURN on its way out; loopSignal is BREAK and CONTINUE.
type returnSignal struct{}

func (*returnSignal) Error() string { return "return" }

type loopSignal struct{ again bool }

func (*loopSignal) Error() string { return "loop" }

// isSignal tells control flow from errors.
func isSignal(err error) bool {
	switch err.(type) {
	case *returnSignal, *loopSignal:
		return true
	}
	return errors.Is(err, errBatch) || errors.Is(err, errScope)
}

// statements executes a list. An error that only ends its statement is reported, and the
// list goes on, unless a TRY block is waiting for it.
func (r *runner) statements(ctx context.Context, list []ast.Statement) error {
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.guarded(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// guarded executes a statement and decides what its error ends.
func (r *runner) guarded(ctx context.Context, s ast.Statement) error {
	err := r.statement(ctx, s)
	if err == nil || isSignal(err) {
		if err == nil {
			r.succeeded(s)
		}
		return err
	}
	e := sqlerr.Of(err)
	if e == nil {
		return err
	}
	e = e.At(s.Place().Line).In(r.procedure)
	abort := r.endsBatch(e, err)
	if r.tryDepth > 0 && e.Class < 20 {
		if abort && dooms(e) || r.s.opt.xactAbort {
			r.host.Doom()
		}
		var b *bindingError
		switch {
		case errors.As(err, &b):
			return err
		case isBinding(e.Number):
			return &bindingError{abortError: abortError{err: e}, nesting: r.nesting}
		}
		return &abortError{err: e} // up to the CATCH block
	}
	r.s.lastError = e.Number
	if err := r.failed(s, e); err != nil {
		return err
	}
	if !abort {
		return nil
	}
	if (r.s.opt.xactAbort || dooms(e)) && r.host.TranCount() > 0 && e.Number != 1205 {
		if err := r.host.Rollback(ctx, ""); err != nil {
			return err
		}
	}
	if isBinding(e.Number) && !r.s.opt.xactAbort {
		return errScope
	}
	return errBatch
}

// failed reports the error of a statement; a statement that changes rows says
// that it was terminated (3621).
func (r *runner) failed(s ast.Statement, e *Error) error {
	if err := r.sink.Message(e); err != nil {
		return err
	}
	switch s.(type) {
	case *ast.Insert, *ast.Update, *ast.Delete, *ast.Merge:
		if saysTerminated(e.Number) {
			info := sqlerr.Make(3621).At(int(e.Line)).In(e.Procedure)
			if err := r.sink.Message(info); err != nil {
				return err
			}
		}
	}
	return r.end(Done{Kind: doneKind(s), Failed: true})
}

// saysTerminated tells the errors of running changes from those of compiling them.
func saysTerminated(number int32) bool {
	switch number {
	case 2627, 2601, 515, 547, 2628, 8152, 8134, 8115, 220, 232, 512, 517, 535, 1222, 8672, 3960, 2705:
		return true
	}
	return false
}

// endsBatch tells whether an error ends the batch: those of class 11 to 16 that SQL
// Server treats so, everything under XACT_ABORT but RAISERROR, class 17 and up.
func (r *runner) endsBatch(e *Error, err error) bool {
	var a *abortError
	if errors.As(err, &a) || e.Class >= 20 {
		return true
	}
	if r.s.opt.xactAbort && !isRaised(err) {
		return true
	}
	switch e.Number {
	case 208, 207, 209, 4104, 213, // binding fails when the statement is compiled
		245, 244, 248, 241, 242, 295, 8114, 8169, // conversions
		1205, 3960, 3961, 3952, 3930, 313, 4121, 195, 137, 8120, 217:
		return true
	}
	return e.Class == 15 || e.Class > 16 && e.Number < 50000
}

// dooms tells whether an error makes the open transaction uncommittable.
func dooms(e *Error) bool {
	switch e.Number {
	case 245, 244, 248, 241, 242, 295, 8114, 8169, 3960, 3961, 3952:
		return true
	}
	return false
}

// raisedError is an error of RAISERROR, which XACT_ABORT spares.
type raisedError struct{ err *Error }

func (a *raisedError) Error() string { return a.err.Error() }
func (a *raisedError) Unwrap() error { return a.err }

func isRaised(err error) bool {
	var r *raisedError
	return errors.As(err, &r)
}

// succeeded sets @@ERROR and, where the statement does so, @@ROWCOUNT.
func (r *runner) succeeded(s ast.Statement) {
	if setsError(s) {
		r.s.lastError = 0
	}
	switch s.(type) {
	case *ast.Use, *ast.SetOption, *ast.PrintStmt, *ast.Raise, *ast.Tran:
		r.s.rowCount = 0
	case *ast.SetVariable:
		r.s.rowCount = 1
	}
}

// setsError tells whether a statement sets @@ERROR: control flow does not.
func setsError(s ast.Statement) bool {
	switch s.(type) {
	case *ast.If, *ast.While, *ast.Block, *ast.Try, *ast.Raise, *ast.Return, *ast.Break, *ast.Continue:
		return false
	}
	return true
}

func doneKind(s ast.Statement) DoneKind {
	switch x := s.(type) {
	case *ast.SelectStmt:
		return DoneSelect
	case *ast.Insert:
		return DoneInsert
	case *ast.Update:
		return DoneUpdate
	case *ast.Delete:
		return DoneDelete
	case *ast.Merge:
		return DoneMerge
	case *ast.Exec:
		return DoneExec
	case *ast.Tran:
		return [...]DoneKind{ast.BeginTran: DoneBegin, ast.CommitTran: DoneCommit, ast.RollbackTran: DoneRollback, ast.SaveTran: DoneSave}[x.Kind]
	}
	return DoneOther
}

// statement executes one statement.
func (r *runner) statement(ctx context.Context, s ast.Statement) error {
	switch x := s.(type) {
	case *ast.SelectStmt, *ast.Insert, *ast.Update, *ast.Delete, *ast.Merge:
		return r.observed(ctx, s, func() error { return r.dml(ctx, s) })
	case *ast.Block:
		return r.statements(ctx, x.Body)
	case *ast.If:
		return r.ifStmt(ctx, x)
	case *ast.While:
		return r.while(ctx, x)
	case *ast.Break:
		return &loopSignal{}
	case *ast.Continue:
		return &loopSignal{again: true}
	case *ast.Return:
		return r.returnStmt(ctx, x)
	case *ast.Try:
		return r.try(ctx, x)
	case *ast.Throw:
		return r.throw(ctx, x)
	case *ast.Raise:
		return r.raise(ctx, x)
	case *ast.PrintStmt:
		return r.print(ctx, x)
	case *ast.WaitFor:
		return r.waitFor(ctx, x)
	case *ast.Declare:
		return r.declare(ctx, x)
	case *ast.SetVariable:
		return r.setVariable(ctx, x)
	case *ast.SetOption:
		return r.setOption(ctx, x)
	case *ast.Exec:
		return r.exec(ctx, x)
	case *ast.Tran:
		return r.tran(ctx, x)
	case *ast.Use:
		if err := r.host.Use(ctx, x.Database); err != nil {
			return err
		}
		return r.done(Done{Kind: DoneOther})
	}
	return r.ddl(ctx, s)
}

// observed brackets a statement that reads or changes tables.
func (r *runner) observed(ctx context.Context, s ast.Statement, fn func() error) error {
	if r.s.opt.noExec {
		return nil
	}
	if r.s.opt.implicitTransactions && r.host.TranCount() == 0 && touchesTables(s) {
		if err := r.host.Begin(ctx, ""); err != nil {
			return err
		}
	}
	o, ok := r.host.(StatementObserver)
	if !ok {
		return fn()
	}
	text := ""
	if p := s.Place(); p.End <= len(r.text) && p.Start < p.End {
		text = r.text[p.Start:p.End]
	}
	if err := o.StatementStart(ctx, text, s); err != nil {
		return err
	}
	err := fn()
	o.StatementEnd(ctx, err)
	return err
}

// touchesTables tells whether a statement starts an implicit transaction: a
// SELECT without FROM does not.
func touchesTables(s ast.Statement) bool {
	q, ok := s.(*ast.SelectStmt)
	if !ok {
		return true
	}
	sel, ok := q.Query.Body.(*ast.Select)
	return !ok || len(sel.From) > 0
}

func (r *runner) dml(ctx context.Context, s ast.Statement) error {
	switch x := s.(type) {
	case *ast.SelectStmt:
		return r.selectStmt(ctx, x)
	case *ast.Insert:
		return r.insert(ctx, x)
	case *ast.Update:
		return r.update(ctx, x)
	case *ast.Delete:
		return r.delete(ctx, x)
	case *ast.Merge:
		return r.merge(ctx, x)
	}
	return sqlerr.New(156, 15, 1, "Statement is not supported.")
}

// done reports the end of a statement; without a rowset it is silent under
// SET NOCOUNT ON.
func (r *runner) done(d Done) error {
	if r.s.opt.noCount {
		d.HasCount = false
		switch d.Kind {
		case DoneInsert, DoneUpdate, DoneDelete, DoneMerge:
			return nil
		}
	}
	return r.end(d)
}

// end reports the end of a statement whatever SET NOCOUNT says.
func (r *runner) end(d Done) error {
	d.InProc = r.nesting > 0
	return r.sink.Done(d)
}
