package tsql_test

import (
	"context"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// fakeHost is a server in memory: one database whose statements take effect at
// once, with transactions that put copies of the tables back.
type fakeHost struct {
	tables map[string]*fakeTable
	procs  map[string]*ast.CreateProcedure
	funcs  map[string]*tsql.TableFunction
	native map[string]*tsql.Procedure
	now    time.Time
	depth  int
	doomed bool
	saved  []savepoint
	set    []string // SET options seen
	ddl    []string // statements handed over without effect
	scans  []string // bounds of scans
	db     string
}

type savepoint struct {
	name string
	rows map[string][]sqltype.Row
}

func newFakeHost() *fakeHost {
	return &fakeHost{
		tables: make(map[string]*fakeTable), procs: make(map[string]*ast.CreateProcedure),
		funcs: make(map[string]*tsql.TableFunction), native: make(map[string]*tsql.Procedure),
		now: time.Date(2024, 2, 29, 12, 34, 56, 123456700, time.UTC), db: "lab",
	}
}

func key(n tsql.ObjectName) string {
	schema := n.Schema
	if schema == "" {
		schema = "dbo"
	}
	return strings.ToLower(schema + "." + n.Name)
}

func (h *fakeHost) Table(_ context.Context, r tsql.TableRequest) (tsql.Table, error) {
	if t := h.tables[key(r.Name)]; t != nil && (r.Name.Database == "" || strings.EqualFold(r.Name.Database, h.db)) {
		return t, nil
	}
	return nil, sqlerr.InvalidObject(r.Name)
}

func (h *fakeHost) TableFunction(_ context.Context, n tsql.ObjectName) (*tsql.TableFunction, error) {
	if f := h.funcs[key(n)]; f != nil {
		return f, nil
	}
	return nil, sqlerr.InvalidObject(n)
}

func (h *fakeHost) ScalarFunction(n tsql.ObjectName) (*tsql.ScalarFunction, bool) {
	lsn := sqltype.BinaryType(10)
	fixed := func(t sqltype.Type) func([]sqltype.Type) sqltype.Type {
		return func([]sqltype.Type) sqltype.Type { return t }
	}
	switch strings.ToLower(n.Name) {
	case "db_name":
		return &tsql.ScalarFunction{MaxArgs: 1, Result: fixed(sqltype.SysName()), Eval: func(context.Context, []sqltype.Value) (sqltype.Value, error) {
			return sqltype.NVarChar(h.db), nil
		}}, true
	case "object_id":
		return &tsql.ScalarFunction{MinArgs: 1, MaxArgs: 2, Params: []sqltype.Type{sqltype.NVarCharType(776)}, Result: fixed(sqltype.Type{Kind: sqltype.KindInt}),
			Eval: func(_ context.Context, a []sqltype.Value) (sqltype.Value, error) {
				parts := strings.Split(strings.NewReplacer("[", "", "]", "").Replace(a[0].Str()), ".")
				if h.tables[key(ast.Name(parts...))] == nil {
					return sqltype.Null(), nil
				}
				return sqltype.Int(1001), nil
			}}, true
	case "fn_cdc_get_max_lsn":
		return &tsql.ScalarFunction{Result: fixed(lsn), Eval: func(context.Context, []sqltype.Value) (sqltype.Value, error) {
			return sqltype.Binary([]byte{0, 0, 0, 0x2C, 0, 0, 0, 0, 0, 9}), nil
		}}, true
	case "fn_cdc_increment_lsn":
		return &tsql.ScalarFunction{MinArgs: 1, MaxArgs: 1, Params: []sqltype.Type{lsn}, Result: fixed(lsn), Eval: func(_ context.Context, a []sqltype.Value) (sqltype.Value, error) {
			if a[0].IsNull() {
				return a[0], nil
			}
			b := []byte(a[0].Str())
			b[9]++
			return sqltype.Binary(b), nil
		}}, true
	}
	v, ok := cannedFunction(strings.ToLower(n.Name))
	if !ok {
		return nil, false
	}
	t := sqltype.NVarCharType(128)
	if !v.Kind().IsText() {
		t = sqltype.TypeOf(v.Kind())
		if v.Kind() == sqltype.KindBinary {
			t = lsn
		}
	}
	return &tsql.ScalarFunction{MaxArgs: 3, Result: fixed(t), Eval: func(context.Context, []sqltype.Value) (sqltype.Value, error) { return v, nil }}, true
}

// cannedFunction gives the functions that answer the same whatever they are asked.
func cannedFunction(name string) (sqltype.Value, bool) {
	switch name {
	case "current_timezone_id", "suser_sname", "original_login", "object_name", "object_schema_name", "schema_name", "type_name", "databasepropertyex":
		return sqltype.NVarChar("UTC"), true
	case "serverproperty":
		return sqltype.NVarChar("16"), true
	case "has_perms_by_name", "schema_id", "is_member", "is_srvrolemember", "db_id", "col_length":
		return sqltype.Int(1), true
	case "fn_cdc_get_min_lsn", "fn_cdc_map_time_to_lsn", "fn_cdc_decrement_lsn":
		return sqltype.Bytes(sqltype.KindBinary, lsnBytes(1)), true
	}
	return sqltype.Value{}, false
}

func (h *fakeHost) Procedure(_ context.Context, n tsql.ObjectName) (*tsql.Procedure, error) {
	if p := h.procs[key(n)]; p != nil {
		return &tsql.Procedure{Name: p.Name, Body: p}, nil
	}
	if p := h.native[strings.ToLower(n.Name)]; p != nil {
		return p, nil
	}
	return nil, sqlerr.NoProcedure(n)
}

func (h *fakeHost) Variable(name string) (sqltype.Value, sqltype.Type, bool) {
	switch strings.ToUpper(name) {
	case "@@VERSION":
		return sqltype.NVarChar("Fake"), sqltype.NVarCharType(300), true
	case "@@SPID":
		return sqltype.SmallInt(51), sqltype.Type{Kind: sqltype.KindSmallInt}, true
	case "@@SERVERNAME":
		return sqltype.NVarChar("FAKE"), sqltype.SysName(), true
	}
	return sqltype.Value{}, sqltype.Type{}, false
}

func (h *fakeHost) SetOption(_ context.Context, o tsql.SetOption) error {
	h.set = append(h.set, o.Name+" "+o.Value)
	return nil
}

func (h *fakeHost) Use(_ context.Context, db string) error {
	if !strings.EqualFold(db, h.db) && !strings.EqualFold(db, "master") {
		return sqlerr.NoDatabase(db)
	}
	return nil
}

func (h *fakeHost) Now() time.Time    { return h.now }
func (h *fakeHost) Collation() string { return "" }

// Sleep lets WAITFOR move the clock.
func (h *fakeHost) Sleep(_ context.Context, d time.Duration) error {
	h.now = h.now.Add(d)
	return nil
}

func (h *fakeHost) snapshot(name string) savepoint {
	s := savepoint{name: name, rows: make(map[string][]sqltype.Row)}
	for k, t := range h.tables {
		s.rows[k] = t.rows
	}
	return s
}

func (h *fakeHost) restore(s savepoint) {
	for k, rows := range s.rows {
		if t := h.tables[k]; t != nil {
			t.rows = rows
		}
	}
}

func (h *fakeHost) Begin(context.Context, string) error {
	if h.depth == 0 {
		h.saved = []savepoint{h.snapshot("")}
	}
	h.depth++
	return nil
}

func (h *fakeHost) Commit(context.Context, string) error {
	if h.depth == 0 {
		return sqlerr.Make(3902)
	}
	h.depth--
	return nil
}

func (h *fakeHost) Rollback(_ context.Context, name string) error {
	if h.depth == 0 {
		return sqlerr.Make(3903)
	}
	if name == "" {
		h.restore(h.saved[0])
		h.depth, h.doomed = 0, false
		return nil
	}
	for i := len(h.saved) - 1; i > 0; i-- {
		if strings.EqualFold(h.saved[i].name, name) {
			h.restore(h.saved[i])
			return nil
		}
	}
	return sqlerr.Make(6401, name)
}

func (h *fakeHost) Save(_ context.Context, name string) error {
	if h.depth == 0 {
		return sqlerr.Make(628)
	}
	h.saved = append(h.saved, h.snapshot(name))
	return nil
}

func (h *fakeHost) TranCount() int { return h.depth }
func (h *fakeHost) Doom()          { h.doomed = h.depth > 0 }
func (h *fakeHost) Doomed() bool   { return h.doomed }

func (h *fakeHost) DDL(_ context.Context, s ast.Statement) error {
	switch x := s.(type) {
	case *ast.CreateTable:
		if h.tables[key(x.Name)] != nil {
			return sqlerr.Make(2714, x.Name.Name)
		}
		t, err := newFakeTable(h, x)
		if err == nil {
			h.tables[key(x.Name)] = t
		}
		return err
	case *ast.Drop:
		return h.drop(x)
	case *ast.CreateProcedure:
		exists := h.procs[key(x.Name)] != nil
		switch {
		case x.Alter && !exists:
			return sqlerr.New(208, 16, 6, "Invalid object name '%s'.", x.Name)
		case !x.Alter && !x.OrAlter && exists:
			return sqlerr.Make(2714, x.Name.Name)
		}
		h.procs[key(x.Name)] = x
		return nil
	case *ast.Truncate:
		t := h.tables[key(x.Table)]
		if t == nil {
			return sqlerr.Make(4701, x.Table.Name)
		}
		t.rows = nil
		return nil
	}
	h.ddl = append(h.ddl, ast.Print(s))
	return nil
}

func (h *fakeHost) drop(x *ast.Drop) error {
	for _, n := range x.Names {
		if x.Kind == ast.ObjProcedure {
			delete(h.procs, key(n))
			continue
		}
		if h.tables[key(n)] == nil && !x.IfExists && x.Kind == ast.ObjTable {
			return sqlerr.Make(3701, "drop", "table", n.String())
		}
		delete(h.tables, key(n))
	}
	return nil
}
