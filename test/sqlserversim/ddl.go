package sqlserversim

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// DDL executes the statements that the evaluator leaves to the host. Tables and indexes are transactional; databases, schemas,
// principals and permissions are not: a rollback does not undo them.
func (s *session) DDL(ctx context.Context, stmt ast.Statement) error {
	s.refreshRights()
	switch d := stmt.(type) {
	case *ast.CreateTable:
		return s.createTable(ctx, d)
	case *ast.AlterTable:
		return s.alterTable(ctx, d)
	case *ast.CreateIndex:
		return s.createIndex(ctx, d)
	case *ast.Drop:
		return s.drop(ctx, d)
	case *ast.Truncate:
		return s.truncate(ctx, d)
	case *ast.CreateSchema:
		return s.createSchema(d)
	case *ast.CreateDatabase:
		return s.createDatabaseStatement(d)
	case *ast.AlterDatabase:
		return s.alterDatabase(d)
	case *ast.CreatePrincipal:
		return s.createPrincipal(d)
	case *ast.AlterPrincipal:
		return s.alterPrincipal(d)
	case *ast.GrantStmt:
		return s.grantStatement(d)
	case *ast.CreateProcedure:
		return s.createProcedure(d)
	case *ast.Kill:
		if !s.sysadmin {
			return message(6102)
		}
		if !s.srv.kill(d.Session) {
			return message(6106, d.Session)
		}
		return nil
	case *ast.Checkpoint:
		return nil
	}
	return sqlerr.Syntax(fmt.Sprintf("%T", stmt))
}

// needDDL asks for db_owner, db_ddladmin or a database permission.
func (s *session) needDDL(db *database, permission string) error {
	r, ok := s.rightsIn(db)
	if ok && (r.all || r.names["db_ddladmin"] || r.database(permission)) {
		return nil
	}
	return message(262, permission, db.name)
}

// needAlter asks for ALTER on a table: 1088 for a table that the caller may not change. Where CDC is on, only sysadmin, db_owner and
// db_ddladmin may: 22914.
func (s *session) needAlter(db *database, def *engine.TableDef) error {
	r, ok := s.rightsIn(db)
	if ok && (r.all || r.names["db_ddladmin"]) {
		return nil
	}
	o := securable{id: def.ObjectID, schema: db.schemaIDs()[fold(def.Schema)], table: true}
	if granted, _ := r.object(o, "ALTER"); granted {
		if len(db.cdc().InstancesOf(def.ObjectID)) > 0 {
			return message(22914)
		}
		return nil
	}
	return message(1088, def.FullName())
}

// table finds a base table for DDL: error number missing when there is none.
func (s *session) table(name tsql.ObjectName, missing int32) (*database, *engine.Table, error) {
	db, err := s.databaseOf(name)
	if err != nil {
		return nil, nil, err
	}
	for _, schema := range []string{cmp.Or(name.Schema, s.defaultSchema(db)), cmp.Or(name.Schema, "dbo")} {
		if t, ok := db.eng.Table(schema, name.Name); ok {
			return db, t, nil
		}
	}
	if missing == 3701 {
		return nil, nil, message(3701, "drop", "table", name.String())
	}
	return nil, nil, message(missing, name.String())
}

func (s *session) createTable(ctx context.Context, d *ast.CreateTable) error {
	db, err := s.databaseOf(d.Name)
	if err != nil {
		return err
	}
	if err := s.needDDL(db, "CREATE TABLE"); err != nil {
		return err
	}
	spec, err := s.tableSpec(db, d)
	if err != nil {
		return err
	}
	if o := db.findIn(spec.Schema, spec.Name); o != nil {
		return message(2714, spec.Name)
	}
	return s.inTx(ctx, db, func(tx *engine.Tx) error {
		_, err := tx.CreateTable(ctx, spec)
		return err
	})
}

// tableSpec turns CREATE TABLE into the engine's words.
func (s *session) tableSpec(db *database, d *ast.CreateTable) (engine.TableSpec, error) {
	spec := engine.TableSpec{Schema: cmp.Or(d.Name.Schema, s.defaultSchema(db)), Name: d.Name.Name}
	extra := &tableExtra{}
	constraints := append([]ast.Constraint{}, d.Constraints...)
	for i := range d.Columns {
		col := &d.Columns[i]
		c, err := s.columnSpec(spec.Name, col, d.Columns)
		if err != nil {
			return spec, err
		}
		spec.Columns = append(spec.Columns, c)
		for _, k := range col.Checks {
			if k.Kind == ast.Check {
				extra.list = append(extra.list, newCheck(spec.Name, col.Name, k))
				continue
			}
			constraints = append(constraints, k)
		}
	}
	for _, k := range constraints {
		switch k.Kind {
		case ast.PrimaryKey, ast.Unique:
			spec.Indexes = append(spec.Indexes, keyIndex(k))
		case ast.Check:
			extra.list = append(extra.list, newCheck(spec.Name, "", k))
		case ast.ForeignKey:
			return spec, errorf("The simulator has no foreign keys; leave the constraint on table %s out.", spec.Name)
		}
	}
	notNullKeys(&spec, d)
	onlyOneClustered(spec.Indexes)
	spec.Extra = extra
	return spec, nil
}

// notNullKeys makes the columns of a primary key NOT NULL where nothing was written.
func notNullKeys(spec *engine.TableSpec, d *ast.CreateTable) {
	for _, ix := range spec.Indexes {
		if !ix.PrimaryKey {
			continue
		}
		for i := range spec.Columns {
			for _, key := range ix.Columns {
				if strings.EqualFold(spec.Columns[i].Name, key) && d.Columns[i].Null == nil {
					spec.Columns[i].Nullable = false
				}
			}
		}
	}
}

// onlyOneClustered leaves a primary key nonclustered when another index asks to be the clustered one.
func onlyOneClustered(list []engine.IndexSpec) {
	clustered := 0
	for _, ix := range list {
		if ix.Clustered {
			clustered++
		}
	}
	for i := range list {
		if clustered > 1 && list[i].PrimaryKey {
			list[i].Clustered = false
		}
	}
}

// keyIndex is a PRIMARY KEY or UNIQUE constraint as an index. A primary key is clustered unless it says otherwise.
func keyIndex(k ast.Constraint) engine.IndexSpec {
	ix := engine.IndexSpec{Name: k.Name, Unique: true, Constraint: true, PrimaryKey: k.Kind == ast.PrimaryKey}
	ix.Clustered = ix.PrimaryKey
	if k.Clustered != nil {
		ix.Clustered = *k.Clustered
	}
	for _, c := range k.Columns {
		ix.Columns = append(ix.Columns, c.Name)
		ix.Descending = append(ix.Descending, c.Desc)
	}
	return ix
}

func newCheck(table, column string, k ast.Constraint) tableCheck {
	name := k.Name
	if name == "" {
		name = constraintName("CK", table, cmp.Or(column, printExpr(k.Expr)))
	}
	return tableCheck{name: name, column: column, expr: k.Expr}
}

// constraintName makes a name up as SQL Server does: prefix, table, column, eight hex digits.
func constraintName(prefix, table, column string) string {
	cut := func(s string, n int) string { return s[:min(n, len(s))] }
	return fmt.Sprintf("%s__%s__%s__%08X", prefix, cut(table, 9), cut(column, 5), uint32(derivedID(prefix, table, column)))
}

// columnSpec turns a column definition into the engine's words. The default and the computed expression stay with the evaluator,
// which fills them in; the engine only needs a default to give it to existing rows.
// others are the table's columns, which a computed one may name.
func (s *session) columnSpec(table string, col *ast.ColumnDef, others []ast.ColumnDef) (engine.ColumnSpec, error) {
	typ := col.Type
	extra := &columnExtra{computed: col.Computed}
	if !col.UserType.IsZero() {
		if !strings.EqualFold(col.UserType.Name, "sysname") {
			return engine.ColumnSpec{}, message(2715, col.Name, col.UserType.String())
		}
		typ = sqltype.SysName()
	}
	c := engine.ColumnSpec{Name: col.Name, Type: typ, Nullable: true, Persisted: col.Persist, Extra: extra}
	if col.Null != nil {
		c.Nullable = *col.Null
	}
	if col.Identity != nil {
		c.Identity = &engine.Identity{Seed: col.Identity.Seed, Increment: col.Identity.Increment}
		c.Nullable = false
	}
	if typ.Kind == sqltype.KindRowVersion {
		c.Nullable = col.Null != nil && *col.Null
	}
	if col.Computed != nil {
		c.Computed = func(sqltype.Row) (sqltype.Value, error) { return sqltype.Null(), nil }
		t, err := s.typeOfComputed(col.Computed, others)
		if err != nil {
			return c, err
		}
		c.Type, c.Nullable = t, true
	}
	if col.Default != nil {
		extra.setDefault(cmp.Or(col.Default.Name, constraintName("DF", table, col.Name)), col.Default.Expr)
		c.Default = func() (sqltype.Value, error) { return s.evaluate(col.Default.Expr, typ) }
	}
	return c, nil
}

func (s *session) createIndex(ctx context.Context, d *ast.CreateIndex) error {
	db, t, err := s.table(d.Table, 1088)
	if err != nil {
		return err
	}
	if err := s.needAlter(db, t.Def()); err != nil {
		return err
	}
	ix := engine.IndexSpec{Name: d.Name, Unique: d.Unique, Clustered: d.Clustered}
	for _, c := range d.Columns {
		ix.Columns = append(ix.Columns, c.Name)
		ix.Descending = append(ix.Descending, c.Desc)
	}
	return s.inTx(ctx, db, func(tx *engine.Tx) error { return tx.CreateIndex(ctx, t, ix) })
}

func (s *session) truncate(ctx context.Context, d *ast.Truncate) error {
	db, t, err := s.table(d.Table, 4701)
	if err != nil {
		return err
	}
	if err := s.needAlter(db, t.Def()); err != nil {
		return err
	}
	return s.inTx(ctx, db, func(tx *engine.Tx) error { return tx.Truncate(ctx, t) })
}
