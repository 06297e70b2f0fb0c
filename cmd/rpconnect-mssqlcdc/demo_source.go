package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// maxOrders is how many change rows come from statements; more come from a captured
// backlog, which needs no statement per row.
const maxOrders = 20_000

// demoSource is the simulator with its workload.
type demoSource struct {
	sim    *sqlserversim.Server
	clock  *demoClock
	orders *workload.Orders
	rows   int64 // wanted
	bulk   int64 // rows of the backlog
}

// demoClock begins two hours ago and is moved to now, so that the workload spreads
// over minutes that can become final.
type demoClock struct {
	mu     sync.Mutex
	behind time.Duration
}

func (c *demoClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(-c.behind)
}

func (c *demoClock) moveTo(behind time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = min(c.behind, behind)
}

func startDemoSource(ctx context.Context, rows int64) (*demoSource, error) {
	s := &demoSource{rows: rows, clock: &demoClock{behind: 2 * time.Hour}}
	var err error
	// Capture runs when the demo says so, so that each run of the pipeline has its
	// share.
	if s.sim, err = sqlserversim.Start(sqlserversim.WithClock(s.clock), sqlserversim.WithCaptureInterval(0)); err != nil {
		return nil, fmt.Errorf("starting the simulator: %w", err)
	}
	if s.orders, err = workload.NewOrders(ctx, s.sim, workload.OrdersConfig{Seed: 1, Start: s.clock.Now().UTC()}); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *demoSource) dsn() string { return s.sim.DSN() }

func (s *demoSource) close() error { return s.sim.Close() }

// write makes the first share: every type, orders, and a backlog if that is not
// enough.
func (s *demoSource) write(ctx context.Context, say func(string, ...any)) error {
	types, err := workload.WriteTypes(ctx, s.sim)
	if err != nil {
		return err
	}
	say("   %-20s %8d change rows: every type with NULL, minimum, maximum and nasty values\n", types.Table, types.Changes)
	if err := s.writeOrders(ctx, min(s.rows, maxOrders)*9/10, 90*time.Minute); err != nil {
		return err
	}
	if s.bulk = s.rows - maxOrders; s.bulk > 0 {
		truth, err := workload.Backlog(ctx, s.sim, workload.Narrow, s.bulk, 20)
		if err != nil {
			return err
		}
		say("   %-20s %8d change rows: a captured backlog\n", truth.Table, truth.Rows)
	}
	s.bulk = max(s.bulk, 0)
	s.tell(say)
	return s.capture(ctx)
}

// writeMore makes the second share.
func (s *demoSource) writeMore(ctx context.Context, say func(string, ...any)) error {
	if err := s.writeOrders(ctx, min(s.rows, maxOrders), 0); err != nil {
		return err
	}
	s.tell(say)
	return s.capture(ctx)
}

func (s *demoSource) tell(say func(string, ...any)) {
	truth := s.orders.Truth()
	for _, table := range truth.Tables() {
		say("   %-20s %8d change rows: %d inserts, %d updates, %d deletes so far\n", table, truth.Count(table),
			truth.CountOperation(table, 2), truth.CountOperation(table, 4), truth.CountOperation(table, 1))
	}
}

func (s *demoSource) capture(ctx context.Context) error {
	if err := s.sim.Capture(ctx); err != nil {
		return err
	}
	return s.sim.Idle(ctx)
}

// writeOrders runs the workload up to a number of change rows, while the clock moves
// towards behind.
func (s *demoSource) writeOrders(ctx context.Context, rows int64, behind time.Duration) error {
	const stride = 50
	for int64(s.orders.Truth().Count("")) < rows {
		if err := s.orders.Run(ctx, stride); err != nil {
			return err
		}
		s.clock.moveTo(max(behind, s.clockBehind()-time.Minute))
	}
	s.clock.moveTo(behind)
	return nil
}

func (s *demoSource) clockBehind() time.Duration {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.clock.behind
}

// rowsSent is how many rows the simulator has sent to anybody.
func (s *demoSource) rowsSent() int64 { return int64(s.sim.Counters().Rows) }
