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

// EnableTable is sys.sp_cdc_enable_table. It waits until no transaction is open that has changed the table; the instance's start
// LSN is the commit LSN of this call, and it captures what is logged above it [M22]. The errors are those of the catalogue: 22901,
// 22963, 22931, 22974, 22927, 22926, 22962, 22928, 22929, 22838, 22939, 22942, 22975, 22943.
func (db *Database) EnableTable(ctx context.Context, spec EnableTableSpec) (EnableResult, error) {
	tx := db.Begin(TxOptions{})
	defer tx.Rollback()
	db.mu.Lock()
	res, err := db.enableTable(ctx, tx, spec)
	db.mu.Unlock()
	if err != nil {
		return EnableResult{}, err
	}
	if res.JobsCreated && db.server.opts.AutoStart {
		res.JobStarted = db.StartCapture()
	}
	return res, nil
}

func (db *Database) enableTable(ctx context.Context, tx *Tx, spec EnableTableSpec) (EnableResult, error) {
	t, _, err := db.planInstance(spec)
	if err != nil {
		return EnableResult{}, err
	}
	if err := tx.lockSchema(ctx, t); err != nil {
		return EnableResult{}, err
	}
	t, inst, err := db.planInstance(spec)
	if err != nil { // things may have changed while we waited
		return EnableResult{}, err
	}
	inst.setObjectID(db.newObjectID())
	for range 5 { // functions and internal procedures
		db.newObjectID()
	}
	db.log.next(recordBytes)
	inst.enableLSN = db.log.commit()
	inst.StartLSN = inst.enableLSN.lsn()
	inst.changes = &changeStore{layout: newLayout(inst.Columns)}
	inst.Pending = true
	t.tracked++
	db.backlog = append(db.backlog, &logTx{commit: inst.enableLSN, marker: true})
	db.publish(func(v *View) { v.instances = append(v.instances, inst) })
	res := EnableResult{Instance: inst, JobsCreated: !db.jobs.created}
	db.jobs.created = true
	return res, nil
}

// planInstance checks the parameters and builds the instance.
func (db *Database) planInstance(spec EnableTableSpec) (*Table, *Instance, error) {
	view := db.CDC()
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

// DisableTable is sys.sp_cdc_disable_table; the instance "all" means every one of the table. Change table and DDL history vanish
// at once; with the database's last instance the mapping is emptied too (message 22909). Errors: 22901, 22931, 22960.
func (db *Database) DisableTable(schema, table, instance string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	view := db.CDC()
	if !view.enabled {
		return fail(ErrNotEnabled, db.name)
	}
	t, ok := db.table(schema, table)
	if !ok {
		return fail(ErrSourceMissing, schema, table)
	}
	var gone []*Instance
	for _, i := range view.InstancesOf(t.def.Load().ObjectID) {
		if strings.EqualFold(instance, "all") || strings.EqualFold(instance, i.Name) {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return fail(ErrInstanceNotEnabled, instance, schema, table)
	}
	db.log.next(recordBytes)
	db.log.commit()
	t.tracked -= len(gone)
	db.dropInstances(gone)
	return nil
}

// dropInstances takes instances and their DDL history out of the view; db.mu is held.
func (db *Database) dropInstances(gone []*Instance) {
	isGone := func(objectID int32) bool {
		return slices.ContainsFunc(gone, func(i *Instance) bool { return i.ObjectID == objectID })
	}
	db.publish(func(v *View) {
		v.instances = slices.DeleteFunc(v.instances, func(i *Instance) bool { return isGone(i.ObjectID) })
		v.ddl = slices.DeleteFunc(slices.Clone(v.ddl), func(d DDLEntry) bool { return isGone(d.ObjectID) })
		if len(v.instances) == 0 {
			v.mapping, v.maxLSN = Mapping{}, lsnKey{}
			db.captured.lastEntry = time.Time{}
		}
	})
}

// restoreInstances undoes dropInstances when a DROP TABLE is rolled back.
func (db *Database) restoreInstances(back []*Instance) {
	db.publish(func(v *View) {
		v.instances = append(v.instances, back...)
		slices.SortStableFunc(v.instances, func(a, b *Instance) int { return a.CreateDate.Compare(b.CreateDate) })
	})
}
