package processor_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// The control table may be in an object store.
func TestFinalizeInAnObjectStore(t *testing.T) {
	t.Parallel()
	fake := s3mem.New()
	require.NoError(t, fake.CreateBucket("lake"))
	server := httptest.NewServer(gofakes3.New(fake).Server())
	t.Cleanup(server.Close)

	batch := recordOf(t, 2)
	batch.Mark("sink", mssqlcdc.Committed)
	out := run(t, fmt.Sprintf(`
finalize:
  control_path: s3://lake/control
  storage: { s3: { endpoint: %q, access_key_id: id, secret_access_key: secret } }
`, server.URL), messageOf(batch))
	require.NoError(t, out[0].GetError())

	st, err := s3.Provider(s3.Config{Endpoint: server.URL, AccessKeyID: "id", SecretAccessKey: "secret"}).Open(t.Context(), "s3://lake/control")
	require.NoError(t, err)
	table, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	verdict, err := table.Get(t.Context(), "dbo.orders")
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), verdict.FinalizedUntil)
}
