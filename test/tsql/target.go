package tsql

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// targetTable finds the table that a statement changes.
func (c *compiler) targetTable(ts ast.TableSource, access Access) (Table, error) {
	switch x := ts.(type) {
	case *ast.VariableRef:
		v := c.run.vars[sqltype.DefaultKey(x.Name)]
		if v == nil || v.table == nil {
			return nil, sqlerr.Make(1087, x.Name)
		}
		return v.table, nil
	case *ast.TableRef:
		if x.Name.Schema == "" && c.findCTE(x.Name.Name) != nil {
			return nil, sqlerr.New(4405, 16, 1, "View or function '%s' is not updatable because the modification affects multiple base tables.", x.Name.Name)
		}
		return c.table(x, access)
	}
	return nil, sqlerr.Syntax("FROM")
}

// doomed refuses a change in a transaction that can only be rolled back.
func (r *runner) doomed() error {
	if r.host.Doomed() {
		return sqlerr.Make(3930)
	}
	return nil
}

// column finds a column of a table by name.
func columnOf(t Table, name string) (int, error) {
	for i, c := range t.Columns() {
		if strings.EqualFold(c.Name, name) {
			return i, nil
		}
	}
	return 0, sqlerr.InvalidColumn(name)
}

// writable refuses computed and rowversion columns.
func writable(col sqltype.Column, insert bool) error {
	switch {
	case col.Computed:
		return sqlerr.Make(271, col.Name)
	case col.Type.Kind == sqltype.KindRowVersion && insert:
		return sqlerr.Make(273)
	case col.Type.Kind == sqltype.KindRowVersion:
		return sqlerr.Make(272)
	case col.Identity && !insert:
		return sqlerr.Make(8102, col.Name)
	}
	return nil
}

// store converts a value for a column: 2628 for text that is too long, 515
// for NULL where there may be none.
func store(t Table, col sqltype.Column, v sqltype.Value, verb string) (sqltype.Value, error) {
	if v.IsNull() {
		if !col.Nullable {
			return v, sqlerr.Make(515, col.Name, t.Name().String(), verb)
		}
		return v, nil
	}
	s, err := sqltype.Store(v, col.Type)
	if err != nil && sqlerr.IsNumber(err, 8152) {
		text, cutErr := sqltype.Convert(v, col.Type, sqltype.DefaultStyle)
		if cutErr != nil {
			return v, cutErr
		}
		return v, sqlerr.Make(2628, t.Name().String(), col.Name, text.String())
	}
	return s, err
}

// rowCheck checks the CHECK constraints of a table on a row.
type rowCheck struct {
	t     Table
	slot  int
	conds []condFn
	names []CheckConstraint
}

// checks compiles the CHECK constraints of a table; nil without any.
func (c *compiler) checks(t Table) (*rowCheck, error) {
	def, ok := t.(Definition)
	if !ok || len(def.Checks()) == 0 {
		return nil, nil
	}
	k := &rowCheck{t: t, names: def.Checks(), slot: c.newSlot()}
	inner := *c
	src := newSource("", t.Name(), t.Columns(), k.slot)
	src.def = def
	inner.scope = &scope{sources: []*source{src}}
	for _, con := range k.names {
		cd, err := inner.cond(con.Expr)
		if err != nil {
			return nil, err
		}
		k.conds = append(k.conds, cd.eval)
	}
	c.slots = inner.slots
	return k, nil
}

// check fails with 547 when a constraint is false.
func (k *rowCheck) check(f *frame, row sqltype.Row, verb string) error {
	if k == nil {
		return nil
	}
	f.rows[k.slot] = row
	for i, cd := range k.conds {
		t, err := cd(f)
		if err != nil {
			return err
		}
		if t == isFalse {
			name := k.t.Name()
			column := ""
			if c := k.names[i].Column; c != "" {
				column = ", column '" + c + "'"
			}
			return sqlerr.Make(547, verb, "CHECK", k.names[i].Name, name.Database, name.Schema+"."+name.Name, column)
		}
	}
	return nil
}

// outputClause is OUTPUT, ready to take rows.
type outputClause struct {
	c                 *compiler
	inserted, deleted int // slots, -1 when not there
	items             []*expr
	cols              []sqltype.Column
	into              Inserter
	intoTable         Table
	intoCols          []int
	rows              []sqltype.Row
}

// output compiles an OUTPUT clause over the rows inserted and deleted; extra are the
// other sources of the statement.
func (c *compiler) output(o *ast.Output, t Table, insert, del bool, extra []*source) (*outputClause, error) {
	if o == nil {
		return nil, nil
	}
	out := &outputClause{c: c, inserted: -1, deleted: -1}
	sc := &scope{}
	add := func(name string) int {
		src := newSource(name, ObjectName{}, t.Columns(), c.newSlot())
		src.def, _ = t.(Definition)
		sc.sources = append(sc.sources, src)
		return src.slot
	}
	if insert {
		out.inserted = add("inserted")
	}
	if del {
		out.deleted = add("deleted")
	}
	sc.sources = append(sc.sources, extra...)
	inner := *c
	inner.scope = sc
	q := &selection{c: &inner, stmt: &ast.Select{Items: o.Items}}
	err := q.project()
	c.slots = inner.slots
	if err != nil {
		return nil, err
	}
	out.items, out.cols = q.items, q.cols
	return out, c.outputInto(out, o)
}

func (c *compiler) outputInto(out *outputClause, o *ast.Output) error {
	if o.Into == nil {
		return nil
	}
	t, err := c.targetTable(o.Into, AccessInsert)
	if err != nil {
		return err
	}
	ins, ok := t.(Inserter)
	if !ok {
		return sqlerr.Make(270, t.Name().String())
	}
	out.into, out.intoTable = ins, t
	if len(o.Columns) == 0 {
		for i, col := range t.Columns() {
			if writable(col, true) == nil && !col.Identity {
				out.intoCols = append(out.intoCols, i)
			}
		}
	}
	for _, name := range o.Columns {
		i, err := columnOf(t, name)
		if err != nil {
			return err
		}
		out.intoCols = append(out.intoCols, i)
	}
	if len(out.intoCols) != len(out.items) {
		return sqlerr.Make(213)
	}
	return nil
}

// take computes the items for a change. before and after may be nil.
func (o *outputClause) take(f *frame, before, after sqltype.Row) error {
	if o == nil {
		return nil
	}
	if o.inserted >= 0 {
		f.rows[o.inserted] = after
	}
	if o.deleted >= 0 {
		f.rows[o.deleted] = before
	}
	row := make(sqltype.Row, len(o.items))
	for i, x := range o.items {
		v, err := x.eval(f)
		if err != nil {
			return err
		}
		row[i] = v
	}
	o.rows = append(o.rows, row)
	return nil
}

// send gives the rows to the client or to the table of INTO.
func (o *outputClause) send(r *runner, f *frame) error {
	if o == nil {
		return nil
	}
	if o.into != nil {
		_, err := o.into.Insert(f.ctx, InsertSpec{Columns: o.intoCols}, func(yield func(sqltype.Row, error) bool) {
			for _, row := range o.rows {
				out := make(sqltype.Row, len(row))
				for i, v := range row {
					s, err := store(o.intoTable, o.intoTable.Columns()[o.intoCols[i]], v, "INSERT")
					if err != nil {
						yield(nil, err)
						return
					}
					out[i] = s
				}
				if !yield(out, nil) {
					return
				}
			}
		})
		return err
	}
	if err := r.sink.Columns(o.cols); err != nil {
		return err
	}
	for _, row := range o.rows {
		if err := r.sink.Row(row); err != nil {
			return err
		}
	}
	return nil
}
