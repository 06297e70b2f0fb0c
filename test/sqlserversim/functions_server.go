package sqlserversim

import (
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// serverFunctions are the functions over the server, the session, principals and permissions.
func serverFunctions() map[string]scalar {
	sysname := sqltype.SysName()
	user := func(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
		return sqltype.NVarChar(s.user), nil
	}
	login := func(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
		return sqltype.NVarChar(s.login), nil
	}
	host := func(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
		return sqltype.NVarChar(s.info.host), nil
	}
	app := func(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
		return sqltype.NVarChar(s.info.program), nil
	}
	return map[string]scalar{
		"serverproperty":          fixed(variant(), fnServerProperty, sysname),
		"databasepropertyex":      fixed(variant(), fnDatabaseProperty, sysname, sysname),
		"databaseproperty":        fixed(intType(), fnDatabaseProperty, sysname, sysname),
		"connectionproperty":      fixed(variant(), fnConnectionProperty, sysname),
		"sessionproperty":         fixed(variant(), fnSessionProperty, sysname),
		"fulltextserviceproperty": fixed(intType(), constant(sqltype.Int(0)), sysname),
		"current_timezone_id":     fixed(sqltype.VarCharType(128), fnTimeZoneID),
		"current_timezone":        fixed(sqltype.VarCharType(128), fnTimeZoneID),
		"has_perms_by_name":       optional(3, intType(), fnHasPerms, sysname, sysname, sysname, sysname, sysname),
		"has_dbaccess":            fixed(intType(), fnHasDBAccess, sysname),
		"is_member":               fixed(intType(), fnIsMember, sysname),
		"is_rolemember":           optional(1, intType(), fnIsRoleMember, sysname, sysname),
		"is_srvrolemember":        optional(1, intType(), fnIsServerRoleMember, sysname, sysname),
		"suser_sname":             optional(0, sysname, fnLoginName, sqltype.VarBinaryType(85)),
		"suser_name":              optional(0, sysname, fnLoginName, intType()),
		"suser_id":                optional(0, intType(), fnLoginID, sysname),
		"suser_sid":               optional(0, sqltype.VarBinaryType(85), fnLoginSID, sysname),
		"original_login":          fixed(sysname, login),
		"system_user":             fixed(sysname, login),
		"user_name":               optional(0, sysname, fnUserName, intType()),
		"user_id":                 optional(0, intType(), fnUserID, sysname),
		"database_principal_id":   optional(0, intType(), fnUserID, sysname),
		"user":                    fixed(sysname, user),
		"current_user":            fixed(sysname, user),
		"session_user":            fixed(sysname, user),
		"host_name":               fixed(sysname, host),
		"host_id":                 fixed(sqltype.Type{Kind: sqltype.KindChar, Length: 10}, host),
		"app_name":                fixed(sysname, app),
		"current_transaction_id":  fixed(sqltype.TypeOf(sqltype.KindBigInt), fnTransactionID),
		"min_active_rowversion":   fixed(sqltype.BinaryType(8), constant(sqltype.Binary(make([]byte, 8)))),
	}
}

// fnServerProperty knows what clients ask for; an unknown property is NULL, as on a server.
func fnServerProperty(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	p := s.srv.profile
	text := func(v string) (sqltype.Value, error) { return sqltype.NVarChar(v), nil }
	number := func(v int32) (sqltype.Value, error) { return sqltype.Int(v), nil }
	switch fold(args[0].Str()) {
	case "productversion":
		return text(p.productVersion())
	case "productmajorversion":
		return text(strconv.Itoa(int(p.major)))
	case "productminorversion":
		return text(strconv.Itoa(int(p.minor)))
	case "productbuild":
		return text(strconv.Itoa(int(p.build)))
	case "productlevel":
		return text(p.level())
	case "edition":
		return text(edition)
	case "editionid":
		return sqltype.BigInt(-2117995310), nil
	case "engineedition":
		return number(3)
	case "servername", "machinename", "computernamephysicalnetbios":
		return text(s.srv.cfg.serverName)
	case "collation":
		return text(sqltype.DefaultCollation)
	case "lcid":
		return number(1033)
	case "sqlcharset":
		return sqltype.TinyInt(1), nil
	case "sqlcharsetname":
		return text("iso_1")
	case "sqlsortorder":
		return sqltype.TinyInt(52), nil
	case "sqlsortordername":
		return text("nocase_iso")
	case "resourceversion":
		return text(p.productVersion())
	case "processid":
		return number(1)
	case "isclustered", "ishadrenabled", "isintegratedsecurityonly", "isfulltextinstalled", "issingleuser", "isxtpsupported",
		"islocaldb", "ispolybaseinstalled", "isadvancedanalyticsinstalled":
		return number(0)
	}
	return sqltype.Null(), nil
}

func fnDatabaseProperty(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	db := s.srv.database(args[0].Str())
	if db == nil {
		return sqltype.Null(), nil
	}
	set := db.eng.Settings()
	text := func(v string) (sqltype.Value, error) { return sqltype.NVarChar(v), nil }
	number := func(b bool) (sqltype.Value, error) { return sqltype.Int(int32(btoi(b))), nil }
	switch fold(args[1].Str()) {
	case "collation":
		return text(db.collationName())
	case "status":
		return text("ONLINE")
	case "updateability":
		if set.ReadOnly {
			return text("READ_ONLY")
		}
		return text("READ_WRITE")
	case "useraccess":
		return text("MULTI_USER")
	case "recovery":
		return text("FULL")
	case "edition":
		return sqltype.Null(), nil
	case "version":
		return sqltype.Int(957), nil
	case "lcid":
		return sqltype.Int(1033), nil
	case "isautoclose", "isautoshrink", "isinstandby", "isfulltextenabled", "isparameterizationforced", "isansinulldefault":
		return number(false)
	case "isautocreatestatistics", "isautoupdatestatistics":
		return number(true)
	}
	return sqltype.Null(), nil
}

func fnConnectionProperty(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	switch fold(args[0].Str()) {
	case "net_transport", "physical_net_transport":
		return sqltype.NVarChar("TCP"), nil
	case "protocol_type":
		return sqltype.NVarChar("TSQL"), nil
	case "auth_scheme":
		return sqltype.NVarChar("SQL"), nil
	case "local_net_address", "client_net_address":
		return sqltype.NVarChar("127.0.0.1"), nil
	}
	return sqltype.Null(), nil
}

// fnSessionProperty gives SQL Server's defaults for connections of clients.
func fnSessionProperty(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	switch strings.ToUpper(args[0].Str()) {
	case "ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "CONCAT_NULL_YIELDS_NULL", "QUOTED_IDENTIFIER":
		return sqltype.Int(1), nil
	case "ARITHABORT", "NUMERIC_ROUNDABORT":
		return sqltype.Int(0), nil
	}
	return sqltype.Null(), nil
}

func fnTimeZoneID(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
	return sqltype.VarChar(s.srv.cfg.zoneName), nil
}

func fnTransactionID(s *session, _ *database, _ []sqltype.Value) (sqltype.Value, error) {
	return sqltype.BigInt(int64(s.tran.descriptor)), nil
}

// fnHasPerms is HAS_PERMS_BY_NAME for the server, databases, schemas and objects. A missing or invisible securable gives 0.
func fnHasPerms(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	answer := func(ok bool) (sqltype.Value, error) { return sqltype.Int(int32(btoi(ok))), nil }
	permission := strings.ToUpper(strings.TrimSpace(args[2].Str()))
	if args[2].IsNull() {
		return sqltype.Null(), nil
	}
	class := strings.ToUpper(strings.TrimSpace(args[1].Str()))
	switch {
	case args[0].IsNull() && (args[1].IsNull() || class == "SERVER"):
		return answer(s.srv.security.hasServerPermission(s.login, permission))
	case class == "DATABASE":
		db := s.db
		if !args[0].IsNull() {
			n, _ := parseName(args[0].Str())
			if db = s.srv.database(n.Name); db == nil {
				return answer(false)
			}
		}
		r, ok := s.rightsIn(db)
		return answer(ok && (permission == "ANY" || permission == "CONNECT" || r.database(permission)))
	case class == "SCHEMA":
		n, _ := parseName(args[0].Str())
		id, ok := s.db.schemaIDs()[fold(n.Name)]
		if !ok {
			return answer(false)
		}
		granted, _ := s.rights.object(securable{id: -1, schema: id}, permission)
		return answer(granted)
	case class == "OBJECT":
		return answer(s.hasObjectPermission(args, permission))
	}
	return sqltype.Null(), nil
}

func (s *session) hasObjectPermission(args []sqltype.Value, permission string) bool {
	db, o := s.objectNamed(args[0].Str())
	if o == nil {
		return false
	}
	if o.id < 0 {
		return permission == "SELECT" || permission == "EXECUTE"
	}
	r, ok := s.rightsIn(db)
	if !ok {
		return false
	}
	if permission == "ANY" {
		return r.visible(o.securable())
	}
	granted, columns := r.object(o.securable(), permission)
	if granted || len(args) < 4 || args[3].IsNull() {
		return granted
	}
	return columns != nil && columnAllowed(columns, args[3].Str())
}

func fnHasDBAccess(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	db := s.srv.database(args[0].Str())
	if db == nil {
		return sqltype.Null(), nil
	}
	return sqltype.Int(int32(btoi(s.srv.security.userOf(db.name, s.login) != ""))), nil
}

func fnIsMember(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	p, ok := s.srv.security.principal(s.db.name, args[0].Str())
	if args[0].IsNull() || !ok || !p.role {
		return sqltype.Null(), nil
	}
	return sqltype.Int(int32(btoi(s.rights.inRole(p.name) || s.rights.all && fold(p.name) == "db_owner"))), nil
}

func fnIsRoleMember(s *session, db *database, args []sqltype.Value) (sqltype.Value, error) {
	if len(args) < 2 || args[1].IsNull() {
		return fnIsMember(s, db, args)
	}
	p, ok := s.srv.security.principal(s.db.name, args[0].Str())
	other, there := s.srv.security.principal(s.db.name, args[1].Str())
	if !ok || !p.role || !there {
		return sqltype.Null(), nil
	}
	return sqltype.Int(int32(btoi(s.srv.security.rightsOf(s.db.name, "", other.name).inRole(p.name)))), nil
}

func fnIsServerRoleMember(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	name := s.login
	if len(args) > 1 && !args[1].IsNull() {
		name = args[1].Str()
		if s.srv.security.login(name) == nil {
			return sqltype.Null(), nil
		}
	}
	switch fold(args[0].Str()) {
	case "public":
		return sqltype.Int(1), nil
	case "sysadmin", "serveradmin", "securityadmin", "processadmin", "setupadmin", "bulkadmin", "diskadmin", "dbcreator":
		return sqltype.Int(int32(btoi(s.srv.security.isSysadmin(name)))), nil
	}
	return sqltype.Null(), nil
}

func fnLoginName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if len(args) == 0 {
		return sqltype.NVarChar(s.login), nil
	}
	for _, l := range s.srv.security.loginList() {
		if args[0].Kind().IsBinary() && string(l.sid) == args[0].Str() || args[0].Kind() == sqltype.KindInt && int64(l.id) == args[0].Int64() {
			return sqltype.NVarChar(l.name), nil
		}
	}
	return sqltype.Null(), nil
}

// loginArgument finds the login that an optional argument names.
func (s *session) loginArgument(args []sqltype.Value) *login {
	if len(args) == 0 {
		return s.srv.security.login(s.login)
	}
	return s.srv.security.login(args[0].Str())
}

func fnLoginID(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if l := s.loginArgument(args); l != nil {
		return sqltype.Int(int32(l.id)), nil
	}
	return sqltype.Null(), nil
}

func fnLoginSID(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if l := s.loginArgument(args); l != nil {
		return sqltype.VarBinary(l.sid), nil
	}
	return sqltype.Null(), nil
}

func fnUserName(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if len(args) == 0 {
		return sqltype.NVarChar(s.user), nil
	}
	for _, p := range s.srv.security.principalList(s.db.name) {
		if !args[0].IsNull() && int64(p.id) == args[0].Int64() {
			return sqltype.NVarChar(p.name), nil
		}
	}
	return sqltype.Null(), nil
}

func fnUserID(s *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	name := s.user
	if len(args) > 0 {
		name = args[0].Str()
	}
	if p, ok := s.srv.security.principal(s.db.name, name); ok {
		return sqltype.Int(int32(p.id)), nil
	}
	return sqltype.Null(), nil
}
