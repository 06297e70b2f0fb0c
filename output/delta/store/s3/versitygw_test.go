package s3_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remotetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

// These tests run against versitygw, a gateway to files that checks signatures,
// where it is installed:
//
//	GOBIN=$PWD/.interop/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
const versitygw = "../../../../.interop/bin/versitygw"

// leastPart is the least size of a part that S3 takes.
const leastPart = 5 << 20

// gateway starts a gateway on an empty directory and returns its URL.
func gateway(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs(versitygw)
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("versitygw is not installed: GOBIN=$PWD/.interop/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	}
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, bucket), 0o777))
	address := freeAddress(t)
	cmd := exec.CommandContext(context.Background(), program, "--access", "id", "--secret", "secret", "--port", address, "--quiet", "posix", root)
	cmd.Dir = t.TempDir()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it says that it was killed
	})
	for range 200 {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			require.NoError(t, conn.Close())
			return "http://" + address
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the gateway does not listen: %s", bufio.NewScanner(&out).Text())
	return ""
}

// freeAddress is a port that nobody used a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// onGateway opens places of their own in one gateway.
func onGateway(t *testing.T) remotetest.Opener {
	endpoint := gateway(t)
	return func(t *testing.T) func(*http.Client, remote.Options) store.Store {
		place := fmt.Sprintf("s3://%s/%x/orders", bucket, t.Name())
		return func(client *http.Client, o remote.Options) store.Store {
			c := config(endpoint)
			o.PartBytes = leastPart
			c.HTTPClient, c.Remote = client, o
			return open(t, c, place)
		}
	}
}

func TestGateway(t *testing.T) {
	t.Parallel()
	opener := onGateway(t)
	t.Run("contract", func(t *testing.T) { t.Parallel(); storetest.Run(t, remotetest.Contract(opener)) })
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		remotetest.RunFaults(t, opener, remotetest.Service{Signed: true, PartBytes: leastPart})
	})
	t.Run("table", func(t *testing.T) { t.Parallel(); remotetest.RunTable(t, opener) })
}

func TestGatewayProcesses(t *testing.T) {
	t.Parallel()
	race(t, gateway(t))
}

// A wrong secret is an error that says so, and is not absence.
func TestGatewayRefuses(t *testing.T) {
	t.Parallel()
	endpoint := gateway(t)
	c := s3.Config{Endpoint: endpoint, AccessKeyID: "id", SecretAccessKey: "wrong-secret"}
	st := open(t, c, "s3://"+bucket+"/x")
	_, err := st.Get(t.Context(), "a")
	require.ErrorContains(t, err, "SignatureDoesNotMatch")
	require.NotErrorIs(t, err, store.ErrNotFound)
	require.NotContains(t, err.Error(), "wrong-secret")
	require.ErrorIs(t, st.PutIfAbsent(t.Context(), "a", nil), store.ErrNotDone)
	missing := open(t, config(endpoint), "s3://nowhere/x")
	_, err = missing.Get(t.Context(), "a")
	require.ErrorContains(t, err, "NoSuchBucket")
	require.NotErrorIs(t, err, store.ErrNotFound)
}
