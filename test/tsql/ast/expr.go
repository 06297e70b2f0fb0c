package ast

import "github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"

// LiteralKind says how a literal was written.
type LiteralKind uint8

// The kinds of literals.
const (
	LitNull    LiteralKind = iota
	LitInteger             // 12 (int, or numeric when it does not fit)
	LitDecimal             // 1.5
	LitFloat               // 1.5e3
	LitMoney               // $1.5
	LitString              // 'x'
	LitNString             // N'x'
	LitBinary              // 0x0A
	LitDefault             // DEFAULT as a value of INSERT, UPDATE or an argument
)

// Literal is a constant. Text is the number as written, the unescaped content of a
// string, or the hex digits of a binary.
type Literal struct {
	Kind LiteralKind
	Text string
}

// Variable is @x or @@x; Name includes the at signs.
type Variable struct {
	Name string
	Line int
}

// ColumnRef is a column with up to three qualifying parts in front
// (schema.table.column). Parts holds them all, the column last.
type ColumnRef struct {
	Parts []string
	Line  int
}

// Column returns the last part.
func (c *ColumnRef) Column() string { return c.Parts[len(c.Parts)-1] }

// Unary is +x, -x, ~x or NOT x.
type Unary struct {
	Op string // "+", "-", "~", "NOT"
	X  Expr
}

// Binary is an arithmetic, comparison or logical operation. Op is one of
// + - * / % & | ^ = <> < <= > >= AND OR.
type Binary struct {
	Op   string
	L, R Expr
}

// IsNull is x IS [NOT] NULL.
type IsNull struct {
	X   Expr
	Not bool
}

// Between is x [NOT] BETWEEN lo AND hi.
type Between struct {
	X, Lo, Hi Expr
	Not       bool
}

// In is x [NOT] IN (list) or (query).
type In struct {
	X     Expr
	List  []Expr
	Query *Query // instead of List
	Not   bool
}

// Like is x [NOT] LIKE pattern [ESCAPE e].
type Like struct {
	X, Pattern, Escape Expr
	Not                bool
}

// Exists is EXISTS (query).
type Exists struct{ Query *Query }

// Quantified is x op ANY|ALL (query).
type Quantified struct {
	X     Expr
	Op    string
	All   bool
	Query *Query
}

// When is one branch of CASE.
type When struct{ Cond, Then Expr }

// Case is CASE [operand] WHEN … THEN … [ELSE …] END.
type Case struct {
	Operand Expr // nil for the searched form; When.Cond is a condition then
	Whens   []When
	Else    Expr // nil: NULL
}

// Cast is CAST(x AS type) or TRY_CAST.
type Cast struct {
	X    Expr
	Type sqltype.Type
	Try  bool
}

// Convert is CONVERT(type, x [, style]) or TRY_CONVERT.
type Convert struct {
	Type  sqltype.Type
	X     Expr
	Style Expr // may be nil
	Try   bool
}

// ParseText is PARSE(x AS type [USING culture]) or TRY_PARSE.
type ParseText struct {
	X       Expr
	Type    sqltype.Type
	Culture Expr // may be nil
	Try     bool
}

// Collate is x COLLATE name.
type Collate struct {
	X         Expr
	Collation string
}

// AtTimeZone is x AT TIME ZONE zone.
type AtTimeZone struct{ X, Zone Expr }

// Call is a function call: scalar, aggregate or window function.
type Call struct {
	Name     ObjectName
	Args     []Expr
	Star     bool // COUNT(*)
	Distinct bool
	Over     *Over     // nil unless a window follows
	Within   []OrderBy // WITHIN GROUP (ORDER BY …)
	Line     int
}

// Over is a window: OVER (PARTITION BY … ORDER BY …).
type Over struct {
	Partition []Expr
	Order     []OrderBy
	Frame     *Frame // ROWS or RANGE clause, nil when absent
}

// FrameBound is one end of a window frame.
type FrameBound uint8

// The bounds of a frame, in row order.
const (
	UnboundedPreceding FrameBound = iota
	Preceding
	CurrentRow
	Following
	UnboundedFollowing
)

// Frame is ROWS|RANGE BETWEEN lo AND hi; LoN and HiN are the n of n PRECEDING.
type Frame struct {
	Rows     bool // else RANGE
	Lo, Hi   FrameBound
	LoN, HiN Expr
}

// OrderBy is one key of an ORDER BY.
type OrderBy struct {
	X    Expr
	Desc bool
}

// Subquery is a scalar subquery.
type Subquery struct{ Query *Query }

func (*Literal) expr()    {}
func (*Variable) expr()   {}
func (*ColumnRef) expr()  {}
func (*Unary) expr()      {}
func (*Binary) expr()     {}
func (*IsNull) expr()     {}
func (*Between) expr()    {}
func (*In) expr()         {}
func (*Like) expr()       {}
func (*Exists) expr()     {}
func (*Quantified) expr() {}
func (*Case) expr()       {}
func (*Cast) expr()       {}
func (*Convert) expr()    {}
func (*ParseText) expr()  {}
func (*Collate) expr()    {}
func (*AtTimeZone) expr() {}
func (*Call) expr()       {}
func (*Subquery) expr()   {}

// IsCondition tells whether an expression is a condition (true, false or
// unknown), which T-SQL does not take for a value.
func IsCondition(e Expr) bool {
	switch x := e.(type) {
	case *IsNull, *Between, *In, *Like, *Exists, *Quantified:
		return true
	case *Unary:
		return x.Op == "NOT"
	case *Binary:
		switch x.Op {
		case "=", "<>", "<", "<=", ">", ">=", "AND", "OR":
			return true
		}
	}
	return false
}
