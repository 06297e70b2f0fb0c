package maintain

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// PropAutoVacuum is the table property with which [Auto] vacuums a table once a
// day: "true". It is ours, not Delta's.
const PropAutoVacuum = "maintain.autoVacuum"

// The defaults of [Auto].
const (
	DefaultAutoFiles = 50
	DefaultAutoSmall = 16 << 20

	// autoBytes is how much one run rewrites; then checkpoints have their turn.
	autoBytes = 256 << 20
	// filesPerLook is the part of a large table that must be new before it is looked
	// through again.
	filesPerLook = 1000
	// autoEvery is the pause between two vacuums, retryAfter that after a failure.
	autoEvery  = 24 * time.Hour
	retryAfter = time.Hour
)

// Auto keeps a table in shape while it is written to: give Auto.Upkeep to
// delta.Options. The zero value compacts and cleans the log. The table's properties
// win over it: delta.autoOptimize.autoCompact, delta.enableExpiredLogCleanup,
// maintain.autoVacuum.
//
// Compaction looks at the table when it has enough files that are new to it, and
// packs the small files of each partition that has many. The log is cleaned once a
// day. Nothing is done by a Table that does not commit.
type Auto struct {
	// NoCompact and NoCleanLog turn these off, Vacuum turns that on.
	NoCompact, NoCleanLog, Vacuum bool

	// MinFiles is how many small files a partition must have to be compacted; 0 is
	// 50. SmallBytes says what small is; 0 is 16 MB. TargetBytes is the size of the
	// files to make, see OptimizeOptions.
	MinFiles                int
	SmallBytes, TargetBytes int64
	// Writer are the choices for the new files.
	Writer data.WriterOptions

	// Floor may keep a part of the log: see LogOptions. May be nil.
	Floor func(ctx context.Context, t *delta.Table, below int64) (int64, error)

	// Done is told what was done, or failed, unless there was nothing to do. It is
	// called from the table's background goroutine and must not close the table.
	// May be nil.
	Done func(Done)
}

// Done is something that [Auto] did. One of the results is set.
type Done struct {
	Optimize *OptimizeResult
	Log      *LogResult
	Vacuum   *VacuumResult
	// Err is why it failed. What was done before is done.
	Err error
}

// Task is what it was, in a word or two.
func (d Done) Task() string {
	switch {
	case d.Optimize != nil:
		return "compaction"
	case d.Log != nil:
		return "log clean-up"
	default:
		return "vacuum"
	}
}

// Upkeep makes the upkeep of one table.
func (a Auto) Upkeep(t *delta.Table) delta.Upkeep {
	if a.MinFiles <= 0 {
		a.MinFiles = DefaultAutoFiles
	}
	if a.SmallBytes <= 0 {
		a.SmallBytes = DefaultAutoSmall
	}
	return &keeper{auto: a, t: t, look: int64(a.MinFiles)}
}

// keeper is the upkeep of one table.
type keeper struct {
	auto Auto
	t    *delta.Table

	mu sync.Mutex
	// look is how many files the table must have to be looked through.
	look int64
	// clean and vacuum are the times before which these are not done.
	clean, vacuum time.Time
}

// jobs are what is due.
type jobs struct{ compact, clean, vacuum bool }

// Due implements delta.Upkeep.
func (k *keeper) Due(s *delta.Snapshot) bool { return k.jobs(s) != jobs{} }

func (k *keeper) jobs(s *delta.Snapshot) jobs {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.t.Now()
	var due jobs
	due.compact = wanted(s, delta.PropAutoCompact, !k.auto.NoCompact) && s.NumFiles() >= k.look
	if _, ok := s.CheckpointVersion(); ok {
		due.clean = wanted(s, delta.PropLogCleanup, !k.auto.NoCleanLog) && !now.Before(k.clean)
	}
	if wanted(s, PropAutoVacuum, k.auto.Vacuum) && !now.Before(k.vacuum) {
		last, _ := s.AppVersion(vacuumApp)
		due.vacuum = now.Sub(time.UnixMilli(last)) >= autoEvery
	}
	return due
}

// wanted reads a property that turns something on or off.
func wanted(s *delta.Snapshot, property string, fallback bool) bool {
	text, ok := s.Property(property)
	if !ok {
		return fallback
	}
	// Spark knows "auto" beside "true" for compaction.
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "auto")
}

// Run implements delta.Upkeep.
func (k *keeper) Run(ctx context.Context) {
	due := k.jobs(k.t.Snapshot())
	if due.clean {
		k.cleanLog(ctx)
	}
	if due.compact && ctx.Err() == nil {
		k.compact(ctx)
	}
	if due.vacuum && ctx.Err() == nil {
		k.vacuumTable(ctx)
	}
}

func (k *keeper) compact(ctx context.Context) {
	a := k.auto
	result, err := Optimize(ctx, k.t, OptimizeOptions{
		TargetBytes: a.TargetBytes, SmallBytes: a.SmallBytes, MinFiles: a.MinFiles, MaxBytes: autoBytes,
		DeletedRatio: 2, // more than there can be: that is not its task
		Writer:       a.Writer, tiered: true, auto: true,
	})
	files := k.t.Snapshot().NumFiles()
	k.mu.Lock()
	k.look = files + max(int64(a.MinFiles), files/filesPerLook)
	if err == nil && result.BytesRemoved >= autoBytes {
		k.look = 0 // there may be more
	}
	k.mu.Unlock()
	if errors.Is(err, ErrBusy) {
		err = nil // there is another time
	}
	if err != nil || result.Commits > 0 {
		k.tell(ctx, Done{Optimize: &result, Err: err})
	}
}

func (k *keeper) cleanLog(ctx context.Context) {
	var o LogOptions
	if k.auto.Floor != nil {
		o.Floor = func(ctx context.Context, below int64) (int64, error) { return k.auto.Floor(ctx, k.t, below) }
	}
	result, err := CleanLog(ctx, k.t, o)
	k.mu.Lock()
	k.clean = k.t.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if err != nil {
		k.clean = k.t.Now().Add(retryAfter)
	}
	k.mu.Unlock()
	if err != nil || result.Deleted > 0 {
		k.tell(ctx, Done{Log: &result, Err: err})
	}
}

func (k *keeper) vacuumTable(ctx context.Context) {
	result, err := Vacuum(ctx, k.t, VacuumOptions{})
	k.mu.Lock()
	k.vacuum = k.t.Now().Add(autoEvery)
	if err != nil {
		k.vacuum = k.t.Now().Add(retryAfter)
	}
	k.mu.Unlock()
	if err != nil || result.Deleted > 0 {
		k.tell(ctx, Done{Vacuum: &result, Err: err})
	}
}

// tell reports what was done. Being stopped is no failure.
func (k *keeper) tell(ctx context.Context, d Done) {
	if k.auto.Done != nil && (d.Err == nil || ctx.Err() == nil) {
		k.auto.Done(d)
	}
}

// TxnFloor is a floor for the log of a table whose commits somebody reads, for
// LogOptions: it returns the version of the oldest commit below the given one that
// sets the application to a version above read, or below if there is none. The
// versions of the application must rise from commit to commit.
func TxnFloor(ctx context.Context, t *delta.Table, appID string, read, below int64) (int64, error) {
	if newest, ok := t.Snapshot().AppVersion(appID); !ok || newest <= read {
		return below, nil
	}
	floor := below
	for version := below - 1; version >= 0; version-- {
		c, err := replay.ReadSummary(ctx, t.Store(), version)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return 0, err
		}
		for _, txn := range c.Txns {
			if txn.AppID != appID {
				continue
			}
			if txn.Version <= read {
				return floor, nil
			}
			floor = version
		}
	}
	return floor, nil
}
