package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestNothingIsVisibleBeforeAScan_D(t *testing.T) {
	l, orders := captured(t)
	_, ok := l.db.CDC().MaxLSN()
	require.False(t, ok, "max LSN is NULL before the first scan")
	l.insert(orders, row(1, "a", 1))
	require.Empty(t, l.changes("dbo_orders"))
	require.Equal(t, 1, l.db.Backlog())
	res := l.scan()
	require.Equal(t, 1, res.Transactions)
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Zero(t, l.db.Backlog())
}

func TestScanTakesMaxTransTimesMaxScans_D(t *testing.T) {
	l, orders := captured(t)
	for i := range 10 {
		l.insert(orders, row(i, "a", 1))
	}
	res, err := l.db.Scan(l.ctx(), engine.ScanLimits{MaxTrans: 3, MaxScans: 2})
	require.NoError(t, err)
	require.Equal(t, 2, res.Scans)
	require.Equal(t, 6, res.Transactions)
	require.False(t, res.Exhausted)
	require.Len(t, l.changes("dbo_orders"), 6)
	require.Equal(t, l.changes("dbo_orders")[5].start, l.max(), "max LSN is the last captured commit")
	res = l.scan()
	require.True(t, res.Exhausted)
	require.Len(t, l.changes("dbo_orders"), 10)
}

func TestAllChangeTablesAndMappingAppearTogether_M22(t *testing.T) {
	l, orders := captured(t)
	other := l.create(ordersSpec("other"))
	l.enable("other")
	l.scan()
	before := l.max()
	lsn := l.do(func(tx *engine.Tx) error {
		require.NoError(t, insert(l.ctx(), tx, orders, row(1, "a", 1)))
		return insert(l.ctx(), tx, other, row(1, "a", 1))
	})
	prepared := false
	l.db.SetHooks(engine.Hooks{ScanPrepared: func(int) {
		prepared = true
		require.Empty(t, l.changes("dbo_orders"))
		require.Empty(t, l.changes("dbo_other"))
		require.Equal(t, before, l.max())
	}})
	l.scan()
	require.True(t, prepared)
	require.Equal(t, lsn, l.max())
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Len(t, l.changes("dbo_other"), 1)
	_, found := l.db.CDC().Mapping().Find(lsn)
	require.True(t, found)
}

func TestOneScanAtATime22903_M25(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	var second error
	l.db.SetHooks(engine.Hooks{ScanPrepared: func(int) {
		_, second = l.db.Scan(l.ctx(), engine.ScanLimits{})
	}})
	_, err := l.db.Scan(l.ctx(), engine.ScanLimits{SessionID: 79})
	require.NoError(t, err)
	requireNumber(t, engine.ErrScanBusy, second)
	busy, _ := errors.AsType[*engine.Error](second)
	require.Equal(t, []any{int64(79)}, busy.Args)
}

func TestMinLSNIsPendingUntilCaptureHasProcessedTheEnable_M22(t *testing.T) {
	l, _ := captured(t)
	lsn, known, pending := l.db.CDC().MinLSN("DBO_ORDERS")
	require.True(t, known)
	require.True(t, pending)
	require.Zero(t, lsn)
	i, _ := l.db.CDC().Instance("dbo_orders")
	require.False(t, i.StartLSN.IsZero(), "start_lsn of the metadata is set at once")
	l.scan()
	lsn, _, pending = l.db.CDC().MinLSN("dbo_orders")
	require.False(t, pending)
	require.Equal(t, i.StartLSN, lsn)
	lsn, known, _ = l.db.CDC().MinLSN("nobody")
	require.False(t, known)
	require.Zero(t, lsn)
}

func TestMinLSNProfileAfterMapping_M22(t *testing.T) {
	l, _ := captured(t, func(o *engine.Options) { o.MinLSN = engine.MinLSNAfterMapping })
	l.scan() // the first entry of an empty mapping
	l.create(ordersSpec("late"))
	l.enable("late")
	l.clock.Advance(time.Minute)
	l.scan()
	_, _, pending := l.db.CDC().MinLSN("dbo_late")
	require.True(t, pending, "quiet database: nothing at or above the start LSN yet")
	l.clock.Advance(4*time.Minute + 5*time.Second)
	require.True(t, l.scan().Idle)
	_, _, pending = l.db.CDC().MinLSN("dbo_late")
	require.False(t, pending)
}

func TestMaxLSNMayBeBelowAFreshInstance_M22(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	l.create(ordersSpec("late"))
	i := l.enable("late")
	l.scan()
	require.True(t, l.max().Less(i.StartLSN))
}

func TestIdleEntries_M22(t *testing.T) {
	l, orders := captured(t)
	require.True(t, l.scan().Idle, "the first scan of an empty mapping [K]")
	first := l.max()
	l.clock.Advance(304 * time.Second)
	require.False(t, l.scan().Idle)
	l.clock.Advance(time.Second)
	require.True(t, l.scan().Idle)
	require.True(t, first.Less(l.max()))
	m := l.db.CDC().Mapping()
	require.Equal(t, 2, m.Len())
	require.Equal(t, []byte{0}, m.At(1).TranID)
	require.Empty(t, l.changes("dbo_orders"))
	// A table without CDC makes no entry, a captured change does and puts the next idle one off.
	plain := l.create(ordersSpec("plain"))
	l.clock.Advance(100 * time.Second)
	l.insert(plain, row(1, "a", 1))
	l.scan()
	require.Equal(t, 2, l.db.CDC().Mapping().Len())
	l.insert(orders, row(1, "a", 1))
	l.scan()
	require.Equal(t, 3, l.db.CDC().Mapping().Len())
	require.Len(t, l.db.CDC().Mapping().At(2).TranID, 6)
	l.clock.Advance(304 * time.Second)
	require.False(t, l.scan().Idle)
}

func TestIdleOnDemand_ours(t *testing.T) {
	l, orders := captured(t)
	lsn := l.insert(orders, row(1, "a", 1))
	idle, err := l.db.Idle(l.ctx())
	require.NoError(t, err)
	require.True(t, lsn.Less(idle), "what was in the log is captured below it")
	require.Equal(t, idle, l.max())
	require.Len(t, l.changes("dbo_orders"), 1)
}

func TestMappingTimesAreTheServersWallClock_M22(t *testing.T) {
	zone, err := time.LoadLocation("America/Sao_Paulo")
	require.NoError(t, err)
	l, orders := captured(t, func(o *engine.Options) { o.Location = zone })
	l.clock.Set(time.Date(2026, 3, 2, 10, 0, 0, 2_000_000, time.UTC))
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), tx, orders, row(1, "a", 1)))
	l.clock.Advance(1500 * time.Millisecond)
	info, err := tx.Commit()
	require.NoError(t, err)
	l.scan()
	r, ok := l.db.CDC().Mapping().Find(info.LSN)
	require.True(t, ok)
	require.Equal(t, "2026-03-02 07:00:00.003", r.TranBeginTime.String(), "1/300 s ticks")
	require.Equal(t, "2026-03-02 07:00:01.503", r.TranEndTime.String())
	require.True(t, r.TranBeginLSN.Less(info.LSN))
	require.Equal(t, r.TranEndTime, l.db.CDC().Mapping().LSNToTime(info.LSN))
	require.True(t, l.db.CDC().Mapping().LSNToTime(info.LSN.Increment()).IsNull(), "an exact LSN only [M22]")
}

func TestMappingTimesRepeatAtFallBack_M22(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	l, orders := captured(t, func(o *engine.Options) { o.Location = zone })
	l.clock.Set(time.Date(2025, 11, 2, 5, 30, 0, 0, time.UTC)) // 01:30 EDT
	var last engine.LSN
	var times []string
	for i := range 3 {
		lsn := l.insert(orders, row(i, "a", 1))
		require.True(t, last.Less(lsn), "LSNs grow all the same")
		last = lsn
		l.scan()
		times = append(times, l.db.CDC().Mapping().LSNToTime(lsn).String())
		l.clock.Advance(30 * time.Minute)
	}
	require.Equal(t, []string{"2025-11-02 01:30:00.000", "2025-11-02 01:00:00.000", "2025-11-02 01:30:00.000"}, times)
}

func TestClockStepsBack_O17(t *testing.T) {
	l, orders := captured(t)
	a := l.insert(orders, row(1, "a", 1))
	l.clock.Advance(-time.Hour)
	b := l.insert(orders, row(2, "b", 1))
	l.scan()
	require.True(t, a.Less(b))
	m := l.db.CDC().Mapping()
	require.Equal(t, -1, sqltype.Compare(m.LSNToTime(b), m.LSNToTime(a), nil))
}

func TestMapTimeToLSN_D(t *testing.T) {
	l, orders := captured(t)
	l.clock.Set(labStart)
	a1 := l.insert(orders, row(1, "a", 1))
	a2 := l.insert(orders, row(2, "a", 1)) // the same time
	l.clock.Advance(10 * time.Second)
	b := l.insert(orders, row(3, "b", 1))
	l.scan()
	m := l.db.CDC().Mapping()
	at := func(d time.Duration) sqltype.Value { return sqltype.FromTimeDateTime(labStart.Add(d)) }
	for _, c := range []struct {
		name string
		rel  engine.TimeRelation
		at   time.Duration
		want engine.LSN
	}{
		{"largest less than", engine.LargestLess, 10 * time.Second, a2},
		{"largest less than or equal", engine.LargestLessOrEqual, 10 * time.Second, b},
		{"largest less than or equal, between", engine.LargestLessOrEqual, 5 * time.Second, a2},
		{"smallest greater than", engine.SmallestGreater, 0, b},
		{"smallest greater than or equal", engine.SmallestGreaterOrEqual, 0, a1},
		{"smallest greater than, before all", engine.SmallestGreater, -time.Second, a1},
	} {
		got, ok := m.TimeToLSN(c.rel, at(c.at))
		require.True(t, ok, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	_, ok := m.TimeToLSN(engine.LargestLess, at(0))
	require.False(t, ok)
	_, ok = m.TimeToLSN(engine.SmallestGreater, at(10*time.Second))
	require.False(t, ok)
}

func TestCaptureErrorShowsNothingAndKeepsTheLog_D(t *testing.T) {
	l, orders := captured(t)
	l.scan()
	l.insert(orders, row(1, "a", 1))
	boom := errors.New("no space in the file group")
	l.db.InjectCaptureError(boom, 2)
	for range 2 {
		_, err := l.db.Scan(l.ctx(), engine.ScanLimits{})
		require.ErrorIs(t, err, boom)
		require.Empty(t, l.changes("dbo_orders"))
		require.Equal(t, 1, l.db.Backlog())
	}
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Len(t, l.db.CaptureErrors(), 2)
}

func TestScanSessions_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.insert(orders, row(2, "a", 1))
	l.scan()
	l.scan()
	sessions := l.db.ScanSessions()
	last := sessions[len(sessions)-1]
	require.EqualValues(t, 2, last.TranCount)
	require.EqualValues(t, 2, last.CommandCount)
	require.EqualValues(t, 2, last.EmptyScanCount, "empty scans are counted in the newest row")
	require.False(t, last.FirstBeginCDCLSN.IsZero())
}

func TestCaptureJobPollsWithItsInterval_D(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, orders := captured(t, func(o *engine.Options) { o.Clock = engine.SystemClock{} })
		require.True(t, l.db.StartCapture())
		require.False(t, l.db.StartCapture(), "it runs already")
		synctest.Wait()
		l.insert(orders, row(1, "a", 1))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Empty(t, l.changes("dbo_orders"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, l.changes("dbo_orders"), 1)
		require.True(t, l.db.StopCapture())
		require.False(t, l.db.CaptureRunning())
		l.insert(orders, row(2, "a", 1))
		time.Sleep(time.Minute)
		require.Len(t, l.changes("dbo_orders"), 1, "max LSN is frozen while the job is stopped [M22]")
		require.True(t, l.db.StartCapture())
		time.Sleep(time.Second)
		require.Len(t, l.changes("dbo_orders"), 2, "starting it later loses nothing [D]")
		l.srv.Close()
		require.False(t, l.db.StartCapture(), "not after close")
	})
}

func TestAutoStart_D(t *testing.T) {
	l := newLab(t, func(o *engine.Options) { o.AutoStart = true })
	require.NoError(t, l.db.EnableCDC())
	l.create(ordersSpec("a"))
	l.create(ordersSpec("b"))
	res, err := l.db.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "a"})
	require.NoError(t, err)
	require.True(t, res.JobsCreated)
	require.True(t, res.JobStarted)
	res, err = l.db.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "b"})
	require.NoError(t, err)
	require.False(t, res.JobsCreated, "the jobs belong to the first table")
	require.True(t, l.db.CaptureRunning())
}

func TestLogFull9002_DK(t *testing.T) {
	l, orders := captured(t)
	l.db.SetSettings(engine.Settings{LogRecords: 3})
	l.insert(orders, row(1, "a", 1), row(2, "a", 1), row(3, "a", 1))
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, orders, row(4, "a", 1)) })
	requireNumber(t, engine.ErrLogFull, err)
	l.scan()
	l.insert(orders, row(4, "a", 1))
}

func TestLSNsJumpAndSlotsSkip_M25(t *testing.T) {
	l, orders := captured(t)
	for i := range 200 {
		l.insert(orders, row(2*i, "a", 1), row(2*i+1, "a", 1))
	}
	l.scan()
	got := l.changes("dbo_orders")
	blocks, skipped := map[uint32]bool{}, 0
	for i, c := range got {
		require.True(t, c.seq.Less(c.start))
		require.Equal(t, c.seq.VLF(), c.start.VLF())
		require.Equal(t, c.seq.Block(), c.start.Block())
		blocks[c.start.Block()] = true
		if i%2 == 1 && c.seq.Slot() != got[i-1].seq.Slot()+1 {
			skipped++
		}
	}
	require.Len(t, blocks, 200, "a commit ends its block")
	require.NotZero(t, skipped)
	require.Less(t, skipped, 150)
}

func TestSameSeedSameLSNs_ours(t *testing.T) {
	run := func() []change {
		l, orders := captured(t)
		for i := range 20 {
			l.insert(orders, row(i, "a", 1))
		}
		l.scan()
		return l.changes("dbo_orders")
	}
	require.Equal(t, run(), run())
}
