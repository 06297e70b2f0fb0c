package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Schema is a schema of a database.
type Schema struct {
	ID   int32
	Name string
}

// Identity is the IDENTITY property of a column.
type Identity struct {
	Seed, Increment int64
}

// ColumnSpec describes a column to create.
type ColumnSpec struct {
	Name     string
	Type     sqltype.Type
	Nullable bool
	Identity *Identity
	// Computed gives the value of a computed column from the row's other columns (by ordinal of the table); nil for an
	// ordinary column. Change tables hold NULL for it [D].
	Computed  func(row sqltype.Row) (sqltype.Value, error)
	Persisted bool
	// Default gives the value of a column that an insert does not name; nil means NULL. ALTER TABLE ADD gives it to the
	// existing rows when the column is NOT NULL.
	Default func() (sqltype.Value, error)
	// Extra is whatever the layer above wants to keep with the column (the default's text, its expression tree).
	Extra any
}

// ColumnDef is a column of a table. Its place in [TableDef.Columns] is its ordinal; ID is its column_id, never used again
// after the column is dropped.
type ColumnDef struct {
	ColumnSpec
	ID int32
}

// IndexSpec describes an index or a key constraint to create.
type IndexSpec struct {
	Name       string // "" makes one up: PK__table__hex, UQ__table__hex
	Columns    []string
	Descending []bool // per column; nil means all ascending
	Unique     bool
	PrimaryKey bool
	Constraint bool // made by a PRIMARY KEY or UNIQUE constraint: duplicates are 2627, else 2601
	Clustered  bool
}

// IndexDef is an index of a table.
type IndexDef struct {
	ID         int32 // 1 clustered, 2 and up the others
	Name       string
	Columns    []int32 // column ids in key order
	Descending []bool
	Unique     bool
	PrimaryKey bool
	Constraint bool
	Clustered  bool
}

// TableSpec describes a table to create.
type TableSpec struct {
	Schema, Name string
	Columns      []ColumnSpec
	Indexes      []IndexSpec
	// Unmaterialized makes a table that takes and logs inserts but keeps no rows: benchmarks fill change tables through it
	// without paying for base storage. Updates and deletes find nothing in it.
	Unmaterialized bool
	Extra          any // kept in TableDef for the layer above
}

// TableDef is the definition of a table at one time. It is immutable: DDL replaces it.
type TableDef struct {
	ObjectID   int32
	Schema     string
	Name       string
	Columns    []ColumnDef
	Indexes    []IndexDef
	CreateDate time.Time // server's wall clock
	ModifyDate time.Time
	Extra      any

	unmaterialized bool
	maxColumnID    int32
	identityCol    int // ordinal, -1 without
	rowVersionCol  int
	computedCols   []int
	keyCols        []keyColumn // clustered key; nil for a heap
	keyUnique      bool
	unique         []uniqueIndex // unique indexes other than the clustered one
}

// keyColumn is a column of a key: its ordinal and direction.
type keyColumn struct {
	ordinal    int
	descending bool
	collation  *sqltype.Collation
}

// uniqueIndex is a nonclustered unique index as storage needs it.
type uniqueIndex struct {
	def  int // in TableDef.Indexes
	cols []keyColumn
}

// FullName is schema.name, unquoted, as messages print it.
func (d *TableDef) FullName() string { return d.Schema + "." + d.Name }

// Ordinal finds a column by name, without case; -1 when there is none.
func (d *TableDef) Ordinal(name string) int {
	return slices.IndexFunc(d.Columns, func(c ColumnDef) bool { return strings.EqualFold(c.Name, name) })
}

// OrdinalOf finds a column by its id; -1 when there is none.
func (d *TableDef) OrdinalOf(id int32) int {
	return slices.IndexFunc(d.Columns, func(c ColumnDef) bool { return c.ID == id })
}

// Index finds an index by name, without case.
func (d *TableDef) Index(name string) (IndexDef, bool) {
	i := slices.IndexFunc(d.Indexes, func(x IndexDef) bool { return strings.EqualFold(x.Name, name) })
	if i < 0 {
		return IndexDef{}, false
	}
	return d.Indexes[i], true
}

// PrimaryKey gives the primary key's index.
func (d *TableDef) PrimaryKey() (IndexDef, bool) {
	i := slices.IndexFunc(d.Indexes, func(x IndexDef) bool { return x.PrimaryKey })
	if i < 0 {
		return IndexDef{}, false
	}
	return d.Indexes[i], true
}

// ClusteredKey lists the ordinals of the clustered key, and tells whether it is unique; nil for a heap. Scans yield rows in
// this order (a descending key column in descending order).
func (d *TableDef) ClusteredKey() (ordinals []int, unique bool) {
	for _, k := range d.keyCols {
		ordinals = append(ordinals, k.ordinal)
	}
	return ordinals, d.keyUnique
}

// KeyAscending tells whether all columns of the clustered key are ascending.
func (d *TableDef) KeyAscending() bool {
	return !slices.ContainsFunc(d.keyCols, func(k keyColumn) bool { return k.descending })
}

// SQLColumns is the table as a list of columns of package sqltype.
func (d *TableDef) SQLColumns() []sqltype.Column {
	out := make([]sqltype.Column, len(d.Columns))
	for i, c := range d.Columns {
		out[i] = sqltype.Column{
			Name: c.Name, Type: c.Type, Nullable: c.Nullable, Identity: c.Identity != nil, Computed: c.Computed != nil,
		}
	}
	return out
}
