package tsql

import (
	"context"
	"iter"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Error is a message of SQL Server; see package sqlerr for the catalogue.
type Error = sqlerr.Error

// ObjectName is a name of one to four parts.
type ObjectName = ast.ObjectName

// Host is the server as one session sees it. The evaluator calls it from one
// goroutine at a time. Errors for the client are *Error values; any other error
// ends the batch and is returned by [Session.Run].
//
// A host may also write INFO messages and environment changes to the sink that
// it gave to Run, while it executes Use, DDL or a transaction statement.
type Host interface {
	Transactions

	// Table finds a base table, view or catalogue view for the given use, under
	// the rights of the session. It returns error 208 when there is none
	// (sqlerr.InvalidObject) and 229 without the right.
	Table(ctx context.Context, ref TableRequest) (Table, error)

	// TableFunction finds a table-valued function such as
	// cdc.fn_cdc_get_all_changes_x; 208 when there is none.
	TableFunction(ctx context.Context, name ObjectName) (*TableFunction, error)

	// ScalarFunction finds a scalar function that needs the server or the
	// session: sys.fn_cdc_get_max_lsn, OBJECT_ID, DB_NAME, SERVERPROPERTY,
	// CURRENT_TIMEZONE_ID … The evaluator asks for every call that is not one of
	// its own (package builtin); with false it raises 195 for an unqualified name and 4121
	// for a qualified one.
	ScalarFunction(name ObjectName) (*ScalarFunction, bool)

	// Procedure finds a stored procedure; 2812 when there is none. sp_executesql, sp_prepare,
	// sp_prepexec, sp_execute and sp_unprepare are the evaluator's own and are
	// not asked for.
	Procedure(ctx context.Context, name ObjectName) (*Procedure, error)

	// Variable gives a global variable (@@VERSION, @@SPID; the name includes the
	// at signs, in any case). The evaluator keeps @@ROWCOUNT, @@ERROR, @@IDENTITY,
	// @@TRANCOUNT, @@NESTLEVEL, @@PROCID, @@FETCH_STATUS, @@DATEFIRST and
	// @@OPTIONS itself.
	Variable(name string) (sqltype.Value, sqltype.Type, bool)

	// SetOption is told every SET option once it is executed, after the evaluator
	// took note of those it keeps (NOCOUNT, XACT_ABORT, ROWCOUNT, DATEFIRST,
	// DATEFORMAT, IMPLICIT_TRANSACTIONS, IDENTITY_INSERT, ANSI_* and so on). Name
	// is upper case: LOCK_TIMEOUT, TRANSACTION ISOLATION LEVEL. Value is the word in upper
	// case, or the number or text. An unknown name never gets here: the
	// parser knows the list.
	SetOption(ctx context.Context, opt SetOption) error

	// Use changes the current database; 911 when there is none.
	Use(ctx context.Context, database string) error

	// DDL executes a statement that the evaluator leaves to the host: *ast.CreateTable,
	// AlterTable, CreateIndex, Drop, CreateSchema, CreateDatabase, AlterDatabase,
	// CreatePrincipal, AlterPrincipal, GrantStmt, CreateProcedure, Truncate, Kill
	// and Checkpoint. The tree may be kept.
	DDL(ctx context.Context, stmt ast.Statement) error

	// Now is the present time in the server's time zone.
	Now() time.Time

	// Collation is the name of the current database's collation, empty for
	// [sqltype.DefaultCollation].
	Collation() string
}

// Transactions is the session's transaction state.
type Transactions interface {
	// Begin starts a transaction or adds a level to the one that is open.
	Begin(ctx context.Context, name string) error
	// Commit ends a level, and the transaction with the last one; 3902 without one.
	Commit(ctx context.Context, name string) error
	// Rollback ends the whole transaction, or goes back to the savepoint of that
	// name; 3903 without a transaction, 6401 for an unknown name.
	Rollback(ctx context.Context, name string) error
	// Save sets a savepoint; 628 without a transaction.
	Save(ctx context.Context, name string) error
	// TranCount is @@TRANCOUNT.
	TranCount() int
	// Doom makes the open transaction uncommittable: only Rollback will do. It
	// does nothing without a transaction.
	Doom()
	// Doomed tells whether the open transaction is uncommittable (XACT_STATE -1).
	Doomed() bool
}

// StatementObserver is an optional interface of a Host: it brackets each
// statement that reads or changes tables (one snapshot for READ COMMITTED
// SNAPSHOT, fault injection by statement text). When StatementStart fails, the
// statement fails with its error. StatementEnd is called once for each
// successful start, with the statement's error. Brackets nest where a statement runs
// others: INSERT … EXEC.
type StatementObserver interface {
	StatementStart(ctx context.Context, text string, stmt ast.Statement) error
	StatementEnd(ctx context.Context, err error)
}

// Access is what a statement wants to do with a table.
type Access uint8

// The uses of a table.
const (
	AccessSelect Access = iota
	AccessInsert
	AccessUpdate
	AccessDelete
)

// TableRequest asks for a table.
type TableRequest struct {
	Name   ObjectName
	Hints  []ast.Hint
	Access Access
}

// Hinted tells whether a table hint is given (name in upper case).
func (r TableRequest) Hinted(name string) bool {
	for _, h := range r.Hints {
		if h.Name == name {
			return true
		}
	}
	return false
}

// SetOption is one SET option.
type SetOption struct {
	Name  string
	Value string
	Table ObjectName // of IDENTITY_INSERT
}

// Table is something that rows can be read from. It must stay valid until the
// statement ends.
type Table interface {
	// Name is the full name: database, schema and object, for messages.
	Name() ObjectName
	// Columns lists the columns. The result does not change.
	Columns() []sqltype.Column
	// Order gives the ordinals of the columns in whose ascending order Scan
	// yields rows, the clustered key; nil when there is no order.
	Order() []int
	// Unique tells how many leading columns of Order are enough to name one row
	// at most; 0 when the order is not unique.
	Unique() int
	// Scan yields the rows within the bounds of spec, exactly those: the
	// evaluator does not check a bound again. A yielded row has one value per
	// column of the table, but only those in spec.Columns need be there. The slice is
	// reused: it is valid until the next row, its values may be kept. An error ends the
	// sequence. Nested scans of one table must be possible. Rows of a computed
	// column need no value when [Definition] gives its expression.
	Scan(ctx context.Context, spec ScanSpec) iter.Seq2[sqltype.Row, error]
}

// Bound limits a scan to one side. Values are for the first len(Values)
// columns of Order, never NULL, of a kind that compares with the column
// (text and binary of any length, integers of any size). No values: no limit.
//
// A row is compared on these columns only: with the key (a, b) and the upper
// bound (5) inclusive, every row with a = 5 is inside, with exclusive none.
type Bound struct {
	Values    []sqltype.Value
	Inclusive bool
}

// ScanSpec says which rows of a table are needed.
type ScanSpec struct {
	Lower, Upper Bound
	// Columns are the ordinals that will be read; nil means all of them.
	Columns []int
	// Update is set when the rows will be changed (update locks).
	Update bool
}

// ReverseScanner is an optional interface of a Table that can yield its rows
// in descending Order too. The bounds mean the same as for Scan.
type ReverseScanner interface {
	ScanReverse(ctx context.Context, spec ScanSpec) iter.Seq2[sqltype.Row, error]
}

// Definition is an optional interface of a Table with defaults, computed
// columns or CHECK constraints. The evaluator computes them; the tree comes from
// the CREATE TABLE that the host was given.
type Definition interface {
	// Default is the default expression of a column, or nil.
	Default(column int) ast.Expr
	// Computed is the expression of a computed column, or nil: then the row holds the value.
	Computed(column int) ast.Expr
	// Checks are the CHECK constraints.
	Checks() []CheckConstraint
}

// CheckConstraint is a condition that new rows must not make false.
type CheckConstraint struct {
	Name   string
	Column string // of a column constraint, empty for the table's
	Expr   ast.Expr
}

// InsertSpec describes an insert.
type InsertSpec struct {
	// Columns are the ordinals of the values in each row. Values are converted,
	// defaults are filled in and NULLs checked. Identity columns (unless IDENTITY_INSERT
	// is on), rowversion and computed columns are not among them.
	Columns []int
	// Inserted, if not nil, is called with each whole row as stored, in order,
	// after it got its identity and rowversion.
	Inserted func(sqltype.Row) error
}

// InsertResult is what an insert did.
type InsertResult struct {
	Count    int64
	Identity sqltype.Value // last identity given, NULL without one
}

// Inserter is a Table that takes rows. Insert is one atomic statement: on an
// error (2627, 2601, 547 …) nothing of it remains. The row slice given by rows is
// reused.
type Inserter interface {
	Insert(ctx context.Context, spec InsertSpec, rows iter.Seq2[sqltype.Row, error]) (InsertResult, error)
}

// Updater is a Table whose rows can change. Update scans spec and calls change for
// each row before anything is changed; change returns the values for the
// columns set (a slice that it reuses) or false to leave the row alone.
// Updated, if not nil, is called after the change with each row before and after.
// The statement is atomic. It returns the number of rows changed.
type Updater interface {
	Update(ctx context.Context, spec UpdateSpec) (int64, error)
}

// UpdateSpec describes an update.
type UpdateSpec struct {
	Scan    ScanSpec
	Set     []int
	Change  func(old sqltype.Row) (values sqltype.Row, ok bool, err error)
	Updated func(before, after sqltype.Row) error
}

// Deleter is a Table whose rows can go. Delete scans spec and calls Match for
// each row before anything is deleted. Deleted, if not nil, gets each deleted
// row. The statement is atomic. It returns the number of rows deleted.
type Deleter interface {
	Delete(ctx context.Context, spec DeleteSpec) (int64, error)
}

// DeleteSpec describes a delete.
type DeleteSpec struct {
	Scan    ScanSpec
	Match   func(row sqltype.Row) (bool, error)
	Deleted func(row sqltype.Row) error
}

// TableFunction is a table-valued function. The zero value of Order means no
// order; Scan obeys the same rules as [Table.Scan].
type TableFunction struct {
	Name    ObjectName
	Params  []Param
	Columns []sqltype.Column
	Order   []int
	Scan    func(ctx context.Context, args []sqltype.Value, spec ScanSpec) iter.Seq2[sqltype.Row, error]
}

// Param is a formal parameter of a function or procedure.
type Param struct {
	Name    string // with its at sign
	Type    sqltype.Type
	Default *sqltype.Value // nil: required
	Output  bool           // procedures only
}

// ScalarFunction is a scalar function of the host.
type ScalarFunction struct {
	// MinArgs and MaxArgs bound the number of arguments; MaxArgs -1 means any.
	// Outside, the evaluator raises 174 or 189.
	MinArgs, MaxArgs int
	// Params, where given, are the types that arguments are converted to.
	Params []sqltype.Type
	// Result is the type of the result given those of the arguments.
	Result func(args []sqltype.Type) sqltype.Type
	// Eval computes the result, of the type that Result gave. The args slice is reused.
	Eval func(ctx context.Context, args []sqltype.Value) (sqltype.Value, error)
}

// Procedure is a stored procedure: native (Call) or written in T-SQL (Body).
type Procedure struct {
	Name   ObjectName
	Params []Param
	Call   func(ctx context.Context, call *Call) (status int32, err error)
	Body   *ast.CreateProcedure // its Params take the place of Params
}

// Call is one execution of a native procedure.
type Call struct {
	// Args are the arguments in the order of Procedure.Params, converted to their types,
	// defaults filled in. The procedure writes output parameters here.
	Args []sqltype.Value
	// Given tells which arguments the caller gave.
	Given []bool
	// Sink takes the procedure's rowsets and messages. Close each rowset with Done.
	Sink ResultSink
	// Session runs more T-SQL on behalf of the procedure, if it wants to.
	Session *Session
}

// DoneKind is the kind of statement that ended.
type DoneKind uint8

// The kinds of statements that report their end.
const (
	DoneOther DoneKind = iota // DDL, SET and everything else
	DoneSelect
	DoneInsert
	DoneUpdate
	DoneDelete
	DoneMerge
	DoneBegin
	DoneCommit
	DoneRollback
	DoneSave
	DoneExec
)

// Done tells that a statement ended. HasCount is false where SQL Server sends no
// count: no rows to count, or SET NOCOUNT ON.
type Done struct {
	Kind     DoneKind
	Count    int64
	HasCount bool
	Failed   bool // the statement ended with an error
	InProc   bool // a statement of a procedure or of EXEC ('text'), at any depth; not the outermost EXEC itself
}

// ResultColumn describes a column of a rowset. Its name may be empty.
type ResultColumn = sqltype.Column

// ResultSink takes the results of a batch in order. An error from any method ends
// the batch and comes back from Run.
type ResultSink interface {
	// Columns begins a rowset. Done ends it.
	Columns(cols []ResultColumn) error
	// Row is a row of the present rowset, valid until Row returns.
	Row(row sqltype.Row) error
	// Done ends a statement.
	Done(d Done) error
	// Message is an error (class 11 and up) or information (PRINT, class 0 to 10).
	Message(e *Error) error
	// ReturnStatus is the return status of a procedure: of [Session.Call], or of an EXEC of the batch, whose Done follows.
	// EXEC ('text') has the status 0. Calls inside a procedure report none.
	ReturnStatus(status int32) error
}
