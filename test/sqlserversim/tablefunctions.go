package sqlserversim

import (
	"context"
	"iter"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// TableFunction finds a table-valued function: the query functions of CDC and a few of sys.
func (s *session) TableFunction(_ context.Context, name tsql.ObjectName) (*tsql.TableFunction, error) {
	db, err := s.databaseOf(name)
	if err != nil {
		return nil, err
	}
	if f := s.systemTableFunction(name); f != nil {
		return f, nil
	}
	if o := db.find(name.Schema, name.Name, s.defaultSchema(db)); o != nil && o.kind == kindInlineFunc {
		return s.changeFunction(db, o), nil
	}
	return nil, sqlerr.InvalidObject(name)
}

// functionName is the name that message 229 gives for the query functions: dots instead of the instance [D].
func functionName(net bool) string {
	if net {
		return "fn_cdc_get_net_changes_..."
	}
	return "fn_cdc_get_all_changes_..."
}

// changeFunction is cdc.fn_cdc_get_all_changes_<ci> or cdc.fn_cdc_get_net_changes_<ci>. A caller who is not in the gating role or may not
// select a captured source column gets 229 [D].
func (s *session) changeFunction(db *database, o *object) *tsql.TableFunction {
	lsn := binary10()
	f := &tsql.TableFunction{
		Name: tsql.ObjectName{Database: db.name, Schema: "cdc", Name: o.name},
		Params: []tsql.Param{
			{Name: "@from_lsn", Type: lsn}, {Name: "@to_lsn", Type: lsn}, {Name: "@row_filter_option", Type: sqltype.NVarCharType(30)},
		},
		Columns: functionColumns(o.instance, o.net),
		Order:   []int{0},
	}
	f.Scan = func(ctx context.Context, args []sqltype.Value, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
		return func(yield func(sqltype.Row, error) bool) {
			rows, err := s.openChanges(db, o, args, spec)
			if err != nil {
				yield(nil, err)
				return
			}
			n := 0
			for rows.Next() {
				row := rows.Row()
				if !within(row[0], spec) {
					continue
				}
				if !yield(row, nil) {
					return
				}
				if n++; n%cancelEvery == 0 && ctx.Err() != nil {
					yield(nil, context.Cause(ctx))
					return
				}
			}
		}
	}
	return f
}

// rowCursor is what both of the engine's cursors are.
type rowCursor interface {
	Next() bool
	Row() sqltype.Row
}

func (s *session) openChanges(db *database, o *object, args []sqltype.Value, spec tsql.ScanSpec) (rowCursor, error) {
	if err := s.snapshotAllowed(db); err != nil {
		return nil, err
	}
	v := s.view(db)
	i, ok := v.Instance(o.instance.Name)
	if !ok {
		return nil, invalidObject("cdc." + o.name)
	}
	if !s.mayReadSource(db, i) {
		return nil, sqlerr.Denied("SELECT", functionName(o.net), db.name, "cdc")
	}
	columns := spec.Columns
	if columns != nil && (len(spec.Lower.Values) > 0 || len(spec.Upper.Values) > 0) {
		columns = append([]int{0}, columns...) // the bounds are checked here
	}
	from, to := lsnPointer(args[0]), lsnPointer(args[1])
	filter := args[2].Str()
	if o.net {
		c, err := v.NetChanges(i.Name, from, to, filter, columns)
		return c, clientError(err, s.spid)
	}
	c, err := v.AllChanges(i.Name, from, to, filter, columns)
	return c, clientError(err, s.spid)
}

func lsnPointer(v sqltype.Value) *engine.LSN {
	if v.IsNull() {
		return nil
	}
	l := lsnArgument(v)
	return &l
}

// within tells whether a start LSN is inside the bounds of a scan in its order.
func within(lsn sqltype.Value, spec tsql.ScanSpec) bool {
	if b := spec.Lower; len(b.Values) > 0 {
		if c := sqltype.CompareBytes(lsn.Str(), b.Values[0].Str()); c < 0 || c == 0 && !b.Inclusive {
			return false
		}
	}
	if b := spec.Upper; len(b.Values) > 0 {
		if c := sqltype.CompareBytes(lsn.Str(), b.Values[0].Str()); c > 0 || c == 0 && !b.Inclusive {
			return false
		}
	}
	return true
}

// systemTableFunction knows what clients ask for: fn_listextendedproperty, which has no rows here, and fn_helpcollations.
func (s *session) systemTableFunction(name tsql.ObjectName) *tsql.TableFunction {
	if name.Schema != "" && !strings.EqualFold(name.Schema, "sys") {
		return nil
	}
	fixedRows := func(columns string, params []tsql.Param, rows ...sqltype.Row) *tsql.TableFunction {
		return &tsql.TableFunction{
			Name: tsql.ObjectName{Schema: "sys", Name: name.Name}, Params: params, Columns: parseColumns(columns),
			Scan: func(context.Context, []sqltype.Value, tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
				return func(yield func(sqltype.Row, error) bool) {
					for _, r := range rows {
						if !yield(r, nil) {
							return
						}
					}
				}
			},
		}
	}
	switch fold(name.Name) {
	case "fn_listextendedproperty":
		var params []tsql.Param
		null := sqltype.Null()
		for _, n := range []string{"@name", "@level0type", "@level0name", "@level1type", "@level1name", "@level2type", "@level2name"} {
			params = append(params, tsql.Param{Name: n, Type: sqltype.SysName(), Default: &null})
		}
		return fixedRows("objtype sysname?, objname sysname?, name sysname, value sql_variant?", params)
	case "fn_helpcollations":
		return fixedRows("name sysname, description nvarchar(1000)", nil,
			sqltype.Row{sqltype.NVarChar(sqltype.DefaultCollation), sqltype.NVarChar("Latin1-General, case-insensitive, accent-sensitive")},
			sqltype.Row{sqltype.NVarChar("Latin1_General_BIN2"), sqltype.NVarChar("Latin1-General, binary code point comparison sort")},
			sqltype.Row{sqltype.NVarChar("Latin1_General_100_CI_AS_SC_UTF8"), sqltype.NVarChar("Latin1-General-100, case-insensitive, UTF8")})
	}
	return nil
}
