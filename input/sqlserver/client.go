package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/dsn"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

// Client reads one database. It is safe for concurrent use.
type Client struct {
	config    Config
	db        *sql.DB
	connector *connector
	fetcher   fetch.Fetcher
	server    Server
	login     string // the database user, for grants
	waits     bool   // sys.dm_exec_session_wait_stats answers

	head      atomic.Pointer[Head]       // the last answer of MaxLSN
	clock     atomic.Pointer[zone.Clock] // replaced when a fixed offset changed
	pace      paces
	subchunks subchunkSizes
	retry     retryPolicy
	notices   notices

	closing   context.Context // ends with Close
	cancel    context.CancelFunc
	closeOnce sync.Once
	closeErr  error
	calls     sync.WaitGroup
	callsMu   sync.Mutex // orders calls.Add before calls.Wait
	closed    bool
}

// Open checks the configuration, connects once and learns what the server is.
func Open(ctx context.Context, config Config) (*Client, error) {
	connection, err := prepare(&config)
	if err != nil {
		return nil, err
	}
	connector, err := newConnector(config, connection)
	if err != nil {
		return nil, err
	}
	closing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{
		config:    config,
		db:        sql.OpenDB(connector),
		connector: connector,
		fetcher:   config.fetcher(),
		retry:     retryPolicy{attempts: retryAttempts, base: retryBase},
		closing:   closing,
		cancel:    cancel,
	}
	c.db.SetMaxOpenConns(config.MaxConnections)
	c.db.SetMaxIdleConns(config.MaxConnections)
	if err := c.identify(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare fills in defaults and joins the connection string with the fields that override it.
func prepare(config *Config) (dsn.Connection, error) {
	connection, err := dsn.Parse(config.ConnectionString)
	if err != nil {
		return dsn.Connection{}, err
	}
	for _, o := range []struct {
		field string
		to    *string
		value string
	}{
		{"user", &connection.User, config.User},
		{"password", &connection.Password, config.Password},
		{"database", &connection.Database, config.Database},
	} {
		if o.value == "" {
			continue
		}
		if *o.to != "" && *o.to != o.value {
			return dsn.Connection{}, &ConfigError{Field: o.field, Reason: "differs from the one in the connection string; give it once"}
		}
		*o.to = o.value
	}
	if config.AccessToken != nil && (connection.User != "" || connection.Password != "") {
		return dsn.Connection{}, &ConfigError{Field: "access token", Reason: "excludes a user and a password"}
	}
	if config.AccessToken == nil && connection.User == "" {
		return dsn.Connection{}, &ConfigError{Field: "user", Reason: "neither a user nor an access token is given"}
	}
	if err := config.fillIn(connection); err != nil {
		return dsn.Connection{}, err
	}
	connection.AppName = config.AppName
	return connection, nil
}

func (c *Config) fillIn(connection dsn.Connection) error {
	defaultTo(&c.AppName, connection.AppName)
	defaultTo(&c.AppName, DefaultAppName)
	defaultTo(&c.ConnectTimeout, connection.ConnectTimeout)
	defaultTo(&c.ConnectTimeout, DefaultConnectTimeout)
	defaultTo(&c.QueryTimeout, DefaultQueryTimeout)
	defaultTo(&c.ReadTimeout, DefaultReadTimeout)
	defaultTo(&c.LockTimeout, DefaultLockTimeout)
	defaultTo(&c.MaxConnections, DefaultMaxConnections)
	defaultTo(&c.TimeZone, "auto")
	defaultTo(&c.Reader, readerAuto)
	switch {
	case c.MaxConnections < 2:
		return &ConfigError{Field: "max connections", Reason: "want at least 2"}
	case c.ConnectTimeout < 0, c.QueryTimeout < 0, c.ReadTimeout < 0:
		return &ConfigError{Field: "timeouts", Reason: "must not be negative"}
	case c.Reader != readerAuto && c.Reader != readerDriver:
		return &ConfigError{Field: "reader", Reason: "want auto or driver"}
	case !strings.EqualFold(c.TimeZone, "auto"):
		if _, err := zone.Parse(c.TimeZone); err != nil {
			return &ConfigError{Field: "time zone", Reason: err.Error()}
		}
	}
	return nil
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close ends every connection, also those in use; calls that run return an error. It returns within a few seconds even
// if the network is silent. Calling it again is a no-op.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		c.callsMu.Lock()
		c.closed = true
		c.callsMu.Unlock()
		c.cancel()
		// Calls that run cancel their statements; those that a silent network keeps are cut by their watchdog.
		c.calls.Wait()
		c.closeErr = c.db.Close()
		c.connector.sockets.closeAll()
	})
	return c.closeErr
}

// Server is what the server told at Open.
func (c *Client) Server() Server { return c.server }

// Ping makes one trivial round trip and says how long it took.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	var took time.Duration
	err := c.ask(ctx, "pinging the server", func(ctx context.Context, conn *sql.Conn) error {
		begin := time.Now()
		var one int
		if err := conn.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
			return err
		}
		took = time.Since(begin)
		return nil
	})
	return took, err
}

// ask runs a metadata question on a connection of its own: with a deadline, again if a transient error stopped it.
// What doing is goes in front of the error.
func (c *Client) ask(ctx context.Context, doing string, question func(context.Context, *sql.Conn) error) error {
	err := c.retry.do(ctx, func(attempt int) error {
		if attempt > 0 {
			c.forgetIdle()
		}
		ctx, cancel := context.WithTimeoutCause(ctx, c.config.QueryTimeout, errQueryTimeout)
		defer cancel()
		return c.hold(ctx, question)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// errQueryTimeout is the cause of a context that QueryTimeout ended.
var errQueryTimeout = errors.New("the server did not answer within the query timeout")

// hold runs a call on a pinned connection. The context also ends with the client. If the call has not returned a few
// seconds after the end of its context, the socket is closed under it. A call that failed costs the connection: what
// state the session and the driver are in is then unknown.
func (c *Client) hold(ctx context.Context, call func(context.Context, *sql.Conn) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	defer stop()

	pinned, err := c.db.Conn(ctx)
	if err != nil {
		return withCause(ctx, err)
	}
	held, err := unwrap(pinned)
	if err != nil {
		return errors.Join(err, pinned.Close())
	}
	release := watch(ctx, held.socket)
	err = call(ctx, pinned)
	release()
	if err != nil && !errors.Is(err, errStopped) {
		held.drop()
	}
	// A pinned connection that is gone already says so; the call's own error tells more.
	if closing := pinned.Close(); err == nil && closing != nil && !errors.Is(closing, sql.ErrConnDone) {
		err = closing
	}
	return withCause(ctx, err)
}

func (c *Client) enter() error {
	c.callsMu.Lock()
	defer c.callsMu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls.Add(1)
	return nil
}

// withCause puts the reason for the end of the context in front of an error that the end caused.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// unwrap gives our connection behind the pool's.
func unwrap(pinned *sql.Conn) (*conn, error) {
	var held *conn
	err := pinned.Raw(func(c any) error {
		var ok bool
		if held, ok = c.(*conn); !ok {
			return fmt.Errorf("the pool holds a connection of type %T", c)
		}
		return nil
	})
	return held, err
}

// cancelGrace is how long the server may take to acknowledge a cancel.
const cancelGrace = 3 * time.Second

// watch closes the socket if release has not been called cancelGrace after the end of the context.
func watch(ctx context.Context, s *socket) (release func()) {
	if s == nil {
		return func() {}
	}
	var mu sync.Mutex
	var timer *time.Timer
	released := false
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !released {
			timer = time.AfterFunc(cancelGrace, s.closeNow)
		}
	})
	return func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		released = true
		if timer != nil {
			timer.Stop()
		}
	}
}

// forgetIdle closes the connections that nobody uses: after one broke, the others are likely dead, too, and each would
// cost an attempt.
func (c *Client) forgetIdle() {
	c.db.SetMaxIdleConns(-1)
	c.db.SetMaxIdleConns(c.config.MaxConnections)
}
