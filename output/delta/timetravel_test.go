package delta_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// The table of Delta's own suite, whose commits were written at a start, 20 and 40 minutes
// later: by version and by time it has the rows of the published tables of that time.
func TestTimeTravelByTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, content := range goldenFiles(t, "golden/time-travel-start-start20-start40").table {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), content, 0o666))
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for v := range 3 {
		at := start.Add(time.Duration(v) * 20 * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(dir, replay.CommitPath(int64(v))), at, at))
	}
	st, err := file.New(dir)
	require.NoError(t, err)
	table := open(t, st, delta.Options{})
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "golden/time-travel-start"}, {20*time.Minute - time.Millisecond, "golden/time-travel-start"},
		{20 * time.Minute, "golden/time-travel-start-start20"}, {39 * time.Minute, "golden/time-travel-start-start20"},
		{40 * time.Minute, "golden/time-travel-start-start20-start40"}, {100 * time.Hour, "golden/time-travel-start-start20-start40"},
	} {
		s, err := table.AtTime(t.Context(), start.Add(c.after))
		require.NoError(t, err)
		same := open(t, goldenTable(t, c.want), delta.Options{})
		require.Equal(t, same.Snapshot().Version(), s.Version())
		var lines []string
		for rec, err := range table.Read(t.Context(), s, delta.ReadOptions{}) {
			require.NoError(t, err)
			lines = canonicalRows(lines, rec)
		}
		require.Equal(t, canonicalDigest(readCanonical(t, same, nil)), canonicalDigest(lines))
		byVersion, err := table.At(t.Context(), s.Version())
		require.NoError(t, err)
		require.Equal(t, files(t, byVersion), files(t, s))
	}
	_, err = table.AtTime(t.Context(), start.Add(-time.Millisecond))
	require.ErrorIs(t, err, delta.ErrNoVersion)
	require.ErrorContains(t, err, "as of 2026-01-02T03:04:04.999Z")
}

// clocked is a store that says of its objects when they were written.
type clocked struct {
	store.Store
	written map[string]time.Time
}

func (c clocked) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range c.Store.List(ctx, prefix, startAfter) {
			info.ModTime = c.written[info.Path]
			if !yield(info, err) {
				return
			}
		}
	}
}

func clockedLog(t *testing.T, written []time.Time, commits []action.Commit) store.Store {
	t.Helper()
	st := clocked{Store: mem.New(), written: map[string]time.Time{}}
	for v, c := range commits {
		data, err := c.Encode()
		require.NoError(t, err)
		require.NoError(t, st.Put(t.Context(), replay.CommitPath(int64(v)), data))
		st.written[replay.CommitPath(int64(v))] = written[v]
	}
	return st
}

// The version of a time is the last of those committed no later, whichever way the table
// records times and whenever it began to record them in the commits.
func TestAtTimeAgainstAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(r, "commits")
		since := rapid.IntRange(0, n).Draw(r, "since") // n: never
		gaps := rapid.Int64Range(0, 20)
		var times []int64
		var written []time.Time
		var commits []action.Commit
		now := int64(1_000_000)
		for v := range n {
			c := action.Commit{Info: &action.CommitInfo{Operation: "X"}}
			file := now - gaps.Draw(r, "clock back")
			at := file
			if v > 0 {
				at = max(file, times[v-1]+1)
			}
			if v >= since {
				now = max(now, at) + 1
				at = now
				c.Info.InCommitTimestamp = &at
			}
			properties := map[string]string{}
			if since < n {
				properties["delta.enableInCommitTimestamps"] = "true"
				if since > 0 {
					properties["delta.inCommitTimestampEnablementVersion"] = fmt.Sprint(since)
					if v >= since {
						first := at
						if v > since {
							first = times[since]
						}
						properties["delta.inCommitTimestampEnablementTimestamp"] = fmt.Sprint(first)
					}
				}
			}
			if v == 0 || v == since {
				c.Protocol = &action.Protocol{MinReaderVersion: 1, MinWriterVersion: 7, WriterFeatures: []string{"inCommitTimestamp"}}
				c.Metadata = &action.Metadata{ID: "i", SchemaString: columns(t, "a").JSON(), Configuration: properties}
				if v < since {
					c.Metadata.Configuration = nil
				}
			}
			times, written, commits = append(times, at), append(written, time.UnixMilli(file)), append(commits, c)
			now += gaps.Draw(r, "gap")
		}
		table, err := delta.Open(t.Context(), clockedLog(t, written, commits), delta.Options{})
		require.NoError(r, err)
		for ask := times[0] - 3; ask < now+3; ask++ {
			want := -1
			for v, at := range times {
				if at <= ask {
					want = v
				}
			}
			s, err := table.AtTime(t.Context(), time.UnixMilli(ask))
			if want < 0 {
				require.ErrorIs(r, err, delta.ErrNoVersion)
				continue
			}
			require.NoError(r, err)
			require.EqualValues(r, want, s.Version(), "at %d of %v, in-commit since %d", ask, times, since)
		}
	})
}

func TestAtTimeRefuses(t *testing.T) {
	t.Parallel()
	properties := map[string]string{"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "0"}
	log := func() []action.Commit {
		return []action.Commit{{
			Info:     &action.CommitInfo{Operation: "X", InCommitTimestamp: new(int64(5))},
			Protocol: &action.Protocol{MinReaderVersion: 1, MinWriterVersion: 7, WriterFeatures: []string{"inCommitTimestamp"}},
			Metadata: &action.Metadata{ID: "i", SchemaString: columns(t, "a").JSON(), Configuration: properties},
		}, {Info: &action.CommitInfo{Operation: "X"}}}
	}
	table, err := delta.Open(t.Context(), clockedLog(t, make([]time.Time, 2), log()), delta.Options{})
	require.NoError(t, err)
	_, err = table.AtTime(t.Context(), time.UnixMilli(100))
	require.ErrorContains(t, err, "commit 1 has no in-commit timestamp")
	properties["delta.inCommitTimestampEnablementVersion"] = "x"
	table, err = delta.Open(t.Context(), clockedLog(t, make([]time.Time, 2), log()), delta.Options{})
	require.NoError(t, err)
	_, err = table.AtTime(t.Context(), time.UnixMilli(100))
	require.ErrorContains(t, err, "want a number")

	// Only a checkpoint is left of the log.
	only := open(t, goldenTable(t, "golden/only-checkpoint-files"), delta.Options{})
	for v := range only.Snapshot().Version() + 1 {
		require.NoError(t, only.Store().Delete(t.Context(), replay.CommitPath(v)))
	}
	_, err = only.AtTime(t.Context(), time.Now())
	require.ErrorIs(t, err, delta.ErrNoVersion)
}
