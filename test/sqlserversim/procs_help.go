package sqlserversim

import (
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// helpProcedures are what a person types, and a few that change things.
func helpProcedures() []*procedure {
	return []*procedure{
		newProcedure("sp_spaceused", "@objname nvarchar(776) = NULL, @updateusage varchar(5) = 'false', @mode varchar(11) = 'ALL', @oneresultset bit = 0", spSpaceUsed),
		newProcedure("sp_help", "@objname nvarchar(776) = NULL", spHelp),
		newProcedure("sp_helptext", "@objname nvarchar(776), @columnname sysname = NULL", spHelpText),
		newProcedure("sp_helpindex", "@objname nvarchar(776)", spHelpIndex),
		newProcedure("sp_helpdb", "@dbname sysname = NULL", spHelpDB),
		newProcedure("sp_who", "@loginame sysname = NULL", spWho),
		newProcedure("sp_rename", "@objname nvarchar(1035), @newname sysname, @objtype varchar(13) = NULL", spRename),
		newProcedure("sp_addrolemember", "@rolename sysname, @membername sysname", func(c *procCall) error { return c.roleMember(true) }),
		newProcedure("sp_droprolemember", "@rolename sysname, @membername sysname", func(c *procCall) error { return c.roleMember(false) }),
		newProcedure("sp_reset_connection", "", func(c *procCall) error { c.session.reset(c.ctx, false); return nil }),
	}
}

// spSpaceUsed gives a table's row count as text, as the real one does; sizes are guessed from it.
func spSpaceUsed(c *procCall) error {
	if c.arg("@objname").IsNull() {
		return c.rowset("database_name sysname, database_size varchar(18), unallocated_space varchar(18)", func(v *viewCall) error {
			return v.add(fields{"database_name": c.db.name, "database_size": "16.00 MB"})
		})
	}
	db, o := c.session.objectNamed(c.text("@objname"))
	if o == nil || o.kind != kindTable {
		return c.fail(15009, c.text("@objname"), c.db.name)
	}
	rows := int64(0)
	switch {
	case o.def != nil:
		if t, ok := db.eng.TableByID(o.id); ok {
			rows = t.RowCount()
		}
	case o.instance != nil:
		rows = o.instance.Rows()
	case o.view.name == "lsn_time_mapping":
		rows = int64(db.cdc().Mapping().Len())
	}
	return c.rowset("name nvarchar(128), rows char(20), reserved varchar(18), data varchar(18), index_size varchar(18), unused varchar(18)",
		func(v *viewCall) error {
			kb := func(pages int64) string { return fmt.Sprintf("%d KB", pages*8) }
			return v.add(fields{
				"name": o.name, "rows": fmt.Sprint(rows), "reserved": kb(pagesFor(rows) + 8), "data": kb(pagesFor(rows)),
				"index_size": kb(1), "unused": kb(7),
			})
		})
}

// spHelp describes one table (its first three rowsets), or lists the objects.
func spHelp(c *procCall) error {
	if c.arg("@objname").IsNull() {
		return c.rowset("Name sysname, Owner sysname, Object_type nvarchar(60)", func(v *viewCall) error {
			return v.each(anyObject, func(o *object) error {
				return v.add(fields{"Name": o.name, "Owner": "dbo", "Object_type": strings.ToLower(strings.ReplaceAll(o.kind.describe(), "_", " "))})
			})
		})
	}
	db, o := c.session.objectNamed(c.text("@objname"))
	if o == nil {
		return c.fail(15009, c.text("@objname"), c.db.name)
	}
	if err := c.rowset("Name sysname, Owner sysname, Type nvarchar(60), Created_datetime datetime", func(v *viewCall) error {
		return v.add(fields{"Name": o.name, "Owner": "dbo", "Type": strings.ToLower(strings.ReplaceAll(o.kind.describe(), "_", " ")), "Created_datetime": o.created})
	}); err != nil {
		return err
	}
	return c.rowset(`Column_name sysname, Type sysname, Computed varchar(3), Length int, Prec char(5), Scale char(5), Nullable varchar(3),
		Collation sysname?`, func(v *viewCall) error {
		yes := func(b bool) string {
			if b {
				return "yes"
			}
			return "no"
		}
		return v.columnsOf(o, func(v *viewCall, col columnOf) error {
			t := col.column.Type
			prec, scale := "", ""
			if t.Kind.IsNumeric() || t.Kind.IsTemporal() {
				prec, scale = fmt.Sprint(precisionOf(t)), fmt.Sprint(scaleOf(t))
			}
			return v.add(fields{
				"Column_name": col.column.Name, "Type": systemType(t.Kind).name, "Computed": yes(col.column.Computed), "Length": maxLengthOf(t),
				"Prec": prec, "Scale": scale, "Nullable": yes(col.column.Nullable), "Collation": collationOf(t, db),
			})
		})
	})
}

func spHelpText(c *procCall) error {
	_, o := c.session.objectNamed(c.text("@objname"))
	if o == nil || o.proc == nil {
		return c.fail(15009, c.text("@objname"), c.db.name)
	}
	return c.rowset("Text nvarchar(255)", func(v *viewCall) error {
		for line := range strings.SplitAfterSeq(o.proc.stmt.Text, "\n") {
			if err := v.add(fields{"Text": line}); err != nil {
				return err
			}
		}
		return nil
	})
}

func spHelpIndex(c *procCall) error {
	_, o := c.session.objectNamed(c.text("@objname"))
	if o == nil || o.def == nil {
		return c.fail(15009, c.text("@objname"), c.db.name)
	}
	return c.rowset("index_name sysname, index_description varchar(210), index_keys nvarchar(2078)", func(v *viewCall) error {
		for _, ix := range o.def.Indexes {
			words := "nonclustered"
			if ix.Clustered {
				words = "clustered"
			}
			if ix.Unique {
				words += ", unique"
			}
			if ix.PrimaryKey {
				words += ", primary key"
			}
			var keys []string
			for _, id := range ix.Columns {
				keys = append(keys, o.def.Columns[o.def.OrdinalOf(id)].Name)
			}
			if err := v.add(fields{"index_name": ix.Name, "index_description": words + " located on PRIMARY", "index_keys": strings.Join(keys, ", ")}); err != nil {
				return err
			}
		}
		return nil
	})
}

func spHelpDB(c *procCall) error {
	return c.rowset(`name sysname, db_size nvarchar(13), owner sysname, dbid smallint, created nvarchar(11), status nvarchar(600),
		compatibility_level tinyint`, func(v *viewCall) error {
		for _, db := range c.session.srv.databases() {
			if want := c.text("@dbname"); want != "" && !strings.EqualFold(want, db.name) {
				continue
			}
			if err := v.add(fields{
				"name": db.name, "db_size": "     16.00 MB", "owner": "sa", "dbid": db.id, "created": db.created.Format("Jan _2 2006"),
				"status": "Status=ONLINE, Updateability=READ_WRITE, UserAccess=MULTI_USER, Recovery=FULL", "compatibility_level": c.session.srv.profile.compatibility,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func spWho(c *procCall) error {
	return c.rowset(`spid smallint, ecid smallint, status nchar(30), loginame nvarchar(128)?, hostname nchar(128), blk char(5),
		dbname nvarchar(128)?, cmd nchar(16), request_id int`, func(v *viewCall) error {
		return v.eachSession(func(s *session) error {
			name := ""
			if db := c.session.databaseByID(int(s.info.database.Load())); db != nil {
				name = db.name
			}
			return v.add(fields{"spid": s.spid, "status": s.status(), "loginame": s.login, "hostname": s.info.host, "blk": "0",
				"dbname": name, "cmd": "AWAITING COMMAND"})
		})
	})
}

// spRename renames a table, or a column with @objtype = 'COLUMN'. A captured column is refused with 4928.
func spRename(c *procCall) error {
	parts, ok := splitName(c.text("@objname"))
	if !ok {
		return c.fail(15009, c.text("@objname"), c.db.name)
	}
	column := strings.EqualFold(c.text("@objtype"), "COLUMN")
	object := parts
	if column {
		if len(parts) < 2 {
			return c.fail(15009, c.text("@objname"), c.db.name)
		}
		object = parts[:len(parts)-1]
	}
	schema, name := "dbo", object[len(object)-1]
	if len(object) > 1 {
		schema = object[len(object)-2]
	}
	t, ok := c.db.eng.Table(schema, name)
	if !ok {
		return c.fail(15009, c.text("@objname"), c.db.name)
	}
	if err := c.session.needAlter(c.db, t.Def()); err != nil {
		return err
	}
	if err := c.info(message(15477)); err != nil {
		return err
	}
	return c.session.inTx(c.ctx, c.db, func(tx *engine.Tx) error {
		if column {
			return tx.RenameColumn(c.ctx, t, parts[len(parts)-1], c.text("@newname"))
		}
		return tx.RenameTable(c.ctx, t, c.text("@newname"))
	})
}

func (c *procCall) roleMember(in bool) error {
	if err := c.needOwner(); err != nil {
		return c.fail(15247)
	}
	if missing := c.session.srv.security.setMember(c.db.name, c.text("@rolename"), c.text("@membername"), in); missing != "" {
		return c.fail(15151, "role", missing)
	}
	return nil
}
