package sqlserversim

import (
	"strings"
	"time"
)

func principalViews() []*view {
	return []*view{
		newView("sys", "server_principals", columnsServerPrincipals, rowsServerPrincipals),
		newView("sys", "sql_logins", columnsSQLLogins, rowsLogins),
		newView("sys", "syslogins", "sid varbinary(85)?, name sysname, loginname sysname, sysadmin int?, isntname int?, hasaccess int?, dbname sysname?",
			rowsSysLogins),
		newView("sys", "server_role_members", "role_principal_id int, member_principal_id int", rowsServerRoleMembers),
		newView("sys", "server_permissions", columnsDatabasePermissions, nothing),
		newView("sys", "database_principals", columnsDatabasePrincipals, rowsDatabasePrincipals),
		newView("sys", "sysusers", "uid smallint?, status smallint?, name sysname, sid varbinary(85)?, hasdbaccess int?, islogin int?, issqluser int?, issqlrole int?",
			rowsSysUsers),
		newView("sys", "database_role_members", "role_principal_id int, member_principal_id int", rowsRoleMembers),
		newView("sys", "database_permissions", columnsDatabasePermissions, rowsPermissions),
	}
}

const sysadminRole = 3

// seesLogins tells which logins a session may see: itself and sa, or all of them.
func (s *session) seesLogin(l *login) bool {
	return s.sysadmin || l.id == 1 || strings.EqualFold(l.name, s.login) || s.srv.security.hasServerPermission(s.login, "VIEW ANY DEFINITION")
}

func rowsServerPrincipals(c *viewCall) error {
	for _, l := range c.session.srv.security.loginList() {
		if !c.session.seesLogin(&l) {
			continue
		}
		if err := c.add(loginFields(c, &l)); err != nil {
			return err
		}
	}
	for i, role := range []string{"public", "sysadmin", "securityadmin", "serveradmin", "setupadmin", "processadmin", "diskadmin", "dbcreator", "bulkadmin"} {
		if err := c.add(fields{
			"name": role, "principal_id": i + 2, "sid": []byte{byte(i + 2)}, "type": "R", "type_desc": "SERVER_ROLE",
			"is_disabled": false, "create_date": c.session.srv.started, "modify_date": c.session.srv.started, "is_fixed_role": i > 0,
		}); err != nil {
			return err
		}
	}
	return nil
}

func loginFields(c *viewCall, l *login) fields {
	db := l.defaultDatabase
	if db == "" {
		db = c.session.srv.defaultDatabase
	}
	return fields{
		"name": l.name, "principal_id": l.id, "sid": l.sid, "type": "S", "type_desc": "SQL_LOGIN", "is_disabled": l.disabled,
		"create_date": l.created, "modify_date": l.created, "default_database_name": db, "default_language_name": "us_english",
	}
}

func rowsLogins(c *viewCall) error {
	for _, l := range c.session.srv.security.loginList() {
		if !c.session.seesLogin(&l) {
			continue
		}
		if err := c.add(loginFields(c, &l).with(fields{"is_policy_checked": true, "is_expiration_checked": false})); err != nil {
			return err
		}
	}
	return nil
}

func rowsSysLogins(c *viewCall) error {
	for _, l := range c.session.srv.security.loginList() {
		if !c.session.seesLogin(&l) {
			continue
		}
		if err := c.add(fields{"sid": l.sid, "name": l.name, "loginname": l.name, "sysadmin": btoi(l.sysadmin), "isntname": 0, "hasaccess": 1,
			"dbname": c.session.srv.defaultDatabase}); err != nil {
			return err
		}
	}
	return nil
}

func rowsServerRoleMembers(c *viewCall) error {
	for _, l := range c.session.srv.security.loginList() {
		if l.sysadmin && c.session.seesLogin(&l) {
			if err := c.add(fields{"role_principal_id": sysadminRole, "member_principal_id": l.id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// seesPrincipal: everybody sees the fixed principals and themselves, the owner all.
func (c *viewCall) seesPrincipal(p *principal) bool {
	r, _ := c.session.rightsIn(c.db)
	return r.all || p.fixed || p.id < 5 || r.names[fold(p.name)] || r.database("VIEW DEFINITION")
}

func rowsDatabasePrincipals(c *viewCall) error {
	for _, p := range c.session.srv.security.principalList(c.db.name) {
		if !c.seesPrincipal(&p) {
			continue
		}
		f := fields{
			"name": p.name, "principal_id": p.id, "type": "S", "type_desc": "SQL_USER", "create_date": p.created,
			"modify_date": p.created, "sid": p.sid, "is_fixed_role": p.fixed, "authentication_type": 1,
			"authentication_type_desc": "INSTANCE",
		}
		if p.defaultSchema != "" {
			f["default_schema_name"] = p.defaultSchema
		}
		if p.role {
			f["type"], f["type_desc"], f["owning_principal_id"] = "R", "DATABASE_ROLE", 1
		}
		if p.role || p.login == "" {
			f["authentication_type"], f["authentication_type_desc"] = 0, "NONE"
		}
		if err := c.add(f); err != nil {
			return err
		}
	}
	return nil
}

func rowsSysUsers(c *viewCall) error {
	for _, p := range c.session.srv.security.principalList(c.db.name) {
		if !c.seesPrincipal(&p) || p.id > 32767 {
			continue
		}
		if err := c.add(fields{"uid": p.id, "status": 0, "name": p.name, "sid": p.sid, "hasdbaccess": btoi(p.login != ""),
			"islogin": btoi(!p.role), "issqluser": btoi(!p.role), "issqlrole": btoi(p.role)}); err != nil {
			return err
		}
	}
	return nil
}

func rowsRoleMembers(c *viewCall) error {
	list := c.session.srv.security.principalList(c.db.name)
	for _, role := range list {
		for _, member := range list {
			if role.members[fold(member.name)] && c.seesPrincipal(&member) {
				if err := c.add(fields{"role_principal_id": role.id, "member_principal_id": member.id}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// permissionCode is the four-letter code of sys.database_permissions for the permissions that can be granted here.
func permissionCode(permission string) string {
	switch permission {
	case "SELECT":
		return "SL"
	case "INSERT":
		return "IN"
	case "UPDATE":
		return "UP"
	case "DELETE":
		return "DL"
	case "EXECUTE":
		return "EX"
	case "CONTROL":
		return "CL"
	case "ALTER":
		return "AL"
	case "REFERENCES":
		return "RF"
	case "VIEW DEFINITION":
		return "VW"
	case "CONNECT":
		return "CO"
	case "VIEW DATABASE STATE":
		return "VWDS"
	case "VIEW DATABASE PERFORMANCE STATE":
		return "VDP"
	}
	return strings.ReplaceAll(permission+"    ", " ", "")[:min(4, len(permission))]
}

func rowsPermissions(c *viewCall) error {
	s := c.session.srv.security
	for _, g := range s.grantList(c.db.name) {
		p, ok := s.principal(c.db.name, g.grantee)
		if !ok || !c.seesPrincipal(&p) {
			continue
		}
		state := map[byte]string{'G': "GRANT", 'D': "DENY", 'W': "GRANT_WITH_GRANT_OPTION"}[g.state]
		class := map[int]string{classDatabase: "DATABASE", classObject: "OBJECT_OR_COLUMN", classSchema: "SCHEMA"}[g.class]
		if err := c.add(fields{
			"class": g.class, "class_desc": class, "major_id": g.major, "minor_id": g.columnID, "grantee_principal_id": p.id,
			"grantor_principal_id": 1, "type": permissionCode(g.permission), "permission_name": g.permission,
			"state": string(g.state), "state_desc": state,
		}); err != nil {
			return err
		}
	}
	return nil
}

// sessionViews show sessions: one's own without a right, all with VIEW SERVER STATE.
func sessionViews() []*view {
	return []*view{
		newView("sys", "dm_exec_sessions", columnsSessions, rowsSessions),
		newView("sys", "dm_exec_connections", columnsConnections, rowsConnections).needing(needServerState),
		newView("sys", "dm_exec_requests", `session_id smallint, request_id int, start_time datetime, status nvarchar(30),
			command nvarchar(32), database_id smallint, blocking_session_id smallint?, wait_type nvarchar(60)?, wait_time int,
			open_transaction_count int, transaction_isolation_level smallint`, rowsRequests),
		newView("sys", "dm_exec_session_wait_stats", columnsSessionWaits, rowsWaits),
		newView("sys", "sysprocesses", `spid smallint, blocked smallint, dbid smallint, login_time datetime, status nchar(30),
			hostname nchar(128), program_name nchar(128), loginame nchar(128), open_tran smallint, cmd nchar(26)`, rowsProcesses),
	}
}

// eachSession calls f for the sessions that may be seen.
func (c *viewCall) eachSession(f func(*session) error) error {
	all := needServerState(c.session, c.db) == nil
	for _, other := range c.session.srv.sessionList() {
		if other.spid != c.session.spid && !all {
			continue
		}
		if err := f(other); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) status() string {
	if s.info.running.Load() {
		return "running"
	}
	return "sleeping"
}

// at turns unix nanoseconds into the server's time; zero stays unset.
func (s *session) at(ns int64) any {
	if ns == 0 {
		return nil
	}
	return time.Unix(0, ns).In(s.srv.eng.Location())
}

func rowsSessions(c *viewCall) error {
	return c.eachSession(func(s *session) error {
		f := fields{
			"session_id": s.spid, "login_time": s.info.loginTime, "host_name": s.info.host, "program_name": s.info.program,
			"host_process_id": int64(s.info.pid), "client_interface_name": s.info.lib, "security_id": []byte{1}, "login_name": s.login,
			"status": s.status(), "memory_usage": 4, "endpoint_id": 4, "is_user_process": true, "text_size": 4096,
			"language": "us_english", "date_format": "mdy", "date_first": 7, "quoted_identifier": true, "ansi_null_dflt_on": true,
			"ansi_defaults": false, "ansi_warnings": true, "ansi_padding": true, "ansi_nulls": true, "concat_null_yields_null": true,
			"transaction_isolation_level": s.info.isolation.Load(), "lock_timeout": -1, "row_count": s.info.rows.Load(),
			"original_security_id": []byte{1}, "original_login_name": s.info.originalLogin, "group_id": 2,
			"database_id": s.info.database.Load(), "authenticating_database_id": 1, "open_transaction_count": s.info.transactions.Load(),
			"last_request_end_time": s.at(s.info.lastEnd.Load()),
		}
		if start := s.at(s.info.lastStart.Load()); start != nil {
			f["last_request_start_time"] = start
		}
		return c.add(f)
	})
}

func rowsConnections(c *viewCall) error {
	return c.eachSession(func(s *session) error {
		if s.conn == nil {
			return nil
		}
		encrypted := "FALSE"
		if s.conn.Encrypted() {
			encrypted = "TRUE"
		}
		return c.add(fields{
			"session_id": s.spid, "most_recent_session_id": s.spid, "connect_time": s.info.loginTime, "net_transport": "TCP",
			"protocol_type": "TSQL", "protocol_version": int64(uint32(s.conn.Version())) & 0x7FFFFFFF, "endpoint_id": 4,
			"encrypt_option": encrypted, "auth_scheme": "SQL", "net_packet_size": s.conn.PacketSize(),
			"client_net_address": "127.0.0.1", "local_net_address": "127.0.0.1",
			"connection_id": guidOf("connection", s.info.loginTime.String(), s.login),
		})
	})
}

func rowsRequests(c *viewCall) error {
	return c.eachSession(func(s *session) error {
		if !s.info.running.Load() {
			return nil
		}
		return c.add(fields{
			"session_id": s.spid, "start_time": s.at(s.info.lastStart.Load()), "status": "running", "command": "SELECT",
			"database_id": s.info.database.Load(), "blocking_session_id": 0, "open_transaction_count": s.info.transactions.Load(),
			"transaction_isolation_level": s.info.isolation.Load(),
		})
	})
}

// rowsWaits has the one wait type that readers measure: the time spent in writing to a client that does not read.
func rowsWaits(c *viewCall) error {
	return c.eachSession(func(s *session) error {
		if s.conn == nil || meterOf(s.conn).waits.Load() == 0 {
			return nil
		}
		n, ms := meterOf(s.conn).waits.Load(), meterOf(s.conn).wait.Load()/int64(time.Millisecond)
		return c.add(fields{"session_id": s.spid, "wait_type": "ASYNC_NETWORK_IO", "waiting_tasks_count": n, "wait_time_ms": ms, "max_wait_time_ms": ms})
	})
}

func rowsProcesses(c *viewCall) error {
	return c.eachSession(func(s *session) error {
		return c.add(fields{"spid": s.spid, "dbid": s.info.database.Load(), "login_time": s.info.loginTime, "status": s.status(),
			"hostname": s.info.host, "program_name": s.info.program, "loginame": s.login, "open_tran": s.info.transactions.Load(),
			"cmd": "AWAITING COMMAND"})
	})
}
