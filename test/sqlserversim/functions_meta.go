package sqlserversim

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// metadataFunctions are the functions over objects, schemas, types and databases. They give NULL for what the caller may not
// see.
func metadataFunctions() map[string]scalar {
	name := sqltype.NVarCharType(1035)
	sysname := sqltype.SysName()
	return map[string]scalar{
		"object_id":          optional(1, intType(), fnObjectID, name, sqltype.NVarCharType(2)),
		"object_name":        optional(1, sysname, fnObjectName, intType(), intType()),
		"object_schema_name": optional(1, sysname, fnObjectSchemaName, intType(), intType()),
		"object_definition":  fixed(hexType(), fnObjectDefinition, intType()),
		"objectproperty":     fixed(intType(), fnObjectProperty, intType(), sysname),
		"objectpropertyex":   fixed(variant(), fnObjectProperty, intType(), sysname),
		"columnproperty":     fixed(intType(), fnColumnProperty, intType(), sysname, sysname),
		"col_length":         fixed(smallInt(), fnColLength, name, sysname),
		"col_name":           fixed(sysname, fnColName, intType(), intType()),
		"type_id":            fixed(intType(), fnTypeID, sysname),
		"type_name":          fixed(sysname, fnTypeName, intType()),
		"schema_id":          optional(0, intType(), fnSchemaID, sysname),
		"schema_name":        optional(0, sysname, fnSchemaName, intType()),
		"db_id":              optional(0, smallInt(), fnDBID, sysname),
		"db_name":            optional(0, sysname, fnDBName, intType()),
		"original_db_name": fixed(sysname, func(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
			return sqltype.NVarChar(s.db.name), nil
		}),
		"ident_current":  fixed(sqltype.DecimalType(38, 0), fnIdentCurrent, name),
		"ident_seed":     fixed(sqltype.DecimalType(38, 0), fnIdentSeed, name),
		"ident_incr":     fixed(sqltype.DecimalType(38, 0), fnIdentIncrement, name),
		"filegroup_name": fixed(sysname, constant(sqltype.NVarChar("PRIMARY")), smallInt()),
	}
}

func constant(v sqltype.Value) func(*session, *database, []sqltype.Value) (sqltype.Value, error) {
	return func(*session, *database, []sqltype.Value) (sqltype.Value, error) { return v, nil }
}

// objectNamed resolves a name in text, as OBJECT_ID does; nil when there is none or it may not be seen.
func (s *session) objectNamed(text string) (*database, *object) {
	n, ok := parseName(text)
	if !ok {
		return nil, nil
	}
	db, err := s.databaseOf(n)
	if err != nil {
		return nil, nil
	}
	o := db.find(n.Schema, n.Name, s.defaultSchema(db))
	if o == nil && (n.Schema == "" || strings.EqualFold(n.Schema, "sys")) {
		o = s.srv.systemProcedure(n.Name)
	}
	if o == nil || !s.visible(db, o) {
		return nil, nil
	}
	return db, o
}

// systemProcedure is a system procedure as an object.
func (s *Server) systemProcedure(name string) *object {
	p, ok := s.catalog.procedures[fold(name)]
	if !ok {
		return nil
	}
	return &object{
		id: systemID("sys", p.name), schema: "sys", schemaID: 4, name: p.name, kind: kindProcedure, created: s.started,
		modified: s.started, shipped: true,
	}
}

func fnObjectID(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if args[0].IsNull() {
		return sqltype.Null(), nil
	}
	_, o := s.objectNamed(args[0].Str())
	if o == nil {
		return sqltype.Null(), nil
	}
	if len(args) > 1 && !args[1].IsNull() {
		if want := strings.TrimSpace(args[1].Str()); !strings.EqualFold(want, strings.TrimSpace(string(o.kind))) {
			return sqltype.Null(), nil
		}
	}
	return sqltype.Int(o.id), nil
}

// objectByArgs finds the object of (id [, database id]).
func (s *session) objectByArgs(args []sqltype.Value) *object {
	if args[0].IsNull() {
		return nil
	}
	db := s.db
	if len(args) > 1 && !args[1].IsNull() {
		if db = s.databaseByID(int(args[1].Int64())); db == nil {
			return nil
		}
	}
	o := db.byID(int32(args[0].Int64()))
	if o == nil || !s.visible(db, o) {
		return nil
	}
	return o
}

func (s *session) databaseByID(id int) *database {
	for _, db := range s.srv.databases() {
		if db.id == id {
			return db
		}
	}
	return nil
}

func fnObjectName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if o := s.objectByArgs(args); o != nil {
		return sqltype.NVarChar(o.name), nil
	}
	return sqltype.Null(), nil
}

func fnObjectSchemaName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if o := s.objectByArgs(args); o != nil {
		return sqltype.NVarChar(o.schema), nil
	}
	return sqltype.Null(), nil
}

func fnObjectDefinition(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if o := s.objectByArgs(args[:1]); o != nil && o.proc != nil {
		return sqltype.NVarChar(o.proc.stmt.Text), nil
	}
	return sqltype.Null(), nil
}

// fnObjectProperty knows the usual properties; others are NULL, as on a server that does not know them.
func fnObjectProperty(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	o := s.objectByArgs(args[:1])
	if o == nil {
		return sqltype.Null(), nil
	}
	flag := func(b bool) (sqltype.Value, error) { return sqltype.Integer(sqltype.KindInt, int64(btoi(b))), nil }
	switch fold(args[1].Str()) {
	case "istable", "isusertable":
		return flag(o.kind == kindTable)
	case "isview":
		return flag(o.kind == kindView)
	case "isprocedure":
		return flag(o.kind == kindProcedure)
	case "isinlinefunction", "istablefunction":
		return flag(o.kind == kindInlineFunc)
	case "ismsshipped":
		return flag(o.shipped)
	case "isprimarykey":
		return flag(o.kind == kindPrimaryKey)
	case "tablehasprimarykey":
		if o.def == nil {
			return flag(false)
		}
		_, ok := o.def.PrimaryKey()
		return flag(ok)
	case "tablehasidentity":
		if o.def == nil {
			return flag(false)
		}
		for _, c := range o.def.Columns {
			if c.Identity != nil {
				return flag(true)
			}
		}
		return flag(false)
	case "schemaid":
		return sqltype.Int(o.schemaID), nil
	case "ownerid":
		return sqltype.Int(1), nil
	}
	return sqltype.Null(), nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func fnColumnProperty(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	o := s.objectByArgs(args[:1])
	if o == nil {
		return sqltype.Null(), nil
	}
	cols, ids := o.columns()
	for i, c := range cols {
		if !strings.EqualFold(c.Name, args[1].Str()) {
			continue
		}
		flag := func(b bool) (sqltype.Value, error) { return sqltype.Int(int32(btoi(b))), nil }
		switch fold(args[2].Str()) {
		case "allowsnull":
			return flag(c.Nullable)
		case "isidentity":
			return flag(c.Identity)
		case "iscomputed":
			return flag(c.Computed)
		case "columnid", "ordinal":
			return sqltype.Int(ids[i]), nil
		case "precision":
			return sqltype.Int(int32(precisionOf(c.Type))), nil
		case "scale":
			return sqltype.Int(int32(c.Type.Scale)), nil
		case "charmaxlen":
			return sqltype.Int(int32(c.Type.Length)), nil
		case "isrowguidcol", "issparse", "ishidden":
			return flag(false)
		}
	}
	return sqltype.Null(), nil
}

func fnColLength(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	_, o := s.objectNamed(args[0].Str())
	if o == nil {
		return sqltype.Null(), nil
	}
	cols, _ := o.columns()
	for _, c := range cols {
		if strings.EqualFold(c.Name, args[1].Str()) {
			return sqltype.SmallInt(int16(maxLengthOf(c.Type))), nil
		}
	}
	return sqltype.Null(), nil
}

func fnColName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	o := s.objectByArgs(args[:1])
	if o == nil {
		return sqltype.Null(), nil
	}
	cols, ids := o.columns()
	for i, id := range ids {
		if int64(id) == args[1].Int64() {
			return sqltype.NVarChar(cols[i].Name), nil
		}
	}
	return sqltype.Null(), nil
}

func fnTypeID(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	n, _ := parseName(args[0].Str())
	for _, t := range systemTypes() {
		if strings.EqualFold(t.name, n.Name) {
			return sqltype.Int(int32(t.user)), nil
		}
	}
	return sqltype.Null(), nil
}

func fnTypeName(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	for _, t := range systemTypes() {
		if int64(t.user) == args[0].Int64() && !args[0].IsNull() {
			return sqltype.NVarChar(t.name), nil
		}
	}
	return sqltype.Null(), nil
}

func fnSchemaID(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	name := s.defaultSchema(s.db)
	if len(args) > 0 {
		if args[0].IsNull() {
			return sqltype.Null(), nil
		}
		name = args[0].Str()
	}
	if id, ok := s.db.schemaIDs()[fold(name)]; ok {
		return sqltype.Int(id), nil
	}
	return sqltype.Null(), nil
}

func fnSchemaName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if len(args) == 0 {
		return sqltype.NVarChar(s.defaultSchema(s.db)), nil
	}
	for _, sc := range s.db.eng.Schemas() {
		if !args[0].IsNull() && int64(sc.ID) == args[0].Int64() {
			return sqltype.NVarChar(sc.Name), nil
		}
	}
	return sqltype.Null(), nil
}

func fnDBID(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	db := s.db
	if len(args) > 0 {
		if args[0].IsNull() {
			return sqltype.Null(), nil
		}
		if db = s.srv.database(args[0].Str()); db == nil {
			return sqltype.Null(), nil
		}
	}
	return sqltype.SmallInt(int16(db.id)), nil
}

func fnDBName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	db := s.db
	if len(args) > 0 {
		if args[0].IsNull() {
			return sqltype.Null(), nil
		}
		if db = s.databaseByID(int(args[0].Int64())); db == nil {
			return sqltype.Null(), nil
		}
	}
	return sqltype.NVarChar(db.name), nil
}

func fnIdentCurrent(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	db, o := s.objectNamed(args[0].Str())
	if o == nil || o.def == nil {
		return sqltype.Null(), nil
	}
	if t, ok := db.eng.Table(o.schema, o.name); ok {
		if v, ok := t.IdentityCurrent(); ok {
			return decimalOf(v), nil
		}
	}
	return fnIdentSeed(s, db, args)
}

func fnIdentSeed(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	return s.identity(args[0].Str(), func(seed, _ int64) int64 { return seed })
}

func fnIdentIncrement(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	return s.identity(args[0].Str(), func(_, increment int64) int64 { return increment })
}

func (s *session) identity(name string, pick func(seed, increment int64) int64) (sqltype.Value, error) {
	_, o := s.objectNamed(name)
	if o == nil || o.def == nil {
		return sqltype.Null(), nil
	}
	for _, c := range o.def.Columns {
		if c.Identity != nil {
			return decimalOf(pick(c.Identity.Seed, c.Identity.Increment)), nil
		}
	}
	return sqltype.Null(), nil
}

func decimalOf(v int64) sqltype.Value {
	return sqltype.Decimal(sqltype.Number{Neg: v < 0, Lo: uint64(max(v, -v))})
}
