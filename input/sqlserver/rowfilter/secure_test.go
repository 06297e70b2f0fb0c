package rowfilter_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// TestSecurity reads rows under each kind of encryption, over servers of each policy, and looks at what was sent in clear.
func TestSecurity(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		policy  tds.Encryption
		options []string
		fails   string
		clear   bool // the statement may be seen on the wire
	}{
		"disabled":                         {tds.EncryptionOptional, []string{"encrypt", "disable"}, "", true},
		"optional, server without":         {tds.EncryptionNone, []string{"encrypt", "false"}, "", true},
		"optional, the login only":         {tds.EncryptionOptional, []string{"encrypt", "false"}, "", true},
		"optional, server wants all":       {tds.EncryptionRequired, []string{"encrypt", "false"}, "", false},
		"mandatory":                        {tds.EncryptionOptional, []string{"encrypt", "true"}, "", false},
		"mandatory, server wants all":      {tds.EncryptionRequired, []string{"encrypt", "true"}, "", false},
		"mandatory, server without":        {tds.EncryptionNone, []string{"encrypt", "true"}, "does not support encryption", false},
		"mandatory, another host's name":   {tds.EncryptionOptional, []string{"encrypt", "true", "hostNameInCertificate", "other.example.com"}, "x509: ", false},
		"mandatory, an unknown authority":  {tds.EncryptionOptional, []string{"encrypt", "true", "certificate", ""}, "x509: ", false},
		"mandatory, trusted blindly":       {tds.EncryptionOptional, []string{"encrypt", "true", "certificate", "", "TrustServerCertificate", "true"}, "", false},
		"strict":                           {tds.EncryptionOptional, []string{"encrypt", "strict"}, "", false},
		"strict, another host's name":      {tds.EncryptionOptional, []string{"encrypt", "strict", "hostNameInCertificate", "other.example.com"}, "x509: ", false},
		"strict, small packets":            {tds.EncryptionOptional, []string{"encrypt", "strict", "packet size", "512"}, "", false},
		"mandatory, small packets":         {tds.EncryptionOptional, []string{"encrypt", "true", "packet size", "512"}, "", false},
		"mandatory, large packets":         {tds.EncryptionOptional, []string{"encrypt", "true", "packet size", "32767"}, "", false},
		"disabled, large packets":          {tds.EncryptionOptional, []string{"encrypt", "disable", "packet size", "32767"}, "", true},
		"optional, login only, TLS 1.2":    {tds.EncryptionOptional, []string{"encrypt", "false", "tlsmin", "1.2"}, "", true},
		"optional, another host's name":    {tds.EncryptionRequired, []string{"encrypt", "false", "TrustServerCertificate", "false", "hostNameInCertificate", "other.example.com"}, "x509: ", false},
		"mandatory, name in the statement": {tds.EncryptionOptional, []string{"encrypt", "true", "hostNameInCertificate", "localhost"}, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, ca := withTLS(t)
			config.Encryption = c.policy
			h := newHost(t, config)
			var wire *limitedConn
			h.dialed = limitReads(&wire)
			h.says(rowset(3, 5000, mixed()...))
			db := h.open(t, true, append([]string{"certificate", ca}, c.options...)...)
			got := read(t.Context(), db, wants(1000, 1<<20, asked(mixed())...))
			sent := wire.written()
			require.NotContains(t, string(sent), "Sup3rSecret")
			require.Equal(t, c.clear, bytes.Contains(sent, inUTF16("SELECT rows")))
			if c.fails != "" {
				require.ErrorContains(t, got.err, c.fails)
				// Nothing but PRELOGIN packets, and the records of a TLS handshake, has left.
				require.False(t, bytes.Contains(sent, []byte{0x10, 0x01}) && bytes.Contains(sent, inUTF16("go-mssqldb")))
				return
			}
			require.NoError(t, got.err)
			require.Equal(t, "filter", got.choice.Reader)
			require.EqualValues(t, 5000, got.rows())
			ping(t, t.Context(), db)
		})
	}
}

// TestLongTokens logs in with a token that takes several packets.
func TestLongTokens(t *testing.T) {
	t.Parallel()
	for _, encrypt := range []string{"true", "strict"} {
		config, ca := withTLS(t)
		config.FedAuth = tds.FedAuthRequired
		h := newHost(t, config)
		h.token = strings.Repeat("tok.", 3000)
		h.says(rowset(3, 500, mixed()...))
		got := read(t.Context(), h.open(t, true, "certificate", ca, "encrypt", encrypt), wants(1000, 1<<20, asked(mixed())...))
		require.NoError(t, got.err, encrypt)
		require.EqualValues(t, 500, got.rows())
	}
}

func inUTF16(text string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

// TestNothingLeavesInClear answers PRELOGIN with anything but encryption: the connection ends, and all that has left is PRELOGIN.
func TestNothingLeavesInClear(t *testing.T) {
	t.Parallel()
	prelogin := func(encryption ...byte) []byte {
		b := []byte{4, 1, 0, 0, 0, 0, 1, 0, 1, 0, 6, 0, byte(len(encryption)), 0xFF}
		b = append(b, encryption...)
		b[3] = byte(len(b))
		return b
	}
	cases := map[string][]byte{
		"off": prelogin(0), "not supported": prelogin(2), "nothing about it": prelogin(), "unknown": prelogin(9), "strict": prelogin(4),
		"another type of packet": append([]byte{0x12}, prelogin(1)[1:]...), "no last packet": append([]byte{4, 0}, prelogin(1)[2:]...),
		"text": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "closed": {}, "a short packet": {4, 1, 0, 4, 0, 0, 1, 0},
		"a huge packet": {4, 1, 0xFF, 0xFF, 0, 0, 1, 0}, "encryption, then garbage": append(prelogin(1), "garbage garbage"...),
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			var logins atomic.Int32
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					logins.Add(talk(conn, answer))
				}
			}()
			h := &host{listen: l}
			var wire *limitedConn
			h.dialed = limitReads(&wire)
			db := h.open(t, true, "encrypt", "true")
			require.Error(t, db.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int)))
			sent := wire.written()
			for at := 0; at < len(sent); at += int(sent[at+2])<<8 | int(sent[at+3]) {
				require.EqualValues(t, 0x12, sent[at], "a packet that is not PRELOGIN")
			}
			require.NoError(t, l.Close())
			<-done
			require.Zero(t, logins.Load())
		})
	}
}

// talk answers the first packet and counts LOGIN7 packets after it.
func talk(conn net.Conn, answer []byte) (logins int32) {
	defer conn.Close()
	b := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, err := conn.Read(b)
		if err != nil {
			return logins
		}
		if n > 0 && b[0] == 0x10 {
			logins++
		}
		if first {
			if _, err := conn.Write(answer); err != nil || len(answer) == 0 {
				return logins
			}
		}
	}
}

// TestTheWireIsTheDrivers compares what is sent with and without the filter.
func TestTheWireIsTheDrivers(t *testing.T) {
	t.Parallel()
	for _, encrypt := range []string{"disable", "false", "true", "strict"} {
		t.Run(encrypt, func(t *testing.T) {
			t.Parallel()
			config, ca := withTLS(t)
			if encrypt == "false" {
				config.TLS = nil // or the login is in TLS, which no one but the two can read
			}
			var seen [2]struct {
				versions []uint32
				sent     []byte
			}
			for i, filter := range []bool{false, true} {
				var version atomic.Uint32
				cfg := config
				cfg.Hooks.Login = func(_ *tds.Conn, login *tds.Login) tds.Fault {
					version.Store(uint32(login.Version))
					return tds.Fault{}
				}
				h := newHost(t, cfg)
				var wire *limitedConn
				h.dialed = limitReads(&wire)
				h.says(rowset(3, 50, mixed()...))
				db := h.open(t, filter, "certificate", ca, "encrypt", encrypt)
				got := read(t.Context(), db, withArgs(wants(1000, 1<<20, asked(mixed())...)))
				require.NoError(t, got.err)
				ping(t, t.Context(), db)
				seen[i].versions, seen[i].sent = []uint32{version.Load()}, wire.written()
			}
			require.Equal(t, seen[0].versions, seen[1].versions)
			if encrypt == "disable" || encrypt == "false" {
				require.Equal(t, untraced(seen[0].sent), untraced(seen[1].sent))
				return
			}
			if encrypt == "true" {
				n := int(seen[0].sent[2])<<8 | int(seen[0].sent[3])
				require.Equal(t, untraced(seen[0].sent[:n]), untraced(seen[1].sent[:n]), "PRELOGIN")
			}
		})
	}
}

func withArgs(s fetch.Statement) fetch.Statement {
	s.Args = []sql.NamedArg{sql.Named("from", []byte{1, 2, 3}), sql.Named("to", int64(7))}
	return s
}

// untraced blanks the identity of the connection, which PRELOGIN ends with and which is random.
func untraced(sent []byte) string {
	b := bytes.Clone(sent)
	end := int(b[2])<<8 | int(b[3])
	clear(b[end-36 : end])
	return fmt.Sprintf("%x", b)
}
