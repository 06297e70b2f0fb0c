package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// queryPlan is a compiled query. run calls emit for each row; the row slice is
// reused.
type queryPlan struct {
	cols []sqltype.Column
	coll []*sqltype.Collation // of the columns, nil entries for the default
	deps slotSet              // slots of outer queries that it reads
	run  func(f *frame, emit func(sqltype.Row) error) error
	// volatile queries give another result each time.
	volatile bool
}

// collation of column i.
func (p *queryPlan) collation(i int) *sqltype.Collation {
	if i < len(p.coll) {
		return p.coll[i]
	}
	return nil
}

// subquery compiles a query whose names are looked up in parent after its own.
func (c *compiler) subquery(q *ast.Query, parent *scope) (*queryPlan, error) {
	inner := *c
	inner.scope, inner.group, inner.win = &scope{parent: parent}, nil, nil
	if c.depth > 100 {
		return nil, sqlerr.Make(191)
	}
	inner.depth++
	first := c.slots
	plan, err := inner.query(q)
	c.slots = inner.slots
	if err != nil {
		return nil, err
	}
	plan.deps = plan.deps.below(first)
	return plan, nil
}

// query compiles a query in the compiler's scope, which must be a fresh one.
func (c *compiler) query(q *ast.Query) (*queryPlan, error) {
	ctes := len(c.ctes)
	defer func() { c.ctes = c.ctes[:ctes:ctes] }()
	if err := c.options(q.Options); err != nil {
		return nil, err
	}
	if err := c.addCTEs(q.With); err != nil {
		return nil, err
	}
	lim, err := c.limits(q)
	if err != nil {
		return nil, err
	}
	switch b := q.Body.(type) {
	case *ast.Select:
		return c.selectPlan(b, q.OrderBy, lim)
	case *ast.Nested:
		if len(q.OrderBy) == 0 && lim == nil {
			return c.query(b.Query)
		}
		return c.setQuery(q.Body, q.OrderBy, lim)
	}
	return c.setQuery(q.Body, q.OrderBy, lim)
}

// limit is TOP or OFFSET … FETCH.
type limit struct {
	offset, count *expr // count nil: no end
	percent       bool
	fetch         bool // of OFFSET … FETCH rather than TOP
}

// limits compiles OFFSET and FETCH; nil without them.
func (c *compiler) limits(q *ast.Query) (*limit, error) {
	if q.Offset == nil {
		return nil, nil
	}
	if len(q.OrderBy) == 0 {
		return nil, sqlerr.Syntax("OFFSET")
	}
	l := &limit{fetch: true}
	var err error
	if l.offset, err = c.limitExpr(q.Offset); err != nil {
		return nil, err
	}
	if q.Fetch != nil {
		l.count, err = c.limitExpr(q.Fetch)
	}
	return l, err
}

// limitExpr compiles a row count: no column may stand in it.
func (c *compiler) limitExpr(e ast.Expr) (*expr, error) {
	saved, group := c.scope, c.group
	c.scope, c.group = c.scope.parent, nil
	if c.scope == nil {
		c.scope = &scope{}
	}
	x, err := c.expr(e)
	c.scope, c.group = saved, group
	if err != nil {
		return nil, err
	}
	switch k := x.typ.Kind; {
	case k.IsInteger(), k == sqltype.KindNull:
	case k == sqltype.KindDecimal && x.typ.Scale == 0, k.IsText() && !x.isConst():
	default:
		return nil, sqlerr.Make(1060)
	}
	return c.convertTo(x, sqltype.Type{Kind: sqltype.KindBigInt}, false)
}

func (c *compiler) topLimit(t *ast.Top) (*limit, error) {
	if t == nil {
		return nil, nil
	}
	if t.Percent {
		x, err := c.expr(t.N)
		if err != nil {
			return nil, err
		}
		x, err = c.convertTo(x, sqltype.Type{Kind: sqltype.KindFloat}, false)
		return &limit{count: x, percent: true}, err
	}
	x, err := c.limitExpr(t.N)
	return &limit{count: x}, err
}

// window computes the range of rows wanted: from offset on, count of them; count -1
// means all.
func (l *limit) window(f *frame) (offset, count int64, err error) {
	count = -1
	if l.offset != nil {
		v, err := l.offset.eval(f)
		if err != nil {
			return 0, 0, err
		}
		if offset = v.Int64(); offset < 0 || v.IsNull() {
			return 0, 0, sqlerr.Make(10742)
		}
	}
	if l.count == nil || l.percent {
		return offset, count, nil
	}
	v, err := l.count.eval(f)
	if err != nil {
		return 0, 0, err
	}
	switch count = v.Int64(); {
	case v.IsNull():
		return 0, 0, sqlerr.Make(1060)
	case l.fetch && count < 1:
		return 0, 0, sqlerr.Make(10744)
	case count < 0:
		return 0, 0, sqlerr.Make(127)
	}
	return offset, count, nil
}

// limited passes on the rows inside the limit and stops its source behind it.
func limited(l *limit, run func(f *frame, emit func(sqltype.Row) error) error) func(*frame, func(sqltype.Row) error) error {
	if l == nil {
		return run
	}
	if l.percent {
		return percent(l, run)
	}
	return func(f *frame, emit func(sqltype.Row) error) error {
		offset, count, err := l.window(f)
		if err != nil || count == 0 {
			return err
		}
		stop := &stopSignal{}
		err = run(f, func(row sqltype.Row) error {
			if offset > 0 {
				offset--
				return nil
			}
			if err := emit(row); err != nil {
				return err
			}
			if count > 0 {
				if count--; count == 0 {
					return stop
				}
			}
			return nil
		})
		if err == error(stop) {
			return nil
		}
		return err
	}
}

func percent(l *limit, run func(f *frame, emit func(sqltype.Row) error) error) func(*frame, func(sqltype.Row) error) error {
	return func(f *frame, emit func(sqltype.Row) error) error {
		v, err := l.count.eval(f)
		if err != nil {
			return err
		}
		p := v.Float64()
		if v.IsNull() || p < 0 || p > 100 {
			return sqlerr.New(1031, 15, 1, "Percent values must be between 0 and 100.")
		}
		var rows []sqltype.Row
		if err := run(f, func(r sqltype.Row) error {
			rows = append(rows, append(sqltype.Row(nil), r...))
			return nil
		}); err != nil {
			return err
		}
		n := int(float64(len(rows)) * p / 100)
		if float64(n) < float64(len(rows))*p/100 {
			n++
		}
		for _, r := range rows[:n] {
			if err := emit(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// scalarSubquery compiles (query) as a value.
func (c *compiler) scalarSubquery(q *ast.Query) (*expr, error) {
	plan, err := c.subquery(q, c.scope)
	if err != nil {
		return nil, err
	}
	if len(plan.cols) != 1 {
		return nil, sqlerr.Make(116)
	}
	x := &expr{typ: plan.cols[0].Type, lvl: levelRow, deps: plan.deps, column: -1, nullable: true, coll: plan.collation(0)}
	if x.typ.Kind.IsText() {
		x.rank = implicit
	}
	var owner *frame
	var known sqltype.Value
	once := plan.deps.empty() && !plan.volatile
	x.eval = func(f *frame) (sqltype.Value, error) {
		if once && owner == f {
			return known, nil
		}
		var v sqltype.Value
		n := 0
		err := plan.run(f, func(row sqltype.Row) error {
			if n++; n > 1 {
				return errTooMany()
			}
			v = row[0]
			return nil
		})
		if err == nil {
			owner, known = f, v
		}
		return v, err
	}
	return x, nil
}

// exists compiles EXISTS (query).
func (c *compiler) exists(x *ast.Exists) (*cond, error) {
	plan, err := c.subquery(x.Query, c.scope)
	if err != nil {
		return nil, err
	}
	cd := &cond{lvl: levelRow, deps: plan.deps}
	stop := &stopSignal{}
	var owner *frame
	var known tri
	once := plan.deps.empty() && !plan.volatile
	cd.eval = func(f *frame) (tri, error) {
		if once && owner == f {
			return known, nil
		}
		err := plan.run(f, func(sqltype.Row) error { return stop })
		switch {
		case err == error(stop):
			known = isTrue
		case err != nil:
			return isUnknown, err
		default:
			known = isFalse
		}
		owner = f
		return known, nil
	}
	return cd, nil
}

// inQuery compiles x [NOT] IN (query).
func (c *compiler) inQuery(x *ast.In) (*cond, error) {
	cd, err := c.quantified(&ast.Quantified{X: x.X, Op: "=", Query: x.Query})
	if err != nil || !x.Not {
		return cd, err
	}
	r := *cd
	r.eval = func(f *frame) (tri, error) {
		t, err := cd.eval(f)
		return t.not(), err
	}
	return &r, nil
}

// quantified compiles x op ANY|ALL (query). The column is kept when the query does
// not depend on the row.
func (c *compiler) quantified(x *ast.Quantified) (*cond, error) {
	left, err := c.expr(x.X)
	if err != nil {
		return nil, err
	}
	plan, err := c.subquery(x.Query, c.scope)
	if err != nil {
		return nil, err
	}
	if len(plan.cols) != 1 {
		return nil, sqlerr.Make(116)
	}
	var row sqltype.Row
	right := &expr{typ: plan.cols[0].Type, lvl: levelRow, column: -1, nullable: true, coll: plan.collation(0),
		eval: func(*frame) (sqltype.Value, error) { return row[0], nil }}
	if right.typ.Kind.IsText() {
		right.rank = implicit
	}
	one, err := c.compareExprs(x.Op, left, right)
	if err != nil {
		return nil, err
	}
	rows := &subqueryRows{plan: plan, once: plan.deps.empty() && !plan.volatile}
	wanted := triOf(!x.All) // the answer that decides
	stop := &stopSignal{}
	eval := func(f *frame) (tri, error) {
		result := wanted.not()
		err := rows.each(f, func(r sqltype.Row) error {
			row = r
			t, err := one.eval(f)
			switch {
			case err != nil:
				return err
			case t == wanted:
				result = wanted
				return stop
			case t == isUnknown:
				result = isUnknown
			}
			return nil
		})
		if err != nil && err != error(stop) {
			return isUnknown, err
		}
		return result, nil
	}
	return &cond{lvl: levelRow, deps: union(left.deps, plan.deps), eval: eval}, nil
}

// subqueryRows gives the rows of a subquery again and again; one that does not
// depend on the row around it is run once.
type subqueryRows struct {
	plan  *queryPlan
	once  bool
	owner *frame
	rows  []sqltype.Row
}

func (s *subqueryRows) each(f *frame, fn func(sqltype.Row) error) error {
	if !s.once {
		return s.plan.run(f, fn)
	}
	if s.owner != f {
		s.rows = s.rows[:0]
		if err := s.plan.run(f, func(r sqltype.Row) error {
			s.rows = append(s.rows, append(sqltype.Row(nil), r...))
			return nil
		}); err != nil {
			return err
		}
		s.owner = f
	}
	for _, r := range s.rows {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}
