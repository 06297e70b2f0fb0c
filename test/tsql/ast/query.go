package ast

// Query is a whole query expression: WITH, body, ORDER BY, OFFSET … FETCH.
type Query struct {
	Pos
	With          []CTE
	Body          QueryBody
	OrderBy       []OrderBy
	Offset, Fetch Expr     // nil when absent
	Options       []string // OPTION(…) hints as written; all but MAXRECURSION change nothing
}

// CTE is one common table expression.
type CTE struct {
	Name    string
	Columns []string
	Query   *Query
}

// Select is a SELECT without its ORDER BY.
type Select struct {
	Pos
	Distinct bool
	Top      *Top
	Items    []SelectItem
	From     []TableSource // comma separated; usually one
	Where    Expr
	GroupBy  []Expr
	Having   Expr
}

// Top is TOP n [PERCENT].
type Top struct {
	N       Expr
	Percent bool
}

// SelectItem is one item of a select list: an expression with an alias, a star
// (optionally of one source), or an assignment @v = x.
type SelectItem struct {
	X         Expr
	Alias     string
	Star      bool
	Qualifier []string // parts before .* of a star
	Assign    string   // variable name with its at sign
	AssignOp  string   // "=", "+=", …
}

// SetOp combines two bodies. Op is UNION, UNION ALL, EXCEPT or INTERSECT.
type SetOp struct {
	Op   string
	L, R QueryBody
}

// Nested is a query in parentheses as an operand of a set operation.
type Nested struct{ Query *Query }

func (*Select) queryBody() {}
func (*SetOp) queryBody()  {}
func (*Nested) queryBody() {}

// Hint is a table hint: NOLOCK, INDEX(…). Args holds what stood in parentheses.
type Hint struct {
	Name string // upper case
	Args []string
}

// TableRef is a table or view by name.
type TableRef struct {
	Name  ObjectName
	Alias string
	Hints []Hint
	Line  int
}

// VariableRef is a table variable.
type VariableRef struct {
	Name  string // with its at sign
	Alias string
	Line  int
}

// FunctionRef is a table-valued function.
type FunctionRef struct {
	Name    ObjectName
	Args    []Expr
	Alias   string
	Columns []string
	Line    int
}

// Derived is a query in parentheses.
type Derived struct {
	Query   *Query
	Alias   string
	Columns []string
}

// Values is (VALUES (…), (…)) alias(columns).
type Values struct {
	Rows    [][]Expr
	Alias   string
	Columns []string
}

// JoinKind is the kind of a join.
type JoinKind uint8

// The joins.
const (
	InnerJoin JoinKind = iota
	LeftJoin
	RightJoin
	FullJoin
	CrossJoin
	CrossApply
	OuterApply
)

// Join joins two sources.
type Join struct {
	Kind JoinKind
	L, R TableSource
	On   Expr // nil for cross joins and applies
}

func (*TableRef) tableSource()    {}
func (*VariableRef) tableSource() {}
func (*FunctionRef) tableSource() {}
func (*Derived) tableSource()     {}
func (*Values) tableSource()      {}
func (*Join) tableSource()        {}
