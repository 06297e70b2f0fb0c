package tsql

import (
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// plan puts the operators of a SELECT together.
func (q *selection) plan() (*queryPlan, error) {
	c := q.c
	var op rowOp = oneRow{}
	var ord *ordering
	where, never := c.simplify(q.where)
	switch {
	case never:
		op = noRows{}
	case q.node != nil:
		op, ord = c.plan(q.node, where, nil)
	case len(where) > 0:
		op = filtered(op, where)
	}
	if q.group != nil {
		op = q.group.operator(op, ord)
		ord = nil
	}
	if q.having != nil {
		op = &filterOp{in: op, filter: q.having.eval}
	}
	if len(q.win.calls) > 0 {
		op = q.win.operator(q, op, ord)
		if _, streams := op.(*streamWindowOp); !streams {
			ord = nil
		}
	}
	q.ordered = len(q.order) == 0 || q.satisfied(ord)
	if !q.ordered {
		q.prefix = q.sortedPrefix(ord)
	}
	p := &queryPlan{cols: q.cols}
	for _, x := range q.items {
		p.coll = append(p.coll, x.coll)
		p.volatile = p.volatile || x.lvl == levelRow && x.deps.empty()
	}
	p.deps = q.deps()
	p.run = q.runner(op)
	return p, nil
}

// deps are all slots that the query reads; the caller keeps those of outer queries.
func (q *selection) deps() slotSet {
	var s slotSet
	for _, x := range q.items {
		s.addAll(x.deps)
	}
	for _, cd := range q.where {
		s.addAll(cd.deps)
	}
	if q.having != nil {
		s.addAll(q.having.deps)
	}
	for _, k := range q.order {
		s.addAll(k.x.deps)
	}
	if q.node != nil {
		s.addAll(nodeDeps(q.node))
	}
	if q.group != nil {
		s.addAll(q.group.deps())
	}
	s.addAll(q.win.deps())
	return s
}

// satisfied tells whether the rows come in the order of ORDER BY already. All
// keys descending turn the scan round.
func (q *selection) satisfied(ord *ordering) bool {
	if ord == nil || q.stmt.Distinct {
		return false
	}
	desc := false
	used, i := 0, 0
	for _, k := range q.order {
		if k.x.lvl <= levelRun {
			continue
		}
		if k.x.column < 0 || k.x.rank == explicit {
			return false
		}
		key := orderKey{k.x.slot, k.x.column}
		if ord.fixed[key] {
			continue
		}
		for i < len(ord.keys) && ord.fixed[ord.keys[i]] {
			i++
		}
		if i >= len(ord.keys) || ord.keys[i] != key {
			if ord.unique > 0 && i >= ord.unique {
				break
			}
			return false
		}
		if used > 0 && k.desc != desc {
			return false
		}
		desc = k.desc
		used++
		i++
	}
	if !desc {
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

// sortedPrefix counts the leading keys of ORDER BY by which the rows are sorted already.
// Only rows that are equal in these need sorting, so that an order such as (lsn, seqval) over a
// table clustered by (lsn, command_id, seqval) streams transaction by transaction.
func (q *selection) sortedPrefix(ord *ordering) int {
	if ord == nil || q.stmt.Distinct {
		return 0
	}
	for n := len(q.order) - 1; n > 0; n-- {
		part := *q
		part.order = q.order[:n]
		if desc := slices.ContainsFunc(part.order, func(k sortKey) bool { return k.desc }); !desc && part.satisfied(ord) {
			return n
		}
	}
	return 0
}

// runner makes the function that runs the query.
func (q *selection) runner(op rowOp) func(*frame, func(sqltype.Row) error) error {
	run := q.projector(op, len(q.items))
	if q.stmt.Distinct {
		run = distinct(run, q.items)
	}
	if !q.ordered {
		if q.stmt.Distinct || q.onOutput() {
			return limited(q.limit, q.sorted(q.order, run))
		}
		run = q.projector(op, len(q.items)+len(q.order))
		keys := slices.Clone(q.order)
		for i := range keys {
			keys[i].output = len(q.items) + i
		}
		return limited(q.limit, q.sorted(keys, run))
	}
	return limited(q.limit, run)
}

// sorted sorts the rows by keys that are columns of them.
func (q *selection) sorted(keys []sortKey, run runFn) runFn {
	if q.prefix > 0 {
		return sortedSegments(keys, len(q.items), q.prefix, run)
	}
	return sorted(keys, len(q.items), q.limit, run)
}

// onOutput tells whether every sort key is a column of the output.
func (q *selection) onOutput() bool {
	for _, k := range q.order {
		if k.output < 0 {
			return false
		}
	}
	return true
}

// projector computes the items, and behind them the sort keys when width asks for them.
func (q *selection) projector(op rowOp, width int) func(*frame, func(sqltype.Row) error) error {
	list := slices.Clone(q.items)
	for _, k := range q.order {
		list = append(list, k.x)
	}
	list = list[:width]
	return func(f *frame, emit func(sqltype.Row) error) error {
		out := make(sqltype.Row, width)
		cells := make([]cell, width)
		for i, x := range list {
			cells[i] = cell{column: -1, eval: x.eval}
			if x.column >= 0 && x.slot < len(f.rows) {
				cells[i].slot, cells[i].column = x.slot, x.column
			}
		}
		return op.run(f, func() error {
			for i := range cells {
				cl := &cells[i]
				if cl.column >= 0 {
					out[i] = f.rows[cl.slot][cl.column]
					continue
				}
				v, err := cl.eval(f)
				if err != nil {
					return err
				}
				out[i] = v
			}
			return emit(out)
		})
	}
}

// cell is an item prepared for the loop: a plain column is copied without a call.
type cell struct {
	eval         evalFn
	slot, column int
}

// distinct passes on the first of equal rows.
func distinct(run func(*frame, func(sqltype.Row) error) error, items []*expr) func(*frame, func(sqltype.Row) error) error {
	return func(f *frame, emit func(sqltype.Row) error) error {
		seen := make(map[string]struct{})
		var buf []byte
		return run(f, func(row sqltype.Row) error {
			buf = buf[:0]
			for i, v := range row {
				buf = appendKey(buf, v, items[i].coll)
			}
			if _, dup := seen[string(buf)]; dup {
				return nil
			}
			seen[string(buf)] = struct{}{}
			return emit(row)
		})
	}
}

// maxTopSort is the largest TOP that is sorted without keeping all rows.
const maxTopSort = 10_000

// sorted collects the rows, sorts them and passes on the first width columns.
func sorted(keys []sortKey, width int, lim *limit, run func(*frame, func(sqltype.Row) error) error) func(*frame, func(sqltype.Row) error) error {
	return func(f *frame, emit func(sqltype.Row) error) error {
		keep := -1
		if lim != nil && !lim.percent {
			offset, count, err := lim.window(f)
			if err != nil {
				return err
			}
			if count >= 0 && offset+count <= maxTopSort {
				keep = int(offset + count)
			}
		}
		s := rowSorter{keys: keys, keep: keep}
		if err := run(f, func(row sqltype.Row) error {
			s.add(row)
			return nil
		}); err != nil {
			return err
		}
		s.sort()
		for _, r := range s.rows {
			if err := emit(r[:width]); err != nil {
				return err
			}
		}
		return nil
	}
}

// sortedSegments sorts rows that come sorted by the first keys already: a segment of
// rows that are equal in these at a time.
func sortedSegments(keys []sortKey, width, prefix int, run runFn) runFn {
	return func(f *frame, emit func(sqltype.Row) error) error {
		s := rowSorter{keys: keys, keep: -1}
		flush := func() error {
			s.sort()
			for _, r := range s.rows {
				if err := emit(r[:width]); err != nil {
					return err
				}
			}
			s.free = append(s.free, s.rows...)
			s.rows = s.rows[:0]
			return nil
		}
		err := run(f, func(row sqltype.Row) error {
			if len(s.rows) > 0 && compareRows(keys[:prefix], s.rows[0], row) != 0 {
				if err := flush(); err != nil {
					return err
				}
			}
			s.add(row)
			return nil
		})
		if err != nil {
			return err
		}
		return flush()
	}
}

// rowSorter sorts rows by keys, stable. With keep >= 0 only the first ones stay.
type rowSorter struct {
	keys []sortKey
	keep int
	rows []sqltype.Row
	free []sqltype.Row // slices to use again
}

func (s *rowSorter) add(row sqltype.Row) {
	var slot sqltype.Row
	if n := len(s.free); n > 0 {
		slot, s.free = s.free[n-1], s.free[:n-1]
	}
	s.rows = append(s.rows, append(slot[:0], row...))
	if s.keep >= 0 && len(s.rows) > 2*s.keep+64 {
		s.sort()
	}
}

func (s *rowSorter) sort() {
	slices.SortStableFunc(s.rows, func(a, b sqltype.Row) int { return compareRows(s.keys, a, b) })
	if s.keep >= 0 && len(s.rows) > s.keep {
		clear(s.rows[s.keep:])
		s.rows = s.rows[:s.keep]
	}
}

func compareRows(keys []sortKey, a, b sqltype.Row) int {
	for i := range keys {
		k := &keys[i]
		if c := sqltype.Compare(a[k.output], b[k.output], k.coll); c != 0 {
			if k.desc {
				return -c
			}
			return c
		}
	}
	return 0
}
