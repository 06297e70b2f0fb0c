package sqlserversim

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// catalog is everything with a fixed definition: the views of sys and INFORMATION_SCHEMA, the tables of CDC and msdb, the
// server's functions and procedures. It is made once at start and only read afterwards.
type catalog struct {
	views        []*view
	cdcTables    []*view
	functions    map[string]scalar // by lower-case name, called without a schema
	sysFunctions map[string]scalar // in schema sys
	procedures   map[string]*procedure
	controls     map[string]*procedure // in schema sim
}

func newCatalog() *catalog {
	c := &catalog{functions: metadataFunctions(), sysFunctions: cdcFunctions(), procedures: map[string]*procedure{}, controls: map[string]*procedure{}}
	for name, f := range serverFunctions() {
		c.functions[name] = f
	}
	c.views = append(c.views, objectViews()...)
	c.views = append(c.views, columnViews()...)
	c.views = append(c.views, indexViews()...)
	c.views = append(c.views, databaseViews()...)
	c.views = append(c.views, principalViews()...)
	c.views = append(c.views, sessionViews()...)
	c.views = append(c.views, captureViews()...)
	c.views = append(c.views, informationSchema()...)
	c.cdcTables = cdcTables()
	for _, list := range [][]*procedure{cdcProcedures(), cdcJobProcedures(), catalogProcedures(), helpProcedures(), agentProcedures()} {
		for _, p := range list {
			c.procedures[fold(p.name)] = p
		}
	}
	for _, p := range controlProcedures() {
		c.controls[fold(p.name)] = p
	}
	return c
}

// find gives a system view by schema and name. Views that exist in one database only are found there alone.
func (c *catalog) find(schema, name, database string) *view {
	for _, v := range c.views {
		if strings.EqualFold(v.schema, schema) && strings.EqualFold(v.name, name) &&
			(v.database == "" || strings.EqualFold(v.database, database)) {
			return v
		}
	}
	return nil
}

// inDatabase limits a view to one database.
func (v *view) inDatabase(name string) *view { v.database = name; return v }

// byObject tells that the rows come in the order of object_id.
func (v *view) byObject() *view { v.keyed = true; return v }

// needing asks for a right.
func (v *view) needing(rule permissionRule) *view { v.needs = rule; return v }

// sysType is a row of sys.types.
type sysType struct {
	name             string
	system           uint8
	user             int
	length           int
	precision, scale uint8
	kind             sqltype.Kind
}

// systemTypes lists the system data types with their ids (documentation page "sys.types").
func systemTypes() []sysType {
	return []sysType{
		{"image", 34, 34, 16, 0, 0, sqltype.KindImage}, {"text", 35, 35, 16, 0, 0, sqltype.KindText},
		{"uniqueidentifier", 36, 36, 16, 0, 0, sqltype.KindUniqueIdentifier}, {"date", 40, 40, 3, 10, 0, sqltype.KindDate},
		{"time", 41, 41, 5, 16, 7, sqltype.KindTime}, {"datetime2", 42, 42, 8, 27, 7, sqltype.KindDateTime2},
		{"datetimeoffset", 43, 43, 10, 34, 7, sqltype.KindDateTimeOffset}, {"tinyint", 48, 48, 1, 3, 0, sqltype.KindTinyInt},
		{"smallint", 52, 52, 2, 5, 0, sqltype.KindSmallInt}, {"int", 56, 56, 4, 10, 0, sqltype.KindInt},
		{"smalldatetime", 58, 58, 4, 16, 0, sqltype.KindSmallDateTime}, {"real", 59, 59, 4, 24, 0, sqltype.KindReal},
		{"money", 60, 60, 8, 19, 4, sqltype.KindMoney}, {"datetime", 61, 61, 8, 23, 3, sqltype.KindDateTime},
		{"float", 62, 62, 8, 53, 0, sqltype.KindFloat}, {"sql_variant", 98, 98, 8016, 0, 0, sqltype.KindVariant},
		{"ntext", 99, 99, 16, 0, 0, sqltype.KindNText}, {"bit", 104, 104, 1, 1, 0, sqltype.KindBit},
		{"decimal", 106, 106, 17, 38, 38, sqltype.KindDecimal}, {"numeric", 108, 108, 17, 38, 38, sqltype.KindNull},
		{"smallmoney", 122, 122, 4, 10, 4, sqltype.KindSmallMoney}, {"bigint", 127, 127, 8, 19, 0, sqltype.KindBigInt},
		{"varbinary", 165, 165, 8000, 0, 0, sqltype.KindVarBinary}, {"varchar", 167, 167, 8000, 0, 0, sqltype.KindVarChar},
		{"binary", 173, 173, 8000, 0, 0, sqltype.KindBinary}, {"char", 175, 175, 8000, 0, 0, sqltype.KindChar},
		{"timestamp", 189, 189, 8, 0, 0, sqltype.KindRowVersion}, {"nvarchar", 231, 231, 8000, 0, 0, sqltype.KindNVarChar},
		{"sysname", 231, 256, 256, 0, 0, sqltype.KindNull}, {"nchar", 239, 239, 8000, 0, 0, sqltype.KindNChar},
		{"hierarchyid", 240, 128, 892, 0, 0, sqltype.KindNull}, {"geometry", 240, 129, -1, 0, 0, sqltype.KindNull},
		{"geography", 240, 130, -1, 0, 0, sqltype.KindNull}, {"xml", 241, 241, -1, 0, 0, sqltype.KindXML},
	}
}

// systemType gives the row of sys.types for a kind.
func systemType(k sqltype.Kind) sysType {
	for _, t := range systemTypes() {
		if t.kind == k {
			return t
		}
	}
	return sysType{name: "int", system: 56, user: 56}
}

// maxLengthOf is max_length of sys.columns: bytes, -1 for (max).
func maxLengthOf(t sqltype.Type) int {
	switch t.Kind {
	case sqltype.KindChar, sqltype.KindVarChar, sqltype.KindBinary, sqltype.KindVarBinary:
		return t.Length
	case sqltype.KindNChar, sqltype.KindNVarChar:
		if t.Length == sqltype.Max {
			return -1
		}
		return 2 * t.Length
	case sqltype.KindDecimal:
		switch {
		case t.Precision <= 9:
			return 5
		case t.Precision <= 19:
			return 9
		case t.Precision <= 28:
			return 13
		}
		return 17
	case sqltype.KindTime:
		return timeBytes(t.Scale)
	case sqltype.KindDateTime2:
		return timeBytes(t.Scale) + 3
	case sqltype.KindDateTimeOffset:
		return timeBytes(t.Scale) + 5
	}
	return systemType(t.Kind).length
}

func timeBytes(scale uint8) int {
	switch {
	case scale <= 2:
		return 3
	case scale <= 4:
		return 4
	}
	return 5
}

// precisionOf is precision of sys.columns: digits of numbers, characters of times, 0 for the rest.
func precisionOf(t sqltype.Type) int {
	fraction := func(base int) int {
		if t.Scale == 0 {
			return base
		}
		return base + 1 + int(t.Scale)
	}
	switch t.Kind {
	case sqltype.KindDecimal:
		return int(t.Precision)
	case sqltype.KindTime:
		return fraction(8)
	case sqltype.KindDateTime2:
		return fraction(19)
	case sqltype.KindDateTimeOffset:
		return fraction(26)
	}
	return int(systemType(t.Kind).precision)
}

// scaleOf is scale of sys.columns.
func scaleOf(t sqltype.Type) int {
	switch t.Kind {
	case sqltype.KindDecimal, sqltype.KindTime, sqltype.KindDateTime2, sqltype.KindDateTimeOffset:
		return int(t.Scale)
	}
	return int(systemType(t.Kind).scale)
}

// collationOf is collation_name of sys.columns: NULL for types without one.
func collationOf(t sqltype.Type, db *database) any {
	if !t.Kind.IsText() || t.Kind == sqltype.KindXML {
		return nil
	}
	if t.Collation != "" {
		return t.Collation
	}
	return db.collationName()
}

// collationName is the database's collation.
func (db *database) collationName() string {
	if db.collation != "" {
		return db.collation
	}
	return sqltype.DefaultCollation
}
