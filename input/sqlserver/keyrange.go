package sqlserver

import (
	"database/sql"
	"strings"
)

// keyRange is the rows whose keys lie between two edges.
//
// A comparison of rows in one WHERE clause would seek on the first column only. So the range is cut into pieces that follow
// each other in key order and of which each is one range of the index: for the columns (a, b), from (x, y) to (u, v)
//
//	a = x AND b >= y
//	a > x AND a < u
//	a = u AND b < v
//
// Values at the front that both edges write alike become equalities of all pieces. Values that are written differently can
// still be equal to the server (letter case, trailing blanks). Then the range lies within one value of a: the second and the
// third piece must be empty, and the first must end at the upper edge, which is what their conditions on the other edge are
// for.
type keyRange struct {
	columns      []keyColumn
	lower, upper edge
}

// shared is the number of columns at the front whose values both edges write alike.
func (r keyRange) shared() int {
	n := 0
	for n < len(r.lower.bound) && n < len(r.upper.bound) && sameText(r.lower.bound[n], r.upper.bound[n]) {
		n++
	}
	return n
}

// args are the parameters that the pieces name. What they are called, and how many there are, depends on the shape of the
// pieces only.
func (r keyRange) args() []sql.NamedArg {
	return append(r.lower.args(0), r.upper.args(r.shared())...)
}

// pieces are the conditions, in key order. No pieces mean that no key can be in the range; an empty condition holds always.
func (r keyRange) pieces() []string {
	if r.lower.bound.open() && r.upper.bound.open() {
		return []string{""}
	}
	first, last := r.shared(), len(r.columns)-1
	if first > last {
		if r.lower.inclusive && r.upper.inclusive {
			return []string{and(r.equal(r.lower, 0, last+1)...)}
		}
		return nil
	}
	var pieces []string
	if !r.lower.bound.open() {
		for j := last; j > first; j-- {
			guard, possible := r.below(first)
			if !possible {
				break
			}
			conditions := append(r.equal(r.lower, 0, j), r.greater(r.lower, j, r.lower.inclusive && j == last), guard)
			pieces = append(pieces, and(conditions...))
		}
	}
	pieces = append(pieces, r.middle(first, last)...)
	if !r.upper.bound.open() {
		for j := first + 1; j <= last; j++ {
			pieces = append(pieces, r.upperPieces(first, j, last)...)
		}
	}
	return pieces
}

// middle is the pieces between the two values of the first column that is not shared.
func (r keyRange) middle(first, last int) []string {
	prefix := r.equal(r.lower, 0, first)
	low, afterNull := "", false
	if !r.lower.bound.open() {
		inclusive := r.lower.inclusive && first == last
		low = r.greater(r.lower, first, inclusive)
		afterNull = r.lower.bound[first] != nil || !inclusive
	}
	if r.upper.bound.open() {
		return []string{and(append(prefix, low)...)}
	}
	var pieces []string
	for _, high := range r.less(r.upper, first, r.upper.inclusive && first == last) {
		if high == r.isNull(first) && afterNull {
			continue
		}
		pieces = append(pieces, and(append(prefix[:first:first], low, high)...))
	}
	return pieces
}

// upperPieces are those that share the upper edge's values of the columns before j.
func (r keyRange) upperPieces(first, j, last int) []string {
	conditions := r.equal(r.upper, first, j)
	if first > 0 {
		conditions = append(r.equal(r.lower, 0, first), conditions...)
	}
	if !r.lower.bound.open() {
		conditions = append(conditions, r.greater(r.lower, first, false))
	}
	n := len(conditions)
	var pieces []string
	for _, high := range r.less(r.upper, j, r.upper.inclusive && j == last) {
		pieces = append(pieces, and(append(conditions[:n:n], high)...))
	}
	return pieces
}

// below is the condition that the columns from j on lie below the upper edge; false if they never do.
func (r keyRange) below(j int) (string, bool) {
	if r.upper.bound.open() {
		return "", true
	}
	last := len(r.columns) - 1
	ways := r.less(r.upper, j, r.upper.inclusive && j == last)
	if j < last {
		if rest, possible := r.below(j + 1); possible {
			ways = append(ways, and(append(r.equal(r.upper, j, j+1), rest)...))
		}
	}
	if len(ways) == 0 {
		return "", false
	}
	return "(" + strings.Join(ways, " OR ") + ")", true
}

func (r keyRange) isNull(i int) string { return r.columns[i].name + " IS NULL" }

// value is the expression of an edge's value, which must not be NULL.
func (r keyRange) value(e edge, i int) string { return r.columns[i].typ.read("@" + e.name(i)) }

// equal says that the columns from one up to another have an edge's values.
func (r keyRange) equal(e edge, from, to int) []string {
	var conditions []string
	for i := from; i < to; i++ {
		if e.bound[i] == nil {
			conditions = append(conditions, r.isNull(i))
			continue
		}
		conditions = append(conditions, r.columns[i].name+" = "+r.value(e, i))
	}
	return conditions
}

// greater says that a column lies after an edge's value, or at it. NULL is the least value.
func (r keyRange) greater(e edge, i int, inclusive bool) string {
	switch {
	case e.bound[i] == nil && inclusive:
		return ""
	case e.bound[i] == nil:
		return r.columns[i].name + " IS NOT NULL"
	case inclusive:
		return r.columns[i].name + " >= " + r.value(e, i)
	}
	return r.columns[i].name + " > " + r.value(e, i)
}

// less is the ways in which a column can lie before an edge's value, or at it, in key order.
func (r keyRange) less(e edge, i int, inclusive bool) []string {
	if e.bound[i] == nil {
		if inclusive {
			return []string{r.isNull(i)}
		}
		return nil
	}
	operator := " < "
	if inclusive {
		operator = " <= "
	}
	way := r.columns[i].name + operator + r.value(e, i)
	if r.columns[i].nullable {
		return []string{r.isNull(i), way}
	}
	return []string{way}
}

// and joins conditions, leaving out those that hold always.
func and(conditions ...string) string {
	var kept []string
	for _, condition := range conditions {
		if condition != "" {
			kept = append(kept, condition)
		}
	}
	return strings.Join(kept, " AND ")
}
