package output_test

import (
	"math/rand/v2"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
)

// newObjectBench is a bench whose paths lead where the config says.
func newObjectBench(t *testing.T, src service.BatchInput) *bench {
	t.Helper()
	b := newBench(t, nil)
	b.env = service.NewEnvironment()
	require.NoError(t, output.Register(b.env, output.WithRetryAfter(time.Millisecond)))
	require.NoError(t, b.env.RegisterBatchInput("source", service.NewConfigSpec(),
		func(*service.ParsedConfig, *service.Resources) (service.BatchInput, error) { return src, nil }))
	require.NoError(t, b.env.RegisterMetricsExporter("counters", service.NewConfigSpec(),
		func(*service.ParsedConfig, *service.Logger) (service.MetricsExporter, error) { return b.count, nil }))
	return b
}

// s3Server starts a server with the bucket lake and returns its URL.
func s3Server(t *testing.T) string {
	t.Helper()
	fake := s3mem.New()
	require.NoError(t, fake.CreateBucket("lake"))
	server := httptest.NewServer(gofakes3.New(fake).Server())
	t.Cleanup(server.Close)
	return server.URL
}

func openS3(t *testing.T, endpoint, uri string) store.Store {
	t.Helper()
	st, err := s3.Provider(s3.Config{Endpoint: endpoint, AccessKeyID: "id", SecretAccessKey: "topsecret"}).Open(t.Context(), uri)
	require.NoError(t, err)
	return st
}

const s3Stream = `
input: { source: {} }
pipeline: { threads: 1, processors: [] }
output:
  delta_lake:
    path: PATH
    app_id: orders
    facts_path: s3://lake/facts
    storage:
      s3:
        endpoint: ENDPOINT
        access_key_id: id
        secret_access_key: topsecret
`

func s3Config(endpoint, path string) string {
	return strings.NewReplacer("ENDPOINT", endpoint, "PATH", path).Replace(s3Stream)
}

func TestStreamIntoAnObjectStore(t *testing.T) {
	t.Parallel()
	endpoint := s3Server(t)
	h := changetest.Random(rand.New(rand.NewPCG(3, 1)), 40, 30)
	src := sourceOf(h, 3, 20, nil)
	b := newObjectBench(t, src)
	config := s3Config(endpoint, "s3://lake/${! @database_schema }/${! @table }")
	b.run(config)
	require.NoError(t, b.state.Err())
	require.Empty(t, src.nacks)
	got, err := changetest.ReadBack(t.Context(), openS3(t, endpoint, "s3://lake/dbo/orders"))
	require.NoError(t, err)
	require.Empty(t, changetest.Difference(h.Rows(), got))
	facts := 0
	for _, err := range openS3(t, endpoint, "s3://lake/facts").List(t.Context(), "_delta_log/", "") {
		require.NoError(t, err)
		facts++
	}
	require.Positive(t, facts)

	builder := b.env.NewStreamBuilder()
	require.NoError(t, builder.SetYAML(config))
	text, err := builder.AsYAML()
	require.NoError(t, err)
	require.NotContains(t, text, "topsecret")
}

// A server that ignores the condition ends the run before anything is written.
func TestAServerWithoutConditionalWritesIsRefused(t *testing.T) {
	t.Parallel()
	endpoint := s3Server(t)
	target, err := url.Parse(endpoint)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("If-None-Match")
	}})
	t.Cleanup(proxy.Close)
	h := changetest.Random(rand.New(rand.NewPCG(3, 1)), 4, 3)
	b := newObjectBench(t, sourceOf(h, 3, 20, nil))
	stream := b.stream(s3Config(proxy.URL, "s3://lake/orders"))
	done := make(chan error, 1)
	go func() { done <- stream.Run(t.Context()) }()
	<-b.state.Failed()
	require.NoError(t, stream.StopWithin(10*time.Second))
	<-done
	var refused *store.ConditionalPutError
	require.ErrorAs(t, b.state.Err(), &refused)
	require.ErrorContains(t, b.state.Err(), "If-None-Match")
	for info, err := range openS3(t, endpoint, "s3://lake").List(t.Context(), "", "") {
		require.NoError(t, err)
		t.Errorf("%s was written", info.Path)
	}
}
