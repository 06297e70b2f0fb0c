package sqlserversim

import (
	"context"
	"iter"
	"sync"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// columnExtra is what CREATE TABLE says of a column and the engine does not know. The engine carries the pointer from one
// definition of the table to the next, so a default that comes later is set in place; a rollback does not undo that.
type columnExtra struct {
	computed ast.Expr

	mu          sync.RWMutex
	defaultName string
	defaultExpr ast.Expr
}

// defaultOf gives the name and expression of the column's default; nil without one.
func (x *columnExtra) defaultOf() (string, ast.Expr) {
	if x == nil {
		return "", nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.defaultName, x.defaultExpr
}

func (x *columnExtra) setDefault(name string, e ast.Expr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.defaultName, x.defaultExpr = name, e
}

// extraOfColumn gives a column's extras, nil for columns that CREATE TABLE did not make.
func extraOfColumn(c *engine.ColumnDef) *columnExtra {
	if c == nil {
		return nil
	}
	x, _ := c.Extra.(*columnExtra)
	return x
}

// tableExtra is the same of a table.
type tableExtra struct {
	mu   sync.RWMutex
	list []tableCheck
}

// tableCheck is a CHECK constraint.
type tableCheck struct {
	name, column string
	expr         ast.Expr
}

// checks lists a table's CHECK constraints.
func checksOf(def *engine.TableDef) []tableCheck {
	x, ok := def.Extra.(*tableExtra)
	if !ok {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.list
}

// setChecks replaces a table's CHECK constraints.
func setChecks(def *engine.TableDef, list []tableCheck) error {
	x, ok := def.Extra.(*tableExtra)
	if !ok {
		return errorf("Table %s was not made by CREATE TABLE and takes no CHECK constraints.", def.FullName())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = list
	return nil
}

// schemaIDs gives the schema ids by lower-case name.
func (db *database) schemaIDs() map[string]int32 {
	out := map[string]int32{}
	for _, s := range db.eng.Schemas() {
		out[fold(s.Name)] = s.ID
	}
	return out
}

// tableDefs lists the base tables as they are defined now.
func (db *database) tableDefs() []*engine.TableDef {
	tables := db.eng.Tables()
	out := make([]*engine.TableDef, len(tables))
	for i, t := range tables {
		out[i] = t.Def()
	}
	return out
}

// tableDef finds a base table.
func (db *database) tableDef(schema, name string) *engine.TableDef {
	if t, ok := db.eng.Table(schema, name); ok {
		return t.Def()
	}
	return nil
}

// cdc is what CDC holds of the database now.
func (db *database) cdc() *engine.View { return db.eng.CDC() }

// baseTable is a table of the engine for one statement of one session.
type baseTable struct {
	ses     *session
	db      *database
	table   *engine.Table
	def     *engine.TableDef
	columns []sqltype.Column
	order   []int
	unique  int
	hints   engine.ScanSpec // flags only
	allowed map[string]bool // columns that may be read; nil for all
}

func newBaseTable(s *session, db *database, t *engine.Table, ref tsql.TableRequest) *baseTable {
	b := &baseTable{ses: s, db: db, table: t, def: t.Def()}
	b.columns = b.def.SQLColumns()
	key, unique := b.def.ClusteredKey()
	b.order = key
	if ix, ok := clusteredIndex(b.def); ok {
		for i := range key {
			if len(ix.Descending) > i && ix.Descending[i] {
				b.order = key[:i] // rows ascend by these only
				break
			}
		}
	}
	if unique && len(b.order) == len(key) {
		b.unique = len(key)
	}
	b.hints = scanHints(ref)
	return b
}

func clusteredIndex(def *engine.TableDef) (engine.IndexDef, bool) {
	for _, ix := range def.Indexes {
		if ix.Clustered {
			return ix, true
		}
	}
	return engine.IndexDef{}, false
}

// scanHints turns table hints into the engine's flags.
func scanHints(ref tsql.TableRequest) engine.ScanSpec {
	var spec engine.ScanSpec
	level := func(l engine.Isolation) { spec.Isolation = &l }
	for _, h := range ref.Hints {
		switch h.Name {
		case "NOLOCK", "READUNCOMMITTED":
			level(engine.ReadUncommitted)
		case "READCOMMITTED", "READCOMMITTEDLOCK":
			level(engine.ReadCommitted)
		case "REPEATABLEREAD":
			level(engine.RepeatableRead)
		case "SERIALIZABLE", "HOLDLOCK":
			level(engine.Serializable)
			spec.HoldShared = true
		case "SNAPSHOT":
			level(engine.Snapshot)
		case "READPAST":
			spec.ReadPast = true
		case "UPDLOCK", "XLOCK":
			spec.Update = true
		case "TABLOCKX":
			spec.Exclusive = true
		}
	}
	return spec
}

// Name is the table's full name.
func (b *baseTable) Name() tsql.ObjectName {
	return tsql.ObjectName{Database: b.db.name, Schema: b.def.Schema, Name: b.def.Name}
}

// Columns lists the columns.
func (b *baseTable) Columns() []sqltype.Column { return b.columns }

// Order is the clustered key as far as it ascends.
func (b *baseTable) Order() []int { return b.order }

// Unique tells how much of it names one row.
func (b *baseTable) Unique() int { return b.unique }

func (b *baseTable) spec(spec tsql.ScanSpec, reverse bool) engine.ScanSpec {
	e := b.hints
	e.Lower = engine.Bound(spec.Lower)
	e.Upper = engine.Bound(spec.Upper)
	e.Update = e.Update || spec.Update
	e.Reverse = reverse
	return e
}

// Scan yields the rows that the session may see.
func (b *baseTable) Scan(ctx context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return b.scan(ctx, spec, false)
}

// ScanReverse is Scan from the other end.
func (b *baseTable) ScanReverse(ctx context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return b.scan(ctx, spec, true)
}

func (b *baseTable) scan(ctx context.Context, spec tsql.ScanSpec, reverse bool) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		if err := b.mayRead(spec.Columns); err != nil {
			yield(nil, err)
			return
		}
		for row, err := range b.ses.tx(b.db).Scan(ctx, b.table, b.spec(spec, reverse)) {
			if err != nil {
				yield(nil, b.ses.engineError(ctx, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// mayRead checks column permissions: error 230 for the first column that may not be read.
func (b *baseTable) mayRead(columns []int) error {
	if b.allowed == nil {
		return nil
	}
	check := func(i int) error {
		if columnAllowed(b.allowed, b.columns[i].Name) {
			return nil
		}
		return sqlerr.Make(230, "SELECT", b.columns[i].Name, b.def.Name, b.db.name, b.def.Schema)
	}
	if columns == nil {
		for i := range b.columns {
			if err := check(i); err != nil {
				return err
			}
		}
	}
	for _, i := range columns {
		if err := check(i); err != nil {
			return err
		}
	}
	return nil
}

// Default is a column's default expression.
func (b *baseTable) Default(column int) ast.Expr {
	_, e := extraOfColumn(&b.def.Columns[column]).defaultOf()
	return e
}

// Computed is a computed column's expression.
func (b *baseTable) Computed(column int) ast.Expr {
	if x := extraOfColumn(&b.def.Columns[column]); x != nil {
		return x.computed
	}
	return nil
}

// Checks are the CHECK constraints.
func (b *baseTable) Checks() []tsql.CheckConstraint {
	list := checksOf(b.def)
	out := make([]tsql.CheckConstraint, len(list))
	for i, c := range list {
		out[i] = tsql.CheckConstraint{Name: c.name, Column: c.column, Expr: c.expr}
	}
	return out
}

// Insert stores rows.
func (b *baseTable) Insert(ctx context.Context, spec tsql.InsertSpec, rows iter.Seq2[sqltype.Row, error]) (tsql.InsertResult, error) {
	identity := false
	for _, c := range spec.Columns {
		identity = identity || b.columns[c].Identity
	}
	res, err := b.ses.tx(b.db).Insert(ctx, b.table, engine.InsertSpec{
		Columns: spec.Columns, IdentityInsert: identity, Inserted: spec.Inserted,
	}, rows)
	return tsql.InsertResult{Count: res.Count, Identity: res.Identity}, b.ses.engineError(ctx, err)
}

// Update changes rows.
func (b *baseTable) Update(ctx context.Context, spec tsql.UpdateSpec) (int64, error) {
	scan := b.spec(spec.Scan, false)
	scan.Update = true
	n, err := b.ses.tx(b.db).Update(ctx, b.table, engine.UpdateSpec{
		Scan: scan, Set: spec.Set, Change: spec.Change, Updated: spec.Updated,
	})
	return n, b.ses.engineError(ctx, err)
}

// Delete removes rows.
func (b *baseTable) Delete(ctx context.Context, spec tsql.DeleteSpec) (int64, error) {
	scan := b.spec(spec.Scan, false)
	scan.Update = true
	n, err := b.ses.tx(b.db).Delete(ctx, b.table, engine.DeleteSpec{Scan: scan, Match: spec.Match, Deleted: spec.Deleted})
	return n, b.ses.engineError(ctx, err)
}

// engineError words an engine's error and takes note of those that end the transaction.
func (s *session) engineError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = clientError(err, s.spid)
	s.lost(ctx, err)
	return err
}

// numberOf is the number of an SQL or engine error, 0 for others.
func numberOf(err error) int32 {
	if e := sqlerr.Of(err); e != nil {
		return e.Number
	}
	return engine.Number(err)
}
