// Package objectstore runs the store of Google Cloud Storage against an emulator.
// It is a module of its own: what the emulator depends on is no business of the
// program or of those who use its packages.
package objectstore

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/gcs"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remotetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

const bucket = "lake"

// server starts an emulator with an empty bucket and returns its URL.
func server(t *testing.T) string {
	t.Helper()
	listener := httptest.NewUnstartedServer(nil)
	address := "http://" + listener.Listener.Addr().String()
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, Scheme: "http", ExternalURL: address, PublicHost: listener.Listener.Addr().String(), Writer: io.Discard,
	})
	require.NoError(t, err)
	t.Cleanup(fake.Stop)
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	listener.Config.Handler = &resumable{next: fake.HTTPHandler(), sessions: map[string]*session{}}
	listener.Start()
	t.Cleanup(listener.Close)
	return address
}

func opener(t *testing.T) func(*http.Client, remote.Options) store.Store {
	endpoint := server(t)
	return func(client *http.Client, o remote.Options) store.Store {
		return open(t, gcs.Config{Endpoint: endpoint, Anonymous: true, HTTPClient: client, Remote: o}, "gs://"+bucket+"/tables/orders")
	}
}

func open(t *testing.T, c gcs.Config, uri string) store.Store {
	t.Helper()
	st, err := store.NewRegistry(gcs.Provider(c)).Open(t.Context(), uri)
	require.NoError(t, err)
	return st
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, remotetest.Contract(opener))
}

func TestFaults(t *testing.T) {
	t.Parallel()
	remotetest.RunFaults(t, opener, remotetest.Service{})
}

func TestTable(t *testing.T) {
	t.Parallel()
	remotetest.RunTable(t, opener)
}
