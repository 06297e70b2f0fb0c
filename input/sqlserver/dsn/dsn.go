// Package dsn reads the connection strings that SQL Server users have at hand: the sqlserver:// URL of the Go driver, ADO
// strings ("Server=host,1433;Database=lab;User Id=sa;Password=…") and ODBC strings ("DRIVER={…};SERVER=tcp:host;PWD={a;b}").
//
// It differs from the driver's own parser where that one surprises: the connection is encrypted and the certificate is
// verified unless the text says otherwise, a key that nobody knows is an error and not a silent default, and no error
// holds a value that could be a password.
package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/microsoft/go-mssqldb/msdsn"
)

// Encryption is how the connection is protected.
type Encryption string

// The kinds of encryption, by the names of Microsoft's drivers.
const (
	Mandatory Encryption = "mandatory" // TLS for everything; the default
	Optional  Encryption = "optional"  // TLS for the login, and for the rest if the server forces it
	Strict    Encryption = "strict"    // TDS 8: TLS before the first byte; the certificate is always verified
	Disabled  Encryption = "disable"   // clear text, the password included
)

// Connection is a parsed connection string. Zero fields were not given.
type Connection struct {
	Host     string // "." and "(local)" have become localhost
	Port     uint16
	Instance string // named instance, found by SQL Server Browser; unused when Port is given
	Database string
	User     string // DOMAIN\name logs in by NTLM
	Password string

	Encrypt                Encryption
	TrustServerCertificate bool
	HostNameInCertificate  string
	ServerCertificate      string // file: accept exactly this certificate
	Certificate            string // file: certificate authorities to trust
	TLSMin                 string // "1.2", "1.3"

	ReadOnlyIntent      bool
	MultiSubnetFailover bool // dial all addresses of the name at once; default true, as the driver does
	FailoverPartner     string
	FailoverPort        uint16
	ServerSPN           string
	AppName             string
	Workstation         string
	ConnectTimeout      time.Duration
	KeepAlive           time.Duration
	PacketSize          uint16 // bytes
}

// Error is the error of every connection string that cannot be used. It never holds a value of the string.
type Error struct {
	Key    string // the key as written, empty if the text as a whole is meant
	Reason string
}

// Error names the key and what to do.
func (e *Error) Error() string {
	if e.Key == "" {
		return "connection string: " + e.Reason
	}
	return fmt.Sprintf("connection string: %s: %s", e.Key, e.Reason)
}

// Parse reads a connection string of any of the three kinds. Every error is an *Error.
func Parse(text string) (Connection, error) {
	trimmed := strings.TrimSpace(text)
	switch scheme := schemeOf(trimmed); scheme {
	case "sqlserver", "mssql":
		return parseURL(trimmed)
	case "odbc":
		return parsePairs(trimmed[len("odbc:"):], true)
	case "":
		return parsePairs(trimmed, false)
	default:
		return Connection{}, &Error{Reason: fmt.Sprintf("the scheme %q is not supported, want sqlserver://, an ADO string or an ODBC string", scheme)}
	}
}

// schemeOf is the lower-case scheme of a URL, or odbc, or empty for a list of pairs.
func schemeOf(text string) string {
	if before, _, ok := strings.Cut(text, "://"); ok && !strings.ContainsAny(before, "=;@") {
		return strings.ToLower(before)
	}
	if len(text) >= len("odbc:") && strings.EqualFold(text[:len("odbc:")], "odbc:") {
		return "odbc"
	}
	return ""
}

// parseURL never passes on what url.Parse says: its texts quote the part that holds the password.
func parseURL(text string) (Connection, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Connection{}, &Error{Reason: "not a valid URL; special characters in the user name and the password must be percent-encoded"}
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Connection{}, &Error{Reason: "the part after ? is not a valid query"}
	}
	b := newBuilder()
	if u.User != nil {
		if err := b.set("user", u.User.Username(), false); err != nil {
			return Connection{}, err
		}
		if password, ok := u.User.Password(); ok {
			if err := b.set("password", password, false); err != nil {
				return Connection{}, err
			}
		}
	}
	for key, all := range values {
		if len(all) != 1 {
			return Connection{}, &Error{Key: printable(key), Reason: "given more than once"}
		}
		if err := b.set(key, all[0], false); err != nil {
			return Connection{}, err
		}
	}
	if host := u.Hostname(); host != "" {
		b.c.Host = localName(host)
	}
	if port := u.Port(); port != "" {
		if b.c.Port, err = parsePort(port); err != nil {
			return Connection{}, &Error{Key: "port", Reason: "want 1 to 65535"}
		}
	}
	if instance := strings.Trim(u.Path, "/"); instance != "" {
		b.c.Instance = instance
	}
	return b.finish()
}

func parsePairs(text string, odbc bool) (Connection, error) {
	pairs, err := split(text, odbc)
	if err != nil {
		return Connection{}, err
	}
	b := newBuilder()
	afterPassword := false
	for i, p := range pairs {
		err := b.set(p.key, p.value, afterPassword)
		if errors.Is(err, errHidden) {
			return Connection{}, &Error{Reason: fmt.Sprintf("entry %d, which follows the password, has no known key; a password with ; must be quoted: \"…\" (ADO) or {…} (ODBC)", i+1)}
		}
		if err != nil {
			return Connection{}, err
		}
		afterPassword = canonical(p.key) == "password"
	}
	return b.finish()
}

// DriverConfig is the connection as the driver's configuration. It is made by the driver's own parser, so that the
// rules of TLS are the driver's.
func (c Connection) DriverConfig() (msdsn.Config, error) {
	query := url.Values{}
	set := func(key, value string) {
		if value != "" {
			query.Set(key, value)
		}
	}
	set(msdsn.Database, c.Database)
	set(msdsn.Encrypt, string(c.Encrypt))
	set(msdsn.TrustServerCertificate, strconv.FormatBool(c.TrustServerCertificate))
	set(msdsn.HostNameInCertificate, c.HostNameInCertificate)
	set(msdsn.ServerCertificate, c.ServerCertificate)
	set(msdsn.Certificate, c.Certificate)
	set(msdsn.TLSMin, c.TLSMin)
	set(msdsn.FailoverPartner, c.FailoverPartner)
	set(msdsn.ServerSpn, c.ServerSPN)
	set(msdsn.AppName, c.AppName)
	set(msdsn.WorkstationID, c.Workstation)
	set(msdsn.MultiSubnetFailover, strconv.FormatBool(c.MultiSubnetFailover))
	if c.ReadOnlyIntent {
		set(msdsn.ApplicationIntent, "ReadOnly")
	}
	if c.FailoverPort != 0 {
		set(msdsn.FailOverPort, strconv.Itoa(int(c.FailoverPort)))
	}
	if c.PacketSize != 0 {
		set(msdsn.PacketSize, strconv.Itoa(int(c.PacketSize)))
	}
	if c.KeepAlive > 0 {
		set(msdsn.KeepAlive, strconv.Itoa(int(c.KeepAlive/time.Second)))
	}
	u := url.URL{Scheme: "sqlserver", Host: c.hostPort(), RawQuery: query.Encode()}
	if c.User != "" || c.Password != "" {
		u.User = url.UserPassword(c.User, c.Password)
	}
	if c.Instance != "" && c.Port == 0 {
		u.Path = "/" + c.Instance
	}
	config, err := msdsn.Parse(u.String())
	if err != nil {
		return msdsn.Config{}, &Error{Reason: "the driver refuses it: " + c.Mask(err.Error())}
	}
	return config, nil
}

func (c Connection) hostPort() string {
	host := c.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if c.Port == 0 {
		return host
	}
	return host + ":" + strconv.Itoa(int(c.Port))
}

// Mask replaces the password wherever it stands in a text. Passwords under four characters are left: they would mask
// half of every sentence.
func (c Connection) Mask(text string) string {
	if len(c.Password) < 4 {
		return text
	}
	for _, form := range []string{c.Password, url.QueryEscape(c.Password), url.PathEscape(c.Password), strings.ReplaceAll(c.Password, "}", "}}")} {
		text = strings.ReplaceAll(text, form, "***")
	}
	return text
}

// String shows where the connection goes, without user or password.
func (c Connection) String() string {
	where := c.hostPort()
	if c.Instance != "" && c.Port == 0 {
		where += `\` + c.Instance
	}
	return where + "/" + c.Database
}

// Format keeps every verb to String, so that no log prints the password by reflection.
func (c Connection) Format(state fmt.State, _ rune) { fmt.Fprint(state, c.String()) }

func localName(host string) string {
	switch strings.ToLower(host) {
	case ".", "(local)", "(localhost)":
		return "localhost"
	}
	return host
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("no port")
	}
	return uint16(port), nil
}
