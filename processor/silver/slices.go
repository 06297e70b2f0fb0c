package silver

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// unpacked is how much larger rows are in memory than in their file, roughly.
const unpacked = 5

// eachPile reads the rows of bronze that the mode wants and hands them over by piles of
// keys, so that no more than about one slice is in memory.
func (c *call) eachPile(ctx context.Context, m mode) (err error) {
	rows, bytes, err := c.size(ctx, m.from())
	if err != nil {
		return err
	}
	n := max(1, ceil(rows, c.cfg.SliceRows), ceil(bytes*unpacked, c.cfg.SliceBytes))
	all, err := newPiles(c.cfg.TempDir, int(min(n, maxPiles)), c.layout.bronze, c.seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.close()) }()
	if err := c.readBronze(ctx, m, func(rec arrow.RecordBatch) error { return all.add(ctx, rec) }); err != nil {
		return err
	}
	// Stale rows are ended by merges of their own, the last of which brings progress.
	last := all.len() - 1
	if c.plan.completed != "" {
		last = math.MaxInt
	}
	for i := range all.len() {
		if err := m.pile(ctx, all.read(i), i == last); err != nil {
			return fmt.Errorf("applying changes to table %s: %w", c.cfg.TargetName, err)
		}
	}
	return nil
}

// size is about how much is read of bronze from an LSN on: the rows that are new, or, where
// a late chunk has much read again, those of the files that lie behind the LSN as a whole.
func (c *call) size(ctx context.Context, from string) (rows, bytes int64, err error) {
	start, _ := c.s.Schema().Field(mssqlcdc.ColStartLSN)
	columns := prune.NewColumns([]schema.Field{start}, c.s.Mapping(), c.s.PartitionColumns())
	var again, size int64
	for add, err := range c.s.PrunedFiles(ctx, []prune.Condition{condition(mssqlcdc.ColStartLSN, prune.GreaterOrEqual, from)}) {
		if err != nil {
			return 0, 0, fmt.Errorf("choosing files of %s: %w", c.cfg.BronzeName, err)
		}
		if b := columns.Of(nil, add)[0]; b.HasLower && b.Lower.Text >= from {
			again += recordsOf(add)
			size += add.Size
		}
	}
	return max(c.plan.rows, again), max(c.plan.bytes, size), nil
}

func ceil(n, d int64) int64 { return (n + d - 1) / d }

// readBronze hands over the rows that the mode wants.
func (c *call) readBronze(ctx context.Context, m mode, do func(arrow.RecordBatch) error) error {
	options := delta.ReadOptions{Columns: c.layout.read}
	if from := m.from(); from != "" {
		options.Prune = []prune.Condition{condition(mssqlcdc.ColStartLSN, prune.GreaterOrEqual, from)}
	}
	var rows []int64
	for rec, err := range c.bronze.Read(ctx, c.s, options) {
		if err != nil {
			return fmt.Errorf("reading bronze: %w", err)
		}
		changes, err := newChanges(rec)
		if err != nil {
			return err
		}
		if rows, err = c.choose(m, changes, rows[:0]); err != nil {
			return err
		}
		if err := hand(ctx, rec, rows, do); err != nil {
			return err
		}
	}
	return nil
}

// hand hands over some rows of a batch.
func hand(ctx context.Context, rec arrow.RecordBatch, rows []int64, do func(arrow.RecordBatch) error) error {
	switch len(rows) {
	case 0:
		return nil
	case int(rec.NumRows()):
		return do(rec)
	}
	part, err := take(ctx, rec, rows)
	if err != nil {
		return err
	}
	defer part.Release()
	return do(part)
}

// choose are the rows that the mode wants. A NULL in a key that has none is an error.
func (c *call) choose(m mode, changes *changes, rows []int64) ([]int64, error) {
	from := m.from()
	var keys *keyReader
	if c.layout.inferred {
		var err error
		if keys, err = newKeyReader(changes.rec, c.layout.bronze); err != nil {
			return nil, err
		}
	}
	for row := range int(changes.rec.NumRows()) {
		if changes.start.Value(row) < from || !m.wants(changes, row) {
			continue
		}
		if keys != nil {
			if at := keys.null(row); at >= 0 {
				return nil, &KeyError{Target: c.cfg.TargetName, Column: c.layout.keys[at], Reason: fmt.Sprintf(
					"is NULL in a change of commit %s, and the source's unique index has none: bronze table %s is damaged, or another processor changed the rows; name other columns with keys",
					changes.start.Value(row), c.cfg.BronzeName)}
			}
		}
		rows = append(rows, int64(row))
	}
	return rows, nil
}

// merge commits one slice. The last one of a call brings progress along.
func (c *call) merge(ctx context.Context, src merge.Source, versions []string, last bool) error {
	if !last && len(src.Upserts)+len(src.Deletes) == 0 {
		return nil
	}
	if c.fresh && len(src.Deletes) == 0 {
		return c.appendRows(ctx, src.Upserts, last)
	}
	keys := c.layout.keys
	if c.cfg.Mode == History {
		keys = append(keys[:len(keys):len(keys)], mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal)
	}
	o := merge.Options{
		Keys: keys, Versions: versions, Strategy: c.cfg.Strategy, EnableDeletionVectors: c.cfg.Strategy == merge.DeletionVectors,
		Keyed: &delta.Txn{AppID: txnSequence, Version: c.seq + 1}, Writer: c.cfg.Writer, Parallel: c.cfg.Parallel,
	}
	if last {
		o.Marks = c.plan.after.marks()
	}
	done, err := merge.Run(ctx, c.target, src, o)
	if err != nil {
		return err
	}
	if done.State == delta.AlreadyApplied {
		return ErrOvertaken
	}
	c.committed(last)
	r := &c.result
	r.Inserted += done.Metrics.RowsInserted
	r.Updated += done.Metrics.RowsUpdated
	r.Deleted += done.Metrics.RowsDeleted
	return nil
}

// committed counts a commit of the sequence.
func (c *call) committed(last bool) {
	c.seq++
	c.marked = c.marked || last
	c.result.Changed = true
	c.result.Merges++
}

// appendRows is merge into a table that had no rows when the call began: no key of a slice is
// in it, since every key is in one slice.
func (c *call) appendRows(ctx context.Context, rows []arrow.RecordBatch, last bool) error {
	change := delta.Change{
		Operation: delta.OpMerge, BlindAppend: true, ReadVersion: c.target.Snapshot().Version(),
		Keyed: &delta.Txn{AppID: txnSequence, Version: c.seq + 1},
	}
	if last {
		change.Marks = c.plan.after.marks()
	}
	var inserted int64
	if len(rows) > 0 {
		w, err := c.target.NewWriter(ctx, c.cfg.Writer)
		if err != nil {
			return fmt.Errorf("writing the first rows: %w", err)
		}
		for _, rec := range rows {
			if err := w.Write(rec); err != nil {
				return errors.Join(fmt.Errorf("writing the first rows: %w", err), w.Abort())
			}
			inserted += rec.NumRows()
		}
		if change.Add, err = w.Close(); err != nil {
			return fmt.Errorf("writing the first rows: %w", err)
		}
	}
	change.Metrics = map[string]int64{"numTargetRowsInserted": inserted, "numTargetFilesAdded": int64(len(change.Add))}
	done, err := c.target.Commit(ctx, change)
	var unknown *delta.UnknownOutcomeError
	switch {
	case errors.As(err, &unknown): // the files may be the table's
		return fmt.Errorf("committing the first rows: %w", err)
	case err != nil:
		return errors.Join(fmt.Errorf("committing the first rows: %w", err), c.target.Discard(context.WithoutCancel(ctx), change.Add))
	case done.State == delta.AlreadyApplied:
		return errors.Join(ErrOvertaken, c.target.Discard(ctx, change.Add))
	}
	c.committed(last)
	c.result.Inserted += inserted
	return nil
}
