package maintain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

const day = 24 * time.Hour

// aged is a table with a commit a day, versions 1 to n, and checkpoints at some.
// It keeps its log for ten days. Version v was made at noon of day v.
func aged(t *testing.T, n int, checkpoints ...int64) *lake {
	t.Helper()
	l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropLogRetention: "interval 10 days"}})
	for i := range n {
		l.clock.advance(day)
		appendRows(t, l.table, fmt.Sprintf(`[{"a":%d,"b":"row %d"}]`, i, i))
		if slices.Contains(checkpoints, l.table.Snapshot().Version()) {
			require.NoError(t, l.table.Checkpoint(t.Context()))
		}
	}
	return l
}

func (l *lake) put(t *testing.T, path string, at time.Time) {
	t.Helper()
	require.NoError(t, l.st.Store.Put(t.Context(), path, []byte("x")))
	l.st.set(path, at)
}

// noon is the time of version v.
func noon(v int) time.Time { return newClock().now().Add(time.Duration(v) * day) }

func TestCleanLog(t *testing.T) {
	t.Parallel()
	l := aged(t, 30, 5, 12, 18, 25)
	old := noon(3)
	keep := []string{"_last_checkpoint", "00000000000000000003.what", "notes.txt", "00000000000000000018.json", "00000000000000000018.crc"}
	gone := []string{
		"00000000000000000003.crc", "00000000000000000003.00000000000000000007.compacted.json", ".00000000000000000003.json.crc",
		"00000000000000000004.checkpoint.0000000001.0000000002.parquet", "00000000000000000004.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
		"00000000000000000018.00000000000000000020.compacted.json", "_sidecars/1.parquet",
	}
	for _, name := range slices.Concat(keep[1:], gone) {
		if name != "00000000000000000018.json" {
			l.put(t, "_delta_log/"+name, old)
		}
	}
	want, before := read(t, l.table, l.table.Snapshot()), paths(t, l.st, "")

	// Now is noon of day 30, so the cutoff is midnight of day 20, and version 19 the
	// newest that is not younger.
	dry, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 18, dry.Oldest)
	require.EqualValues(t, 18, dry.Commits)
	require.EqualValues(t, 4, dry.Checkpoints)
	require.EqualValues(t, 18+2+7, dry.Files)
	require.Zero(t, dry.Deleted)
	require.Equal(t, noon(20).Truncate(day), dry.Cutoff)
	require.Equal(t, before, paths(t, l.st, ""))

	got, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
	require.NoError(t, err)
	require.Equal(t, dry.Files, got.Deleted)
	left := paths(t, l.st, "_delta_log/")
	for _, name := range keep {
		require.Contains(t, left, "_delta_log/"+name)
	}
	for _, name := range gone {
		require.NotContains(t, left, "_delta_log/"+name)
	}
	require.Equal(t, paths(t, l.st, "part-"), slices.DeleteFunc(before, func(p string) bool { return !strings.HasPrefix(p, "part-") }))

	fresh := l.open(t, l.st)
	require.Equal(t, want, read(t, fresh, fresh.Snapshot()))
	for v := range int64(31) {
		s, err := fresh.At(t.Context(), v)
		if v < 18 {
			require.ErrorIs(t, err, delta.ErrNoVersion, "version %d", v)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want[:v], read(t, fresh, s))
	}
	var versions []int64
	for c, err := range fresh.Commits(t.Context(), 0) {
		require.NoError(t, err)
		versions = append(versions, c.Version)
	}
	require.Len(t, versions, 13)
	require.EqualValues(t, 18, versions[0])

	again, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
	require.NoError(t, err)
	require.Zero(t, again.Files)
	require.EqualValues(t, -1, again.Oldest)
	require.NotEmpty(t, again.Kept)

	// Everything goes on with the handle that knew the deleted files.
	l.appendMany(t, 30, 1)
	require.NoError(t, l.table.Checkpoint(t.Context()))
	require.Equal(t, rows(0, 31), read(t, l.table, l.table.Snapshot()))
}

func TestCleanLogKeepsWhatIsYoung(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n           int
		checkpoints []int64
		prepare     func(t *testing.T, l *lake)
		options     maintain.LogOptions
		want        int64
	}{
		"no checkpoint":                  {n: 30, want: -1},
		"none that is old":               {n: 30, checkpoints: []int64{21, 29}, want: -1},
		"nothing is old":                 {n: 9, checkpoints: []int64{3, 8}, want: -1},
		"the cutoff is a midnight":       {n: 30, checkpoints: []int64{19, 20}, want: 19},
		"retention given":                {n: 30, checkpoints: []int64{5, 19}, options: maintain.LogOptions{Retention: new(20 * day)}, want: 5},
		"the only checkpoint":            {n: 30, checkpoints: []int64{7}, want: 7},
		"an idle table":                  {n: 5, checkpoints: []int64{2, 5}, prepare: func(_ *testing.T, l *lake) { l.clock.advance(100 * day) }, want: 5},
		"incomplete checkpoint":          {n: 30, checkpoints: []int64{5, 12}, prepare: func(t *testing.T, l *lake) { l.spoil(t, 12) }, want: 5},
		"a reader wants more":            {n: 30, checkpoints: []int64{5, 12, 18}, options: floorAt(13), want: 12},
		"a reader wants the checkpoint":  {n: 30, checkpoints: []int64{5, 12, 18}, options: floorAt(12), want: 12},
		"a reader wants it all":          {n: 30, checkpoints: []int64{5, 12, 18}, options: floorAt(3), want: -1},
		"a reader wants nothing old":     {n: 30, checkpoints: []int64{5, 12, 18}, options: floorAt(18), want: 18},
		"a commit with an earlier time":  {n: 30, checkpoints: []int64{5, 12, 18}, prepare: func(_ *testing.T, l *lake) { l.st.set(replay.CommitPath(18), noon(2)) }, want: 12},
		"times that were copied":         {n: 30, checkpoints: []int64{5, 12, 18}, prepare: func(_ *testing.T, l *lake) { l.touch(noon(29)) }, want: -1},
		"an old time after a young one":  {n: 30, checkpoints: []int64{5, 12, 18}, prepare: func(_ *testing.T, l *lake) { l.st.set(replay.CommitPath(10), noon(28)) }, want: 5},
		"a checkpoint without a commit":  {n: 30, checkpoints: []int64{5, 12}, prepare: func(t *testing.T, l *lake) { l.cut(t, 12) }, want: -1},
		"a time that is equal to before": {n: 30, checkpoints: []int64{5, 12, 18}, prepare: func(_ *testing.T, l *lake) { l.st.set(replay.CommitPath(18), noon(17)) }, want: 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := aged(t, c.n, c.checkpoints...)
			want := read(t, l.table, l.table.Snapshot())
			if c.prepare != nil {
				c.prepare(t, l)
			}
			got, err := maintain.CleanLog(t.Context(), l.table, c.options)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Oldest)
			require.Equal(t, c.want < 0, got.Kept != "" && got.Files == 0)
			fresh := l.open(t, l.st)
			require.Equal(t, want, read(t, fresh, fresh.Snapshot()))
			commits := slices.DeleteFunc(paths(t, l.st, "_delta_log/0"), func(p string) bool { return !strings.HasSuffix(p, ".json") })
			if c.want >= 0 {
				require.Equal(t, replay.CommitPath(c.want), commits[0])
			}
		})
	}
}

func floorAt(version int64) maintain.LogOptions {
	return maintain.LogOptions{Floor: func(_ context.Context, below int64) (int64, error) { return min(below, version), nil }}
}

// spoil turns a checkpoint into what a crash of some writers leaves.
func (l *lake) spoil(t *testing.T, version int64) {
	t.Helper()
	require.NoError(t, l.st.Put(t.Context(), replay.CheckpointPath(version), nil))
	l.st.set(replay.CheckpointPath(version), noon(int(version)))
}

func (l *lake) touch(at time.Time) {
	for v := range l.table.Snapshot().Version() + 1 {
		l.st.set(replay.CommitPath(v), at)
	}
}

// cut deletes the commits up to a version with it, as another clean-up may.
func (l *lake) cut(t *testing.T, version int64) {
	t.Helper()
	for v := range version + 1 {
		require.NoError(t, l.st.Delete(t.Context(), replay.CommitPath(v)))
	}
}

func TestCleanLogByCommitTimes(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Schema: columns("a"), Properties: map[string]string{
		delta.PropInCommitTimestamps: "true", delta.PropLogRetention: "interval 10 days",
	}})
	for i := range 30 {
		l.clock.advance(day)
		appendRows(t, l.table, fmt.Sprintf(`[{"a":%d}]`, i))
		if i%4 == 3 { // versions 4, 8, 12, 16, 20, …
			require.NoError(t, l.table.Checkpoint(t.Context()))
		}
	}
	l.touch(noon(1)) // times of files mean nothing here: a copy may have any
	for v := range l.table.Snapshot().Version() + 1 {
		l.st.set(replay.CommitPath(v), noon(1).Add(time.Duration(v)*time.Second))
	}
	got, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 16, got.Oldest, "19 is the newest that is not younger than the cutoff")

	got, err = maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{Retention: new(100 * day)})
	require.NoError(t, err)
	require.EqualValues(t, -1, got.Oldest)
}

func TestCleanLogRefuses(t *testing.T) {
	t.Parallel()
	t.Run("a broken checkpoint", func(t *testing.T) {
		t.Parallel()
		l := aged(t, 30, 5, 18)
		before := paths(t, l.st, "")
		data, err := l.st.Get(t.Context(), replay.CheckpointPath(18))
		require.NoError(t, err)
		for i := 4; i < 200; i++ { // the first pages
			data[i] ^= 0x55
		}
		require.NoError(t, l.st.Put(t.Context(), replay.CheckpointPath(18), data))
		_, err = maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
		require.ErrorContains(t, err, "nothing is deleted")
		require.ErrorContains(t, err, "version 18")
		require.Equal(t, before, paths(t, l.st, ""))
	})
	t.Run("protected checkpoints", func(t *testing.T) {
		t.Parallel()
		l := aged(t, 30, 5, 18)
		p := l.table.Snapshot().Protocol()
		p.MinWriterVersion, p.WriterFeatures = 7, []string{"appendOnly", "invariants", "checkpointProtection"}
		commit(t, l.table, delta.Change{Protocol: &p, ReadVersion: l.table.Snapshot().Version()})
		_, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
		var refused *delta.FeatureError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "checkpointProtection", refused.Name)
	})
	t.Run("a property without meaning", func(t *testing.T) {
		t.Parallel()
		l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropLogRetention: "interval 1 month"}})
		_, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
		require.ErrorContains(t, err, "delta.logRetentionDuration")
		_, err = maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{Retention: new(-time.Second)})
		require.Error(t, err)
	})
	t.Run("a reader that cannot tell", func(t *testing.T) {
		t.Parallel()
		l := aged(t, 30, 5, 18)
		before := paths(t, l.st, "")
		_, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{Floor: func(context.Context, int64) (int64, error) { return 0, fault.ErrInjected }})
		require.ErrorIs(t, err, fault.ErrInjected)
		require.Equal(t, before, paths(t, l.st, ""))
	})
}

// single is a store whose Delete is one request for each object.
type single struct{ store.Store }

func (s single) Delete(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		if err := s.Store.Delete(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// After any number of deletions the table reads the same, its history has no hole,
// and the next clean-up finishes the work.
func TestCleanLogCanStopAnywhere(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		l := aged(t, 16, 2, 4)
		want := read(t, l.table, l.table.Snapshot())
		deletes := 0
		st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
			if c.Op == fault.Delete {
				if deletes++; deletes >= n {
					return fault.Fault{Before: fault.ErrInjected}
				}
			}
			return fault.Fault{}
		})
		_, err := maintain.CleanLog(t.Context(), l.open(t, single{st}), maintain.LogOptions{})
		fresh := l.open(t, l.st)
		require.Equal(t, want, read(t, fresh, fresh.Snapshot()))
		last := int64(-1)
		for c, err := range fresh.Commits(t.Context(), 0) {
			require.NoError(t, err)
			require.True(t, last < 0 || c.Version == last+1)
			last = c.Version
		}
		for v := range int64(17) {
			s, err := fresh.At(t.Context(), v)
			if err != nil {
				require.ErrorIs(t, err, delta.ErrNoVersion)
				require.Less(t, v, int64(4))
				continue
			}
			require.Equal(t, want[:v], read(t, fresh, s))
		}
		if err == nil {
			require.Greater(t, n, 5)
			return
		}
		_, err = maintain.CleanLog(t.Context(), fresh, maintain.LogOptions{})
		require.NoError(t, err)
		require.Equal(t, replay.CheckpointPath(4), paths(t, l.st, "_delta_log/0")[0])
	}
}

func TestTxnFloor(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	for id := range 10 { // version 2*id+1 is of the application, the others are not
		commit(t, l.table, delta.Change{BlindAppend: true, Fenced: &delta.Txn{AppID: "orders", Version: int64(id + 1)}})
		commit(t, l.table, delta.Change{BlindAppend: true})
	}
	floor := func(app string, read int64) int64 {
		v, err := maintain.TxnFloor(t.Context(), l.table, app, read, 15)
		require.NoError(t, err)
		return v
	}
	require.EqualValues(t, 15, floor("orders", 10), "all is read")
	require.EqualValues(t, 15, floor("orders", 7), "all below is read: 7 is version 13")
	require.EqualValues(t, 13, floor("orders", 6))
	require.EqualValues(t, 5, floor("orders", 2))
	require.EqualValues(t, 1, floor("orders", -1))
	require.EqualValues(t, 15, floor("nobody", -1))
	l.cut(t, 4)
	require.EqualValues(t, 5, floor("orders", -1), "what is gone is gone")
}

// A snapshot that was made before a clean-up reads on.
func TestCleanLogUnderOpenSnapshots(t *testing.T) {
	t.Parallel()
	l := aged(t, 12, 6, 12)
	held := l.open(t, l.st).Snapshot()
	l.clock.advance(40 * day)
	commit(t, l.table, delta.Change{BlindAppend: true, Add: []action.Add{}})
	got, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 12, got.Oldest)
	require.Equal(t, rows(0, 12), read(t, l.table, held))
}
