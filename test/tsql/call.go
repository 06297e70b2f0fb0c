package tsql

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// call compiles a function call: window, aggregate, special form, built-in,
// or one of the host.
func (c *compiler) call(x *ast.Call) (*expr, error) {
	if x.Over != nil {
		return c.windowCall(x)
	}
	name := strings.ToUpper(x.Name.Name)
	if x.Name.Schema == "" || strings.EqualFold(x.Name.Schema, "sys") && name == "FN_VARBINTOHEXSTR" {
		if isAggregate(name) {
			return nil, sqlerr.Make(147) // the grouping takes the ones it allows before
		}
		if windowOnly(name) {
			return nil, sqlerr.Make(10753, strings.ToLower(name))
		}
		if e, ok, err := c.specialForm(name, x); ok || err != nil {
			return e, err
		}
		if fn, ok := builtin.Lookup(name); ok {
			return c.builtinCall(fn, x)
		}
	}
	return c.hostCall(x)
}

func argCount(name string, n, lo, hi int) error {
	if n >= lo && (hi < 0 || n <= hi) {
		return nil
	}
	if lo == hi {
		return sqlerr.Make(174, strings.ToLower(name), lo)
	}
	if hi < 0 {
		hi = 254
	}
	return sqlerr.Make(189, strings.ToLower(name), lo, hi)
}

// specialForm compiles the functions that do not take plain values.
func (c *compiler) specialForm(name string, x *ast.Call) (*expr, bool, error) {
	var e *expr
	var err error
	switch name {
	case "COALESCE":
		if err = argCount(name, len(x.Args), 2, -1); err == nil {
			e, err = c.coalesce(x.Args)
		}
	case "NULLIF":
		if err = argCount(name, len(x.Args), 2, 2); err == nil {
			e, err = c.nullIf(x.Args[0], x.Args[1])
		}
	case "ISNULL":
		if err = argCount(name, len(x.Args), 2, 2); err == nil {
			e, err = c.isNullCall(x.Args[0], x.Args[1])
		}
	case "CHOOSE":
		if err = argCount(name, len(x.Args), 2, -1); err == nil {
			e, err = c.chooseCall(x.Args)
		}
	default:
		return c.sessionFunction(name, x)
	}
	return e, true, err
}

// coalesce gives the first value that is not NULL.
func (c *compiler) coalesce(args []ast.Expr) (*expr, error) {
	list, err := c.exprs(args)
	if err != nil {
		return nil, err
	}
	list, t, err := c.unify(list)
	if err != nil {
		return nil, err
	}
	if t.Kind == sqltype.KindNull {
		return nil, sqlerr.New(4127, 16, 1, "At least one of the arguments to COALESCE must be an expression that is not the NULL constant.")
	}
	r := derive(t, func(f *frame) (v sqltype.Value, err error) {
		for _, x := range list {
			if v, err = x.eval(f); err != nil || !v.IsNull() {
				break
			}
		}
		return v, err
	}, list...)
	r.nullable = true
	for _, x := range list {
		r.nullable = r.nullable && x.nullable
	}
	r.coll, r.rank = mergeCollation(list)
	return r.fold(), nil
}

func (c *compiler) nullIf(a, b ast.Expr) (*expr, error) {
	x, err := c.expr(a)
	if err != nil {
		return nil, err
	}
	eq, err := c.compare(&ast.Binary{Op: "=", L: a, R: b})
	if err != nil {
		return nil, err
	}
	r := derive(x.typ, func(f *frame) (sqltype.Value, error) {
		t, err := eq.eval(f)
		if err != nil || t == isTrue {
			return sqltype.Null(), err
		}
		return x.eval(f)
	}, x)
	r.deps.addAll(eq.deps)
	r.lvl = max(r.lvl, eq.lvl)
	r.nullable, r.coll, r.rank = true, x.coll, x.rank
	return r.fold(), nil
}

// isNullCall is ISNULL: the second value takes the type of the first.
func (c *compiler) isNullCall(a, b ast.Expr) (*expr, error) {
	x, err := c.expr(a)
	if err != nil {
		return nil, err
	}
	y, err := c.expr(b)
	if err != nil {
		return nil, err
	}
	if x.isNullLiteral() {
		return y, nil
	}
	if y, err = c.convertTo(y, x.typ, false); err != nil {
		return nil, err
	}
	r := derive(x.typ, func(f *frame) (sqltype.Value, error) {
		v, err := x.eval(f)
		if err == nil && v.IsNull() {
			return y.eval(f)
		}
		return v, err
	}, x, y)
	r.nullable, r.coll, r.rank = y.nullable, x.coll, x.rank
	return r.fold(), nil
}

func (c *compiler) chooseCall(args []ast.Expr) (*expr, error) {
	list, err := c.exprs(args)
	if err != nil {
		return nil, err
	}
	n, err := c.convertTo(list[0], sqltype.Type{Kind: sqltype.KindInt}, false)
	if err != nil {
		return nil, err
	}
	values, t, err := c.unify(list[1:])
	if err != nil {
		return nil, err
	}
	r := derive(t, func(f *frame) (sqltype.Value, error) {
		v, err := n.eval(f)
		if err != nil || v.IsNull() || v.Int64() < 1 || v.Int64() > int64(len(values)) {
			return sqltype.Null(), err
		}
		return values[v.Int64()-1].eval(f)
	}, append(values, n)...)
	r.nullable = true
	return r.fold(), nil
}

// builtinCall compiles a function of package builtin.
func (c *compiler) builtinCall(fn *builtin.Func, x *ast.Call) (*expr, error) {
	if err := argCount(fn.Name, len(x.Args), fn.Min, fn.Max); err != nil {
		return nil, err
	}
	if x.Star || x.Distinct {
		return nil, sqlerr.Syntax("*")
	}
	args := make([]*expr, len(x.Args))
	types := make([]sqltype.Type, len(x.Args))
	for i, e := range x.Args {
		a, err := c.builtinArg(fn, i, e)
		if err != nil {
			return nil, err
		}
		args[i], types[i] = a, a.typ
	}
	t := fn.Result(types)
	buf := make([]sqltype.Value, len(args))
	r := derive(t, func(f *frame) (sqltype.Value, error) {
		for i, a := range args {
			v, err := a.eval(f)
			if err != nil || v.IsNull() && !fn.NullOK {
				return sqltype.Null(), err
			}
			buf[i] = v
		}
		env := &builtin.Env{DateFirst: 7} // while constants are folded
		if f != nil {
			env = &f.env
		}
		return fn.Eval(env, buf)
	}, args...)
	r.nullable = len(args) > 0
	switch {
	case fn.Volatile:
		r.lvl = levelRow
	case fn.Stable:
		r.lvl = max(r.lvl, levelRun)
	}
	if t.Kind.IsText() {
		if r.coll, r.rank = mergeCollation(args); r.rank == noCollation {
			return nil, sqlerr.Make(468, collationName(args[0].coll), collationName(args[len(args)-1].coll), strings.ToLower(fn.Name))
		}
	}
	return r.fold(), nil
}

// builtinArg compiles argument i and converts it to its class.
func (c *compiler) builtinArg(fn *builtin.Func, i int, e ast.Expr) (*expr, error) {
	class := fn.ArgClass(i)
	if class == builtin.Part {
		ref, ok := e.(*ast.ColumnRef)
		if !ok || len(ref.Parts) != 1 {
			return nil, sqlerr.New(1023, 15, 1, "Invalid parameter %d specified for %s.", i+1, strings.ToLower(fn.Name))
		}
		if _, known := builtin.ParseDatePart(ref.Column()); !known {
			return nil, sqlerr.Make(155, ref.Column(), strings.ToLower(fn.Name))
		}
		return constant(sqltype.VarChar(ref.Column()), sqltype.VarCharType(30)), nil
	}
	a, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return c.toClass(fn, i, class, a)
}

func (c *compiler) toClass(fn *builtin.Func, i int, class builtin.Arg, a *expr) (*expr, error) {
	k := a.typ.Kind
	to := sqltype.Type{}
	switch class {
	case builtin.Any:
		return a, nil
	case builtin.Text, builtin.Str:
		if k.IsText() || class == builtin.Str && k.IsBinary() {
			return a, nil
		}
		to = sqltype.VarCharType(max(1, sqltype.TextWidth(a.typ)))
	case builtin.Int:
		to.Kind = sqltype.KindBigInt
	case builtin.Number:
		if k.IsNumeric() {
			return a, nil
		}
		to.Kind = sqltype.KindFloat
		if a.isNullLiteral() {
			to.Kind = sqltype.KindInt
		}
	case builtin.Float:
		to.Kind = sqltype.KindFloat
	default:
		if k.IsTemporal() {
			return a, nil
		}
		to = temporalClass(class, k)
	}
	x, err := c.convertTo(a, to, true)
	if err != nil {
		return nil, sqlerr.Make(8116, k.ErrorName(), i+1, strings.ToLower(fn.Name))
	}
	return x, nil
}

func temporalClass(class builtin.Arg, k sqltype.Kind) sqltype.Type {
	switch {
	case class == builtin.Old || !k.IsText():
		return sqltype.Type{Kind: sqltype.KindDateTime}
	case class == builtin.Zoned:
		return sqltype.Type{Kind: sqltype.KindDateTimeOffset, Scale: 7}
	}
	return sqltype.Type{Kind: sqltype.KindDateTime2, Scale: 7}
}

// hostCall compiles a function of the host.
func (c *compiler) hostCall(x *ast.Call) (*expr, error) {
	fn, ok := c.run.host.ScalarFunction(x.Name)
	if !ok {
		if x.Name.Schema == "" {
			return nil, sqlerr.Make(195, x.Name.Name)
		}
		return nil, sqlerr.Make(4121, x.Name.Schema, x.Name.String())
	}
	if err := argCount(x.Name.Name, len(x.Args), fn.MinArgs, fn.MaxArgs); err != nil {
		return nil, err
	}
	args := make([]*expr, len(x.Args))
	types := make([]sqltype.Type, len(x.Args))
	for i, e := range x.Args {
		a, err := c.expr(e)
		if err != nil {
			return nil, err
		}
		if i < len(fn.Params) {
			if a, err = c.convertTo(a, fn.Params[i], false); err != nil {
				return nil, err
			}
		}
		args[i], types[i] = a, a.typ
	}
	buf := make([]sqltype.Value, len(args))
	objectID := strings.EqualFold(x.Name.Name, "OBJECT_ID")
	r := derive(fn.Result(types), func(f *frame) (sqltype.Value, error) {
		for i, a := range args {
			v, err := a.eval(f)
			if err != nil {
				return v, err
			}
			buf[i] = v
		}
		if objectID && f.run.s.hasTemp(buf[0].Str()) {
			return sqltype.Int(tempObjectID), nil
		}
		return fn.Eval(f.ctx, buf)
	}, args...)
	r.nullable = true
	r.lvl = max(r.lvl, levelRun)
	return r, nil
}
