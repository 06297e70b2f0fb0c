package bronze_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// The table knows the key columns of its source from the first commit on, or, where an
// earlier release made it, from the next one on.
func TestKeyColumnsAreAProperty(t *testing.T) {
	t.Parallel()
	h := changetest.Random(rand.New(rand.NewPCG(1, 1)), 3, 3)
	st := mem.New()
	table := open(t, st, config())
	first := h.Cut(changetest.Cursor{}, 1, 10)
	write(t, table, first)
	text, ok := table.Target().Snapshot().Property(mssqlcdc.PropKeyColumns)
	require.True(t, ok)
	keys, err := mssqlcdc.DecodeKeyColumns(text)
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, keys)
	version := table.Target().Snapshot().Metadata()
	write(t, table, h.Cut(first.After, 1, 10))
	require.Equal(t, version, table.Target().Snapshot().Metadata(), "it is written once")
}

// The last chunk of a snapshot says in its own commit that the table has it whole, and when
// the first row of it was read, whether it has rows or not.
func TestLastChunkCompletesTheSnapshot(t *testing.T) {
	t.Parallel()
	h := changetest.Random(rand.New(rand.NewPCG(2, 1)), 2, 3)
	table := open(t, mem.New(), config())
	begun := time.Date(2026, 3, 29, 2, 0, 0, 0, time.UTC)
	s := changetest.LSN(1)
	complete := func() (mssqlcdc.LSN, int64) {
		snapshot := table.Target().Snapshot()
		hi, _ := snapshot.AppVersion(config().AppID + mssqlcdc.TxnSnapshotHi)
		lo, _ := snapshot.AppVersion(config().AppID + mssqlcdc.TxnSnapshotLo)
		at, _ := snapshot.AppVersion(config().AppID + mssqlcdc.TxnSnapshotTime)
		lsn, err := mssqlcdc.LSNFromParts(hi, lo)
		require.NoError(t, err)
		return lsn, at
	}
	write(t, table, h.Chunk(mssqlcdc.Chunk{Snapshot: s, Number: 0, Prev: -1, Stamp: changetest.LSN(2), StampTime: begun}, ids(1, 2), 10, 1))
	lsn, _ := complete()
	require.True(t, lsn.IsZero(), "one chunk is missing")
	last := mssqlcdc.Chunk{Snapshot: s, Number: 1, Prev: 0, Stamp: changetest.LSN(3), StampTime: begun.Add(time.Hour), Final: true}
	result := write(t, table, h.Chunk(last, nil, 10, 1))
	require.False(t, result.Idle)
	require.Zero(t, result.Rows)
	lsn, at := complete()
	require.Equal(t, s, lsn)
	require.Equal(t, begun.UnixMicro(), at)
	require.EqualValues(t, 1, bronze.Chunks(table.Target().Snapshot(), config().AppID, s))
	again := write(t, table, h.Chunk(last, nil, 10, 2))
	require.Equal(t, mssqlcdc.Skipped, again.Mark)
}
