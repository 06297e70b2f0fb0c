package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// View is everything that CDC holds for a database at one instant: metadata, change tables, mapping, DDL history. It is
// immutable; [Database.CDC] gives the newest. Each scan of capture, each step of clean-up and each enable or disable
// publishes a new one, so a reader that takes one view per statement sees all change tables and the mapping move together.
type View struct {
	db        *Database
	enabled   bool
	instances []*Instance // by creation
	mapping   Mapping
	ddl       []DDLEntry
	maxLSN    lsnKey // of the mapping; zero for NULL
}

// CapturedColumn is a row of cdc.captured_columns and what reading needs. Type is the change table's column type: a
// rowversion is binary(8), an identity plain.
type CapturedColumn struct {
	ObjectID   int32 // of the change table
	Name       string
	ColumnID   int32 // in the source table
	Type       sqltype.Type
	SourceKind sqltype.Kind // differs from Type.Kind for rowversion
	Ordinal    int32        // column_ordinal, from 1
	IsComputed bool
	large      bool // a (max) type: NULL in before images unless changed
	oldLOB     bool // text, ntext, image: NULL in operations 1 and 3
}

// IndexColumn is a row of cdc.index_columns.
type IndexColumn struct {
	ObjectID int32 // of the change table
	Name     string
	Ordinal  int32 // index_ordinal, from 1
	ColumnID int32 // in the source table
}

// Instance is a capture instance: its row of cdc.change_tables, its captured and index columns, and its change table. It is
// immutable and belongs to one View.
type Instance struct {
	ObjectID           int32 // of the change table
	Version            int32 // always 0
	SourceObjectID     int32
	SourceSchema       string // as of this view
	SourceTable        string // as of this view: renames are followed
	Name               string // capture_instance
	StartLSN           LSN    // the low watermark
	SupportsNetChanges bool
	RoleName           string // "" for NULL
	IndexName          string // "" for NULL; set with a key even without net changes
	Filegroup          string // "" for NULL
	CreateDate         time.Time
	PartitionSwitch    bool
	Columns            []CapturedColumn
	IndexColumns       []IndexColumn
	// Pending is set until capture has processed the enable: sys.fn_cdc_get_min_lsn answers 0x00 or NULL, not StartLSN.
	Pending bool

	after     lsnKey // what is logged above it is captured
	enableLSN lsnKey // commit of the enable
	changes   *changeStore
}

// ChangeTableName is the name of the change table in schema cdc.
func (i *Instance) ChangeTableName() string { return i.Name + "_CT" }

// SourceName is schema.table of the source.
func (i *Instance) SourceName() string { return i.SourceSchema + "." + i.SourceTable }

// Captured finds a captured column by name, without case; -1 when there is none.
func (i *Instance) Captured(name string) int {
	return slices.IndexFunc(i.Columns, func(c CapturedColumn) bool { return strings.EqualFold(c.Name, name) })
}

// Rows is the number of rows in the change table.
func (i *Instance) Rows() int64 { return i.changes.rows() }

// DDLEntry is a row of cdc.ddl_history.
type DDLEntry struct {
	SourceObjectID       int32
	ObjectID             int32 // of the change table
	RequiredColumnUpdate bool
	Command              string
	LSN                  LSN       // not an entry of the mapping [M22]
	Time                 time.Time // server's wall clock, whole minutes [M22]
}

// Enabled tells whether CDC is on in the database. All else is empty when it is not.
func (v *View) Enabled() bool { return v.enabled }

// MaxLSN is sys.fn_cdc_get_max_lsn: the largest start_lsn of the mapping, false for NULL (an empty mapping) [D]. The error
// 208 that a database without CDC gives is the layer above's to raise.
func (v *View) MaxLSN() (LSN, bool) { return v.maxLSN.lsn(), v.maxLSN != lsnKey{} }

// MinLSN is sys.fn_cdc_get_min_lsn: the instance's StartLSN. known is false when there is no such instance, pending is true
// when capture has not processed its enable; then the LSN is zero [D, M22].
func (v *View) MinLSN(instance string) (lsn LSN, known, pending bool) {
	i, ok := v.Instance(instance)
	if !ok {
		return LSN{}, false, false
	}
	if i.Pending {
		return LSN{}, true, true
	}
	return i.StartLSN, true, false
}

// Instances lists the capture instances by creation.
func (v *View) Instances() []*Instance { return slices.Clone(v.instances) }

// Instance finds a capture instance by name, without case [K].
func (v *View) Instance(name string) (*Instance, bool) {
	i := slices.IndexFunc(v.instances, func(i *Instance) bool { return strings.EqualFold(i.Name, name) })
	if i < 0 {
		return nil, false
	}
	return v.instances[i], true
}

// InstancesOf lists the instances of a source table by creation.
func (v *View) InstancesOf(objectID int32) []*Instance {
	var out []*Instance
	for _, i := range v.instances {
		if i.SourceObjectID == objectID {
			out = append(out, i)
		}
	}
	return out
}

// Mapping is cdc.lsn_time_mapping.
func (v *View) Mapping() Mapping { return v.mapping }

// DDLHistory is cdc.ddl_history, oldest first.
func (v *View) DDLHistory() []DDLEntry { return slices.Clone(v.ddl) }

// with returns a copy of the view for the next version.
func (v *View) with(change func(*View)) *View {
	next := *v
	next.instances = slices.Clone(v.instances)
	change(&next)
	return &next
}

// replace puts a changed copy of an instance into the view; it must not have been published yet.
func (v *View) replace(name string, change func(*Instance)) {
	for n, i := range v.instances {
		if i.Name == name {
			c := *i
			change(&c)
			v.instances[n] = &c
		}
	}
}
