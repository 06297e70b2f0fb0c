package tsql

import (
	"context"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// compiler turns the tree of one statement into closures.
type compiler struct {
	ctx   context.Context
	run   *runner
	scope *scope
	slots int
	ctes  []*cte    // visible common table expressions, innermost last
	group *grouping // set while the items of a grouped query are compiled
	win   *windows  // set where window functions are allowed
	// noFold keeps variables from being taken for known: the statement assigns them.
	noFold bool
	depth  int           // nesting of queries and computed columns
	rounds int           // MAXRECURSION: 0 for the default, below 0 for no end
	reads  *[]ObjectName // full names of the tables that the statement reads
}

// newSlot reserves a slot of the frame.
func (c *compiler) newSlot() int {
	c.slots++
	return c.slots - 1
}

// newFrame makes a frame for what was compiled.
func (c *compiler) newFrame() *frame {
	return &frame{ctx: c.ctx, run: c.run, rows: make([]sqltype.Row, c.slots), env: c.run.env()}
}

// expr compiles a scalar expression.
func (c *compiler) expr(e ast.Expr) (*expr, error) {
	if c.group != nil {
		if x, ok, err := c.group.lookup(c, e); ok || err != nil {
			return x, err
		}
	}
	switch x := e.(type) {
	case *ast.Literal:
		return literal(x)
	case *ast.Variable:
		return c.variable(x)
	case *ast.ColumnRef:
		return c.columnRef(x)
	case *ast.Unary:
		return c.unary(x)
	case *ast.Binary:
		return c.binary(x)
	case *ast.Case:
		return c.caseExpr(x)
	case *ast.Cast:
		return c.cast(x.X, x.Type, nil, x.Try)
	case *ast.Convert:
		return c.cast(x.X, x.Type, x.Style, x.Try)
	case *ast.ParseText:
		return c.parseText(x)
	case *ast.Collate:
		return c.collate(x)
	case *ast.AtTimeZone:
		return c.atTimeZone(x)
	case *ast.Call:
		return c.call(x)
	case *ast.Subquery:
		return c.scalarSubquery(x.Query)
	}
	return nil, sqlerr.New(4145, 15, 1, "A condition stands where a value is expected.")
}

func (c *compiler) exprs(list []ast.Expr) ([]*expr, error) {
	out := make([]*expr, len(list))
	for i, e := range list {
		x, err := c.expr(e)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

// literal makes the constant of a literal.
func literal(l *ast.Literal) (*expr, error) {
	switch l.Kind {
	case ast.LitNull, ast.LitDefault:
		return constant(sqltype.Null(), sqltype.Type{Kind: sqltype.KindNull}), nil
	case ast.LitInteger:
		return integerLiteral(l.Text)
	case ast.LitDecimal:
		return decimalLiteral(l.Text)
	case ast.LitFloat:
		return floatLiteral(l.Text)
	case ast.LitMoney:
		v, err := sqltype.Convert(sqltype.VarChar(l.Text), sqltype.Type{Kind: sqltype.KindMoney}, sqltype.DefaultStyle)
		return constant(v, sqltype.Type{Kind: sqltype.KindMoney}), err
	case ast.LitString:
		n := min(max(len(l.Text), 1), 8001)
		if n > 8000 {
			n = sqltype.Max
		}
		t := sqltype.VarCharType(n)
		v, err := sqltype.Convert(sqltype.VarChar(l.Text), sqltype.VarCharType(sqltype.Max), sqltype.DefaultStyle)
		return constant(v, t), err
	case ast.LitNString:
		n := min(max(sqltype.TextLen(l.Text), 1), 4001)
		if n > 4000 {
			n = sqltype.Max
		}
		return constant(sqltype.NVarChar(l.Text), sqltype.NVarCharType(n)), nil
	}
	return binaryLiteral(l.Text)
}

func integerLiteral(text string) (*expr, error) {
	digits := strings.TrimLeft(text, "0")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		x := constant(sqltype.Int(int32(n)), sqltype.Type{Kind: sqltype.KindInt})
		x.digits = uint8(max(1, len(digits)))
		return x, nil
	}
	return decimalLiteral(text)
}

func decimalLiteral(text string) (*expr, error) {
	n, err := sqltype.ParseNumber(text)
	if err != nil {
		return nil, sqlerr.New(1007, 15, 1, "The number '%s' is out of the range for numeric representation (maximum precision 38).", text)
	}
	whole, frac, _ := strings.Cut(text, ".")
	whole = strings.TrimLeft(whole, "0")
	p := min(max(1, len(whole)+len(frac)), sqltype.MaxPrecision)
	return constant(sqltype.Decimal(n), sqltype.DecimalType(uint8(p), n.Scale)), nil
}

func floatLiteral(text string) (*expr, error) {
	if c := text[len(text)-1]; c == 'e' || c == 'E' || c == '+' || c == '-' {
		text += "0"
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, sqlerr.Make(168, text, 8)
	}
	return constant(sqltype.Float(f), sqltype.Type{Kind: sqltype.KindFloat}), nil
}

func binaryLiteral(digits string) (*expr, error) {
	if len(digits)%2 == 1 {
		digits = "0" + digits
	}
	v, err := sqltype.Convert(sqltype.VarChar(digits), sqltype.VarBinaryType(sqltype.Max), 2)
	if err != nil {
		return nil, err
	}
	n := max(1, len(v.Str()))
	if n > 8000 {
		n = sqltype.Max
	}
	return constant(v, sqltype.VarBinaryType(n)), nil
}

func (c *compiler) variable(x *ast.Variable) (*expr, error) {
	if strings.HasPrefix(x.Name, "@@") {
		return c.globalVariable(x.Name)
	}
	v := c.run.vars[sqltype.DefaultKey(x.Name)]
	if v == nil || v.table != nil {
		return nil, sqlerr.Undeclared(x.Name)
	}
	e := &expr{typ: v.typ, lvl: levelRun, plain: true, column: -1, nullable: true, eval: func(*frame) (sqltype.Value, error) { return v.val, nil }}
	if c.noFold {
		e.lvl = levelRow
	}
	return e, nil
}

func (c *compiler) columnRef(x *ast.ColumnRef) (*expr, error) {
	if c.scope == nil {
		return nil, c.noColumns(x)
	}
	src, ordinal, owner, err := c.scope.resolve(x)
	if err != nil {
		if len(x.Parts) == 1 && c.scope.parent == nil && len(c.scope.sources) == 0 {
			err = c.noColumns(x)
		}
		return nil, err
	}
	if owner.group != nil {
		return owner.group.column(c, src, ordinal, x)
	}
	return c.sourceColumn(src, ordinal)
}

// noColumns is the error for a column where there are none: 207.
func (c *compiler) noColumns(x *ast.ColumnRef) error {
	if len(x.Parts) > 1 {
		return sqlerr.Make(4104, strings.Join(x.Parts, "."))
	}
	return sqlerr.InvalidColumn(x.Column())
}

// sourceColumn reads a column of a source. A computed column becomes its expression.
func (c *compiler) sourceColumn(src *source, ordinal int) (*expr, error) {
	col := src.cols[ordinal]
	if src.def != nil && col.Computed {
		if def := src.def.Computed(ordinal); def != nil {
			return c.computedColumn(src, ordinal, def)
		}
	}
	src.used[ordinal] = true
	slot := src.slot
	x := &expr{typ: col.Type, lvl: levelRow, slot: slot, column: ordinal, nullable: col.Nullable || src.outer,
		identity: col.Identity, computed: col.Computed,
		eval: func(f *frame) (sqltype.Value, error) { return f.rows[slot][ordinal], nil }}
	x.deps.add(slot)
	if col.Type.Kind.IsText() {
		x.rank = implicit
		var err error
		if x.coll, err = c.run.collation(col.Type.Collation); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (c *compiler) computedColumn(src *source, ordinal int, def ast.Expr) (*expr, error) {
	if x := src.computed[ordinal]; x != nil {
		return x, nil
	}
	if c.depth > 32 {
		return nil, sqlerr.Make(191)
	}
	inner := &compiler{ctx: c.ctx, run: c.run, scope: &scope{sources: []*source{src}}, slots: c.slots, depth: c.depth + 1}
	x, err := inner.expr(def)
	if err != nil {
		return nil, err
	}
	if x, err = inner.convertTo(x, src.cols[ordinal].Type, false); err != nil {
		return nil, err
	}
	c.slots = inner.slots
	r := *x
	r.column, r.computed, r.lvl = -1, true, levelRow
	r.deps.add(src.slot)
	r.nullable = true
	if src.outer { // the whole row is missing, the expression must not be computed
		eval, slot := x.eval, src.slot
		r.eval = func(f *frame) (sqltype.Value, error) {
			if allNull(f.rows[slot]) {
				return sqltype.Null(), nil
			}
			return eval(f)
		}
	}
	if src.computed == nil {
		src.computed = make(map[int]*expr)
	}
	src.computed[ordinal] = &r
	return &r, nil
}

func allNull(row sqltype.Row) bool {
	for i := range row {
		if !row[i].IsNull() {
			return false
		}
	}
	return true
}

func (c *compiler) unary(x *ast.Unary) (*expr, error) {
	if lit, ok := x.X.(*ast.Literal); ok && x.Op == "-" && lit.Kind == ast.LitInteger && lit.Text == "2147483648" {
		return constant(sqltype.Int(-1<<31), sqltype.Type{Kind: sqltype.KindInt}), nil
	}
	a, err := c.expr(x.X)
	if err != nil {
		return nil, err
	}
	switch x.Op {
	case "+":
		return a, nil
	case "-":
		return negate(a)
	case "~":
		return bitNot(a)
	}
	return nil, sqlerr.SyntaxKeyword("NOT")
}

func (c *compiler) collate(x *ast.Collate) (*expr, error) {
	a, err := c.expr(x.X)
	if err != nil {
		return nil, err
	}
	if a.isNullLiteral() {
		a = constant(sqltype.Null(), sqltype.VarCharType(1))
	}
	if !a.typ.Kind.IsText() {
		return nil, sqlerr.Make(447, a.typ.Kind.ErrorName())
	}
	coll, err := c.run.collation(x.Collation)
	if err != nil {
		return nil, err
	}
	r := *a
	r.typ.Collation, r.coll, r.rank, r.column = x.Collation, coll, explicit, -1
	return &r, nil
}

// caseExpr compiles CASE; the branches are brought to one type.
func (c *compiler) caseExpr(x *ast.Case) (*expr, error) {
	conds := make([]*cond, len(x.Whens))
	values := make([]*expr, 0, len(x.Whens)+1)
	for i, w := range x.Whens {
		var err error
		if x.Operand == nil {
			conds[i], err = c.cond(w.Cond)
		} else {
			conds[i], err = c.cond(&ast.Binary{Op: "=", L: x.Operand, R: w.Cond})
		}
		if err != nil {
			return nil, err
		}
		v, err := c.expr(w.Then)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	if x.Else != nil {
		v, err := c.expr(x.Else)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	} else {
		values = append(values, constant(sqltype.Null(), sqltype.Type{Kind: sqltype.KindNull}))
	}
	return c.choose(conds, values)
}

// choose gives the value of the first true condition, or the last value.
func (c *compiler) choose(conds []*cond, values []*expr) (*expr, error) {
	values, t, err := c.unify(values)
	if err != nil {
		return nil, err
	}
	if t.Kind == sqltype.KindNull {
		return nil, sqlerr.Make(8133)
	}
	last := values[len(values)-1]
	r := derive(t, func(f *frame) (sqltype.Value, error) {
		for i, cd := range conds {
			ok, err := cd.eval(f)
			if err != nil {
				return sqltype.Value{}, err
			}
			if ok == isTrue {
				return values[i].eval(f)
			}
		}
		return last.eval(f)
	}, values...)
	for _, cd := range conds {
		r.deps.addAll(cd.deps)
		r.lvl = max(r.lvl, cd.lvl)
	}
	r.coll, r.rank = mergeCollation(values)
	return r.fold(), nil
}

// unify converts expressions to their common type.
func (c *compiler) unify(list []*expr) ([]*expr, sqltype.Type, error) {
	t := list[0].numericType()
	for _, x := range list[1:] {
		t = sqltype.Common(t, x.numericType())
	}
	if len(list) == 1 {
		t = list[0].typ
	}
	out := make([]*expr, len(list))
	for i, x := range list {
		y, err := c.convertTo(x, t, false)
		if err != nil {
			return nil, t, err
		}
		out[i] = y
	}
	return out, t, nil
}

// numericType is the type for finding a common one: an integer literal beside a decimal counts
// with its own digits only.
func (x *expr) numericType() sqltype.Type { return x.typ }

// mergeCollation combines the collations of text expressions.
func mergeCollation(list []*expr) (*sqltype.Collation, rank) {
	var coll *sqltype.Collation
	r := coercible
	for _, x := range list {
		if !x.typ.Kind.IsText() {
			continue
		}
		switch {
		case x.rank > r:
			coll, r = x.coll, x.rank
		case x.rank == r && r >= implicit && collationName(x.coll) != collationName(coll):
			r = noCollation
		}
	}
	return coll, r
}

func collationName(c *sqltype.Collation) string {
	if c == nil {
		return sqltype.DefaultCollation
	}
	return c.Name
}
