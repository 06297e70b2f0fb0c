package tds_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// script is a handler whose answers are functions; every client may log in.
type script struct {
	login  func(c *tds.Conn, l *tds.Login) (*tds.LoginAnswer, error)
	handle func(ctx context.Context, req *tds.Request, w *tds.Writer) error
	closed func()
}

// Login accepts the client.
func (s *script) Login(_ context.Context, c *tds.Conn, l *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	answer := &tds.LoginAnswer{}
	if s.login != nil {
		var err error
		if answer, err = s.login(c, l); err != nil {
			return nil, nil, err
		}
	}
	return answer, s, nil
}

// Handle runs the script.
func (s *script) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	return s.handle(ctx, req, w)
}

// Close counts.
func (s *script) Close() error {
	if s.closed != nil {
		s.closed()
	}
	return nil
}

// server is a running server.
type server struct {
	*tds.Server
	addr *net.TCPAddr

	mu   sync.Mutex
	ends []error // of connections
}

// serve starts a server for the length of the test. Connections that end with an error are noted, not failed.
func serve(t testing.TB, cfg tds.Config, h tds.Handler) *server {
	t.Helper()
	s := &server{}
	cfg.OnEnd = func(_ *tds.Conn, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ends = append(s.ends, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Server, s.addr = tds.NewServer(cfg, h), l.Addr().(*net.TCPAddr)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// lastEnd gives the error of the connection that ended last.
//
//lint:ignore ST1008 the error is the answer here, the count goes with it
func (s *server) lastEnd() (error, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) == 0 {
		return nil, 0
	}
	return s.ends[len(s.ends)-1], len(s.ends)
}

// open connects go-mssqldb with options of its connection URL.
func (s *server) open(t testing.TB, options ...string) *sql.DB {
	t.Helper()
	return openAt(t, s.addr.String(), options...)
}

// openAt connects go-mssqldb to an address. Options come in pairs; encrypt is off unless one says otherwise.
func openAt(t testing.TB, address string, options ...string) *sql.DB {
	t.Helper()
	q := url.Values{"encrypt": {"disable"}, "dial timeout": {"10"}, "database": {"shop"}}
	for i := 0; i+1 < len(options); i += 2 {
		q.Set(options[i], options[i+1])
	}
	u := url.URL{Scheme: "sqlserver", User: url.UserPassword("sa", "pa ß;'word"), Host: address, RawQuery: q.Encode()}
	connector, err := mssql.NewConnector(u.String())
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// sharedDir gives a folder of the shared material, and skips the test aloud where it is not there.
func sharedDir(t testing.TB, variable, name string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", name) // beside the project's root
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("shared material is not here (%s; set %s): %v", dir, variable, err)
	}
	return dir
}

// must is for values of tests.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("test value: %v", err))
	}
	return v
}

// How long and how often tests look for something another goroutine does.
const (
	waitFor = 10 * time.Second
	tick    = time.Millisecond
)
