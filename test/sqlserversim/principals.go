package sqlserversim

import (
	"slices"
	"strings"
)

// userOf names the database user that a login is, or "" when it may not enter the database.
func (s *security) userOf(database, loginName string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l, p := s.logins[fold(loginName)], s.dbs[fold(database)]
	if p == nil {
		return ""
	}
	if l != nil && l.sysadmin {
		return "dbo"
	}
	for _, u := range p.byName {
		if !u.role && u.login != "" && u.login == fold(loginName) {
			return u.name
		}
	}
	for _, g := range p.grants {
		if g.grantee == "guest" && g.permission == "CONNECT" && g.state == 'G' {
			return "guest"
		}
	}
	return ""
}

// principalList copies the users and roles of a database in id order.
func (s *security) principalList(database string) []principal {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []principal
	if p := s.dbs[fold(database)]; p != nil {
		for _, pr := range p.byName {
			out = append(out, *pr)
		}
	}
	slices.SortFunc(out, func(a, b principal) int { return a.id - b.id })
	return out
}

// principal finds a user or role of a database.
func (s *security) principal(database, name string) (principal, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p := s.dbs[fold(database)]; p != nil {
		if pr := p.byName[fold(name)]; pr != nil {
			return *pr, true
		}
	}
	return principal{}, false
}

// addPrincipal makes a user or role; false when the name is taken.
func (s *security) addPrincipal(database string, pr principal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.dbs[fold(database)]
	if p == nil || p.byName[fold(pr.name)] != nil {
		return false
	}
	pr.id = p.nextID
	p.nextID++
	pr.created = s.now()
	if pr.members == nil {
		pr.members = map[string]bool{}
	}
	if pr.sid == nil && pr.role {
		pr.sid = sidOf(pr.name, pr.id)
	}
	p.byName[fold(pr.name)] = &pr
	return true
}

// dropPrincipal removes a user or role with its memberships and permissions; false when there is none.
func (s *security) dropPrincipal(database, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.dbs[fold(database)]
	if p == nil || p.byName[fold(name)] == nil {
		return false
	}
	delete(p.byName, fold(name))
	for _, other := range p.byName {
		delete(other.members, fold(name))
	}
	p.grants = slices.DeleteFunc(p.grants, func(g grant) bool { return g.grantee == fold(name) })
	return true
}

// setMember adds or removes a member of a role; the result says which of the two names is missing, "" for none.
func (s *security) setMember(database, role, member string, in bool) (missing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.dbs[fold(database)]
	if p == nil || p.byName[fold(role)] == nil || !p.byName[fold(role)].role {
		return role
	}
	if p.byName[fold(member)] == nil {
		return member
	}
	if in {
		p.byName[fold(role)].members[fold(member)] = true
	} else {
		delete(p.byName[fold(role)].members, fold(member))
	}
	return ""
}

// setGrant records a GRANT or DENY, or removes both for a REVOKE (state 0).
func (s *security) setGrant(database string, g grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.dbs[fold(database)]
	if p == nil {
		return
	}
	p.grants = slices.DeleteFunc(p.grants, func(o grant) bool {
		return o.grantee == g.grantee && o.class == g.class && o.major == g.major && o.permission == g.permission &&
			(o.column == g.column || g.column == "" && g.state == 0)
	})
	if g.state != 0 {
		p.grants = append(p.grants, g)
	}
}

// dropGrants removes what was granted on an object that no longer exists.
func (s *security) dropGrants(database string, object int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.dbs[fold(database)]; p != nil {
		p.grants = slices.DeleteFunc(p.grants, func(g grant) bool { return g.class == classObject && g.major == object })
	}
}

// grantList copies the permissions of a database.
func (s *security) grantList(database string) []grant {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p := s.dbs[fold(database)]; p != nil {
		return slices.Clone(p.grants)
	}
	return nil
}

// rights are what one user of a database may do: a snapshot of its names and of the permissions that concern them.
type rights struct {
	all    bool // sysadmin, dbo or db_owner
	user   string
	names  map[string]bool // the user, public and every role it is in, lower case
	grants []grant
}

// rightsOf collects the rights of a user in a database.
func (s *security) rightsOf(database, loginName, user string) rights {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := rights{user: user, names: map[string]bool{fold(user): true, "public": true}}
	l := s.logins[fold(loginName)]
	if l != nil && l.sysadmin {
		r.all = true
		return r
	}
	p := s.dbs[fold(database)]
	if p == nil {
		return r
	}
	for grown := true; grown; {
		grown = false
		for name, role := range p.byName {
			if !role.role || r.names[name] {
				continue
			}
			for m := range role.members {
				if r.names[m] {
					r.names[name], grown = true, true
					break
				}
			}
		}
	}
	r.all = fold(user) == "dbo" || r.names["db_owner"]
	for _, g := range p.grants {
		if r.names[g.grantee] {
			r.grants = append(r.grants, g)
		}
	}
	return r
}

// securable is an object whose permissions are asked for.
type securable struct {
	id     int32
	schema int32
	table  bool // the fixed reader and writer roles cover it
}

// object tells whether the rights include a permission on the whole of an object. For SELECT and UPDATE, columns lists the
// columns (lower case) that may be used where the object as a whole may not; nil when there is none.
func (r rights) object(o securable, permission string) (ok bool, columns map[string]bool) {
	if r.all {
		return true, nil
	}
	denied, granted := r.roleGives(o, permission)
	for _, g := range r.grants {
		if !slices.Contains(impliedBy(permission), g.permission) {
			continue
		}
		hit := g.class == classDatabase || g.class == classSchema && g.major == o.schema || g.class == classObject && g.major == o.id
		switch {
		case !hit:
		case g.column != "":
			if columns == nil {
				columns = map[string]bool{}
			}
			columns[g.column] = g.state != 'D'
		case g.state == 'D':
			denied = true
		default:
			granted = true
		}
	}
	if denied {
		return false, nil
	}
	if granted {
		for _, allowed := range columns {
			if !allowed {
				return false, withDenied(columns)
			}
		}
		return true, nil
	}
	for name, allowed := range columns {
		if !allowed {
			delete(columns, name)
		}
	}
	if len(columns) == 0 {
		return false, nil
	}
	return false, columns
}

// withDenied marks that every column but the denied ones may be used.
func withDenied(columns map[string]bool) map[string]bool {
	columns["*"] = true
	return columns
}

// columnAllowed reads the set that rights.object gave.
func columnAllowed(columns map[string]bool, name string) bool {
	if allowed, ok := columns[strings.ToLower(name)]; ok {
		return allowed
	}
	return columns["*"]
}

// roleGives applies db_datareader, db_datawriter and their opposites.
func (r rights) roleGives(o securable, permission string) (denied, granted bool) {
	if !o.table {
		return false, false
	}
	switch permission {
	case "SELECT":
		return r.names["db_denydatareader"], r.names["db_datareader"]
	case "INSERT", "UPDATE", "DELETE":
		return r.names["db_denydatawriter"], r.names["db_datawriter"]
	case "ALTER":
		return false, r.names["db_ddladmin"]
	}
	return false, false
}

// visible tells whether the object's metadata may be seen: any permission on it will do.
func (r rights) visible(o securable) bool {
	if r.all || r.names["db_ddladmin"] {
		return true
	}
	for _, p := range []string{"SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE", "VIEW DEFINITION", "ALTER", "REFERENCES"} {
		if ok, columns := r.object(o, p); ok || columns != nil {
			return true
		}
	}
	return false
}

// database tells whether the rights include a permission on the database itself.
func (r rights) database(permission string) bool {
	if r.all {
		return true
	}
	ok := false
	for _, g := range r.grants {
		if g.class != classDatabase || !slices.Contains(impliedBy(permission), g.permission) {
			continue
		}
		if g.state == 'D' {
			return false
		}
		ok = true
	}
	return ok
}

// inRole tells whether the user is a member of a role, directly or not.
func (r rights) inRole(role string) bool { return r.names[fold(role)] }

// replacePrincipal changes a user in place.
func (s *security) replacePrincipal(database string, pr principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.dbs[fold(database)]; p != nil && p.byName[fold(pr.name)] != nil {
		p.byName[fold(pr.name)] = &pr
	}
}
