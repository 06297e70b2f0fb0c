package sqlerr

import "fmt"

// InvalidObject is 208: no table, view or function of that name.
func InvalidObject(name fmt.Stringer) *Error { return Make(208, name.String()) }

// InvalidColumn is 207: no such column.
func InvalidColumn(name string) *Error { return Make(207, name) }

// NoProcedure is 2812: no stored procedure of that name.
func NoProcedure(name fmt.Stringer) *Error { return Make(2812, name.String()) }

// NoDatabase is 911: no such database.
func NoDatabase(name string) *Error { return Make(911, name) }

// MissingParameter is 201: a required parameter was not given.
func MissingParameter(procedure, parameter string) *Error { return Make(201, procedure, parameter) }

// Syntax is 102: the parser stopped at that token.
func Syntax(near string) *Error { return Make(102, near) }

// SyntaxKeyword is 156: the parser stopped at a reserved word.
func SyntaxKeyword(word string) *Error { return Make(156, word) }

// Undeclared is 137: no such variable.
func Undeclared(variable string) *Error { return Make(137, variable) }

// Deadlock is 1205: the session was chosen as the victim. The host has rolled the
// transaction back.
func Deadlock(session int) *Error { return Make(1205, session, "lock") }

// LockTimeout is 1222: SET LOCK_TIMEOUT ran out.
func LockTimeout() *Error { return Make(1222) }

// DuplicateKey is 2627 for a PRIMARY KEY or UNIQUE KEY constraint (kind). Value is the key
// as printed: (1, abc).
func DuplicateKey(kind, constraint, table, value string) *Error {
	return Make(2627, kind, constraint, table, value)
}

// DuplicateIndex is 2601 for a unique index.
func DuplicateIndex(table, index, value string) *Error { return Make(2601, table, index, value) }

// Denied is 229: no right on an object.
func Denied(permission, object, database, schema string) *Error {
	return Make(229, permission, object, database, schema)
}
