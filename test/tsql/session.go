package tsql

import (
	"context"
	"errors"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/parse"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
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
	host          Host
	opt           options
	rowCount      int64
	lastError     int32
	identity      sqltype.Value
	scopeIdentity sqltype.Value
	collations    map[string]*sqltype.Collation
	temp          map[string]*memTable
	prepared      map[int32]*preparedText
	lastHandle    int32
	cache         map[string]*ast.Batch
}

// options are the SET options that the evaluator keeps.
type options struct {
	noCount, xactAbort, implicitTransactions bool
	quotedOff, noExec, parseOnly, fmtOnly    bool
	identityInsert                           string // lower-case full name of the table
	rowCount                                 int64
	textSize                                 int64
	dateFirst                                int
}

func defaultOptions() options { return options{dateFirst: 7, textSize: -1} }

// bits is @@OPTIONS.
func (o *options) bits() int32 {
	n := int32(8 | 16 | 32 | 64 | 256 | 1024 | 4096) // ANSI defaults
	if o.quotedOff {
		n &^= 256
	}
	if o.noCount {
		n |= 512
	}
	if o.xactAbort {
		n |= 16384
	}
	if o.implicitTransactions {
		n |= 2
	}
	return n
}

// NewSession makes a session with SQL Server's default options.
func NewSession(host Host) *Session {
	s := &Session{host: host}
	s.Reset()
	return s
}

// Reset puts the session's options and counters back to their start and drops
// temporary tables and prepared statements (the RESETCONNECTION bit of the
// wire). It touches neither the host's transaction nor its options.
func (s *Session) Reset() {
	*s = Session{host: s.host, opt: defaultOptions(), collations: make(map[string]*sqltype.Collation),
		temp: make(map[string]*memTable), prepared: make(map[int32]*preparedText), cache: make(map[string]*ast.Batch)}
}

// errBatch ends a batch quietly: its error went to the sink already. errScope
// ends the present procedure or dynamic batch only.
var (
	errBatch = errors.New("batch ended")
	errScope = errors.New("scope ended")
)

// Run executes a batch with the given parameters as variables. Errors of SQL Server go to
// the sink in their place, and Run returns nil for them; what it returns is
// a cancelled ctx, an error of the sink, or an error of the host that is not an *Error.
func (s *Session) Run(ctx context.Context, text string, params []*Argument, sink ResultSink) error {
	r := &runner{s: s, host: s.host, sink: sink, vars: make(map[string]*variable)}
	return s.top(ctx, r, func() error { return r.batch(ctx, text, params) })
}

// Call executes a procedure as an RPC does: rowsets, then the return status. Output arguments
// get their values. sp_executesql and the sp_prepare family are known by name.
func (s *Session) Call(ctx context.Context, name ObjectName, args []*Argument, sink ResultSink) error {
	r := &runner{s: s, host: s.host, sink: sink, vars: make(map[string]*variable)}
	return s.top(ctx, r, func() error {
		status, err := r.call(ctx, name, args)
		if err != nil {
			return err
		}
		return sink.ReturnStatus(status)
	})
}

// top runs a batch of the client. A doomed transaction does not survive it (3998).
func (s *Session) top(ctx context.Context, r *runner, fn func() error) error {
	err := r.finish(fn())
	if s.host.TranCount() > 0 && s.host.Doomed() {
		if e := s.host.Rollback(ctx, ""); e != nil && err == nil {
			err = e
		}
		if err == nil {
			err = sink3998(r.sink)
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

func sink3998(sink ResultSink) error {
	if err := sink.Message(sqlerr.Make(3998).At(1)); err != nil {
		return err
	}
	return sink.Done(Done{Kind: DoneOther, Failed: true})
}

// finish turns the end of a batch into what Run returns: an *Error that nobody
// reported yet goes to the sink.
func (r *runner) finish(err error) error {
	var ret *returnSignal
	if err == nil || errors.Is(err, errBatch) || errors.Is(err, errScope) || errors.As(err, &ret) {
		return nil
	}
	if e := sqlerr.Of(err); e != nil {
		return r.report(e)
	}
	return err
}

// report sends an error with the end of its statement.
func (r *runner) report(e *Error) error {
	r.s.lastError = e.Number
	if err := r.sink.Message(e); err != nil {
		return err
	}
	return r.end(Done{Kind: DoneOther, Failed: true})
}

// Run executes a batch in a new session.
func Run(ctx context.Context, host Host, text string, params []*Argument, sink ResultSink) error {
	return NewSession(host).Run(ctx, text, params, sink)
}

// maxCached is the number of parsed batches that a session keeps.
const maxCached = 64

// parse reads a batch, from the cache if it was read before.
func (s *Session) parse(text string, variables []string) (*ast.Batch, error) {
	key := text + "\x00" + strings.ToLower(strings.Join(variables, ","))
	if s.opt.quotedOff {
		key += "\x00q"
	}
	if b := s.cache[key]; b != nil {
		return b, nil
	}
	b, err := parse.Batch(text, parse.Options{QuotedIdentifierOff: s.opt.quotedOff, Variables: variables})
	if err != nil {
		return nil, err
	}
	if len(s.cache) >= maxCached {
		clear(s.cache)
	}
	s.cache[key] = b
	return b, nil
}

// batch parses and executes the text of a client or of EXEC('…').
func (r *runner) batch(ctx context.Context, text string, params []*Argument) error {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
		v, err := sqltype.Convert(p.Value, p.Type, sqltype.DefaultStyle)
		if err != nil {
			return err
		}
		r.vars[sqltype.DefaultKey(p.Name)] = &variable{typ: p.Type, val: v}
	}
	r.text = text
	b, err := r.s.parse(text, names)
	if err != nil {
		return r.compileError(err)
	}
	if r.s.opt.parseOnly {
		return nil
	}
	err = r.statements(ctx, b.Statements)
	for _, p := range params {
		if p.Output {
			p.Value = r.vars[sqltype.DefaultKey(p.Name)].val
		}
	}
	return err
}

// compileError is the error of a batch that was refused whole. In a dynamic batch it
// ends that one only.
func (r *runner) compileError(err error) error {
	e := sqlerr.Of(err)
	if e == nil {
		return err
	}
	e = e.In(r.procedure)
	if r.nesting == 0 || r.tryDepth > 0 {
		return &abortError{err: e}
	}
	if err := r.report(e); err != nil {
		return err
	}
	return errScope
}
