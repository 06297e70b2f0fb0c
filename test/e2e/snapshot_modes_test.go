package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// A run of snapshots only ends by itself, complete; a later run of another kind goes on
// from there.
func TestSnapshotOnly(t *testing.T) {
	t.Parallel()
	for mode, more := range map[string]string{
		"chunked": "snapshot_chunk_rows: 7\n    snapshot_parallelism: 3",
		"whole":   "snapshot_mode: whole",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			l.exec(t, "ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
			l.writeEvery(t, 25*time.Second, 40)
			only := with(t, boundedYAML, "run: available_now", "run: snapshot_only\n    "+more)
			l.run(t, only)
			l.requireImages(t)
			for name, v := range l.verdicts(t) {
				require.NotEmpty(t, v.HeldBy, "%s: a commit of the time of the read may come yet", name)
			}
			l.clock.Advance(time.Second)
			require.NoError(t, l.sim.Idle(t.Context()))
			l.run(t, only)
			for name, v := range l.verdicts(t) {
				require.Empty(t, v.HeldBy, name)
				require.True(t, v.FinalizedUntil.IsZero(), "%s: completeness begins at S, in a minute that is not over", name)
			}
			for _, name := range crashTables() {
				chunks, stamps := map[int64]bool{}, map[any]bool{}
				for _, row := range l.rows(t, name) {
					require.Equal(t, int64(mssqlcdc.Read), row[mssqlcdc.ColOperation], "nothing happened meanwhile")
					chunks[row[mssqlcdc.ColChunk].(int64)], stamps[row[mssqlcdc.ColStartLSN]] = true, true
				}
				require.Equal(t, mode == "whole", len(chunks) == 1, "%s has %d chunks", name, len(chunks))
				require.Len(t, stamps, 1)
			}
			before := l.rows(t, "orders")
			l.writeEvery(t, 25*time.Second, 10)
			l.run(t, only)
			require.Len(t, l.rows(t, "orders"), len(before), "there is no snapshot to read")
			l.run(t, boundedYAML)
			l.requireImages(t)
			for name, v := range l.verdicts(t) {
				require.False(t, v.FinalizedUntil.IsZero(), name)
			}
		})
	}
}

// A snapshot at one moment is refused where the database does not allow it, before
// anything is written.
func TestWholeSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 10)
	out := l.fail(t, with(t, boundedYAML, "run: available_now", "run: snapshot_only\n    snapshot_mode: whole"))
	require.Contains(t, lastLine(out), "ALTER DATABASE [lab] SET ALLOW_SNAPSHOT_ISOLATION ON")
	require.NoDirExists(t, filepath.Join(l.dir, "lake", "orders"))
}

// The values of keys are in the rows and, until a snapshot is complete, in the resume
// position. They are in no log line, no fact and no metadata of a commit.
func TestKeyValuesStayInRows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const secret = "kEy-VaLuE-"
	l.exec(t, "CREATE TABLE dbo.people (code varchar(40) NOT NULL PRIMARY KEY, n int)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'people', @role_name = NULL")
	for i := range 60 {
		l.exec(t, fmt.Sprintf("INSERT dbo.people VALUES ('%s%03d', %d)", secret, i, i))
	}
	require.NoError(t, l.sim.Capture(t.Context()))
	yaml := with(t, boundedYAML, "tables: [ dbo.orders, dbo.order_lines ]", "tables: [ dbo.people ]\n    stream_snapshot: true\n    snapshot_chunk_rows: 7",
		"http: { enabled: false }", "http: { enabled: false }\nlogger: { level: ALL }")
	file := l.config(t, yaml)
	for range 3 { // killed in the middle, so that what is logged about errors is looked at, too
		_, err := l.crash(t.Context(), file, killAt+"=9")
		require.NoError(t, err)
	}
	open := l.position(t, "people").Snapshot
	require.False(t, open.Complete, "the test looks at an open snapshot")
	cmd, out := l.command(t.Context(), "-c", file)
	require.NoError(t, cmd.Run(), "%s", out)
	require.NotContains(t, out.String(), secret)
	l.exec(t, "UPDATE dbo.people SET n = 1 WHERE code LIKE '%7'")
	require.NoError(t, l.sim.Capture(t.Context()))
	cmd, out = l.command(t.Context(), "-c", file)
	require.NoError(t, cmd.Run(), "%s", out)
	require.NotContains(t, out.String(), secret)

	looked := 0
	require.NoError(t, filepath.WalkDir(l.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(filepath.Base(path), "pipeline-") {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		relative, err := filepath.Rel(l.dir, path)
		require.NoError(t, err)
		switch {
		case strings.HasPrefix(relative, "lake/people/") && strings.HasSuffix(path, ".parquet"):
			return nil
		case strings.HasPrefix(relative, "lake/people/_delta_log/"):
			raw = withoutStatistics(raw)
		}
		looked++
		require.NotContains(t, string(raw), secret, relative)
		return nil
	}))
	require.Greater(t, looked, 10)
}

// withoutStatistics takes the adds out of a log file: statistics of columns are theirs.
func withoutStatistics(raw []byte) []byte {
	var kept []string
	for _, line := range strings.Split(string(raw), "\n") {
		if !strings.HasPrefix(line, `{"add":`) {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, "\n"))
}
