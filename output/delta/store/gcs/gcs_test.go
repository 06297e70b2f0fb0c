package gcs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/gcs"
)

// The contract and the faults run in module test/objectstore, beside the emulator.

func TestConfig(t *testing.T) {
	t.Parallel()
	for message, c := range map[string]gcs.Config{
		"credentials_file": {CredentialsFile: "/nowhere"},
		"JSON file":        {CredentialsJSON: `{"type": "service_account", "private_key": topsecret`},
		"want a URL":       {Endpoint: "localhost:4443"},
	} {
		_, err := store.NewRegistry(gcs.Provider(c)).Open(t.Context(), "gs://lake/x")
		require.ErrorContains(t, err, message)
		require.NotContains(t, err.Error(), "topsecret")
	}
}

// A credentials file is what requests are authorised by.
func TestCredentials(t *testing.T) {
	t.Parallel()
	var seen string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"access_token": "abc", "token_type": "Bearer", "expires_in": 3600}`) // the client would say
			return
		}
		seen = r.Header.Get("Authorization")
		http.Error(w, `{"error": {"code": 404, "message": "No such object", "errors": [{"reason": "notFound"}]}}`, http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	c := gcs.Config{Endpoint: server.URL, CredentialsJSON: `{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}`}
	c.HTTPClient = &http.Client{Transport: toServer(server.Listener.Addr().String())}
	st, err := store.NewRegistry(gcs.Provider(c)).Open(t.Context(), "gs://lake/x")
	require.NoError(t, err)
	_, err = st.Get(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, "Bearer abc", seen)
}

// toServer sends what is for the token service to a local one.
type toServer string

func (s toServer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = "http", string(s)
	return http.DefaultTransport.RoundTrip(req)
}
