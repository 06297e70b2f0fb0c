package tsql

import (
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// windows collects the window functions of a query. Their values of the present row
// are in a slot of their own.
type windows struct {
	slot  int
	calls []*windowCall
}

// windowCall is one window function.
type windowCall struct {
	name      string
	typ       sqltype.Type
	args      []*expr
	agg       *aggregate
	partition []*expr
	order     []*expr
	keys      []sortKey
	frame     *ast.Frame
	lo, hi    int64 // offsets of a ROWS frame
}

// windowOnly tells the functions that must have an OVER clause.
func windowOnly(upper string) bool {
	switch upper {
	case "ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "PERCENT_RANK", "CUME_DIST":
		return true
	}
	return false
}

// windowCall compiles a function with OVER.
func (c *compiler) windowCall(x *ast.Call) (*expr, error) {
	if c.win == nil {
		return nil, sqlerr.Make(4108)
	}
	name := strings.ToUpper(x.Name.Name)
	if !windowOnly(name) && !isAggregate(name) || name == "STRING_AGG" || x.Name.Schema != "" {
		return nil, sqlerr.Make(4113, x.Name.String())
	}
	win := c.win
	c.win = nil
	w, err := c.compileWindow(name, x)
	c.win = win
	if err != nil {
		return nil, err
	}
	if len(win.calls) == 0 {
		win.slot = c.newSlot()
	}
	win.calls = append(win.calls, w)
	slot, i := win.slot, len(win.calls)-1
	r := &expr{typ: w.typ, lvl: levelRow, slot: slot, column: i, nullable: true,
		eval: func(f *frame) (sqltype.Value, error) { return f.rows[slot][i], nil }}
	r.deps.add(slot)
	if len(w.args) > 0 {
		r.coll, r.rank = w.args[0].coll, w.args[0].rank
	}
	return r, nil
}

func (c *compiler) compileWindow(name string, x *ast.Call) (*windowCall, error) {
	w := &windowCall{name: name, frame: x.Over.Frame}
	var err error
	if w.partition, err = c.exprs(x.Over.Partition); err != nil {
		return nil, err
	}
	for i, o := range x.Over.Order {
		k, err := c.expr(o.X)
		if err != nil {
			return nil, err
		}
		if err := sortable(k.typ); err != nil {
			return nil, err
		}
		w.order = append(w.order, k)
		w.keys = append(w.keys, sortKey{x: k, output: len(w.partition) + i, desc: o.Desc, coll: k.coll})
	}
	if windowOnly(name) && len(w.order) == 0 {
		return nil, sqlerr.Make(4112, strings.ToLower(name))
	}
	if err := c.windowFrame(w); err != nil {
		return nil, err
	}
	if isAggregate(name) {
		if w.agg, err = c.aggregate(name, x); err != nil {
			return nil, err
		}
		w.typ = w.agg.typ
		return w, nil
	}
	return w, c.windowArgs(w, x)
}

// windowFrame computes the offsets of a ROWS frame.
func (c *compiler) windowFrame(w *windowCall) error {
	if w.frame == nil {
		return nil
	}
	if len(w.order) == 0 {
		return sqlerr.New(10756, 15, 1, "Window frame with ROWS or RANGE must have an ORDER BY clause.")
	}
	bound := func(e ast.Expr) (int64, error) {
		if e == nil {
			return 0, nil
		}
		v, err := c.run.valueAs(c.ctx, e, sqltype.Type{Kind: sqltype.KindBigInt})
		return v.Int64(), err
	}
	var err error
	if w.lo, err = bound(w.frame.LoN); err != nil {
		return err
	}
	w.hi, err = bound(w.frame.HiN)
	if !w.frame.Rows && (w.frame.LoN != nil || w.frame.HiN != nil) {
		return sqlerr.New(4194, 16, 1, "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.")
	}
	return err
}

func (c *compiler) windowArgs(w *windowCall, x *ast.Call) error {
	lo, hi := 0, 0
	bigint := sqltype.Type{Kind: sqltype.KindBigInt}
	w.typ = bigint
	switch w.name {
	case "NTILE", "FIRST_VALUE", "LAST_VALUE":
		lo, hi = 1, 1
	case "LAG", "LEAD":
		lo, hi = 1, 3
	case "PERCENT_RANK", "CUME_DIST":
		w.typ = sqltype.Type{Kind: sqltype.KindFloat}
	}
	if err := argCount(w.name, len(x.Args), lo, hi); err != nil {
		return err
	}
	args, err := c.exprs(x.Args)
	if err != nil {
		return err
	}
	switch w.name {
	case "NTILE":
		args[0], err = c.convertTo(args[0], bigint, false)
	case "LAG", "LEAD":
		w.typ = args[0].typ
		if len(args) > 1 {
			if args[1], err = c.convertTo(args[1], bigint, false); err != nil {
				return err
			}
		}
		if len(args) > 2 {
			args[2], err = c.convertTo(args[2], w.typ, false)
		}
	case "FIRST_VALUE", "LAST_VALUE":
		w.typ = args[0].typ
	}
	w.args = args
	return err
}

func (w *windows) deps() slotSet {
	var s slotSet
	for _, call := range w.calls {
		for _, list := range [...][]*expr{call.args, call.partition, call.order} {
			for _, x := range list {
				s.addAll(x.deps)
			}
		}
		if call.agg != nil && call.agg.arg != nil {
			s.addAll(call.agg.arg.deps)
		}
	}
	return s
}

// operator makes the operator that computes the window functions over all rows.
func (w *windows) operator(c *compiler, q *selection, in rowOp) rowOp {
	o := &windowOp{w: w, in: in}
	if q.group != nil {
		o.slots = append(o.slots, nullRow{slot: q.group.slot})
	} else if q.node != nil {
		o.slots = slotWidths(q.node)
	}
	return o
}

// windowOp stores its input, computes, and yields the rows again. The order is that of the last
// function's window, as SQL Server mostly gives.
type windowOp struct {
	w     *windows
	in    rowOp
	slots []nullRow
}

// windowRow is one stored combination.
type windowRow struct {
	rows []sqltype.Row
	vals sqltype.Row
	key  sqltype.Row // partition, then order values of the function at hand
}

func (o *windowOp) run(f *frame, yield func() error) error {
	var list []*windowRow
	err := o.in.run(f, func() error {
		r := &windowRow{vals: make(sqltype.Row, len(o.w.calls))}
		for _, s := range o.slots {
			r.rows = append(r.rows, append(sqltype.Row(nil), f.rows[s.slot]...))
		}
		list = append(list, r)
		return nil
	})
	if err != nil {
		return err
	}
	for i, call := range o.w.calls {
		if err := o.compute(f, call, i, list); err != nil {
			return err
		}
	}
	for _, r := range list {
		o.bind(f, r)
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

func (o *windowOp) bind(f *frame, r *windowRow) {
	for i, s := range o.slots {
		f.rows[s.slot] = r.rows[i]
	}
	f.rows[o.w.slot] = r.vals
}

// compute sorts by partition and order, and fills value i of every row.
func (o *windowOp) compute(f *frame, call *windowCall, i int, list []*windowRow) error {
	for _, r := range list {
		o.bind(f, r)
		r.key = make(sqltype.Row, 0, len(call.partition)+len(call.order))
		for _, x := range append(slices.Clone(call.partition), call.order...) {
			v, err := x.eval(f)
			if err != nil {
				return err
			}
			r.key = append(r.key, v)
		}
	}
	part := make([]sortKey, len(call.partition))
	for j, x := range call.partition {
		part[j] = sortKey{output: j, coll: x.coll}
	}
	all := append(slices.Clone(part), call.keys...)
	slices.SortStableFunc(list, func(a, b *windowRow) int { return compareRows(all, a.key, b.key) })
	for start := 0; start < len(list); {
		end := start + 1
		for end < len(list) && compareRows(part, list[start].key, list[end].key) == 0 {
			end++
		}
		p := &partition{o: o, f: f, call: call, index: i, rows: list[start:end]}
		if err := p.compute(); err != nil {
			return err
		}
		start = end
	}
	return nil
}
