package output_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// liveHeap is what the garbage collector keeps.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// One transaction of a million rows comes in parts, becomes one commit, and needs
// the memory of a row group, not its own. Not parallel: it looks at the heap of the
// process.
func TestALargeTransactionInBoundedMemory(t *testing.T) {
	const partRows, parts = 8192, 123
	dir := t.TempDir()
	stores := store.NewRegistry(file.Provider())
	out, err := output.New("path: "+dir+"/orders\napp_id: orders\n", service.MockResources(), output.WithStores(stores))
	require.NoError(t, err)
	require.NoError(t, out.Connect(t.Context()))
	end := changetest.LSN(1000)
	env := mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion, Table: mssqlcdc.TableID{Schema: "dbo", Name: "orders"}, Instance: "dbo_orders",
		Window: mssqlcdc.Window{End: end},
	}
	before, most := liveHeap(), int64(0)
	for i := range parts {
		record := changetest.Narrow(i*partRows, partRows)
		raw := record.Column(mssqlcdc.IdxStartLSN).Data().Buffers()[1].Bytes()
		for at := 0; at+mssqlcdc.LSNSize <= len(raw); at += mssqlcdc.LSNSize {
			copy(raw[at:], end[:]) // one commit
		}
		env.Part, env.Last = i, i == parts-1
		batch, err := mssqlcdc.NewRecordBatch(env, record)
		require.NoError(t, err)
		require.NoError(t, out.WriteBatch(t.Context(), service.MessageBatch{message(batch)}))
		if i%10 == 9 {
			most = max(most, liveHeap()-before)
		}
	}
	require.NoError(t, out.Close(context.Background()))
	t.Logf("%.1f MB held at most", float64(most)/1e6)
	require.Less(t, most, int64(40<<20))

	st, err := stores.Open(t.Context(), dir+"/orders")
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	require.Equal(t, int64(1), table.Snapshot().Version())
	rows, err := table.Snapshot().NumRecords(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(partRows*parts), rows)
}
