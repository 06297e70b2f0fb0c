package rowfilter_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// answer is what a test's server says to a statement.
type answer func(ctx context.Context, w *tds.Writer) error

// host is a server whose answer the test decides about.
type host struct {
	server *tds.Server
	listen net.Listener

	mu     sync.Mutex
	answer answer
	dialed func(net.Conn) net.Conn // around the client's socket
	token  string                  // logs in with it instead of a password
}

// Login implements tds.Handler.
func (h *host) Login(context.Context, *tds.Conn, *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	return &tds.LoginAnswer{}, h, nil
}

// Handle implements tds.Session: "SELECT 1" answers 1, every other statement what the test says.
func (h *host) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	if b, ok := req.Body.(*tds.SQLBatch); ok && b.Text == "SELECT 1" {
		w.Columns([]tds.Column{{Type: tds.TypeInt(4), Flags: tds.FlagNullable}})
		return w.WriteRow(int64(1))
	}
	h.mu.Lock()
	answer := h.answer
	h.mu.Unlock()
	return answer(ctx, w)
}

// Close implements tds.Session.
func (h *host) Close() error { return nil }

func (h *host) says(a answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = a
}

// newHost starts a server for the length of the test.
func newHost(t testing.TB, config tds.Config) *host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &host{listen: l}
	h.server = tds.NewServer(config, h)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.server.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return h
}

// withTLS is a configuration with a certificate for the host db.example.com.
func withTLS(t testing.TB) (config tds.Config, ca string) {
	t.Helper()
	cert, err := tds.NewCertificate("db.example.com")
	require.NoError(t, err)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, cert.CA, 0o600))
	return tds.Config{TLS: cert.Config}, ca
}

// filtered is a connection of the driver with the filter below it.
type filtered struct {
	*mssql.Conn

	socket *rowfilter.Conn
}

func (f *filtered) RowFilter() *rowfilter.Conn { return f.socket }

// connector dials the host under the name db.example.com, with a filter if security is there.
type connector struct {
	*mssql.Connector

	host     *host
	security *rowfilter.Security

	mu   sync.Mutex
	last *rowfilter.Conn
}

func (c *connector) HostName() string { return "" }

func (c *connector) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", c.host.listen.Addr().String())
	if err != nil {
		return nil, err
	}
	if c.host.dialed != nil {
		raw = c.host.dialed(raw)
	}
	if c.security == nil {
		return raw, nil
	}
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	socket, err := rowfilter.New(raw, name, *c.security)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = socket
	return socket, nil
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil || c.security == nil {
		return inner, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &filtered{Conn: inner.(*mssql.Conn), socket: c.last}, nil
}

// open is a pool of one connection to the host. Options are of the connection URL.
func (h *host) open(t testing.TB, filter bool, options ...string) *sql.DB {
	t.Helper()
	db, err := h.pool(filter, options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (h *host) pool(filter bool, options ...string) (*sql.DB, error) {
	query := url.Values{"encrypt": {"disable"}, "dial timeout": {"10"}, "database": {"shop"}}
	for i := 0; i+1 < len(options); i += 2 {
		query.Set(options[i], options[i+1])
	}
	u := url.URL{Scheme: "sqlserver", User: url.UserPassword("sa", "Sup3rSecret"), Host: "db.example.com:1433", RawQuery: query.Encode()}
	config, err := msdsn.Parse(u.String())
	if err != nil {
		return nil, err
	}
	c := &connector{host: h}
	if filter {
		c.security = &rowfilter.Security{Encryption: config.Encryption, TLS: config.TLSConfig, HostGiven: config.HostInCertificateProvided}
		if c.security.Ours() {
			config.Encryption, config.TLSConfig = msdsn.EncryptionDisabled, nil
		}
	}
	c.Connector = mssql.NewConnectorConfig(config)
	if h.token != "" {
		c.Connector, err = mssql.NewSecurityTokenConnector(config, func(context.Context) (string, error) { return h.token, nil })
		if err != nil {
			return nil, err
		}
	}
	c.Dialer = c
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1)
	return db, nil
}

// wants is the statement whose result has these columns.
func wants(maxRows, maxBytes int64, columns ...fetch.Column) fetch.Statement {
	fields := make([]arrow.Field, len(columns))
	for i := range columns {
		if columns[i].Name == "" {
			columns[i].Name = fmt.Sprintf("c%d", i)
		}
		fields[i] = arrow.Field{Name: columns[i].Name, Type: columns[i].Type(), Nullable: true}
	}
	return fetch.Statement{Text: "SELECT rows", Columns: columns, Schema: arrow.NewSchema(fields, nil), MaxRows: maxRows, MaxBytes: maxBytes}
}

// outcome is what a reader made of an answer.
type outcome struct {
	batches []fetch.Batch
	choice  rowfilter.Choice
	err     error
}

func (o outcome) rows() (n int64) {
	for _, b := range o.batches {
		n += b.Record.NumRows()
	}
	return n
}

// read reads a statement on the pool's connection.
func read(ctx context.Context, db *sql.DB, statement fetch.Statement) (o outcome) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return outcome{err: err}
	}
	defer conn.Close()
	fetcher := rowfilter.Fetcher{Chosen: func(c rowfilter.Choice) { o.choice = c }}
	for batch, err := range fetcher.Fetch(ctx, conn, statement) {
		if err != nil {
			o.err = err
			return o
		}
		o.batches = append(o.batches, batch)
	}
	return o
}

// requireRecords compares the records of two readers of one answer, and where they are cut.
func requireRecords(t require.TestingT, want, got outcome) {
	require.Len(t, got.batches, len(want.batches))
	for i, w := range want.batches {
		g := got.batches[i]
		if !array.RecordEqual(w.Record, g.Record) {
			require.Equal(t, fmt.Sprint(w.Record), fmt.Sprint(g.Record), "record %d", i)
		}
		require.True(t, w.Record.Schema().Equal(g.Record.Schema()))
		require.Equal(t, w.Bytes, g.Bytes, "bytes of record %d", i)
		for c := range w.Record.Columns() {
			require.Equal(t, w.Record.Column(c).NullN(), g.Record.Column(c).NullN())
		}
	}
}

// ping proves that the pool's connection can be used.
func ping(t require.TestingT, ctx context.Context, db *sql.DB) {
	var one int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	require.Equal(t, 1, one)
}
