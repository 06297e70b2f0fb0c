package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/bench/tables"
)

// commitRuns is how many commits a commit case makes: fewer than the commits between checkpoints.
const commitRuns = 51

// runCase runs one case of ours in this process.
func runCase(ctx context.Context, o options) error {
	for _, c := range o.chosen() {
		if c.name != o.name {
			continue
		}
		m, err := c.ours(ctx, o)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(m)
	}
	return fmt.Errorf("no case %q", o.name)
}

// writeFiles writes batches to data files and releases them.
func writeFiles(ctx context.Context, table *delta.Table, o data.WriterOptions, recs ...arrow.RecordBatch) ([]action.Add, error) {
	w, err := table.NewWriter(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			return nil, err
		}
		rec.Release()
	}
	return w.Close()
}

func appendRows(ctx context.Context, table *delta.Table, o data.WriterOptions, recs ...arrow.RecordBatch) (int64, error) {
	adds, err := writeFiles(ctx, table, o, recs...)
	if err != nil {
		return 0, err
	}
	var size int64
	for _, a := range adds {
		size += a.Size
	}
	_, err = table.Commit(ctx, delta.Change{Operation: delta.OpWrite, Add: adds, BlindAppend: true})
	return size, err
}

func openTable(ctx context.Context, dir string) (*delta.Table, error) {
	st, err := file.New(dir)
	if err != nil {
		return nil, err
	}
	return delta.Open(ctx, st, delta.Options{})
}

// emptyTable makes a table anew.
func emptyTable(ctx context.Context, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	st, err := file.New(dir)
	if err != nil {
		return err
	}
	_, err = delta.Create(ctx, st, delta.Spec{Schema: tableSchema()}, delta.Options{})
	return err
}

func benchAppend(ctx context.Context, o options) (measure, error) {
	dir := filepath.Join(o.dir, "append-"+engineOurs)
	if err := emptyTable(ctx, dir); err != nil {
		return measure{}, err
	}
	clock := newClock(o.profile)
	m := measure{}
	for n := range o.rows / batchRows {
		in, err := loadBatch(batchPath(o.dir, n))
		if err != nil {
			return m, err
		}
		clock.start()
		size, err := appendOnce(ctx, dir, in.rec)
		clock.stop()
		if err != nil {
			return m, err
		}
		m.Bytes += size
		m.Rows += batchRows
		if err := in.free(); err != nil {
			return m, err
		}
	}
	clock.total(&m)
	return m, countRows(ctx, dir, &m)
}

// appendOnce opens the table, appends and closes it.
func appendOnce(ctx context.Context, dir string, rec arrow.RecordBatch) (int64, error) {
	table, err := openTable(ctx, dir)
	if err != nil {
		return 0, err
	}
	size, err := appendRows(ctx, table, data.WriterOptions{}, rec)
	if err != nil {
		return 0, err
	}
	return size, table.Close(ctx)
}

// countRows sets the answer to the rows that the table has.
func countRows(ctx context.Context, dir string, m *measure) error {
	table, err := openTable(ctx, dir)
	if err != nil {
		return err
	}
	m.Answer, err = table.Snapshot().NumRecords(ctx)
	return err
}

func benchStream(encodings data.Encodings) func(context.Context, options) (measure, error) {
	return func(ctx context.Context, o options) (measure, error) {
		dir := filepath.Join(o.dir, "stream-"+engineOurs)
		if err := emptyTable(ctx, dir); err != nil {
			return measure{}, err
		}
		var recs []arrow.RecordBatch
		for n := range o.rows / batchRows {
			in, err := loadBatch(batchPath(o.dir, n))
			if err != nil {
				return measure{}, err
			}
			recs = append(recs, in.rec)
		}
		clock := newClock(o.profile)
		clock.start()
		table, err := openTable(ctx, dir)
		if err != nil {
			return measure{}, err
		}
		m := measure{Rows: o.rows}
		m.Bytes, err = appendRows(ctx, table, data.WriterOptions{Encodings: encodings}, recs...)
		clock.stop()
		if err != nil {
			return m, err
		}
		clock.total(&m)
		return m, countRows(ctx, dir, &m)
	}
}

// cloned makes a table with a prepared log and opens it.
func cloned(ctx context.Context, dir, name string, log synthetic) (*delta.Table, error) {
	path := filepath.Join(dir, name+"-"+engineOurs)
	if err := tables.Clone(filepath.Join(dir, log.name()), path); err != nil {
		return nil, err
	}
	return openTable(ctx, path)
}

func benchCommit(log synthetic, inMemory bool) func(context.Context, options) (measure, error) {
	return func(ctx context.Context, o options) (measure, error) {
		dir := o.dir
		if inMemory {
			dir = o.shm
		}
		table, err := cloned(ctx, dir, "commit", log)
		if err != nil {
			return measure{}, err
		}
		rec := makeRows(7, 1, nil)
		clock := newClock(o.profile)
		m := measure{Rows: 1}
		for range commitRuns {
			rec.Retain()
			clock.start()
			size, err := appendRows(ctx, table, data.WriterOptions{}, rec)
			clock.stop()
			if err != nil {
				return m, err
			}
			m.Bytes += size
		}
		clock.each(&m)
		m.Answer = table.Snapshot().NumFiles() - commitRuns
		return m, nil
	}
}

func benchCheckpoint(log synthetic) func(context.Context, options) (measure, error) {
	return func(ctx context.Context, o options) (measure, error) {
		table, err := cloned(ctx, o.dir, "checkpoint", log)
		if err != nil {
			return measure{}, err
		}
		if _, err := appendRows(ctx, table, data.WriterOptions{}, makeRows(7, 1, nil)); err != nil {
			return measure{}, err
		}
		clock := newClock(o.profile)
		clock.start()
		written, err := table.WriteCheckpoint(ctx)
		clock.stop()
		if err != nil {
			return measure{}, err
		}
		m := measure{Answer: written.Version}
		clock.total(&m)
		info, err := os.Stat(filepath.Join(o.dir, "checkpoint-"+engineOurs, filepath.FromSlash(replay.CheckpointPath(written.Version))))
		if err != nil {
			return m, err
		}
		m.Bytes = info.Size()
		return m, nil
	}
}

func benchAppender(log synthetic) func(context.Context, options) (measure, error) {
	return func(ctx context.Context, o options) (measure, error) {
		table, err := cloned(ctx, o.dir, "appender", log)
		if err != nil {
			return measure{}, err
		}
		var recs []arrow.RecordBatch
		for n := range appenderBatches {
			in, err := loadBatch(batchPath(o.dir, n))
			if err != nil {
				return measure{}, err
			}
			recs = append(recs, in.rec)
		}
		clock := newClock(o.profile)
		clock.start()
		m := measure{Rows: appenderBatches * batchRows}
		for _, rec := range recs {
			size, err := appendRows(ctx, table, data.WriterOptions{}, rec)
			if err != nil {
				return m, err
			}
			m.Bytes += size
		}
		clock.stop()
		clock.total(&m)
		m.Answer = table.Snapshot().Version()
		return m, nil
	}
}

func benchOpen(log synthetic) func(context.Context, options) (measure, error) {
	return func(ctx context.Context, o options) (measure, error) {
		clock := newClock(o.profile)
		clock.start()
		table, err := openTable(ctx, filepath.Join(o.dir, log.name()))
		if err != nil {
			return measure{}, err
		}
		m := measure{}
		for _, err := range table.Snapshot().Files(ctx) {
			if err != nil {
				return m, err
			}
			m.Answer++
		}
		clock.stop()
		clock.total(&m)
		return m, nil
	}
}

func benchMerge(rows int, strategy merge.Strategy) func(context.Context, options) (measure, error) {
	return func(ctx context.Context, o options) (measure, error) {
		path := filepath.Join(o.dir, "merge-"+engineOurs)
		if err := tables.Clone(filepath.Join(o.dir, mergeTable), path); err != nil {
			return measure{}, err
		}
		in, err := loadBatch(sourcePath(o.dir, rows))
		if err != nil {
			return measure{}, err
		}
		clock := newClock(o.profile)
		clock.start()
		table, err := openTable(ctx, path)
		if err != nil {
			return measure{}, err
		}
		done, err := merge.Run(ctx, table, merge.Source{Upserts: []arrow.RecordBatch{in.rec}},
			merge.Options{Keys: []string{"id"}, Strategy: strategy, EnableDeletionVectors: true})
		clock.stop()
		if err != nil {
			return measure{}, err
		}
		m := measure{Rows: rows, Bytes: done.Metrics.BytesAdded}
		clock.total(&m)
		if changed := done.Metrics.RowsUpdated + done.Metrics.RowsInserted; changed != int64(rows) {
			return m, fmt.Errorf("the merge changed %d rows of %d", changed, rows)
		}
		return m, countRows(ctx, path, &m)
	}
}
