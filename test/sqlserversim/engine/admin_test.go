package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

func TestRestoreWithKeepCDCRepeatsLSNs_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	backup := l.db.Backup()
	top := l.max()
	lost := l.insert(orders, row(2, "lost", 1))
	l.scan()
	later := l.db.CDC()
	open := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), open, orders, row(3, "open", 1)))

	require.NoError(t, l.db.Restore(l.ctx(), backup, engine.RestoreOptions{KeepCDC: true}))
	_, err := open.Commit()
	requireNumber(t, engine.ErrSessionKilled, err)
	require.Equal(t, []string{"1|a|1"}, l.rows(orders))
	require.Equal(t, top, l.max(), "LSNs fall below a stored position")
	require.False(t, l.db.JobsCreated(), "jobs must be added again")
	again := l.insert(orders, row(9, "other history", 1))
	l.scan()
	require.False(t, lost.Less(again), "LSNs used since come again")
	require.Equal(t, []string{"2 1|a|1", "2 9|other history|1"}, brief(l.changes("dbo_orders")))
	i, _ := later.Instance("dbo_orders")
	require.Equal(t, []string{"2 1|a|1", "2 2|lost|1"}, brief(readAll(later, i)), "readers of the lost history keep it")
	r, ok := later.Mapping().Find(lost)
	require.True(t, ok)
	require.Equal(t, lost, r.StartLSN)
}

func TestRestoreWithoutKeepCDC_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	require.NoError(t, l.db.Restore(l.ctx(), l.db.Backup(), engine.RestoreOptions{LogStart: engine.MakeLSN(0x15, 0x40, 1)}))
	require.False(t, l.db.CDC().Enabled())
	stored := engine.MakeLSN(0x20, 0, 0)
	require.NoError(t, l.db.EnableCDC())
	i := l.enable("orders")
	lsn := l.insert(orders, row(2, "b", 1))
	l.scan()
	require.True(t, i.StartLSN.Less(lsn))
	require.True(t, lsn.Less(stored), "a fresh log: the same name, lower LSNs")
	require.Equal(t, []string{"2 2|b|1"}, brief(l.changes("dbo_orders")))
}

func TestRestoreRefusesALogBelowKeptChanges_ours(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	err := l.db.Restore(l.ctx(), l.db.Backup(), engine.RestoreOptions{KeepCDC: true, LogStart: engine.MakeLSN(1, 1, 1)})
	require.ErrorContains(t, err, "not above max LSN")
	other := newLab(t)
	require.ErrorContains(t, l.db.Restore(l.ctx(), other.db.Backup(), engine.RestoreOptions{}), "the backup is of")
}

func TestRestoreBringsDroppedTablesBackAndTakesNewOnesAway_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	backup := l.db.Backup()
	l.create(ordersSpec("newer"))
	l.do(func(tx *engine.Tx) error { return tx.DropTable(l.ctx(), orders) })
	require.NoError(t, l.db.Restore(l.ctx(), backup, engine.RestoreOptions{KeepCDC: true}))
	require.Len(t, l.db.Tables(), 1)
	require.Equal(t, []string{"1|a|1"}, l.rows(orders))
	l.scan()
	require.Equal(t, []string{"2 1|a|1"}, brief(l.changes("dbo_orders")), "the log of the backup is captured after it")
}

func TestFailOverKeepsWhatIsCommitted_D(t *testing.T) {
	l, orders := captured(t)
	l.db.StartCapture()
	l.insert(orders, row(1, "a", 1))
	open := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), open, orders, row(2, "open", 1)))
	lost, err := l.db.FailOver(l.ctx(), engine.FailOverOptions{JobsExist: true})
	require.NoError(t, err)
	require.Zero(t, lost)
	require.False(t, l.db.CaptureRunning())
	require.True(t, l.db.JobsCreated())
	require.Empty(t, l.db.ScanSessions())
	_, err = open.Commit()
	requireNumber(t, engine.ErrDatabaseShuttingDown, err)
	require.Equal(t, []string{"1|a|1"}, l.rows(orders))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
}

func TestForcedFailOverLosesTheTail_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	l.scan()
	l.insert(orders, row(3, "lost", 1))
	l.update(orders, set(1, idIn(1), to("lost")))
	l.update(orders, set(0, idIn(2), to(7)))
	tail := l.delete(orders, idIn(1))
	l.enable("orders", as("lost_too"))
	lost, err := l.db.FailOver(l.ctx(), engine.FailOverOptions{LoseTail: true})
	require.NoError(t, err)
	require.Equal(t, 4, lost)
	require.Equal(t, []string{"1|a|1", "2|b|1"}, l.rows(orders))
	require.Len(t, l.db.CDC().Instances(), 1)
	next := l.insert(orders, row(4, "after", 1))
	require.True(t, next.Less(tail), "LSNs of the lost tail are used again")
	l.scan()
	require.Equal(t, []string{"2 1|a|1", "2 2|b|1", "2 4|after|1"}, brief(l.changes("dbo_orders")), "what was captured stays valid")
	require.True(t, l.changes("dbo_orders")[1].start.Less(next))
}

func TestServerDatabases_K(t *testing.T) {
	l := newLab(t)
	_, err := l.srv.CreateDatabase("LAB")
	requireNumber(t, engine.ErrDatabaseExists, err)
	two, err := l.srv.CreateDatabase("two")
	require.NoError(t, err)
	require.Equal(t, []*engine.Database{l.db, two}, l.srv.Databases())
	require.EqualValues(t, 5, l.db.ID())
	require.NoError(t, l.srv.DropDatabase("TWO"))
	requireNumber(t, engine.ErrCannotDrop, l.srv.DropDatabase("two"))
	_, found := l.srv.Database("two")
	require.False(t, found)
	l.srv.Close()
	l.srv.Close()
}

func TestBulkCaptured_ours(t *testing.T) {
	l, orders := captured(t)
	first := l.insert(orders, row(1, "in the log", 1))
	i, _ := l.db.CDC().Instance("dbo_orders")
	start := labStart.Add(-time.Hour)
	res, err := l.db.BulkCaptured(l.ctx(), engine.BulkSpec{
		Instance: "dbo_orders", Rows: 50_001, RowsPerTxn: 10, Start: start, Interval: time.Second,
		Fill: engine.SampleFill(i.Columns),
	})
	require.NoError(t, err)
	require.EqualValues(t, 5001, res.Transactions)
	require.EqualValues(t, 50_002, res.ChangeTableRows)
	require.True(t, first.Less(res.First), "what was in the log comes first")
	require.Equal(t, res.Last, l.max())
	m := l.db.CDC().Mapping()
	require.Equal(t, 5002, m.Len())
	require.Equal(t, "2026-03-02 09:00:00.000", m.LSNToTime(res.First).String())
	got := l.changes("dbo_orders")
	requireOrdered(t, got)
	require.Equal(t, 10, got[10].command)
	require.Equal(t, got[1].start, got[10].start)
	next := l.insert(orders, row(2, "after", 1))
	l.scan()
	require.True(t, res.Last.Less(next))
	_, err = l.db.BulkCaptured(l.ctx(), engine.BulkSpec{Instance: "nobody"})
	requireNumber(t, engine.ErrInstanceUnknown, err)
}

func requireOrdered(t require.TestingT, cs []change) {
	for i := 1; i < len(cs); i++ {
		a, b := cs[i-1], cs[i]
		d := a.start.Compare(b.start)
		if d == 0 {
			d = a.command - b.command
		}
		if d == 0 {
			d = a.seq.Compare(b.seq)
		}
		if d == 0 {
			d = a.op - b.op
		}
		require.Negative(t, d, "rows %d and %d: %+v, %+v", i-1, i, a, b)
	}
}

func TestUnmaterializedTable_ours(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	spec := ordersSpec("orders")
	spec.Unmaterialized = true
	orders := l.create(spec)
	l.enable("orders")
	l.insert(orders, row(1, "a", 1), row(1, "a", 1))
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), tx, orders, row(2, "undone", 1)))
	tx.Rollback()
	require.Empty(t, l.rows(orders))
	l.scan()
	require.Equal(t, []string{"2 1|a|1", "2 1|a|1"}, brief(l.changes("dbo_orders")))
}
