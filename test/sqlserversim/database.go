package sqlserversim

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// database is a database as sessions see it: the engine's, and what only the layer of T-SQL knows.
type database struct {
	srv       *Server
	eng       *engine.Database
	id        int
	name      string
	collation string
	system    bool
	created   time.Time

	mu         sync.RWMutex
	procedures map[string]*storedProcedure // by lower-case schema.name
	owners     map[string]string           // schema (lower case) to owner
}

// storedProcedure is what CREATE PROCEDURE made.
type storedProcedure struct {
	id       int32
	schema   string
	name     string
	stmt     *ast.CreateProcedure
	created  time.Time
	modified time.Time
}

// objectKind is the type column of sys.objects, two characters.
type objectKind string

// The kinds of objects that exist here.
const (
	kindTable      objectKind = "U "
	kindView       objectKind = "V "
	kindSystem     objectKind = "S "
	kindProcedure  objectKind = "P "
	kindInlineFunc objectKind = "IF"
	kindPrimaryKey objectKind = "PK"
	kindUnique     objectKind = "UQ"
	kindDefault    objectKind = "D "
	kindCheck      objectKind = "C "
	kindForeignKey objectKind = "F "
)

// describe is type_desc.
func (k objectKind) describe() string {
	switch k {
	case kindTable:
		return "USER_TABLE"
	case kindView:
		return "VIEW"
	case kindSystem:
		return "SYSTEM_TABLE"
	case kindProcedure:
		return "SQL_STORED_PROCEDURE"
	case kindInlineFunc:
		return "SQL_INLINE_TABLE_VALUED_FUNCTION"
	case kindPrimaryKey:
		return "PRIMARY_KEY_CONSTRAINT"
	case kindUnique:
		return "UNIQUE_CONSTRAINT"
	case kindDefault:
		return "DEFAULT_CONSTRAINT"
	case kindCheck:
		return "CHECK_CONSTRAINT"
	case kindForeignKey:
		return "FOREIGN_KEY_CONSTRAINT"
	}
	return "UNKNOWN"
}

// object is an entry of sys.objects. Exactly one of def, view, instance, function and proc says what stands behind it; a
// constraint has none.
type object struct {
	id       int32
	schema   string
	schemaID int32
	name     string
	kind     objectKind
	parent   int32
	created  time.Time
	modified time.Time
	shipped  bool

	def      *engine.TableDef
	view     *view
	instance *engine.Instance // the change table, or with kindInlineFunc the function of that instance
	net      bool             // the net changes function
	proc     *storedProcedure
	index    *engine.IndexDef
	check    *tableCheck
}

// full is schema.name.
func (o *object) full() string { return o.schema + "." + o.name }

// securable is the object for permission checks. A function or change table of CDC is no table to db_datareader's eyes only
// if it is a function.
func (o *object) securable() securable {
	return securable{id: o.id, schema: o.schemaID, table: o.kind == kindTable || o.kind == kindView}
}

// columns lists the columns of a table-like object with their column ids.
func (o *object) columns() ([]sqltype.Column, []int32) {
	switch {
	case o.def != nil:
		cols, ids := o.def.SQLColumns(), make([]int32, len(o.def.Columns))
		for i, c := range o.def.Columns {
			ids[i] = c.ID
		}
		return cols, ids
	case o.instance != nil && o.kind == kindTable:
		return numbered(changeColumns(o.instance))
	case o.instance != nil:
		return numbered(functionColumns(o.instance, o.net))
	case o.view != nil:
		return numbered(o.view.columns)
	}
	return nil, nil
}

func numbered(cols []sqltype.Column) ([]sqltype.Column, []int32) {
	ids := make([]int32, len(cols))
	for i := range cols {
		ids[i] = int32(i + 1)
	}
	return cols, ids
}

// derivedID makes a stable object id for something the engine gives none: in the range of user objects, above its ids.
func derivedID(parts ...string) int32 {
	h := fnv.New32a()
	for _, p := range parts {
		h.Write([]byte(strings.ToLower(p)))
		h.Write([]byte{0})
	}
	return int32(h.Sum32()&0x1FFFFFFF | 0x60000000)
}

// systemID is the negative object id of a system object, the same in every database.
func systemID(schema, name string) int32 { return -derivedID(schema, name) }

// objects lists what sys.objects lists, by id.
func (db *database) objects() []*object {
	var out []*object
	ids := db.schemaIDs()
	for _, def := range db.tableDefs() {
		t := &object{
			id: def.ObjectID, schema: def.Schema, schemaID: ids[fold(def.Schema)], name: def.Name, kind: kindTable,
			created: def.CreateDate, modified: def.ModifyDate, def: def,
		}
		out = append(out, t)
		out = append(out, constraintsOf(t)...)
	}
	out = append(out, db.cdcObjects(ids)...)
	db.mu.RLock()
	for _, p := range db.procedures {
		out = append(out, &object{
			id: p.id, schema: p.schema, schemaID: ids[fold(p.schema)], name: p.name, kind: kindProcedure,
			created: p.created, modified: p.modified, proc: p,
		})
	}
	db.mu.RUnlock()
	slices.SortFunc(out, func(a, b *object) int { return cmp.Compare(a.id, b.id) })
	return out
}

// constraintsOf lists the constraints of a table as objects.
func constraintsOf(t *object) []*object {
	var out []*object
	add := func(kind objectKind, name string) *object {
		o := &object{
			id: derivedID(t.schema, name), schema: t.schema, schemaID: t.schemaID, name: name, kind: kind,
			parent: t.id, created: t.created, modified: t.modified, def: nil,
		}
		out = append(out, o)
		return o
	}
	for i := range t.def.Indexes {
		ix := &t.def.Indexes[i]
		switch {
		case ix.PrimaryKey:
			add(kindPrimaryKey, ix.Name).index = ix
		case ix.Constraint:
			add(kindUnique, ix.Name).index = ix
		}
	}
	for i := range t.def.Columns {
		if name, e := extraOfColumn(&t.def.Columns[i]).defaultOf(); e != nil {
			add(kindDefault, name)
		}
	}
	checks := checksOf(t.def)
	for i := range checks {
		add(kindCheck, checks[i].name).check = &checks[i]
	}
	return out
}

// cdcObjects lists what sys.sp_cdc_enable_db and sys.sp_cdc_enable_table made.
func (db *database) cdcObjects(ids map[string]int32) []*object {
	cdc := db.cdc()
	if !cdc.Enabled() {
		return nil
	}
	var out []*object
	for _, v := range db.srv.catalog.cdcTables {
		out = append(out, db.cdcTable(v, ids["cdc"]))
	}
	for _, i := range cdc.Instances() {
		out = append(out, changeTableObject(i, ids["cdc"]), functionObject(i, ids["cdc"], false))
		if i.SupportsNetChanges {
			out = append(out, functionObject(i, ids["cdc"], true))
		}
	}
	return out
}

// cdcTable is one of the metadata tables of schema cdc.
func (db *database) cdcTable(v *view, schemaID int32) *object {
	return &object{
		id: derivedID("cdc", v.name), schema: "cdc", schemaID: schemaID, name: v.name, kind: kindTable, created: db.created,
		modified: db.created, shipped: true, view: v,
	}
}

// changeTableObject is cdc.<instance>_CT.
func changeTableObject(i *engine.Instance, schemaID int32) *object {
	return &object{
		id: i.ObjectID, schema: "cdc", schemaID: schemaID, name: i.ChangeTableName(), kind: kindTable, created: i.CreateDate,
		modified: i.CreateDate, shipped: true, instance: i,
	}
}

// The functions of an instance are named after it.
const (
	allChangesPrefix = "fn_cdc_get_all_changes_"
	netChangesPrefix = "fn_cdc_get_net_changes_"
)

// functionObject is one of the two query functions of an instance.
func functionObject(i *engine.Instance, schemaID int32, net bool) *object {
	name := allChangesPrefix + i.Name
	if net {
		name = netChangesPrefix + i.Name
	}
	return &object{
		id: derivedID("cdc", name), schema: "cdc", schemaID: schemaID, name: name, kind: kindInlineFunc, created: i.CreateDate,
		modified: i.CreateDate, shipped: true, instance: i, net: net,
	}
}

// findCDC finds an object that CDC made, without listing them all: a reader names one in every statement.
func (db *database) findCDC(name string) *object {
	cdc := db.cdc()
	if !cdc.Enabled() {
		return nil
	}
	schema, _ := db.eng.Schema("cdc")
	for _, v := range db.srv.catalog.cdcTables {
		if strings.EqualFold(v.name, name) {
			return db.cdcTable(v, schema.ID)
		}
	}
	lower := fold(name)
	if strings.HasSuffix(lower, "_ct") {
		if i, ok := cdc.Instance(name[:len(name)-len("_ct")]); ok {
			return changeTableObject(i, schema.ID)
		}
	}
	for prefix, net := range map[string]bool{allChangesPrefix: false, netChangesPrefix: true} {
		if !strings.HasPrefix(lower, prefix) {
			continue
		}
		if i, ok := cdc.Instance(name[len(prefix):]); ok && (!net || i.SupportsNetChanges) {
			return functionObject(i, schema.ID, net)
		}
	}
	return nil
}

// find resolves a name of one or two parts in the database: the default schema, then dbo, for a bare one. System objects are
// found in schema sys and INFORMATION_SCHEMA.
func (db *database) find(schema, name, defaultSchema string) *object {
	if schema != "" {
		return db.findIn(schema, name)
	}
	if o := db.findIn(cmp.Or(defaultSchema, "dbo"), name); o != nil {
		return o
	}
	if o := db.findIn("dbo", name); o != nil {
		return o
	}
	if strings.HasPrefix(fold(name), "sys") { // sysobjects and its kin need no schema
		return db.findIn("sys", name)
	}
	return nil
}

func (db *database) findIn(schema, name string) *object {
	if strings.EqualFold(schema, "sys") || strings.EqualFold(schema, "INFORMATION_SCHEMA") {
		v := db.srv.catalog.find(schema, name, db.name)
		if v == nil {
			return nil
		}
		return systemObject(v, db)
	}
	if v := db.srv.catalog.find(schema, name, db.name); v != nil && v.database != "" {
		return systemObject(v, db)
	}
	if def := db.tableDef(schema, name); def != nil {
		return &object{
			id: def.ObjectID, schema: def.Schema, schemaID: db.schemaIDs()[fold(def.Schema)], name: def.Name, kind: kindTable,
			created: def.CreateDate, modified: def.ModifyDate, def: def,
		}
	}
	if strings.EqualFold(schema, "cdc") {
		if o := db.findCDC(name); o != nil {
			return o
		}
	}
	for _, o := range db.objects() {
		if strings.EqualFold(o.schema, schema) && strings.EqualFold(o.name, name) {
			return o
		}
	}
	return nil
}

// byID finds an object by its id.
func (db *database) byID(id int32) *object {
	for _, o := range db.objects() {
		if o.id == id {
			return o
		}
	}
	if id < 0 {
		for _, v := range db.srv.catalog.views {
			if systemID(v.schema, v.name) == id {
				return systemObject(v, db)
			}
		}
	}
	return nil
}

// systemObject is a catalogue view as an object.
func systemObject(v *view, db *database) *object {
	o := &object{
		id: systemID(v.schema, v.name), schema: v.schema, schemaID: 4, name: v.name, kind: kindView, created: db.srv.started,
		modified: db.srv.started, shipped: true, view: v,
	}
	switch v.schema {
	case "INFORMATION_SCHEMA":
		o.schemaID = 3
	case "dbo":
		o.schemaID, o.kind = 1, kindTable
	}
	return o
}
