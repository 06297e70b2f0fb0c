package tsql

import (
	"context"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Argument is a parameter of a batch or an argument of a call. Output ones hold
// the new value afterwards.
type Argument struct {
	Name   string // with its at sign; empty for a positional argument of Call
	Type   sqltype.Type
	Value  sqltype.Value
	Output bool
	// Default asks for the parameter's default value (RPC status flag 2).
	Default bool
}

// Session is one client's connection as far as the language is concerned. It is
// not safe for concurrent use.
type Session struct {
	host Host
}

// NewSession makes a session with SQL Server's default options.
func NewSession(host Host) *Session { return &Session{host: host} }

// Reset puts the session's options and counters back to their start (the RESETCONNECTION
// bit of the wire). It touches neither the host's transaction nor its options.
func (s *Session) Reset() {}

// Run executes a batch with the given parameters as variables. Errors of SQL Server go to
// the sink in their place, and Run returns nil for them; what it returns is
// a cancelled ctx, an error of the sink, or an error of the host that is not an *Error.
func (s *Session) Run(ctx context.Context, text string, params []*Argument, sink ResultSink) error {
	return nil
}

// Call executes a procedure as an RPC does: rowsets, then the return status. Output arguments
// get their values. sp_executesql and the sp_prepare family are known by name.
func (s *Session) Call(ctx context.Context, name ObjectName, args []*Argument, sink ResultSink) error {
	return nil
}

// Run executes a batch in a new session.
func Run(ctx context.Context, host Host, text string, params []*Argument, sink ResultSink) error {
	return NewSession(host).Run(ctx, text, params, sink)
}
