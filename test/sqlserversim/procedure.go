package sqlserversim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// procedure is a system procedure.
type procedure struct {
	schema string // sys or sim
	name   string
	params []tsql.Param
	only   string // the one database that has it (msdb), else ""
	run    func(c *procCall) error
}

// newProcedure makes a procedure from a list of parameters in the form "@name type [= default] [output]". Without a default a
// parameter is required; the default is NULL, a number or a quoted text.
func newProcedure(name, params string, run func(*procCall) error) *procedure {
	p := &procedure{schema: "sys", name: name, run: run}
	depth, start := 0, 0
	take := func(item string) {
		if item = strings.TrimSpace(item); item != "" {
			p.params = append(p.params, parseParam(item))
		}
	}
	for i, r := range params {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				take(params[start:i])
				start = i + 1
			}
		}
	}
	take(params[start:])
	return p
}

func parseParam(item string) tsql.Param {
	item, output := strings.CutSuffix(item, " output")
	decl, def, hasDefault := strings.Cut(item, "=")
	name, typ, _ := strings.Cut(strings.TrimSpace(decl), " ")
	p := tsql.Param{Name: name, Type: typeNamed(strings.TrimSpace(typ)), Output: output}
	if !hasDefault {
		return p
	}
	def = strings.TrimSpace(def)
	v := sqltype.Null()
	if text, ok := strings.CutPrefix(def, "'"); ok {
		v = sqltype.Text(p.Type.Kind, strings.TrimSuffix(text, "'"))
	} else if n, err := strconv.ParseInt(def, 10, 64); err == nil {
		v = sqltype.Integer(p.Type.Kind, n)
	}
	p.Default = &v
	return p
}

// procCall is one execution of a system procedure.
type procCall struct {
	ctx     context.Context
	session *session
	db      *database
	proc    *procedure
	call    *tsql.Call
	status  int32
}

// arg finds an argument by its parameter's name. A wrong name is a slip in this package and gives NULL.
func (c *procCall) arg(name string) sqltype.Value {
	for i, p := range c.proc.params {
		if p.Name == name {
			return c.call.Args[i]
		}
	}
	return sqltype.Null()
}

// set gives an output parameter its value.
func (c *procCall) set(name string, v sqltype.Value) {
	for i, p := range c.proc.params {
		if p.Name == name {
			c.call.Args[i] = v
		}
	}
}

// text is an argument's text without blanks at its end; empty for NULL.
func (c *procCall) text(name string) string { return strings.TrimRight(c.arg(name).Str(), " ") }

// integer is an argument's number; other for NULL.
func (c *procCall) integer(name string, other int64) int64 {
	if v := c.arg(name); !v.IsNull() {
		return v.Int64()
	}
	return other
}

// info sends an informational message.
func (c *procCall) info(e *sqlerr.Error) error { return c.call.Sink.Message(e) }

// rowset sends a rowset; rows adds to it through a view that has the columns.
func (c *procCall) rowset(columns string, rows func(*viewCall) error) error {
	v := &viewCall{view: newView("", c.proc.name, columns, nil), session: c.session, db: c.db, low: math.MinInt64, high: math.MaxInt64}
	if err := rows(v); err != nil {
		return err
	}
	return c.send(v)
}

func (c *procCall) send(v *viewCall) error {
	if err := c.call.Sink.Columns(v.columns); err != nil {
		return err
	}
	for _, r := range v.out {
		if err := c.call.Sink.Row(r); err != nil {
			return err
		}
	}
	return c.call.Sink.Done(tsql.Done{Kind: tsql.DoneSelect, Count: int64(len(v.out)), HasCount: true})
}

// fail raises an error in the name of the procedure, with return status 1.
func (c *procCall) fail(number int32, args ...any) error { return message(number, args...) }

// needOwner asks for db_owner: 22904.
func (c *procCall) needOwner() error {
	r, ok := c.session.rightsIn(c.db)
	if !ok || !r.all {
		return c.fail(22904)
	}
	return nil
}

// needCDC asks for a database with CDC: 22901.
func (c *procCall) needCDC() error {
	if !c.db.cdc().Enabled() {
		return c.fail(22901, c.db.name)
	}
	return nil
}

// Procedure finds a stored procedure: a system one for names without a schema, in sys and in dbo (sp_ names), else a user's.
func (s *session) Procedure(_ context.Context, name tsql.ObjectName) (*tsql.Procedure, error) {
	db, err := s.procedureDatabase(name)
	if err != nil {
		return nil, err
	}
	if o := s.userProcedure(db, name); o != nil {
		if r, _ := s.rightsIn(db); !r.all {
			if ok, _ := r.object(o.securable(), "EXECUTE"); !ok {
				return nil, sqlerr.Denied("EXECUTE", o.name, db.name, o.schema)
			}
		}
		return &tsql.Procedure{Name: tsql.ObjectName{Database: db.name, Schema: o.schema, Name: o.name}, Body: o.proc.stmt}, nil
	}
	schema := cmp.Or(fold(name.Schema), "sys")
	if schema == "sim" {
		return s.controlCall(db, name)
	}
	p, ok := s.srv.catalog.procedures[fold(name.Name)]
	if !ok || schema != "sys" && schema != "dbo" || p.only != "" && !strings.EqualFold(p.only, db.name) {
		return nil, sqlerr.NoProcedure(name)
	}
	return s.systemCall(db, p), nil
}

func (s *session) procedureDatabase(name tsql.ObjectName) (*database, error) {
	if name.Database == "" {
		return s.db, nil
	}
	db := s.srv.database(name.Database)
	if db == nil {
		return nil, sqlerr.NoProcedure(name)
	}
	if _, ok := s.rightsIn(db); !ok {
		return nil, message(916, s.login, db.name)
	}
	return db, nil
}

func (s *session) userProcedure(db *database, name tsql.ObjectName) *object {
	o := db.find(name.Schema, name.Name, s.defaultSchema(db))
	if o == nil || o.proc == nil {
		return nil
	}
	return o
}

func (s *session) systemCall(db *database, p *procedure) *tsql.Procedure {
	return &tsql.Procedure{
		Name: tsql.ObjectName{Schema: p.schema, Name: p.name}, Params: p.params,
		Call: func(ctx context.Context, call *tsql.Call) (int32, error) {
			c := &procCall{ctx: ctx, session: s, db: db, proc: p, call: call}
			s.refreshRights()
			if err := p.run(c); err != nil {
				return 1, s.inProcedure(err, p.schema+"."+p.name)
			}
			return c.status, nil
		},
	}
}

// inProcedure words an error and names the procedure that raised it.
func (s *session) inProcedure(err error, name string) error {
	err = clientError(err, s.spid)
	if e := sqlerr.Of(err); e != nil {
		return e.In(name).At(1)
	}
	return err
}

// createProcedure keeps what CREATE, ALTER and CREATE OR ALTER PROCEDURE give.
func (s *session) createProcedure(stmt *ast.CreateProcedure) error {
	db, err := s.databaseOf(stmt.Name)
	if err != nil {
		return err
	}
	r, _ := s.rightsIn(db)
	if !r.all && !r.names["db_ddladmin"] && !r.database("CREATE PROCEDURE") {
		return message(262, "CREATE PROCEDURE", db.name)
	}
	schema := cmp.Or(stmt.Name.Schema, s.defaultSchema(db))
	if _, ok := db.schemaIDs()[fold(schema)]; !ok {
		return message(2760, schema)
	}
	key := fold(schema + "." + stmt.Name.Name)
	now := s.srv.eng.Now()
	db.mu.Lock()
	defer db.mu.Unlock()
	old, exists := db.procedures[key]
	switch {
	case stmt.Alter && !exists:
		return sqlerr.InvalidObject(stmt.Name)
	case exists && !stmt.Alter && !stmt.OrAlter:
		return message(2714, stmt.Name.Name)
	case exists:
		changed := *old
		changed.stmt, changed.modified = stmt, now
		db.procedures[key] = &changed
		return nil
	}
	db.procedures[key] = &storedProcedure{
		id: db.eng.NewObjectID(), schema: schema, name: stmt.Name.Name, stmt: stmt, created: now, modified: now,
	}
	return nil
}

// printExpr gives an expression as T-SQL.
func printExpr(e ast.Expr) string {
	if e == nil {
		return ""
	}
	return ast.PrintExpr(e, nil)
}

// quoteName is QUOTENAME.
func quoteName(s string) string { return "[" + strings.ReplaceAll(s, "]", "]]") + "]" }

// quoteNames lists names in brackets, joined by a comma and a blank.
func quoteNames(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quoteName(n)
	}
	return strings.Join(quoted, ", ")
}

// errorf makes an error of the simulator itself.
func errorf(format string, args ...any) error {
	return &sqlerr.Error{Number: 50000, Class: 16, State: 1, Message: fmt.Sprintf(format, args...)}
}
