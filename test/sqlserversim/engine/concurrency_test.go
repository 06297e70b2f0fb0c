package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// TestReadersDuringCaptureAndCleanup: four writers, the capture job at 1 ms, clean-up, ALTER COLUMN and a switch of instances, while
// readers take windows. Each window must be whole: a transaction's rows are all there or none, and what was read below max LSN
// does not change while min LSN is not past it.
func TestReadersDuringCaptureAndCleanup(t *testing.T) {
	t.Parallel()
	l, orders := captured(t, func(o *engine.Options) {
		o.Clock = engine.SystemClock{}
		o.CaptureJob.PollingInterval = time.Millisecond
		o.IdleInterval = 20 * time.Millisecond
	})
	l.db.StartCapture()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	failures := make(chan error, 64)
	run := func(f func(n int) error) {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := f(n); err != nil && ctx.Err() == nil {
					failures <- err
					return
				}
			}
		})
	}
	var ids atomic.Int64
	const perTx = 7
	for range 4 {
		run(func(int) error {
			return l.db.Do(ctx, func(tx *engine.Tx) error {
				for range perTx {
					if err := insert(ctx, tx, orders, row(int(ids.Add(1)), "some text", 1)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	run(func(n int) error {
		m := l.db.CDC().Mapping()
		if m.Len() < 50 {
			return pause(ctx, 5*time.Millisecond)
		}
		mark := m.At(m.Len() / 2).StartLSN
		_, err := l.db.CleanupChangeTable(ctx, "dbo_orders", &mark, 100)
		if engine.Number(err) == engine.ErrNotMappingEntry || engine.Number(err) == engine.ErrOutsideTimeline {
			err = nil
		}
		return errors.Join(err, pause(ctx, 10*time.Millisecond))
	})
	run(func(n int) error {
		types := []sqltype.Type{sqltype.NVarCharType(60), sqltype.NVarCharType(50)}
		err := l.db.Do(ctx, func(tx *engine.Tx) error {
			return tx.AlterColumn(ctx, orders, "note", types[n%2], true, "ALTER …")
		})
		return errors.Join(err, pause(ctx, 40*time.Millisecond))
	})
	run(func(n int) error {
		_, err := l.db.EnableTable(ctx, engine.EnableTableSpec{Schema: "dbo", Table: "orders", CaptureInstance: "second"})
		return errors.Join(err, pause(ctx, 30*time.Millisecond), l.db.DisableTable(ctx, "dbo", "orders", "second"))
	})
	var windows atomic.Int64
	for range 2 {
		run(func(int) error {
			windows.Add(1)
			return readWindow(l.db, perTx)
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	l.db.StopCapture()
	require.Positive(t, windows.Load())
	_, err := l.db.Idle(t.Context())
	require.NoError(t, err)
	require.NoError(t, readWindow(l.db, perTx))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return nil
}

// readWindow reads all that is captured twice, from the view of its start and from the newest one.
func readWindow(db *engine.Database, perTx int) error {
	first := db.CDC()
	i, ok := first.Instance("dbo_orders")
	if !ok {
		return errors.New("the instance is gone")
	}
	top, ok := first.MaxLSN()
	if !ok {
		return nil
	}
	low := i.StartLSN
	a, err := window(first, i, low, top, perTx)
	if err != nil {
		return err
	}
	second := db.CDC()
	j, _ := second.Instance("dbo_orders")
	b, err := window(second, j, low, top, perTx)
	if err != nil {
		return err
	}
	if j.StartLSN == low && a != b {
		return errors.New("a window below max LSN changed while min LSN stood")
	}
	if b > a {
		return errors.New("rows appeared below an observed max LSN")
	}
	return nil
}

func window(v *engine.View, i *engine.Instance, from, to engine.LSN, perTx int) (n int, err error) {
	var start engine.LSN
	inTx := 0
	flush := func() error {
		// Clean-up cuts at a commit, but deletes in chunks that do not: only the oldest transaction may be partial.
		if inTx != 0 && inTx != perTx && n > perTx {
			return errors.New("a transaction is not whole")
		}
		return nil
	}
	cur := v.ScanChanges(i, engine.LSNRange(from, to, nil))
	for cur.Next() {
		r := cur.Row()
		if at := lsnOf(r[0]); at != start {
			if err := flush(); err != nil {
				return n, err
			}
			start, inTx = at, 0
			if n > 0 {
				if _, ok := v.Mapping().Find(at); !ok {
					return n, errors.New("a commit is not in the mapping")
				}
			}
		}
		if r[6].Str() != "some text" {
			return n, errors.New("a value changed: " + r[6].String())
		}
		n++
		inTx++
	}
	return n, flush()
}

// TestTransfersKeepTheSum: concurrent transactions move amounts between rows; readers under every isolation level that promises it see the
// same sum always, and so does a replay of the change rows.
func TestTransfersKeepTheSum(t *testing.T) {
	t.Parallel()
	l, orders := captured(t, func(o *engine.Options) { o.Clock = engine.SystemClock{} })
	l.db.SetSettings(engine.Settings{AllowSnapshot: true})
	const accounts, each = 8, 100
	for i := range accounts {
		l.insert(orders, row(i, "account", each))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	var done, deadlocks atomic.Int64
	bad := make(chan string, 16)
	for g := range 3 {
		wg.Go(func() {
			for n := g; ctx.Err() == nil; n++ {
				err := transfer(ctx, l.db, orders, n%accounts, (n*3+1)%accounts)
				switch {
				case err == nil:
					done.Add(1)
				case engine.Number(err) == engine.ErrDeadlock:
					deadlocks.Add(1)
				case ctx.Err() == nil:
					bad <- err.Error()
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			tx := l.db.Begin(engine.TxOptions{Isolation: engine.Snapshot})
			sum := int64(0)
			for r, err := range tx.Scan(ctx, orders, engine.ScanSpec{}) {
				if err != nil {
					break
				}
				sum += r[2].Int64()
			}
			tx.Rollback()
			if ctx.Err() == nil && sum != accounts*each {
				bad <- "a snapshot reader saw another sum"
			}
		}
	})
	wg.Wait()
	close(bad)
	for text := range bad {
		require.Fail(t, text)
	}
	require.Positive(t, done.Load())
	t.Logf("%d transfers, %d deadlocks", done.Load(), deadlocks.Load())
	_, err := l.db.Idle(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.rows(orders), replay(t, l.changes("dbo_orders")))
}

func transfer(ctx context.Context, db *engine.Database, t *engine.Table, from, to int) error {
	return db.Do(ctx, func(tx *engine.Tx) error {
		for id, by := range map[int]int64{from: -1, to: +1} {
			spec := set(2, idIn(id), func(r sqltype.Row) sqltype.Value { return sqltype.Int(int32(r[2].Int64() + by)) })
			spec.Scan.Lower = engine.Bound{Values: row(id), Inclusive: true}
			spec.Scan.Upper = spec.Scan.Lower
			if _, err := tx.Update(ctx, t, spec); err != nil {
				return err
			}
		}
		return nil
	})
}
