package silver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// removeStale ends the images that are older than a snapshot that is complete now and does
// not have their keys. The keys of both sides are laid out in piles by their hash.
func (m *history) removeStale(ctx context.Context) (err error) {
	completed := m.plan.completed
	options := delta.ReadOptions{Prune: []prune.Condition{
		{Column: ColEndLSN, Op: prune.IsNull}, condition(mssqlcdc.ColStartLSN, prune.Less, completed),
	}}
	keyColumns := append(m.layout.read[:len(m.layout.read)-len(m.layout.captured):len(m.layout.read)], m.layout.bronze...)
	there := delta.ReadOptions{Columns: keyColumns, Prune: []prune.Condition{condition(mssqlcdc.ColStartLSN, prune.GreaterOrEqual, completed)}}
	n, err := m.pilesFor(ctx, options.Prune)
	if err != nil || n == 0 {
		return err
	}
	keys, err := newPiles(m.cfg.TempDir, n, m.layout.bronze, m.seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keys.close()) }()
	images, err := newPiles(m.cfg.TempDir, n, m.layout.keys, m.seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, images.close()) }()
	for rec, err := range m.bronze.Read(ctx, m.s, there) {
		if err != nil {
			return fmt.Errorf("reading bronze: %w", err)
		}
		c, err := newChanges(rec)
		if err != nil {
			return err
		}
		var rows []int64
		for row := range int(rec.NumRows()) {
			if c.op(row) == mssqlcdc.Read && c.snapshotOf(row) == completed {
				rows = append(rows, int64(row))
			}
		}
		if err := hand(ctx, rec, rows, func(rec arrow.RecordBatch) error { return keys.add(ctx, rec) }); err != nil {
			return err
		}
	}
	for rec, err := range m.target.Read(ctx, m.target.Snapshot(), options) {
		if err != nil {
			return err
		}
		o, err := newOwn(rec)
		if err != nil {
			return &ConfigError{Target: m.cfg.TargetName, Reason: err.Error()}
		}
		var rows []int64
		for row := range int(rec.NumRows()) {
			if o.end.IsNull(row) && text(o.start, row) < completed {
				rows = append(rows, int64(row))
			}
		}
		if err := hand(ctx, rec, rows, func(rec arrow.RecordBatch) error { return images.add(ctx, rec) }); err != nil {
			return err
		}
	}
	for i := range n {
		if err := m.endStale(ctx, keys.read(i), images.read(i)); err != nil {
			return err
		}
	}
	return nil
}

// endStale ends the images of one pile whose keys the snapshot does not have.
func (m *history) endStale(ctx context.Context, keys, images iter.Seq2[arrow.RecordBatch, error]) error {
	has := map[string]bool{}
	var key []byte
	for rec, err := range keys {
		if err != nil {
			return err
		}
		of, err := newKeyReader(rec, m.layout.bronze)
		if err != nil {
			return err
		}
		for row := range int(rec.NumRows()) {
			has[string(of.of(key[:0], row))] = true
		}
	}
	w := &writer{history: m, source: &merge.Source{}}
	defer w.clear()
	at := m.snapshots()[m.plan.completed]
	for rec, err := range images {
		if err != nil {
			return err
		}
		rec.Retain()
		w.kept = append(w.kept, rec)
		of, err := newKeyReader(rec, m.layout.keys)
		if err != nil {
			return err
		}
		o, err := newOwn(rec)
		if err != nil {
			return &ConfigError{Target: m.cfg.TargetName, Reason: err.Error()}
		}
		for n := range int(rec.NumRows()) {
			if key = of.of(key[:0], n); has[string(key)] {
				continue
			}
			i := o.image(row{rec: rec, at: n, layout: m.layout})
			i.end, i.to = m.plan.completed, at
			w.write = append(w.write, i)
		}
	}
	return w.flush(ctx, false)
}

// pilesFor is how many piles the files with such rows need, 0 if there are none.
func (m *history) pilesFor(ctx context.Context, conditions []prune.Condition) (int, error) {
	var bytes, rows int64
	for add, err := range m.target.Snapshot().PrunedFiles(ctx, conditions) {
		if err != nil {
			return 0, err
		}
		bytes += add.Size
		rows += recordsOf(add)
	}
	return int(min(max(ceil(bytes*unpacked, m.cfg.SliceBytes), ceil(rows, m.cfg.SliceRows)), maxPiles)), nil
}

// recordsOf is the number of rows of a file, 0 if it does not say.
func recordsOf(add action.Add) int64 {
	var stats struct {
		NumRecords int64 `json:"numRecords"`
	}
	if json.Unmarshal([]byte(add.Stats), &stats) != nil {
		return 0
	}
	return stats.NumRecords
}
