package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
)

// orderKey is a column that rows are ordered by.
type orderKey struct{ slot, column int }

// ordering tells the order in which an operator yields rows.
type ordering struct {
	keys   []orderKey
	unique int // number of leading keys that name one row; 0 when none do
	fixed  map[orderKey]bool
	scan   *scanOp // may be turned round, nil when not
}

// plan makes an operator of a FROM node under conditions that must hold. bound are
// the slots that have their rows when the operator runs. Every condition refers to
// these and to the node's own slots only.
func (c *compiler) plan(n fromNode, conds []*cond, bound slotSet) (rowOp, *ordering) {
	switch x := n.(type) {
	case *leafNode:
		return c.planLeafNode(x, conds)
	case *joinNode:
		switch x.kind {
		case ast.LeftJoin, ast.OuterApply:
			return c.planLeft(x.l, x.r, x.on, conds, bound)
		case ast.RightJoin:
			return c.planLeft(x.r, x.l, x.on, conds, bound)
		case ast.FullJoin:
			return c.planFull(x, conds, bound)
		}
		return c.planInner(x, conds, bound)
	}
	return oneRow{}, nil
}

func (c *compiler) planLeafNode(n *leafNode, conds []*cond) (rowOp, *ordering) {
	if n.only != nil {
		return filtered(n.only, conds), nil
	}
	if n.table == nil && n.tf == nil {
		return filtered(n.op, conds), nil
	}
	s := &scanOp{src: n.src, table: n.table, tf: n.tf}
	unique := 0
	if n.table != nil {
		s.order, unique = n.table.Order(), n.table.Unique()
	} else {
		s.order = n.tf.fn.Order
	}
	rest := s.takeBounds(conds)
	s.filter = andAll(rest)
	ord := &ordering{unique: unique, fixed: make(map[orderKey]bool), scan: s}
	for i, col := range s.order {
		k := orderKey{n.src.slot, col}
		ord.keys = append(ord.keys, k)
		if i < len(s.equal) {
			ord.fixed[k] = true
		}
	}
	if n.table != nil && unique > 0 && len(s.equal) >= unique {
		return newSeek(s, unique), ord
	}
	return s, ord
}

func filtered(op rowOp, conds []*cond) rowOp {
	if len(conds) == 0 {
		return op
	}
	return &filterOp{in: op, filter: andAll(conds)}
}

// takeBounds moves comparisons with the leading columns of the order into the scan's
// bounds and returns the conditions that remain.
func (s *scanOp) takeBounds(conds []*cond) []*cond {
	rest := conds
	for len(s.equal) < len(s.order) {
		col := s.order[len(s.equal)]
		found := -1
		for i, cd := range rest {
			if x, op, ok := s.sideFor(cd, col); ok && op == "=" {
				s.equal = append(s.equal, x)
				found = i
				break
			}
		}
		if found < 0 {
			return s.takeRange(rest, col)
		}
		rest = append(append([]*cond(nil), rest[:found]...), rest[found+1:]...)
	}
	return rest
}

func (s *scanOp) takeRange(conds []*cond, col int) []*cond {
	var rest, uppers []*cond
	for _, cd := range conds {
		x, op, ok := s.sideFor(cd, col)
		if ok && op != "<>" && op != "=" {
			b := boundExpr{values: []*expr{x}, inclusive: op == ">=" || op == "<="}
			if op[0] == '>' {
				s.lower = append(s.lower, b)
			} else {
				s.upper = append(s.upper, b)
				uppers = append(uppers, cd)
			}
			continue
		}
		rest = append(rest, cd)
		s.weakBounds(cd, col)
	}
	if len(s.lower) == 0 { // NULL sorts below every upper bound and is not below it
		rest = append(rest, uppers...)
	}
	return rest
}

// weakBounds derives bounds from an OR whose every branch limits the column:
// (a = x AND …) OR a > y lies at or above the smaller of x and y. The condition
// itself stays.
func (s *scanOp) weakBounds(cd *cond, col int) {
	if len(cd.or) == 0 {
		return
	}
	lower, upper := boundExpr{inclusive: true}, boundExpr{inclusive: true}
	for _, branch := range cd.or {
		parts := branch.and
		if len(parts) == 0 {
			parts = []*cond{branch}
		}
		var lo, hi *expr
		for _, p := range parts {
			x, op, ok := s.sideFor(p, col)
			if !ok {
				continue
			}
			if op == "=" || op[0] == '>' {
				lo = x
			}
			if op == "=" || op[0] == '<' && op != "<>" {
				hi = x
			}
		}
		lower.values, upper.values = append(lower.values, lo), append(upper.values, hi)
	}
	if complete(lower.values) {
		s.lower = append(s.lower, lower)
	}
	if complete(upper.values) {
		s.upper = append(s.upper, upper)
	}
}

func complete(list []*expr) bool {
	for _, x := range list {
		if x == nil {
			return false
		}
	}
	return len(list) > 1
}

// sideFor finds column op x in a condition, where x does not depend on this
// source and compares in the order of the column.
func (s *scanOp) sideFor(cd *cond, col int) (x *expr, op string, ok bool) {
	cmp := cd.cmp
	if cmp == nil {
		return nil, "", false
	}
	l, r, op := cmp.l, cmp.r, cmp.op
	if !s.isColumn(l, col) {
		l, r, op = r, l, mirror(op)
	}
	if !s.isColumn(l, col) || r.deps.has(s.src.slot) {
		return nil, "", false
	}
	if l.typ.Kind.IsText() && collationName(cmp.coll) != collationName(l.coll) {
		return nil, "", false
	}
	return r, op, true
}

func (s *scanOp) isColumn(x *expr, col int) bool {
	return x.column == col && x.slot == s.src.slot && x.column >= 0
}

// splitConds separates the conditions that touch some slots from the others.
func splitConds(conds []*cond, slots slotSet) (without, with []*cond) {
	for _, cd := range conds {
		if cd.deps.intersects(slots) {
			with = append(with, cd)
		} else {
			without = append(without, cd)
		}
	}
	return without, with
}

func union(a, b slotSet) slotSet {
	var s slotSet
	s.addAll(a)
	s.addAll(b)
	return s
}

func (c *compiler) planInner(n *joinNode, conds []*cond, bound slotSet) (rowOp, *ordering) {
	all := append(append([]*cond(nil), conds...), n.on...)
	left, right := splitConds(all, n.r.slots())
	l, ord := c.plan(n.l, left, bound)
	r, single := c.planRight(n.r, right, bound, n.l.slots())
	if ord != nil && !single {
		o := *ord
		o.unique = 0
		ord = &o
	}
	return &joinOp{l: l, r: r}, ord
}

func (c *compiler) planLeft(ln, rn fromNode, on, conds []*cond, bound slotSet) (rowOp, *ordering) {
	left, after := splitConds(conds, rn.slots())
	l, ord := c.plan(ln, left, bound)
	r, single := c.planRight(rn, on, bound, ln.slots())
	if ord != nil && !single {
		o := *ord
		o.unique = 0
		ord = &o
	}
	return filtered(&leftOp{l: l, r: r, nulls: nullRows(rn)}, after), ord
}

// nullRows gives an all-NULL row for each slot of a node.
func nullRows(n fromNode) []nullRow {
	switch x := n.(type) {
	case *leafNode:
		return []nullRow{{slot: x.src.slot, width: len(x.src.cols)}}
	case *joinNode:
		return append(nullRows(x.l), nullRows(x.r)...)
	}
	return nil
}

// planRight plans the inner side of a join. single is true when it yields one
// row at most.
func (c *compiler) planRight(n fromNode, conds []*cond, bound, left slotSet) (op rowOp, single bool) {
	if leaf, ok := n.(*leafNode); ok {
		if leaf.only != nil || leaf.deps.intersects(left) {
			op, _ = c.plan(n, conds, union(bound, left))
			return op, leaf.only != nil
		}
		if leaf.table != nil && leaf.seekable(conds, left) {
			op, _ = c.plan(n, conds, union(bound, left))
			_, single = op.(*seekOp)
			return op, single
		}
	}
	if nodeDeps(n).intersects(left) { // an APPLY somewhere inside
		op, _ = c.plan(n, conds, union(bound, left))
		return op, false
	}
	local, cross := splitConds(conds, left)
	inner, _ := c.plan(n, local, bound)
	m := &storedOp{in: inner, store: rowStore{slots: storeSlots(n)}}
	ext := nodeDeps(n)
	for _, cd := range local {
		ext.addAll(cd.deps)
	}
	m.reuse = !ext.intersects(bound) && !ext.intersects(left)
	var rest []*cond
	for _, cd := range cross {
		if k, ok := c.hashKey(cd, n.slots()); ok {
			m.keys = append(m.keys, k)
		} else {
			rest = append(rest, cd)
		}
	}
	return filtered(m, rest), false
}

// seekable tells whether a condition that depends on the left side limits the
// first column of the clustered order.
func (n *leafNode) seekable(conds []*cond, left slotSet) bool {
	order := n.table.Order()
	if len(order) == 0 {
		return false
	}
	s := &scanOp{src: n.src, order: order}
	for _, cd := range conds {
		if x, op, ok := s.sideFor(cd, order[0]); ok && op == "=" && x.deps.intersects(left) {
			return true
		}
	}
	return false
}

// nodeDeps are the foreign slots that the sources of a node read.
func nodeDeps(n fromNode) slotSet {
	var s slotSet
	switch x := n.(type) {
	case *leafNode:
		s.addAll(x.deps)
	case *joinNode:
		s.addAll(nodeDeps(x.l))
		s.addAll(nodeDeps(x.r))
		for _, cd := range x.on {
			s.addAll(cd.deps)
		}
		own := x.slots()
		for i := range s {
			if i < len(own) {
				s[i] &^= own[i]
			}
		}
	}
	return s
}
