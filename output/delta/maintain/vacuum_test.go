package maintain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

// vacuumed vacuums and returns the paths that went.
func vacuumed(t *testing.T, l *lake, o maintain.VacuumOptions) []string {
	t.Helper()
	gone := []string{}
	before := paths(t, l.st, "")
	o.Found = func(info store.Info) { gone = append(gone, info.Path) }
	_, err := maintain.Vacuum(t.Context(), l.table, o)
	require.NoError(t, err)
	after := paths(t, l.st, "")
	for _, path := range before {
		require.Equal(t, !slices.Contains(gone, path), slices.Contains(after, path), path)
	}
	return gone
}

func TestVacuum(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 4)
	adds := files(t, l.table.Snapshot())
	orphan := write(t, l.table, `[{"a":99}]`)
	remove(t, l.table, adds[0])
	old := l.table.Snapshot()
	l.clock.advance(6 * day)
	remove(t, l.table, adds[1])
	young := write(t, l.table, `[{"a":98}]`)
	require.Empty(t, vacuumed(t, l, maintain.VacuumOptions{}), "all within the retention")

	l.clock.advance(30 * time.Hour)
	dry := maintain.VacuumOptions{DryRun: true}
	version := l.table.Snapshot().Version()
	result, err := maintain.Vacuum(t.Context(), l.table, dry)
	require.NoError(t, err)
	require.EqualValues(t, 2, result.Files)
	require.Zero(t, result.Deleted)
	require.Equal(t, version, l.table.Snapshot().Version(), "a dry run leaves no trace")
	require.ElementsMatch(t, []string{adds[0].Path, orphan[0].Path}, vacuumed(t, l, maintain.VacuumOptions{}))
	require.Equal(t, rows(2, 4), read(t, l.table, l.table.Snapshot()))
	require.Equal(t, rows(1, 4), read(t, l.table, old), "which was the newest for the last 7 days")
	require.Contains(t, paths(t, l.st, ""), young[0].Path)

	newest := l.table.Snapshot().Version()
	begun, ended := commitOf(t, l.st, newest-1), commitOf(t, l.st, newest)
	require.Equal(t, action.CommitInfo{
		Timestamp: l.clock.now().UnixMilli(), Operation: "VACUUM START",
		OperationParameters: map[string]string{"retentionCheckEnabled": "true", "defaultRetentionMillis": "604800000"},
		OperationMetrics:    map[string]string{"numFilesToDelete": "2", "sizeOfDataToDelete": fmt.Sprint(result.Bytes)},
		ReadVersion:         new(newest - 2), IsolationLevel: "SnapshotIsolation", IsBlindAppend: new(true), EngineInfo: "test/1", TxnID: begun.Info.TxnID,
	}, *begun.Info)
	require.Equal(t, "VACUUM END", ended.Info.Operation)
	require.Equal(t, map[string]string{"status": "COMPLETED"}, ended.Info.OperationParameters)
	require.Equal(t, map[string]string{"numDeletedFiles": "2", "numVacuumedDirectories": "1"}, ended.Info.OperationMetrics)
	require.Empty(t, slices.Concat(begun.Adds, ended.Adds))
	at, ok := l.table.Snapshot().AppVersion(maintain.VacuumApp)
	require.True(t, ok)
	require.Equal(t, l.clock.now().UnixMilli(), at)
}

func TestVacuumLeavesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Schema: columns("a", "_p string"), PartitionBy: []string{"_p"}})
	kept := appendRows(t, l.table, `[{"a":1,"_p":"x y"},{"a":2,"_p":"ü/z"},{"a":3,"_p":null}]`)
	old := l.clock.now()
	stay := []string{
		"_delta_log/README", "_SUCCESS", "_hidden/file.parquet", ".hidden/file.parquet", "_p=1/_temporary/0/part", "_p", "__p=1/x", "a/_b/c",
		"_delta_index/x", "lake/_delta_log/00000000000000000000.json", "lake/a.parquet", "lake/x/b.parquet", ".notes.crc", "a/_change_data/x",
	}
	gone := []string{
		"a/b/c.parquet", "_p=old/part.parquet", "_change_data/cdc.parquet", "_change_data/_p=1/cdc.parquet", "lakes.parquet", "notes.txt",
		"part.parquet", ".part.parquet.crc", "\U0010FFFF",
	}
	for _, path := range slices.Concat(stay, gone) {
		l.put(t, path, old)
	}
	l.clock.advance(8 * day)
	require.ElementsMatch(t, gone, vacuumed(t, l, maintain.VacuumOptions{}))
	require.Len(t, read(t, l.table, l.table.Snapshot()), len(kept))
	result, err := maintain.Vacuum(t.Context(), l.table, maintain.VacuumOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, []string{"lake/"}, result.Nested)
}

// Files are known by what they are, however the log spells them.
func TestVacuumReadsPaths(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropDeletionVectors: "true"}})
	dv := func(kind, name string) *action.DeletionVector {
		return &action.DeletionVector{StorageType: kind, PathOrInlineDv: name, Offset: new(int32(1)), SizeInBytes: 3, Cardinality: 1}
	}
	named := map[string]string{ // in the log: in the store
		"a%20b/c%25d%2B.parquet":                      "a b/c%d+.parquet",
		"p=x%2520y/1.parquet":                         "p=x%20y/1.parquet",
		"not%zzencoded.parquet":                       "not%zzencoded.parquet",
		"plain%20written.parquet":                     "plain%20written.parquet", // by a writer that does not encode
		"./dot//slash.parquet":                        "dot/slash.parquet",
		"file:///somewhere/else/elsewhere-1.parquet":  "deep/elsewhere-1.parquet",
		"/mnt/link/elsewhere-2.parquet":               "elsewhere-2.parquet",
		"s3://bucket/table/p=1/elsewhere%203.parquet": "p=1/elsewhere 3.parquet",
	}
	c := delta.Change{BlindAppend: true}
	old := l.clock.now()
	for logPath, path := range named {
		a := action.Add{Path: logPath, Size: 1, DataChange: true}
		c.Add = append(c.Add, a)
		l.put(t, path, old)
	}
	vectors := map[string]*action.DeletionVector{
		"ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin": dv("u", "ab^-aqEH.-t@S}K{vb[*k^"),
		"deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin":    dv("u", "^-aqEH.-t@S}K{vb[*k^"),
		"dv/absolute.bin": dv("p", "s3://bucket/table/dv/absolute.bin"),
	}
	i := 0
	for path, v := range vectors {
		i++
		c.Add = append(c.Add, action.Add{Path: fmt.Sprintf("with-%d.parquet", i), Size: 1, DataChange: true, DeletionVector: v})
		l.put(t, path, old)
	}
	c.Add = append(c.Add, action.Add{Path: "inline.parquet", Size: 1, DataChange: true, DeletionVector: dv("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")})
	commit(t, l.table, c)
	l.put(t, "deletion_vector_00000000-8816-431a-aaf6-d3fe2512ff61.bin", old)
	l.clock.advance(8 * day)
	require.Equal(t, []string{"deletion_vector_00000000-8816-431a-aaf6-d3fe2512ff61.bin"}, vacuumed(t, l, maintain.VacuumOptions{}))

	// Removed, they go after the retention: all but those whose place is not known.
	var gone []action.Add
	for _, a := range files(t, l.table.Snapshot()) {
		if !strings.Contains(a.Path, "elsewhere") {
			gone = append(gone, a)
		}
	}
	remove(t, l.table, gone...)
	require.Empty(t, vacuumed(t, l, maintain.VacuumOptions{}))
	l.clock.advance(8 * day)
	require.Len(t, vacuumed(t, l, maintain.VacuumOptions{}), len(named)-3+len(vectors))
}

func TestVacuumRetention(t *testing.T) {
	t.Parallel()
	week, short := 7*day, "interval 2 days"
	for name, c := range map[string]struct {
		property string
		o        maintain.VacuumOptions
		least    time.Duration // refused
		keeps    time.Duration
	}{
		"default":                       {keeps: week},
		"by property":                   {property: short, keeps: 2 * day},
		"shorter than a week":           {o: maintain.VacuumOptions{Retention: new(6 * day)}, least: week},
		"forced":                        {o: maintain.VacuumOptions{Retention: new(6 * day), Force: true}, keeps: 6 * day},
		"nothing forced":                {o: maintain.VacuumOptions{Retention: new(time.Duration(0)), Force: true}, keeps: 0},
		"as short as the property":      {property: short, o: maintain.VacuumOptions{Retention: new(2 * day)}, keeps: 2 * day},
		"shorter than the property":     {property: short, o: maintain.VacuumOptions{Retention: new(day)}, least: 2 * day},
		"shorter than a long property":  {property: "interval 30 days", o: maintain.VacuumOptions{Retention: new(8 * day)}, least: 30 * day},
		"longer than the property":      {property: short, o: maintain.VacuumOptions{Retention: new(5 * day)}, keeps: 5 * day},
		"longer than the default":       {o: maintain.VacuumOptions{Retention: new(9 * day)}, keeps: 9 * day},
		"longer, of what is remembered": {property: "interval 0 hours", o: maintain.VacuumOptions{Retention: new(5 * day)}, keeps: 5 * day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			properties := map[string]string{}
			if c.property != "" {
				properties[delta.PropDeletedFileRetention] = c.property
			}
			l := newLake(t, delta.Spec{Properties: properties})
			want := map[string]time.Duration{} // how long ago a file was removed
			for i := range 12 {
				adds := appendRows(t, l.table, fmt.Sprintf(`[{"a":%d}]`, i))
				remove(t, l.table, adds...)
				want[adds[0].Path] = time.Duration(12-i)*day - time.Hour
				if i%3 == 0 { // forgets removed files that are old enough
					require.NoError(t, l.table.Checkpoint(t.Context()))
				}
				l.clock.advance(day)
			}
			l.clock.advance(-time.Hour)
			if c.least > 0 {
				_, err := maintain.Vacuum(t.Context(), l.table, c.o)
				var refused *maintain.RetentionError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, c.least, refused.Least)
				return
			}
			gone := vacuumed(t, l, c.o)
			for path, age := range want {
				require.Equal(t, age > c.keeps, slices.Contains(gone, path), "removed %v ago", age)
			}
		})
	}
	t.Run("longer than the log", func(t *testing.T) {
		t.Parallel()
		l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropDeletedFileRetention: short}})
		l.appendMany(t, 0, 3)
		require.NoError(t, l.table.Checkpoint(t.Context()))
		l.cut(t, 2)
		l.clock.advance(4 * day)
		l.appendMany(t, 3, 1)
		_, err := maintain.Vacuum(t.Context(), l.table, maintain.VacuumOptions{Retention: new(5 * day)})
		require.ErrorContains(t, err, "does not reach back")
		require.Empty(t, vacuumed(t, l, maintain.VacuumOptions{Retention: new(3 * day)}))
	})
	t.Run("without meaning", func(t *testing.T) {
		t.Parallel()
		l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropDeletedFileRetention: "a while"}})
		_, err := maintain.Vacuum(t.Context(), l.table, maintain.VacuumOptions{})
		require.ErrorContains(t, err, "delta.deletedFileRetentionDuration")
		_, err = maintain.Vacuum(t.Context(), newLake(t, delta.Spec{}).table, maintain.VacuumOptions{Retention: new(-day), Force: true})
		require.ErrorContains(t, err, "negative")
	})
}

// A file that was written long ago is committed while the folder is being listed.
func TestVacuumBesideALateCommit(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	staged := write(t, l.table, `[{"a":1,"b":"late"}]`)
	l.clock.advance(30 * day)
	st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op != fault.List || c.Path != "" || c.N > 1 {
			return fault.Fault{}
		}
		return fault.Fault{Run: func(context.Context) { commit(t, l.table, delta.Change{BlindAppend: true, Add: staged}) }}
	})
	got, err := maintain.Vacuum(t.Context(), l.open(t, st), maintain.VacuumOptions{})
	require.NoError(t, err)
	require.Zero(t, got.Files)
	s, err := l.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{`{"a":1,"b":"late"}`}, read(t, l.table, s))
}

func TestVacuumThatFails(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 1)
	for i := range 1000 {
		l.put(t, fmt.Sprintf("orphan-%d.parquet", i), l.clock.now())
	}
	l.clock.advance(8 * day)
	var mu sync.Mutex
	running, most, deletes := 0, 0, 0
	st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op != fault.Delete {
			return fault.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		running++
		most = max(most, running)
		if deletes++; deletes == 4 {
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{Run: func(context.Context) {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			running--
		}}
	})
	got, err := maintain.Vacuum(t.Context(), l.open(t, st), maintain.VacuumOptions{Concurrency: 2})
	require.ErrorIs(t, err, fault.ErrInjected)
	require.LessOrEqual(t, most, 3, "two, and one that failed")
	require.EqualValues(t, 1000, got.Files)
	require.LessOrEqual(t, got.Deleted, int64(800))
	s, err := l.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, rows(0, 1), read(t, l.table, s))
	end := commitOf(t, l.st, s.Version())
	require.Equal(t, map[string]string{"status": "FAILED"}, end.Info.OperationParameters)
	_, ok := s.AppVersion(maintain.VacuumApp)
	require.False(t, ok)

	done, err := maintain.Vacuum(t.Context(), l.table, maintain.VacuumOptions{NoHistory: true})
	require.NoError(t, err)
	require.LessOrEqual(t, done.Deleted, 1000-got.Deleted, "a request that failed may have deleted some")
	require.Empty(t, paths(t, l.st, "orphan"))
	require.Equal(t, s.Version(), l.table.Snapshot().Version())
}

func TestVacuumOfAReadOnlyTable(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	tracked := `{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly","invariants","rowTracking"]}}`
	require.NoError(t, l.st.Put(t.Context(), replay.CommitPath(1), []byte(tracked)))
	var refused *delta.FeatureError
	_, err := maintain.Vacuum(t.Context(), l.table, maintain.VacuumOptions{DryRun: true})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "rowTracking", refused.Name)
	_, err = maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
	require.ErrorAs(t, err, &refused)
	_, err = maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
	require.ErrorAs(t, err, &refused)
}
