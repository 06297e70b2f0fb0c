package sqlserver

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/dsn"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// connector makes the pool's connections. It keeps the socket of each, because the driver alone cannot be stopped when
// the network falls silent: it waits up to ten seconds for the server to acknowledge a cancel, and during login it does
// not look at the context everywhere.
type connector struct {
	*mssql.Connector

	dsn            dsn.Connection
	connectTimeout time.Duration
	session        string // what every session is set to, once after its login
	sockets        *socketSet
	connected      atomic.Bool // a login has worked
}

func newConnector(config Config, connection dsn.Connection) (*connector, error) {
	params, err := connection.DriverConfig()
	if err != nil {
		return nil, err
	}
	// Both would change values on the way: byte order of uniqueidentifier, readings of datetime.
	params.Encoding.GuidConversion = false
	params.Encoding.Timezone = time.UTC
	params.DialTimeout = config.ConnectTimeout

	dialer := newDialer(config.Dialer, params, nil)
	if config.Reader != readerDriver {
		dialer.filter = &rowfilter.Security{Encryption: params.Encryption, TLS: params.TLSConfig, HostGiven: params.HostInCertificateProvided}
		if dialer.filter.Ours() {
			params.Encryption, params.TLSConfig = msdsn.EncryptionDisabled, nil
		}
	}

	inner := mssql.NewConnectorConfig(params)
	if config.AccessToken != nil {
		if inner, err = mssql.NewSecurityTokenConnector(params, config.AccessToken); err != nil {
			return nil, err
		}
	}
	c := &connector{
		Connector:      inner,
		dsn:            connection,
		connectTimeout: config.ConnectTimeout,
		sockets:        newSocketSet(config.ReadTimeout),
		// Wait for locks no longer than told, and see committed rows only.
		session: fmt.Sprintf("SET LOCK_TIMEOUT %d; SET TRANSACTION ISOLATION LEVEL READ COMMITTED", lockTimeoutMS(config.LockTimeout)),
	}
	dialer.sockets = c.sockets
	inner.Dialer = dialer
	return c, nil
}

func lockTimeoutMS(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// Connect logs in. The connection that it returns has every optional method of the driver's.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	var dialled dialled
	stop := context.AfterFunc(ctx, dialled.close)
	defer stop()
	opened, err := c.login(context.WithValue(ctx, dialledKey{}, &dialled))
	if err != nil {
		dialled.close()
		if cause := ctx.Err(); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, &connectError{where: c.dsn.String(), text: c.dsn.Mask(err.Error()), again: c.connected.Load(), err: err}
	}
	c.connected.Store(true)
	socket, filter := dialled.get()
	return &conn{Conn: opened, socket: socket, filter: filter}, nil
}

func (c *connector) login(ctx context.Context) (*mssql.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	opened, ok := inner.(*mssql.Conn)
	if !ok {
		return nil, fmt.Errorf("the driver made a connection of type %T", inner)
	}
	statement, err := opened.PrepareContext(ctx, c.session)
	if err != nil {
		return nil, err
	}
	execer, ok := statement.(driver.StmtExecContext)
	if !ok {
		return nil, fmt.Errorf("the driver made a statement of type %T", statement)
	}
	if _, err := execer.ExecContext(ctx, nil); err != nil {
		return nil, err
	}
	return opened, nil
}

// connectError is a login that failed. Its text never holds the password.
type connectError struct {
	where, text string
	again       bool // a login with the same settings has worked before
	err         error
}

func (e *connectError) Error() string { return fmt.Sprintf("connecting to %s: %s", e.where, e.text) }
func (e *connectError) Unwrap() error { return e.err }

// conn is the driver's connection with its socket. It keeps the driver's optional methods but for the two below.
type conn struct {
	*mssql.Conn

	socket  *socket
	filter  *rowfilter.Conn // above the socket; nil for none
	dropped atomic.Bool
}

// RowFilter implements [rowfilter.Filtered].
func (c *conn) RowFilter() *rowfilter.Conn { return c.filter }

// ResetSession replaces the driver's: a session of ours that changes state is set back or dropped before it goes back to the
// pool, so that taking it from there costs no round trip.
func (c *conn) ResetSession(context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return nil
}

// IsValid says whether the pool may keep the connection.
func (c *conn) IsValid() bool { return !c.dropped.Load() && c.Conn.IsValid() }

// drop takes the connection out of the pool when it comes back. The driver keeps some that are dead: after an error of
// class 20 and higher the server closes, and the driver notices at the next query only.
func (c *conn) drop() { c.dropped.Store(true) }

// dialledKey is the key of the *dialled in the context of a login.
type dialledKey struct{}

// dialled is the last socket that a login dialled; a routed login dials twice.
type dialled struct {
	mu     sync.Mutex
	socket *socket
	filter *rowfilter.Conn
	closed bool
}

func (d *dialled) set(s *socket, filter *rowfilter.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.socket, d.filter = s, filter
	if d.closed {
		s.closeNow()
	}
}

func (d *dialled) get() (*socket, *rowfilter.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.socket, d.filter
}

func (d *dialled) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.socket != nil {
		d.socket.closeNow()
	}
}
