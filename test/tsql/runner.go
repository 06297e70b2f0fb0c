package tsql

import (
	"context"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// maxNesting bounds procedure calls and dynamic batches (Msg 217).
const maxNesting = 32

// variable is a declared variable: a scalar, or a table.
type variable struct {
	typ   sqltype.Type
	val   sqltype.Value
	table *memTable
}

// runner executes one batch, procedure or dynamic batch. Nested ones have
// runners of their own over the same session.
type runner struct {
	s         *Session
	host      Host
	sink      ResultSink
	text      string
	vars      map[string]*variable
	procedure string
	nesting   int
	tryDepth  int      // TRY blocks around the statement, callers included
	caught    []*Error // errors of the CATCH blocks around the statement, innermost last
	inProc    bool     // RETURN with a value is allowed
	status    int32    // return status
	insertExe bool     // inside INSERT … EXEC
}

func (r *runner) child(text string, sink ResultSink) *runner {
	return &runner{s: r.s, host: r.host, sink: sink, text: text, vars: make(map[string]*variable), procedure: r.procedure,
		nesting: r.nesting + 1, tryDepth: r.tryDepth, caught: r.caught, insertExe: r.insertExe}
}

func (r *runner) env() builtin.Env {
	return builtin.Env{Now: r.host.Now(), DateFirst: r.s.opt.dateFirst}
}

// collation finds a collation by name; nil for the default one.
func (r *runner) collation(name string) (*sqltype.Collation, error) {
	if name == "" || strings.EqualFold(name, "database_default") {
		name = r.host.Collation()
	}
	if name == "" || name == sqltype.DefaultCollation {
		return nil, nil
	}
	if c := r.s.collations[name]; c != nil {
		return c, nil
	}
	c, ok := sqltype.LookupCollation(name)
	if !ok {
		return nil, sqlerr.Make(448, name)
	}
	r.s.collations[name] = c
	return c, nil
}

func (r *runner) compiler(ctx context.Context) *compiler {
	return &compiler{ctx: ctx, run: r, reads: new([]ObjectName)}
}

// value computes an expression outside of a query: of SET, IF, PRINT and so on.
func (r *runner) value(ctx context.Context, e ast.Expr) (sqltype.Value, sqltype.Type, error) {
	c := r.compiler(ctx)
	x, err := c.expr(e)
	if err != nil {
		return sqltype.Value{}, sqltype.Type{}, err
	}
	v, err := x.eval(c.newFrame())
	return v, x.typ, err
}

// valueAs computes an expression and converts it.
func (r *runner) valueAs(ctx context.Context, e ast.Expr, t sqltype.Type) (sqltype.Value, error) {
	c := r.compiler(ctx)
	x, err := c.expr(e)
	if err != nil {
		return sqltype.Value{}, err
	}
	if x, err = c.convertTo(x, t, false); err != nil {
		return sqltype.Value{}, err
	}
	return x.eval(c.newFrame())
}

// test computes a condition outside of a query.
func (r *runner) test(ctx context.Context, e ast.Expr) (bool, error) {
	c := r.compiler(ctx)
	x, err := c.cond(e)
	if err != nil {
		return false, err
	}
	t, err := x.eval(c.newFrame())
	return t == isTrue, err
}

// lookup finds a scalar variable.
func (r *runner) lookup(name string) (*variable, error) {
	v := r.vars[sqltype.DefaultKey(name)]
	if v == nil || v.table != nil {
		return nil, sqlerr.Undeclared(name)
	}
	return v, nil
}

// assign converts a value and stores it, cutting text that is too long.
func (r *runner) assign(name string, v sqltype.Value) error {
	target, err := r.lookup(name)
	if err != nil {
		return err
	}
	v, err = sqltype.Convert(v, target.typ, sqltype.DefaultStyle)
	if err == nil {
		target.val = v
	}
	return err
}

// globalVariable compiles @@x.
func (c *compiler) globalVariable(name string) (*expr, error) {
	s, r := c.run.s, c.run
	intType := sqltype.Type{Kind: sqltype.KindInt}
	live := func(t sqltype.Type, fn func() sqltype.Value) (*expr, error) {
		return &expr{typ: t, lvl: levelRun, column: -1, eval: func(*frame) (sqltype.Value, error) { return fn(), nil }}, nil
	}
	switch strings.ToUpper(name) {
	case "@@ROWCOUNT":
		return live(intType, func() sqltype.Value { return sqltype.Int(int32(s.rowCount)) })
	case "@@ERROR":
		return live(intType, func() sqltype.Value { return sqltype.Int(s.lastError) })
	case "@@TRANCOUNT":
		return live(intType, func() sqltype.Value { return sqltype.Int(int32(r.host.TranCount())) })
	case "@@IDENTITY":
		x, err := live(sqltype.DecimalType(38, 0), func() sqltype.Value { return s.identity })
		x.nullable = true
		return x, err
	case "@@NESTLEVEL":
		return live(intType, func() sqltype.Value { return sqltype.Int(int32(r.nesting)) })
	case "@@PROCID":
		return live(intType, func() sqltype.Value { return sqltype.Int(0) })
	case "@@FETCH_STATUS":
		return live(intType, func() sqltype.Value { return sqltype.Int(0) })
	case "@@DATEFIRST":
		return live(sqltype.Type{Kind: sqltype.KindTinyInt}, func() sqltype.Value { return sqltype.TinyInt(uint8(s.opt.dateFirst)) })
	case "@@OPTIONS":
		return live(intType, func() sqltype.Value { return sqltype.Int(s.opt.bits()) })
	}
	v, t, ok := r.host.Variable(name)
	if !ok {
		return nil, sqlerr.Undeclared(name)
	}
	x := constant(v, t)
	x.lvl = levelRun
	return x, nil
}

// sessionFunction compiles the functions that look at the session: ERROR_NUMBER,
// XACT_STATE, SCOPE_IDENTITY ….
func (c *compiler) sessionFunction(name string, x *ast.Call) (*expr, bool, error) {
	r := c.run
	var t sqltype.Type
	var fn func() sqltype.Value
	caught := func(get func(e *Error) sqltype.Value) func() sqltype.Value {
		return func() sqltype.Value {
			if len(r.caught) == 0 {
				return sqltype.Null()
			}
			return get(r.caught[len(r.caught)-1])
		}
	}
	t.Kind = sqltype.KindInt
	switch name {
	case "ERROR_NUMBER":
		fn = caught(func(e *Error) sqltype.Value { return sqltype.Int(e.Number) })
	case "ERROR_SEVERITY":
		fn = caught(func(e *Error) sqltype.Value { return sqltype.Int(int32(e.Class)) })
	case "ERROR_STATE":
		fn = caught(func(e *Error) sqltype.Value { return sqltype.Int(int32(e.State)) })
	case "ERROR_LINE":
		fn = caught(func(e *Error) sqltype.Value { return sqltype.Int(e.Line) })
	case "ERROR_MESSAGE":
		t = sqltype.NVarCharType(4000)
		fn = caught(func(e *Error) sqltype.Value { return sqltype.NVarChar(e.Message) })
	case "ERROR_PROCEDURE":
		t = sqltype.SysName()
		fn = caught(func(e *Error) sqltype.Value {
			if e.Procedure == "" {
				return sqltype.Null()
			}
			return sqltype.NVarChar(e.Procedure)
		})
	case "XACT_STATE":
		t.Kind = sqltype.KindSmallInt
		fn = func() sqltype.Value { return sqltype.SmallInt(r.xactState()) }
	case "SCOPE_IDENTITY":
		t = sqltype.DecimalType(38, 0)
		fn = func() sqltype.Value { return r.s.scopeIdentity }
	case "ROWCOUNT_BIG":
		t.Kind = sqltype.KindBigInt
		fn = func() sqltype.Value { return sqltype.BigInt(r.s.rowCount) }
	default:
		return nil, false, nil
	}
	if err := argCount(name, len(x.Args), 0, 0); err != nil {
		return nil, false, err
	}
	return &expr{typ: t, lvl: levelRun, column: -1, nullable: true,
		eval: func(*frame) (sqltype.Value, error) { return fn(), nil }}, true, nil
}

func (r *runner) xactState() int16 {
	switch {
	case r.host.TranCount() == 0:
		return 0
	case r.host.Doomed():
		return -1
	}
	return 1
}
