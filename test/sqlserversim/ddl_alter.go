package sqlserversim

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// alterTable executes ALTER TABLE. The statement's text goes into the DDL history of capture instances.
func (s *session) alterTable(ctx context.Context, d *ast.AlterTable) error {
	db, t, err := s.table(d.Name, 4902)
	if err != nil {
		return err
	}
	if err := s.needAlter(db, t.Def()); err != nil {
		return err
	}
	text := ast.Print(d)
	if s.text != "" {
		text = statementText(s.text, d.Pos, text)
	}
	return s.inTx(ctx, db, func(tx *engine.Tx) error {
		switch {
		case len(d.Add) > 0 || len(d.AddConstraints) > 0:
			return s.alterAdd(ctx, tx, t, d, text)
		case d.AlterColumn != nil:
			return s.alterColumn(ctx, tx, t, d.AlterColumn, text)
		case len(d.DropColumns) > 0 || len(d.DropConstraints) > 0:
			return s.alterDrop(ctx, tx, t, d, text)
		case len(d.SetOptions) > 0, len(d.Enable) > 0, len(d.Disable) > 0:
			return nil // lock escalation, triggers and the like: nothing here depends on them
		}
		return errorf("The simulator has no partitions: ALTER TABLE SWITCH is refused.")
	})
}

// statementText cuts the statement out of its batch; other when its place is not known.
func statementText(batch string, p ast.Pos, other string) string {
	if p.End > p.Start && p.End <= len(batch) && p.Start >= 0 {
		return strings.TrimSpace(batch[p.Start:p.End])
	}
	return other
}

func (s *session) alterAdd(ctx context.Context, tx *engine.Tx, t *engine.Table, d *ast.AlterTable, text string) error {
	for i := range d.Add {
		col := &d.Add[i]
		spec, err := s.columnSpec(t.Def().Name, col, definitions(t.Def(), d.Add))
		if err != nil {
			return err
		}
		if err := tx.AddColumn(ctx, t, spec, text); err != nil {
			return err
		}
		for _, k := range col.Checks {
			if err := s.addConstraint(ctx, tx, t, k, col.Name); err != nil {
				return err
			}
		}
	}
	for _, k := range d.AddConstraints {
		if err := s.addConstraint(ctx, tx, t, k, ""); err != nil {
			return err
		}
	}
	return nil
}

// definitions lists the columns that a computed column may name: the table's and the new ones.
func definitions(def *engine.TableDef, added []ast.ColumnDef) []ast.ColumnDef {
	var out []ast.ColumnDef
	for _, c := range def.Columns {
		if c.Computed == nil {
			out = append(out, ast.ColumnDef{Name: c.Name, Type: c.Type})
		}
	}
	return append(out, added...)
}

func (s *session) addConstraint(ctx context.Context, tx *engine.Tx, t *engine.Table, k ast.Constraint, column string) error {
	def := t.Def()
	switch k.Kind {
	case ast.PrimaryKey, ast.Unique:
		ix := keyIndex(k)
		if _, taken := clusteredIndex(def); taken && k.Clustered == nil {
			ix.Clustered = false
		}
		return tx.CreateIndex(ctx, t, ix)
	case ast.Check:
		return setChecks(def, append(slices.Clone(checksOf(def)), newCheck(def.Name, column, k)))
	case ast.Default:
		return addDefault(def, k)
	}
	return errorf("The simulator has no foreign keys; leave the constraint on table %s out.", def.FullName())
}

func addDefault(def *engine.TableDef, k ast.Constraint) error {
	i := def.Ordinal(k.For)
	if i < 0 {
		return sqlerr.InvalidColumn(k.For)
	}
	x := extraOfColumn(&def.Columns[i])
	if x == nil {
		return errorf("Column %s of table %s was not made by CREATE TABLE and takes no default.", k.For, def.FullName())
	}
	if _, e := x.defaultOf(); e != nil {
		return message(1781)
	}
	x.setDefault(cmp.Or(k.Name, constraintName("DF", def.Name, k.For)), k.Expr)
	return nil
}

// alterColumn changes type and nullability; without NULL or NOT NULL a column becomes nullable, as under ANSI defaults.
func (s *session) alterColumn(ctx context.Context, tx *engine.Tx, t *engine.Table, col *ast.ColumnDef, text string) error {
	spec, err := s.columnSpec(t.Def().Name, col, nil)
	if err != nil {
		return err
	}
	return tx.AlterColumn(ctx, t, col.Name, spec.Type, spec.Nullable, text)
}

func (s *session) alterDrop(ctx context.Context, tx *engine.Tx, t *engine.Table, d *ast.AlterTable, text string) error {
	for _, name := range d.DropConstraints {
		if err := s.dropConstraint(ctx, tx, t, name, d.IfExists); err != nil {
			return err
		}
	}
	for _, name := range d.DropColumns {
		def := t.Def()
		i := def.Ordinal(name)
		if i < 0 {
			if d.IfExists {
				continue
			}
			return message(4924, "ALTER TABLE DROP COLUMN", name, def.Name)
		}
		if constraint, e := extraOfColumn(&def.Columns[i]).defaultOf(); e != nil {
			return message(5074, "object", constraint, name)
		}
		if err := tx.DropColumn(ctx, t, name, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) dropConstraint(ctx context.Context, tx *engine.Tx, t *engine.Table, name string, ifExists bool) error {
	def := t.Def()
	if ix, ok := def.Index(name); ok && ix.Constraint {
		return tx.DropIndex(ctx, t, name)
	}
	for i := range def.Columns {
		x := extraOfColumn(&def.Columns[i])
		if constraint, e := x.defaultOf(); e != nil && strings.EqualFold(constraint, name) {
			x.setDefault("", nil)
			return nil
		}
	}
	checks := checksOf(def)
	rest := slices.DeleteFunc(slices.Clone(checks), func(c tableCheck) bool { return strings.EqualFold(c.name, name) })
	if len(rest) < len(checks) {
		return setChecks(def, rest)
	}
	if ifExists {
		return nil
	}
	return message(3728, name)
}

// drop executes DROP.
func (s *session) drop(ctx context.Context, d *ast.Drop) error {
	for i, name := range d.Names {
		var err error
		switch d.Kind {
		case ast.ObjTable:
			err = s.dropTable(ctx, d, i)
		case ast.ObjIndex:
			err = s.dropIndex(ctx, d, i)
		case ast.ObjProcedure:
			err = s.dropProcedure(d, i)
		case ast.ObjSchema:
			err = s.dropSchema(d, name.Name)
		case ast.ObjDatabase:
			err = s.dropDatabaseStatement(d, name.Name)
		case ast.ObjUser, ast.ObjRole, ast.ObjLogin:
			err = s.dropPrincipal(d, name.Name)
		default:
			if d.IfExists {
				continue
			}
			err = message(3701, "drop", strings.ToLower(string(d.Kind)), name.String())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) dropTable(ctx context.Context, d *ast.Drop, i int) error {
	db, t, err := s.table(d.Names[i], 3701)
	if err != nil {
		if d.IfExists && numberOf(err) == 3701 {
			return nil
		}
		return err
	}
	if err := s.needAlter(db, t.Def()); err != nil {
		return message(3701, "drop", "table", d.Names[i].String())
	}
	var gone []*engine.Instance
	if err := s.inTx(ctx, db, func(tx *engine.Tx) error {
		gone = tx.CDC().InstancesOf(t.Def().ObjectID)
		return tx.DropTable(ctx, t)
	}); err != nil {
		return err
	}
	s.atCommit(func() {
		s.srv.security.dropGrants(db.name, t.Def().ObjectID)
		s.forgetInstances(db, gone)
	})
	return nil
}

func (s *session) dropIndex(ctx context.Context, d *ast.Drop, i int) error {
	db, t, err := s.table(d.Tables[i], 1088)
	if err != nil {
		return err
	}
	if err := s.needAlter(db, t.Def()); err != nil {
		return err
	}
	if _, ok := t.Def().Index(d.Names[i].Name); !ok && d.IfExists {
		return nil
	}
	return s.inTx(ctx, db, func(tx *engine.Tx) error { return tx.DropIndex(ctx, t, d.Names[i].Name) })
}

func (s *session) dropProcedure(d *ast.Drop, i int) error {
	db, err := s.databaseOf(d.Names[i])
	if err != nil {
		return err
	}
	o := s.userProcedure(db, d.Names[i])
	if o == nil {
		if d.IfExists {
			return nil
		}
		return message(3701, "drop", "procedure", d.Names[i].String())
	}
	if err := s.needDDL(db, "ALTER"); err != nil {
		return message(3701, "drop", "procedure", d.Names[i].String())
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.procedures, fold(o.full()))
	return nil
}
