package tsql

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// selection is a SELECT on its way to a plan.
type selection struct {
	c       *compiler
	stmt    *ast.Select
	node    fromNode
	where   []*cond
	group   *grouping
	having  *cond
	win     *windows
	items   []*expr
	cols    []sqltype.Column
	assign  []string // variables, instead of columns
	order   []sortKey
	limit   *limit
	ordered bool // the rows come in the order wanted
	prefix  int  // else: they come sorted by that many leading keys
}

// sortKey is one key of ORDER BY: an expression, or a column of the output.
type sortKey struct {
	x      *expr
	output int // ordinal in the output, -1 for an expression
	desc   bool
	coll   *sqltype.Collation
}

// selectPlan compiles a SELECT with its ORDER BY.
func (c *compiler) selectPlan(s *ast.Select, orderBy []ast.OrderBy, lim *limit) (*queryPlan, error) {
	q := &selection{c: c, stmt: s, limit: lim}
	for _, step := range [...]func() error{q.resolve, q.grouping, q.project, func() error { return q.orderBy(orderBy) }, q.havingClause} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return q.plan()
}

// resolve compiles FROM, WHERE and TOP.
func (q *selection) resolve() error {
	c := q.c
	var err error
	for _, it := range q.stmt.Items {
		if it.Assign != "" {
			c.noFold = true
		}
	}
	if len(q.stmt.From) > 0 {
		if q.node, err = c.fromList(q.stmt.From); err != nil {
			return err
		}
	}
	if q.stmt.Where != nil {
		if q.where, err = c.conjuncts(q.stmt.Where); err != nil {
			return err
		}
	}
	top, err := c.topLimit(q.stmt.Top)
	if err != nil {
		return err
	}
	if top != nil {
		if q.limit != nil {
			return sqlerr.New(10741, 15, 2, "A TOP can not be used in the same query or sub-query as a OFFSET.")
		}
		q.limit = top
	}
	return nil
}

// project compiles the select list.
func (q *selection) project() error {
	c := q.c
	q.win = &windows{}
	c.win = q.win
	assigns := 0
	for _, it := range q.stmt.Items {
		switch {
		case it.Star:
			if err := q.star(it.Qualifier); err != nil {
				return err
			}
			continue
		case it.Assign != "":
			assigns++
		}
		x, err := q.item(&it)
		if err != nil {
			return err
		}
		q.items = append(q.items, x)
		name := it.Alias
		if ref, ok := it.X.(*ast.ColumnRef); ok && name == "" && it.Assign == "" {
			name = ref.Column()
		}
		q.cols = append(q.cols, resultColumn(name, x))
	}
	if assigns > 0 && assigns != len(q.items) {
		return sqlerr.Make(141)
	}
	return nil
}

func resultColumn(name string, x *expr) sqltype.Column {
	return sqltype.Column{Name: name, Type: outputType(x.typ), Nullable: x.nullable, Identity: x.identity && x.column >= 0, Computed: x.computed}
}

// item compiles one item; an assignment is converted to its variable.
func (q *selection) item(it *ast.SelectItem) (*expr, error) {
	c := q.c
	if it.Assign == "" {
		return c.expr(it.X)
	}
	v, err := c.run.lookup(it.Assign)
	if err != nil {
		return nil, err
	}
	q.assign = append(q.assign, it.Assign)
	e := it.X
	if it.AssignOp != "=" {
		e = &ast.Binary{Op: it.AssignOp[:1], L: &ast.Variable{Name: it.Assign}, R: e}
	}
	x, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return c.convertTo(x, v.typ, false)
}

// star expands * and a.*.
func (q *selection) star(qualifier []string) error {
	c := q.c
	if len(c.scope.sources) == 0 {
		return sqlerr.New(263, 16, 1, "Must specify table to select from.")
	}
	found := false
	for _, src := range c.scope.sources {
		if !src.matches(qualifier) {
			continue
		}
		found = true
		for i, col := range src.cols {
			var x *expr
			var err error
			if g := c.scope.group; g != nil {
				x, err = g.column(c, src, i, &ast.ColumnRef{Parts: []string{src.exposed(), col.Name}})
			} else {
				x, err = c.sourceColumn(src, i)
			}
			if err != nil {
				return err
			}
			q.items = append(q.items, x)
			q.cols = append(q.cols, resultColumn(col.Name, x))
		}
	}
	if !found {
		return sqlerr.Make(107, strings.Join(qualifier, "."))
	}
	return nil
}

// orderBy compiles the keys of ORDER BY: positions, names of the output, or expressions.
func (q *selection) orderBy(list []ast.OrderBy) error {
	q.clause(8127)
	for _, o := range list {
		k := sortKey{output: -1, desc: o.Desc}
		if n, ok, err := position(o.X, len(q.items)); err != nil {
			return err
		} else if ok {
			k.output = n
		} else if n, err := q.outputName(o.X); err != nil {
			return err
		} else if n >= 0 {
			k.output = n
		}
		if k.output < 0 {
			x, err := q.c.expr(o.X)
			if err != nil {
				return err
			}
			k.x = x
			k.output = q.sameItem(o.X, x)
		}
		if k.output >= 0 {
			k.x = q.items[k.output]
		} else if q.stmt.Distinct {
			return sqlerr.Make(145)
		}
		if err := sortable(k.x.typ); err != nil {
			return err
		}
		k.coll = k.x.coll
		q.order = append(q.order, k)
	}
	return nil
}

func sortable(t sqltype.Type) error {
	switch t.Kind {
	case sqltype.KindText, sqltype.KindNText, sqltype.KindImage:
		return sqlerr.Make(306)
	case sqltype.KindXML:
		return sqlerr.New(305, 16, 1, "The xml data type cannot be compared or sorted, except when using the IS NULL operator.")
	}
	return nil
}

// position reads ORDER BY n.
func position(e ast.Expr, n int) (int, bool, error) {
	l, ok := e.(*ast.Literal)
	if !ok || l.Kind != ast.LitInteger {
		return 0, false, nil
	}
	x, err := integerLiteral(l.Text)
	if err != nil {
		return 0, false, err
	}
	i := x.val.Int64()
	if i < 1 || i > int64(n) {
		return 0, false, sqlerr.Make(108, i)
	}
	return int(i) - 1, true, nil
}

// outputName finds a bare name among the names of the output; -1 when it is none.
func (q *selection) outputName(e ast.Expr) (int, error) {
	ref, ok := e.(*ast.ColumnRef)
	if !ok || len(ref.Parts) != 1 {
		return -1, nil
	}
	found := -1
	for i, col := range q.cols {
		if !strings.EqualFold(col.Name, ref.Column()) {
			continue
		}
		if found >= 0 && !sameColumn(q.items[found], q.items[i]) {
			return -1, sqlerr.Make(209, ref.Column())
		}
		if found < 0 {
			found = i
		}
	}
	return found, nil
}

func sameColumn(a, b *expr) bool {
	return a.column >= 0 && a.column == b.column && a.slot == b.slot
}

// sameItem finds an item that is the same expression; -1 when there is none.
func (q *selection) sameItem(e ast.Expr, x *expr) int {
	for i, it := range q.items {
		if sameColumn(it, x) {
			return i
		}
	}
	if len(q.items) != len(q.stmt.Items) {
		return -1
	}
	text := q.c.canonical(e)
	for i, it := range q.stmt.Items {
		if it.X != nil && q.c.canonical(it.X) == text {
			return i
		}
	}
	return -1
}

// canonical writes an expression so that two that mean the same column read
// the same.
func (c *compiler) canonical(e ast.Expr) string {
	return ast.PrintExpr(e, func(ref *ast.ColumnRef) (string, bool) {
		if c.scope == nil {
			return "", false
		}
		src, ordinal, _, err := c.scope.resolve(ref)
		if err != nil {
			return "", false
		}
		return "#" + string(rune('0'+src.slot)) + "." + string(rune('0'+ordinal)), true
	})
}

// clause sets the message for columns that are not grouped.
func (q *selection) clause(number int32) {
	if q.group != nil {
		q.group.clause = number
	}
}

func (q *selection) havingClause() error {
	var err error
	if q.stmt.Having != nil {
		q.clause(8121)
		q.c.win = nil
		q.having, err = q.c.cond(q.stmt.Having)
	}
	if q.group != nil {
		q.c.scope.group, q.c.group = nil, nil
	}
	q.c.win = nil
	return err
}

// simplify computes the conditions that do not depend on a row: a true one goes,
// one that is not true rules every row out.
func (c *compiler) simplify(conds []*cond) (rest []*cond, never bool) {
	f := c.newFrame()
	for _, cd := range conds {
		if cd.lvl <= levelRun {
			t, err := cd.eval(f)
			switch {
			case err != nil:
			case t == isTrue:
				continue
			default:
				return nil, true
			}
		}
		if len(cd.or) > 0 {
			var drop bool
			if cd, drop, never = c.simplifyOr(f, cd); drop || never {
				if never {
					return nil, true
				}
				continue
			}
		}
		if len(cd.and) > 0 {
			more, none := c.simplify(cd.and)
			if none {
				return nil, true
			}
			rest = append(rest, more...)
			continue
		}
		rest = append(rest, cd)
	}
	return rest, false
}

// simplifyOr leaves out the branches that cannot be true; drop is set when one always is.
func (c *compiler) simplifyOr(f *frame, cd *cond) (r *cond, drop, never bool) {
	var branches []*cond
	for _, b := range cd.or {
		if b.lvl <= levelRun {
			t, err := b.eval(f)
			if err == nil && t == isTrue {
				return nil, true, false
			}
			if err == nil {
				continue
			}
		}
		branches = append(branches, b)
	}
	switch len(branches) {
	case 0:
		return nil, false, true
	case 1:
		return branches[0], false, false
	case len(cd.or):
		return cd, false, false
	}
	return combine("OR", branches), false, false
}
