package sqlserver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// gate is a server whose logins and connections a test decides about.
type gate struct {
	*stub

	refuse atomic.Pointer[tds.ServerError]
	login  atomic.Pointer[tds.Login]
	addr   atomic.Pointer[string]
	listen string // where the server listens; empty for pipes
}

// Login implements tds.Handler.
func (g *gate) Login(ctx context.Context, c *tds.Conn, login *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	g.login.Store(login)
	if err := g.refuse.Load(); err != nil {
		return nil, nil, err
	}
	return g.stub.Login(ctx, c, login)
}

// DialContext implements the client's Dialer.
func (g *gate) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	g.addr.Store(&addr)
	if g.listen != "" {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", g.listen)
	}
	return g.stub.DialContext(ctx, network, addr)
}

func newGate(config tds.Config) *gate {
	g := &gate{stub: newStub()}
	g.server = tds.NewServer(config, g)
	return g
}

// onTCP makes the gate listen: both ends of a TLS handshake that fails write at once, which a pipe has no room for.
func (g *gate) onTCP(t *testing.T) *gate {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.listen = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.server.Serve(ctx, listener) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return g
}

func (g *gate) connect(t *testing.T, connection string, change ...func(*sqlserver.Config)) (*sqlserver.Client, error) {
	return g.open(t, append([]func(*sqlserver.Config){func(c *sqlserver.Config) {
		c.ConnectionString, c.Dialer = connection, g
	}}, change...)...)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, err := tds.NewCertificate("db.example.com")
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, cert.CA, 0o600))
	const login = ";UID=sa;PWD=Sup3rSecret;Database=lab"
	cases := map[string]struct {
		text  string
		class sqlserver.Class // of the error, zero for none
		dials string
	}{
		"not trusted":              {"Server=db.example.com" + login, sqlserver.Fatal, "db.example.com:1433"},
		"not encrypted, verified":  {"Server=db.example.com;Encrypt=no" + login, sqlserver.Fatal, "db.example.com:1433"},
		"trusted blindly":          {"Server=db.example.com;TrustServerCertificate=yes" + login, 0, "db.example.com:1433"},
		"authority":                {"Server=db.example.com,1444;Certificate=" + ca + login, 0, "db.example.com:1444"},
		"strict":                   {"Server=db.example.com;Encrypt=strict;Certificate=" + ca + login, 0, "db.example.com:1433"},
		"wrong name":               {"Server=tunnel;Certificate=" + ca + login, sqlserver.Fatal, "tunnel:1433"},
		"wrong name, strict":       {"Server=tunnel;Encrypt=strict;Certificate=" + ca + login, sqlserver.Fatal, "tunnel:1433"},
		"through a tunnel":         {"Server=tunnel;HostNameInCertificate=db.example.com;Certificate=" + ca + login, 0, "tunnel:1433"},
		"through a tunnel, strict": {"Server=tunnel;Encrypt=strict;HostNameInCertificate=db.example.com;Certificate=" + ca + login, 0, "tunnel:1433"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(tds.Config{TLS: cert.Config}).onTCP(t)
			_, err := g.connect(t, c.text)
			require.Equal(t, c.class, sqlserver.Classify(err), "%v", err)
			require.Equal(t, c.dials, *g.addr.Load())
			if err != nil {
				require.NotContains(t, err.Error(), "Secret")
				require.Nil(t, g.login.Load(), "no LOGIN7 before TLS stands")
			}
		})
	}
	t.Run("server without TLS", func(t *testing.T) {
		t.Parallel()
		g := newGate(tds.Config{})
		_, err := g.connect(t, "Server=h"+login)
		require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err), "%v", err)
		require.Nil(t, g.login.Load())
		_, err = g.connect(t, "Server=h;Encrypt=no"+login)
		require.NoError(t, err)
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()
	g := newGate(tds.Config{})
	_, err := g.connect(t, "Server=h;Encrypt=no;UID=sa;Database=lab;ApplicationIntent=ReadOnly", func(c *sqlserver.Config) { c.Password = "{;}'\"" })
	require.NoError(t, err)
	login := g.login.Load()
	require.Equal(t, "sa", login.User)
	require.Equal(t, tds.Secret("{;}'\""), login.Password)
	require.Equal(t, "lab", login.Database)
	require.Equal(t, sqlserver.DefaultAppName, login.App)
	require.True(t, login.ReadOnlyIntent())
}

func TestRefusedLogins(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		number       int32
		class        uint8
		first, again sqlserver.Class
	}{
		"wrong password":  {18456, 14, sqlserver.Fatal, sqlserver.Transient},
		"no database":     {4060, 11, sqlserver.Fatal, sqlserver.Transient},
		"not available":   {40613, 17, sqlserver.Transient, sqlserver.Transient},
		"secondary":       {983, 14, sqlserver.Transient, sqlserver.Transient},
		"too many logins": {10928, 16, sqlserver.Transient, sqlserver.Transient},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusal := &tds.ServerError{Number: c.number, Class: c.class, State: 1, Text: "refused"}
			g := newGate(tds.Config{})
			g.refuse.Store(refusal)
			_, err := g.connect(t, "Server=h;Encrypt=no;UID=sa;PWD=Sup3rSecret;Database=lab")
			require.Equal(t, c.first, sqlserver.Classify(err), "%v", err)
			require.ErrorContains(t, err, "connecting to h/lab: ")
			require.NotContains(t, err.Error(), "Secret")

			g.refuse.Store(nil)
			client, err := g.connect(t, "Server=h;Encrypt=no;UID=sa;PWD=Sup3rSecret;Database=lab")
			require.NoError(t, err)
			g.refuse.Store(refusal)
			for conn := range g.server.Conns() {
				require.NoError(t, conn.Close())
			}
			_, err = client.MaxLSN(t.Context())
			require.Equal(t, c.again, sqlserver.Classify(err), "%v", err)
		})
	}
}

func TestUnknownDatabase(t *testing.T) {
	t.Parallel()
	g := newGate(tds.Config{})
	g.refuse.Store(&tds.ServerError{Number: 4060, Class: 11, State: 1, Text: "Cannot open database"})
	_, err := g.connect(t, "Server=h;Encrypt=no;UID=sa;PWD=p;Database=lba")
	require.ErrorIs(t, err, sqlserver.ErrUnknownDatabase)
}

func TestAccessTokenIsAskedForEachLogin(t *testing.T) {
	t.Parallel()
	g := newGate(tds.Config{FedAuth: tds.FedAuthRequired})
	tokens := 0
	client, err := g.connect(t, "Server=h;Encrypt=no;Database=lab", func(c *sqlserver.Config) {
		c.AccessToken = func(context.Context) (string, error) { tokens++; return "token", nil }
	})
	require.NoError(t, err)
	require.Equal(t, 1, tokens)
	for conn := range g.server.Conns() {
		require.NoError(t, conn.Close())
	}
	_, err = client.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, tokens)
}

func TestLoginThatHangs(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string]tds.Hooks{
		"before PRELOGIN": {Connect: func(*tds.Conn) tds.Fault { return tds.Fault{Action: tds.Hang} }},
		"after LOGIN7":    {Login: func(*tds.Conn, *tds.Login) tds.Fault { return tds.Fault{Action: tds.Hang} }},
	} {
		for _, encrypt := range []string{"no", "strict"} {
			t.Run(name+", encrypt "+encrypt, func(t *testing.T) {
				t.Parallel()
				cert, err := tds.NewCertificate("h")
				require.NoError(t, err)
				ca := filepath.Join(t.TempDir(), "ca.pem")
				require.NoError(t, os.WriteFile(ca, cert.CA, 0o600))
				g := newGate(tds.Config{Hooks: hooks, TLS: cert.Config})
				begin := time.Now()
				_, err = g.connect(t, "Server=h;UID=sa;PWD=p;Encrypt="+encrypt+";Certificate="+ca, func(c *sqlserver.Config) { c.ConnectTimeout = 100 * time.Millisecond })
				require.Error(t, err)
				require.Equal(t, sqlserver.Transient, sqlserver.Classify(err), "%v", err)
				require.Less(t, time.Since(begin), 8*time.Second)
			})
		}
	}
}

// TestNothingIsLeftBehind counts goroutines after clients came and went, some in the middle of a read.
func TestNothingIsLeftBehind(t *testing.T) {
	s := newStub()
	s.fill("t", 100, 100, 100)
	warm := s.start(t)
	require.NoError(t, warm.Close())
	before := runtime.NumGoroutine()
	for range 10 {
		client := s.start(t)
		l := layout(t, t.Context(), client, "t")
		head, err := client.MaxLSN(t.Context())
		require.NoError(t, err)
		plan, err := client.Plan(t.Context(), l, lsn(1), head.LSN, sqlserver.Limits{})
		require.NoError(t, err)
		for _, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Limits: sqlserver.Limits{PartRows: 10, Ranges: 2}, Head: head}) {
			require.NoError(t, err)
			break
		}
		require.NoError(t, client.Close())
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	}
}

// eventually waits up to five seconds for a condition, without a goroutine of its own.
func eventually(condition func() bool) bool {
	for range 500 {
		if condition() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
