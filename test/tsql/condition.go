package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// cond compiles a condition.
func (c *compiler) cond(e ast.Expr) (*cond, error) {
	switch x := e.(type) {
	case *ast.Binary:
		switch x.Op {
		case "AND", "OR":
			return c.logical(x)
		}
		return c.compare(x)
	case *ast.Unary:
		inner, err := c.cond(x.X)
		if err != nil {
			return nil, err
		}
		return &cond{lvl: inner.lvl, deps: inner.deps, eval: func(f *frame) (tri, error) {
			t, err := inner.eval(f)
			return t.not(), err
		}}, nil
	case *ast.IsNull:
		return c.isNull(x)
	case *ast.Between:
		return c.between(x)
	case *ast.In:
		if x.Query != nil {
			return c.inQuery(x)
		}
		return c.inList(x)
	case *ast.Like:
		return c.like(x)
	case *ast.Exists:
		return c.exists(x)
	case *ast.Quantified:
		return c.quantified(x)
	}
	return nil, sqlerr.New(4145, 15, 1, "An expression of non-boolean type specified in a context where a condition is expected.")
}

func (c *compiler) logical(x *ast.Binary) (*cond, error) {
	var parts []*cond
	for _, e := range flatten(x.Op, x, nil) {
		p, err := c.cond(e)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return combine(x.Op, parts), nil
}

// flatten lists the operands of a chain of one operator.
func flatten(op string, e ast.Expr, list []ast.Expr) []ast.Expr {
	for {
		b, ok := e.(*ast.Binary)
		if !ok || b.Op != op {
			break
		}
		if r, ok := b.R.(*ast.Binary); ok && r.Op == op {
			list = flatten(op, b.L, list)
			e = b.R
			continue
		}
		// left-deep chains are the usual ones: walk them without recursion
		var rest []ast.Expr
		for ok && b.Op == op {
			rest = append(rest, b.R)
			e = b.L
			b, ok = e.(*ast.Binary)
		}
		list = append(list, e)
		for i := len(rest) - 1; i >= 0; i-- {
			list = append(list, rest[i])
		}
		return list
	}
	return append(list, e)
}

// combine joins conditions by AND or OR.
func combine(op string, parts []*cond) *cond {
	r := &cond{}
	for _, p := range parts {
		r.deps.addAll(p.deps)
		r.lvl = max(r.lvl, p.lvl)
	}
	stop := isFalse
	if op == "OR" {
		stop = isTrue
		r.or = parts
	} else {
		r.and = parts
	}
	r.eval = func(f *frame) (tri, error) {
		result := stop.not()
		for _, p := range parts {
			t, err := p.eval(f)
			if err != nil || t == stop {
				return t, err
			}
			if t == isUnknown {
				result = isUnknown
			}
		}
		return result, nil
	}
	return r
}

func (c *compiler) isNull(x *ast.IsNull) (*cond, error) {
	a, err := c.expr(x.X)
	if err != nil {
		return nil, err
	}
	not, eval := x.Not, a.eval
	return &cond{lvl: a.lvl, deps: a.deps, eval: func(f *frame) (tri, error) {
		v, err := eval(f)
		return triOf(v.IsNull() != not), err
	}}, nil
}

// between is x >= lo AND x <= hi, so that both bounds can limit a scan.
func (c *compiler) between(x *ast.Between) (*cond, error) {
	lo, err := c.compare(&ast.Binary{Op: ">=", L: x.X, R: x.Lo})
	if err != nil {
		return nil, err
	}
	hi, err := c.compare(&ast.Binary{Op: "<=", L: x.X, R: x.Hi})
	if err != nil {
		return nil, err
	}
	both := combine("AND", []*cond{lo, hi})
	if !x.Not {
		return both, nil
	}
	return &cond{lvl: both.lvl, deps: both.deps, eval: func(f *frame) (tri, error) {
		t, err := both.eval(f)
		return t.not(), err
	}}, nil
}

// compare compiles a comparison.
func (c *compiler) compare(x *ast.Binary) (*cond, error) {
	l, err := c.expr(x.L)
	if err != nil {
		return nil, err
	}
	r, err := c.expr(x.R)
	if err != nil {
		return nil, err
	}
	return c.compareExprs(x.Op, l, r)
}

func (c *compiler) compareExprs(op string, l, r *expr) (*cond, error) {
	l, r = typedNull(l, r), typedNull(r, l)
	cmp, err := c.comparison(op, l, r)
	if err != nil {
		return nil, err
	}
	cmp.l, cmp.r = memo(cmp.l), memo(cmp.r)
	cd := &cond{cmp: cmp, lvl: max(cmp.l.lvl, cmp.r.lvl)}
	cd.deps.addAll(l.deps)
	cd.deps.addAll(r.deps)
	cd.eval = cmp.evalFn()
	return cd, nil
}

// comparison brings both sides to one type.
func (c *compiler) comparison(op string, l, r *expr) (*comparison, error) {
	for _, x := range [...]*expr{l, r} {
		switch x.typ.Kind {
		case sqltype.KindText, sqltype.KindNText, sqltype.KindImage:
			if r.typ.Kind == sqltype.KindText || r.typ.Kind == sqltype.KindNText || l.typ.Kind == sqltype.KindImage ||
				l.typ.Kind == sqltype.KindText || l.typ.Kind == sqltype.KindNText {
				return nil, sqlerr.Make(402, l.typ.Kind.String(), r.typ.Kind.String(), cmpName(op))
			}
		case sqltype.KindXML:
			return nil, sqlerr.New(305, 16, 1, "The xml data type cannot be compared or sorted, except when using the IS NULL operator.")
		}
	}
	cmp := &comparison{op: op, l: l, r: r, common: sqltype.Common(l.typ, r.typ)}
	if cmp.common.Kind.IsText() {
		var rk rank
		cmp.coll, rk = mergeCollation([]*expr{l, r})
		if rk == noCollation {
			return nil, sqlerr.Make(468, collationName(l.coll), collationName(r.coll), cmpName(op))
		}
		if rk == coercible {
			var err error
			if cmp.coll, err = c.run.collation(""); err != nil {
				return nil, err
			}
		}
		return cmp, c.textSides(cmp)
	}
	if cmp.common.Kind.IsBinary() && l.typ.Kind.IsBinary() && r.typ.Kind.IsBinary() {
		return cmp, nil
	}
	if l.typ.Kind.IsNumeric() && r.typ.Kind.IsNumeric() || l.typ.Kind.IsTemporal() && r.typ.Kind.IsTemporal() {
		if incomparable(l.typ.Kind, r.typ.Kind) {
			return nil, sqlerr.Make(402, l.typ.Kind.String(), r.typ.Kind.String(), cmpName(op))
		}
		return cmp, nil // Compare handles every mix of these
	}
	var err error
	if cmp.l, err = c.convertTo(l, cmp.common, false); err != nil {
		return nil, err
	}
	if cmp.r, err = c.convertTo(r, cmp.common, false); err != nil {
		return nil, err
	}
	return cmp, nil
}

// textSides leaves text as it is: lengths do not matter for comparison.
func (c *compiler) textSides(cmp *comparison) error {
	for _, side := range [...]**expr{&cmp.l, &cmp.r} {
		if (*side).typ.Kind.IsText() {
			continue
		}
		x, err := c.convertTo(*side, sqltype.Type{Kind: sqltype.KindNVarChar, Length: sqltype.Max}, false)
		if err != nil {
			return err
		}
		*side = x
	}
	return nil
}

// memo keeps the value of a function or conversion that does not depend on the
// row, so that OBJECT_ID('t') in a condition is asked for once.
func memo(x *expr) *expr {
	if x.lvl != levelRun || x.plain {
		return x
	}
	r := *x
	var owner *frame
	var known sqltype.Value
	r.eval = func(f *frame) (sqltype.Value, error) {
		if owner == f && f != nil {
			return known, nil
		}
		v, err := x.eval(f)
		if err == nil {
			owner, known = f, v
		}
		return v, err
	}
	return &r
}

func incomparable(a, b sqltype.Kind) bool {
	return a == sqltype.KindDate && b == sqltype.KindTime || a == sqltype.KindTime && b == sqltype.KindDate
}

func cmpName(op string) string {
	return map[string]string{"=": "equal to", "<>": "not equal to", "<": "less than", "<=": "less than or equal to",
		">": "greater than", ">=": "greater than or equal to"}[op]
}

// accepts tells whether a result of Compare satisfies an operator.
func accepts(op string) func(int) bool {
	switch op {
	case "=":
		return func(n int) bool { return n == 0 }
	case "<>":
		return func(n int) bool { return n != 0 }
	case "<":
		return func(n int) bool { return n < 0 }
	case "<=":
		return func(n int) bool { return n <= 0 }
	case ">":
		return func(n int) bool { return n > 0 }
	}
	return func(n int) bool { return n >= 0 }
}

func (cmp *comparison) evalFn() condFn {
	l, r, ok, coll := cmp.l.eval, cmp.r.eval, accepts(cmp.op), cmp.coll
	return func(f *frame) (tri, error) {
		a, err := l(f)
		if err != nil || a.IsNull() {
			return isUnknown, err
		}
		b, err := r(f)
		if err != nil || b.IsNull() {
			return isUnknown, err
		}
		return triOf(ok(sqltype.Compare(a, b, coll))), nil
	}
}

// mirror gives the operator with its sides exchanged.
func mirror(op string) string {
	switch op {
	case "<":
		return ">"
	case "<=":
		return ">="
	case ">":
		return "<"
	case ">=":
		return "<="
	}
	return op
}

// inList is x = a OR x = b …, with the values of constants in a set.
func (c *compiler) inList(x *ast.In) (*cond, error) {
	var parts []*cond
	for _, e := range x.List {
		p, err := c.compare(&ast.Binary{Op: "=", L: x.X, R: e})
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if len(parts) == 1 && !x.Not {
		return parts[0], nil
	}
	in := combine("OR", parts)
	if !x.Not {
		return in, nil
	}
	return &cond{lvl: in.lvl, deps: in.deps, eval: func(f *frame) (tri, error) {
		t, err := in.eval(f)
		return t.not(), err
	}}, nil
}

func (c *compiler) like(x *ast.Like) (*cond, error) {
	list := []ast.Expr{x.X, x.Pattern}
	if x.Escape != nil {
		list = append(list, x.Escape)
	}
	args := make([]*expr, len(list))
	for i, e := range list {
		a, err := c.expr(e)
		if err != nil {
			return nil, err
		}
		if !a.typ.Kind.IsText() {
			if a, err = c.convertTo(a, sqltype.NVarCharType(4000), true); err != nil {
				return nil, err
			}
		}
		args[i] = a
	}
	coll, _ := mergeCollation(args[:2])
	var cached *builtin.Pattern
	var cachedText, cachedEscape string
	r := &cond{}
	for _, a := range args {
		r.deps.addAll(a.deps)
		r.lvl = max(r.lvl, a.lvl)
	}
	r.eval = func(f *frame) (tri, error) {
		var vals [3]sqltype.Value
		for i, a := range args {
			v, err := a.eval(f)
			if err != nil || v.IsNull() {
				return isUnknown, err
			}
			vals[i] = v
		}
		if cached == nil || cachedText != vals[1].Str() || cachedEscape != vals[2].Str() {
			esc, err := escapeRune(vals[2].Str())
			if err != nil {
				return isUnknown, err
			}
			cachedText, cachedEscape = vals[1].Str(), vals[2].Str()
			cached = builtin.CompilePattern(cachedText, esc, coll)
		}
		return triOf(cached.Match(vals[0].Str()) != x.Not), nil
	}
	return r, nil
}

func escapeRune(s string) (rune, error) {
	rs := []rune(s)
	switch len(rs) {
	case 0:
		return 0, nil
	case 1:
		return rs[0], nil
	}
	return 0, sqlerr.New(506, 16, 1, "The invalid escape character \"%s\" was specified in a LIKE predicate.", s)
}
