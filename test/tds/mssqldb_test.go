package tds_test

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// selectOne answers every batch with one row of one int.
func selectOne(_ context.Context, _ *tds.Request, w *tds.Writer) error {
	w.Columns([]tds.Column{{Type: tds.TypeFixed(tds.IDInt4), Flags: tds.FlagComputed}})
	if err := w.WriteRow(1); err != nil {
		return err
	}
	w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: 1})
	return nil
}

func TestLoginFieldsAndEncryption(t *testing.T) {
	cert, err := tds.NewCertificate("db.example")
	require.NoError(t, err)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(cert.CA))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, cert.CA, 0o600))

	for _, tc := range []struct {
		name      string
		policy    tds.Encryption
		noTLS     bool
		options   []string
		encrypted bool
		tls       bool
		strict    bool
		fails     string
	}{
		{name: "none", noTLS: true, options: []string{"encrypt", "disable"}},
		{name: "client has none, certificate there", options: []string{"encrypt", "disable"}},
		{name: "login only", options: []string{"encrypt", "false", "certificate", ca}, tls: true},
		{name: "login only, untrusted", options: []string{"encrypt", "false"}, fails: "certificate"},
		{name: "full, CA given", options: []string{"encrypt", "true", "certificate", ca}, tls: true, encrypted: true},
		{name: "full, trusted", options: []string{"encrypt", "true", "trustservercertificate", "true"}, tls: true, encrypted: true},
		{name: "strict", options: []string{"encrypt", "strict", "certificate", ca}, tls: true, encrypted: true, strict: true},
		{name: "server requires", policy: tds.EncryptionRequired, options: []string{"encrypt", "false", "trustservercertificate", "true"}, tls: true, encrypted: true},
		{name: "server requires, client has none", policy: tds.EncryptionRequired, options: []string{"encrypt", "disable"}, fails: "EOF"},
		{name: "server has none, client asks for the login", policy: tds.EncryptionNone, options: []string{"encrypt", "false"}},
		{name: "server has none, client insists", policy: tds.EncryptionNone, options: []string{"encrypt", "true"}, fails: "server does not support encryption"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := tds.Config{TLS: cert.Config, Encryption: tc.policy}
			if tc.noTLS {
				cfg.TLS = nil
			}
			var login *tds.Login
			var conn *tds.Conn
			s := serve(t, cfg, &script{
				login: func(c *tds.Conn, l *tds.Login) (*tds.LoginAnswer, error) {
					login, conn = l, c
					return nil, nil
				},
				handle: selectOne,
			})
			db := s.open(t, append(tc.options, "app name", "prüfung", "workstation id", "ws", "ApplicationIntent", "ReadOnly")...)
			var n int
			err := db.QueryRowContext(t.Context(), "SELECT 1").Scan(&n)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, "sa", login.User)
			require.Equal(t, tds.Secret("pa ß;'word"), login.Password)
			require.Equal(t, "prüfung", login.App)
			require.Equal(t, "ws", login.Host)
			require.Equal(t, "shop", login.Database)
			require.True(t, login.ReadOnlyIntent())
			_, hasTLS := conn.TLS()
			require.Equal(t, tc.tls, hasTLS, "TLS at all")
			require.Equal(t, tc.encrypted, conn.Encrypted(), "TLS beyond the login")
			require.Equal(t, tc.strict, conn.Strict())
		})
	}
}
