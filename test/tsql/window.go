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

// operator makes the operator that computes the window functions. Where the rows come in
// the windows' order and only counting is asked for, they are not kept.
func (w *windows) operator(q *selection, in rowOp, ord *ordering) rowOp {
	if q.group == nil && w.streams(q, ord) {
		return &streamWindowOp{w: w, in: in}
	}
	o := &windowOp{w: w, in: in}
	switch {
	case q.group != nil:
		o.store.slots = []storeSlot{{slot: q.group.slot, width: len(q.group.keys) + len(q.group.aggs)}}
	case q.node != nil:
		o.store.slots = storeSlots(q.node)
	}
	return o
}

// streams tells whether every function is ROW_NUMBER or NTILE over an order in which the
// rows come already.
func (w *windows) streams(q *selection, ord *ordering) bool {
	for _, call := range w.calls {
		if call.name != "ROW_NUMBER" && call.name != "NTILE" || len(call.partition) > 0 {
			return false
		}
		part := *q
		part.order = call.keys
		for _, k := range call.keys {
			if k.desc {
				return false
			}
		}
		if !part.satisfied(ord) {
			return false
		}
	}
	return true
}

// windowOp stores its input, computes, and yields the rows again, in the order of the last
// function's window, as SQL Server mostly does.
type windowOp struct {
	w     *windows
	in    rowOp
	store rowStore
	vals  []sqltype.Row // results by row, one per function
	keys  []sqltype.Row // partition and order values of the function at hand, by row
}

func (o *windowOp) run(f *frame, yield func() error) error {
	o.store.reset()
	if err := o.in.run(f, func() error {
		o.store.add(f)
		return nil
	}); err != nil {
		return err
	}
	n, calls := o.store.n, len(o.w.calls)
	flat := make([]sqltype.Value, n*calls)
	o.vals, o.keys = make([]sqltype.Row, n), make([]sqltype.Row, n)
	list := make([]int32, n)
	for i := range n {
		o.vals[i], list[i] = flat[i*calls:(i+1)*calls:(i+1)*calls], int32(i)
	}
	for i, call := range o.w.calls {
		if err := o.compute(f, call, i, list); err != nil {
			return err
		}
	}
	for _, i := range list {
		o.bind(f, i)
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

func (o *windowOp) bind(f *frame, i int32) {
	o.store.bind(f, int(i))
	f.rows[o.w.slot] = o.vals[i]
}

// compute sorts by partition and order, and fills value i of every row.
func (o *windowOp) compute(f *frame, call *windowCall, i int, list []int32) error {
	exprs := append(slices.Clone(call.partition), call.order...)
	flat := make([]sqltype.Value, len(list)*len(exprs))
	for _, r := range list {
		o.bind(f, r)
		key := flat[int(r)*len(exprs) : (int(r)+1)*len(exprs)]
		for j, x := range exprs {
			v, err := x.eval(f)
			if err != nil {
				return err
			}
			key[j] = v
		}
		o.keys[r] = key
	}
	part := make([]sortKey, len(call.partition))
	for j, x := range call.partition {
		part[j] = sortKey{output: j, coll: x.coll}
	}
	all := append(slices.Clone(part), call.keys...)
	slices.SortStableFunc(list, func(a, b int32) int { return compareRows(all, o.keys[a], o.keys[b]) })
	for start := 0; start < len(list); {
		end := start + 1
		for end < len(list) && compareRows(part, o.keys[list[start]], o.keys[list[end]]) == 0 {
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

// streamWindowOp numbers rows as they pass. NTILE needs their number first, so its
// input is read twice.
type streamWindowOp struct {
	w  *windows
	in rowOp
}

func (o *streamWindowOp) run(f *frame, yield func() error) error {
	total := int64(0)
	for _, call := range o.w.calls {
		if call.name != "NTILE" || total > 0 {
			continue
		}
		if err := o.in.run(f, func() error {
			total++
			return nil
		}); err != nil {
			return err
		}
	}
	vals := make(sqltype.Row, len(o.w.calls))
	n := int64(0)
	return o.in.run(f, func() error {
		for i, call := range o.w.calls {
			vals[i] = sqltype.BigInt(n + 1)
			if call.name != "NTILE" {
				continue
			}
			buckets, err := call.buckets(f)
			if err != nil {
				return err
			}
			vals[i] = sqltype.BigInt(bucketOf(min(n, total-1), total, buckets))
		}
		n++
		f.rows[o.w.slot] = vals
		return yield()
	})
}
