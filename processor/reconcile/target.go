package reconcile

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/bits"
	"runtime"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// pinned is one version of the target and what it stands for.
type pinned struct {
	cfg      Config
	snapshot *delta.Snapshot
	position mssqlcdc.LSN // the version holds every change up to it, perhaps more
	newest   mssqlcdc.LSN // of a bronze table: the snapshot that its rows begin with; zero if there is none
}

// pin takes the newest version. What the position is asked of is not newer than what is read.
func pin(ctx context.Context, c Config) (*pinned, error) {
	s, err := c.Target.Table.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	t := &pinned{cfg: c, snapshot: s}
	if err := t.check(); err != nil {
		return nil, err
	}
	var known bool
	t.position, known, err = c.Target.Position(ctx, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the position of table %s: %w", c.Target.Name, err)
	case !known:
		return nil, fmt.Errorf("table %s: %w", c.Target.Name, ErrNoPosition)
	}
	if t.snapshot, err = c.Target.Table.Refresh(ctx); err != nil {
		return nil, err
	}
	if c.Target.Kind == Bronze {
		t.newest, err = t.newestSnapshot(ctx)
	}
	if err != nil {
		return nil, err
	}
	return t, t.checkSnapshot()
}

// checkSnapshot refuses a bronze table with rows of a snapshot that is not complete, as far as its log tells.
func (t *pinned) checkSnapshot() error {
	complete, known, err := t.completeSnapshot()
	if err != nil || !known || t.newest.IsZero() || !complete.Less(t.newest) {
		return err
	}
	return &OpenSnapshotError{Target: t.cfg.Target.Name, Snapshot: t.newest}
}

// completeSnapshot is the S of the newest snapshot that the log says the table has whole; false if it says that of none.
func (t *pinned) completeSnapshot() (newest mssqlcdc.LSN, known bool, err error) {
	for txn := range t.snapshot.AppVersions() {
		app, ok := strings.CutSuffix(txn.AppID, mssqlcdc.TxnSnapshotHi)
		if !ok {
			if strings.HasSuffix(txn.AppID, mssqlcdc.TxnSnapshotBegun) {
				known = true
			}
			continue
		}
		lo, _ := t.snapshot.AppVersion(app + mssqlcdc.TxnSnapshotLo)
		lsn, err := mssqlcdc.LSNFromParts(txn.Version, lo)
		if err != nil {
			return lsn, false, fmt.Errorf("reading which snapshot table %s has whole: %w", t.cfg.Target.Name, err)
		}
		known = true
		if newest.Less(lsn) {
			newest = lsn
		}
	}
	return newest, known, nil
}

// check refuses a table that lacks the columns of its kind.
func (t *pinned) check() error {
	var missing []string
	need := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}
	cure := "a table with one row per key is compared as silver"
	if t.cfg.Target.Kind == Current {
		need, cure = nil, "name the column that marks deleted, or current, rows as the table has it"
		for _, name := range []string{t.cfg.Target.DeletedColumn, t.cfg.Target.CurrentColumn} {
			if name != "" {
				need = append(need, name)
			}
		}
	}
	for _, name := range need {
		if t.snapshot.Schema().Index(name) < 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return &TargetError{Target: t.cfg.Target.Name, Missing: missing, Cure: cure}
	}
	return nil
}

// columns are what is read of the target.
func (t *pinned) columns(p *plan) []string {
	var names []string
	for _, col := range p.columns {
		names = append(names, col.target)
	}
	more := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation, mssqlcdc.ColCommandID, mssqlcdc.ColSnapshot}
	if t.cfg.Target.Kind == Current {
		more = []string{t.cfg.Target.LSNColumn, t.cfg.Target.DeletedColumn, t.cfg.Target.CurrentColumn}
	}
	for _, name := range more {
		if field, ok := t.snapshot.Schema().Field(name); ok {
			names = append(names, field.Name)
		}
	}
	return names
}

// each reads the target on all cores. The function is called from several goroutines; a record is gone when it returns.
func (t *pinned) each(ctx context.Context, o delta.ReadOptions, do func(arrow.RecordBatch) error) error {
	table := t.cfg.Target.Table
	group, ctx := errgroup.WithContext(ctx)
	files := make(chan action.Add)
	group.Go(func() error {
		defer close(files)
		for add, err := range t.snapshot.PrunedFiles(ctx, o.Prune) {
			if err != nil {
				return err
			}
			select {
			case files <- add:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range min(runtime.GOMAXPROCS(0), 4) {
		group.Go(func() error {
			for add := range files {
				for rec, err := range table.ReadFile(ctx, t.snapshot, add, o) {
					if err != nil {
						return err
					}
					if t.cfg.tamper != nil {
						rec = t.cfg.tamper(rec)
					}
					if err := do(rec); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("reading table %s: %w", t.cfg.Target.Name, err)
	}
	return nil
}

// scan reads the target into the pile.
func (t *pinned) scan(ctx context.Context, p *plan, into *pile) error {
	return t.rows(ctx, p, func(images *images) error {
		var entries []byte
		for row := range images.n {
			r, ok, err := images.rank(row)
			if err != nil {
				return err
			}
			if ok {
				entries = appendTarget(entries, images.key(row), r, images.value(row))
			}
		}
		return into.add(entries)
	})
}

// rows yields what was read with the means to rank and digest it, from several goroutines.
func (t *pinned) rows(ctx context.Context, p *plan, do func(*images) error) error {
	return t.each(ctx, delta.ReadOptions{Columns: t.columns(p)}, func(rec arrow.RecordBatch) error {
		m, err := t.images(p, rec)
		if err != nil {
			return err
		}
		return do(m)
	})
}

// images are rows of a record of the target.
type images struct {
	*rowDigests
	rec  arrow.RecordBatch
	n    int
	rank func(row int) (r rank, counts bool, err error)
}

func (t *pinned) images(p *plan, rec arrow.RecordBatch) (*images, error) {
	d, err := p.bind(rec, ofTarget, true)
	if err != nil {
		return nil, err
	}
	m := &images{rowDigests: d, rec: rec, n: int(rec.NumRows())}
	if t.cfg.Target.Kind == Bronze {
		m.rank, err = t.changeRank(rec)
	} else {
		m.rank, err = t.currentRank(rec)
	}
	return m, err
}

// named finds a column of a record, ignoring case; nil if there is none.
func named(rec arrow.RecordBatch, s *delta.Snapshot, name string) arrow.Array {
	field, ok := s.Schema().Field(name)
	if !ok {
		return nil
	}
	if at := rec.Schema().FieldIndices(field.Name); len(at) == 1 {
		return rec.Column(at[0])
	}
	return nil
}

// changeRank ranks the rows of a bronze table. Changes up to the newest snapshot, and rows of older ones, do not count.
func (t *pinned) changeRank(rec arrow.RecordBatch) (func(int) (rank, bool, error), error) {
	lsns, ok0 := named(rec, t.snapshot, mssqlcdc.ColStartLSN).(*array.String)
	seqvals, ok1 := named(rec, t.snapshot, mssqlcdc.ColSeqVal).(*array.String)
	operations, ok2 := named(rec, t.snapshot, mssqlcdc.ColOperation).(*array.Int32)
	commands, _ := named(rec, t.snapshot, mssqlcdc.ColCommandID).(*array.Int32)
	snapshots, _ := named(rec, t.snapshot, mssqlcdc.ColSnapshot).(*array.String)
	if !ok0 || !ok1 || !ok2 {
		return nil, fmt.Errorf("the columns %s, %s and %s are not of the types of a bronze table: %s", mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation, rec.Schema())
	}
	return func(row int) (rank, bool, error) {
		lsn, err := lsnAt(lsns, row)
		if err != nil {
			return rank{}, false, err
		}
		operation := mssqlcdc.Operation(operations.Value(row))
		if operation == mssqlcdc.Read {
			snapshot := lsn // of a whole snapshot, which is named by its rows' LSN
			if snapshots != nil && snapshots.IsValid(row) {
				if snapshot, err = lsnAt(snapshots, row); err != nil {
					return rank{}, false, err
				}
			}
			return rankOf(lsn, true, 0, mssqlcdc.LSN{}, operation), snapshot == t.newest, nil
		}
		if !t.newest.Less(lsn) {
			return rank{}, false, nil
		}
		seqval, err := lsnAt(seqvals, row)
		command := int32(0)
		if commands != nil && commands.IsValid(row) {
			command = commands.Value(row)
		}
		return rankOf(lsn, false, command, seqval, operation), true, err
	}, nil
}

// currentRank ranks the rows of a table with one row per key: by their LSN, if they have one. Rows marked as
// deleted, or as not current, do not count.
func (t *pinned) currentRank(rec arrow.RecordBatch) (func(int) (rank, bool, error), error) {
	lsns, _ := named(rec, t.snapshot, t.cfg.Target.LSNColumn).(*array.String)
	var marks arrow.Array
	if name := t.cfg.Target.DeletedColumn; name != "" {
		marks = named(rec, t.snapshot, name)
	}
	flags, isFlag := marks.(*array.Boolean)
	var current *array.Boolean
	if name := t.cfg.Target.CurrentColumn; name != "" {
		var ok bool
		if current, ok = named(rec, t.snapshot, name).(*array.Boolean); !ok {
			return nil, fmt.Errorf("column %s is no boolean", name)
		}
	}
	return func(row int) (rank, bool, error) {
		if current != nil && (current.IsNull(row) || !current.Value(row)) {
			return rank{}, false, nil
		}
		if marks != nil && marks.IsValid(row) && (!isFlag || flags.Value(row)) {
			return rank{}, false, nil
		}
		var lsn mssqlcdc.LSN
		var err error
		if lsns != nil {
			lsn, err = lsnAt(lsns, row)
		}
		return rankOf(lsn, true, 0, mssqlcdc.LSN{}, mssqlcdc.Read), true, err
	}, nil
}

// lsnAt reads an LSN from its text, NULL as none.
func lsnAt(column *array.String, row int) (mssqlcdc.LSN, error) {
	if column.IsNull(row) {
		return mssqlcdc.LSN{}, nil
	}
	text := column.Value(row)
	var l mssqlcdc.LSN
	if len(text) == 2+2*mssqlcdc.LSNSize {
		if n, err := hex.Decode(l[:], []byte(text[2:])); err == nil && n == mssqlcdc.LSNSize {
			return l, nil
		}
	}
	return mssqlcdc.ParseLSN(text)
}

// newestSnapshot is the S of the newest snapshot that the table has rows of.
func (t *pinned) newestSnapshot(ctx context.Context) (mssqlcdc.LSN, error) {
	columns := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColOperation}
	if t.snapshot.Schema().Index(mssqlcdc.ColSnapshot) >= 0 {
		columns = append(columns, mssqlcdc.ColSnapshot)
	}
	options := delta.ReadOptions{Columns: columns, Prune: []prune.Condition{{Column: mssqlcdc.ColOperation, Op: prune.LessOrEqual, Value: int64(mssqlcdc.Read)}}}
	var mu sync.Mutex
	var newest mssqlcdc.LSN
	err := t.each(ctx, options, func(rec arrow.RecordBatch) error {
		lsns, ok := named(rec, t.snapshot, mssqlcdc.ColStartLSN).(*array.String)
		operations, ok1 := named(rec, t.snapshot, mssqlcdc.ColOperation).(*array.Int32)
		snapshots, _ := named(rec, t.snapshot, mssqlcdc.ColSnapshot).(*array.String)
		if !ok || !ok1 {
			return fmt.Errorf("the columns are not those of a bronze table: %s", rec.Schema())
		}
		var own mssqlcdc.LSN
		for row := range int(rec.NumRows()) {
			if mssqlcdc.Operation(operations.Value(row)) != mssqlcdc.Read {
				continue
			}
			from := lsns
			if snapshots != nil && snapshots.IsValid(row) {
				from = snapshots
			}
			lsn, err := lsnAt(from, row)
			if err != nil {
				return err
			}
			if own.Less(lsn) {
				own = lsn
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if newest.Less(own) {
			newest = own
		}
		return nil
	})
	return newest, err
}

// partitions is how many partitions the rows need, so that one of them is joined in little memory.
func (t *pinned) partitions(ctx context.Context) int {
	// The source may have more than the table, and the files need not say how many rows they have.
	const rowsEach, least, most = 50_000, 256, 1024
	rows, err := t.snapshot.NumRecords(ctx)
	if err != nil {
		return most
	}
	return min(most, max(least, 1<<bits.Len64(uint64(rows/rowsEach))))
}
