package tsql

import (
	"context"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// frame is the state of one running statement. Each row source of the statement
// has a slot in rows; compiled expressions read values there.
type frame struct {
	ctx  context.Context
	run  *runner
	rows []sqltype.Row
	env  builtin.Env
}

// evalFn computes a value.
type evalFn func(f *frame) (sqltype.Value, error)

// tri is a truth value.
type tri uint8

const (
	isFalse tri = iota
	isTrue
	isUnknown
)

func triOf(b bool) tri {
	if b {
		return isTrue
	}
	return isFalse
}

func (t tri) not() tri {
	switch t {
	case isFalse:
		return isTrue
	case isTrue:
		return isFalse
	}
	return isUnknown
}

// condFn computes a condition.
type condFn func(f *frame) (tri, error)

// level tells how long the value of an expression holds.
type level uint8

const (
	levelConst level = iota // literals only: for ever
	levelRun                // variables and the clock: for the statement
	levelRow                // columns, subqueries, NEWID
)

// slotSet is a set of slots.
type slotSet []uint64

func (s slotSet) has(slot int) bool {
	return slot/64 < len(s) && s[slot/64]&(1<<(slot%64)) != 0
}

func (s *slotSet) add(slot int) {
	for slot/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[slot/64] |= 1 << (slot % 64)
}

func (s *slotSet) addAll(t slotSet) {
	for len(*s) < len(t) {
		*s = append(*s, 0)
	}
	for i := range t {
		(*s)[i] |= t[i]
	}
}

// intersects tells whether the sets share a slot.
func (s slotSet) intersects(t slotSet) bool {
	for i := range min(len(s), len(t)) {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

func (s slotSet) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// below returns the members that are smaller than slot.
func (s slotSet) below(slot int) slotSet {
	var r slotSet
	for i := range min(slot, len(s)*64) {
		if s.has(i) {
			r.add(i)
		}
	}
	return r
}

// rank tells how binding the collation of an expression is (documentation page
// "Collation precedence").
type rank uint8

const (
	coercible   rank = iota // literals, variables
	implicit                // columns
	noCollation             // a conflict, an error only where it matters
	explicit                // COLLATE
)

// expr is a compiled expression.
type expr struct {
	typ      sqltype.Type
	eval     evalFn
	lvl      level
	deps     slotSet
	nullable bool
	val      sqltype.Value // of a constant
	slot     int           // of a plain column
	column   int           // its ordinal; -1 when the expression is no plain column
	identity bool
	computed bool
	coll     *sqltype.Collation // of text; nil for the default
	rank     rank
	digits   uint8 // of an integer literal: its precision as a decimal
	plain    bool  // a variable: reading it costs nothing
}

func constant(v sqltype.Value, t sqltype.Type) *expr {
	return &expr{typ: t, val: v, lvl: levelConst, column: -1, nullable: v.IsNull(), eval: func(*frame) (sqltype.Value, error) { return v, nil }}
}

// isConst tells whether the value is known already.
func (x *expr) isConst() bool { return x.lvl == levelConst }

// isNullLiteral tells whether it is NULL of no type.
func (x *expr) isNullLiteral() bool { return x.typ.Kind == sqltype.KindNull }

// mayFail marks the result of arithmetic or a conversion: SQL Server declares these
// nullable.
func (x *expr) mayFail() *expr {
	x.nullable = true
	return x
}

// derive makes an expression over others: their slots, the highest level, and
// nullable when one of them is.
func derive(t sqltype.Type, eval evalFn, args ...*expr) *expr {
	r := &expr{typ: t, eval: eval, column: -1}
	for _, a := range args {
		r.deps.addAll(a.deps)
		r.lvl = max(r.lvl, a.lvl)
		r.nullable = r.nullable || a.nullable
	}
	return r
}

// fold computes an expression of constants now. An error stays for the run, where it
// may never be reached.
func (x *expr) fold() *expr {
	if x.lvl != levelConst {
		return x
	}
	v, err := x.eval(nil)
	if err != nil {
		x.lvl = levelRun
		return x
	}
	c := constant(v, x.typ)
	c.coll, c.rank, c.digits = x.coll, x.rank, x.digits
	c.nullable = c.nullable || x.nullable
	return c
}

// cond is a compiled condition.
type cond struct {
	eval condFn
	lvl  level
	deps slotSet
	cmp  *comparison // a simple comparison
	or   []*cond     // the branches of an OR
	and  []*cond     // the parts of an AND
}

// comparison is l op r, where op is one of = <> < <= > >=.
type comparison struct {
	op   string
	l, r *expr
	// common is the type that both sides are compared in.
	common sqltype.Type
	// coll is the collation that text is compared under.
	coll *sqltype.Collation
}
