package sqlserver_test

import (
	"fmt"
	"iter"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// notes are the notes of the rows of numbered from one id up to another.
func notes(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("note %d", i))
	}
	return list
}

// reads counts the statements of chunkReads that were sent.
func (l *lab) reads() int {
	n := 0
	for _, text := range l.sim.Statements() {
		if chunkReads().MatchString(text) {
			n++
		}
	}
	return n
}

// TestSimChunkInSubRanges reads one chunk with several connections: in key order, in many statements, under either level.
func TestSimChunkInSubRanges(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 400)
	l.exec("ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
	cut.limits.PartRows = 5
	cut.helpers = make(chan struct{}, 3)
	for _, isolation := range []sqlserver.SnapshotIsolation{sqlserver.ReadCommitted, sqlserver.Snapshot} {
		l.sim.ResetStatements()
		chunk, err := cut.tryRead(t, t, sqlserver.ChunkRequest{From: bound(3), To: bound(397), Isolation: isolation})
		require.NoError(t, err)
		require.Equal(t, notes(3, 397), chunk.column(2))
		require.Greater(t, l.reads(), 20)
		last := chunk.parts[len(chunk.parts)-1]
		require.Positive(t, last.Metrics.ReadSeconds)
		require.NotNil(t, last.Metrics.NetworkWait)
		require.Empty(t, cut.helpers, "every place was given back")
	}
	require.NotContains(t, l.levels(), "5")
	require.Empty(t, l.sim.Refused())
}

// TestSimChunkIsCutFinerAfterAFailure: what the server takes too long over is asked for in smaller pieces, down to a row, and
// never in other bounds of the chunk.
func TestSimChunkIsCutFinerAfterAFailure(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 300)
	cut.limits.PartRows = 1000
	l.sim.Fault(sqlserversim.Fault{Statement: chunkReads(), Times: 3, AfterRows: 2, Action: sqlserversim.CloseConnection()})
	for range 3 {
		_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{From: bound(3), To: bound(297)})
		require.Equal(t, sqlserver.Transient, sqlserver.Classify(err), "%v", err)
	}
	l.sim.ResetStatements()
	chunk, err := cut.tryRead(t, t, sqlserver.ChunkRequest{From: bound(3), To: bound(297)})
	require.NoError(t, err)
	require.Equal(t, notes(3, 297), chunk.column(2))
	require.Greater(t, l.reads(), 70, "2,000 rows a statement, then 250, 31 and 3")
	l.sim.ResetStatements()
	require.Equal(t, notes(0, 300), cut.read(t, t, nil, nil).column(2))
	require.LessOrEqual(t, l.reads(), 3, "well again: one statement a piece")
}

// TestSimChunkBreaksOff ends a read in sub-ranges early: no place and no connection is kept.
func TestSimChunkBreaksOff(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 400)
	cut.limits.PartRows = 5
	cut.helpers = make(chan struct{}, 2)
	request := sqlserver.ChunkRequest{Layout: cut.layout, Key: cut.key, Stamp: cut.stamp, Limits: cut.limits, Helpers: cut.helpers}
	for n := range 20 {
		for _, err := range cut.client.ReadChunk(t.Context(), request) {
			require.NoError(t, err)
			if n--; n < 0 {
				break
			}
		}
		require.Empty(t, cut.helpers)
	}
	require.Equal(t, notes(0, 400), cut.read(t, t, nil, nil).column(2))
	require.LessOrEqual(t, l.sim.Counters().Logins, int64(30))
}

// TestSimChunkThatNobodyConsumes does not hold up another one with which it shares places.
func TestSimChunkThatNobodyConsumes(t *testing.T) {
	t.Parallel()
	_, cut := numbered(t, 400, func(c *sqlserver.Config) { c.MaxConnections = 6 })
	cut.limits.PartRows = 3
	cut.helpers = make(chan struct{}, 2)
	request := sqlserver.ChunkRequest{Layout: cut.layout, Key: cut.key, Stamp: cut.stamp, Limits: cut.limits, Helpers: cut.helpers}
	waiting, stop := iter.Pull2(cut.client.ReadChunk(t.Context(), request))
	defer stop()
	_, err, ok := waiting()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, notes(0, 400), cut.read(t, t, nil, nil).column(2))
}

// TestSimSubRangeFails is one of several sub-ranges that fails: the chunk fails, its error says of what.
func TestSimSubRangeFails(t *testing.T) {
	t.Parallel()
	l, cut := numbered(t, 400)
	cut.limits.PartRows = 5
	cut.helpers = make(chan struct{}, 3)
	for _, statement := range []*regexp.Regexp{chunkReads(), regexp.MustCompile("OFFSET @skip ROWS")} {
		for skip := range 12 {
			l.sim.Fault(sqlserversim.Fault{Statement: statement, Skip: skip, Action: sqlserversim.RaiseError(1222, 16, 1, "locked by the test")})
			_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{})
			require.ErrorContains(t, err, "reading a chunk of table dbo.t")
			require.Equal(t, sqlserver.Transient, sqlserver.Classify(err))
			require.Empty(t, cut.helpers)
		}
	}
	require.Equal(t, notes(0, 400), cut.read(t, t, nil, nil).column(2))
}
