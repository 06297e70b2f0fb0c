package sqlserversim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Result is what a batch gave in process.
type Result struct {
	Columns  []sqltype.Column // of the first rowset
	Rows     []sqltype.Row
	Affected int64           // sum of the row counts of statements that changed rows
	Messages []*sqlerr.Error // information
}

// Strings gives the rows as text, NULL as "NULL", LSNs and other binaries as 0x….
func (r Result) Strings() [][]string {
	out := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		for _, v := range row {
			text := "NULL"
			if !v.IsNull() {
				text = v.String()
			}
			out[i] = append(out[i], text)
		}
	}
	return out
}

// Exec runs a batch as sa in the default database, in process, without a socket. "USE name" at its start, or three-part names, reach other
// databases. The first SQL error ends it and is returned as an *sqlerr.Error.
func (s *Server) Exec(ctx context.Context, text string) error {
	_, err := s.Query(ctx, text)
	return err
}

// Query is Exec with the first rowset, kept in memory.
func (s *Server) Query(ctx context.Context, text string) (Result, error) {
	return s.QueryAs(ctx, "sa", text)
}

// QueryAs is Query as another login: what it may see and do is what its permissions allow.
func (s *Server) QueryAs(ctx context.Context, login, text string) (Result, error) {
	db := s.database(s.defaultDatabase)
	if s.security.login(login) == nil {
		return Result{}, fmt.Errorf("running a batch: there is no login %s", login)
	}
	if s.security.userOf(db.name, login) == "" {
		return Result{}, message(916, login, db.name)
	}
	ses := s.newSession(login, db)
	defer ses.Close()
	ses.text = text // the DDL history has statements as they were written
	return ses.collect(ctx, text)
}

// collect runs a batch and keeps its results.
func (s *session) collect(ctx context.Context, text string) (Result, error) {
	k := &collector{}
	if err := s.sql.Run(ctx, text, nil, k); err != nil && !errors.Is(err, errStop) {
		return k.result, clientError(err, s.spid)
	}
	return k.result, k.failure()
}

// errStop ends a batch in process after its first error.
var errStop = errors.New("the batch was ended by its first error")

// collector is a sink in memory.
type collector struct {
	result  Result
	rowsets int
	err     *sqlerr.Error
}

func (k *collector) failure() error {
	if k.err == nil {
		return nil
	}
	return k.err
}

// Columns begins a rowset.
func (k *collector) Columns(cols []tsql.ResultColumn) error {
	if k.rowsets++; k.rowsets == 1 {
		k.result.Columns = slices.Clone(cols)
	}
	return nil
}

// Row keeps a row of the first rowset.
func (k *collector) Row(row sqltype.Row) error {
	if k.rowsets == 1 {
		k.result.Rows = append(k.result.Rows, slices.Clone(row))
	}
	return nil
}

// Done counts.
func (k *collector) Done(d tsql.Done) error {
	if d.HasCount && d.Kind != tsql.DoneSelect {
		k.result.Affected += d.Count
	}
	return nil
}

// Message keeps information and ends the batch at an error.
func (k *collector) Message(e *tsql.Error) error {
	if e.IsInfo() {
		k.result.Messages = append(k.result.Messages, e)
		return nil
	}
	k.err = e
	return errStop
}

// ReturnStatus is of no interest here.
func (k *collector) ReturnStatus(int32) error { return nil }

// evaluate gives the value of an expression without columns, for a default.
func (s *session) evaluate(e ast.Expr, to sqltype.Type) (sqltype.Value, error) {
	res, err := s.scratch("SELECT " + printExpr(e))
	if err != nil {
		return sqltype.Null(), err
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return sqltype.Null(), errorf("Default %s gave no single value.", printExpr(e))
	}
	return sqltype.Store(res.Rows[0][0], to)
}

// typeOfComputed gives the type of a computed column over the other columns of its table.
func (s *session) typeOfComputed(e ast.Expr, columns []ast.ColumnDef) (sqltype.Type, error) {
	var casts []string
	for _, c := range columns {
		if c.Computed == nil {
			casts = append(casts, fmt.Sprintf("CAST(NULL AS %s) AS %s", c.Type, quoteName(c.Name)))
		}
	}
	from := ""
	if len(casts) > 0 {
		from = " FROM (SELECT " + strings.Join(casts, ", ") + ") AS t"
	}
	res, err := s.scratch("SELECT " + printExpr(e) + " AS x" + from)
	if err != nil {
		return sqltype.Type{}, err
	}
	return res.Columns[0].Type, nil
}

// scratch runs a batch in a session of its own, beside the present statement.
func (s *session) scratch(text string) (Result, error) {
	side := s.srv.newSession("sa", s.db)
	defer side.Close()
	return side.collect(s.srv.ctx, text)
}
