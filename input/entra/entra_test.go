package entra_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/entra"
)

// answers plays Microsoft Entra ID and the metadata service of a machine.
type answers struct {
	t        *testing.T
	requests []string
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		require.NoError(a.t, err)
		body = string(raw)
	}
	a.requests = append(a.requests, r.Method+" "+r.URL.String()+" "+body)
	text := `{"token_type":"Bearer","expires_in":"3600","access_token":"a-token"}`
	if strings.Contains(r.URL.Path, "openid-configuration") {
		text = `{"authorization_endpoint":"https://login.microsoftonline.com/tenant/authorize","token_endpoint":"https://login.microsoftonline.com/tenant/oauth2/v2.0/token","issuer":"https://login.microsoftonline.com/tenant/v2.0"}`
	}
	if strings.Contains(r.URL.Path, "/token") && r.Method == http.MethodPost {
		text = `{"token_type":"Bearer","expires_in":3600,"access_token":"a-token"}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func TestServicePrincipal(t *testing.T) {
	t.Parallel()
	server := &answers{t: t}
	source, err := entra.New(entra.Config{Method: entra.ServicePrincipal, TenantID: "tenant", ClientID: "client", ClientSecret: "s3cret", Transport: server})
	require.NoError(t, err)
	for range 2 {
		token, err := source(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a-token", token)
	}
	last := server.requests[len(server.requests)-1]
	require.Contains(t, last, "grant_type=client_credentials")
	require.Contains(t, last, url.QueryEscape("https://database.windows.net/.default"))
	posts := 0
	for _, r := range server.requests {
		if strings.HasPrefix(r, "POST") {
			posts++
		}
	}
	require.Equal(t, 1, posts, "a token that is still good is used again")
}

func TestManagedIdentity(t *testing.T) {
	t.Parallel()
	server := &answers{t: t}
	source, err := entra.New(entra.Config{Method: entra.ManagedIdentity, ClientID: "0000-1111", Transport: server})
	require.NoError(t, err)
	token, err := source(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a-token", token)
	last := server.requests[len(server.requests)-1]
	require.Contains(t, last, "169.254.169.254")
	require.Contains(t, last, "client_id=0000-1111")
}

// A file and a command are asked anew for each login.
func TestTokenFileAndCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	file, err := entra.New(entra.Config{Method: entra.TokenFile, File: path})
	require.NoError(t, err)
	command, err := entra.New(entra.Config{Method: entra.TokenCommand, Command: []string{"cat", path}})
	require.NoError(t, err)
	_, err = file(t.Context())
	require.ErrorContains(t, err, "token_file")
	_, err = command(t.Context())
	require.ErrorContains(t, err, "No such file")
	for _, want := range []string{"first", "second"} {
		require.NoError(t, os.WriteFile(path, []byte(want+"\n"), 0o600))
		for _, source := range []entra.Source{file, command} {
			token, err := source(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, token)
		}
	}
	require.NoError(t, os.WriteFile(path, []byte("two words"), 0o600))
	_, err = command(t.Context())
	require.ErrorContains(t, err, "no single token")
	require.NotContains(t, err.Error(), "two words", "what was printed may be a secret")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = file(t.Context())
	require.ErrorContains(t, err, "is empty")
}

func TestFieldsOfAMethod(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config entra.Config
		want   string
	}{
		"unknown":             {entra.Config{Method: "magic"}, "unknown method"},
		"missing":             {entra.Config{Method: entra.ServicePrincipal, ClientID: "c", ClientSecret: "s3cret"}, "needs tenant_id"},
		"neither":             {entra.Config{Method: entra.ServicePrincipal, ClientID: "c", TenantID: "t"}, "either client_secret or certificate_file"},
		"both":                {entra.Config{Method: entra.ServicePrincipal, ClientID: "c", TenantID: "t", ClientSecret: "s3cret", CertificateFile: "f"}, "either client_secret or certificate_file"},
		"one too many":        {entra.Config{Method: entra.ManagedIdentity, ClientSecret: "s3cret"}, "takes no client_secret"},
		"none with something": {entra.Config{Method: entra.None, File: "f"}, "takes no token_file"},
		"no certificate":      {entra.Config{Method: entra.ServicePrincipal, ClientID: "c", TenantID: "t", CertificateFile: "/nowhere"}, "certificate_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := entra.New(tc.config)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
	source, err := entra.New(entra.Config{Method: entra.None})
	require.NoError(t, err)
	require.Nil(t, source)
}
