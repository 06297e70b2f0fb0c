package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// fromNode is an item of a FROM clause with its sources resolved, before it is planned.
type fromNode interface{ slots() slotSet }

// leafNode is a single source.
type leafNode struct {
	src   *source
	table Table     // of a table; nil otherwise
	op    rowOp     // of anything else
	deps  slotSet   // slots that op reads: outer rows, and those on the left of an APPLY
	tf    *tableFn  // of a table-valued function
	only  *onlyScan // replaces the table by one row: the target of UPDATE and DELETE
}

// tableFn is a table-valued function with its compiled arguments.
type tableFn struct {
	fn   *TableFunction
	args []*expr
}

// joinNode joins two nodes.
type joinNode struct {
	kind ast.JoinKind
	l, r fromNode
	on   []*cond
}

func (n *leafNode) slots() slotSet {
	var s slotSet
	s.add(n.src.slot)
	return s
}

func (n *joinNode) slots() slotSet {
	s := n.l.slots()
	s.addAll(n.r.slots())
	return s
}

// fromList resolves a FROM clause; a comma is a cross join. The sources are added
// to the compiler's scope in order.
func (c *compiler) fromList(list []ast.TableSource) (fromNode, error) {
	var node fromNode
	for _, ts := range list {
		n, err := c.from(ts, false)
		if err != nil {
			return nil, err
		}
		if node == nil {
			node = n
		} else {
			node = &joinNode{kind: ast.CrossJoin, l: node, r: n}
		}
	}
	return node, nil
}

// from resolves one table source. lateral is set on the right of APPLY, where the
// sources so far are visible.
func (c *compiler) from(ts ast.TableSource, lateral bool) (fromNode, error) {
	switch x := ts.(type) {
	case *ast.TableRef:
		return c.tableRef(x)
	case *ast.VariableRef:
		return c.variableRef(x)
	case *ast.FunctionRef:
		return c.functionRef(x, lateral)
	case *ast.Derived:
		return c.derived(x, lateral)
	case *ast.Values:
		return c.valuesTable(x, lateral)
	case *ast.Join:
		return c.join(x, lateral)
	}
	return nil, sqlerr.Syntax("FROM")
}

func (c *compiler) join(x *ast.Join, lateral bool) (fromNode, error) {
	l, err := c.from(x.L, lateral)
	if err != nil {
		return nil, err
	}
	apply := x.Kind == ast.CrossApply || x.Kind == ast.OuterApply
	mark := len(c.scope.sources)
	r, err := c.from(x.R, lateral || apply)
	if err != nil {
		return nil, err
	}
	n := &joinNode{kind: x.Kind, l: l, r: r}
	if x.On != nil {
		if n.on, err = c.conjuncts(x.On); err != nil {
			return nil, err
		}
	}
	right := c.scope.sources[mark:]
	switch x.Kind {
	case ast.LeftJoin, ast.OuterApply:
		markOuter(right)
	case ast.RightJoin:
		markOuter(c.scope.sources[:mark])
	case ast.FullJoin:
		markOuter(c.scope.sources)
	}
	return n, nil
}

func markOuter(list []*source) {
	for _, s := range list {
		s.outer = true
	}
}

// conjuncts compiles a condition as a list of parts that must all hold.
func (c *compiler) conjuncts(e ast.Expr) ([]*cond, error) {
	var list []*cond
	for _, part := range flatten("AND", e, nil) {
		cd, err := c.cond(part)
		if err != nil {
			return nil, err
		}
		if len(cd.and) > 0 { // BETWEEN
			list = append(list, cd.and...)
		} else {
			list = append(list, cd)
		}
	}
	return list, nil
}

func (c *compiler) addSource(alias string, name ObjectName, cols []sqltype.Column) (*source, error) {
	s := newSource(alias, name, cols, c.newSlot())
	return s, c.scope.add(s)
}

func (c *compiler) tableRef(x *ast.TableRef) (fromNode, error) {
	if x.Name.Schema == "" && x.Name.Database == "" {
		if ct := c.findCTE(x.Name.Name); ct != nil {
			return c.cteRef(ct, x)
		}
	}
	t, err := c.table(x, AccessSelect)
	if err != nil {
		return nil, err
	}
	if c.reads != nil {
		*c.reads = append(*c.reads, t.Name())
	}
	return c.tableLeaf(t, x.Alias, t.Name(), x.Name)
}

// table finds a table of the host, or a temporary one.
func (c *compiler) table(x *ast.TableRef, access Access) (Table, error) {
	if t := c.run.s.tempTable(x.Name); t != nil {
		return t, nil
	}
	return c.run.host.Table(c.ctx, TableRequest{Name: x.Name, Hints: x.Hints, Access: access})
}

// tableLeaf makes a source of a table; written is its name as the statement has it.
func (c *compiler) tableLeaf(t Table, alias string, name, written ObjectName) (*leafNode, error) {
	src := newSource(alias, name, t.Columns(), c.newSlot())
	src.written = written
	src.def, _ = t.(Definition)
	if err := c.scope.add(src); err != nil {
		return nil, err
	}
	return &leafNode{src: src, table: t}, nil
}

func (c *compiler) variableRef(x *ast.VariableRef) (fromNode, error) {
	v := c.run.vars[sqltype.DefaultKey(x.Name)]
	if v == nil || v.table == nil {
		return nil, sqlerr.Make(1087, x.Name)
	}
	if c.reads != nil {
		*c.reads = append(*c.reads, v.table.name)
	}
	alias := x.Alias
	if alias == "" {
		alias = x.Name
	}
	return c.tableLeaf(v.table, alias, ObjectName{}, ObjectName{})
}

// lateralScope is the scope that a source inside FROM sees: the outer query, and
// on the right of APPLY what stands on its left.
func (c *compiler) lateralScope(lateral bool) *scope {
	if lateral {
		return &scope{parent: c.scope.parent, sources: append([]*source(nil), c.scope.sources...)}
	}
	return c.scope.parent
}

func (c *compiler) functionRef(x *ast.FunctionRef, lateral bool) (fromNode, error) {
	fn, err := c.run.host.TableFunction(c.ctx, x.Name)
	if err != nil {
		return nil, err
	}
	saved := c.scope
	c.scope = c.lateralScope(lateral)
	args, err := c.functionArgs(fn, x)
	c.scope = saved
	if err != nil {
		return nil, err
	}
	cols, err := renamed(fn.Columns, x.Columns, x.Alias)
	if err != nil {
		return nil, err
	}
	src, err := c.addSource(x.Alias, fn.Name, cols)
	if err != nil {
		return nil, err
	}
	n := &leafNode{src: src, tf: &tableFn{fn: fn, args: args}}
	for _, a := range args {
		n.deps.addAll(a.deps)
	}
	return n, nil
}

func (c *compiler) functionArgs(fn *TableFunction, x *ast.FunctionRef) ([]*expr, error) {
	if len(x.Args) > len(fn.Params) {
		return nil, sqlerr.MakeState(8144, 3, fn.Name.String())
	}
	args := make([]*expr, len(fn.Params))
	for i, p := range fn.Params {
		if i >= len(x.Args) {
			return nil, sqlerr.Make(313, fn.Name.String())
		}
		if l, ok := x.Args[i].(*ast.Literal); ok && l.Kind == ast.LitDefault {
			if p.Default == nil {
				return nil, sqlerr.Make(313, fn.Name.String())
			}
			args[i] = constant(*p.Default, p.Type)
			continue
		}
		a, err := c.expr(x.Args[i])
		if err != nil {
			return nil, err
		}
		if args[i], err = c.convertTo(a, p.Type, false); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// renamed gives columns the names of an alias list.
func renamed(cols []sqltype.Column, names []string, alias string) ([]sqltype.Column, error) {
	if len(names) == 0 {
		return cols, nil
	}
	switch {
	case len(names) < len(cols):
		return nil, sqlerr.Make(8158, alias)
	case len(names) > len(cols):
		return nil, sqlerr.Make(8159, alias)
	}
	out := append([]sqltype.Column(nil), cols...)
	for i := range out {
		out[i].Name = names[i]
	}
	return out, nil
}

// named checks that every column of a derived table has a name of its own.
func named(cols []sqltype.Column, alias string) error {
	seen := make(map[string]bool, len(cols))
	for i, c := range cols {
		if c.Name == "" {
			return sqlerr.Make(8155, i+1, alias)
		}
		key := sqltype.DefaultKey(c.Name)
		if seen[key] {
			return sqlerr.Make(8156, c.Name, alias)
		}
		seen[key] = true
	}
	return nil
}

func (c *compiler) derived(x *ast.Derived, lateral bool) (fromNode, error) {
	if len(x.Query.OrderBy) > 0 && x.Query.Offset == nil && !hasTop(x.Query.Body) {
		return nil, sqlerr.Make(1033)
	}
	plan, err := c.subquery(x.Query, c.lateralScope(lateral))
	if err != nil {
		return nil, err
	}
	return c.planLeaf(plan, x.Alias, x.Columns)
}

// planLeaf makes a source of a compiled query.
func (c *compiler) planLeaf(plan *queryPlan, alias string, names []string) (fromNode, error) {
	cols, err := renamed(plan.cols, names, alias)
	if err != nil {
		return nil, err
	}
	if err := named(cols, alias); err != nil {
		return nil, err
	}
	src, err := c.addSource(alias, ObjectName{}, cols)
	if err != nil {
		return nil, err
	}
	return &leafNode{src: src, op: &queryOp{slot: src.slot, plan: plan}, deps: plan.deps}, nil
}

func hasTop(b ast.QueryBody) bool {
	s, ok := b.(*ast.Select)
	return ok && s.Top != nil
}

// queryOp yields the rows of a query.
type queryOp struct {
	slot int
	plan *queryPlan
}

func (o *queryOp) run(f *frame, yield func() error) error {
	return o.plan.run(f, func(row sqltype.Row) error {
		f.rows[o.slot] = row
		return yield()
	})
}

// valuesTable resolves (VALUES …) alias(columns).
func (c *compiler) valuesTable(x *ast.Values, lateral bool) (fromNode, error) {
	saved := c.scope
	c.scope = c.lateralScope(lateral)
	plan, err := c.valuesPlan(x.Rows)
	c.scope = saved
	if err != nil {
		return nil, err
	}
	names := x.Columns
	return c.planLeaf(plan, x.Alias, names)
}

// valuesPlan brings the columns of rows to common types.
func (c *compiler) valuesPlan(rows [][]ast.Expr) (*queryPlan, error) {
	width := len(rows[0])
	cells := make([][]*expr, len(rows))
	plan := &queryPlan{cols: make([]sqltype.Column, width)}
	for i, r := range rows {
		if len(r) != width {
			return nil, sqlerr.Make(10709)
		}
		var err error
		if cells[i], err = c.exprs(r); err != nil {
			return nil, err
		}
	}
	for j := range width {
		col := make([]*expr, len(rows))
		for i := range rows {
			col[i] = cells[i][j]
		}
		col, t, err := c.unify(col)
		if err != nil {
			return nil, err
		}
		plan.cols[j] = sqltype.Column{Type: outputType(t)}
		for i := range rows {
			cells[i][j] = col[i]
			plan.cols[j].Nullable = plan.cols[j].Nullable || col[i].nullable
			plan.deps.addAll(col[i].deps)
		}
	}
	out := make(sqltype.Row, width)
	plan.run = func(f *frame, emit func(sqltype.Row) error) error {
		for _, row := range cells {
			for j, x := range row {
				v, err := x.eval(f)
				if err != nil {
					return err
				}
				out[j] = v
			}
			if err := emit(out); err != nil {
				return err
			}
		}
		return nil
	}
	return plan, nil
}

// outputType is the type that a column of a result shows: a bare NULL is an int.
func outputType(t sqltype.Type) sqltype.Type {
	if t.Kind == sqltype.KindNull {
		return sqltype.Type{Kind: sqltype.KindInt}
	}
	return t
}
