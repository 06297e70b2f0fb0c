package sqlserversim

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func columnViews() []*view {
	return []*view{
		newView("sys", "columns", columnsColumns, func(c *viewCall) error { return c.eachColumn(addColumn) }).byObject(),
		newView("sys", "all_columns", columnsColumns, rowsAllColumns),
		newView("sys", "system_columns", columnsColumns, rowsSystemColumns),
		newView("sys", "computed_columns", columnsComputedColumns, func(c *viewCall) error { return c.eachColumn(addComputed) }).byObject(),
		newView("sys", "identity_columns", columnsIdentityColumns, func(c *viewCall) error { return c.eachColumn(addIdentity) }).byObject(),
	}
}

// columnOf is one column of one object.
type columnOf struct {
	object *object
	column sqltype.Column
	id     int32
	def    *engine.ColumnDef // of a base table
}

// eachColumn calls f for the columns of every table-like object that the session may see.
func (c *viewCall) eachColumn(f func(*viewCall, columnOf) error) error {
	return c.each(ofKind(kindTable, kindView, kindInlineFunc), func(o *object) error { return c.columnsOf(o, f) })
}

func (c *viewCall) columnsOf(o *object, f func(*viewCall, columnOf) error) error {
	cols, ids := o.columns()
	for i := range cols {
		col := columnOf{object: o, column: cols[i], id: ids[i]}
		if o.def != nil {
			col.def = &o.def.Columns[i]
		}
		if err := f(c, col); err != nil {
			return err
		}
	}
	return nil
}

func rowsAllColumns(c *viewCall) error {
	if err := c.eachColumn(addColumn); err != nil {
		return err
	}
	return rowsSystemColumns(c)
}

func rowsSystemColumns(c *viewCall) error {
	for _, v := range c.session.srv.catalog.views {
		if v.database == "" {
			if err := c.columnsOf(systemObject(v, c.db), addColumn); err != nil {
				return err
			}
		}
	}
	return nil
}

// typeIDs gives system_type_id and user_type_id; sysname is told from nvarchar(128) by the catalogue's own columns only.
func typeIDs(col columnOf) (system uint8, user int) {
	t := systemType(col.column.Type.Kind)
	if col.object.view != nil && col.column.Type.Kind == sqltype.KindNVarChar && col.column.Type.Length == 128 {
		return 231, 256
	}
	return t.system, t.user
}

func addColumn(c *viewCall, col columnOf) error {
	t := col.column.Type
	system, user := typeIDs(col)
	defaultID := int32(0)
	if name, e := extraOfColumn(col.def).defaultOf(); e != nil {
		defaultID = derivedID(col.object.schema, name)
	}
	return c.add(fields{
		"object_id": col.object.id, "name": col.column.Name, "column_id": col.id, "system_type_id": system, "user_type_id": user,
		"max_length": maxLengthOf(t), "precision": precisionOf(t), "scale": scaleOf(t), "collation_name": collationOf(t, c.db),
		"is_nullable": col.column.Nullable, "is_ansi_padded": t.Kind.IsText() || t.Kind.IsBinary(),
		"is_identity": col.column.Identity, "is_computed": col.column.Computed, "default_object_id": defaultID,
		"is_replicated": false, "is_non_sql_subscribed": false, "is_merge_published": false, "is_dts_replicated": false,
		"is_sparse": false, "is_column_set": false, "generated_always_type": 0,
		"generated_always_type_desc": "NOT_APPLICABLE",
	})
}

func addComputed(c *viewCall, col columnOf) error {
	if !col.column.Computed {
		return nil
	}
	t := col.column.Type
	system, user := typeIDs(col)
	definition := ""
	if x := extraOfColumn(col.def); x != nil {
		definition = "(" + printExpr(x.computed) + ")"
	}
	return c.add(fields{
		"object_id": col.object.id, "name": col.column.Name, "column_id": col.id, "system_type_id": system, "user_type_id": user,
		"max_length": maxLengthOf(t), "precision": precisionOf(t), "scale": scaleOf(t), "collation_name": collationOf(t, c.db),
		"is_nullable": col.column.Nullable, "definition": definition, "is_persisted": col.def != nil && col.def.Persisted,
	})
}

func addIdentity(c *viewCall, col columnOf) error {
	if col.def == nil || col.def.Identity == nil {
		return nil
	}
	t := col.column.Type
	system, user := typeIDs(col)
	f := fields{
		"object_id": col.object.id, "name": col.column.Name, "column_id": col.id, "system_type_id": system, "user_type_id": user,
		"max_length": maxLengthOf(t), "precision": precisionOf(t), "scale": scaleOf(t), "is_identity": true,
		"seed_value": col.def.Identity.Seed, "increment_value": col.def.Identity.Increment,
	}
	if table, ok := c.db.eng.TableByID(col.object.id); ok {
		if last, ok := table.IdentityCurrent(); ok {
			f["last_value"] = last
		}
	}
	return c.add(f)
}

func indexViews() []*view {
	return []*view{
		newView("sys", "indexes", columnsIndexes, func(c *viewCall) error { return c.eachIndex(addIndex) }).byObject(),
		newView("sys", "index_columns", columnsIndexColumns, func(c *viewCall) error { return c.eachIndex(addIndexColumns) }).byObject(),
		newView("sys", "partitions", columnsPartitions, func(c *viewCall) error { return c.eachIndex(addPartition) }).byObject(),
		newView("sys", "dm_db_partition_stats", columnsPartitionStats, func(c *viewCall) error { return c.eachIndex(addPartitionStats) }).
			byObject().needing(needDatabaseState),
	}
}

// indexOf is one index, or the heap, of a table.
type indexOf struct {
	object  *object
	id      int32
	name    any // nil for a heap
	kind    uint8
	columns []int32
	desc    []bool
	def     *engine.IndexDef
	unique  bool
	rows    int64
}

// eachIndex calls f for the indexes of every table that the session may see; a heap has index 0 first.
func (c *viewCall) eachIndex(f func(*viewCall, indexOf) error) error {
	return c.each(ofKind(kindTable), func(o *object) error {
		for _, ix := range c.indexesOf(o) {
			if err := f(c, ix); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *viewCall) indexesOf(o *object) []indexOf {
	switch {
	case o.def != nil:
		return c.tableIndexes(o)
	case o.instance != nil:
		rows := o.instance.Rows()
		order := make([]int32, 0, 4)
		for _, i := range o.instance.ChangeOrder() {
			order = append(order, int32(i+1))
		}
		out := []indexOf{{object: o, id: 1, name: o.name + "_clustered_idx", kind: 1, columns: order, unique: true, rows: rows}}
		if o.instance.SupportsNetChanges {
			out = append(out, indexOf{object: o, id: 2, name: o.name + "_idx", kind: 2, columns: order[:1], unique: true, rows: rows})
		}
		return out
	case o.view != nil && o.view.name == "lsn_time_mapping":
		return []indexOf{{object: o, id: 1, name: "lsn_time_mapping_clustered_idx", kind: 1, columns: []int32{1}, unique: true,
			rows: int64(c.db.cdc().Mapping().Len())}}
	}
	return []indexOf{{object: o, id: 0}}
}

func (c *viewCall) tableIndexes(o *object) []indexOf {
	rows := int64(0)
	if t, ok := c.db.eng.TableByID(o.id); ok {
		rows = t.RowCount()
	}
	var out []indexOf
	if _, clustered := clusteredIndex(o.def); !clustered {
		out = append(out, indexOf{object: o, rows: rows})
	}
	for i := range o.def.Indexes {
		d := &o.def.Indexes[i]
		kind := uint8(2)
		if d.Clustered {
			kind = 1
		}
		out = append(out, indexOf{object: o, id: d.ID, name: d.Name, kind: kind, columns: d.Columns, desc: d.Descending, def: d, unique: d.Unique, rows: rows})
	}
	return out
}

func addIndex(c *viewCall, ix indexOf) error {
	return c.add(fields{
		"object_id": ix.object.id, "name": ix.name, "index_id": ix.id, "type": ix.kind,
		"type_desc": [...]string{"HEAP", "CLUSTERED", "NONCLUSTERED"}[ix.kind], "is_unique": ix.unique, "data_space_id": 1,
		"ignore_dup_key": false, "is_primary_key": ix.def != nil && ix.def.PrimaryKey,
		"is_unique_constraint": ix.def != nil && ix.def.Constraint && !ix.def.PrimaryKey, "is_padded": false, "is_disabled": false,
		"is_hypothetical": false, "is_ignored_in_optimization": false, "allow_row_locks": true, "allow_page_locks": true,
		"has_filter": false, "suppress_dup_key_messages": false, "auto_created": false,
	})
}

func addIndexColumns(c *viewCall, ix indexOf) error {
	for i, column := range ix.columns {
		if err := c.add(fields{
			"object_id": ix.object.id, "index_id": ix.id, "index_column_id": i + 1, "column_id": column, "key_ordinal": i + 1,
			"is_descending_key": len(ix.desc) > i && ix.desc[i], "is_included_column": false,
		}); err != nil {
			return err
		}
	}
	return nil
}

func partitionID(ix indexOf) int64 { return int64(ix.object.id)<<16 | int64(ix.id) | 72057594<<33 }

func addPartition(c *viewCall, ix indexOf) error {
	return c.add(fields{
		"partition_id": partitionID(ix), "object_id": ix.object.id, "index_id": ix.id, "partition_number": 1,
		"hobt_id": partitionID(ix), "rows": ix.rows, "data_compression_desc": "NONE",
	})
}

// pagesFor guesses the 8 kB pages of an index: about 60 rows each.
func pagesFor(rows int64) int64 {
	if rows == 0 {
		return 0
	}
	return rows/60 + 1
}

func addPartitionStats(c *viewCall, ix indexOf) error {
	pages := pagesFor(ix.rows)
	return c.add(fields{
		"partition_id": partitionID(ix), "object_id": ix.object.id, "index_id": ix.id, "partition_number": 1,
		"in_row_data_page_count": pages, "in_row_used_page_count": pages + 1, "in_row_reserved_page_count": pages + 8,
		"lob_used_page_count": 0, "lob_reserved_page_count": 0, "row_overflow_used_page_count": 0,
		"row_overflow_reserved_page_count": 0, "used_page_count": pages + 1, "reserved_page_count": pages + 8, "row_count": ix.rows,
	})
}
