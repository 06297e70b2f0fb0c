package maintain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

func TestOptimizePacksSmallFiles(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 20)
	commit(t, l.table, delta.Change{BlindAppend: true, Marks: []delta.Txn{{AppID: "orders", Version: 7}, {AppID: "orders#lsn.hi", Version: 3}}})
	before := l.table.Snapshot()

	dry, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 20, dry.FilesRemoved)
	require.EqualValues(t, -1, dry.Version)
	require.Equal(t, before.Version(), l.table.Snapshot().Version())

	got, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Equal(t, before.Version()+1, got.Version)
	require.Equal(t, 1, got.Commits)
	require.EqualValues(t, 20, got.FilesRemoved)
	require.EqualValues(t, 1, got.FilesAdded)
	require.Equal(t, dry.BytesRemoved, got.BytesRemoved)

	fresh := l.open(t, l.st)
	require.Equal(t, rows(0, 20), read(t, fresh, fresh.Snapshot()), "in the order in which they came")
	require.Len(t, files(t, fresh.Snapshot()), 1)
	require.Equal(t, rows(0, 20), read(t, fresh, before), "old versions stay readable")
	for app, want := range map[string]int64{"orders": 7, "orders#lsn.hi": 3} {
		v, ok := fresh.Snapshot().AppVersion(app)
		require.True(t, ok)
		require.Equal(t, want, v, "positions are nobody else's business")
	}

	again, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Zero(t, again.Commits, "nothing is left to do")

	c := commitOf(t, l.st, got.Version)
	require.Empty(t, c.Txns)
	for _, a := range c.Adds {
		require.False(t, a.DataChange)
	}
	for _, r := range c.Removes {
		require.False(t, r.DataChange)
		require.True(t, r.ExtendedFileMetadata)
		require.Equal(t, l.clock.now().UnixMilli(), r.DeletionTimestamp)
	}
	size := fmt.Sprint(c.Adds[0].Size)
	require.Equal(t, action.CommitInfo{
		Timestamp: l.clock.now().UnixMilli(), Operation: "OPTIMIZE",
		OperationParameters: map[string]string{"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false"},
		ReadVersion:         new(before.Version()), IsolationLevel: "SnapshotIsolation", IsBlindAppend: new(false),
		OperationMetrics: map[string]string{
			"numAddedFiles": "1", "numRemovedFiles": "20", "numAddedBytes": size, "numRemovedBytes": fmt.Sprint(got.BytesRemoved),
			"minFileSize": size, "p25FileSize": size, "p50FileSize": size, "p75FileSize": size, "maxFileSize": size,
			"numDeletionVectorsRemoved": "0",
		},
		EngineInfo: "test/1", TxnID: c.Info.TxnID,
	}, *c.Info)
}

func TestOptimizeKeepsPartitions(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Schema: columns("a", "p string", "ts timestamp"), PartitionBy: []string{"p", "ts"}})
	values := []string{`"a b"`, `"a%20b"`, `"ü/:+#?"`, `null`}
	var want []string
	for i := range 3 * len(values) {
		row := fmt.Sprintf(`{"a":%d,"p":%s,"ts":"2026-01-02T03:04:05.1Z"}`, i, values[i%len(values)])
		want = append(want, row)
		adds := write(t, l.table, "["+row+"]")
		if i%2 == 0 { // an older form of the value, which another reader may take differently
			adds[0].PartitionValues["ts"] = new("2026-01-02 03:04:05.100000")
		} else {
			adds[0].PartitionValues["ts"] = new("2026-01-02T03:04:05.100000Z")
		}
		commit(t, l.table, delta.Change{BlindAppend: true, Add: adds})
	}
	before := map[string]int{}
	for _, a := range files(t, l.table.Snapshot()) {
		before[partition(a)]++
	}
	got, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Equal(t, len(before), got.Bins)
	after := files(t, l.table.Snapshot())
	require.Len(t, after, len(before))
	for _, a := range after {
		require.Contains(t, before, partition(a), "by the letter")
	}
	have := read(t, l.table, l.table.Snapshot())
	slices.Sort(have)
	slices.Sort(want)
	require.Equal(t, want, have)
}

func partition(a action.Add) string {
	text := ""
	for _, name := range []string{"p", "ts"} {
		if v := a.PartitionValues[name]; v != nil {
			text += name + "=" + *v + ";"
		}
	}
	return text
}

// An append that comes while files are rewritten is not disturbed, and its rows stay
// behind the older ones for good, although the rewritten file comes later in the log.
func TestOptimizeBesideAppends(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 4)
	appended := 0
	st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op != fault.Create || appended > 0 {
			return fault.Fault{}
		}
		appended++
		return fault.Fault{Run: func(context.Context) { l.appendMany(t, 4, 1) }}
	})
	got, err := maintain.Optimize(t.Context(), l.open(t, st), maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Zero(t, got.Conflicts)
	require.Equal(t, 1, got.Commits)
	s, err := l.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, append(rows(4, 5), rows(0, 4)...), read(t, l.table, s), "in the order of the log")

	_, err = maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Equal(t, rows(0, 5), read(t, l.table, l.table.Snapshot()), "in the order in which they came")
	require.NotEmpty(t, files(t, l.table.Snapshot())[0].Tags[maintain.TagInsertionTime])
}

// interfering is a store in which something happens when the nth data file of a
// rewriting begins.
func interfering(l *lake, n int, what func()) *fault.Store {
	seen := 0
	return fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op != fault.Create {
			return fault.Fault{}
		}
		if seen++; seen != n {
			return fault.Fault{}
		}
		return fault.Fault{Run: func(context.Context) { what() }}
	})
}

func TestOptimizeGivesUpWhatOthersRemove(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Schema: columns("a", "b string", "p"), PartitionBy: []string{"p"}})
	for i := range 9 {
		appendRows(t, l.table, fmt.Sprintf(`[{"a":%d,"b":"x","p":%d}]`, i, i%3))
	}
	victim := files(t, l.table.Snapshot())[1] // of partition 1
	st := interfering(l, 3, func() { remove(t, l.table, victim) })
	got, err := maintain.Optimize(t.Context(), l.open(t, st), maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, got.Conflicts)
	require.Equal(t, 2, got.Commits, "two partitions, then the one that was disturbed")
	s, err := l.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Len(t, files(t, s), 3)
	require.Len(t, read(t, l.table, s), 8, "the deleted row does not come back")
	require.Len(t, paths(t, l.st, "p="), 9+3, "what was written in vain is gone")
}

func TestOptimizeBesideASchemaChange(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 3)
	st := interfering(l, 1, func() {
		m := l.table.Snapshot().Metadata()
		m.SchemaString = columns("a", "b string", "c").JSON()
		commit(t, l.table, delta.Change{Operation: delta.OpAddColumns, Metadata: &m, ReadVersion: l.table.Snapshot().Version()})
	})
	got, err := maintain.Optimize(t.Context(), l.open(t, st), maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, got.Conflicts)
	s, err := l.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Len(t, files(t, s), 1)
	require.Equal(t, `{"a":0,"b":"row 0","c":null}`, read(t, l.table, s)[0])
}

func TestOptimizeDoesNotGoOnForEver(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 20)
	st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op != fault.Create {
			return fault.Fault{}
		}
		return fault.Fault{Run: func(ctx context.Context) { remove(t, l.table, files(t, l.table.Snapshot())[0]) }}
	})
	got, err := maintain.Optimize(t.Context(), l.open(t, st), maintain.OptimizeOptions{})
	require.ErrorIs(t, err, maintain.ErrBusy)
	require.Equal(t, 5, got.Conflicts)
	require.Len(t, paths(t, l.st, "part-"), 20)
}

// The answer to the commit is lost, and reading it back fails: the files may belong
// to the table, so they stay.
func TestOptimizeWithUnknownOutcome(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 3)
	lost := false
	st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		switch {
		case c.Op == fault.PutIfAbsent:
			lost = true
			return fault.Fault{After: fault.ErrInjected}
		case c.Op == fault.Get && lost:
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	o := l.options()
	o.CommitTimeout = 50 * time.Millisecond
	table, err := delta.Open(t.Context(), st, o)
	require.NoError(t, err)
	_, err = maintain.Optimize(t.Context(), table, maintain.OptimizeOptions{})
	require.ErrorIs(t, err, delta.ErrUnknownOutcome)
	s, err := l.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, rows(0, 3), read(t, l.table, s))
	require.Len(t, files(t, s), 1, "it has landed")
}

func TestOptimizeRefusesDamagedFiles(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 3)
	adds := write(t, l.table, `[{"a":1},{"a":2}]`)
	adds[0].Stats = `{"numRecords":3}`
	commit(t, l.table, delta.Change{BlindAppend: true, Add: adds})
	before := paths(t, l.st, "")
	_, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.ErrorContains(t, err, adds[0].Path)
	require.ErrorContains(t, err, "2 rows and the log says 3")
	require.Equal(t, before, paths(t, l.st, ""), "nothing is left behind")
}

func TestOptimizeSizes(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropTargetFileSize: "10 kB"}})
	l.appendMany(t, 0, 40) // of about 700 bytes
	got, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, got.Commits)
	require.Greater(t, got.Bins, 1)
	require.Equal(t, rows(0, 40), read(t, l.table, l.table.Snapshot()))

	m := l.table.Snapshot().Metadata()
	m.Configuration[delta.PropTargetFileSize] = "large"
	commit(t, l.table, delta.Change{Metadata: &m, ReadVersion: l.table.Snapshot().Version()})
	_, err = maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.ErrorContains(t, err, `"large" is no size`)
}

func TestOptimizeInPieces(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 50)
	got, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{}.WithMaxPlanned(10))
	require.NoError(t, err)
	require.Greater(t, got.Commits, 3)
	require.Equal(t, rows(0, 50), read(t, l.table, l.table.Snapshot()))
	require.Len(t, files(t, l.table.Snapshot()), 1)

	l.appendMany(t, 50, 50)
	few, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{MaxBytes: 1, TargetBytes: 10_000})
	require.NoError(t, err)
	require.Equal(t, 1, few.Bins, "the bound ends it after the first")
	require.Len(t, read(t, l.table, l.table.Snapshot()), 100)
}

// A file is rewritten a few times on its way to full size, however small the files
// are that it came from; and few small files are left at any time.
func TestTiersBoundTheWork(t *testing.T) {
	t.Parallel()
	const small, full = 10_000, 16_000_000
	var sizes []int64
	var in, out int64
	most := 0
	for range 20_000 {
		sizes = append(sizes, small)
		in += small
		if len(sizes) < 50 {
			continue
		}
		var sum int64
		packed := maintain.Tiers(sizes, 5)
		require.NotEmpty(t, packed)
		for _, size := range packed {
			sum += size
			sizes = slices.Delete(sizes, slices.Index(sizes, size), slices.Index(sizes, size)+1)
		}
		out += sum
		if sum < full {
			sizes = append(sizes, sum)
		}
		most = max(most, len(sizes))
	}
	t.Logf("%d MB came in, %.1f times that was rewritten, at most %d small files after that", in/1e6, float64(out)/float64(in), most)
	require.Less(t, out, 6*in)
	require.Less(t, most, 10)
	require.Equal(t, []int64{10, 10, 10, 10, 10}, maintain.Tiers([]int64{1, 10, 10, 10, 10, 10, 500}, 5), "a tiny file stops nothing")
}
