package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// A transaction enables a table that it has changed itself: nobody sees it before the commit, whose LSN is the start, and what came
// after the call is captured.
func TestEnableInATransaction_K(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	orders := l.create(ordersSpec("orders"))
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), tx, orders, row(1, "before", 1)))
	res, err := tx.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
	require.NoError(t, err)
	require.True(t, res.JobsCreated)
	require.Len(t, tx.CDC().Instances(), 1)
	require.Empty(t, l.db.CDC().Instances())
	_, err = tx.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
	requireNumber(t, engine.ErrInstanceTaken, err)
	require.NoError(t, insert(l.ctx(), tx, orders, row(2, "after", 2)))
	info, err := tx.Commit()
	require.NoError(t, err)
	i, ok := l.db.CDC().Instance("dbo_orders")
	require.True(t, ok)
	require.Equal(t, info.LSN, i.StartLSN)
	require.True(t, i.Pending)
	l.scan()
	got := l.changes("dbo_orders")
	require.Len(t, got, 1)
	require.Equal(t, "2|after|2", got[0].values)
	require.Equal(t, info.LSN, got[0].start)
	_, _, pending := l.db.CDC().MinLSN("dbo_orders")
	require.False(t, pending)
}

// A rollback takes an enable, a disable and a DROP TABLE back, to a savepoint or whole, with everything that goes with the instance.
func TestRollbackOfEnableAndDisable_K(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	before := l.db.CDC()
	tx := l.db.Begin(engine.TxOptions{})
	gone, err := tx.DisableTable(l.ctx(), "dbo", "orders", "all")
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.Zero(t, tx.CDC().Mapping().Len(), "the last one empties the mapping (message 22909)")
	require.Equal(t, 1, l.db.CDC().Mapping().Len())
	mark := tx.Mark()
	_, err = tx.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
	require.NoError(t, err, "the name is free for this transaction")
	require.NoError(t, tx.RollbackTo(mark))
	require.Empty(t, tx.CDC().Instances())
	require.NoError(t, tx.DropTable(l.ctx(), orders))
	tx.Rollback()
	require.Equal(t, before.Instances(), l.db.CDC().Instances())
	require.Equal(t, before.Mapping(), l.db.CDC().Mapping())
	l.insert(orders, row(2, "b", 2))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 2, "the table is tracked as before")
}

// Disabling and enabling again in one transaction starts afresh at its commit.
func TestDisableAndEnableInATransaction_K(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	old, _ := l.db.CDC().Instance("dbo_orders")
	tx := l.db.Begin(engine.TxOptions{})
	_, err := tx.DisableTable(l.ctx(), "dbo", "orders", "dbo_orders")
	require.NoError(t, err)
	require.NoError(t, tx.Truncate(l.ctx(), orders), "it is not tracked for this transaction")
	_, err = tx.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
	require.NoError(t, err)
	info, err := tx.Commit()
	require.NoError(t, err)
	now, ok := l.db.CDC().Instance("dbo_orders")
	require.True(t, ok)
	require.NotEqual(t, old.ObjectID, now.ObjectID)
	require.Equal(t, info.LSN, now.StartLSN)
	l.insert(orders, row(2, "b", 2))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
}

// Two transactions that change instances come one after the other, and a deadlock between them ends one.
func TestEnableOfTwoTransactions_K(t *testing.T) {
	l, orders := captured(t)
	l.create(ordersSpec("other"))
	first, second := l.db.Begin(engine.TxOptions{}), l.db.Begin(engine.TxOptions{LockTimeout: 10 * time.Millisecond})
	defer second.Rollback()
	_, err := first.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders", CaptureInstance: "same"})
	require.NoError(t, err)
	_, err = second.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "other", CaptureInstance: "same"})
	requireNumber(t, engine.ErrLockTimeout, err)
	_, err = first.Commit()
	require.NoError(t, err)
	_, err = second.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "other", CaptureInstance: "same"})
	requireNumber(t, engine.ErrInstanceTaken, err)

	third := l.db.Begin(engine.TxOptions{})
	defer third.Rollback()
	require.NoError(t, insert(l.ctx(), third, orders, row(1, "a", 1)))
	second.SetLockTimeout(engine.NoLockTimeout)
	waits := make(chan error, 1)
	go func() {
		_, err := second.DisableTable(l.ctx(), "dbo", "orders", "same")
		waits <- err
	}()
	require.Eventually(t, func() bool { // second has the lock of CDC and waits for third: new writers stand behind it
		probe := l.db.Begin(engine.TxOptions{FailAtFirstLock: true})
		defer probe.Rollback()
		return engine.Number(insert(l.ctx(), probe, orders, row(9, "probe", 1))) == engine.ErrLockTimeout
	}, 5*time.Second, time.Millisecond)
	_, err = third.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "other", CaptureInstance: "third"})
	requireNumber(t, engine.ErrDeadlock, err)
	require.NoError(t, <-waits)
}

// enable, disable and noWriter are steps of the random workloads (property_test.go).
func (w *workload) enable(rt *rapid.T) {
	n := rapid.IntRange(0, len(w.tables)-1).Draw(rt, "table")
	w.noWriter(rt, n)
	spec := engine.EnableTableSpec{Schema: "dbo", Table: w.tables[n].Def().Name}
	spec.CaptureInstance = fmt.Sprint(spec.Table, rapid.IntRange(1, 3).Draw(rt, "name"))
	if _, err := w.l.db.EnableTable(context.Background(), spec); err != nil {
		require.Contains(rt, []int32{engine.ErrTwoInstances, engine.ErrInstanceTaken}, engine.Number(err))
	}
}

// noWriter skips a step that would wait for an open transaction.
func (w *workload) noWriter(rt *rapid.T, n int) {
	if slices.ContainsFunc(w.open, func(m *modelTx) bool { return m.rows[n] != nil }) {
		rt.Skip("a writer is open")
	}
}

func (w *workload) disable(rt *rapid.T) {
	list := w.l.db.CDC().Instances()
	if len(list) < 3 {
		rt.Skip("keep some")
	}
	i := rapid.SampledFrom(list).Draw(rt, "instance")
	w.noWriter(rt, slices.IndexFunc(w.tables, func(t *engine.Table) bool { return t.Def().Name == i.SourceTable }))
	require.NoError(rt, w.l.db.DisableTable(context.Background(), "dbo", i.SourceTable, i.Name))
}
