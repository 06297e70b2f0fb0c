package sqlserversim

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// catalogProcedures are the catalogue procedures that drivers call: ODBC's and JDBC's metadata. Columns are those of their
// documentation pages.
func catalogProcedures() []*procedure {
	const name = "@table_name nvarchar(384), @table_owner nvarchar(384) = NULL, @table_qualifier sysname = NULL, @column_name nvarchar(384) = NULL"
	const odbc = ", @ODBCVer int = 2, @fUsePattern bit = 1"
	list := []*procedure{
		newProcedure("sp_tables", `@table_name nvarchar(384) = NULL, @table_owner nvarchar(384) = NULL, @table_qualifier sysname = NULL,
			@table_type varchar(100) = NULL, @fUsePattern bit = 1`, spTables),
		newProcedure("sp_pkeys", "@table_name sysname, @table_owner sysname = NULL, @table_qualifier sysname = NULL", spPrimaryKeys),
		newProcedure("sp_datatype_info", "@data_type int = 0, @ODBCVer tinyint = 2", spDataTypes),
		newProcedure("sp_datatype_info_100", "@data_type int = 0, @ODBCVer tinyint = 2", spDataTypes),
		newProcedure("sp_databases", "", spDatabases),
		newProcedure("sp_columns", name+odbc, spColumns),
		newProcedure("sp_columns_90", name+odbc, spColumns),
		newProcedure("sp_columns_100", name+", @NameScope int = 0"+odbc, spColumns),
	}
	for _, name := range []string{"sp_statistics", "sp_statistics_100"} {
		list = append(list, newProcedure(name, `@table_name sysname, @table_owner sysname = NULL, @table_qualifier sysname = NULL,
			@index_name sysname = '%', @is_unique char(1) = 'N', @accuracy char(1) = 'Q'`, spStatistics))
	}
	return list
}

// matches compares a name with an ODBC pattern; NULL matches everything.
func (c *procCall) matches(param, name string) bool {
	v := c.arg(param)
	if v.IsNull() {
		return true
	}
	pattern := strings.TrimRight(v.Str(), " ")
	if c.integer("@fUsePattern", 1) == 0 || !strings.ContainsAny(pattern, "%_[") {
		return strings.EqualFold(strings.ReplaceAll(pattern, `\`, ""), name)
	}
	return builtin.CompilePattern(strings.ToLower(pattern), '\\', nil).Match(strings.ToLower(name))
}

func spTables(c *procCall) error {
	types := strings.ToUpper(c.text("@table_type"))
	return c.rowset(`TABLE_QUALIFIER sysname?, TABLE_OWNER sysname?, TABLE_NAME sysname?, TABLE_TYPE varchar(32)?, REMARKS varchar(254)?`,
		func(v *viewCall) error {
			if types != "" && !strings.Contains(types, "'TABLE'") {
				return nil
			}
			return v.each(ofKind(kindTable), func(o *object) error {
				if !c.matches("@table_name", o.name) || !c.matches("@table_owner", o.schema) {
					return nil
				}
				return v.add(fields{"TABLE_QUALIFIER": c.db.name, "TABLE_OWNER": o.schema, "TABLE_NAME": o.name, "TABLE_TYPE": "TABLE"})
			})
		})
}

// odbcType is what ODBC says of a type.
type odbcType struct {
	name                 string
	data, sqlData, sub   any
	precision, length    any
	scale, radix, octets any
	ssData               int
}

// odbc3Times gives the types that ODBC 2 has other numbers for, or none but text: what @ODBCVer = 3 asks for.
func (o *odbcType) odbc3Times(t sqltype.Type) {
	const dateTime, date, timestamp = 9, 1, 3 // SQL_DATA_TYPE and SQL_DATETIME_SUB
	switch t.Kind {
	case sqltype.KindDate:
		o.data, o.sqlData, o.sub = 91, dateTime, date
	case sqltype.KindDateTime, sqltype.KindSmallDateTime, sqltype.KindDateTime2:
		o.data, o.sqlData, o.sub = 93, dateTime, timestamp
	case sqltype.KindTime:
		o.data, o.sqlData, o.sub = -154, -154, 0
	case sqltype.KindDateTimeOffset:
		o.data, o.sqlData, o.sub = -155, -155, 0
	}
}

// odbcTypeOf gives the ODBC 2 facts of a column's type.
func odbcTypeOf(t sqltype.Type, identity bool) odbcType {
	st := systemType(t.Kind)
	o := odbcType{name: st.name, precision: precisionOf(t), length: maxLengthOf(t), ssData: 0}
	set := func(data int) { o.data, o.sqlData = data, data }
	max := t.Length == sqltype.Max
	switch t.Kind {
	case sqltype.KindBit:
		set(-7)
		o.precision, o.ssData = 1, 50
	case sqltype.KindTinyInt:
		set(-6)
		o.scale, o.radix, o.ssData = 0, 10, 48
	case sqltype.KindSmallInt:
		set(5)
		o.scale, o.radix, o.ssData = 0, 10, 52
	case sqltype.KindInt:
		set(4)
		o.scale, o.radix, o.ssData = 0, 10, 56
	case sqltype.KindBigInt:
		set(-5)
		o.scale, o.radix, o.ssData = 0, 10, 63
	case sqltype.KindReal:
		set(7)
		o.radix, o.ssData = 2, 59
	case sqltype.KindFloat:
		set(6)
		o.radix, o.ssData = 2, 62
	case sqltype.KindDecimal:
		set(3)
		o.length, o.scale, o.radix, o.ssData = int(t.Precision)+2, int(t.Scale), 10, 106
	case sqltype.KindMoney, sqltype.KindSmallMoney:
		set(3)
		o.length, o.scale, o.radix, o.ssData = precisionOf(t)+2, 4, 10, 60
	case sqltype.KindDate:
		o.data, o.sqlData, o.length, o.ssData = -9, -9, 20, 0
	case sqltype.KindTime:
		o.data, o.sqlData, o.scale, o.length = -9, -9, int(t.Scale), 2*precisionOf(t)
	case sqltype.KindDateTime2:
		o.data, o.sqlData, o.scale, o.length = -9, -9, int(t.Scale), 2*precisionOf(t)
	case sqltype.KindDateTimeOffset:
		o.data, o.sqlData, o.scale, o.length = -9, -9, int(t.Scale), 2*precisionOf(t)
	case sqltype.KindDateTime:
		o.data, o.sqlData, o.sub, o.scale, o.length, o.ssData = 11, 9, 3, 3, 16, 61
	case sqltype.KindSmallDateTime:
		o.data, o.sqlData, o.sub, o.scale, o.length, o.ssData = 11, 9, 3, 0, 16, 58
	case sqltype.KindUniqueIdentifier:
		set(-11)
		o.precision, o.length, o.ssData = 36, 16, 37
	default:
		o.text(t, max)
	}
	if identity {
		o.name += " identity"
	}
	return o
}

// text fills in the character and binary types.
func (o *odbcType) text(t sqltype.Type, max bool) {
	set := func(data, ss int, long int) {
		o.data, o.sqlData, o.ssData = data, data, ss
		o.precision, o.octets = t.Length, maxLengthOf(t)
		if max {
			o.precision, o.length, o.octets = 0, 0, 0
		}
		if long > 0 {
			o.precision, o.length, o.octets = long, 2147483647, 2147483647
		}
	}
	switch t.Kind {
	case sqltype.KindChar:
		set(1, 47, 0)
	case sqltype.KindVarChar:
		set(12, 39, 0)
	case sqltype.KindNChar:
		set(-8, 39, 0)
	case sqltype.KindNVarChar:
		set(-9, 39, 0)
	case sqltype.KindText:
		set(-1, 35, 2147483647)
	case sqltype.KindNText:
		set(-10, 35, 1073741823)
	case sqltype.KindXML:
		set(-152, 0, 0)
		o.precision, o.length, o.octets = 0, 0, 0
	case sqltype.KindBinary:
		set(-2, 37, 0)
	case sqltype.KindRowVersion:
		set(-2, 37, 0)
		o.precision, o.length, o.octets = 8, 8, 8
	case sqltype.KindVarBinary:
		set(-3, 37, 0)
	case sqltype.KindImage:
		set(-4, 34, 2147483647)
	default:
		set(-150, 39, 0)
		o.precision, o.length, o.octets = 8000, 8000, nil
	}
}

const columnsSPColumns = `TABLE_QUALIFIER sysname?, TABLE_OWNER sysname?, TABLE_NAME sysname, COLUMN_NAME sysname, DATA_TYPE smallint,
	TYPE_NAME sysname, PRECISION int?, LENGTH int?, SCALE smallint?, RADIX smallint?, NULLABLE smallint, REMARKS varchar(254)?,
	COLUMN_DEF nvarchar(4000)?, SQL_DATA_TYPE smallint, SQL_DATETIME_SUB smallint?, CHAR_OCTET_LENGTH int?, ORDINAL_POSITION int,
	IS_NULLABLE varchar(254)?`

// The _100 form has eleven columns more.
const columnsSPColumns100 = columnsSPColumns + `, SS_IS_SPARSE smallint, SS_IS_COLUMN_SET smallint, SS_IS_COMPUTED smallint,
	SS_IS_IDENTITY smallint, SS_UDT_CATALOG_NAME sysname?, SS_UDT_SCHEMA_NAME sysname?, SS_UDT_ASSEMBLY_TYPE_NAME nvarchar(1000)?,
	SS_XML_SCHEMACOLLECTION_CATALOG_NAME sysname?, SS_XML_SCHEMACOLLECTION_SCHEMA_NAME sysname?,
	SS_XML_SCHEMACOLLECTION_NAME sysname?, SS_DATA_TYPE tinyint?`

func spColumns(c *procCall) error {
	columns := columnsSPColumns + ", SS_DATA_TYPE tinyint?"
	wide := strings.HasSuffix(c.proc.name, "_100")
	if wide {
		columns = columnsSPColumns100
	}
	odbc3 := wide && c.integer("@ODBCVer", 2) >= 3 // sp_columns itself shows the new types as text to any caller
	return c.rowset(columns, func(v *viewCall) error {
		return v.each(ofKind(kindTable), func(o *object) error {
			if !c.matches("@table_name", o.name) || !c.matches("@table_owner", o.schema) {
				return nil
			}
			position := 0
			return v.columnsOf(o, func(v *viewCall, col columnOf) error {
				position++
				if !c.matches("@column_name", col.column.Name) {
					return nil
				}
				return v.add(columnFields(c.db, col, position, wide, odbc3))
			})
		})
	})
}

func columnFields(db *database, col columnOf, position int, wide, odbc3 bool) fields {
	t := odbcTypeOf(col.column.Type, col.column.Identity)
	if odbc3 {
		t.odbc3Times(col.column.Type)
	}
	nullable, word := 0, "NO"
	if col.column.Nullable {
		nullable, word = 1, "YES"
	}
	f := fields{
		"TABLE_QUALIFIER": db.name, "TABLE_OWNER": col.object.schema, "TABLE_NAME": col.object.name, "COLUMN_NAME": col.column.Name,
		"DATA_TYPE": t.data, "TYPE_NAME": t.name, "PRECISION": t.precision, "LENGTH": t.length, "SCALE": t.scale, "RADIX": t.radix,
		"NULLABLE": nullable, "SQL_DATA_TYPE": t.sqlData, "SQL_DATETIME_SUB": t.sub, "CHAR_OCTET_LENGTH": t.octets,
		"ORDINAL_POSITION": position, "IS_NULLABLE": word, "SS_DATA_TYPE": t.ssData,
	}
	if _, e := extraOfColumn(col.def).defaultOf(); e != nil {
		f["COLUMN_DEF"] = "(" + printExpr(e) + ")"
	}
	if wide {
		f["SS_IS_COMPUTED"], f["SS_IS_IDENTITY"] = btoi(col.column.Computed), btoi(col.column.Identity)
	}
	return f
}

// tableArgument finds the table of @table_name and @table_owner; nil when there is none.
func (c *procCall) tableArgument() *object {
	o := c.db.find(c.text("@table_owner"), c.text("@table_name"), c.session.defaultSchema(c.db))
	if o == nil || o.kind != kindTable || !c.session.visible(c.db, o) {
		return nil
	}
	return o
}

func spPrimaryKeys(c *procCall) error {
	return c.rowset(`TABLE_QUALIFIER sysname?, TABLE_OWNER sysname?, TABLE_NAME sysname, COLUMN_NAME sysname, KEY_SEQ smallint, PK_NAME sysname?`,
		func(v *viewCall) error {
			o := c.tableArgument()
			if o == nil || o.def == nil {
				return nil
			}
			pk, ok := o.def.PrimaryKey()
			if !ok {
				return nil
			}
			for i, id := range pk.Columns {
				if err := v.add(fields{
					"TABLE_QUALIFIER": c.db.name, "TABLE_OWNER": o.schema, "TABLE_NAME": o.name,
					"COLUMN_NAME": o.def.Columns[o.def.OrdinalOf(id)].Name, "KEY_SEQ": i + 1, "PK_NAME": pk.Name,
				}); err != nil {
					return err
				}
			}
			return nil
		})
}

func spStatistics(c *procCall) error {
	return c.rowset(`TABLE_QUALIFIER sysname?, TABLE_OWNER sysname?, TABLE_NAME sysname, NON_UNIQUE smallint?, INDEX_QUALIFIER sysname?,
		INDEX_NAME sysname?, TYPE smallint, SEQ_IN_INDEX smallint?, COLUMN_NAME sysname?, COLLATION char(1)?, CARDINALITY int?,
		PAGES int?, FILTER_CONDITION varchar(128)?`, func(v *viewCall) error {
		o := c.tableArgument()
		if o == nil || o.def == nil {
			return nil
		}
		base := fields{"TABLE_QUALIFIER": c.db.name, "TABLE_OWNER": o.schema, "TABLE_NAME": o.name}
		rows := int64(0)
		if t, ok := c.db.eng.TableByID(o.id); ok {
			rows = t.RowCount()
		}
		if err := v.add(fields{"TYPE": 0, "CARDINALITY": rows, "PAGES": pagesFor(rows)}.with(base)); err != nil {
			return err
		}
		for _, ix := range o.def.Indexes {
			if strings.EqualFold(c.text("@is_unique"), "Y") && !ix.Unique {
				continue
			}
			kind := 3
			if ix.Clustered {
				kind = 1
			}
			for n, id := range ix.Columns {
				if err := v.add(fields{
					"NON_UNIQUE": btoi(!ix.Unique), "INDEX_QUALIFIER": o.name, "INDEX_NAME": ix.Name, "TYPE": kind, "SEQ_IN_INDEX": n + 1,
					"COLUMN_NAME": o.def.Columns[o.def.OrdinalOf(id)].Name, "COLLATION": "A", "CARDINALITY": rows, "PAGES": pagesFor(rows),
				}.with(base)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// spDataTypes lists types, all of them or those with one ODBC number.
func spDataTypes(c *procCall) error {
	want := c.integer("@data_type", 0)
	return c.rowset(`TYPE_NAME sysname, DATA_TYPE smallint, PRECISION int?, LITERAL_PREFIX varchar(32)?, LITERAL_SUFFIX varchar(32)?,
		CREATE_PARAMS varchar(32)?, NULLABLE smallint, CASE_SENSITIVE smallint, SEARCHABLE smallint, UNSIGNED_ATTRIBUTE smallint?,
		MONEY smallint, AUTO_INCREMENT smallint?, LOCAL_TYPE_NAME sysname, MINIMUM_SCALE smallint?, MAXIMUM_SCALE smallint?,
		SQL_DATA_TYPE smallint, SQL_DATETIME_SUB smallint?, NUM_PREC_RADIX int?, INTERVAL_PRECISION smallint?, USERTYPE smallint`,
		func(v *viewCall) error {
			for _, t := range systemTypes() {
				if t.kind == sqltype.KindNull {
					continue
				}
				typ := sqltype.TypeOf(t.kind)
				if t.kind.IsText() || t.kind.IsBinary() {
					typ.Length = t.length
				}
				o := odbcTypeOf(typ, false)
				data, _ := o.data.(int)
				if want != 0 && int64(data) != want {
					continue
				}
				if err := v.add(fields{
					"TYPE_NAME": t.name, "DATA_TYPE": o.data, "PRECISION": o.precision, "NULLABLE": 1, "SEARCHABLE": 3,
					"MONEY": btoi(t.kind.IsMoney()), "LOCAL_TYPE_NAME": t.name, "SQL_DATA_TYPE": o.sqlData, "SQL_DATETIME_SUB": o.sub,
					"NUM_PREC_RADIX": o.radix,
				}); err != nil {
					return err
				}
			}
			return nil
		})
}

func spDatabases(c *procCall) error {
	return c.rowset("DATABASE_NAME sysname, DATABASE_SIZE int?, REMARKS varchar(254)?", func(v *viewCall) error {
		for _, db := range c.session.srv.databases() {
			if err := v.add(fields{"DATABASE_NAME": db.name, "DATABASE_SIZE": 16384}); err != nil {
				return err
			}
		}
		return nil
	})
}
