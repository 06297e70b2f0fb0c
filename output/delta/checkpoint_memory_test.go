package delta_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

// What a checkpoint takes does not depend on the size of the table: the one before
// goes through it as a stream. Not parallel: it looks at the heap of the process.
func TestCheckpointMemoryStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	files, err := file.New(t.TempDir())
	require.NoError(t, err)
	st := &storetest.HeapSampler{Store: files}
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: columns(t, "a", "b string")}, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	defer table.Close(t.Context())
	n := 0
	for _, step := range []int{60_000, 120_000} {
		many := delta.Change{BlindAppend: true}
		for i := range step {
			a := realistic(n + i).Add[0]
			sum := sha256.Sum256([]byte(a.Path)) // as hard to compress as bounds of real columns
			a.Stats = fmt.Sprintf(`{"numRecords":10000,"minValues":{"a":%d,"b":"%x"},"maxValues":{"a":%d,"b":"%x"},"nullCount":{"a":0,"b":%d}}`, i, sum[:16], i+n, sum[16:], i%7)
			many.Add = append(many.Add, a)
		}
		commit(t, table, many)
		many = delta.Change{}
		require.NoError(t, table.Checkpoint(t.Context())) // whose tail is large
		for i := range 20 {
			commit(t, table, realistic(n+step+i))
		}
		n += step
		st.Peak = 0
		before := storetest.LiveHeap()
		require.NoError(t, table.Checkpoint(t.Context()))
		taken := float64(st.Peak-min(st.Peak, before)) / 1e6
		t.Logf("%d files: %.1f MB", table.Snapshot().NumFiles(), taken)
		require.NotZero(t, st.Peak)
		require.Less(t, taken, 60.0)
	}
}
