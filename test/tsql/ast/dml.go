package ast

import "github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"

// SelectStmt is a query as a statement.
type SelectStmt struct {
	Pos
	Query *Query
}

// Output is an OUTPUT clause. Items refer to inserted and deleted.
type Output struct {
	Items   []SelectItem
	Into    TableSource // nil: to the client
	Columns []string
}

// Insert is INSERT. Exactly one of Rows, Query, Exec and Default is set.
type Insert struct {
	Pos
	With    []CTE
	Top     *Top
	Target  TableSource // TableRef or VariableRef
	Columns []string
	Output  *Output
	Rows    [][]Expr
	Query   *Query
	Exec    *Exec
	Default bool // DEFAULT VALUES
}

// Assignment is one SET item of UPDATE or of MERGE.
type Assignment struct {
	Variable string // @v, alone or in @v = col = x
	Column   []string
	Op       string // "=", "+=", …
	X        Expr
}

// Update is UPDATE.
type Update struct {
	Pos
	With    []CTE
	Top     *Top
	Target  TableSource // a table, a table variable, or an alias of From
	Set     []Assignment
	Output  *Output
	From    []TableSource
	Where   Expr
	Options []string // OPTION(…) as written
}

// Delete is DELETE.
type Delete struct {
	Pos
	With    []CTE
	Top     *Top
	Target  TableSource
	Output  *Output
	From    []TableSource
	Where   Expr
	Options []string // OPTION(…) as written
}

// MergeAction is what a WHEN clause of MERGE does.
type MergeAction struct {
	Matched  bool // WHEN MATCHED; else NOT MATCHED
	BySource bool // NOT MATCHED BY SOURCE
	And      Expr // extra condition, may be nil
	Delete   bool
	Set      []Assignment // UPDATE SET
	Columns  []string     // INSERT columns
	Values   []Expr       // INSERT VALUES
	Insert   bool
}

// Merge is MERGE.
type Merge struct {
	Pos
	With    []CTE
	Target  TableSource
	Source  TableSource
	On      Expr
	Actions []MergeAction
	Output  *Output
	Options []string // OPTION(…) as written
}

// Truncate is TRUNCATE TABLE. The host executes it.
type Truncate struct {
	Pos
	Table ObjectName
}

// Declaration is one variable of DECLARE; Table is set for a table variable.
type Declaration struct {
	Name  string
	Type  sqltype.Type
	Value Expr
	Table *CreateTable // columns only, the name empty
}

// Declare is DECLARE.
type Declare struct {
	Pos
	Vars []Declaration
}

// SetVariable is SET @v = x, also with += and so on.
type SetVariable struct {
	Pos
	Name string
	Op   string
	X    Expr
}

// ExecArg is one argument of EXEC.
type ExecArg struct {
	Name   string // @p, empty when positional
	X      Expr
	Output bool
}

// Exec is EXEC of a procedure, or of a string.
type Exec struct {
	Pos
	Return    string // variable for the return status
	Procedure ObjectName
	Variable  string // procedure named by a variable
	Args      []ExecArg
	Text      Expr // EXEC('…')
}

func (*SelectStmt) statement()  {}
func (*Insert) statement()      {}
func (*Update) statement()      {}
func (*Delete) statement()      {}
func (*Merge) statement()       {}
func (*Truncate) statement()    {}
func (*Declare) statement()     {}
func (*SetVariable) statement() {}
func (*Exec) statement()        {}
