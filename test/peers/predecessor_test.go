package peers

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input"
)

// 1: a capture instance and a table in other letter case than stored, on a server that does
// not care, are found, for the snapshot and its key, too.
func TestNamesInAnotherLetterCase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.twenty(t)
	p := l.pipeline(t, "DBO.T").snapshot().with("table_overrides: [ { table: DBO.T, capture_instance: DBO_T, snapshot_keys: [ ID ] } ]")
	p.run(t)
	l.exec(t, "UPDATE dbo.t SET v = N'second' WHERE id < 3")
	l.capture(t)
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "v")
}

// 13: a table is read whole once, whatever capture instance it is in when it starts again.
func TestSnapshotIsTakenOnce(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.twenty(t)
	p := l.pipeline(t, "dbo.t").snapshot()
	p.run(t)
	first, _ := p.position(t, "t")
	l.exec(t, "ALTER TABLE dbo.t ADD more int NULL")
	l.track(t, id("t"), "@capture_instance = N'second'")
	l.exec(t, "INSERT dbo.t VALUES (30, N'x', 1)")
	l.capture(t)
	for range 2 {
		p.run(t)
		state, _ := p.position(t, "t")
		require.Equal(t, "second", state.Instance)
		require.Equal(t, first.Snapshot.LSN, state.Snapshot.LSN)
		require.Len(t, p.bronze(t, "t"), 21)
	}
}

// 19, 20: the resume position is gone, or the process looks for it somewhere else, and the
// table is there. A run does not read everything again under the old name, time after time:
// it says that the table is ahead of it.
func TestPositionLostBesideItsTable(t *testing.T) {
	t.Parallel()
	for _, snapshot := range []bool{false, true} {
		l := newClockedLab(t, march())
		l.twenty(t)
		p := l.pipeline(t, "dbo.t").facts()
		if snapshot {
			p.snapshot()
		}
		p.run(t)
		l.exec(t, "UPDATE dbo.t SET v = N'second'")
		l.capture(t)
		p.run(t)
		before := p.bronze(t, "t", "id", "v")
		require.NoError(t, os.RemoveAll(p.positions()))
		if snapshot {
			l.exec(t, "UPDATE dbo.t SET v = N'third'") // nobody has read it
			l.capture(t)
			for range 2 {
				require.ErrorContains(t, p.fail(t), "the changes between are missing")
				require.Equal(t, before, p.bronze(t, "t", "id", "v"))
			}
			continue
		}
		p.run(t) // from the earliest change, which the table knows to be there
		require.Equal(t, before, p.bronze(t, "t", "id", "v"))
	}
}

// 24: a word of the configuration means the same in any letter case, as the engine takes
// it in any.
func TestWordsInAnyLetterCase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.twenty(t)
	l.exec(t, "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION OFF")
	p := l.pipeline(t, "dbo.t").snapshot().with("snapshot_isolation: SNAPSHOT", "format: RECORD_BATCH", "on_table_error: Stop")
	require.ErrorContains(t, p.begin(t, "AVAILABLE_NOW").end(t), "ALLOW_SNAPSHOT_ISOLATION", "it was not read with a weaker one")
	l.exec(t, "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
	require.NoError(t, p.begin(t, "Available_Now").end(t))
	l.requireCurrent(t, p, "t", "id", "v")
}

// 30, 34: settings that are none are refused when they are read.
func TestSettingsThatAreNone(t *testing.T) {
	t.Parallel()
	env := service.NewEnvironment()
	require.NoError(t, input.Register(env))
	for field, wrong := range map[string][]string{
		"stream_snapshot":     {"ture", "2"},
		"snapshot_isolation":  {"serializable"},
		"on_data_loss":        {"false", "[ skip, resnapshot ]"},
		"snapshot_chunk_rows": {"0", "-5"},
		"poll_interval":       {"5 fortnights", "-1s"},
	} {
		for _, value := range wrong {
			builder := env.NewStreamBuilder()
			err := builder.SetYAML("input: { mssql_cdc: { connection_string: 'sqlserver://u:p@h', tables: [ dbo.t ], checkpoint_cache: c, " + field + ": " + value + " } }\noutput: { drop: {} }\ncache_resources: [ { label: c, memory: {} } ]")
			if err == nil {
				var stream *service.Stream
				if stream, err = builder.Build(); err == nil {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					err = stream.Run(ctx) // the constructor has a say, too
					cancel()
				}
			}
			require.Error(t, err, "%s: %s", field, value)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: %s", field, value)
		}
	}
}
