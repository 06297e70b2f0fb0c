package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// define builds the definition of a new table.
func (db *Database) define(spec TableSpec) (*TableDef, error) {
	def := &TableDef{
		Schema: spec.Schema, Name: spec.Name, Extra: spec.Extra, unmaterialized: spec.Unmaterialized,
		CreateDate: db.server.Now(), ModifyDate: db.server.Now(),
	}
	for _, c := range spec.Columns {
		if def.Ordinal(c.Name) >= 0 {
			return nil, fail(ErrColumnExists, c.Name, spec.Name)
		}
		def.addColumn(c)
	}
	if len(def.Columns) == 0 {
		return nil, fmt.Errorf("creating table %s: it has no columns", def.FullName())
	}
	for _, x := range spec.Indexes {
		if err := db.addIndex(def, x); err != nil {
			return nil, err
		}
	}
	def.derive(db.settings.Collation)
	return def, nil
}

// addColumn appends a column under the next id.
func (d *TableDef) addColumn(c ColumnSpec) {
	d.maxColumnID++
	if c.Identity != nil || c.Type.Kind == sqltype.KindRowVersion {
		c.Nullable = false
	}
	d.Columns = append(d.Columns, ColumnDef{ColumnSpec: c, ID: d.maxColumnID})
}

// addIndex appends an index. The columns of a primary key become NOT NULL.
func (db *Database) addIndex(d *TableDef, spec IndexSpec) error {
	x := IndexDef{
		Name: spec.Name, Unique: spec.Unique || spec.PrimaryKey, PrimaryKey: spec.PrimaryKey,
		Constraint: spec.Constraint || spec.PrimaryKey, Clustered: spec.Clustered,
	}
	if x.Name == "" {
		x.Name = db.indexName(d.Name, spec)
	}
	if _, taken := d.Index(x.Name); taken {
		return fail(ErrIndexExists, x.Name, d.FullName())
	}
	for i, name := range spec.Columns {
		o := d.Ordinal(name)
		if o < 0 {
			return fail(ErrIndexColumn, name)
		}
		x.Columns = append(x.Columns, d.Columns[o].ID)
		x.Descending = append(x.Descending, i < len(spec.Descending) && spec.Descending[i])
		if x.PrimaryKey {
			d.Columns[o].Nullable = false
		}
	}
	x.ID = 1
	if !x.Clustered {
		x.ID = 2
		for _, o := range d.Indexes {
			x.ID = max(x.ID, o.ID+1)
		}
	} else if slices.ContainsFunc(d.Indexes, func(o IndexDef) bool { return o.Clustered }) {
		return fail(ErrSecondClustered, d.FullName(), d.clusteredIndex().Name)
	}
	d.Indexes = append(d.Indexes, x)
	return nil
}

// indexName makes a name up as SQL Server does: PK__Employee__7AD04FF15CA69CC1.
func (db *Database) indexName(table string, spec IndexSpec) string {
	prefix := "IX"
	switch {
	case spec.PrimaryKey:
		prefix = "PK"
	case spec.Unique:
		prefix = "UQ"
	}
	return fmt.Sprintf("%s__%.9s__%016X", prefix, table, db.log.rng.Uint64())
}

// derive fills in what storage and capture look up for every row.
func (d *TableDef) derive(databaseCollation string) {
	d.identityCol, d.rowVersionCol, d.computedCols = -1, -1, nil
	for i, c := range d.Columns {
		switch {
		case c.Identity != nil:
			d.identityCol = i
		case c.Type.Kind == sqltype.KindRowVersion:
			d.rowVersionCol = i
		case c.Computed != nil:
			d.computedCols = append(d.computedCols, i)
		}
	}
	d.keyCols, d.keyUnique, d.unique = nil, false, nil
	for n, x := range d.Indexes {
		switch {
		case x.Clustered:
			d.keyCols, d.keyUnique = d.keyColumns(x, databaseCollation), x.Unique
		case x.Unique:
			d.unique = append(d.unique, uniqueIndex{def: n, cols: d.keyColumns(x, databaseCollation)})
		}
	}
}

func (d *TableDef) keyColumns(x IndexDef, databaseCollation string) []keyColumn {
	cols := make([]keyColumn, len(x.Columns))
	for i, id := range x.Columns {
		o := d.OrdinalOf(id)
		cols[i] = keyColumn{ordinal: o, descending: x.Descending[i]}
		name := d.Columns[o].Type.Collation
		if name == "" {
			name = databaseCollation
		}
		if c, ok := sqltype.LookupCollation(name); ok {
			cols[i].collation = c
		}
	}
	return cols
}

func (d *TableDef) clusteredIndex() IndexDef {
	i := slices.IndexFunc(d.Indexes, func(x IndexDef) bool { return x.Clustered })
	if i < 0 {
		return IndexDef{}
	}
	return d.Indexes[i]
}

// clone is a copy to change.
func (d *TableDef) clone() *TableDef {
	c := *d
	c.Columns, c.Indexes = slices.Clone(d.Columns), slices.Clone(d.Indexes)
	return &c
}

// indexOn finds an index that a column is part of.
func (d *TableDef) indexOn(columnID int32) (IndexDef, bool) {
	i := slices.IndexFunc(d.Indexes, func(x IndexDef) bool { return slices.Contains(x.Columns, columnID) })
	if i < 0 {
		return IndexDef{}, false
	}
	return d.Indexes[i], true
}

// sameClustering tells whether two definitions put rows in the same places.
func (d *TableDef) sameClustering(o *TableDef) bool {
	a, b := d.clusteredIndex(), o.clusteredIndex()
	if !slices.Equal(a.Columns, b.Columns) || !slices.Equal(a.Descending, b.Descending) || a.Unique != b.Unique {
		return false
	}
	return !slices.ContainsFunc(a.Columns, func(id int32) bool {
		return !d.Columns[d.OrdinalOf(id)].Type.Equal(o.Columns[o.OrdinalOf(id)].Type)
	})
}

// BracketList is a list of names as [a], [b], as sys.sp_cdc_help_change_data_capture prints lists.
func BracketList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "[" + strings.ReplaceAll(n, "]", "]]") + "]"
	}
	return strings.Join(quoted, ", ")
}
