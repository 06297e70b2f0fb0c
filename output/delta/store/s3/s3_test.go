package s3_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remotetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

const bucket = "lake"

// server starts a server with an empty bucket and returns its URL.
func server(t *testing.T) string {
	t.Helper()
	fake := s3mem.New()
	require.NoError(t, fake.CreateBucket(bucket))
	srv := httptest.NewServer(gofakes3.New(fake).Server())
	t.Cleanup(srv.Close)
	return srv.URL
}

func config(endpoint string) s3.Config {
	return s3.Config{Endpoint: endpoint, AccessKeyID: "id", SecretAccessKey: "secret"}
}

func opener(t *testing.T) func(*http.Client, remote.Options) store.Store {
	endpoint := server(t)
	return func(client *http.Client, o remote.Options) store.Store {
		c := config(endpoint)
		c.HTTPClient, c.Remote = client, o
		return open(t, c, "s3://"+bucket+"/tables/orders")
	}
}

func open(t *testing.T, c s3.Config, uri string) store.Store {
	t.Helper()
	st, err := store.NewRegistry(s3.Provider(c)).Open(t.Context(), uri)
	require.NoError(t, err)
	return st
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, remotetest.Contract(opener))
}

func TestFaults(t *testing.T) {
	t.Parallel()
	remotetest.RunFaults(t, opener, remotetest.Service{Busy: &remotetest.Fault{Status: 409, Body: `<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>ConditionalRequestConflict</Code><Message>The conditional request cannot succeed due to a conflicting operation against this resource.</Message></Error>`}})
}

func TestTable(t *testing.T) {
	t.Parallel()
	remotetest.RunTable(t, opener)
}

// What cannot work is said when the store is opened, in the words of the config.
func TestConfig(t *testing.T) {
	t.Parallel()
	for message, c := range map[string]s3.Config{
		"together":   {Region: "x", AccessKeyID: "id"},
		"want a URL": {Endpoint: "minio:9000"},
	} {
		_, err := store.NewRegistry(s3.Provider(c)).Open(t.Context(), "s3://lake/x")
		require.ErrorContains(t, err, message)
	}
}

// The endpoint and the credentials of the environment count, and so does a host
// name with the bucket in it.
func TestEnvironment(t *testing.T) {
	endpoint := server(t)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
	} {
		t.Setenv(name, value)
	}
	st := open(t, s3.Config{}, "s3a://"+bucket+"/x")
	require.NoError(t, st.PutIfAbsent(t.Context(), "a", nil))

	inHost := false
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	c := s3.Config{Region: "eu-central-1", Remote: remote.Options{Attempts: 1}}
	c.HTTPClient = &http.Client{Transport: remotetest.NewTransport(func(req *http.Request, _ int) remotetest.Fault {
		inHost = req.URL.Host == bucket+".s3.eu-central-1.amazonaws.com"
		return remotetest.Fault{Status: 403}
	})}
	_, err := open(t, c, "s3://"+bucket+"/x").Get(t.Context(), "a")
	require.ErrorContains(t, err, "403")
	require.True(t, inHost)
	_, err = store.NewRegistry(s3.Provider(s3.Config{})).Open(t.Context(), "s3://lake/x")
	require.ErrorContains(t, err, "AWS_REGION")
}

// An answer that breaks off in the middle of its error is asked for again: it may have said that there is nothing, or not.
func TestTornAbsence(t *testing.T) {
	t.Parallel()
	c := config(server(t))
	c.Remote = remotetest.Options()
	transport := remotetest.NewTransport(func(_ *http.Request, n int) remotetest.Fault { return remotetest.Fault{Tear: n <= 2} })
	c.HTTPClient = &http.Client{Transport: transport}
	_, err := open(t, c, "s3://"+bucket+"/x").Get(t.Context(), "absent")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Len(t, transport.Requests(), 3)
}
