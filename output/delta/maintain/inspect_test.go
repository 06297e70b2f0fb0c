package maintain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{
		Schema: columns("a", "p string"), PartitionBy: []string{"p"}, Name: "orders", Comment: "all of them",
		Properties: map[string]string{delta.PropLogRetention: "interval 5 days", delta.PropDeletionVectors: "true"},
	})
	for i := range 4 {
		appendRows(t, l.table, fmt.Sprintf(`[{"a":%d,"p":"x"},{"a":%d,"p":"y"}]`, i, i))
	}
	gone := files(t, l.table.Snapshot())[0]
	remove(t, l.table, gone)
	big := action.Add{
		Path: "p=x/big", Size: 100 << 20, DataChange: true, PartitionValues: map[string]*string{"p": new("x")}, Stats: `{"numRecords":1000}`,
		DeletionVector: &action.DeletionVector{StorageType: "i", PathOrInlineDv: "0", Cardinality: 400},
	}
	c := delta.Change{Operation: delta.OpStreamingWrite, BlindAppend: true, Add: []action.Add{big}, Marks: []delta.Txn{{AppID: "b", Version: 2}, {AppID: "a", Version: 1}}}
	commit(t, l.table, c)
	require.NoError(t, l.table.Checkpoint(t.Context()))
	l.clock.advance(9 * day)

	r, err := maintain.Inspect(t.Context(), l.table)
	require.NoError(t, err)
	require.Equal(t, "orders", r.Name)
	require.Equal(t, "all of them", r.Description)
	require.EqualValues(t, 6, r.Version)
	require.Equal(t, delta.OpStreamingWrite, r.Operation)
	require.Equal(t, newClock().now(), r.Time)
	require.Equal(t, []string{"p"}, r.PartitionBy)
	d := r.Data
	require.EqualValues(t, 8, d.Files)
	require.EqualValues(t, 2, d.Partitions)
	require.EqualValues(t, 7+600, d.Rows)
	require.EqualValues(t, 400, d.DeletedRows)
	require.EqualValues(t, 7, d.Small)
	require.EqualValues(t, 100<<20, d.Largest)
	require.EqualValues(t, 1, d.Removed)
	require.Equal(t, gone.Size, d.RemovedBytes)
	require.EqualValues(t, 0, r.Log.OldestCommit)
	require.EqualValues(t, 7, r.Log.Commits)
	require.EqualValues(t, 6, r.Log.Checkpoint)
	require.Zero(t, r.Log.Tail)
	require.Equal(t, "5 days", r.Log.LogRetention)
	require.Equal(t, "a", r.Applications[0].ID)
	advice := strings.Join(r.Advice, "\n")
	require.Contains(t, advice, "400 rows are deleted and still in the files: optimize")
	require.Contains(t, advice, "cleanup deletes what is older")

	big.Path, big.Stats, big.DeletionVector = "p=x/other", "", nil
	commit(t, l.table, delta.Change{BlindAppend: true, Add: []action.Add{big}})
	r, err = maintain.Inspect(t.Context(), l.table)
	require.NoError(t, err)
	require.EqualValues(t, -1, r.Data.Rows, "a file does not say")
}

func TestFindCorruption(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 3)
	require.NoError(t, maintain.FindCorruption(t.Context(), l.st))
	text, err := l.st.Get(t.Context(), replay.CommitPath(2))
	require.NoError(t, err)
	require.NoError(t, l.st.Put(t.Context(), replay.CommitPath(2), text[:len(text)-9]))
	var damaged *maintain.CorruptLogError
	require.ErrorAs(t, maintain.FindCorruption(t.Context(), l.st), &damaged)
	require.Equal(t, replay.CommitPath(2), damaged.Path)
	require.Equal(t, 2, damaged.Line)
	require.ErrorContains(t, damaged, "the table's log is damaged: _delta_log/00000000000000000002.json, line 2: ")
}

func TestSizesAndRetentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "134217728": 128 << 20, "128mb": 128 << 20, "1 GB": 1 << 30, "2k": 2048, "5b": 5, " 3 Tb ": 3 << 40} {
		got, err := maintain.ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "mb", "0", "-1", "1.5mb", "1 xb", "1 bb", "9999999999999 tb", "1 mbk"} {
		_, err := maintain.ParseBytes(text)
		require.Error(t, err, text)
	}
	for d, want := range map[time.Duration]string{day: "1 day", 7 * day: "7 days", time.Hour: "1 hour", 36 * time.Hour: "36 hours", 90 * time.Minute: "1h30m0s", 0: "0s"} {
		require.Equal(t, want, maintain.FormatRetention(d))
	}
}
