package sqlserversim

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// DSNs are connection strings to one server in the shapes that drivers take. With TLS on they ask for encryption and trust
// the certificate without checking it; give the driver the file behind Server.CACertPEM to have it checked. With TLS off they
// ask for no encryption.
type DSNs struct {
	URL  string // sqlserver://user:password@host:port?database=…
	ADO  string // Server=host,port;Database=…;User Id=…;Password=…
	ODBC string // Driver={…};Server=host,port;Database=…;UID=…;PWD={…}, as ODBC programs have it; go-mssqldb does not take it as it is
}

// DSN is the URL form for a login: sa by default, else the login named. A login that the server does not know gets
// DefaultPassword.
func (s *Server) DSN(user ...string) string { return s.DSNs(user...).URL }

// DSNs gives the connection strings of a login in all forms, on the default database.
func (s *Server) DSNs(user ...string) DSNs {
	name := "sa"
	if len(user) > 0 {
		name = user[0]
	}
	return s.dsns(name, s.defaultDatabase)
}

// DSNFor is the URL form for a login and a database.
func (s *Server) DSNFor(user, database string) string { return s.dsns(user, database).URL }

func (s *Server) dsns(user, database string) DSNs {
	password := DefaultPassword
	if l := s.security.login(user); l != nil {
		password = l.password
	}
	host, port := "127.0.0.1", "1433"
	if h, p, err := net.SplitHostPort(s.Addr()); err == nil {
		host, port = h, p
	}
	query := url.Values{"database": {database}}
	encrypt, odbcEncrypt := "false", "no"
	if s.certs != nil {
		query.Set("encrypt", "true")
		query.Set("TrustServerCertificate", "true")
		encrypt, odbcEncrypt = "true;TrustServerCertificate=true", "yes;TrustServerCertificate=yes"
	} else {
		query.Set("encrypt", "disable")
		encrypt = "disable"
	}
	u := url.URL{Scheme: "sqlserver", User: url.UserPassword(user, password), Host: net.JoinHostPort(host, port), RawQuery: query.Encode()}
	return DSNs{
		URL: u.String(),
		ADO: fmt.Sprintf("Server=%s,%s;Database=%s;User Id=%s;Password=%s;Encrypt=%s", host, port, database, user, adoQuote(password), encrypt),
		ODBC: fmt.Sprintf("Driver={ODBC Driver 18 for SQL Server};Server=%s,%s;Database=%s;UID=%s;PWD={%s};Encrypt=%s", host, port, database, user,
			strings.ReplaceAll(password, "}", "}}"), odbcEncrypt),
	}
}

// adoQuote puts a value in double quotes where ADO's rules need it.
func adoQuote(v string) string {
	if strings.ContainsAny(v, ";\"' ") {
		return `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
	}
	return v
}
