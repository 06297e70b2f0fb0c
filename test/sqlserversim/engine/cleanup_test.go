package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// hourly makes n captured commits an hour apart and gives their LSNs.
func hourly(l *lab, orders *engine.Table, n int) (lsns []engine.LSN) {
	for i := range n {
		lsns = append(lsns, l.insert(orders, row(i, "a", 1)))
		l.scan()
		l.clock.Advance(time.Hour)
	}
	return lsns
}

func minOf(l *lab, instance string) engine.LSN {
	l.t.Helper()
	lsn, known, _ := l.db.CDC().MinLSN(instance)
	require.True(l.t, known)
	return lsn
}

func TestCleanupMovesTheWatermarkFirst_D(t *testing.T) {
	l, orders := captured(t)
	l.enable("orders", as("second"))
	lsns := hourly(l, orders, 100)
	var steps []string
	l.db.SetHooks(engine.Hooks{
		Watermark: func(names []string) {
			steps = append(steps, "watermark")
			require.Equal(t, []string{"dbo_orders", "second"}, names, "all instances in one step")
			for _, n := range names {
				require.Equal(t, lsns[27], minOf(l, n), "newest time less 72 h")
				require.Len(t, l.changes(n), 100, "every row is still there")
			}
		},
		CleanupChunk: func(table string, n int64) {
			require.Positive(t, n)
			steps = append(steps, table)
		},
	})
	res, err := l.db.Cleanup(l.ctx())
	require.NoError(t, err)
	require.Equal(t, engine.CleanupResult{LowWaterMark: lsns[27], Rows: 54, Mapping: 27}, res)
	require.Equal(t, []string{"watermark", "dbo_orders_CT", "second_CT", "lsn_time_mapping"}, steps)
	require.Equal(t, lsns[27], l.changes("second")[0].start, "exactly below the reported min LSN [M22]")
	require.Equal(t, 73, l.db.CDC().Mapping().Len())
	require.True(t, l.db.CDC().Mapping().LSNToTime(lsns[26]).IsNull(), "old commit times disappear [M22]")
	require.Equal(t, lsns[99], l.max())
}

func TestCleanupDeletesInChunks_D(t *testing.T) {
	l, orders := captured(t)
	lsns := hourly(l, orders, 25)
	var chunks []int64
	l.db.SetHooks(engine.Hooks{CleanupChunk: func(table string, n int64) {
		chunks = append(chunks, n)
		if table == "dbo_orders_CT" {
			require.Equal(t, lsns[20], minOf(l, "dbo_orders"), "a reader can see a moved min LSN with rows below it")
		}
	}})
	res, err := l.db.CleanupChangeTable(l.ctx(), "dbo_orders", &lsns[20], 6)
	require.NoError(t, err)
	require.EqualValues(t, 20, res.Rows)
	require.Equal(t, []int64{6, 6, 6, 2, 6, 6, 6, 2}, chunks)
}

func TestCleanupMarkRules_D_M22(t *testing.T) {
	l, orders := captured(t)
	lsns := hourly(l, orders, 3)
	sameTime := l.insert(orders, row(10, "x", 1))
	l.clock.Advance(time.Millisecond) // within one 1/300 s tick
	later := l.insert(orders, row(11, "x", 1))
	l.scan()
	odd := lsns[1].Increment()
	_, err := l.db.CleanupChangeTable(l.ctx(), "dbo_orders", &odd, 0)
	require.Equal(t, &engine.Error{Number: engine.ErrNotMappingEntry, Args: []any{odd}}, err)
	_, err = l.db.CleanupChangeTable(l.ctx(), "nobody", nil, 0)
	requireNumber(t, engine.ErrInstanceUnknown, err)
	_, err = l.db.CleanupChangeTable(l.ctx(), "dbo_orders", nil, -1)
	requireNumber(t, engine.ErrThreshold, err)
	res, err := l.db.CleanupChangeTable(l.ctx(), "dbo_orders", &later, 0)
	require.NoError(t, err)
	require.Equal(t, sameTime, res.LowWaterMark, "lowered to the smallest LSN with the same time")
	require.Equal(t, sameTime, minOf(l, "dbo_orders"))
	require.Len(t, l.changes("dbo_orders"), 2)
	res, err = l.db.CleanupChangeTable(l.ctx(), "dbo_orders", nil, 0)
	require.NoError(t, err)
	require.Zero(t, res.Rows, "NULL deletes below the present mark only")
}

func TestCleanupOfOneInstanceKeepsTheOthersMapping_D(t *testing.T) {
	l, orders := captured(t)
	l.enable("orders", as("second"))
	lsns := hourly(l, orders, 5)
	_, err := l.db.CleanupChangeTable(l.ctx(), "second", &lsns[3], 0)
	require.NoError(t, err)
	require.Len(t, l.changes("dbo_orders"), 5)
	require.Len(t, l.changes("second"), 2)
	require.Equal(t, 5, l.db.CDC().Mapping().Len(), "mapping goes below the lowest mark of all")
	_, err = l.db.CleanupChangeTable(l.ctx(), "second", &lsns[1], 0)
	requireNumber(t, engine.ErrOutsideTimeline, err)
}

func TestCleanupToTheEnd_M25(t *testing.T) {
	l, orders := captured(t)
	lsns := hourly(l, orders, 6)
	_, err := l.db.CleanupChangeTable(l.ctx(), "dbo_orders", &lsns[5], 0)
	require.NoError(t, err)
	require.Len(t, l.changes("dbo_orders"), 1)
	l.clock.Advance(100 * time.Hour)
	_, err = l.db.Idle(l.ctx())
	require.NoError(t, err)
	_, err = l.db.Cleanup(l.ctx())
	require.NoError(t, err)
	require.Empty(t, l.changes("dbo_orders"))
	require.Equal(t, l.max(), minOf(l, "dbo_orders"))
	l.insert(orders, row(50, "next", 1))
	l.scan()
	require.Equal(t, []string{"2 50|next|1"}, brief(l.changes("dbo_orders")))
}

func TestCleanupWithoutCDC22910_D(t *testing.T) {
	l := newLab(t)
	_, err := l.db.Cleanup(l.ctx())
	requireNumber(t, engine.ErrCleanupNotEnabled, err)
	_, err = l.db.CleanupChangeTable(l.ctx(), "x", nil, 0)
	requireNumber(t, engine.ErrCleanupNotEnabled, err)
}

func TestAnOldReaderKeepsItsSnapshot_ours(t *testing.T) {
	l, orders := captured(t)
	lsns := hourly(l, orders, 10)
	view := l.db.CDC()
	i, _ := view.Instance("dbo_orders")
	cur := view.ScanChanges(i, engine.ChangeScan{})
	require.True(t, cur.Next())
	_, err := l.db.CleanupChangeTable(l.ctx(), "dbo_orders", &lsns[9], 0)
	require.NoError(t, err)
	n := 1
	for cur.Next() {
		n++
	}
	require.Equal(t, 10, n)
	require.Len(t, l.changes("dbo_orders"), 1)
}

func TestCleanupInTheMiddleOfALiveScan_ours(t *testing.T) {
	for _, live := range []bool{false, true} {
		l, orders := captured(t)
		lsns := hourly(l, orders, 10)
		var inHook error
		l.db.SetHooks(engine.Hooks{ChangeScanEvery: 3, LiveScans: live, ChangeScan: func(instance string, yielded int64) {
			if yielded == 3 {
				_, inHook = l.db.CleanupChangeTable(l.ctx(), instance, &lsns[7], 0)
			}
		}})
		var got []engine.LSN
		for _, c := range l.changes("dbo_orders") {
			got = append(got, c.start)
		}
		require.NoError(t, inHook)
		if live {
			require.Equal(t, append(lsns[:3:3], lsns[7:]...), got, "rows purged meanwhile are missed")
		} else {
			require.Equal(t, lsns, got)
		}
		require.Equal(t, lsns[7], minOf(l, "dbo_orders"), "min LSN, read again after the rows, tells")
	}
}

func TestLiveScanSeesNewRowsAndDisable_ours(t *testing.T) {
	l, orders := captured(t)
	hourly(l, orders, 4)
	l.db.SetHooks(engine.Hooks{ChangeScanEvery: 2, LiveScans: true, ChangeScan: func(_ string, yielded int64) {
		switch yielded {
		case 2:
			l.insert(orders, row(100, "new", 1))
			l.scan()
		case 4:
			require.NoError(t, l.db.DisableTable(l.ctx(), "dbo", "orders", "all"))
		}
	}})
	require.Len(t, l.changes("dbo_orders"), 4)
}

func TestCleanupStopsWithItsContext_ours(t *testing.T) {
	l, orders := captured(t)
	lsns := hourly(l, orders, 3)
	ctx, cancel := contextWithCancel(l)
	l.db.SetHooks(engine.Hooks{Watermark: func([]string) { cancel() }})
	_, err := l.db.CleanupChangeTable(ctx, "dbo_orders", &lsns[2], 0)
	require.True(t, errors.Is(err, ctx.Err()))
	require.Equal(t, lsns[2], minOf(l, "dbo_orders"))
	require.Len(t, l.changes("dbo_orders"), 3)
}
