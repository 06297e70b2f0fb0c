package engine

import (
	"errors"
	"fmt"
	"strings"
)

// Error is an error of SQL Server that the engine raises: its number and the values that go into its text. The layer above
// knows the text, the class and the state. Args are strings, int64 or [LSN], in the order of the text's placeholders; the
// numbers are the constants below, each with its arguments.
type Error struct {
	Number int32
	Args   []any
}

// Error names the number and the arguments; it is not SQL Server's text.
func (e *Error) Error() string {
	parts := make([]string, len(e.Args))
	for i, a := range e.Args {
		parts[i] = fmt.Sprint(a)
	}
	text := fmt.Sprintf("sql error %d", e.Number)
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// Is tells whether target is an Error of the same number.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Number == e.Number
}

// Number gives the number of the Error in err's chain, or 0.
func Number(err error) int32 {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Number
	}
	return 0
}

// ErrDefinitionChanged is returned when a table was altered between the moment that the caller bound a statement to its
// definition and the moment that the statement ran. Bind again and repeat.
var ErrDefinitionChanged = errors.New("the table's definition has changed since the statement was bound to it")

func fail(number int32, args ...any) *Error { return &Error{Number: number, Args: args} }

// The numbers that the engine raises, with their arguments.
const (
	ErrInvalidColumn        = 207   // column
	ErrInvalidObject        = 208   // object, as schema.name
	ErrFunctionRange        = 313   // function, literally "cdc.fn_cdc_get_all_changes_ ... "
	ErrNullNotAllowed       = 515   // column, table as database.schema.table, INSERT or UPDATE
	ErrIdentityOff          = 544   // table
	ErrIdentityUpdate       = 8102  // column
	ErrDeadlock             = 1205  // (none; the layer above fills in the session)
	ErrLockTimeout          = 1222  //
	ErrDatabaseExists       = 1801  // database
	ErrDuplicateIndex       = 2601  // schema.table, index, key values as text
	ErrDuplicateKey         = 2627  // "PRIMARY KEY" or "UNIQUE KEY", constraint, schema.table, key values as text
	ErrColumnExists         = 2705  // column, table
	ErrObjectExists         = 2714  // object
	ErrSchemaMissing        = 2760  // schema
	ErrCannotDrop           = 3701  // "drop", kind ("table", "database", "index", "schema"), name
	ErrReadOnlyDatabase     = 3906  // database
	ErrSnapshotNotAllowed   = 3952  // database
	ErrSnapshotConflict     = 3960  // schema.table, database
	ErrSnapshotDDL          = 3961  // database
	ErrTruncateTracked      = 4711  // schema.table
	ErrAlterColumnMissing   = 4924  // "ALTER TABLE …" column, table
	ErrAlterReplicated      = 4928  // column, "REPLICATED"
	ErrAddNotNull           = 4901  // column, table
	ErrColumnDependent      = 5074  // "object" or "index" that depends, its name, column, "DROP COLUMN" or "ALTER COLUMN" (for 4922 after it)
	ErrColumnInUse          = 4922  // "DROP COLUMN" or "ALTER COLUMN", column
	ErrTruncated            = 2628  // table, column, value
	ErrDuplicateBuild       = 1505  // schema.table, index, key values as text
	ErrSecondClustered      = 1902  // schema.table, the clustered index it has
	ErrIndexColumn          = 1911  // column
	ErrIndexExists          = 1913  // index, schema.table
	ErrLogFull              = 9002  // database, reason (log_reuse_wait_desc)
	ErrSchemaNotEmpty       = 3729  // schema, object in it
	ErrLOBTooLong           = 7139  // bytes, limit
	ErrThreshold            = 22850 //
	ErrIndexNullable        = 22838 // index, schema, table
	ErrNotEnabled           = 22901 // database
	ErrScanBusy             = 22903 // session id
	ErrAlreadyEnabled       = 22905 // database (class 10)
	ErrCDCSchemaExists      = 22906 // database
	ErrCleanupNotEnabled    = 22910 // database
	ErrInstanceUnknown      = 22920 // instance, database
	ErrInstanceTaken        = 22926 // instance
	ErrInstanceTooLong      = 22927 // instance
	ErrIndexUnknown         = 22928 // index, schema, table
	ErrIndexNotUnique       = 22929 // index, schema, table
	ErrSourceMissing        = 22931 // schema, table
	ErrNetChangesNoKey      = 22939 //
	ErrCapturedList         = 22942 // schema, table
	ErrKeyNotCaptured       = 22943 //
	ErrOutsideTimeline      = 22957 // LSN, instance, low LSN, high LSN
	ErrInstanceNotEnabled   = 22960 // instance, schema, table
	ErrTwoInstances         = 22962 // schema, table
	ErrParameterEmpty       = 22963 // parameter
	ErrNotMappingEntry      = 22964 // LSN
	ErrCDCSchemaTable       = 22974 //
	ErrReservedColumn       = 22975 // table
	ErrConstraintUsed       = 22979 // index, table
	ErrIndexUsed            = 22983 // index, table
	ErrTransactionEnded     = 3902  //
	ErrSessionKilled        = 596   //
	ErrDatabaseShuttingDown = 983   // database
)
