package tsql

import (
	"context"
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/parse"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// preparedText is a statement of sp_prepare.
type preparedText struct {
	text   string
	params []parse.Parameter
}

// systemProcedure finds the procedures that run text: sp_executesql and the sp_prepare family.
// Clients name their parameters in several ways, so these go by position.
func (r *runner) systemProcedure(name ObjectName) func(context.Context, []*Argument) error {
	if name.Schema != "" && !strings.EqualFold(name.Schema, "sys") && !strings.EqualFold(name.Schema, "dbo") {
		return nil
	}
	switch strings.ToLower(name.Name) {
	case "sp_executesql":
		return r.executeSQL
	case "sp_prepare":
		return r.prepare
	case "sp_prepexec":
		return r.prepExec
	case "sp_execute":
		return r.execute
	case "sp_unprepare":
		return r.unprepare
	}
	return nil
}

// textArg reads a text argument; nil for one that was not given.
func textArg(args []*Argument, i int, name string) (string, error) {
	if i >= len(args) || args[i].Value.IsNull() {
		return "", nil
	}
	if !args[i].Value.Kind().IsText() {
		return "", sqlerr.Make(214, name, "ntext/nchar/nvarchar")
	}
	return args[i].Value.Str(), nil
}

// executeSQL is sp_executesql @statement [, @definition, values …].
func (r *runner) executeSQL(ctx context.Context, args []*Argument) error {
	if len(args) == 0 {
		return sqlerr.Make(201, "sp_executesql", "@statement")
	}
	text, err := textArg(args, 0, "@statement")
	if err != nil {
		return err
	}
	def, err := textArg(args, 1, "@params")
	if err != nil {
		return err
	}
	params, err := parse.Parameters(def)
	if err != nil {
		return err
	}
	return r.withParams(ctx, text, def, params, args[min(2, len(args)):])
}

// withParams runs a text with the values of its parameters.
func (r *runner) withParams(ctx context.Context, text, def string, params []parse.Parameter, values []*Argument) error {
	vars := make([]*Argument, len(params))
	for i, p := range params {
		vars[i] = &Argument{Name: p.Name, Type: p.Type, Output: true}
	}
	given := make([]bool, len(params))
	named := false
	for i, a := range values {
		at := i
		if a.Name != "" && len(params) > 0 {
			named = true
			at = -1
			for j, p := range params {
				if strings.EqualFold(strings.TrimPrefix(p.Name, "@"), strings.TrimPrefix(a.Name, "@")) {
					at = j
				}
			}
			if at < 0 {
				return sqlerr.Make(8145, a.Name, "sp_executesql")
			}
		} else if named {
			return sqlerr.Make(119, i+1)
		}
		if at >= len(params) {
			return sqlerr.Make(8144, "sp_executesql")
		}
		v, err := argumentValue(a, params[at].Type)
		if err != nil {
			return err
		}
		vars[at].Value, given[at] = v, true
	}
	for i, ok := range given {
		if !ok {
			return sqlerr.Make(8178, fmt.Sprintf("(%s)%s", def, text), params[i].Name)
		}
	}
	if err := r.dynamic(ctx, text, vars); err != nil {
		return err
	}
	for i, a := range values {
		at := i
		if a.Name != "" {
			for j, p := range params {
				if strings.EqualFold(strings.TrimPrefix(p.Name, "@"), strings.TrimPrefix(a.Name, "@")) {
					at = j
				}
			}
		}
		if a.Output {
			a.Value, a.Type = vars[at].Value, vars[at].Type
		}
	}
	return nil
}

// store a statement under a new handle, which goes back in the first argument.
func (r *runner) prepareText(args []*Argument) (*preparedText, error) {
	if len(args) < 3 {
		return nil, sqlerr.Make(201, "sp_prepare", "@stmt")
	}
	def, err := textArg(args, 1, "@params")
	if err != nil {
		return nil, err
	}
	text, err := textArg(args, 2, "@stmt")
	if err != nil {
		return nil, err
	}
	params, err := parse.Parameters(def)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	if _, err := r.s.parse(text, names); err != nil {
		return nil, err
	}
	r.s.lastHandle++
	p := &preparedText{text: text, params: params}
	r.s.prepared[r.s.lastHandle] = p
	args[0].Value, args[0].Type, args[0].Output = sqltype.Int(r.s.lastHandle), sqltype.Type{Kind: sqltype.KindInt}, true
	return p, nil
}

// prepare is sp_prepare @handle OUTPUT, @params, @stmt [, @options].
func (r *runner) prepare(_ context.Context, args []*Argument) error {
	_, err := r.prepareText(args)
	return err
}

// prepExec is sp_prepexec @handle OUTPUT, @params, @stmt [, values …].
func (r *runner) prepExec(ctx context.Context, args []*Argument) error {
	p, err := r.prepareText(args)
	if err != nil {
		return err
	}
	return r.withParams(ctx, p.text, "", p.params, args[3:])
}

func (r *runner) handle(args []*Argument) (int32, *preparedText, error) {
	if len(args) == 0 || !args[0].Value.Kind().IsInteger() {
		return 0, nil, sqlerr.Make(214, "@handle", "int")
	}
	h := int32(args[0].Value.Int64())
	p := r.s.prepared[h]
	if p == nil {
		return h, nil, sqlerr.Make(8179, h)
	}
	return h, p, nil
}

// execute is sp_execute @handle [, values …].
func (r *runner) execute(ctx context.Context, args []*Argument) error {
	_, p, err := r.handle(args)
	if err != nil {
		return err
	}
	return r.withParams(ctx, p.text, "", p.params, args[1:])
}

// unprepare is sp_unprepare @handle.
func (r *runner) unprepare(_ context.Context, args []*Argument) error {
	h, _, err := r.handle(args)
	delete(r.s.prepared, h)
	return err
}

// tempTable finds a temporary table by name.
func (s *Session) tempTable(name ObjectName) Table {
	if !strings.HasPrefix(name.Name, "#") {
		return nil
	}
	if t := s.temp[sqltype.DefaultKey(name.Name)]; t != nil {
		return t
	}
	return nil
}

// tempObjectID is what OBJECT_ID gives for a temporary table; they have no ids of their own.
const tempObjectID = -1000585

// hasTemp tells whether a name such as tempdb..#t is that of a temporary table.
func (s *Session) hasTemp(name string) bool {
	parts, ok := builtin.SplitName(name)
	return ok && s.temp[sqltype.DefaultKey(parts[len(parts)-1])] != nil
}

// tempTable executes the statements that define temporary tables; handled is false for
// all others.
func (r *runner) tempTable(st ast.Statement) (handled bool, err error) {
	switch x := st.(type) {
	case *ast.CreateTable:
		if !strings.HasPrefix(x.Name.Name, "#") {
			return false, nil
		}
		key := sqltype.DefaultKey(x.Name.Name)
		if r.s.temp[key] != nil {
			return true, sqlerr.Make(2714, x.Name.Name)
		}
		t, err := newMemTable(ObjectName{Database: "tempdb", Schema: "dbo", Name: x.Name.Name}, x)
		if err == nil {
			r.s.temp[key] = t
		}
		return true, err
	case *ast.Truncate:
		if t := r.s.temp[sqltype.DefaultKey(x.Table.Name)]; t != nil {
			t.rows = nil
			return true, nil
		}
	case *ast.CreateIndex:
		if t := r.s.temp[sqltype.DefaultKey(x.Table.Name)]; t != nil {
			return true, t.addIndex(x)
		}
	case *ast.Drop:
		return r.dropTemp(x)
	}
	return false, nil
}

// dropTemp drops temporary tables; a statement that mixes them with others is refused.
func (r *runner) dropTemp(x *ast.Drop) (bool, error) {
	if x.Kind != ast.ObjTable || len(x.Names) == 0 || !strings.HasPrefix(x.Names[0].Name, "#") {
		return false, nil
	}
	for _, n := range x.Names {
		key := sqltype.DefaultKey(n.Name)
		if r.s.temp[key] == nil && !x.IfExists {
			return true, sqlerr.Make(3701, "drop", "table", n.Name)
		}
		delete(r.s.temp, key)
	}
	return true, nil
}

// addIndex keeps a unique index as a key; other indexes change nothing.
func (t *memTable) addIndex(x *ast.CreateIndex) error {
	if !x.Unique {
		return nil
	}
	c := ast.Constraint{Kind: ast.Unique, Name: x.Name, Columns: x.Columns}
	if err := t.constraint(c); err != nil {
		return err
	}
	return t.unique(t.rows)
}

// ComputedType gives the type of a computed column of a table with these columns.
// The expression may use built-in functions, but none of a host.
func ComputedType(cols []sqltype.Column, e ast.Expr) (sqltype.Type, error) {
	s := NewSession(noHost{})
	c := &compiler{run: &runner{s: s, host: noHost{}, vars: make(map[string]*variable)}}
	c.scope = &scope{sources: []*source{newSource("", ObjectName{}, cols, c.newSlot())}}
	x, err := c.expr(e)
	if err != nil {
		return sqltype.Type{}, err
	}
	return outputType(x.typ), nil
}
