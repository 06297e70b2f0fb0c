package silver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// Applier brings one table up to date with its bronze table. It is safe for concurrent
// use: calls go one after the other, and where other processes work on the same table,
// one of two stops with [ErrOvertaken].
type Applier struct {
	cfg Config

	mu     sync.Mutex
	bronze *delta.Table // nil until it is there
	target *delta.Table // nil until it is there
}

// New checks the configuration. Nothing is opened before the first call.
func New(cfg Config) (*Applier, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Applier{cfg: cfg}, nil
}

// Result is the outcome of one call.
type Result struct {
	// BronzeFound is false while there is no bronze table; then nothing was done.
	BronzeFound bool
	// Changed says that the table changed, Rebuilt that a snapshot was complete with this
	// call, so that what it does not have is gone. Version is the table's afterwards.
	Changed, Rebuilt bool
	Version          int64
	// Rows are the rows of bronze that were applied, Merges the commits that took.
	Rows   int64
	Merges int
	// Metrics add up those of the merges.
	Inserted, Updated, Deleted int64

	// How far the table is; see control.Verdict.
	AppliedLSN, SnapshotLSN, OpenSnapshot mssqlcdc.LSN
	Wave                                  int64
	Verdict                               control.Verdict
	Took                                  time.Duration
}

// call is one run of Apply.
type call struct {
	*Applier
	s      *delta.Snapshot // of bronze
	source control.Verdict // of bronze
	layout *layout
	plan   *plan
	seq    int64 // number of the last commit
	marked bool  // progress is in the table
	fresh  bool  // the table had no rows when the call began, and only this call has written
	result Result
	seed   maphash.Seed
}

// Apply applies what bronze has and the table has not, and then moves its verdict. A call
// that was missed, comes twice or is cut off changes nothing but when rows come: progress
// is in the table itself. Errors of [Lasting] need somebody to act.
func (a *Applier) Apply(ctx context.Context) (Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	begun := a.cfg.Now()
	c := &call{Applier: a, seed: maphash.MakeSeed()}
	err := c.run(ctx)
	c.result.Took = a.cfg.Now().Sub(begun)
	return c.result, err
}

func (c *call) run(ctx context.Context) error {
	// Bronze's verdict comes first: rows are committed before it, so the version read
	// next has everything that it speaks of.
	var err error
	if c.source, err = c.sourceVerdict(ctx); err != nil {
		return err
	}
	if found, err := c.openBronze(ctx); err != nil || !found {
		return err
	}
	c.result.BronzeFound = true
	c.s = c.bronze.Snapshot()
	if c.layout, err = newLayout(c.cfg, c.s); err != nil {
		return err
	}
	if err := c.prepareTarget(ctx); err != nil {
		return err
	}
	before, err := readProgress(c.target.Snapshot())
	if err != nil {
		return fmt.Errorf("reading table %s: %w", c.cfg.TargetName, err)
	}
	c.seq, c.fresh = before.sequence, c.target.Snapshot().NumFiles() == 0
	if err := c.checkVerdict(ctx, before); err != nil {
		return err
	}
	if c.plan, err = c.makePlan(ctx, c.s, c.layout, before); err != nil {
		return err
	}
	if err := c.apply(ctx); err != nil {
		return err
	}
	after := c.plan.after
	r := &c.result
	r.Version = c.target.Snapshot().Version()
	r.AppliedLSN, r.SnapshotLSN, r.OpenSnapshot, r.Wave = after.applied, after.snapshot, after.open, after.wave
	return c.moveVerdict(ctx)
}

// openBronze opens bronze, or brings it up to date; false while there is none.
func (a *Applier) openBronze(ctx context.Context) (bool, error) {
	if a.bronze != nil {
		if _, err := a.bronze.Refresh(ctx); err != nil {
			if errors.Is(err, delta.ErrTableReplaced) {
				a.bronze = nil // the next call looks at what is there now
			}
			return false, fmt.Errorf("reading bronze: %w", err)
		}
		return true, nil
	}
	o := a.cfg.Delta
	o.Upkeep = nil // its writer keeps it in shape
	table, err := delta.Open(ctx, a.cfg.Bronze, o)
	if errors.Is(err, delta.ErrNotTable) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading bronze: %w", err)
	}
	a.bronze = table
	return true, nil
}

// apply brings the rows into the table, and progress with the last of them.
func (c *call) apply(ctx context.Context) error {
	p := c.plan
	if p.base == "" && p.completed == "" && p.before.same(p.after) {
		return nil
	}
	var m mode = &current{call: c}
	if c.cfg.Mode == History {
		m = &history{call: c}
	}
	if p.base != "" {
		if err := c.eachPile(ctx, m); err != nil {
			return err
		}
	}
	c.fresh = false
	if p.completed != "" {
		c.result.Rebuilt = true
		if err := m.removeStale(ctx); err != nil {
			return fmt.Errorf("removing what snapshot %s does not have from table %s: %w", p.completed, c.cfg.TargetName, err)
		}
	}
	if !c.marked {
		return c.merge(ctx, merge.Source{}, nil, true)
	}
	return nil
}

// mode is how rows become those of the table.
type mode interface {
	// from is the lowest _start_lsn of rows of bronze to read.
	from() string
	// wants tells whether a row of bronze at or above from is to be read.
	wants(c *changes, row int) bool
	// pile applies all rows of some keys; last says that no more follow.
	pile(ctx context.Context, rows iter.Seq2[arrow.RecordBatch, error], last bool) error
	// removeStale ends what a complete snapshot does not have.
	removeStale(ctx context.Context) error
}

// Close waits for what the tables do in the background.
func (a *Applier) Close(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, t := range []*delta.Table{a.bronze, a.target} {
		if t != nil {
			errs = append(errs, t.Close(ctx))
		}
	}
	a.bronze, a.target = nil, nil
	return errors.Join(errs...)
}
