package engine

import (
	"context"
	"slices"
	"strings"
	"time"
)

// cdcStep is one change that an open transaction has made to the capture instances: one enabled, or some disabled. Nobody else sees
// it before the commit, which takes the steps in their order.
type cdcStep struct {
	add  *Instance
	drop []*Instance
}

// CDC is the database's view with what this transaction has enabled and disabled itself.
func (tx *Tx) CDC() *View {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	return tx.view()
}

func (tx *Tx) view() *View {
	v := tx.db.CDC()
	if len(tx.cdc) == 0 {
		return v
	}
	return v.with(func(v *View) { v.apply(tx.cdc) })
}

func (v *View) apply(steps []cdcStep) {
	for _, s := range steps {
		if s.add != nil {
			v.instances = append(v.instances, s.add)
			continue
		}
		v.drop(s.drop)
	}
}

// drop takes instances and their DDL history out; with the last one the mapping is emptied (message 22909).
func (v *View) drop(gone []*Instance) {
	isGone := func(objectID int32) bool {
		return slices.ContainsFunc(gone, func(i *Instance) bool { return i.ObjectID == objectID })
	}
	v.instances = slices.DeleteFunc(v.instances, func(i *Instance) bool { return isGone(i.ObjectID) })
	v.ddl = slices.DeleteFunc(slices.Clone(v.ddl), func(d DDLEntry) bool { return isGone(d.ObjectID) })
	if len(v.instances) == 0 {
		v.mapping, v.maxLSN = Mapping{}, lsnKey{}
	}
}

// changeCDC adds a step and the way back; db.mu is held and the transaction has the table's schema lock.
func (tx *Tx) changeCDC(t *Table, s cdcStep) {
	before, tracked := len(tx.cdc), t.tracked
	tx.cdc = append(tx.cdc, s)
	tx.undo = append(tx.undo, undoStep{ddl: func() { tx.cdc, t.tracked = tx.cdc[:before], tracked }})
	t.tracked = len(tx.view().InstancesOf(t.def.Load().ObjectID))
}

// lockCDC lets one transaction at a time change the instances: SQL Server takes an application lock, to the transaction's end
// (message 22840) [K]. db.mu is held.
func (tx *Tx) lockCDC(ctx context.Context) error {
	for {
		var owner *Tx
		for o := range tx.db.open {
			if o != tx && o.cdcLock {
				owner = o
			}
		}
		if owner == nil {
			tx.cdcLock = true
			return nil
		}
		if err := tx.wait(ctx, owner); err != nil {
			return err
		}
	}
}

// EnableTable is sys.sp_cdc_enable_table as part of a transaction. It waits until no other transaction is open that has changed the
// table. Nobody else sees the instance before the commit, whose LSN becomes its start LSN [M22]; it captures what is logged
// above this call, the rest of its own transaction included [K]; a rollback takes it back. The errors are those of the catalogue:
// 22901, 22963, 22931, 22974, 22927, 22926, 22962, 22928, 22929, 22838, 22939, 22942, 22975, 22943; 1222 and 1205.
func (tx *Tx) EnableTable(ctx context.Context, spec EnableTableSpec) (EnableResult, error) {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := tx.ddlAllowed(ctx); err != nil {
		return EnableResult{}, err
	}
	t, _, err := tx.planInstance(spec)
	if err != nil {
		return EnableResult{}, err
	}
	if err := tx.lockCDC(ctx); err != nil {
		return EnableResult{}, err
	}
	if err := tx.lockSchema(ctx, t); err != nil {
		return EnableResult{}, err
	}
	t, inst, err := tx.planInstance(spec)
	if err != nil { // things may have changed while we waited
		return EnableResult{}, err
	}
	inst.setObjectID(db.newObjectID())
	for range 5 { // functions and internal procedures
		db.newObjectID()
	}
	inst.after = tx.record(recordBytes)
	inst.changes = &changeStore{layout: newLayout(inst.Columns)}
	inst.Pending = true
	first := !slices.ContainsFunc(tx.cdc, func(s cdcStep) bool { return s.add != nil })
	tx.changeCDC(t, cdcStep{add: inst})
	created := first && !db.jobs.created
	return EnableResult{Instance: inst, JobsCreated: created, JobStarted: created && db.server.opts.AutoStart}, nil
}

// DisableTable is sys.sp_cdc_disable_table as part of a transaction; the instance "all" means every one of the table. It waits for
// other transactions that have changed the table. At the commit change table and DDL history vanish at once; with the
// database's last instance the mapping is emptied too. It gives what was disabled. Errors: 22901, 22931, 22960; 1222 and 1205.
func (tx *Tx) DisableTable(ctx context.Context, schema, table, instance string) ([]*Instance, error) {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := tx.ddlAllowed(ctx); err != nil {
		return nil, err
	}
	t, _, err := tx.planDisable(schema, table, instance)
	if err != nil {
		return nil, err
	}
	if err := tx.lockCDC(ctx); err != nil {
		return nil, err
	}
	if err := tx.lockSchema(ctx, t); err != nil {
		return nil, err
	}
	t, gone, err := tx.planDisable(schema, table, instance)
	if err != nil { // things may have changed while we waited
		return nil, err
	}
	tx.record(recordBytes)
	tx.changeCDC(t, cdcStep{drop: gone})
	return gone, nil
}

// planDisable finds the table and the instances.
func (tx *Tx) planDisable(schema, table, instance string) (*Table, []*Instance, error) {
	view := tx.view()
	if !view.enabled {
		return nil, nil, fail(ErrNotEnabled, tx.db.name)
	}
	t, ok := tx.db.table(schema, table)
	if !ok {
		return nil, nil, fail(ErrSourceMissing, schema, table)
	}
	var gone []*Instance
	for _, i := range view.InstancesOf(t.def.Load().ObjectID) {
		if strings.EqualFold(instance, "all") || strings.EqualFold(instance, i.Name) {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return nil, nil, fail(ErrInstanceNotEnabled, instance, schema, table)
	}
	return t, gone, nil
}

// publishCDC makes the transaction's steps visible at its commit and tells whether the capture job is to be started; db.mu is held.
func (tx *Tx) publishCDC(commit lsnKey) (start bool) {
	db := tx.db
	if len(tx.cdc) == 0 || !db.CDC().enabled {
		return false
	}
	enabled := false
	for _, s := range tx.cdc {
		if i := s.add; i != nil {
			enabled = true
			i.enableLSN, i.StartLSN = commit, commit.lsn()
			if t, ok := db.tableByID(i.SourceObjectID); ok { // it may have been renamed since
				i.SourceSchema, i.SourceTable = t.def.Load().Schema, t.def.Load().Name
			}
		}
	}
	db.publish(func(v *View) { v.apply(tx.cdc) })
	if db.CDC().mapping.Len() == 0 {
		db.captured.lastEntry = time.Time{}
	}
	for _, t := range db.tables { // CDC may have been off and on again meanwhile
		t.tracked = len(db.CDC().InstancesOf(t.def.Load().ObjectID))
	}
	if !enabled {
		return false
	}
	db.backlog = append(db.backlog, &logTx{commit: commit, marker: true})
	start = !db.jobs.created && db.server.opts.AutoStart
	db.jobs.created = true
	return start
}
