package tds_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

func TestLoginAnswer(t *testing.T) {
	t.Parallel()
	utf8 := []byte{0x0A, 1, 0, 0, 0, 1, 0x10, 3, 0, 0, 0, 1, 2, 3, 0xFF} // asks for UTF-8, and for a feature nobody knows
	for _, tc := range []struct {
		name   string
		words  loginWords
		answer *tds.LoginAnswer
		want   []string
	}{
		{"defaults", loginWords{}, nil, []string{
			"ENVCHANGE 1 'master' <- 'master'",
			"INFO 5701 state 2 class 0 'Changed database context to 'master'.' server 'SIM' proc '' line 1",
			"ENVCHANGE 7 0904d00034 <- -",
			"ENVCHANGE 2 'us_english' <- ''",
			"INFO 5703 state 1 class 0 'Changed language setting to us_english.' server 'SIM' proc '' line 1",
			`LOGINACK interface 1 tds 74000004 'Microsoft SQL Server\0\0' version 16.0.4265`,
			"ENVCHANGE 4 '4096' <- '4096'",
			"DONE status 0x0000 cmd 0x0000 count 0",
		}},
		{"features", loginWords{features: utf8, packetSize: 8000, database: "shop"}, nil, []string{
			"ENVCHANGE 1 'shop' <- 'master'", "", "", "", "", "", "ENVCHANGE 4 '8000' <- '4096'", "FEATUREEXTACK 0x0a:01", "",
		}},
		{"no features", loginWords{features: utf8}, &tds.LoginAnswer{Features: []tds.Feature{}}, []string{"", "", "", "", "", "", "", ""}},
		{"TDS 7.3", loginWords{version: tds.Version7B}, nil, []string{"", "", "", "", "", `LOGINACK interface 1 tds 730b0003 'Microsoft SQL Server\0\0' version 16.0.4265`, "", ""}},
		{"a version to come", loginWords{version: 0x75000000}, nil, []string{"", "", "", "", "", `LOGINACK interface 1 tds 74000004 'Microsoft SQL Server\0\0' version 16.0.4265`, "", ""}},
		{"mirror", loginWords{}, &tds.LoginAnswer{Mirror: "other"}, []string{"", "", "", "", "", "", "", "ENVCHANGE 13 'other' <- ''", ""}},
		{"routing", loginWords{}, &tds.LoginAnswer{Routing: &tds.Routing{Host: "b.example", Port: 1444}}, []string{"", "", "", "", "", "", "", "ENVCHANGE 20 proto 0 port 1444 host 'b.example' old -", ""}},
		{"too large a packet", loginWords{packetSize: 40000}, nil, []string{"", "", "", "", "", "", "ENVCHANGE 4 '32767' <- '4096'", ""}},
		{"too small a packet", loginWords{packetSize: 100}, nil, []string{"", "", "", "", "", "", "ENVCHANGE 4 '512' <- '4096'", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := dialRaw(t, tds.Config{}, &script{login: func(*tds.Conn, *tds.Login) (*tds.LoginAnswer, error) { return tc.answer, nil }})
			list, err := decodeTokens(c.login(tc.words), false, false)
			require.NoError(t, err)
			require.Len(t, list, len(tc.want))
			for i, line := range tc.want {
				if line != "" {
					require.Equal(t, line, list[i].line)
				}
			}
			require.Equal(t, uint16(51), binary.BigEndian.Uint16(c.log[4:]), "session id in the header")
		})
	}
}

func TestLoginRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, tds.Config{ServerName: "SRV"}, &script{login: func(*tds.Conn, *tds.Login) (*tds.LoginAnswer, error) {
		return nil, errors.Join(
			&tds.ServerError{Number: 4060, State: 1, Class: 11, Text: "Cannot open database.", Line: 1},
			&tds.ServerError{Number: 18456, State: 1, Class: 14, Text: "Login failed for user 'sa'.", Line: 1},
		)
	}})
	err := s.open(t).PingContext(t.Context())
	e, ok := errors.AsType[mssql.Error](err)
	require.True(t, ok, err)
	require.Equal(t, int32(18456), e.Number)
	require.Len(t, e.All, 2)
	require.Equal(t, int32(4060), e.All[0].Number)
	require.Equal(t, "SRV", e.ServerName)
	require.Eventually(t, func() bool { _, n := s.lastEnd(); return n > 0 }, 5*time.Second, time.Millisecond)
	end, _ := s.lastEnd()
	require.ErrorContains(t, end, "logging in")

	plain := dialRaw(t, tds.Config{}, &script{login: func(*tds.Conn, *tds.Login) (*tds.LoginAnswer, error) { return nil, io.ErrNoProgress }})
	plain.send(0x10, 1, rawLogin7(loginWords{}))
	_, _, err = plain.packet()
	require.ErrorIs(t, err, io.EOF, "an error without a message just ends the connection")
	require.ErrorIs(t, <-plain.end, io.ErrNoProgress)
}

func TestOldProtocolIsClosedCleanly(t *testing.T) {
	t.Parallel()
	s := serve(t, tds.Config{}, &script{handle: selectOne})
	c, err := net.Dial("tcp", s.addr.String())
	require.NoError(t, err)
	raw := &rawClient{t: t, conn: c}
	raw.send(0x10, 1, rawLogin7(loginWords{version: tds.Version71}))
	_, _, err = raw.packet()
	require.ErrorIs(t, err, io.EOF, "a FIN, not a reset")
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { _, n := s.lastEnd(); return n == 1 }, 5*time.Second, time.Millisecond)
	end, _ := s.lastEnd()
	require.ErrorIs(t, end, tds.ErrVersion)
}

func TestBrokenHandshakes(t *testing.T) {
	t.Parallel()
	login := rawLogin7(loginWords{})
	for _, tc := range []struct {
		name string
		send func(c *rawClient) error
		err  string
	}{
		{"nothing", func(c *rawClient) error { return c.conn.Close() }, "client closed the connection"},
		{"a browser", func(c *rawClient) error { _, err := c.conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); return err }, "packet type 0x47"},
		{"a batch first", func(c *rawClient) error { return c.write(1, 1, nil) }, "unexpected message before login: SQLBatch"},
		{"TLS without a certificate", func(c *rawClient) error { _, err := c.conn.Write([]byte{0x16}); return err }, "no certificate"},
		{"header of 7 bytes", func(c *rawClient) error { _, err := c.conn.Write([]byte{0x12, 1, 0, 7, 0, 0, 1, 0}); return err }, "fewer than the header"},
		{"half a header", func(c *rawClient) error {
			_, err := c.conn.Write([]byte{0x12, 1, 0})
			return errors.Join(err, c.conn.Close())
		}, "unexpected EOF"},
		{"PRELOGIN without an end", func(c *rawClient) error { return c.write(0x12, 1, []byte{0, 0, 5, 0}) }, "unexpected EOF"},
		{"PRELOGIN option outside", func(c *rawClient) error { return c.write(0x12, 1, []byte{0, 0, 6, 0, 6, 0xFF}) }, "outside the message"},
		{"LOGIN7 of another length", func(c *rawClient) error { return c.write(0x10, 1, append(login, 0)) }, "a length that is not the message's"},
		{"mixed packets", func(c *rawClient) error { return errors.Join(c.write(0x10, 0, login[:50]), c.write(1, 1, login[50:])) }, "SQLBatch packet inside a LOGIN7 message"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := dialRaw(t, tds.Config{}, &script{handle: selectOne})
			_ = tc.send(c) // the server may hang up while it is sent
			require.ErrorContains(t, <-c.end, tc.err)
		})
	}
}

func TestLoginTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialRaw(t, tds.Config{}, &script{handle: selectOne})
		begun := time.Now()
		require.ErrorContains(t, <-c.end, "timeout")
		require.Equal(t, 30*time.Second, time.Since(begun))
		require.NoError(t, c.conn.Close())
	})
}

// pipeDialer connects a driver to a server over pipes.
type pipeDialer struct {
	ctx context.Context
	s   *tds.Server
}

// DialContext gives the client's end.
func (d pipeDialer) DialContext(context.Context, string, string) (net.Conn, error) {
	client, srv := net.Pipe()
	go func() { _ = d.s.ServeConn(d.ctx, srv) }()
	return client, nil
}

// TestVirtualTime runs the driver and the server in a bubble of virtual time: a query that takes an hour is cancelled after a
// minute.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := tds.NewServer(tds.Config{}, &script{handle: func(ctx context.Context, req *tds.Request, w *tds.Writer) error {
			if !strings.HasPrefix(req.Body.(*tds.SQLBatch).Text, "WAITFOR") {
				return selectOne(ctx, req, w)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Hour):
				return selectOne(ctx, req, w)
			}
		}})
		connector, err := mssql.NewConnector("sqlserver://sa:x@127.0.0.1:1433?encrypt=disable&database=d")
		require.NoError(t, err)
		connector.Dialer = pipeDialer{ctx, s}
		db := sql.OpenDB(connector)
		require.NoError(t, db.PingContext(ctx))
		begun := time.Now()
		query, stop := context.WithTimeout(ctx, time.Minute)
		_, err = db.ExecContext(query, "WAITFOR DELAY '1:00'")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begun), "acknowledged at once")
		stop()
		require.NoError(t, db.Close())
		cancel()
		synctest.Wait()
	})
}

// preloginAnswer asks with one encryption value and gives the options of the answer.
func preloginAnswer(t *testing.T, cfg tds.Config, asked []tds.PreloginOption) (*rawClient, []tds.PreloginOption) {
	t.Helper()
	c := dialRaw(t, cfg, &script{handle: selectOne})
	c.send(0x12, 1, tds.AppendPrelogin(nil, asked))
	options, err := tds.ParsePrelogin(c.answer())
	require.NoError(t, err)
	return c, options
}

func TestPreloginAnswer(t *testing.T) {
	t.Parallel()
	cert, err := tds.NewCertificate()
	require.NoError(t, err)
	const none, optional, required = tds.EncryptionNone, tds.EncryptionOptional, tds.EncryptionRequired
	for _, tc := range []struct {
		policy tds.Encryption
		cert   bool
		answer [4]byte // to a client's 0, 1, 2, 3
	}{
		{optional, false, [4]byte{2, 2, 2, 2}},
		{none, true, [4]byte{2, 2, 2, 2}},
		{optional, true, [4]byte{0, 1, 2, 1}},
		{required, true, [4]byte{3, 1, 3, 1}},
	} {
		cfg := tds.Config{Encryption: tc.policy, Version: tds.ProductVersion{Major: 17, Build: 1000}}
		if tc.cert {
			cfg.TLS = cert.Config
		}
		for asked, want := range tc.answer {
			_, options := preloginAnswer(t, cfg, []tds.PreloginOption{{Token: tds.PreloginEncryption, Data: []byte{byte(asked)}}})
			require.Equal(t, []tds.PreloginOption{
				{Token: tds.PreloginVersion, Data: []byte{17, 0, 3, 0xE8, 0, 0}},
				{Token: tds.PreloginEncryption, Data: []byte{want}},
				{Token: tds.PreloginInstance, Data: []byte{0}},
				{Token: tds.PreloginThreadID, Data: []byte{}},
				{Token: tds.PreloginMARS, Data: []byte{0}},
			}, options, "policy %d, asked %d", tc.policy, asked)
		}
	}
	for policy, want := range map[tds.FedAuth][]byte{tds.FedAuthSilent: nil, tds.FedAuthNotRequired: {0}, tds.FedAuthRequired: {1}} {
		_, options := preloginAnswer(t, tds.Config{FedAuth: policy}, []tds.PreloginOption{
			{Token: tds.PreloginTraceID, Data: make([]byte, 36)}, {Token: tds.PreloginFedAuth, Data: []byte{1}},
		})
		require.Equal(t, tds.PreloginOption{Token: tds.PreloginTraceID, Data: []byte{}}, options[5])
		if want == nil {
			require.Len(t, options, 6)
			continue
		}
		require.Equal(t, tds.PreloginOption{Token: tds.PreloginFedAuth, Data: want}, options[6])
	}
}

// packetTLS carries the client's TLS records in PRELOGIN packets until it is told otherwise.
type packetTLS struct {
	*rawClient
	net.Conn
	wrapped bool
	rest    []byte
}

func (p *packetTLS) Write(b []byte) (int, error) {
	if !p.wrapped {
		return p.Conn.Write(b)
	}
	return len(b), p.rawClient.write(0x12, 1, b)
}

func (p *packetTLS) Read(b []byte) (int, error) {
	if !p.wrapped {
		return p.Conn.Read(b)
	}
	if len(p.rest) == 0 {
		header := make([]byte, 8)
		if _, err := io.ReadFull(p.Conn, header); err != nil {
			return 0, err
		}
		if header[0] != 0x12 && header[0] != 4 {
			return 0, fmt.Errorf("packet type %x in a handshake", header[0])
		}
		p.rest = make([]byte, int(binary.BigEndian.Uint16(header[2:]))-8)
		if _, err := io.ReadFull(p.Conn, p.rest); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// TestLoginOnlyTLS sends LOGIN7 in TLS and a clear request right behind it in the same write: nothing may be swallowed.
func TestLoginOnlyTLS(t *testing.T) {
	t.Parallel()
	for name, newCertificate := range map[string]func(...string) (*tds.Certificate, error){"ECDSA": tds.NewCertificate, "RSA": tds.NewRSACertificate} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert, err := newCertificate()
			require.NoError(t, err)
			roots := x509.NewCertPool()
			require.True(t, roots.AppendCertsFromPEM(cert.CA))
			c, options := preloginAnswer(t, tds.Config{TLS: cert.Config}, []tds.PreloginOption{{Token: tds.PreloginEncryption, Data: []byte{0}}})
			require.Equal(t, []byte{0}, options[1].Data)
			carrier := &packetTLS{rawClient: c, Conn: c.conn, wrapped: true}
			client := tls.Client(carrier, &tls.Config{RootCAs: roots, ServerName: "localhost"})
			require.NoError(t, client.HandshakeContext(t.Context()))
			require.Equal(t, uint16(tls.VersionTLS12), client.ConnectionState().Version, "TLS is capped inside PRELOGIN packets")
			carrier.wrapped = false
			var both strings.Builder
			carrier.Conn = &tee{Conn: c.conn, to: &both}
			login := rawLogin7(loginWords{})
			header := []byte{0x10, 1, 0, byte(8 + len(login)), 0, 0, 1, 0}
			_, err = client.Write(append(header, login...))
			require.NoError(t, err)
			sent := make(chan error, 1)
			go func() {
				_, err := c.conn.Write(append([]byte(both.String()), 6, 1, 0, 8, 0, 0, 1, 0)) // LOGIN7's record, then a clear attention
				sent <- err
			}()
			require.Contains(t, c.tokens()[5], "LOGINACK", "the answer is in clear")
			require.NoError(t, <-sent)
			require.Equal(t, []string{ackLine}, c.tokens())
		})
	}
}

// tee keeps what is written instead of sending it.
type tee struct {
	net.Conn
	to *strings.Builder
}

func (t *tee) Write(b []byte) (int, error) { return t.to.Write(b) }

func TestStrict(t *testing.T) {
	t.Parallel()
	cert, err := tds.NewCertificate("db.example")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(cert.CA))
	for _, tc := range []struct {
		version tds.Version
		inner   byte
	}{{tds.Version80, 2}, {tds.Version74, 2}, {tds.Version74, 3}} {
		c := dialRaw(t, tds.Config{TLS: cert.Config}, &script{handle: selectOne})
		client := tls.Client(c.conn, &tls.Config{RootCAs: roots, ServerName: "db.example", NextProtos: []string{"tds/8.0"}})
		require.NoError(t, client.HandshakeContext(t.Context()))
		require.Equal(t, "tds/8.0", client.ConnectionState().NegotiatedProtocol)
		require.Equal(t, uint16(tls.VersionTLS13), client.ConnectionState().Version)
		c.conn = client
		c.send(0x12, 1, tds.AppendPrelogin(nil, []tds.PreloginOption{{Token: tds.PreloginEncryption, Data: []byte{tc.inner}}}))
		options, err := tds.ParsePrelogin(c.answer())
		require.NoError(t, err)
		require.Equal(t, []byte{tc.inner}, options[1].Data, "echoed")
		list, err := decodeTokens(c.login(loginWords{version: tc.version, packetSize: 32767}), false, false)
		require.NoError(t, err)
		require.Equal(t, tc.version, list[5].ack.version, "echoed")
		require.Equal(t, "16383", list[6].fresh, "a packet fits a record")
	}
}
