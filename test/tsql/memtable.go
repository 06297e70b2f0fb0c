package tsql

import (
	"context"
	"iter"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// memTable is a table variable or temporary table: rows in memory, outside of
// any transaction (so a rollback leaves a temporary table as it is, unlike in SQL Server).
type memTable struct {
	name     ObjectName
	cols     []sqltype.Column
	defs     []ast.ColumnDef
	checks   []CheckConstraint
	keys     []memKey
	rows     []sqltype.Row
	identity int // ordinal, -1 without one
	next     int64
	step     int64
	version  int64 // of rowversion
}

// memKey is a PRIMARY KEY or UNIQUE constraint.
type memKey struct {
	kind, name string
	cols       []int
}

// newMemTable makes a table from its definition.
func newMemTable(name ObjectName, def *ast.CreateTable) (*memTable, error) {
	t := &memTable{name: name, defs: def.Columns, identity: -1}
	for i, c := range def.Columns {
		col := sqltype.Column{Name: c.Name, Type: c.Type, Nullable: c.Null == nil || *c.Null, Computed: c.Computed != nil}
		if c.Identity != nil {
			t.identity, t.next, t.step = i, c.Identity.Seed, c.Identity.Increment
			col.Identity, col.Nullable = true, false
		}
		t.cols = append(t.cols, col)
	}
	var all []ast.Constraint
	for _, c := range def.Columns {
		all = append(all, c.Checks...)
	}
	for _, c := range append(all, def.Constraints...) {
		if err := t.constraint(c); err != nil {
			return nil, err
		}
	}
	return t, t.computedTypes()
}

func (t *memTable) constraint(c ast.Constraint) error {
	switch c.Kind {
	case ast.Check:
		t.checks = append(t.checks, CheckConstraint{Name: c.Name, Expr: c.Expr})
	case ast.PrimaryKey, ast.Unique:
		k := memKey{kind: "PRIMARY KEY", name: c.Name}
		if c.Kind == ast.Unique {
			k.kind = "UNIQUE KEY"
		}
		if k.name == "" {
			k.name = strings.TrimLeft(t.name.Name, "@#") + "_key"
		}
		for _, col := range c.Columns {
			i := t.ordinal(col.Name)
			if i < 0 {
				return sqlerr.New(1911, 16, 1, "Column name '%s' does not exist in the target table or view.", col.Name)
			}
			k.cols = append(k.cols, i)
			if c.Kind == ast.PrimaryKey {
				t.cols[i].Nullable = false
			}
		}
		t.keys = append(t.keys, k)
	}
	return nil
}

// computedTypes works the types of computed columns out.
func (t *memTable) computedTypes() error {
	for i, d := range t.defs {
		if d.Computed == nil {
			continue
		}
		typ, err := ComputedType(t.cols, d.Computed)
		if err != nil {
			return err
		}
		t.cols[i].Type, t.cols[i].Nullable = typ, true
	}
	return nil
}

func (t *memTable) ordinal(name string) int {
	for i, c := range t.cols {
		if strings.EqualFold(c.Name, name) {
			return i
		}
	}
	return -1
}

func (t *memTable) Name() ObjectName          { return t.name }
func (t *memTable) Columns() []sqltype.Column { return t.cols }
func (t *memTable) Order() []int              { return nil }
func (t *memTable) Unique() int               { return 0 }

func (t *memTable) Default(i int) ast.Expr {
	if d := t.defs[i].Default; d != nil {
		return d.Expr
	}
	return nil
}

func (t *memTable) Computed(i int) ast.Expr { return t.defs[i].Computed }

func (t *memTable) Checks() []CheckConstraint { return t.checks }

func (t *memTable) Scan(_ context.Context, _ ScanSpec) iter.Seq2[sqltype.Row, error] {
	rows := t.rows
	return func(yield func(sqltype.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// rowVersion fills the rowversion column, if there is one.
func (t *memTable) rowVersion(row sqltype.Row) error {
	for i, c := range t.cols {
		if c.Type.Kind != sqltype.KindRowVersion {
			continue
		}
		t.version++
		v, err := sqltype.Convert(sqltype.BigInt(t.version), c.Type, sqltype.DefaultStyle)
		if err != nil {
			return err
		}
		row[i] = v
	}
	return nil
}

func (t *memTable) Insert(_ context.Context, spec InsertSpec, rows iter.Seq2[sqltype.Row, error]) (InsertResult, error) {
	var res InsertResult
	old, next := t.rows, t.next
	added := old[:len(old):len(old)]
	for values, err := range rows {
		if err != nil {
			t.next = next
			return res, err
		}
		row := make(sqltype.Row, len(t.cols))
		for i, c := range spec.Columns {
			row[c] = values[i]
		}
		if t.identity >= 0 && row[t.identity].IsNull() {
			row[t.identity] = sqltype.Integer(t.cols[t.identity].Type.Kind, t.next)
			res.Identity = row[t.identity]
			t.next += t.step
		}
		if err := t.rowVersion(row); err != nil {
			return res, err
		}
		added = append(added, row)
		res.Count++
	}
	if err := t.unique(added); err != nil {
		t.next = next
		return InsertResult{}, err
	}
	for _, r := range added[len(old):] {
		if spec.Inserted != nil {
			if err := spec.Inserted(r); err != nil {
				return InsertResult{}, err
			}
		}
	}
	t.rows = added
	return res, nil
}

// unique checks the keys over all rows; 2627 names the first double.
func (t *memTable) unique(rows []sqltype.Row) error {
	var buf []byte
	for _, k := range t.keys {
		seen := make(map[string]struct{}, len(rows))
		for _, r := range rows {
			buf = buf[:0]
			for _, c := range k.cols {
				buf = appendKey(buf, r[c], nil)
			}
			if _, dup := seen[string(buf)]; dup {
				return sqlerr.DuplicateKey(k.kind, k.name, t.name.String(), keyText(r, k.cols))
			}
			seen[string(buf)] = struct{}{}
		}
	}
	return nil
}

// keyText prints a key as messages do: (1, abc).
func keyText(r sqltype.Row, cols []int) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = r[c].String()
		if r[c].IsNull() {
			parts[i] = "<NULL>"
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (t *memTable) Update(_ context.Context, spec UpdateSpec) (int64, error) {
	type change struct {
		at  int
		row sqltype.Row
	}
	var list []change
	for i, r := range t.rows {
		values, ok, err := spec.Change(r)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		row := append(sqltype.Row(nil), r...)
		for j, c := range spec.Set {
			row[c] = values[j]
		}
		if err := t.rowVersion(row); err != nil {
			return 0, err
		}
		list = append(list, change{i, row})
	}
	rows := append([]sqltype.Row(nil), t.rows...)
	for _, c := range list {
		rows[c.at] = c.row
	}
	if err := t.unique(rows); err != nil {
		return 0, err
	}
	for _, c := range list {
		if spec.Updated != nil {
			if err := spec.Updated(t.rows[c.at], c.row); err != nil {
				return 0, err
			}
		}
	}
	t.rows = rows
	return int64(len(list)), nil
}

func (t *memTable) Delete(_ context.Context, spec DeleteSpec) (int64, error) {
	var keep, gone []sqltype.Row
	for _, r := range t.rows {
		ok, err := spec.Match(r)
		if err != nil {
			return 0, err
		}
		if ok {
			gone = append(gone, r)
		} else {
			keep = append(keep, r)
		}
	}
	for _, r := range gone {
		if spec.Deleted != nil {
			if err := spec.Deleted(r); err != nil {
				return 0, err
			}
		}
	}
	t.rows = keep
	return int64(len(gone)), nil
}
