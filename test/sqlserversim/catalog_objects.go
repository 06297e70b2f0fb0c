package sqlserversim

import (
	"strings"
)

// fieldsOf gives the columns that sys.objects and its kin share.
func fieldsOf(o *object) fields {
	return fields{
		"name": o.name, "object_id": o.id, "schema_id": o.schemaID, "parent_object_id": o.parent, "type": string(o.kind),
		"type_desc": o.kind.describe(), "create_date": o.created, "modify_date": o.modified, "is_ms_shipped": o.shipped,
	}
}

// with adds columns to a row.
func (f fields) with(more fields) fields {
	for k, v := range more {
		f[k] = v
	}
	return f
}

// each calls f for every object that the session may see and that keep chooses.
func (c *viewCall) each(keep func(*object) bool, f func(*object) error) error {
	for _, o := range c.db.objects() {
		if int64(o.id) < c.low || int64(o.id) > c.high || !keep(o) || !c.session.visible(c.db, o) {
			continue
		}
		if err := f(o); err != nil {
			return err
		}
	}
	return nil
}

func ofKind(kinds ...objectKind) func(*object) bool {
	return func(o *object) bool {
		for _, k := range kinds {
			if o.kind == k {
				return true
			}
		}
		return false
	}
}

func anyObject(*object) bool { return true }

// nothing is the rows of a view that exists and is empty here: no views, synonyms, foreign keys or triggers can be made.
func nothing(*viewCall) error { return nil }

func objectViews() []*view {
	return []*view{
		newView("sys", "objects", columnsObjects, func(c *viewCall) error {
			return c.each(anyObject, func(o *object) error { return c.add(fieldsOf(o)) })
		}).byObject(),
		newView("sys", "all_objects", columnsObjects, rowsAllObjects),
		newView("sys", "system_objects", columnsObjects, rowsSystemObjects),
		newView("sys", "sysobjects", `name sysname, id int, xtype char(2), uid smallint?, info smallint?, status int?,
			base_schema_ver int?, replinfo int?, parent_obj int, crdate datetime, ftcatid smallint?, schema_ver int?,
			stats_schema_ver int?, type char(2)?, userstat smallint?, sysstat smallint?, indexdel smallint?, refdate datetime,
			version int?, deltrig int?, instrig int?, updtrig int?, seltrig int?, category int?, cache smallint?`, rowsSysObjects),
		newView("sys", "tables", columnsTables, rowsTables).byObject(),
		newView("sys", "views", columnsViews, nothing),
		newView("sys", "all_views", columnsViews, rowsSystemViews),
		newView("sys", "system_views", columnsViews, rowsSystemViews),
		newView("sys", "synonyms", columnsSynonyms, nothing),
		newView("sys", "procedures", columnsProcedures, func(c *viewCall) error {
			return c.each(ofKind(kindProcedure), func(o *object) error { return c.add(fieldsOf(o)) })
		}).byObject(),
		newView("sys", "triggers", columnsTriggers, nothing),
		newView("sys", "sql_modules", columnsModules, rowsModules).byObject(),
		newView("sys", "schemas", "name sysname, schema_id int, principal_id int?", rowsSchemas),
		newView("sys", "foreign_keys", columnsForeignKeys, nothing),
		newView("sys", "foreign_key_columns", columnsForeignKeyColumns, nothing),
		newView("sys", "default_constraints", columnsDefaultConstraints, rowsDefaults).byObject(),
		newView("sys", "check_constraints", columnsCheckConstraints, rowsChecks).byObject(),
		newView("sys", "key_constraints", columnsKeyConstraints, rowsKeyConstraints).byObject(),
		newView("sys", "extended_properties", columnsExtendedProperties, nothing),
		newView("sys", "types", columnsTypes, rowsTypes),
	}
}

func rowsAllObjects(c *viewCall) error {
	if err := c.each(anyObject, func(o *object) error { return c.add(fieldsOf(o)) }); err != nil {
		return err
	}
	return rowsSystemObjects(c)
}

func rowsSystemObjects(c *viewCall) error {
	for _, v := range c.session.srv.catalog.views {
		if v.database == "" {
			if err := c.add(fieldsOf(systemObject(v, c.db))); err != nil {
				return err
			}
		}
	}
	for name := range c.session.srv.catalog.procedures {
		if err := c.add(fieldsOf(c.session.srv.systemProcedure(name))); err != nil {
			return err
		}
	}
	return nil
}

func rowsSystemViews(c *viewCall) error {
	for _, v := range c.session.srv.catalog.views {
		if v.database == "" {
			if err := c.add(fieldsOf(systemObject(v, c.db))); err != nil {
				return err
			}
		}
	}
	return nil
}

func rowsSysObjects(c *viewCall) error {
	return c.each(anyObject, func(o *object) error {
		return c.add(fields{
			"name": o.name, "id": o.id, "xtype": string(o.kind), "uid": o.schemaID, "parent_obj": o.parent, "crdate": o.created,
			"refdate": o.created, "type": string(o.kind),
		})
	})
}

func rowsTables(c *viewCall) error {
	tracked := map[int32]bool{}
	for _, i := range c.session.view(c.db).Instances() {
		tracked[i.SourceObjectID] = true
	}
	return c.each(ofKind(kindTable), func(o *object) error {
		_, ids := o.columns()
		last := int32(0)
		for _, id := range ids {
			last = max(last, id)
		}
		return c.add(fieldsOf(o).with(fields{
			"max_column_id_used": last, "uses_ansi_nulls": true, "is_replicated": false, "has_replication_filter": false,
			"is_merge_published": false, "is_sync_tran_subscribed": false, "text_in_row_limit": 0,
			"large_value_types_out_of_row": false, "is_tracked_by_cdc": tracked[o.id], "lock_escalation": 0,
			"lock_escalation_desc": "TABLE", "is_filetable": false, "is_memory_optimized": false, "durability": 0,
			"durability_desc": "SCHEMA_AND_DATA", "temporal_type": 0, "temporal_type_desc": "NON_TEMPORAL_TABLE",
			"is_remote_data_archive_enabled": false, "is_node": false, "is_edge": false,
		}))
	})
}

func rowsModules(c *viewCall) error {
	return c.each(ofKind(kindProcedure), func(o *object) error {
		return c.add(fields{"object_id": o.id, "definition": o.proc.stmt.Text, "uses_ansi_nulls": true, "uses_quoted_identifier": true})
	})
}

func rowsSchemas(c *viewCall) error {
	for _, s := range c.db.eng.Schemas() {
		owner := s.ID
		if s.ID > 4 {
			owner = 1
			c.db.mu.RLock()
			name := c.db.owners[fold(s.Name)]
			c.db.mu.RUnlock()
			if p, ok := c.session.srv.security.principal(c.db.name, name); ok {
				owner = int32(p.id)
			}
		}
		if err := c.add(fields{"name": s.Name, "schema_id": s.ID, "principal_id": owner}); err != nil {
			return err
		}
	}
	for name, id := range fixedRoles() {
		if err := c.add(fields{"name": name, "schema_id": id, "principal_id": id}); err != nil {
			return err
		}
	}
	return nil
}

func rowsDefaults(c *viewCall) error {
	return c.each(ofKind(kindDefault), func(o *object) error {
		parent := c.db.byID(o.parent)
		for i := range parent.def.Columns {
			col := &parent.def.Columns[i]
			if name, e := extraOfColumn(col).defaultOf(); e != nil && name == o.name {
				return c.add(fieldsOf(o).with(fields{"parent_column_id": col.ID, "definition": "(" + printExpr(e) + ")"}))
			}
		}
		return nil
	})
}

func rowsChecks(c *viewCall) error {
	return c.each(ofKind(kindCheck), func(o *object) error {
		column := int32(0)
		if parent := c.db.byID(o.parent); parent != nil && o.check.column != "" {
			if i := parent.def.Ordinal(o.check.column); i >= 0 {
				column = parent.def.Columns[i].ID
			}
		}
		return c.add(fieldsOf(o).with(fields{"parent_column_id": column, "definition": "(" + printExpr(o.check.expr) + ")"}))
	})
}

func rowsKeyConstraints(c *viewCall) error {
	return c.each(ofKind(kindPrimaryKey, kindUnique), func(o *object) error {
		return c.add(fieldsOf(o).with(fields{
			"unique_index_id": o.index.ID, "is_system_named": strings.Contains(o.name, "__"), "is_enforced": true,
		}))
	})
}

func rowsTypes(c *viewCall) error {
	for _, t := range systemTypes() {
		var collation any
		if t.kind.IsText() && t.name != "xml" || t.name == "sysname" {
			collation = c.db.collationName()
		}
		if err := c.add(fields{
			"name": t.name, "system_type_id": t.system, "user_type_id": t.user, "schema_id": 4, "max_length": t.length,
			"precision": t.precision, "scale": t.scale, "collation_name": collation,
			"is_nullable": t.name != "sysname", "is_assembly_type": t.system == 240,
		}); err != nil {
			return err
		}
	}
	return nil
}
