package ast

// Block is BEGIN … END.
type Block struct {
	Pos
	Body []Statement
}

// If is IF … [ELSE …].
type If struct {
	Pos
	Cond       Expr
	Then, Else Statement // Else may be nil
}

// While is WHILE.
type While struct {
	Pos
	Cond Expr
	Body Statement
}

// Break is BREAK.
type Break struct{ Pos }

// Continue is CONTINUE.
type Continue struct{ Pos }

// Return is RETURN [x].
type Return struct {
	Pos
	X Expr
}

// Try is BEGIN TRY … END TRY BEGIN CATCH … END CATCH.
type Try struct {
	Pos
	Body, Catch []Statement
}

// Throw is THROW [number, message, state].
type Throw struct {
	Pos
	Number, Message, State Expr // all nil: rethrow
}

// Raise is RAISERROR(message, severity, state, args…) [WITH options].
type Raise struct {
	Pos
	Message, Severity, State Expr
	Args                     []Expr
	Options                  []string // upper case: NOWAIT, LOG, SETERROR
}

// PrintStmt is PRINT.
type PrintStmt struct {
	Pos
	X Expr
}

// WaitFor is WAITFOR DELAY or TIME.
type WaitFor struct {
	Pos
	Time bool
	X    Expr
}

// TranKind is what a transaction statement does.
type TranKind uint8

// The transaction statements.
const (
	BeginTran TranKind = iota
	CommitTran
	RollbackTran
	SaveTran
)

// Tran is a transaction statement; Name is empty when none is given. NameVar
// holds a variable that gives the name.
type Tran struct {
	Pos
	Kind          TranKind
	Name, NameVar string
}

// Use is USE.
type Use struct {
	Pos
	Database string
}

// SetOption is SET of a session option: SET NOCOUNT ON, SET LOCK_TIMEOUT 100, SET TRANSACTION ISOLATION
// LEVEL SNAPSHOT (Name TRANSACTION ISOLATION LEVEL), SET IDENTITY_INSERT t ON (Table set).
type SetOption struct {
	Pos
	Names []string   // upper case; several in SET ANSI_NULLS, ANSI_PADDING ON
	Value string     // upper case for words (ON, OFF, SNAPSHOT, READ COMMITTED); the number or string otherwise
	X     Expr       // the value as an expression where it is a literal or a variable, else nil
	Table ObjectName // of IDENTITY_INSERT
}

func (*Block) statement()     {}
func (*If) statement()        {}
func (*While) statement()     {}
func (*Break) statement()     {}
func (*Continue) statement()  {}
func (*Return) statement()    {}
func (*Try) statement()       {}
func (*Throw) statement()     {}
func (*Raise) statement()     {}
func (*PrintStmt) statement() {}
func (*WaitFor) statement()   {}
func (*Tran) statement()      {}
func (*Use) statement()       {}
func (*SetOption) statement() {}
