package sqlserversim

import (
	"context"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// permissionRule checks a right that a view needs besides being public.
type permissionRule func(s *session, db *database) error

// databaseOf finds the database that a name is in, and checks that the login may enter it.
func (s *session) databaseOf(name tsql.ObjectName) (*database, error) {
	if name.Database == "" {
		return s.db, nil
	}
	db := s.srv.database(name.Database)
	if db == nil {
		return nil, sqlerr.InvalidObject(name)
	}
	if _, ok := s.rightsIn(db); !ok {
		return nil, message(916, s.login, db.name)
	}
	return db, nil
}

// Table finds what a statement names in FROM, INSERT, UPDATE or DELETE.
func (s *session) Table(_ context.Context, ref tsql.TableRequest) (tsql.Table, error) {
	db, err := s.databaseOf(ref.Name)
	if err != nil {
		return nil, err
	}
	o := db.find(ref.Name.Schema, ref.Name.Name, s.defaultSchema(db))
	if o == nil || o.instance != nil && o.kind != kindTable || o.proc != nil || o.parent != 0 {
		return nil, sqlerr.InvalidObject(ref.Name)
	}
	permission := permissionOf(ref.Access)
	r, _ := s.rightsIn(db)
	switch {
	case o.view != nil && o.schema != "cdc":
		return s.systemView(db, o, ref)
	case o.view != nil && o.view.name == "lsn_time_mapping" && permission == "SELECT":
		// readable by everybody [M22]
	default:
		ok, columns := r.object(o.securable(), permission)
		if !ok && columns == nil {
			return nil, sqlerr.Denied(permission, o.name, db.name, o.schema)
		}
		if !ok && o.def != nil {
			return s.openBase(db, o, ref, columns)
		}
	}
	return s.open(db, o, ref)
}

// open makes the table of an object whose permissions were checked.
func (s *session) open(db *database, o *object, ref tsql.TableRequest) (tsql.Table, error) {
	if o.def != nil {
		return s.openBase(db, o, ref, nil)
	}
	if ref.Access != tsql.AccessSelect {
		return nil, message(259)
	}
	if err := s.snapshotAllowed(db); err != nil {
		return nil, err
	}
	if o.instance == nil {
		if o.view.name == "lsn_time_mapping" {
			return &mappingTable{db: db, mapping: s.view(db).Mapping(), columns: o.view.columns}, nil
		}
		return &viewTable{ses: s, db: db, view: o.view}, nil
	}
	cdc := s.view(db)
	i, ok := cdc.Instance(o.instance.Name)
	if !ok { // gone since the statement's view was taken, or new since then
		if i, ok = db.cdc().Instance(o.instance.Name); !ok {
			return nil, sqlerr.InvalidObject(ref.Name)
		}
		cdc = db.cdc()
	}
	return &changeTable{db: db, view: cdc, instance: i, columns: changeColumns(i)}, nil
}

func (s *session) openBase(db *database, o *object, ref tsql.TableRequest, columns map[string]bool) (tsql.Table, error) {
	t, ok := db.eng.Table(o.schema, o.name)
	if !ok {
		return nil, sqlerr.InvalidObject(ref.Name)
	}
	b := newBaseTable(s, db, t, ref)
	b.allowed = columns
	return b, nil
}

func (s *session) systemView(db *database, o *object, ref tsql.TableRequest) (tsql.Table, error) {
	if ref.Access != tsql.AccessSelect {
		return nil, message(259)
	}
	if o.view.needs != nil {
		if err := o.view.needs(s, db); err != nil {
			return nil, err
		}
	}
	return &viewTable{ses: s, db: db, view: o.view}, nil
}

// snapshotAllowed refuses CDC reads under SNAPSHOT in a database that does not allow it, as the engine does for its tables.
func (s *session) snapshotAllowed(db *database) error {
	if s.isolation == engine.Snapshot && !db.eng.Settings().AllowSnapshot && !db.system {
		return message(3952, db.name)
	}
	return nil
}

func permissionOf(a tsql.Access) string {
	switch a {
	case tsql.AccessInsert:
		return "INSERT"
	case tsql.AccessUpdate:
		return "UPDATE"
	case tsql.AccessDelete:
		return "DELETE"
	}
	return "SELECT"
}

// defaultSchema is where a bare name is looked for first.
func (s *session) defaultSchema(db *database) string {
	user := s.user
	if db != s.db {
		user = s.srv.security.userOf(db.name, s.login)
	}
	if p, ok := s.srv.security.principal(db.name, user); ok && p.defaultSchema != "" {
		return p.defaultSchema
	}
	return "dbo"
}

// visible tells whether the session may see an object's metadata in a database.
func (s *session) visible(db *database, o *object) bool {
	if o.id < 0 {
		return true
	}
	r, ok := s.rightsIn(db)
	if !ok {
		return false
	}
	if o.kind == kindTable && o.schema == "cdc" && o.view != nil && o.view.name == "lsn_time_mapping" {
		return true
	}
	if o.parent != 0 {
		parent := db.byID(o.parent)
		return parent != nil && r.visible(parent.securable())
	}
	return r.visible(o.securable())
}

// mayReadSource tells whether the session may select every captured column of an instance and is in its gating role: what
// the metadata procedures and min_lsn ask for [D].
func (s *session) mayReadSource(db *database, i *engine.Instance) bool {
	r, ok := s.rightsIn(db)
	if !ok {
		return false
	}
	if r.all {
		return true
	}
	if i.RoleName != "" && !r.inRole(i.RoleName) {
		return false
	}
	schema := db.schemaIDs()[fold(i.SourceSchema)]
	granted, columns := r.object(securable{id: i.SourceObjectID, schema: schema, table: true}, "SELECT")
	if granted {
		return true
	}
	for _, c := range i.Columns {
		if columns == nil || !columnAllowed(columns, c.Name) {
			return false
		}
	}
	return true
}

// Use changes the current database.
func (s *session) Use(_ context.Context, name string) error {
	db := s.srv.database(name)
	if db == nil {
		return sqlerr.NoDatabase(name)
	}
	user := s.srv.security.userOf(db.name, s.login)
	if user == "" {
		return message(916, s.login, db.name)
	}
	old := s.db
	s.db, s.user = db, user
	s.info.database.Store(int64(db.id))
	s.refreshRights()
	if s.writer != nil {
		s.writer.UseDatabase(db.name, old.name)
		if !strings.EqualFold(db.collation, old.collation) {
			s.writer.EnvCollation(wireCollation(db.collation))
		}
	}
	return nil
}
