package tsql

import (
	"iter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// rowOp puts combinations of rows into the frame, one after the other, and
// calls yield for each. An error of yield ends it and comes back unchanged.
type rowOp interface {
	run(f *frame, yield func() error) error
}

// cancelEvery is after how many rows a scan looks whether the statement was
// cancelled.
const cancelEvery = 1024

// stopSignal ends a row source early. Each limit has its own and takes only
// that one back.
type stopSignal struct{ _ byte }

func (*stopSignal) Error() string { return "stop" }

// boundExpr is one side of a range: the smallest (or largest) of some values.
type boundExpr struct {
	values    []*expr
	inclusive bool
}

// scanOp scans a table, or a table-valued function, within bounds.
type scanOp struct {
	src     *source
	table   Table
	tf      *tableFn
	order   []int
	equal   []*expr // values for the leading columns of the order
	lower   []boundExpr
	upper   []boundExpr
	filter  condFn
	reverse bool
	update  bool
}

func (o *scanOp) run(f *frame, yield func() error) error {
	spec, ok, err := o.spec(f)
	if err != nil || !ok {
		return err
	}
	slot, filter := o.src.slot, o.filter
	rows, err := o.open(f, spec)
	if err != nil {
		return err
	}
	n := 0
	for row, err := range rows {
		if err != nil {
			return err
		}
		if n++; n%cancelEvery == 0 {
			if err := f.ctx.Err(); err != nil {
				return err
			}
		}
		f.rows[slot] = row
		if filter != nil {
			ok, err := filter(f)
			if err != nil {
				return err
			}
			if ok != isTrue {
				continue
			}
		}
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

func (o *scanOp) open(f *frame, spec ScanSpec) (iter.Seq2[sqltype.Row, error], error) {
	if o.tf != nil {
		args := make([]sqltype.Value, len(o.tf.args))
		for i, a := range o.tf.args {
			v, err := a.eval(f)
			if err != nil {
				return nil, err
			}
			args[i] = v
		}
		return o.tf.fn.Scan(f.ctx, args, spec), nil
	}
	if o.reverse {
		if rs, ok := o.table.(ReverseScanner); ok {
			return rs.ScanReverse(f.ctx, spec), nil
		}
	}
	return o.table.Scan(f.ctx, spec), nil
}

// spec computes the bounds; ok is false when no row can be inside.
func (o *scanOp) spec(f *frame) (spec ScanSpec, ok bool, err error) {
	spec.Columns, spec.Update = o.src.neededColumns(), o.update
	prefix := make([]sqltype.Value, 0, len(o.equal)+1)
	for i, x := range o.equal {
		v, err := x.eval(f)
		if err != nil || v.IsNull() {
			return spec, false, err
		}
		prefix = append(prefix, o.boundValue(v, i))
	}
	lo, loOK, err := o.tightest(f, o.lower, 1)
	if err != nil || !loOK {
		return spec, false, err
	}
	hi, hiOK, err := o.tightest(f, o.upper, -1)
	if err != nil || !hiOK {
		return spec, false, err
	}
	spec.Lower, spec.Upper = o.bound(prefix, lo), o.bound(prefix, hi)
	return spec, true, nil
}

func (o *scanOp) bound(prefix []sqltype.Value, end *Bound) Bound {
	if end == nil {
		if len(prefix) == 0 {
			return Bound{}
		}
		return Bound{Values: prefix, Inclusive: true}
	}
	values := append(prefix[:len(prefix):len(prefix)], end.Values[0])
	return Bound{Values: values, Inclusive: end.Inclusive}
}

// tightest evaluates the candidates of one side and keeps the narrowest: the
// largest lower (sign 1) or the smallest upper bound (sign -1). ok is false when a comparison
// with NULL rules every row out.
func (o *scanOp) tightest(f *frame, list []boundExpr, sign int) (*Bound, bool, error) {
	var best *Bound
	coll := o.orderCollation(f, len(o.equal))
	for _, b := range list {
		v, err := loosest(f, b.values, sign, coll)
		if err != nil {
			return nil, false, err
		}
		if v.IsNull() {
			if len(b.values) == 1 {
				return nil, false, nil
			}
			continue
		}
		v = o.boundValue(v, len(o.equal))
		if best == nil {
			best = &Bound{Values: []sqltype.Value{v}, Inclusive: b.inclusive}
			continue
		}
		c := sqltype.Compare(v, best.Values[0], coll) * sign
		if c > 0 || c == 0 && !b.inclusive {
			best.Values[0], best.Inclusive = v, b.inclusive
		}
	}
	return best, true, nil
}

// loosest is the smallest of the values for a lower bound, the largest for an upper
// one. A NULL among several belongs to a branch that is never true.
func loosest(f *frame, list []*expr, sign int, coll *sqltype.Collation) (sqltype.Value, error) {
	var best sqltype.Value
	for _, x := range list {
		v, err := x.eval(f)
		if err != nil {
			return v, err
		}
		if v.IsNull() {
			continue
		}
		if best.IsNull() || sqltype.Compare(v, best, coll)*sign < 0 {
			best = v
		}
	}
	return best, nil
}

func (o *scanOp) orderCollation(f *frame, i int) *sqltype.Collation {
	if i >= len(o.order) {
		return nil
	}
	t := o.src.cols[o.order[i]].Type
	if !t.Kind.IsText() {
		return nil
	}
	c, err := f.run.collation(t.Collation)
	if err != nil {
		return nil
	}
	return c
}

// boundValue gives a value the kind of the column where that changes nothing.
func (o *scanOp) boundValue(v sqltype.Value, i int) sqltype.Value {
	t := o.src.cols[o.order[i]].Type
	if v.Kind() == t.Kind || v.Kind().IsText() || v.Kind().IsBinary() {
		return v
	}
	w, err := sqltype.Convert(v, t, sqltype.DefaultStyle)
	if err == nil && sqltype.Compare(v, w, nil) == 0 {
		return w
	}
	return v
}

// filterOp keeps the combinations that satisfy a condition.
type filterOp struct {
	in     rowOp
	filter condFn
}

func (o *filterOp) run(f *frame, yield func() error) error {
	return o.in.run(f, func() error {
		ok, err := o.filter(f)
		if err != nil || ok != isTrue {
			return err
		}
		return yield()
	})
}

// oneRow is a FROM clause that is not there: one empty combination.
type oneRow struct{}

func (oneRow) run(_ *frame, yield func() error) error { return yield() }

// noRows yields nothing: a condition that can never be true.
type noRows struct{}

func (noRows) run(*frame, func() error) error { return nil }

// onlyScan yields one given row: the target row of an UPDATE or DELETE with FROM.
type onlyScan struct {
	slot int
	row  sqltype.Row
}

func (o *onlyScan) run(f *frame, yield func() error) error {
	f.rows[o.slot] = o.row
	return yield()
}

// andAll makes one function of conditions; nil for none.
func andAll(conds []*cond) condFn {
	switch len(conds) {
	case 0:
		return nil
	case 1:
		return conds[0].eval
	}
	return combine("AND", conds).eval
}

// errTooMany is the error of a scalar subquery with two rows.
func errTooMany() error { return sqlerr.Make(512) }
