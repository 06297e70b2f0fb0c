package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// CreateTable makes a table; 2714 when the name is taken, 2760 when there is no such schema.
func (tx *Tx) CreateTable(ctx context.Context, spec TableSpec) (*Table, error) {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := tx.ddlAllowed(ctx); err != nil {
		return nil, err
	}
	if _, ok := db.schema(spec.Schema); !ok && !strings.EqualFold(spec.Schema, "cdc") {
		return nil, fail(ErrSchemaMissing, spec.Schema)
	}
	if _, taken := db.table(spec.Schema, spec.Name); taken {
		return nil, fail(ErrObjectExists, spec.Name)
	}
	def, err := db.define(spec)
	if err != nil {
		return nil, err
	}
	def.ObjectID = db.newObjectID()
	t := &Table{db: db}
	t.def.Store(def)
	t.emptyStorage(def)
	db.tables = append(db.tables, t)
	tx.tables[t], t.lock.schema = true, tx
	tx.record(400)
	tx.undo = append(tx.undo, undoStep{ddl: func() { db.removeTable(t) }})
	return t, nil
}

func (tx *Tx) ddlAllowed(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := tx.usable(); err != nil {
		return err
	}
	if tx.db.settings.ReadOnly {
		return fail(ErrReadOnlyDatabase, tx.db.name)
	}
	return nil
}

func (db *Database) removeTable(t *Table) {
	t.dropped = true
	db.tables = slices.DeleteFunc(db.tables, func(o *Table) bool { return o == t })
}

// alter is what all statements on one table share: it takes the schema lock, runs change, and makes it undoable as a whole.
func (tx *Tx) alter(ctx context.Context, t *Table, change func() error) error {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := tx.ddlAllowed(ctx); err != nil {
		return err
	}
	if err := tx.lockSchema(ctx, t); err != nil {
		return err
	}
	def, rows, unique := t.def.Load(), t.rows, t.unique
	identity, identitySet, tracked, dropped := t.identity, t.identitySet, t.tracked, t.dropped
	name := def.Name
	logAt := len(tx.log)
	restore := func() {
		t.def.Store(def)
		t.rows, t.unique, t.identity, t.identitySet, t.tracked = rows, unique, identity, identitySet, tracked
		if t.dropped && !dropped {
			t.dropped = false
			db.tables = append(db.tables, t)
		}
		db.followRename(def.ObjectID, name)
	}
	tx.record(300)
	if err := change(); err != nil {
		restore()
		tx.log = tx.log[:logAt]
		return err
	}
	tx.undo = append(tx.undo, undoStep{ddl: restore})
	return nil
}

// DropTable drops a table and, as SQL Server does, its capture instances [D].
func (tx *Tx) DropTable(ctx context.Context, t *Table) error {
	return tx.alter(ctx, t, func() error {
		db := tx.db
		id := t.def.Load().ObjectID
		if removed := tx.view().InstancesOf(id); len(removed) > 0 {
			if err := tx.lockCDC(ctx); err != nil {
				return err
			}
			tx.changeCDC(t, cdcStep{drop: removed})
		}
		db.removeTable(t)
		return nil
	})
}

// RenameTable renames a table; capture instances follow, keeping their names [M22, M25]. It is not in the DDL history.
func (tx *Tx) RenameTable(ctx context.Context, t *Table, name string) error {
	return tx.alter(ctx, t, func() error {
		def := t.def.Load().clone()
		if _, taken := tx.db.table(def.Schema, name); taken {
			return fail(ErrObjectExists, name)
		}
		def.Name = name
		t.def.Store(def)
		tx.db.followRename(def.ObjectID, name)
		return nil
	})
}

// followRename shows a source table's name in its instances.
func (db *Database) followRename(objectID int32, name string) {
	for _, i := range db.CDC().InstancesOf(objectID) {
		if i.SourceTable != name {
			db.publish(func(v *View) { v.replace(i.Name, func(i *Instance) { i.SourceTable = name }) })
		}
	}
}

// Truncate removes all rows and starts the identity again; 4711 on a tracked table [D].
func (tx *Tx) Truncate(ctx context.Context, t *Table) error {
	return tx.alter(ctx, t, func() error {
		def := t.def.Load()
		if t.tracked > 0 {
			return fail(ErrTruncateTracked, def.FullName())
		}
		t.emptyStorage(def)
		t.identitySet, t.identity = false, 0
		return nil
	})
}

// AddColumn adds a column at the end. Existing rows get the default when it is NOT NULL (4901 without one), else NULL. command
// is the statement's text for the DDL history. Capture instances do not capture the column [M22].
func (tx *Tx) AddColumn(ctx context.Context, t *Table, spec ColumnSpec, command string) error {
	return tx.alter(ctx, t, func() error {
		old := t.def.Load()
		if old.Ordinal(spec.Name) >= 0 {
			return fail(ErrColumnExists, spec.Name, old.FullName())
		}
		generated := spec.Identity != nil || spec.Computed != nil || spec.Type.Kind == sqltype.KindRowVersion
		if !spec.Nullable && spec.Default == nil && !generated && t.rows.len() > 0 {
			return fail(ErrAddNotNull, spec.Name, old.Name)
		}
		def := old.clone()
		def.addColumn(spec)
		def.derive(tx.db.settings.Collation)
		last := len(def.Columns) - 1
		if err := tx.rebuild(t, def, func(row sqltype.Row) (sqltype.Row, error) {
			return t.fillColumn(def, last, append(slices.Clone(row), sqltype.Value{}))
		}); err != nil {
			return err
		}
		tx.logDDL(t, &ddlRecord{command: command})
		return nil
	})
}

// fillColumn gives an existing row the value of a new column.
func (t *Table) fillColumn(def *TableDef, i int, row sqltype.Row) (sqltype.Row, error) {
	c := &def.Columns[i]
	var err error
	switch {
	case c.Identity != nil:
		t.identity += c.Identity.Increment
		if !t.identitySet {
			t.identity, t.identitySet = c.Identity.Seed, true
		}
		row[i] = integerOf(c.Type, t.identity)
	case i == def.rowVersionCol:
		t.db.stampRowVersion(def, row)
	case c.Computed != nil:
		row[i], err = c.Computed(row)
	case !c.Nullable && c.Default != nil:
		row[i], err = c.Default()
	}
	return row, err
}

// DropColumn drops a column; 5074 when an index has it. Instances that capture it keep it and hold NULL from then on [M22].
func (tx *Tx) DropColumn(ctx context.Context, t *Table, name, command string) error {
	return tx.alter(ctx, t, func() error {
		old := t.def.Load()
		o := old.Ordinal(name)
		if o < 0 {
			return fail(ErrAlterColumnMissing, "ALTER TABLE DROP COLUMN", name, old.Name)
		}
		if x, used := old.indexOn(old.Columns[o].ID); used {
			return fail(ErrColumnDependent, dependent(x), x.Name, old.Columns[o].Name, "DROP COLUMN")
		}
		def := old.clone()
		def.Columns = slices.Delete(def.Columns, o, o+1)
		def.derive(tx.db.settings.Collation)
		if err := tx.rebuild(t, def, func(row sqltype.Row) (sqltype.Row, error) {
			return slices.Delete(slices.Clone(row), o, o+1), nil
		}); err != nil {
			return err
		}
		tx.logDDL(t, &ddlRecord{command: command})
		return nil
	})
}

func dependent(x IndexDef) string {
	if x.Constraint {
		return "object"
	}
	return "index"
}

// AlterColumn changes a column's type or nullability. Values are converted; one that does not fit fails the statement (2628, 8115 or
// what the conversion says, 515 for NULL). A type change of a column in an index is refused [M22]. When a captured column's
// type changes, the capture job alters the change table once it gets there [M22, M25].
func (tx *Tx) AlterColumn(ctx context.Context, t *Table, name string, typ sqltype.Type, nullable bool, command string) error {
	return tx.alter(ctx, t, func() error {
		old := t.def.Load()
		o := old.Ordinal(name)
		if o < 0 {
			return fail(ErrAlterColumnMissing, "ALTER TABLE ALTER COLUMN", name, old.Name)
		}
		c := old.Columns[o]
		changed := !c.Type.Equal(typ)
		if x, used := old.indexOn(c.ID); used && changed {
			return fail(ErrColumnDependent, dependent(x), x.Name, c.Name, "ALTER COLUMN")
		}
		if c.Computed != nil || c.Type.Kind == sqltype.KindRowVersion {
			return fail(ErrColumnInUse, "ALTER COLUMN", c.Name)
		}
		def := old.clone()
		def.Columns[o].Type, def.Columns[o].Nullable = typ, nullable
		def.derive(tx.db.settings.Collation)
		if err := tx.rebuild(t, def, func(row sqltype.Row) (sqltype.Row, error) {
			if row[o].IsNull() && !nullable {
				return nil, fail(ErrNullNotAllowed, c.Name, tx.db.name+"."+old.FullName(), "UPDATE")
			}
			v, err := convertColumn(row[o], typ, old.Name, c.Name)
			if err != nil {
				return nil, err
			}
			next := slices.Clone(row)
			next[o] = v
			return next, nil
		}); err != nil {
			return err
		}
		r := &ddlRecord{command: command}
		if changed {
			r.columnID, r.newType = c.ID, typ
		}
		tx.logDDL(t, r)
		return nil
	})
}

// RenameColumn renames a column; 4928 when an instance captures it [M22]. It is not in the DDL history [M22].
func (tx *Tx) RenameColumn(ctx context.Context, t *Table, name, to string) error {
	return tx.alter(ctx, t, func() error {
		old := t.def.Load()
		o := old.Ordinal(name)
		if o < 0 {
			return fail(ErrInvalidColumn, name)
		}
		if other := old.Ordinal(to); other >= 0 && other != o {
			return fail(ErrColumnExists, to, old.FullName())
		}
		id := old.Columns[o].ID
		for _, i := range tx.view().InstancesOf(old.ObjectID) {
			if slices.ContainsFunc(i.Columns, func(c CapturedColumn) bool { return c.ColumnID == id }) {
				return fail(ErrAlterReplicated, old.Columns[o].Name, "REPLICATED")
			}
		}
		def := old.clone()
		def.Columns[o].Name = to
		def.ModifyDate = tx.db.server.Now()
		t.def.Store(def)
		return nil
	})
}

// CreateIndex adds an index; 1505 when a unique one meets duplicates.
func (tx *Tx) CreateIndex(ctx context.Context, t *Table, spec IndexSpec) error {
	return tx.alter(ctx, t, func() error {
		def := t.def.Load().clone()
		if err := tx.db.addIndex(def, spec); err != nil {
			return err
		}
		def.derive(tx.db.settings.Collation)
		return tx.rebuild(t, def, nil)
	})
}

// DropIndex drops an index or a key constraint; 22983 or 22979 when a capture instance uses it [D].
func (tx *Tx) DropIndex(ctx context.Context, t *Table, name string) error {
	return tx.alter(ctx, t, func() error {
		def := t.def.Load().clone()
		x, ok := def.Index(name)
		if !ok {
			return fail(ErrCannotDrop, "drop", "index", name)
		}
		for _, i := range tx.view().InstancesOf(def.ObjectID) {
			if strings.EqualFold(i.IndexName, x.Name) {
				if x.Constraint {
					return fail(ErrConstraintUsed, x.Name, def.FullName())
				}
				return fail(ErrIndexUsed, x.Name, def.FullName())
			}
		}
		def.Indexes = slices.DeleteFunc(def.Indexes, func(o IndexDef) bool { return o.ID == x.ID })
		def.derive(tx.db.settings.Collation)
		return tx.rebuild(t, def, nil)
	})
}

// rebuild gives a table a new definition and rewrites its rows for it; nil change keeps them. The old storage stays as it was,
// for undo and for readers. db.mu is held and nobody else has the table.
func (tx *Tx) rebuild(t *Table, def *TableDef, change func(sqltype.Row) (sqltype.Row, error)) error {
	old, rows := t.def.Load(), t.rows
	def.ModifyDate = tx.db.server.Now()
	t.def.Store(def)
	t.emptyStorage(def)
	keep := old.sameClustering(def)
	if tx.rebuilt == nil {
		tx.rebuilt = map[*Table]bool{}
	}
	tx.rebuilt[t] = true
	image := func(row sqltype.Row) (sqltype.Row, error) {
		if row == nil || change == nil {
			return row, nil
		}
		return change(row)
	}
	s := &statement{tx: tx, t: t, def: def}
	for e := range rows.ascend(nil) {
		next := *e
		var err error
		if next.old, err = image(e.old); err != nil {
			return err
		}
		if next.new, err = image(e.new); err != nil {
			return err
		}
		row := next.visible(tx)
		if row == nil && !keep {
			continue // a row of this transaction's past; undo restores the old storage
		}
		if !keep {
			next.loc = t.newLoc(def, row)
			if e.owner != nil {
				next.old = nil
			}
		}
		if row != nil {
			if _, err := s.conflict(next.loc, row); err != nil {
				return duplicateBuild(err, def)
			}
		}
		t.put(def, nil, &next)
	}
	return nil
}

// duplicateBuild turns a duplicate into the message of CREATE UNIQUE INDEX.
func duplicateBuild(err error, def *TableDef) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	index, key := e.Args[1], e.Args[len(e.Args)-1]
	return fail(ErrDuplicateBuild, def.FullName(), index, key)
}

// logDDL writes a DDL statement on a tracked table to the log.
func (tx *Tx) logDDL(t *Table, r *ddlRecord) {
	lsn := tx.record(300)
	if t.tracked == 0 {
		return
	}
	r.objectID = t.def.Load().ObjectID
	now := tx.db.server.Now()
	r.time = now.Truncate(0).Add(-sinceMinute(now))
	tx.log = append(tx.log, logRecord{lsn: lsn, seq: lsn, def: t.def.Load(), ddl: r})
}
