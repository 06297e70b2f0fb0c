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

// asV2 makes the classic checkpoint of a version a v2 checkpoint in JSON with a sidecar, which it returns.
func (l *lake) asV2(t *testing.T, version int64) string {
	t.Helper()
	sidecar := fmt.Sprintf("%sof-%d.parquet", replay.SidecarDir, version)
	classic, err := l.st.Get(t.Context(), replay.CheckpointPath(version))
	require.NoError(t, err)
	at := noon(int(version))
	require.NoError(t, l.st.Store.Put(t.Context(), sidecar, classic))
	l.st.set(sidecar, at)
	s, err := l.table.At(t.Context(), version)
	require.NoError(t, err)
	commit := action.Commit{Protocol: new(s.Protocol()), Metadata: new(s.Metadata())}
	text, err := commit.Encode()
	require.NoError(t, err)
	text = fmt.Appendf(text, "{\"checkpointMetadata\":{\"version\":%d}}\n{\"sidecar\":{\"path\":\"of-%d.parquet\",\"sizeInBytes\":%d,\"modificationTime\":0}}\n", version, version, len(classic))
	path := strings.TrimSuffix(replay.CheckpointPath(version), "parquet") + "80a083e8-7026-4e79-81be-64bd76c43a11.json"
	require.NoError(t, l.st.Store.Put(t.Context(), path, text))
	l.st.set(path, at)
	require.NoError(t, l.st.Delete(t.Context(), replay.CheckpointPath(version), "_delta_log/_last_checkpoint"))
	return sidecar
}

func TestCleanLogSidecars(t *testing.T) {
	t.Parallel()
	l := aged(t, 30, 5, 18, 25)
	first, second, third := l.asV2(t, 5), l.asV2(t, 18), l.asV2(t, 25)
	orphan, young := replay.SidecarDir+"orphan.parquet", replay.SidecarDir+"young.parquet"
	sum := func(sidecar string) string {
		return replay.SidecarDir + "." + strings.TrimPrefix(sidecar, replay.SidecarDir) + ".crc"
	}
	l.put(t, orphan, noon(2))
	l.put(t, young, noon(25))
	l.put(t, sum(first), noon(5))
	l.put(t, sum(second), noon(5))
	fresh := l.open(t, l.st)
	want, before := read(t, fresh, fresh.Snapshot()), paths(t, l.st, "")

	dry, err := maintain.CleanLog(t.Context(), fresh, maintain.LogOptions{DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 18, dry.Oldest)
	require.EqualValues(t, 3, dry.Sidecars)
	require.EqualValues(t, 18+1+3, dry.Files)
	require.Equal(t, before, paths(t, l.st, ""))

	got, err := maintain.CleanLog(t.Context(), fresh, maintain.LogOptions{})
	require.NoError(t, err)
	require.Equal(t, dry.Files, got.Deleted)
	require.Equal(t, []string{sum(second), second, third, young}, paths(t, l.st, replay.SidecarDir))
	again := l.open(t, l.st)
	require.Equal(t, want, read(t, again, again.Snapshot()))
	for v := int64(18); v <= 30; v++ {
		s, err := again.At(t.Context(), v)
		require.NoError(t, err)
		require.Len(t, read(t, again, s), int(v))
	}

	// Later only sidecars are left to go: what crashed writers of checkpoints left.
	l.put(t, orphan, noon(2))
	got, err = maintain.CleanLog(t.Context(), again, maintain.LogOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Sidecars)
	require.EqualValues(t, 1, got.Deleted)
	require.Empty(t, got.Kept)
}

// Where a checkpoint that stays cannot be read, nobody knows which sidecars it needs.
func TestCleanLogKeepsSidecarsOfWhatItCannotRead(t *testing.T) {
	t.Parallel()
	l := aged(t, 30, 5, 18, 25)
	l.asV2(t, 18)
	l.asV2(t, 25)
	broken := strings.TrimSuffix(replay.CheckpointPath(25), "parquet") + "80a083e8-7026-4e79-81be-64bd76c43a11.json"
	text, err := l.st.Get(t.Context(), broken)
	require.NoError(t, err)
	require.NoError(t, l.st.Store.Put(t.Context(), broken, text[:len(text)/2]))
	fresh := l.table
	l.put(t, replay.SidecarDir+"orphan.parquet", noon(2))
	before := paths(t, l.st, replay.SidecarDir)
	_, err = maintain.CleanLog(t.Context(), fresh, maintain.LogOptions{})
	require.ErrorContains(t, err, "no sidecar is deleted")
	require.ErrorContains(t, err, broken)
	require.Equal(t, before, paths(t, l.st, replay.SidecarDir))
}

// A checkpoint that is being written has its sidecars first: they stay for a day whatever the retention is.
func TestCleanLogSparesYoungSidecars(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	appendRows(t, l.table, `[{"a":1,"b":"x"}]`)
	now := l.clock.now()
	young, old := replay.SidecarDir+"young.parquet", replay.SidecarDir+"old.parquet"
	l.put(t, young, now.Add(-35*time.Hour)) // yesterday
	l.put(t, old, now.Add(-37*time.Hour))
	got, err := maintain.CleanLog(t.Context(), l.table, maintain.LogOptions{Retention: new(time.Duration(0))})
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Sidecars)
	require.Equal(t, []string{young}, paths(t, l.st, replay.SidecarDir))
}
