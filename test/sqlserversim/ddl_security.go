package sqlserversim

import (
	"cmp"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func (s *session) createSchema(d *ast.CreateSchema) error {
	if err := s.needDDL(s.db, "CREATE SCHEMA"); err != nil {
		return err
	}
	if d.Owner != "" {
		if _, ok := s.srv.security.principal(s.db.name, d.Owner); !ok {
			return message(15151, "user", d.Owner)
		}
		s.db.mu.Lock()
		s.db.owners[fold(d.Name)] = d.Owner
		s.db.mu.Unlock()
	}
	_, err := s.db.eng.CreateSchema(d.Name)
	return clientError(err, s.spid)
}

func (s *session) dropSchema(d *ast.Drop, name string) error {
	if err := s.needDDL(s.db, "ALTER ANY SCHEMA"); err != nil {
		return err
	}
	if strings.EqualFold(name, "cdc") && s.db.cdc().Enabled() {
		return message(3729, name, "change_tables")
	}
	err := s.db.eng.DropSchema(name)
	if d.IfExists && numberOf(err) == engine.ErrCannotDrop {
		return nil
	}
	return clientError(err, s.spid)
}

func (s *session) createDatabaseStatement(d *ast.CreateDatabase) error {
	if !s.sysadmin && !s.srv.security.hasServerPermission(s.login, "CREATE ANY DATABASE") {
		return message(262, "CREATE DATABASE", "master")
	}
	if d.Collation != "" {
		if _, ok := sqltype.LookupCollation(d.Collation); !ok {
			return sqlerr.Make(448, d.Collation)
		}
	}
	_, err := s.srv.createDatabase(d.Name, d.Collation)
	return clientError(err, s.spid)
}

func (s *session) dropDatabaseStatement(d *ast.Drop, name string) error {
	db := s.srv.database(name)
	switch {
	case db == nil && d.IfExists:
		return nil
	case db == nil || !s.sysadmin:
		return message(3701, "drop", "database", name)
	case db.system:
		return errorf("Cannot drop database '%s' because it is a system database.", name)
	}
	for _, other := range s.srv.sessionList() {
		if other.spid != s.spid && other.info.database.Load() == int64(db.id) {
			return message(3702, name)
		}
	}
	if db == s.db {
		return message(3702, name)
	}
	return clientError(s.srv.dropDatabase(db.name), s.spid)
}

// alterDatabase sets the options that change something here, takes note of none of the others that a server has, and refuses
// unknown ones.
func (s *session) alterDatabase(d *ast.AlterDatabase) error {
	db := s.db
	if d.Name != "" {
		if db = s.srv.database(d.Name); db == nil {
			return sqlerr.NoDatabase(d.Name)
		}
	}
	if r, ok := s.rightsIn(db); !ok || !r.all {
		return message(5011, db.name)
	}
	set := db.eng.Settings()
	for _, o := range d.Options {
		on := strings.EqualFold(o.Value, "ON")
		switch strings.ToUpper(o.Name) {
		case "ALLOW_SNAPSHOT_ISOLATION":
			set.AllowSnapshot = on
		case "READ_COMMITTED_SNAPSHOT":
			set.ReadCommittedSnapshot = on
		case "READ_ONLY":
			set.ReadOnly = true
		case "READ_WRITE":
			set.ReadOnly = false
		case "RECOVERY", "COMPATIBILITY_LEVEL", "AUTO_CLOSE", "AUTO_SHRINK", "AUTO_CREATE_STATISTICS", "AUTO_UPDATE_STATISTICS", "PAGE_VERIFY",
			"SINGLE_USER", "MULTI_USER", "RESTRICTED_USER", "ONLINE", "TARGET_RECOVERY_TIME", "QUERY_STORE", "ANSI_NULLS", "QUOTED_IDENTIFIER",
			"TRUSTWORTHY", "DELAYED_DURABILITY", "ACCELERATED_DATABASE_RECOVERY", "PARAMETERIZATION", "RECURSIVE_TRIGGERS":
			// nothing here depends on them
		default:
			return sqlerr.Syntax(o.Name)
		}
	}
	db.eng.SetSettings(set)
	return nil
}

func (s *session) createPrincipal(d *ast.CreatePrincipal) error {
	if d.Kind == ast.ObjLogin {
		return s.createLogin(d)
	}
	if r, ok := s.rightsIn(s.db); !ok || !r.all && !r.names["db_accessadmin"] && !r.database("ALTER ANY USER") {
		return message(15247)
	}
	p := principal{name: d.Name, role: d.Kind == ast.ObjRole}
	if !p.role {
		p.defaultSchema = cmp.Or(optionOf(d.Options, "DEFAULT_SCHEMA"), "dbo")
		without := optionSet(d.Options, "WITHOUT LOGIN") || optionSet(d.Options, "WITHOUT")
		name := d.Login
		if name == "" && !without {
			name = d.Name
		}
		if name != "" {
			l := s.srv.security.login(name)
			if l == nil {
				return message(15007, name)
			}
			p.login, p.sid = fold(name), l.sid
		}
	}
	if !s.srv.security.addPrincipal(s.db.name, p) {
		return message(15023, d.Name)
	}
	if !p.role {
		s.srv.security.setGrant(s.db.name, grant{grantee: fold(d.Name), permission: "CONNECT", state: 'G'})
	}
	return nil
}

func optionOf(list []ast.Option, name string) string {
	for _, o := range list {
		if strings.EqualFold(o.Name, name) {
			return strings.Trim(o.Value, "[]")
		}
	}
	return ""
}

func optionSet(list []ast.Option, name string) bool {
	for _, o := range list {
		if strings.EqualFold(o.Name, name) {
			return true
		}
	}
	return false
}

func (s *session) createLogin(d *ast.CreatePrincipal) error {
	if !s.sysadmin {
		return message(15247)
	}
	if s.srv.security.login(d.Name) != nil {
		return message(15025, d.Name)
	}
	s.srv.security.addLogin(d.Name, d.Password, false)
	if db := optionOf(d.Options, "DEFAULT_DATABASE"); db != "" {
		s.srv.security.changeLogin(d.Name, func(l *login) { l.defaultDatabase = db })
	}
	return nil
}

func (s *session) alterPrincipal(d *ast.AlterPrincipal) error {
	switch d.Kind {
	case ast.ObjLogin:
		return s.alterLogin(d)
	case ast.ObjUser:
		return s.alterUser(d)
	}
	if d.Server {
		return s.alterServerRole(d)
	}
	r, ok := s.rightsIn(s.db)
	if !ok || !r.all && !r.names["db_securityadmin"] {
		return message(15151, "role", d.Name)
	}
	member, in := d.AddMember, true
	if member == "" {
		member, in = d.DropMember, false
	}
	if member == "" {
		return nil
	}
	switch missing := s.srv.security.setMember(s.db.name, d.Name, member, in); missing {
	case "":
		return nil
	case d.Name:
		return message(15151, "role", d.Name)
	default:
		return message(15151, "user", missing)
	}
}

func (s *session) alterLogin(d *ast.AlterPrincipal) error {
	if !s.sysadmin && !strings.EqualFold(d.Name, s.login) {
		return message(15151, "login", d.Name)
	}
	found := s.srv.security.changeLogin(d.Name, func(l *login) {
		switch {
		case d.Enable:
			l.disabled = false
		case d.Disable:
			l.disabled = true
		}
		if d.Password != "" {
			l.password = d.Password
		}
		if db := optionOf(d.Options, "DEFAULT_DATABASE"); db != "" {
			l.defaultDatabase = db
		}
	})
	if !found {
		return message(15151, "login", d.Name)
	}
	return nil
}

func (s *session) alterUser(d *ast.AlterPrincipal) error {
	p, ok := s.srv.security.principal(s.db.name, d.Name)
	if !ok {
		return message(15151, "user", d.Name)
	}
	if schema := optionOf(d.Options, "DEFAULT_SCHEMA"); schema != "" {
		p.defaultSchema = schema
	}
	if name := optionOf(d.Options, "LOGIN"); name != "" {
		l := s.srv.security.login(name)
		if l == nil {
			return message(15007, name)
		}
		p.login, p.sid = fold(name), l.sid
	}
	s.srv.security.replacePrincipal(s.db.name, p)
	return nil
}

func (s *session) alterServerRole(d *ast.AlterPrincipal) error {
	if !s.sysadmin || !strings.EqualFold(d.Name, "sysadmin") {
		return message(15151, "server role", d.Name)
	}
	member := cmp.Or(d.AddMember, d.DropMember)
	if !s.srv.security.changeLogin(member, func(l *login) { l.sysadmin = d.AddMember != "" }) {
		return message(15151, "login", member)
	}
	return nil
}

func (s *session) dropPrincipal(d *ast.Drop, name string) error {
	kind := strings.ToLower(string(d.Kind))
	if r, ok := s.rightsIn(s.db); !ok || !r.all {
		return message(15151, kind, name)
	}
	if d.Kind == ast.ObjLogin {
		if s.sysadmin && s.srv.security.dropLogin(name) || d.IfExists {
			return nil
		}
		return message(15151, kind, name)
	}
	p, ok := s.srv.security.principal(s.db.name, name)
	switch {
	case ok && strings.EqualFold(name, "cdc") && s.db.cdc().Enabled():
		return message(22895)
	case ok && p.role && len(p.members) > 0:
		return message(15144)
	case ok && p.role == (d.Kind == ast.ObjRole) && !p.fixed && p.id > 4:
		s.srv.security.dropPrincipal(s.db.name, name)
		return nil
	case d.IfExists && !ok:
		return nil
	}
	return message(15151, kind, name)
}

// grantStatement executes GRANT, DENY and REVOKE on the server, the database, a schema or an object.
func (s *session) grantStatement(d *ast.GrantStmt) error {
	for _, p := range d.Permissions {
		if serverPermission(p.Name) {
			if err := s.grantServer(d, p.Name); err != nil {
				return err
			}
			continue
		}
		if err := s.grantInDatabase(d, p); err != nil {
			return err
		}
	}
	return nil
}

// serverPermission tells the permissions that belong to the server.
func serverPermission(name string) bool {
	switch name {
	case "VIEW SERVER STATE", "VIEW SERVER PERFORMANCE STATE", "VIEW SERVER SECURITY STATE", "CONTROL SERVER", "VIEW ANY DATABASE",
		"VIEW ANY DEFINITION", "CREATE ANY DATABASE", "ALTER ANY LOGIN", "CONNECT SQL", "ALTER SERVER STATE":
		return true
	}
	return false
}

func (s *session) grantServer(d *ast.GrantStmt, permission string) error {
	if !s.sysadmin {
		return message(4613)
	}
	for _, to := range d.To {
		ok := s.srv.security.changeLogin(to, func(l *login) {
			switch d.Kind {
			case ast.Grant:
				l.permissions[permission] = 'G'
			case ast.Deny:
				l.permissions[permission] = 'D'
			default:
				delete(l.permissions, permission)
			}
		})
		if !ok {
			return message(15151, "login", to)
		}
	}
	return nil
}

func (s *session) grantInDatabase(d *ast.GrantStmt, p ast.Permission) error {
	db, err := s.databaseOf(d.On)
	if err != nil {
		return err
	}
	if r, ok := s.rightsIn(db); !ok || !r.all && !r.names["db_securityadmin"] {
		return message(15151, "object", d.On.Name)
	}
	base := grant{permission: p.Name, state: stateOf(d)}
	if base.permission == "EXEC" {
		base.permission = "EXECUTE"
	}
	var o *object
	switch {
	case d.On.IsZero() || d.Class == "DATABASE":
		base.class = classDatabase
	case d.Class == "SCHEMA":
		id, ok := db.schemaIDs()[fold(d.On.Name)]
		if !ok {
			return message(15151, "schema", d.On.Name)
		}
		base.class, base.major = classSchema, id
	default:
		if o = db.find(d.On.Schema, d.On.Name, s.defaultSchema(db)); o == nil {
			return message(15151, "object", d.On.Name)
		}
		base.class, base.major = classObject, o.id
	}
	for _, to := range d.To {
		if _, ok := s.srv.security.principal(db.name, to); !ok {
			return message(15151, "user", to)
		}
		if err := s.setGrants(db, base, fold(to), o, p.Columns); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) setGrants(db *database, g grant, to string, o *object, columns []string) error {
	g.grantee = to
	if len(columns) == 0 {
		s.srv.security.setGrant(db.name, g)
		return nil
	}
	if o == nil {
		return sqlerr.Syntax("(")
	}
	cols, ids := o.columns()
	for _, name := range columns {
		found := false
		for i, c := range cols {
			if strings.EqualFold(c.Name, name) {
				g.column, g.columnID, found = fold(name), int(ids[i]), true
			}
		}
		if !found {
			return message(1020)
		}
		s.srv.security.setGrant(db.name, g)
	}
	return nil
}

func stateOf(d *ast.GrantStmt) byte {
	switch {
	case d.Kind == ast.Grant && d.WithGrant:
		return 'W'
	case d.Kind == ast.Grant:
		return 'G'
	case d.Kind == ast.Deny:
		return 'D'
	}
	return 0
}
