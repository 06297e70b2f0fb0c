package tsql_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// fakeTable keeps its rows sorted by its key.
type fakeTable struct {
	h      *fakeHost
	name   tsql.ObjectName
	cols   []sqltype.Column
	defs   []ast.ColumnDef
	checks []tsql.CheckConstraint
	order  []int
	unique int
	rows   []sqltype.Row
	next   int64
	pkName string
}

func newFakeTable(h *fakeHost, x *ast.CreateTable) (*fakeTable, error) {
	n := x.Name
	n.Database = h.db
	if n.Schema == "" {
		n.Schema = "dbo"
	}
	t := &fakeTable{h: h, name: n, defs: x.Columns, next: 1, pkName: "PK_" + n.Name}
	constraints := x.Constraints
	for _, c := range x.Columns {
		col := sqltype.Column{Name: c.Name, Type: c.Type, Nullable: c.Null == nil || *c.Null, Identity: c.Identity != nil, Computed: c.Computed != nil}
		if c.Identity != nil {
			col.Nullable = false
		}
		if c.Computed != nil {
			typ, err := tsql.ComputedType(t.cols, c.Computed)
			if err != nil {
				return nil, err
			}
			col.Type, col.Nullable = typ, true
		}
		t.cols = append(t.cols, col)
		constraints = append(constraints, c.Checks...)
	}
	for _, c := range constraints {
		switch c.Kind {
		case ast.PrimaryKey:
			for _, k := range c.Columns {
				i := slices.IndexFunc(t.cols, func(c sqltype.Column) bool { return strings.EqualFold(c.Name, k.Name) })
				t.order = append(t.order, i)
				t.cols[i].Nullable = false
			}
			t.unique = len(t.order)
		case ast.Check:
			t.checks = append(t.checks, tsql.CheckConstraint{Name: "CK_" + n.Name, Expr: c.Expr})
		}
	}
	return t, nil
}

func (t *fakeTable) Name() tsql.ObjectName          { return t.name }
func (t *fakeTable) Columns() []sqltype.Column      { return t.cols }
func (t *fakeTable) Order() []int                   { return t.order }
func (t *fakeTable) Unique() int                    { return t.unique }
func (t *fakeTable) Computed(i int) ast.Expr        { return t.defs[i].Computed }
func (t *fakeTable) Checks() []tsql.CheckConstraint { return t.checks }
func (t *fakeTable) Default(i int) ast.Expr {
	if t.defs[i].Default == nil {
		return nil
	}
	return t.defs[i].Default.Expr
}

func boundText(b tsql.Bound) string {
	if len(b.Values) == 0 {
		return "-"
	}
	parts := make([]string, len(b.Values))
	for i, v := range b.Values {
		parts[i] = v.String()
	}
	s := "(" + strings.Join(parts, ",") + ")"
	if b.Inclusive {
		s += "="
	}
	return s
}

// inside tells whether a row lies within the bounds.
func (t *fakeTable) inside(r sqltype.Row, spec tsql.ScanSpec) bool {
	side := func(b tsql.Bound, sign int) bool {
		for i, v := range b.Values {
			if c := sqltype.Compare(r[t.order[i]], v, nil) * sign; c != 0 {
				return c > 0
			}
		}
		return len(b.Values) == 0 || b.Inclusive
	}
	return side(spec.Lower, 1) && side(spec.Upper, -1)
}

func (t *fakeTable) seq(spec tsql.ScanSpec, rows []sqltype.Row) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		buf := make(sqltype.Row, len(t.cols))
		for _, r := range rows {
			if !t.inside(r, spec) {
				continue
			}
			if spec.Columns == nil {
				copy(buf, r)
			} else { // what was not asked for is garbage
				for i := range buf {
					buf[i] = sqltype.NVarChar("not asked for")
				}
				for _, c := range spec.Columns {
					buf[c] = r[c]
				}
			}
			if !yield(buf, nil) {
				return
			}
		}
	}
}

func (t *fakeTable) Scan(_ context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	t.h.scans = append(t.h.scans, fmt.Sprintf("%s %s %s", t.name.Name, boundText(spec.Lower), boundText(spec.Upper)))
	return t.seq(spec, t.rows)
}

func (t *fakeTable) ScanReverse(_ context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	t.h.scans = append(t.h.scans, fmt.Sprintf("%s reverse %s %s", t.name.Name, boundText(spec.Lower), boundText(spec.Upper)))
	rows := slices.Clone(t.rows)
	slices.Reverse(rows)
	return t.seq(spec, rows)
}

func (t *fakeTable) compare(a, b sqltype.Row) int {
	for _, i := range t.order {
		if c := sqltype.Compare(a[i], b[i], nil); c != 0 {
			return c
		}
	}
	return 0
}

// sorted puts the rows in order; 2627 for a double key.
func (t *fakeTable) sorted(rows []sqltype.Row) ([]sqltype.Row, error) {
	if len(t.order) == 0 {
		return rows, nil
	}
	slices.SortStableFunc(rows, t.compare)
	for i := 1; i < len(rows); i++ {
		if t.unique > 0 && t.compare(rows[i-1], rows[i]) == 0 {
			parts := make([]string, len(t.order))
			for j, c := range t.order {
				parts[j] = rows[i][c].String()
			}
			return nil, sqlerr.DuplicateKey("PRIMARY KEY", t.pkName, t.name.Schema+"."+t.name.Name, "("+strings.Join(parts, ", ")+")")
		}
	}
	return rows, nil
}

func (t *fakeTable) Insert(_ context.Context, spec tsql.InsertSpec, rows iter.Seq2[sqltype.Row, error]) (tsql.InsertResult, error) {
	var res tsql.InsertResult
	var added []sqltype.Row
	for r, err := range rows {
		if err != nil {
			return res, err
		}
		row := make(sqltype.Row, len(t.cols))
		for i, c := range spec.Columns {
			row[c] = r[i]
		}
		for i, c := range t.cols {
			if c.Identity && row[i].IsNull() {
				row[i] = sqltype.Integer(c.Type.Kind, t.next)
				res.Identity = row[i]
				t.next++
			}
			if c.Type.Kind == sqltype.KindRowVersion {
				row[i] = sqltype.Bytes(sqltype.KindRowVersion, "\x00\x00\x00\x00\x00\x00\x07\xd1")
			}
		}
		added = append(added, row)
		res.Count++
	}
	all, err := t.sorted(append(slices.Clone(t.rows), added...))
	if err != nil {
		return tsql.InsertResult{}, err
	}
	for _, r := range added {
		if spec.Inserted != nil {
			if err := spec.Inserted(r); err != nil {
				return tsql.InsertResult{}, err
			}
		}
	}
	t.rows = all
	return res, nil
}

func (t *fakeTable) Update(ctx context.Context, spec tsql.UpdateSpec) (int64, error) {
	var rows []sqltype.Row
	var pairs [][2]sqltype.Row
	t.h.scans = append(t.h.scans, fmt.Sprintf("%s update %s %s", t.name.Name, boundText(spec.Scan.Lower), boundText(spec.Scan.Upper)))
	for _, r := range t.rows {
		row := r
		if t.inside(r, spec.Scan) {
			v, ok, err := spec.Change(r)
			if err != nil {
				return 0, err
			}
			if ok {
				row = slices.Clone(r)
				for i, c := range spec.Set {
					row[c] = v[i]
				}
				pairs = append(pairs, [2]sqltype.Row{r, row})
			}
		}
		rows = append(rows, row)
	}
	rows, err := t.sorted(rows)
	if err != nil {
		return 0, err
	}
	for _, p := range pairs {
		if spec.Updated != nil {
			if err := spec.Updated(p[0], p[1]); err != nil {
				return 0, err
			}
		}
	}
	t.rows = rows
	return int64(len(pairs)), nil
}

func (t *fakeTable) Delete(_ context.Context, spec tsql.DeleteSpec) (int64, error) {
	var keep []sqltype.Row
	var n int64
	for _, r := range t.rows {
		if t.inside(r, spec.Scan) {
			ok, err := spec.Match(r)
			if err != nil {
				return 0, err
			}
			if ok {
				n++
				if spec.Deleted != nil {
					if err := spec.Deleted(r); err != nil {
						return 0, err
					}
				}
				continue
			}
		}
		keep = append(keep, r)
	}
	t.rows = keep
	return n, nil
}
