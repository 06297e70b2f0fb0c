package merge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// Rows of wanted keys come, all of them and no others, whatever files, row groups and deletion
// vectors they lie in.
func TestLookup(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			table := create(t, mem.New(), delta.Spec{Schema: versioned()})
			have := map[int64][]int64{} // versions by id
			for version := range int64(5) {
				var ids []int64
				for range 1 + r.IntN(40) {
					id := int64(r.IntN(60))
					ids, have[id] = append(ids, id), append(have[id], version)
				}
				slices.Sort(ids)
				w, err := table.NewWriter(t.Context(), data.WriterOptions{RowGroupRows: int64(1 + r.IntN(20))})
				require.NoError(t, err)
				require.NoError(t, w.Write(versionedBatch("append", version, ids...)))
				adds, err := w.Close()
				require.NoError(t, err)
				_, err = table.Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds})
				require.NoError(t, err)
			}
			o := byID(merge.DeletionVectors)
			o.PurgeRatio = 1
			var gone, wanted []int64
			for _, id := range r.Perm(60) {
				switch r.IntN(4) {
				case 0:
					gone = append(gone, int64(id))
					delete(have, int64(id))
				case 1, 2:
					wanted = append(wanted, int64(id), int64(id))
				}
			}
			run(t, table, merge.Source{Deletes: batches(versionedBatch("", 0, gone...))}, o)
			wanted = append(wanted, gone...)
			var want, got []string
			for _, id := range slices.Compact(slices.Sorted(slices.Values(wanted))) {
				for _, version := range have[id] {
					want = append(want, fmt.Sprint(version, " ", id))
				}
			}
			cut := r.IntN(len(wanted) + 1)
			asked := batches(versionedBatch("", 0, wanted[:cut]...), versionedBatch("", 0, wanted[cut:]...))
			for rec, err := range merge.Lookup(t.Context(), table, table.Snapshot(), asked, merge.LookupOptions{Keys: []string{"ID"}, Columns: []string{"version", "id"}}) {
				require.NoError(t, err)
				for i := range int(rec.NumRows()) {
					got = append(got, fmt.Sprint(rec.Column(0).(*array.Int64).Value(i), " ", rec.Column(1).(*array.Int64).Value(i)))
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got)
		})
	}
}

func TestLookupEnds(t *testing.T) {
	t.Parallel()
	table := create(t, mem.New(), delta.Spec{Schema: columns(field("id", schema.Long), field("open", schema.Boolean))})
	for id := range 3 {
		appendRows(t, table, batch(t, table.Snapshot().Schema(), fmt.Sprintf(`[{"id":%d,"open":true},{"id":%d,"open":false}]`, id, id)))
	}
	all := batches(batch(t, table.Snapshot().Schema(), `[{"id":0},{"id":1},{"id":2}]`, "id"))
	lookUp := func(ctx context.Context, wanted []arrow.RecordBatch, o merge.LookupOptions, stopAfter int) (rows int64, last error) {
		n := 0
		for rec, err := range merge.Lookup(ctx, table, table.Snapshot(), wanted, o) {
			if last = err; err == nil {
				rows += rec.NumRows()
			}
			if n++; n == stopAfter {
				break
			}
		}
		return rows, last
	}
	byID := merge.LookupOptions{Keys: []string{"id"}}
	rows, err := lookUp(t.Context(), all, byID, -1)
	require.NoError(t, err)
	require.EqualValues(t, 6, rows)
	rows, err = lookUp(t.Context(), all, byID, 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, rows, "the loop may end early")
	pruned := byID
	pruned.Prune = []prune.Condition{{Column: "id", Op: prune.Greater, Value: 1}}
	rows, err = lookUp(t.Context(), all, pruned, -1)
	require.NoError(t, err)
	require.EqualValues(t, 2, rows)
	rows, err = lookUp(t.Context(), nil, byID, -1)
	require.NoError(t, err)
	require.Zero(t, rows)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lookUp(ended, all, byID, -1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = lookUp(t.Context(), all, merge.LookupOptions{}, -1)
	require.ErrorContains(t, err, "no key columns")
	var shape *schema.SchemaError
	_, err = lookUp(t.Context(), batches(batch(t, table.Snapshot().Schema(), `[{"open":true}]`, "open")), byID, -1)
	require.ErrorAs(t, err, &shape)
}
