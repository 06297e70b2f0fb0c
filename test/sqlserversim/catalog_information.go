package sqlserversim

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// informationSchema has the views of INFORMATION_SCHEMA that clients read.
func informationSchema() []*view {
	return []*view{
		newView("INFORMATION_SCHEMA", "SCHEMATA", `CATALOG_NAME sysname?, SCHEMA_NAME sysname, SCHEMA_OWNER sysname?,
			DEFAULT_CHARACTER_SET_CATALOG varchar(6)?, DEFAULT_CHARACTER_SET_SCHEMA varchar(3)?,
			DEFAULT_CHARACTER_SET_NAME sysname?`, rowsISSchemata),
		newView("INFORMATION_SCHEMA", "TABLES", "TABLE_CATALOG sysname?, TABLE_SCHEMA sysname?, TABLE_NAME sysname, TABLE_TYPE varchar(10)?",
			rowsISTables),
		newView("INFORMATION_SCHEMA", "VIEWS", `TABLE_CATALOG sysname?, TABLE_SCHEMA sysname?, TABLE_NAME sysname,
			VIEW_DEFINITION nvarchar(4000)?, CHECK_OPTION varchar(7)?, IS_UPDATABLE varchar(2)`, nothing),
		newView("INFORMATION_SCHEMA", "COLUMNS", `TABLE_CATALOG sysname?, TABLE_SCHEMA sysname?, TABLE_NAME sysname,
			COLUMN_NAME sysname?, ORDINAL_POSITION int?, COLUMN_DEFAULT nvarchar(4000)?, IS_NULLABLE varchar(3)?,
			DATA_TYPE sysname?, CHARACTER_MAXIMUM_LENGTH int?, CHARACTER_OCTET_LENGTH int?, NUMERIC_PRECISION tinyint?,
			NUMERIC_PRECISION_RADIX smallint?, NUMERIC_SCALE int?, DATETIME_PRECISION smallint?, CHARACTER_SET_CATALOG sysname?,
			CHARACTER_SET_SCHEMA sysname?, CHARACTER_SET_NAME sysname?, COLLATION_CATALOG sysname?, COLLATION_SCHEMA sysname?,
			COLLATION_NAME sysname?, DOMAIN_CATALOG sysname?, DOMAIN_SCHEMA sysname?, DOMAIN_NAME sysname?`, rowsISColumns),
		newView("INFORMATION_SCHEMA", "TABLE_CONSTRAINTS", `CONSTRAINT_CATALOG sysname?, CONSTRAINT_SCHEMA sysname?,
			CONSTRAINT_NAME sysname, TABLE_CATALOG sysname?, TABLE_SCHEMA sysname?, TABLE_NAME sysname?,
			CONSTRAINT_TYPE varchar(11)?, IS_DEFERRABLE varchar(2), INITIALLY_DEFERRED varchar(2)`, rowsISConstraints),
		newView("INFORMATION_SCHEMA", "KEY_COLUMN_USAGE", `CONSTRAINT_CATALOG sysname?, CONSTRAINT_SCHEMA sysname?,
			CONSTRAINT_NAME sysname, TABLE_CATALOG sysname?, TABLE_SCHEMA sysname?, TABLE_NAME sysname?, COLUMN_NAME sysname?,
			ORDINAL_POSITION int`, rowsISKeys),
		newView("INFORMATION_SCHEMA", "ROUTINES", `SPECIFIC_CATALOG sysname?, SPECIFIC_SCHEMA sysname?, SPECIFIC_NAME sysname,
			ROUTINE_CATALOG sysname?, ROUTINE_SCHEMA sysname?, ROUTINE_NAME sysname, ROUTINE_TYPE nvarchar(20)?,
			CREATED datetime, LAST_ALTERED datetime`, rowsISRoutines),
	}
}

func rowsISSchemata(c *viewCall) error {
	for _, s := range c.db.eng.Schemas() {
		if err := c.add(fields{"CATALOG_NAME": c.db.name, "SCHEMA_NAME": s.Name, "SCHEMA_OWNER": "dbo", "DEFAULT_CHARACTER_SET_NAME": "iso_1"}); err != nil {
			return err
		}
	}
	return nil
}

func rowsISTables(c *viewCall) error {
	return c.each(ofKind(kindTable), func(o *object) error {
		return c.add(fields{"TABLE_CATALOG": c.db.name, "TABLE_SCHEMA": o.schema, "TABLE_NAME": o.name, "TABLE_TYPE": "BASE TABLE"})
	})
}

// isoType are the type facts of one column in the form that INFORMATION_SCHEMA and sp_cdc_get_captured_columns share.
type isoType struct {
	name                                                  string
	charLength, octets, precision, radix, scale, datetime any
}

func isoTypeOf(t sqltype.Type, source sqltype.Kind) isoType {
	out := isoType{name: systemType(source).name}
	switch {
	case t.Kind == sqltype.KindXML:
		out.charLength, out.octets = -1, -1
	case t.Kind == sqltype.KindText, t.Kind == sqltype.KindImage:
		out.charLength, out.octets = 2147483647, 2147483647
	case t.Kind == sqltype.KindNText:
		out.charLength, out.octets = 1073741823, 2147483646
	case t.Kind.IsText(), t.Kind == sqltype.KindBinary && source != sqltype.KindRowVersion, t.Kind == sqltype.KindVarBinary:
		out.charLength, out.octets = t.Length, maxLengthOf(t)
	case t.Kind == sqltype.KindDecimal || t.Kind.IsMoney():
		out.precision, out.radix, out.scale = precisionOf(t), 10, scaleOf(t)
	case t.Kind.IsFloat():
		out.precision, out.radix = precisionOf(t), 2
	case t.Kind.IsInteger() && t.Kind != sqltype.KindBit:
		out.precision, out.radix, out.scale = precisionOf(t), 10, 0
	case t.Kind.IsTemporal():
		out.datetime = scaleOf(t)
	}
	return out
}

func rowsISColumns(c *viewCall) error {
	return c.each(ofKind(kindTable), func(o *object) error {
		position := 0
		return c.columnsOf(o, func(c *viewCall, col columnOf) error {
			position++
			iso := isoTypeOf(col.column.Type, col.column.Type.Kind)
			nullable := "NO"
			if col.column.Nullable {
				nullable = "YES"
			}
			var def, charset any
			if _, e := extraOfColumn(col.def).defaultOf(); e != nil {
				def = "(" + printExpr(e) + ")"
			}
			collation := collationOf(col.column.Type, c.db)
			if collation != nil {
				charset = "iso_1"
				if col.column.Type.Kind.IsUnicode() {
					charset = "UNICODE"
				}
			}
			return c.add(fields{
				"TABLE_CATALOG": c.db.name, "TABLE_SCHEMA": o.schema, "TABLE_NAME": o.name, "COLUMN_NAME": col.column.Name,
				"ORDINAL_POSITION": position, "COLUMN_DEFAULT": def, "IS_NULLABLE": nullable, "DATA_TYPE": iso.name,
				"CHARACTER_MAXIMUM_LENGTH": iso.charLength, "CHARACTER_OCTET_LENGTH": iso.octets, "NUMERIC_PRECISION": iso.precision,
				"NUMERIC_PRECISION_RADIX": iso.radix, "NUMERIC_SCALE": iso.scale, "DATETIME_PRECISION": iso.datetime,
				"CHARACTER_SET_NAME": charset, "COLLATION_NAME": collation,
			})
		})
	})
}

// constraintType is CONSTRAINT_TYPE.
func constraintType(k objectKind) string {
	switch k {
	case kindPrimaryKey:
		return "PRIMARY KEY"
	case kindUnique:
		return "UNIQUE"
	}
	return "CHECK"
}

func rowsISConstraints(c *viewCall) error {
	return c.each(ofKind(kindPrimaryKey, kindUnique, kindCheck), func(o *object) error {
		parent := c.db.byID(o.parent)
		return c.add(fields{
			"CONSTRAINT_CATALOG": c.db.name, "CONSTRAINT_SCHEMA": o.schema, "CONSTRAINT_NAME": o.name, "TABLE_CATALOG": c.db.name,
			"TABLE_SCHEMA": parent.schema, "TABLE_NAME": parent.name, "CONSTRAINT_TYPE": constraintType(o.kind), "IS_DEFERRABLE": "NO",
			"INITIALLY_DEFERRED": "NO",
		})
	})
}

func rowsISKeys(c *viewCall) error {
	return c.each(ofKind(kindPrimaryKey, kindUnique), func(o *object) error {
		parent := c.db.byID(o.parent)
		for i, id := range o.index.Columns {
			if err := c.add(fields{
				"CONSTRAINT_CATALOG": c.db.name, "CONSTRAINT_SCHEMA": o.schema, "CONSTRAINT_NAME": o.name, "TABLE_CATALOG": c.db.name,
				"TABLE_SCHEMA": parent.schema, "TABLE_NAME": parent.name, "COLUMN_NAME": parent.def.Columns[parent.def.OrdinalOf(id)].Name,
				"ORDINAL_POSITION": i + 1,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func rowsISRoutines(c *viewCall) error {
	return c.each(ofKind(kindProcedure, kindInlineFunc), func(o *object) error {
		kind := "PROCEDURE"
		if o.kind == kindInlineFunc {
			kind = "FUNCTION"
		}
		return c.add(fields{
			"SPECIFIC_CATALOG": c.db.name, "SPECIFIC_SCHEMA": o.schema, "SPECIFIC_NAME": o.name, "ROUTINE_CATALOG": c.db.name,
			"ROUTINE_SCHEMA": o.schema, "ROUTINE_NAME": o.name, "ROUTINE_TYPE": kind, "CREATED": o.created, "LAST_ALTERED": o.modified,
		})
	})
}
