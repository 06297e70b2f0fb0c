package tsql

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// setQuery compiles a set operation with its ORDER BY, whose keys are columns of
// the result.
func (c *compiler) setQuery(b ast.QueryBody, orderBy []ast.OrderBy, lim *limit) (*queryPlan, error) {
	plan, err := c.body(b)
	if err != nil {
		return nil, err
	}
	if len(orderBy) == 0 {
		plan.run = limited(lim, plan.run)
		return plan, nil
	}
	keys := make([]sortKey, len(orderBy))
	for i, o := range orderBy {
		n, ok, err := position(o.X, len(plan.cols))
		if err != nil {
			return nil, err
		}
		if !ok {
			if n, err = setColumn(o.X, plan.cols); err != nil {
				return nil, err
			}
		}
		if err := sortable(plan.cols[n].Type); err != nil {
			return nil, err
		}
		keys[i] = sortKey{output: n, desc: o.Desc, coll: plan.collation(n)}
	}
	plan.run = limited(lim, sorted(keys, len(plan.cols), lim, plan.run))
	return plan, nil
}

// setColumn finds the column of a set operation that ORDER BY names.
func setColumn(e ast.Expr, cols []sqltype.Column) (int, error) {
	ref, ok := e.(*ast.ColumnRef)
	if !ok || len(ref.Parts) != 1 {
		return 0, sqlerr.New(104, 16, 1, "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or EXCEPT operator.")
	}
	for i, col := range cols {
		if strings.EqualFold(col.Name, ref.Column()) {
			return i, nil
		}
	}
	return 0, sqlerr.InvalidColumn(ref.Column())
}

// body compiles an operand of a set operation.
func (c *compiler) body(b ast.QueryBody) (*queryPlan, error) {
	switch x := b.(type) {
	case *ast.SetOp:
		return c.setOp(x)
	case *ast.Nested:
		return c.operand(x.Query)
	case *ast.Select:
		return c.operand(&ast.Query{Pos: x.Pos, Body: x})
	}
	return nil, sqlerr.Syntax("UNION")
}

// operand compiles a query that shares the outer scope but has sources of its own.
func (c *compiler) operand(q *ast.Query) (*queryPlan, error) {
	inner := *c
	inner.scope = &scope{parent: c.scope.parent}
	inner.group, inner.win = nil, nil
	plan, err := inner.query(q)
	c.slots, c.noFold = inner.slots, inner.noFold
	return plan, err
}

func (c *compiler) setOp(x *ast.SetOp) (*queryPlan, error) {
	if x.Op == "UNION ALL" {
		return c.unionAll(x)
	}
	l, err := c.body(x.L)
	if err != nil {
		return nil, err
	}
	r, err := c.body(x.R)
	if err != nil {
		return nil, err
	}
	plan, parts, err := c.unifyPlans([]*queryPlan{l, r})
	if err != nil {
		return nil, err
	}
	plan.run = setRun(x.Op, plan, parts)
	return plan, nil
}

// unionAll compiles a chain of UNION ALL at once; its rows stream.
func (c *compiler) unionAll(x *ast.SetOp) (*queryPlan, error) {
	var bodies []ast.QueryBody
	var b ast.QueryBody = x
	for {
		s, ok := b.(*ast.SetOp)
		if !ok || s.Op != "UNION ALL" {
			bodies = append(bodies, b)
			break
		}
		bodies = append(bodies, s.R)
		b = s.L
	}
	plans := make([]*queryPlan, len(bodies))
	for i := range bodies {
		p, err := c.body(bodies[len(bodies)-1-i])
		if err != nil {
			return nil, err
		}
		plans[i] = p
	}
	plan, parts, err := c.unifyPlans(plans)
	if err != nil {
		return nil, err
	}
	plan.run = func(f *frame, emit func(sqltype.Row) error) error {
		for _, p := range parts {
			if err := p(f, emit); err != nil {
				return err
			}
		}
		return nil
	}
	return plan, nil
}

type runFn = func(f *frame, emit func(sqltype.Row) error) error

// unifyPlans gives the common columns of some queries, and their rows converted
// to them.
func (c *compiler) unifyPlans(plans []*queryPlan) (*queryPlan, []runFn, error) {
	first := plans[0]
	out := &queryPlan{cols: append([]sqltype.Column(nil), first.cols...)}
	for _, p := range plans {
		if len(p.cols) != len(first.cols) {
			return nil, nil, sqlerr.Make(205)
		}
		out.deps.addAll(p.deps)
		out.volatile = out.volatile || p.volatile
	}
	for i := range out.cols {
		t := first.cols[i].Type
		out.cols[i].Identity, out.cols[i].Computed = false, false
		coll := first.collation(i)
		for _, p := range plans[1:] {
			if sqltype.Castable(p.cols[i].Type.Kind, sqltype.Common(t, p.cols[i].Type).Kind) == sqltype.CastNever {
				return nil, nil, sqlerr.Make(206, p.cols[i].Type.Kind.String(), t.Kind.String())
			}
			t = sqltype.Common(t, p.cols[i].Type)
			out.cols[i].Nullable = out.cols[i].Nullable || p.cols[i].Nullable
			if coll == nil {
				coll = p.collation(i)
			}
		}
		out.cols[i].Type = t
		out.coll = append(out.coll, coll)
	}
	parts := make([]runFn, len(plans))
	for i, p := range plans {
		parts[i] = convertRows(p, out.cols)
	}
	return out, parts, nil
}

func convertRows(p *queryPlan, cols []sqltype.Column) runFn {
	var conv []int
	for i := range cols {
		if !sameStorage(p.cols[i].Type, cols[i].Type) {
			conv = append(conv, i)
		}
	}
	if len(conv) == 0 {
		return p.run
	}
	return func(f *frame, emit func(sqltype.Row) error) error {
		out := make(sqltype.Row, len(cols))
		return p.run(f, func(row sqltype.Row) error {
			copy(out, row)
			for _, i := range conv {
				v, err := sqltype.Convert(row[i], cols[i].Type, sqltype.DefaultStyle)
				if err != nil {
					return err
				}
				out[i] = v
			}
			return emit(out)
		})
	}
}

// setRun computes UNION, EXCEPT and INTERSECT: without duplicates.
func setRun(op string, plan *queryPlan, parts []runFn) runFn {
	return func(f *frame, emit func(sqltype.Row) error) error {
		var buf []byte
		key := func(row sqltype.Row) string {
			buf = buf[:0]
			for i, v := range row {
				buf = appendKey(buf, v, plan.collation(i))
			}
			return string(buf)
		}
		seen := make(map[string]struct{})
		once := func(row sqltype.Row) error {
			k := key(row)
			if _, dup := seen[k]; dup {
				return nil
			}
			seen[k] = struct{}{}
			return emit(row)
		}
		if op == "UNION" {
			for _, p := range parts {
				if err := p(f, once); err != nil {
					return err
				}
			}
			return nil
		}
		right := make(map[string]struct{})
		if err := parts[1](f, func(row sqltype.Row) error {
			right[key(row)] = struct{}{}
			return nil
		}); err != nil {
			return err
		}
		return parts[0](f, func(row sqltype.Row) error {
			if _, in := right[key(row)]; in != (op == "INTERSECT") {
				return nil
			}
			return once(row)
		})
	}
}
