package sqlserversim

import (
	"context"
	"errors"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// loginHandler is the server as package tds sees it.
type loginHandler Server

// Login checks name, password and database. The errors and their order are those of SQL Server: 18456 class 14 for a wrong
// name or password (the state on the wire is always 1), 4060 then 18456 for a database that cannot be opened.
func (h *loginHandler) Login(ctx context.Context, c *tds.Conn, login *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	s := (*Server)(h)
	connection := meterOf(c).number
	if login.Integrated() {
		return nil, nil, refusal(18452, "Login failed. The login is from an untrusted domain and cannot be used with Integrated authentication.")
	}
	l := s.security.login(login.User)
	if l == nil || l.password != string(login.Password) {
		return nil, nil, serverError(message(18456, login.User))
	}
	if l.disabled {
		return nil, nil, serverError(message(18470, login.User))
	}
	routing, err := s.loginFault(ctx, connection, l.name)
	if err != nil || routing != nil {
		return &tds.LoginAnswer{Routing: routing}, nil, err
	}
	name := login.Database
	if name == "" {
		name = l.defaultDatabase
	}
	if name == "" {
		name = "master"
		if !l.sysadmin || s.security.userOf(s.defaultDatabase, l.name) != "" {
			name = s.defaultDatabase
		}
	}
	db := s.database(name)
	if db == nil || s.security.userOf(db.name, l.name) == "" {
		return nil, nil, errors.Join(serverError(message(4060, name)), serverError(message(18456, login.User)))
	}
	ses := s.newSession(l.name, db)
	ses.conn, ses.connection, ses.spid = c, connection, int(c.SPID())
	ses.info.host, ses.info.program, ses.info.lib, ses.info.pid = login.Host, login.App, login.Library, login.ClientPID
	_, ses.utf8 = login.Feature(tds.FeatureUTF8)
	s.remember(ses)
	s.log.logins.Add(1)
	return &tds.LoginAnswer{Database: db.name, Collation: wireCollation(db.collation)}, ses, nil
}

func refusal(number int32, text string) *tds.ServerError {
	return &tds.ServerError{Number: number, Class: 14, State: 1, Text: text, Line: 1}
}

// remember lists a session; forget takes it off the list.
func (s *Server) remember(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[ses.spid] = ses
}

func (s *Server) forget(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[ses.spid] == ses {
		delete(s.sessions, ses.spid)
	}
}

// sessionList copies the open sessions.
func (s *Server) sessionList() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*session, 0, len(s.sessions))
	for _, ses := range s.sessions {
		out = append(out, ses)
	}
	return out
}

// nextDescriptor numbers transactions; it is never zero.
func (s *Server) nextDescriptor() uint64 { return s.descriptors.Add(1) + 1<<32 }

// kill ends a session as KILL does.
func (s *Server) kill(spid int) bool {
	s.mu.Lock()
	ses, ok := s.sessions[spid]
	s.mu.Unlock()
	if !ok || ses.conn == nil {
		return false
	}
	ses.info.killed.Store(true)
	_ = ses.conn.Close()
	return true
}

// Kill ends the session with that id (@@SPID) as KILL does: its connection closes. It says whether there was one.
func (s *Server) Kill(spid int) bool { return s.kill(spid) }
