package sqlserver

import (
	"context"
	"net"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// The values of [Config.Reader].
const (
	readerAuto   = "auto"
	readerDriver = "driver"
)

// Config says how to reach a server. Only ConnectionString is required.
type Config struct {
	// ConnectionString is a sqlserver:// URL, an ADO string ("Server=…;Database=…") or an ODBC string
	// ("DRIVER=…;SERVER=…;PWD={a;b}}c}"); see package dsn.
	ConnectionString string

	// User, Password and Database override the connection string. Naming one in both places with different values is
	// an error, empty means absent.
	User, Password, Database string

	// AccessToken gives a token of Microsoft Entra ID for each login, so a renewed token is used by the next
	// connection. It excludes a user and a password. Nil means SQL or NTLM login.
	AccessToken func(ctx context.Context) (string, error)

	// TimeZone is the zone of the server's clock: "auto" (the default) asks the server; "UTC"; a Windows zone name
	// ("W. Europe Standard Time"); an IANA name; a fixed offset ("+05:30").
	TimeZone string

	// AppName is the program name that the server shows for our sessions. Default: "rpconnect-mssqlcdc".
	AppName string

	// MaxConnections bounds the connections to the server, idle ones included. Default 8, at least 2.
	MaxConnections int

	ConnectTimeout time.Duration // one login, from dial to ready; default 30 s
	QueryTimeout   time.Duration // one metadata statement; default 60 s
	ReadTimeout    time.Duration // silence while rows are read, that is without one row; default 5 min

	// LockTimeout bounds how long a statement waits for a lock. Zero means 30 s, negative waits without limit.
	LockTimeout time.Duration

	// Dialer replaces the network, for tests (net.Pipe), tunnels and proxies. It gets the host as the connection string
	// names it, unresolved; the same name is what TLS verifies, whatever is dialled. Nil means TCP with keep-alive.
	Dialer Dialer

	// Reader names who decodes rows of tables: "auto" (the default) takes them off the wire beside the driver (package
	// rowfilter) wherever their types allow it, "driver" leaves all to the driver.
	Reader string

	// Chosen, when set, is told who decodes the rows of a statement and why. It is called from many goroutines and must not
	// wait.
	Chosen func(rowfilter.Choice)
}

// Dialer opens a connection to the server. It must be safe for concurrent use.
type Dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// The defaults of [Config].
const (
	DefaultAppName        = "rpconnect-mssqlcdc"
	DefaultMaxConnections = 8
	DefaultConnectTimeout = 30 * time.Second
	DefaultQueryTimeout   = 60 * time.Second
	DefaultReadTimeout    = 5 * time.Minute
	DefaultLockTimeout    = 30 * time.Second
)
