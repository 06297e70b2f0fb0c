package engine

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// EnableCDC is sys.sp_cdc_enable_db: it makes the schema cdc and starts to keep the log for capture. 22905 when CDC is on
// already, 22906 when a schema cdc exists.
func (db *Database) EnableCDC() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.CDC().enabled {
		return fail(ErrAlreadyEnabled, db.name)
	}
	if _, taken := db.schema("cdc"); taken {
		return fail(ErrCDCSchemaExists, db.name)
	}
	next := int32(5)
	for _, s := range db.schemas {
		next = max(next, s.ID+1)
	}
	db.schemas = append(db.schemas, Schema{next, "cdc"})
	db.objectID = int32((int64(db.objectID) + 5*16_000_057) % 2_147_483_647) // change_tables and the four other tables
	db.log.next(recordBytes)
	db.scanned = db.log.commit()
	db.publish(func(v *View) { v.enabled = true })
	return nil
}

// DisableCDC is sys.sp_cdc_disable_db: all instances, the mapping and both jobs go; 22901 when CDC is off. It stops the capture
// job and fails with 22903 while another session scans.
func (db *Database) DisableCDC() error {
	if !db.CDC().Enabled() {
		return fail(ErrNotEnabled, db.name)
	}
	db.StopCapture()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.scanBusy {
		return fail(ErrScanBusy, int64(db.scanning))
	}
	db.forgetCDC()
	return nil
}

// forgetCDC drops everything that CDC has; db.mu is held and nobody scans.
func (db *Database) forgetCDC() {
	for _, t := range db.tables {
		t.tracked = 0
	}
	db.backlog = nil
	db.jobs.created = false
	db.captured = captureState{}
	db.schemas = slices.DeleteFunc(db.schemas, func(s Schema) bool { return s.Name == "cdc" })
	db.view.Store(&View{db: db})
}

// EnableTable is sys.sp_cdc_enable_table in a transaction of its own; see [Tx.EnableTable].
func (db *Database) EnableTable(ctx context.Context, spec EnableTableSpec) (EnableResult, error) {
	var res EnableResult
	err := db.Do(ctx, func(tx *Tx) (err error) {
		res, err = tx.EnableTable(ctx, spec)
		return err
	})
	if err != nil {
		return EnableResult{}, err
	}
	return res, nil
}

// DisableTable is sys.sp_cdc_disable_table in a transaction of its own; see [Tx.DisableTable].
func (db *Database) DisableTable(ctx context.Context, schema, table, instance string) error {
	return db.Do(ctx, func(tx *Tx) error {
		_, err := tx.DisableTable(ctx, schema, table, instance)
		return err
	})
}

// planInstance checks the parameters and builds the instance.
func (tx *Tx) planInstance(spec EnableTableSpec) (*Table, *Instance, error) {
	db, view := tx.db, tx.view()
	switch {
	case !view.enabled:
		return nil, nil, fail(ErrNotEnabled, db.name)
	case spec.Schema == "":
		return nil, nil, fail(ErrParameterEmpty, "@source_schema")
	case spec.Table == "":
		return nil, nil, fail(ErrParameterEmpty, "@source_name")
	case strings.EqualFold(spec.Schema, "cdc"):
		return nil, nil, fail(ErrCDCSchemaTable)
	}
	t, ok := db.table(spec.Schema, spec.Table)
	if !ok {
		return nil, nil, fail(ErrSourceMissing, spec.Schema, spec.Table)
	}
	def := t.def.Load()
	name := spec.CaptureInstance
	if name == "" {
		name = def.Schema + "_" + def.Name
	}
	if len(utf16.Encode([]rune(name))) > 100 {
		return nil, nil, fail(ErrInstanceTooLong, name)
	}
	if _, taken := view.Instance(name); taken {
		return nil, nil, fail(ErrInstanceTaken, name)
	}
	if len(view.InstancesOf(def.ObjectID)) >= 2 {
		return nil, nil, fail(ErrTwoInstances, def.Schema, def.Name)
	}
	inst := &Instance{
		SourceObjectID: def.ObjectID, SourceSchema: def.Schema, SourceTable: def.Name, Name: name,
		RoleName: spec.Role, Filegroup: spec.Filegroup, CreateDate: db.server.Now(),
		PartitionSwitch: spec.PartitionSwitch == nil || *spec.PartitionSwitch,
	}
	if err := inst.capture(def, spec); err != nil {
		return nil, nil, err
	}
	return t, inst, nil
}

// capture chooses the captured columns and the index.
func (i *Instance) capture(def *TableDef, spec EnableTableSpec) error {
	index, keyed := def.PrimaryKey()
	if spec.Index != "" {
		if index, keyed = def.Index(spec.Index); !keyed {
			return fail(ErrIndexUnknown, spec.Index, def.Schema, def.Name)
		}
		if !index.Unique {
			return fail(ErrIndexNotUnique, spec.Index, def.Schema, def.Name)
		}
	}
	i.SupportsNetChanges = keyed
	if spec.NetChanges != nil {
		if i.SupportsNetChanges = *spec.NetChanges; *spec.NetChanges && !keyed {
			return fail(ErrNetChangesNoKey)
		}
	}
	chosen, err := chosenColumns(def, spec.Columns)
	if err != nil {
		return err
	}
	for _, o := range chosen {
		c := def.Columns[o]
		if strings.HasPrefix(c.Name, "__$") && reservedColumn(c.Name) {
			return fail(ErrReservedColumn, def.FullName())
		}
		i.Columns = append(i.Columns, capturedColumn(c, int32(len(i.Columns)+1)))
	}
	if !keyed {
		return nil
	}
	i.IndexName = index.Name
	for n, id := range index.Columns {
		c := def.Columns[def.OrdinalOf(id)]
		if c.Nullable {
			return fail(ErrIndexNullable, index.Name, def.Schema, def.Name)
		}
		if i.SupportsNetChanges && i.capturedID(id) < 0 {
			return fail(ErrKeyNotCaptured)
		}
		i.IndexColumns = append(i.IndexColumns, IndexColumn{Name: c.Name, Ordinal: int32(n + 1), ColumnID: id})
	}
	return nil
}

func (i *Instance) setObjectID(id int32) {
	i.ObjectID = id
	for n := range i.Columns {
		i.Columns[n].ObjectID = id
	}
	for n := range i.IndexColumns {
		i.IndexColumns[n].ObjectID = id
	}
}

// capturedID finds a captured column by the source's column id; -1 when there is none.
func (i *Instance) capturedID(id int32) int {
	return slices.IndexFunc(i.Columns, func(c CapturedColumn) bool { return c.ColumnID == id })
}

// chosenColumns gives the ordinals of the captured columns, in the table's order.
func chosenColumns(def *TableDef, names []string) ([]int, error) {
	var out []int
	for _, n := range names {
		o := def.Ordinal(n)
		if o < 0 {
			return nil, fail(ErrCapturedList, def.Schema, def.Name)
		}
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	if len(names) == 0 {
		for o := range def.Columns {
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return out, nil
}

func reservedColumn(name string) bool {
	return slices.ContainsFunc([]string{"__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask"},
		func(r string) bool { return strings.EqualFold(r, name) })
}

func capturedColumn(c ColumnDef, ordinal int32) CapturedColumn {
	out := CapturedColumn{
		Name: c.Name, ColumnID: c.ID, Ordinal: ordinal, IsComputed: c.Computed != nil,
	}
	out.setType(c.Type)
	return out
}

// setType sets the type as the change table has it: rowversion becomes binary(8) [D].
func (c *CapturedColumn) setType(t sqltype.Type) {
	c.Type, c.SourceKind = t, t.Kind
	c.oldLOB = isOldLOB(t.Kind)
	c.large = !c.oldLOB && isLarge(t)
	if t.Kind == sqltype.KindRowVersion {
		c.Type = sqltype.BinaryType(8)
	}
}

// dropInstances takes instances and their DDL history out of the view; db.mu is held.
func (db *Database) dropInstances(gone []*Instance) {
	db.publish(func(v *View) { v.drop(gone) })
	if len(db.CDC().instances) == 0 {
		db.captured.lastEntry = time.Time{}
	}
}
