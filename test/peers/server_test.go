package peers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// doorman refuses every login and keeps what the client said of the server.
type doorman struct {
	mu       sync.Mutex
	announce string // server name of LOGIN7
	sni      string
}

func (d *doorman) Login(_ context.Context, _ *tds.Conn, login *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announce = login.Server
	return nil, nil, &tds.ServerError{Number: 18456, Class: 14, State: 1, Text: "Login failed."}
}

func (d *doorman) said() (announce, sni string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.announce, d.sni
}

// tunnel dials one address whatever it is asked for.
type tunnel string

func (to tunnel) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, string(to))
}

// C-08: through a tunnel the server is dialled at another address. What is announced at
// login, asked for in TLS and verified is the server's own name: a gateway in front of
// many servers goes by it.
func TestServerNameThroughATunnel(t *testing.T) {
	t.Parallel()
	const name = "shop.database.windows.net"
	cert, err := tds.NewCertificate(name)
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, cert.CA, 0o600))
	for _, encrypt := range []string{"yes", "strict"} {
		t.Run(encrypt, func(t *testing.T) {
			t.Parallel()
			d := &doorman{}
			config := cert.Config.Clone()
			config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.sni = hello.ServerName
				return nil, nil
			}
			server := tds.NewServer(tds.Config{TLS: config}, d)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			served := make(chan error, 1)
			go func() { served <- server.Serve(ctx, listener) }()
			t.Cleanup(func() { cancel(); require.NoError(t, <-served) })

			_, err = sqlserver.Open(t.Context(), sqlserver.Config{
				ConnectionString: fmt.Sprintf("Server=%s,1433;Database=lab;User Id=sa;Password=x;Encrypt=%s;Certificate=%s", name, encrypt, ca),
				Dialer:           tunnel(listener.Addr().String()),
			})
			require.ErrorContains(t, err, "Login failed")
			announce, sni := d.said()
			require.Equal(t, name, announce)
			require.Equal(t, name, sni)
		})
	}
}

// C-13: two databases in one process, one of which cannot be opened for a while: the
// other one goes on, and the first one follows when it is back.
func TestOneDatabaseOfTwoIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t, sqlserversim.WithDatabase("north"), sqlserversim.WithDatabase("south"), sqlserversim.WithLogin("southern", "", false))
	l.exec(t, "USE south; EXEC sys.sp_cdc_enable_db", "USE south; CREATE USER southern FOR LOGIN southern",
		"USE south; CREATE TABLE dbo.s (id int NOT NULL PRIMARY KEY)", "USE south; EXEC sys.sp_cdc_enable_table N'dbo', N's', @role_name = NULL",
		"USE south; GRANT SELECT ON dbo.s TO southern; GRANT SELECT ON cdc.dbo_s_CT TO southern")
	l.table(t, "n", "id int NOT NULL PRIMARY KEY")
	write := func(i int) {
		l.exec(t, fmt.Sprintf("INSERT dbo.n VALUES (%d)", i), fmt.Sprintf("USE south; INSERT dbo.s VALUES (%d)", i))
		l.capture(t)
	}
	write(0)
	p := l.pipeline(t, "dbo.n").rows()
	south := l.pipeline(t, "dbo.s").rows().with("checkpoint_cache_key: south")
	south.dsn = l.sim.DSNFor("southern", "south")
	p.inputs = []*pipeline{south}
	rule := l.sim.Fault(sqlserversim.Fault{When: sqlserversim.AtLogin, Login: "southern", Times: -1, Action: sqlserversim.RaiseError(40613, 17, 1, "Database 'south' is not currently available.")})
	of := func(table string) int {
		n := 0
		_, metas := p.sink.rows()
		for _, m := range metas {
			if m["table"] == table {
				n++
			}
		}
		return n
	}
	r := p.begin(t, "continuous")
	for i := range 3 {
		r.eventually(t, "the north", func() bool { return of("n") == i+1 })
		write(i + 1)
	}
	require.Zero(t, of("s"))
	require.NotZero(t, rule.Hits())
	rule.Remove()
	r.eventually(t, "the south", func() bool { return of("s") == 4 })
	require.NoError(t, r.stop(t))
	require.NotContains(t, strings.ToLower(p.log.String()), "cannot go on")
}
