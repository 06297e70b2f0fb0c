package sqlserver_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// chunkReads matches the statement that reads the rows of a chunk of dbo.t.
func chunkReads() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^SELECT c\..*FROM \[dbo\]\.\[t\] AS c`)
}

// numbered is a lab with a table of so many rows, cut on its primary key (g, id), ten rows a group.
func numbered(t *testing.T, rows int, change ...func(*sqlserver.Config)) (*lab, *cut) {
	t.Helper()
	l := newLab(t)
	var list []string
	for i := range rows {
		list = append(list, fmt.Sprintf("(%d, %d, N'note %d')", i/10, i, i))
	}
	l.table("g int NOT NULL, id int NOT NULL, note nvarchar(20), PRIMARY KEY (g, id)", list...)
	config := sqlserver.Config{ConnectionString: l.sim.DSN()}
	for _, c := range change {
		c(&config)
	}
	client, err := sqlserver.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return l, l.cutOf(client, "dbo_t")
}

// bound is a place in the table of numbered.
func bound(id int) sqlserver.Bound {
	g, text := fmt.Sprint(id/10), fmt.Sprint(id)
	return sqlserver.Bound{&g, &text}
}

// levels are the isolation levels of the client's sessions.
func (l *lab) levels() []string {
	l.t.Helper()
	rows, err := l.db.QueryContext(l.t.Context(), "SELECT DISTINCT CONVERT(varchar(9), transaction_isolation_level) FROM sys.dm_exec_sessions WHERE program_name = 'rpconnect-mssqlcdc'")
	require.NoError(l.t, err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var level string
		require.NoError(l.t, rows.Scan(&level))
		list = append(list, level)
	}
	require.NoError(l.t, rows.Err())
	return list
}

// requireLevelGone waits for the server to notice that a connection was closed.
func (l *lab) requireLevelGone(level string) {
	l.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); slices.Contains(l.levels(), level); <-time.After(time.Millisecond) {
		require.True(l.t, time.Now().Before(deadline), "a session is still at level %s", level)
	}
}

// TestSimSnapshotIsolationIsRefused is S-05 and S-06: the error says what to do, and no session stays behind at the level.
func TestSimSnapshotIsolationIsRefused(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 30, func(c *sqlserver.Config) { c.MaxConnections = 2 })
	for range 3 {
		_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{Isolation: sqlserver.Snapshot})
		require.ErrorContains(t, err, "ALTER DATABASE [lab] SET ALLOW_SNAPSHOT_ISOLATION ON")
		require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err))
		key := cut.key
		key.Isolation = sqlserver.Snapshot
		_, err = cut.client.MaxKey(t.Context(), cut.layout, key)
		require.ErrorContains(t, err, "ALTER DATABASE [lab] SET ALLOW_SNAPSHOT_ISOLATION ON")
		l.requireLevelGone("5")
		require.Len(t, cut.read(t, t, nil, nil).column(0), 30)
	}
}

// TestSimSnapshotIsBeingAllowed is 3956, which ALTER DATABASE leaves while older transactions are open.
func TestSimSnapshotIsBeingAllowed(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 30)
	l.exec("ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
	l.sim.Fault(sqlserversim.Fault{Statement: chunkReads(), Action: sqlserversim.RaiseError(3956, 16, 1, "in transition")})
	_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{Isolation: sqlserver.Snapshot})
	require.ErrorContains(t, err, "waits until every transaction that is open there has ended")
	require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err))
	_, err = cut.tryRead(t, t, sqlserver.ChunkRequest{Isolation: sqlserver.Snapshot})
	require.NoError(t, err)
}

// TestSimNoSessionKeepsItsSettings ends reads in every way, and looks at what the sessions are then set to.
func TestSimNoSessionKeepsItsSettings(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 100, func(c *sqlserver.Config) { c.MaxConnections = 2 })
	l.exec("ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
	cut.limits.PartRows = 10
	request := sqlserver.ChunkRequest{
		Layout: cut.layout, Key: cut.key, Stamp: cut.stamp, Limits: cut.limits, From: bound(5), To: bound(95),
		Isolation: sqlserver.Snapshot, LockTimeout: 1234 * time.Millisecond,
	}
	require.Equal(t, []string{"2"}, l.levels())
	ways := map[string]func(*testing.T){
		"whole": func(t *testing.T) {
			var during []string
			rule := l.sim.Fault(sqlserversim.Fault{Statement: chunkReads(), Times: -1, Action: sqlserversim.Run(func(context.Context) error {
				during = append(during, l.levels()...)
				return nil
			})})
			defer rule.Remove()
			logins := l.sim.Counters().Logins
			chunk, err := cut.tryRead(t, t, request)
			require.NoError(t, err)
			require.Len(t, chunk.column(0), 90)
			require.Equal(t, []string{"5", "5", "5"}, during)
			require.Equal(t, logins, l.sim.Counters().Logins)
		},
		"broken off": func(t *testing.T) {
			logins, n := l.sim.Counters().Logins, 0
			for _, err := range cut.client.ReadChunk(t.Context(), request) {
				require.NoError(t, err)
				if n++; n == 2 {
					break
				}
			}
			_, err := cut.client.MaxLSN(t.Context())
			require.NoError(t, err)
			require.Equal(t, logins, l.sim.Counters().Logins)
		},
		"broken off by its context": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var last error
			for _, err := range cut.client.ReadChunk(ctx, request) {
				cancel()
				last = err
			}
			require.ErrorIs(t, last, context.Canceled)
			require.Equal(t, sqlserver.Canceled, sqlserver.Classify(last))
		},
		"failed": func(t *testing.T) {
			for _, after := range []int64{0, 15} {
				rule := l.sim.Fault(sqlserversim.Fault{Statement: regexp.MustCompile(`c\.\[g\] > `), AfterRows: after, Action: sqlserversim.RaiseError(8134, 16, 1, "divided")})
				_, err := cut.tryRead(t, t, request)
				require.Equal(t, 1, rule.Hits())
				rule.Remove()
				require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err), "%v", err)
			}
		},
		"cannot be set back": func(t *testing.T) {
			rule := l.sim.Fault(sqlserversim.Fault{Statement: regexp.MustCompile(`READ COMMITTED$`), Action: sqlserversim.RaiseError(8134, 16, 1, "divided")})
			chunk, err := cut.tryRead(t, t, request)
			require.NoError(t, err)
			require.Len(t, chunk.column(0), 90)
			require.Equal(t, 1, rule.Hits())
		},
	}
	for name, way := range ways {
		t.Log(name)
		way(t)
		l.requireLevelGone("5")
		_, err := cut.client.MaxLSN(t.Context())
		require.NoError(t, err, name)
	}
}

// TestSimSnapshotWaitsForNobody reads around a writer that holds locks; under READ COMMITTED the wait ends with LockTimeout.
func TestSimSnapshotWaitsForNobody(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 30)
	l.exec("ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
	tx, err := l.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err = tx.ExecContext(t.Context(), "UPDATE dbo.t SET note = N'new' WHERE g = 1 AND id = 15")
	require.NoError(t, err)

	chunk, err := cut.tryRead(t, t, sqlserver.ChunkRequest{Isolation: sqlserver.Snapshot})
	require.NoError(t, err)
	require.Equal(t, "note 15", chunk.column(2)[15])
	cut.key.Isolation = sqlserver.Snapshot
	next, err := cut.client.NextBound(t.Context(), cut.layout, cut.key, nil, nil, 20)
	require.NoError(t, err)
	require.Equal(t, []string{"2", "20"}, texts(next))

	begin := time.Now()
	_, err = cut.tryRead(t, t, sqlserver.ChunkRequest{LockTimeout: 50 * time.Millisecond})
	require.Equal(t, sqlserver.Transient, sqlserver.Classify(err), "%v", err)
	require.Less(t, time.Since(begin), 20*time.Second)
}

// TestSimChunksSeek proves by locks that nothing is read but the range: a locked row outside does not stop the read.
func TestSimChunksSeek(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 200, func(c *sqlserver.Config) { c.LockTimeout = 50 * time.Millisecond })
	tx, err := l.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	// One before the range, one in its first group, one in its last group, one after it.
	for _, id := range []int{20, 52, 128, 180} {
		_, err = tx.ExecContext(t.Context(), "UPDATE dbo.t SET note = N'new' WHERE g = @p1 AND id = @p2", id/10, id)
		require.NoError(t, err)
	}
	ids := func(from, to int) []string {
		var list []string
		for id := from; id < to; id++ {
			list = append(list, fmt.Sprint(id))
		}
		return list
	}
	require.Equal(t, ids(53, 128), cut.read(t, t, bound(53), bound(128)).column(1))
	require.Equal(t, ids(53, 58), cut.read(t, t, bound(53), bound(58)).column(1))
	require.Equal(t, ids(0, 20), cut.read(t, t, nil, bound(20)).column(1))
	require.Equal(t, ids(181, 200), cut.read(t, t, bound(181), nil).column(1))

	// A bound looks at so many rows, and one more, in each of its pieces.
	for _, c := range []struct {
		from, rows int
		want       string
	}{{53, 20, "73"}, {53, 4, "57"}, {21, 11, "32"}} {
		next, err := cut.client.NextBound(t.Context(), cut.layout, cut.key, bound(c.from), bound(199), int64(c.rows))
		require.NoError(t, err)
		require.Equal(t, c.want, *next[1])
	}
	last, err := cut.client.MaxKey(t.Context(), cut.layout, cut.key)
	require.NoError(t, err)
	require.Equal(t, bound(199), last)
	end, err := cut.client.EndBound(t.Context(), cut.layout, cut.key, bound(130))
	require.NoError(t, err)
	require.Equal(t, bound(131), end)
}

// TestSimChunkFaults breaks the read in every way that a server or a network can; the next read has every row once.
func TestSimChunkFaults(t *testing.T) {
	t.Parallel()
	raise := func(number int32, class uint8) sqlserversim.Action {
		return sqlserversim.RaiseError(number, class, 1, "injected")
	}
	cases := map[string]struct {
		action sqlserversim.Action
		want   sqlserver.Class
	}{
		"closed":           {sqlserversim.CloseConnection(), sqlserver.Transient},
		"reset":            {sqlserversim.ResetConnection(), sqlserver.Transient},
		"half a packet":    {sqlserversim.HalfPacket(), sqlserver.Transient},
		"end without done": {sqlserversim.EndWithoutDone(), sqlserver.Transient},
		"severe":           {sqlserversim.SevereDone(), sqlserver.Transient},
		"deadlock":         {raise(1205, 13), sqlserver.Transient},
		"lock timeout":     {raise(1222, 16), sqlserver.Transient},
		"conflict":         {raise(3961, 16), sqlserver.Transient},
		"version store":    {raise(3958, 16), sqlserver.Transient},
		"killed":           {raise(596, 21), sqlserver.Transient},
		"division":         {raise(8134, 16), sqlserver.Fatal},
		"denied":           {raise(229, 14), sqlserver.Permission},
		"no such column":   {raise(207, 16), sqlserver.Schema},
		"no such table":    {raise(208, 16), sqlserver.Schema},
	}
	for name, c := range cases {
		for _, after := range []int64{0, 25} {
			t.Run(fmt.Sprintf("%s after %d rows", name, after), func(t *testing.T) {
				t.Parallel()
				l, cut := numbered(t, 60)
				cut.limits.PartRows = 10
				l.sim.Fault(sqlserversim.Fault{Statement: chunkReads(), Skip: 1, AfterRows: after, Action: c.action})
				_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{From: bound(5), To: bound(55)})
				require.Error(t, err)
				require.Equal(t, c.want, sqlserver.Classify(err), "%v", err)
				require.ErrorContains(t, err, "reading a chunk of table dbo.t")
				require.Len(t, cut.read(t, t, bound(5), bound(55)).column(0), 50)
			})
		}
	}
}

// TestSimChunkOfADeadConnection is C-01 for chunks: what died between two calls is replaced.
func TestSimChunkOfADeadConnection(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 30)
	for range 3 {
		for spid := 50; spid < 60; spid++ {
			l.sim.Kill(spid)
		}
		require.Len(t, cut.read(t, t, nil, nil).column(0), 30)
		for spid := 50; spid < 60; spid++ {
			l.sim.Kill(spid)
		}
		require.Equal(t, []int{20, 10}, sizes(cut.walk(t, t, 20)))
	}
}

// TestSimChunksAfterDDL says what happened to the table.
func TestSimChunksAfterDDL(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY, a int, b int", "(1, 1, 1)")
	client := l.client()
	cut := l.cutOf(client, "dbo_t", "a")
	last, err := client.MaxKey(t.Context(), cut.layout, cut.key)
	require.NoError(t, err)

	l.exec("ALTER TABLE dbo.t DROP COLUMN a")
	ask := map[string]func() error{
		"read": func() error {
			_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{To: last})
			return err
		},
		"max": func() error { _, err := client.MaxKey(t.Context(), cut.layout, cut.key); return err },
		"next": func() error {
			_, err := client.NextBound(t.Context(), cut.layout, cut.key, nil, last, 1)
			return err
		},
		"end": func() error { _, err := client.EndBound(t.Context(), cut.layout, cut.key, last); return err },
	}
	for name, f := range ask {
		err := f()
		require.Equal(t, sqlserver.Schema, sqlserver.Classify(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "read its columns anew", name)
	}

	l.exec("EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'all'", "DROP TABLE dbo.t")
	ask["key"] = func() error { _, err := client.SnapshotKey(t.Context(), cut.layout, nil); return err }
	for name, f := range ask {
		err := f()
		require.Equal(t, sqlserver.Schema, sqlserver.Classify(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "its source table dbo.t is gone", name)
	}
}

// TestSimChunksWithoutPermission name the grant on the source table.
func TestSimChunksWithoutPermission(t *testing.T) {
	t.Parallel()
	l := newLab(t, sqlserversim.WithLogin("reader", "Reader1!", false))
	l.table("id int NOT NULL PRIMARY KEY, a int", "(1, 1)")
	l.exec("CREATE USER reader FOR LOGIN reader", "GRANT SELECT ON dbo.t TO reader", "GRANT SELECT ON cdc.dbo_t_CT TO reader")
	cut := l.cutOf(l.client("reader"), "dbo_t")
	require.Equal(t, []int{1}, sizes(cut.walk(t, t, 1)))
	require.True(t, cut.key.Unique)
	l.exec("REVOKE SELECT ON dbo.t FROM reader")
	for name, f := range map[string]func() error{
		"read": func() error { _, err := cut.tryRead(t, t, sqlserver.ChunkRequest{}); return err },
		"max":  func() error { _, err := cut.client.MaxKey(t.Context(), cut.layout, cut.key); return err },
		"key":  func() error { _, err := cut.client.SnapshotKey(t.Context(), cut.layout, nil); return err },
	} {
		err := f()
		var denied *sqlserver.PermissionError
		require.ErrorAs(t, err, &denied, "%s: %v", name, err)
		require.Equal(t, "GRANT SELECT ON [dbo].[t] TO [reader]", denied.Grant, name)
	}
}

// TestSimAChunkSeesEveryCommitBeforeItsStamp is the promise of a stamp: a row that is changed before it is seen changed, one
// that is changed after it comes in the stream, whether or not the chunk shows it.
func TestSimAChunkSeesEveryCommitBeforeItsStamp(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 20)
	l.exec("UPDATE dbo.t SET note = N'before' WHERE g = 0 AND id = 3")
	l.capture()
	var err error
	cut.stamp, err = cut.client.MaxLSN(t.Context())
	require.NoError(t, err)
	l.exec("UPDATE dbo.t SET note = N'after' WHERE g = 0 AND id = 4", "DELETE dbo.t WHERE g = 0 AND id = 5")
	one := cut.read(t, t, nil, nil)
	require.Equal(t, "before", one.column(2)[3])
	l.capture()
	parts, err := l.parts(cut.client, cut.layout, cut.stamp.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	var stream []string
	for _, row := range values(parts, mssqlcdc.IdxOperation) {
		stream = append(stream, row[0]+" "+row[4])
	}
	require.Equal(t, []string{"3 4", "4 4", "1 5"}, stream)
}
