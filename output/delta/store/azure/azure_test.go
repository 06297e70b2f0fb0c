package azure_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/azure"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remotetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

// The tests run against Azurite, Microsoft's emulator, where it is installed:
//
//	npm install --prefix .interop azurite@3.37.0
const azurite = "../../../../.interop/node_modules/.bin/azurite-blob"

const account = "lakeaccount"

var (
	endpoint   string // of the emulator; "" without one
	key        = base64.StdEncoding.EncodeToString([]byte("a key of the emulator, in base64"))
	containers atomic.Int64
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting Azurite:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	program, err := filepath.Abs(azurite)
	if err != nil {
		return 1, err
	}
	if _, err := os.Stat(program); err != nil {
		return m.Run(), nil // the tests say so
	}
	dir, err := os.MkdirTemp("", "azurite")
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(program, "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence",
		"--skipApiVersionCheck", "--disableTelemetry")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+account+":"+key)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // it says that it was killed
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	lines := bufio.NewScanner(out)
	for endpoint == "" && lines.Scan() {
		if m := regexp.MustCompile(`listens on (http://127\.0\.0\.1:\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			endpoint = m[1] + "/" + account
		}
	}
	if endpoint == "" {
		return 1, errors.New("it did not say where it listens")
	}
	go func() {
		for lines.Scan() { // it writes a line per request
		}
	}()
	return m.Run(), nil
}

func needAzurite(t *testing.T) {
	t.Helper()
	if endpoint == "" {
		t.Skip("Azurite is not installed: npm install --prefix .interop azurite@3.37.0")
	}
}

func sharedKey(t *testing.T) *container.SharedKeyCredential {
	t.Helper()
	credential, err := container.NewSharedKeyCredential(account, key)
	require.NoError(t, err)
	return credential
}

// newContainer makes an empty container.
func newContainer(t *testing.T) *container.Client {
	t.Helper()
	needAzurite(t)
	name := fmt.Sprintf("box-%d", containers.Add(1))
	client, err := container.NewClientWithSharedKeyCredential(endpoint+"/"+name, sharedKey(t), nil)
	require.NoError(t, err)
	_, err = client.Create(t.Context(), nil)
	require.NoError(t, err)
	return client
}

func nameOf(client *container.Client) string { return filepath.Base(client.URL()) }

func opener(t *testing.T) func(*http.Client, remote.Options) store.Store {
	name := nameOf(newContainer(t))
	return func(client *http.Client, o remote.Options) store.Store {
		return open(t, azure.Config{Account: account, Endpoint: endpoint, AccountKey: key, HTTPClient: client, Remote: o}, "az://"+name+"/tables/orders")
	}
}

func open(t *testing.T, c azure.Config, uri string) store.Store {
	t.Helper()
	st, err := store.NewRegistry(azure.Provider(c)).Open(t.Context(), uri)
	require.NoError(t, err)
	return st
}

func TestContract(t *testing.T) {
	t.Parallel()
	needAzurite(t)
	storetest.Run(t, remotetest.Contract(opener))
}

func TestFaults(t *testing.T) {
	t.Parallel()
	needAzurite(t)
	remotetest.RunFaults(t, opener, remotetest.Service{Signed: true})
}

func TestTable(t *testing.T) {
	t.Parallel()
	needAzurite(t)
	remotetest.RunTable(t, opener)
}

// Every kind of credential writes and reads, and every form of URI leads to one
// place.
func TestCredentials(t *testing.T) {
	t.Parallel()
	client := newContainer(t)
	token, err := sas.BlobSignatureValues{
		Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour), ContainerName: nameOf(client),
		Permissions: (&sas.ContainerPermissions{Read: true, Write: true, Create: true, Delete: true, List: true}).String(),
	}.SignWithSharedKey(sharedKey(t))
	require.NoError(t, err)
	address := "az://" + nameOf(client) + "/x"
	for name, c := range map[string]azure.Config{
		"shared key":        {Account: account, Endpoint: endpoint, AccountKey: key},
		"SAS":               {Endpoint: endpoint, SASToken: token.Encode()},
		"SAS with ?":        {Endpoint: endpoint, SASToken: "?" + token.Encode()},
		"connection string": {ConnectionString: "DefaultEndpointsProtocol=http;AccountName=" + account + ";AccountKey=" + key + ";BlobEndpoint=" + endpoint + ";"},
	} {
		st := open(t, c, address)
		path := strings.ReplaceAll(name, "?", "q")
		require.NoError(t, st.PutIfAbsent(t.Context(), path, []byte(name)), name)
		require.ErrorIs(t, st.PutIfAbsent(t.Context(), path, []byte(name)), store.ErrExists)
		got, err := st.Get(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, name, string(got))
	}

	wrong := open(t, azure.Config{Account: account, Endpoint: endpoint, AccountKey: base64.StdEncoding.EncodeToString([]byte("another"))}, address)
	_, err = wrong.Get(t.Context(), "SAS")
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
	missing := open(t, azure.Config{Account: account, Endpoint: endpoint, AccountKey: key}, "az://nowhere/x")
	_, err = missing.Get(t.Context(), "a")
	require.ErrorContains(t, err, "ContainerNotFound")
	require.NotErrorIs(t, err, store.ErrNotFound)
}

// A signature is in no message, also where the network fails and the URL is what
// the error is about.
func TestSecretsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0"
	c := azure.Config{Endpoint: "http://127.0.0.1:1/a", SASToken: "sv=2025-01-05&sig=" + secret, Remote: remote.Options{Attempts: 1}}
	st := open(t, c, "az://box/x")
	_, err := st.Get(t.Context(), "a")
	require.Error(t, err)
	require.NotContains(t, err.Error(), secret)
	require.NotContains(t, st.URL(), secret)
	_, err = store.NewRegistry(azure.Provider(c)).Open(t.Context(), "https://a.blob.core.windows.net/box/x?sig="+secret)
	require.ErrorContains(t, err, "sas_token")
	require.NotContains(t, err.Error(), secret)
	for _, c := range []azure.Config{{Account: "a", AccountKey: "not base64 " + secret}, {ConnectionString: "AccountKey " + secret}} {
		_, err = store.NewRegistry(azure.Provider(c)).Open(t.Context(), "az://box/x")
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
	}
}

func TestURIs(t *testing.T) {
	t.Parallel()
	r := store.NewRegistry(azure.Provider(azure.Config{Account: "mine", SASToken: "sig=x"}))
	for uri, want := range map[string]string{
		"abfss://box@acc.dfs.core.windows.net/a/b/":                           "https://acc.blob.core.windows.net/box/a/b",
		"abfs://box@acc.blob.core.windows.net":                                "https://acc.blob.core.windows.net/box/",
		"https://acc.dfs.core.windows.net/box/a":                              "https://acc.blob.core.windows.net/box/a",
		"abfss://space@onelake.dfs.fabric.microsoft.com/x.Lakehouse/Tables/t": "https://onelake.blob.fabric.microsoft.com/space/x.Lakehouse/Tables/t",
		"az://box/a": "az://box/a",
	} {
		st, err := r.Open(t.Context(), uri)
		require.NoError(t, err, uri)
		require.Equal(t, want, st.URL())
	}
	for _, uri := range []string{"abfss://box/a", "az://", "az:///x", "https://example.org/box/a", "https://acc.blob.core.windows.net/", "abfss://@acc.dfs.core.windows.net/x", "az://box/a//b", "az://box/../x"} {
		_, err := r.Open(t.Context(), uri)
		require.Error(t, err, uri)
	}
	_, err := store.NewRegistry(azure.Provider(azure.Config{})).Open(t.Context(), "az://box/a")
	require.ErrorContains(t, err, "account")
}

// The folders of a hierarchical namespace are blobs with a mark.
func TestFoldersAreNoObjects(t *testing.T) {
	t.Parallel()
	client := newContainer(t)
	_, err := client.NewBlockBlobClient("x/_delta_log").Upload(context.Background(), nopCloser{bytes.NewReader(nil)}, folder())
	require.NoError(t, err)
	st := open(t, azure.Config{Account: account, Endpoint: endpoint, AccountKey: key}, "az://"+nameOf(client)+"/x")
	require.NoError(t, st.Put(t.Context(), "_delta_log/0.json", nil))
	_, err = st.Get(t.Context(), "_delta_log")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = st.Open(t.Context(), "_delta_log")
	require.ErrorIs(t, err, store.ErrNotFound)
	for info, err := range st.List(t.Context(), "", "") {
		require.NoError(t, err)
		require.Equal(t, "_delta_log/0.json", info.Path)
	}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func folder() *blockblob.UploadOptions {
	yes := "true"
	return &blockblob.UploadOptions{Metadata: map[string]*string{"hdi_isfolder": &yes}}
}
