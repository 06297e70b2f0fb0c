// Package sqlerr holds SQL Server's messages: the error value that travels
// from the evaluator and its host to the client, and constructors for the
// catalogue, with SQL Server's numbers, classes, states and texts.
//
// Texts and classes follow sys.messages as listed in Microsoft's page "Database
// Engine events and errors". States are those that servers are seen to send;
// where none is known the state is 1.
package sqlerr

import (
	"errors"
	"fmt"
)

// Error is one message of SQL Server: an error from class 11 on, information
// up to class 10. The zero Line and the empty Procedure mean "not yet known":
// the evaluator fills them with the place of the statement.
//
// An Error is a value to read; whoever wants to change a shared one copies it.
type Error struct {
	Number    int32
	State     uint8
	Class     uint8
	Message   string
	Line      int32  // 1-based line in the batch or procedure; 0 when unknown
	Procedure string // empty outside a procedure
}

// Error gives the message in the form that sqlcmd prints.
func (e *Error) Error() string {
	if e.Procedure != "" {
		return fmt.Sprintf("Msg %d, Level %d, State %d, Procedure %s, Line %d: %s",
			e.Number, e.Class, e.State, e.Procedure, e.Line, e.Message)
	}
	return fmt.Sprintf("Msg %d, Level %d, State %d, Line %d: %s",
		e.Number, e.Class, e.State, e.Line, e.Message)
}

// New makes an error; the message is formatted with args when there are any.
func New(number int32, class, state uint8, format string, args ...any) *Error {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return &Error{Number: number, Class: class, State: state, Message: format}
}

// Info makes an informational message of class 0 (what PRINT sends).
func Info(format string, args ...any) *Error { return New(0, 0, 1, format, args...) }

// Of finds the Error in err's chain, or nil.
func Of(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return nil
}

// IsNumber tells whether err is an Error with that number.
func IsNumber(err error, number int32) bool {
	e := Of(err)
	return e != nil && e.Number == number
}

// At returns a copy of the error with the line set, unless it has one already.
func (e *Error) At(line int) *Error {
	if e.Line != 0 || line == 0 {
		return e
	}
	c := *e
	c.Line = int32(line)
	return &c
}

// In returns a copy that names the procedure, unless one is named already.
func (e *Error) In(procedure string) *Error {
	if e.Procedure != "" || procedure == "" {
		return e
	}
	c := *e
	c.Procedure = procedure
	return &c
}

// IsInfo tells whether the message is information (class 10 or less).
func (e *Error) IsInfo() bool { return e.Class <= 10 }
