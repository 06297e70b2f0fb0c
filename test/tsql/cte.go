package tsql

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// The rounds of a recursive common table expression, and the most that MAXRECURSION may ask for.
const (
	defaultRecursion = 100
	maxRecursion     = 32_767
)

// options takes from OPTION (…) what changes a result, which is MAXRECURSION n: n rounds, or no
// end with 0 (documentation page "Query hints").
func (c *compiler) options(list []string) error {
	for _, o := range list {
		name, value, _ := strings.Cut(o, " ")
		if !strings.EqualFold(name, "MAXRECURSION") {
			continue
		}
		n, err := strconv.Atoi(value)
		switch {
		case err != nil || n < 0:
			return sqlerr.Syntax(value)
		case n > maxRecursion:
			return sqlerr.Make(310, n, maxRecursion)
		case n == 0:
			n = -1
		}
		c.rounds = n
	}
	return nil
}

// cte is a common table expression in view. Each reference compiles it anew, as SQL
// Server expands it.
type cte struct {
	def     *ast.CTE
	outer   []*cte
	working *workingTable // set while the recursive part is compiled
}

// workingTable is what a recursive part reads: the rows of the round before.
type workingTable struct {
	cols []sqltype.Column
	rows []sqltype.Row
}

func (c *compiler) addCTEs(list []ast.CTE) error {
	for i := range list {
		for j := range i {
			if strings.EqualFold(list[i].Name, list[j].Name) {
				return sqlerr.New(239, 16, 1, "Duplicate common table expression name '%s' was specified.", list[i].Name)
			}
		}
		c.ctes = append(c.ctes[:len(c.ctes):len(c.ctes)], &cte{def: &list[i], outer: c.ctes})
	}
	return nil
}

func (c *compiler) findCTE(name string) *cte {
	for i := len(c.ctes) - 1; i >= 0; i-- {
		if strings.EqualFold(c.ctes[i].def.Name, name) {
			return c.ctes[i]
		}
	}
	return nil
}

// cteRef makes a source of a reference to a common table expression.
func (c *compiler) cteRef(ct *cte, x *ast.TableRef) (fromNode, error) {
	alias := x.Alias
	if alias == "" {
		alias = x.Name.Name
	}
	if w := ct.working; w != nil {
		src, err := c.addSource(alias, ObjectName{}, w.cols)
		if err != nil {
			return nil, err
		}
		return &leafNode{src: src, op: &workingOp{slot: src.slot, w: w}}, nil
	}
	inner := *c
	inner.ctes = ct.outer
	inner.scope, inner.group, inner.win = &scope{}, nil, nil
	if inner.depth++; inner.depth > 100 {
		return nil, sqlerr.Make(191)
	}
	plan, err := inner.ctePlan(ct)
	c.slots = inner.slots
	if err != nil {
		return nil, err
	}
	return c.planLeaf(plan, alias, nil)
}

func (c *compiler) ctePlan(ct *cte) (*queryPlan, error) {
	var plan *queryPlan
	var err error
	if set, ok := ct.def.Query.Body.(*ast.SetOp); ok && set.Op == "UNION ALL" && refersTo(set.R, ct.def.Name) {
		plan, err = c.recursive(ct, set)
	} else {
		plan, err = c.query(ct.def.Query)
	}
	if err != nil {
		return nil, err
	}
	cols, err := renamed(plan.cols, ct.def.Columns, ct.def.Name)
	if err != nil {
		return nil, err
	}
	plan.cols = cols
	return plan, nil
}

// refersTo tells whether the FROM clause of a body names a table.
func refersTo(b ast.QueryBody, name string) bool {
	s, ok := b.(*ast.Select)
	if !ok {
		return false
	}
	var in func(ts ast.TableSource) bool
	in = func(ts ast.TableSource) bool {
		switch x := ts.(type) {
		case *ast.TableRef:
			return x.Name.Schema == "" && strings.EqualFold(x.Name.Name, name)
		case *ast.Join:
			return in(x.L) || in(x.R)
		case *ast.Derived:
			return refersTo(x.Query.Body, name)
		}
		return false
	}
	for _, ts := range s.From {
		if in(ts) {
			return true
		}
	}
	return false
}

// workingOp yields the rows of the round before.
type workingOp struct {
	slot int
	w    *workingTable
}

func (o *workingOp) run(f *frame, yield func() error) error {
	for _, r := range o.w.rows {
		f.rows[o.slot] = r
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

// recursive compiles anchor UNION ALL recursive part; the part runs round by
// round over the rows of the round before.
func (c *compiler) recursive(ct *cte, set *ast.SetOp) (*queryPlan, error) {
	anchor, err := c.body(set.L)
	if err != nil {
		return nil, err
	}
	cols, err := renamed(anchor.cols, ct.def.Columns, ct.def.Name)
	if err != nil {
		return nil, err
	}
	w := &workingTable{cols: append([]sqltype.Column(nil), cols...)}
	for i := range w.cols {
		w.cols[i].Nullable = true
	}
	c.ctes = append(c.ctes[:len(c.ctes):len(c.ctes)], &cte{def: ct.def, outer: ct.outer, working: w})
	part, err := c.body(set.R)
	if err != nil {
		return nil, err
	}
	if len(part.cols) != len(anchor.cols) {
		return nil, sqlerr.Make(205)
	}
	for i := range part.cols {
		if part.cols[i].Type.Kind != anchor.cols[i].Type.Kind {
			return nil, sqlerr.New(240, 16, 1, "Types don't match between the anchor and the recursive part in column \"%s\" of recursive query \"%s\".", cols[i].Name, ct.def.Name)
		}
	}
	step := convertRows(part, anchor.cols)
	plan := &queryPlan{cols: w.cols, coll: anchor.coll}
	rounds := cmp.Or(c.rounds, defaultRecursion)
	plan.run = func(f *frame, emit func(sqltype.Row) error) error {
		return runRecursive(f, w, anchor.run, step, rounds, emit)
	}
	return plan, nil
}

// runRecursive runs at most so many rounds of the recursive part; below 0 is no end.
func runRecursive(f *frame, w *workingTable, anchor, step runFn, rounds int, emit func(sqltype.Row) error) error {
	var next []sqltype.Row
	collect := func(row sqltype.Row) error {
		next = append(next, append(sqltype.Row(nil), row...))
		return nil
	}
	if err := anchor(f, collect); err != nil {
		return err
	}
	for round := 0; len(next) > 0; round++ {
		if rounds >= 0 && round > rounds {
			return sqlerr.Make(530, rounds)
		}
		w.rows, next = next, nil
		current := w.rows
		for _, r := range current {
			if err := emit(r); err != nil {
				return err
			}
		}
		w.rows = current
		if err := step(f, collect); err != nil {
			return err
		}
	}
	return nil
}
