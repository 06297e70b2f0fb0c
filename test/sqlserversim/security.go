package sqlserversim

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"
)

// security is the server's logins and every database's users, roles and permissions. One lock guards all of it: rights change
// rarely and are read by many sessions.
type security struct {
	mu     sync.RWMutex
	nextID int
	logins map[string]*login // by lower-case name
	dbs    map[string]*principals
	now    func() time.Time
}

// login is a server principal.
type login struct {
	name, password  string
	id              int
	sid             []byte
	sysadmin        bool
	disabled        bool
	defaultDatabase string
	created         time.Time
	permissions     map[string]byte // server permissions: 'G' granted, 'D' denied
}

// principals are the users, roles and permissions of one database.
type principals struct {
	byName map[string]*principal // by lower-case name
	nextID int
	grants []grant
}

// principal is a database user or role.
type principal struct {
	name          string
	id            int
	role          bool
	fixed         bool
	login         string // of a user: its login, lower case; empty for none
	sid           []byte
	defaultSchema string
	created       time.Time
	members       map[string]bool // of a role: lower-case names
}

// permission classes of sys.database_permissions.
const (
	classDatabase = 0
	classObject   = 1
	classSchema   = 3
)

// grant is one row of sys.database_permissions.
type grant struct {
	grantee    string // lower-case principal
	class      int
	major      int32  // object or schema id
	column     string // lower-case; empty for the whole object
	columnID   int
	permission string // SELECT, EXECUTE, VIEW DEFINITION …
	state      byte   // 'G', 'D' or 'W' (with grant option)
}

func newSecurity(now func() time.Time) *security {
	return &security{nextID: 257, logins: map[string]*login{}, dbs: map[string]*principals{}, now: now}
}

// fold is how names of principals compare: without case, as in the default collation.
func fold(name string) string { return strings.ToLower(name) }

// addLogin makes or replaces a login.
func (s *security) addLogin(name, password string, sysadmin bool) *login {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &login{name: name, password: password, sysadmin: sysadmin, created: s.now(), permissions: map[string]byte{}}
	if fold(name) == "sa" {
		l.id, l.sid = 1, []byte{1}
	} else {
		l.id = s.nextID
		s.nextID++
		sum := sha256.Sum256([]byte(name))
		l.sid = sum[:16]
	}
	s.logins[fold(name)] = l
	return l
}

// login finds a login, or nil. The result is shared: fields may be read only under the lock, except name, id and sid.
func (s *security) login(name string) *login {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.logins[fold(name)]
}

// loginList copies the logins in id order.
func (s *security) loginList() []login {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []login
	for _, l := range s.logins {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b login) int { return a.id - b.id })
	return out
}

// dropLogin removes a login and says whether there was one.
func (s *security) dropLogin(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.logins[fold(name)]
	delete(s.logins, fold(name))
	return ok
}

// changeLogin calls f on a login under the lock and says whether there is one.
func (s *security) changeLogin(name string, f func(*login)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.logins[fold(name)]
	if ok {
		f(l)
	}
	return ok
}

// isSysadmin tells whether a login may do everything.
func (s *security) isSysadmin(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.logins[fold(name)]
	return l != nil && l.sysadmin
}

// hasServerPermission checks a server permission such as VIEW SERVER STATE. 2022 and later split it; the finer ones are
// covered by the old ones.
func (s *security) hasServerPermission(name, permission string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.logins[fold(name)]
	if l == nil {
		return false
	}
	if l.sysadmin {
		return true
	}
	for _, p := range impliedBy(permission) {
		if l.permissions[p] == 'D' {
			return false
		}
	}
	return slices.ContainsFunc(impliedBy(permission), func(p string) bool { return l.permissions[p] == 'G' })
}

// impliedBy lists the permissions of which each one is enough.
func impliedBy(permission string) []string {
	switch permission {
	case "VIEW SERVER STATE", "VIEW SERVER PERFORMANCE STATE":
		return []string{permission, "VIEW SERVER STATE", "CONTROL SERVER"}
	case "VIEW DATABASE STATE", "VIEW DATABASE PERFORMANCE STATE":
		return []string{permission, "VIEW DATABASE STATE", "CONTROL"}
	case "SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE", "ALTER", "REFERENCES":
		return []string{permission, "CONTROL"}
	}
	return []string{permission}
}

// fixed database roles with their principal ids.
func fixedRoles() map[string]int {
	return map[string]int{
		"db_owner": 16384, "db_accessadmin": 16385, "db_securityadmin": 16386, "db_ddladmin": 16387, "db_backupoperator": 16389,
		"db_datareader": 16390, "db_datawriter": 16391, "db_denydatareader": 16392, "db_denydatawriter": 16393,
	}
}

// addDatabase gives a new database its fixed principals. guest may connect in the system databases.
func (s *security) addDatabase(name string, guest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	p := &principals{byName: map[string]*principal{}, nextID: 5}
	add := func(name string, id int, role, fixed bool) *principal {
		pr := &principal{name: name, id: id, role: role, fixed: fixed, created: now, members: map[string]bool{}}
		p.byName[fold(name)] = pr
		return pr
	}
	add("public", 0, true, false)
	dbo := add("dbo", 1, false, false)
	dbo.defaultSchema, dbo.login, dbo.sid = "dbo", "sa", []byte{1}
	add("guest", 2, false, false).defaultSchema = "guest"
	add("INFORMATION_SCHEMA", 3, false, false)
	add("sys", 4, false, false)
	for role, id := range fixedRoles() {
		add(role, id, true, true)
	}
	p.byName["db_owner"].members["dbo"] = true
	if guest {
		p.grants = append(p.grants, grant{grantee: "guest", permission: "CONNECT", state: 'G'})
	}
	s.dbs[fold(name)] = p
}

func (s *security) dropDatabase(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dbs, fold(name))
}

// sidOf makes a security id for a principal without a login.
func sidOf(name string, id int) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(name), uint32(id)))
	return sum[:28]
}
