package tsql

import (
	"context"
	"errors"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// exec executes EXEC. In a batch the return status follows the results of the procedure, and the end of the EXEC follows that
// (MS-TDS 2.2.7.18 and 2.2.7.8); inside a procedure there is only the end [K].
func (r *runner) exec(ctx context.Context, x *ast.Exec) error {
	var status int32
	var err error
	if x.Text != nil {
		err = r.execText(ctx, x)
	} else {
		status, err = r.execProcedure(ctx, x)
	}
	switch {
	case err != nil && isSignal(err) && r.nesting == 0: // the batch ends in the middle of the procedure
		if e := r.end(Done{Kind: DoneExec, Failed: true}); e != nil {
			return e
		}
		return err
	case err != nil:
		return err
	}
	if r.nesting == 0 {
		if err := r.sink.ReturnStatus(status); err != nil {
			return err
		}
	}
	return r.end(Done{Kind: DoneExec})
}

// execText executes EXEC ('text').
func (r *runner) execText(ctx context.Context, x *ast.Exec) error {
	v, err := r.valueAs(ctx, x.Text, sqltype.NVarCharType(sqltype.Max))
	if err != nil {
		return err
	}
	return r.dynamic(ctx, v.Str(), nil)
}

// execProcedure executes EXEC of a procedure and gives its return status.
func (r *runner) execProcedure(ctx context.Context, x *ast.Exec) (int32, error) {
	name := x.Procedure
	if x.Variable != "" {
		v, err := r.lookup(x.Variable)
		if err != nil {
			return 0, err
		}
		name = splitName(v.val.Str())
	}
	args := make([]*Argument, len(x.Args))
	for i, a := range x.Args {
		arg, err := r.execArg(ctx, a)
		if err != nil {
			return 0, err
		}
		args[i] = arg
	}
	before := r.host.TranCount()
	status, err := r.call(ctx, name, args)
	if err != nil {
		return 0, err
	}
	for i, a := range x.Args {
		v, isVar := a.X.(*ast.Variable)
		if !a.Output || !isVar {
			continue
		}
		if err := r.assign(v.Name, args[i].Value); err != nil {
			return 0, err
		}
	}
	if x.Return != "" {
		if err := r.assign(x.Return, sqltype.Int(status)); err != nil {
			return 0, err
		}
	}
	if after := r.host.TranCount(); after != before && r.systemProcedure(name) == nil {
		if err := r.sink.Message(sqlerr.Make(266, before, after).At(x.Line).In(name.Name)); err != nil {
			return 0, err
		}
	}
	return status, nil
}

func splitName(s string) ObjectName {
	parts := strings.Split(s, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(p, "[]\"")
	}
	if len(parts) > 4 {
		parts = parts[len(parts)-4:]
	}
	return ast.Name(parts...)
}

func (r *runner) execArg(ctx context.Context, a ast.ExecArg) (*Argument, error) {
	if l, ok := a.X.(*ast.Literal); ok && l.Kind == ast.LitDefault {
		return &Argument{Name: a.Name, Default: true}, nil
	}
	v, t, err := r.value(ctx, a.X)
	return &Argument{Name: a.Name, Value: v, Type: t, Output: a.Output}, err
}

// dynamic runs a text as a batch of its own: its variables are params only.
func (r *runner) dynamic(ctx context.Context, text string, params []*Argument) error {
	if r.nesting >= maxNesting {
		return sqlerr.Make(217)
	}
	child := r.child(text, r.sink)
	opt := r.s.opt
	err := child.batch(ctx, text, params)
	opt.identityInsert = r.s.opt.identityInsert
	r.s.opt = opt // SET in a nested batch ends with it
	var ret *returnSignal
	if errors.As(err, &ret) || errors.Is(err, errScope) {
		return nil
	}
	return err
}

// call executes a procedure by name.
func (r *runner) call(ctx context.Context, name ObjectName, args []*Argument) (int32, error) {
	if r.nesting >= maxNesting {
		return 0, sqlerr.Make(217)
	}
	if fn := r.systemProcedure(name); fn != nil {
		return 0, fn(ctx, args)
	}
	p, err := r.host.Procedure(ctx, name)
	if err != nil {
		return 0, err
	}
	if p.Body != nil {
		return r.callText(ctx, p, args)
	}
	return r.callNative(ctx, p, args)
}

func (r *runner) callNative(ctx context.Context, p *Procedure, args []*Argument) (int32, error) {
	c := &Call{Args: make([]sqltype.Value, len(p.Params)), Given: make([]bool, len(p.Params)), Sink: &procSink{ResultSink: r.sink, s: r.s}, Session: r.s}
	bound, err := bind(p.Name.Name, p.Params, args)
	if err != nil {
		return 0, err
	}
	for i, prm := range p.Params {
		a := bound[i]
		if a == nil || a.Default {
			if prm.Default == nil {
				return 0, sqlerr.Make(201, p.Name.Name, prm.Name)
			}
			c.Args[i] = *prm.Default
			continue
		}
		if c.Args[i], err = argumentValue(a, prm.Type); err != nil {
			return 0, err
		}
		c.Given[i] = true
	}
	status, err := p.Call(ctx, c)
	if err != nil {
		if e := sqlerr.Of(err); e != nil && !errors.Is(err, errBatch) {
			return 0, procedureError(err, e, p.Name.Name)
		}
		return 0, err
	}
	for i, a := range bound {
		if a != nil && a.Output {
			a.Value, a.Type = c.Args[i], p.Params[i].Type
		}
	}
	return status, nil
}

// procedureError names the procedure in an error that has no name yet.
func procedureError(err error, e *Error, name string) error {
	named := e.In(name)
	if named.Line == 0 {
		named = named.At(1)
	}
	var raised *raisedError
	var abort *abortError
	switch {
	case errors.As(err, &raised):
		return &raisedError{err: named}
	case errors.As(err, &abort):
		return &abortError{err: named}
	}
	return named
}

// procSink counts the rows that a native procedure sends.
type procSink struct {
	ResultSink
	s *Session
}

func (p *procSink) Done(d Done) error {
	if d.HasCount {
		p.s.rowCount = d.Count
	}
	if p.s.opt.noCount {
		d.HasCount = false
	}
	d.InProc = true
	return p.ResultSink.Done(d)
}

// argumentValue converts an argument to its parameter's type; 8114 when it cannot be.
func argumentValue(a *Argument, t sqltype.Type) (sqltype.Value, error) {
	v, err := sqltype.Convert(a.Value, t, sqltype.DefaultStyle)
	if err != nil {
		return v, sqlerr.Make(8114, a.Value.Kind().ErrorName(), t.Kind.ErrorName())
	}
	return v, nil
}

// bind puts arguments in the order of the parameters.
func bind(name string, params []Param, args []*Argument) ([]*Argument, error) {
	if len(params) == 0 && len(args) > 0 {
		return nil, sqlerr.Make(8146, name)
	}
	bound := make([]*Argument, len(params))
	for i, a := range args {
		at := i
		if a.Name != "" {
			at = -1
			for j, p := range params {
				if strings.EqualFold(p.Name, a.Name) {
					at = j
				}
			}
			if at < 0 {
				return nil, sqlerr.Make(8145, a.Name, name)
			}
		}
		if at >= len(params) {
			return nil, sqlerr.Make(8144, name)
		}
		if bound[at] != nil {
			return nil, sqlerr.Make(8143, params[at].Name)
		}
		if a.Output && !params[at].Output {
			return nil, sqlerr.Make(8162, params[at].Name)
		}
		bound[at] = a
	}
	return bound, nil
}

// callText executes a procedure written in T-SQL.
func (r *runner) callText(ctx context.Context, p *Procedure, args []*Argument) (int32, error) {
	child := r.child(p.Body.Text, r.sink)
	child.procedure, child.inProc = p.Name.Name, true
	params := make([]Param, len(p.Body.Params))
	for i, bp := range p.Body.Params {
		params[i] = Param{Name: bp.Name, Type: bp.Type, Output: bp.Output}
	}
	bound, err := bind(p.Name.Name, params, args)
	if err != nil {
		return 0, err
	}
	for i, bp := range p.Body.Params {
		v := &variable{typ: bp.Type}
		switch a := bound[i]; {
		case a != nil && !a.Default:
			v.val, err = argumentValue(a, bp.Type)
		case bp.Default == nil:
			err = sqlerr.Make(201, p.Name.Name, bp.Name)
		default:
			v.val, err = r.valueAs(ctx, bp.Default, bp.Type)
		}
		if err != nil {
			return 0, err
		}
		child.vars[sqltype.DefaultKey(bp.Name)] = v
	}
	opt := r.s.opt
	err = child.statements(ctx, p.Body.Body)
	opt.identityInsert = r.s.opt.identityInsert
	r.s.opt = opt
	var ret *returnSignal
	if err != nil && !errors.As(err, &ret) && !errors.Is(err, errScope) {
		return 0, err
	}
	for i, a := range bound {
		if a != nil && a.Output {
			a.Value, a.Type = child.vars[sqltype.DefaultKey(params[i].Name)].val, params[i].Type
		}
	}
	return child.status, nil
}
