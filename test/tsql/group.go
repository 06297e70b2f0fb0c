package tsql

import (
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// grouping is the GROUP BY of a query, or its aggregates without one. The row of a group
// (keys, then aggregates) has a slot of its own.
type grouping struct {
	scope  *scope
	slot   int
	keys   []*expr
	texts  []string // canonical texts of the keys
	aggs   []*aggregate
	clause int32 // message for a column that is not grouped: 8120, 8121 or 8127
}

// grouping sets the grouping up when the query has one.
func (q *selection) grouping() error {
	c, s := q.c, q.stmt
	grouped := len(s.GroupBy) > 0 || s.Having != nil
	for _, it := range s.Items {
		grouped = grouped || it.X != nil && hasAggregate(it.X)
	}
	if !grouped {
		return nil
	}
	g := &grouping{scope: c.scope, slot: c.newSlot(), clause: 8120}
	for _, e := range s.GroupBy {
		if hasAggregate(e) {
			return sqlerr.Make(144)
		}
		x, err := c.expr(e)
		if err != nil {
			return err
		}
		if err := sortable(x.typ); err != nil {
			return err
		}
		g.keys = append(g.keys, x)
		g.texts = append(g.texts, c.canonical(e))
	}
	q.group, c.group, c.scope.group = g, g, g
	return nil
}

// hasAggregate looks for an aggregate outside of subqueries and windows.
func hasAggregate(e ast.Expr) bool {
	found := false
	walkExpr(e, func(x ast.Expr) bool {
		if call, ok := x.(*ast.Call); ok && call.Over == nil && call.Name.Schema == "" && isAggregate(strings.ToUpper(call.Name.Name)) {
			found = true
		}
		return !found
	})
	return found
}

// walkExpr visits an expression and its operands, but not subqueries; visit
// returns false to stop going down.
func walkExpr(e ast.Expr, visit func(ast.Expr) bool) {
	if e == nil || !visit(e) {
		return
	}
	down := func(list ...ast.Expr) {
		for _, x := range list {
			walkExpr(x, visit)
		}
	}
	switch x := e.(type) {
	case *ast.Unary:
		down(x.X)
	case *ast.Binary:
		down(x.L, x.R)
	case *ast.IsNull:
		down(x.X)
	case *ast.Between:
		down(x.X, x.Lo, x.Hi)
	case *ast.In:
		down(x.X)
		down(x.List...)
	case *ast.Like:
		down(x.X, x.Pattern)
	case *ast.Quantified:
		down(x.X)
	case *ast.Case:
		down(x.Operand, x.Else)
		for _, w := range x.Whens {
			down(w.Cond, w.Then)
		}
	case *ast.Cast:
		down(x.X)
	case *ast.Convert:
		down(x.X, x.Style)
	case *ast.ParseText:
		down(x.X)
	case *ast.Collate:
		down(x.X)
	case *ast.AtTimeZone:
		down(x.X, x.Zone)
	case *ast.Call:
		down(x.Args...)
		if x.Over != nil {
			down(x.Over.Partition...)
			for _, o := range x.Over.Order {
				down(o.X)
			}
		}
	}
}

// lookup takes the expressions that belong to the group: aggregates and keys.
func (g *grouping) lookup(c *compiler, e ast.Expr) (*expr, bool, error) {
	if call, ok := e.(*ast.Call); ok && call.Over == nil && call.Name.Schema == "" {
		if name := strings.ToUpper(call.Name.Name); isAggregate(name) {
			x, err := g.aggregateCall(c, name, call)
			return x, true, err
		}
	}
	switch e.(type) {
	case *ast.Literal, *ast.Variable, *ast.ColumnRef:
		return nil, false, nil
	}
	text := ""
	for i, k := range g.keys {
		if k.column >= 0 || k.isConst() {
			continue
		}
		if text == "" {
			text = c.canonical(e)
		}
		if g.texts[i] == text {
			return g.key(i), true, nil
		}
	}
	return nil, false, nil
}

// key reads a key from the row of the group.
func (g *grouping) key(i int) *expr {
	k := g.keys[i]
	slot := g.slot
	x := &expr{typ: k.typ, lvl: levelRow, slot: slot, column: i, nullable: k.nullable, coll: k.coll, rank: k.rank,
		eval: func(f *frame) (sqltype.Value, error) { return f.rows[slot][i], nil }}
	x.deps.add(slot)
	return x
}

// column resolves a column of a grouped source: it must be a key.
func (g *grouping) column(c *compiler, src *source, ordinal int, ref *ast.ColumnRef) (*expr, error) {
	for i, k := range g.keys {
		if k.column == ordinal && k.slot == src.slot {
			return g.key(i), nil
		}
	}
	text := c.canonical(ref)
	for i := range g.keys {
		if g.texts[i] == text {
			return g.key(i), nil
		}
	}
	name := src.exposed()
	if name != "" {
		name += "."
	}
	return nil, sqlerr.Make(g.clause, name+src.cols[ordinal].Name)
}

// aggregateCall compiles an aggregate and gives its place in the row of the group.
func (g *grouping) aggregateCall(c *compiler, name string, x *ast.Call) (*expr, error) {
	for _, e := range x.Args {
		if hasAggregate(e) {
			return nil, sqlerr.Make(130)
		}
	}
	saved, win := c.group, c.win
	c.group, g.scope.group, c.win = nil, nil, nil
	a, err := c.aggregate(name, x)
	c.group, g.scope.group, c.win = saved, g, win
	if err != nil {
		return nil, err
	}
	g.aggs = append(g.aggs, a)
	slot, i := g.slot, len(g.keys)+len(g.aggs)-1
	r := &expr{typ: a.typ, lvl: levelRow, slot: slot, column: i, nullable: true,
		eval: func(f *frame) (sqltype.Value, error) { return f.rows[slot][i], nil }}
	if a.arg != nil {
		r.coll, r.rank = a.arg.coll, a.arg.rank
		r.deps.addAll(a.arg.deps)
	}
	r.deps.add(slot)
	return r, nil
}

func (g *grouping) deps() slotSet {
	var s slotSet
	for _, k := range g.keys {
		s.addAll(k.deps)
	}
	for _, a := range g.aggs {
		if a.arg != nil {
			s.addAll(a.arg.deps)
		}
	}
	return s
}

// operator makes the operator that groups the rows of in.
func (g *grouping) operator(in rowOp, ord *ordering) rowOp {
	o := &groupOp{g: g, in: in}
	if len(g.keys) == 0 {
		o.first = g.firstOnly(ord)
	}
	return o
}

// firstOnly tells whether MIN or MAX of the column that leads the order is all that
// is wanted, so that the first row is enough. MAX turns the scan round.
func (g *grouping) firstOnly(ord *ordering) bool {
	if ord == nil || len(g.aggs) != 1 || g.aggs[0].arg == nil || g.aggs[0].arg.column < 0 {
		return false
	}
	a := g.aggs[0]
	if a.name != "MIN" && a.name != "MAX" || a.arg.rank == explicit {
		return false
	}
	want := orderKey{a.arg.slot, a.arg.column}
	lead := slices.IndexFunc(ord.keys, func(k orderKey) bool { return !ord.fixed[k] })
	if lead < 0 || ord.keys[lead] != want {
		return false
	}
	if a.name == "MIN" {
		return true
	}
	if ord.scan == nil || ord.scan.table == nil {
		return false
	}
	if _, ok := ord.scan.table.(ReverseScanner); !ok {
		return false
	}
	ord.scan.reverse = true
	return true
}

// groupOp yields one combination per group.
type groupOp struct {
	g     *grouping
	in    rowOp
	first bool
}

func (o *groupOp) run(f *frame, yield func() error) error {
	if len(o.g.keys) == 0 {
		return o.runScalar(f, yield)
	}
	index := make(map[string]int)
	var states []*groupState
	var buf []byte
	keys := make(sqltype.Row, len(o.g.keys))
	err := o.in.run(f, func() error {
		buf = buf[:0]
		for i, k := range o.g.keys {
			v, err := k.eval(f)
			if err != nil {
				return err
			}
			keys[i] = v
			buf = appendKey(buf, v, k.coll)
		}
		at, ok := index[string(buf)]
		if !ok {
			at = len(states)
			index[string(buf)] = at
			states = append(states, &groupState{keys: append(sqltype.Row(nil), keys...), accs: make([]accumulator, len(o.g.aggs))})
		}
		return o.g.add(f, states[at].accs)
	})
	if err != nil {
		return err
	}
	for _, s := range states {
		if err := o.give(f, s, yield); err != nil {
			return err
		}
	}
	return nil
}

func (o *groupOp) runScalar(f *frame, yield func() error) error {
	s := &groupState{accs: make([]accumulator, len(o.g.aggs))}
	stop := &stopSignal{}
	err := o.in.run(f, func() error {
		if err := o.g.add(f, s.accs); err != nil {
			return err
		}
		if o.first && s.accs[0].n > 0 {
			return stop
		}
		return nil
	})
	if err != nil && err != error(stop) {
		return err
	}
	return o.give(f, s, yield)
}

// groupState is one group while its rows come in.
type groupState struct {
	keys sqltype.Row
	accs []accumulator
}

func (g *grouping) add(f *frame, accs []accumulator) error {
	for i, a := range g.aggs {
		if err := a.add(f, &accs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *groupOp) give(f *frame, s *groupState, yield func() error) error {
	row := append(s.keys, make(sqltype.Row, len(o.g.aggs))...)
	for i, a := range o.g.aggs {
		v, err := a.result(&s.accs[i])
		if err != nil {
			return err
		}
		row[len(s.keys)+i] = v
	}
	f.rows[o.g.slot] = row
	return yield()
}
