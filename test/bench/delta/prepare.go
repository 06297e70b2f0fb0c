package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// appenderBatches are the appends of an appender case.
const appenderBatches = 10

func batchPath(dir string, n int) string {
	return filepath.Join(dir, "rows", fmt.Sprintf("%05d.arrow", n))
}

// prepare makes what the chosen cases need and what is not there: a folder given with --dir can be used again.
func prepare(ctx context.Context, o options) error {
	for _, c := range o.chosen() {
		dir := o.dir
		if c.inMemory {
			dir = o.shm
		}
		for n := range c.needs.batches {
			err := once(batchPath(o.dir, n), func(path string) error { return writeBatch(path, makeRows(n*batchRows, batchRows, nil)) })
			if err != nil {
				return err
			}
		}
		if log := c.needs.log; log.commits > 0 {
			if err := once(filepath.Join(dir, "one.arrow"), func(path string) error { return writeBatch(path, makeRows(7, 1, nil)) }); err != nil {
				return err
			}
			if err := once(filepath.Join(dir, log.name()), func(path string) error { return log.write(ctx, path) }); err != nil {
				return err
			}
		}
		if c.needs.merge {
			if err := prepareMerges(ctx, o.dir); err != nil {
				return err
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(measure{})
}

// mergeTable is the name of the table that merges go into.
const mergeTable = "merge-target"

func sourcePath(dir string, rows int) string {
	return filepath.Join(dir, fmt.Sprintf("merge-source-%d.arrow", rows))
}

// prepareMerges makes the target, in one file, and the sources.
func prepareMerges(ctx context.Context, dir string) error {
	for _, rows := range []int{10_000, 100_000} {
		if err := once(sourcePath(dir, rows), func(path string) error { return writeBatch(path, mergeSource(rows)) }); err != nil {
			return err
		}
	}
	return once(filepath.Join(dir, mergeTable), func(path string) error {
		if err := emptyTable(ctx, path); err != nil {
			return err
		}
		table, err := openTable(ctx, path)
		if err != nil {
			return err
		}
		var recs []arrow.RecordBatch
		for first := 0; first < mergeTarget; first += batchRows {
			recs = append(recs, makeRows(first, batchRows, nil))
		}
		if _, err := appendRows(ctx, table, data.WriterOptions{}, recs...); err != nil {
			return err
		}
		return table.Close(ctx)
	})
}

// once makes a file or folder under another name first, so that half of one is never taken for the whole.
func once(path string, create func(path string) error) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	part := path + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := create(part); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	return os.Rename(part, path)
}

// writeBatch writes a batch as an Arrow file and releases it.
func writeBatch(path string, rec arrow.RecordBatch) error {
	defer rec.Release()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(rec.Schema()))
	if err == nil {
		err = errors.Join(w.Write(rec), w.Close())
	}
	return errors.Join(err, f.Close())
}

// write makes the table. Its files have the statistics of a file of one row, and are not there.
func (s synthetic) write(ctx context.Context, dir string) error {
	st, err := file.New(dir)
	if err != nil {
		return err
	}
	table, err := delta.Create(ctx, st, delta.Spec{Schema: tableSchema()}, delta.Options{})
	if err != nil {
		return err
	}
	template, err := oneRow(ctx, table)
	if err != nil {
		return err
	}
	for v := int64(1); v <= int64(s.commits); v++ {
		commit := action.Commit{Info: &action.CommitInfo{
			Timestamp: template.ModificationTime + v, Operation: delta.OpWrite, OperationParameters: map[string]string{"mode": "Append"},
			IsBlindAppend: new(true), EngineInfo: "synthetic", TxnID: fmt.Sprintf("00000000-0000-4000-8000-%012d", v),
		}}
		for n := range s.adds {
			add := template
			add.Path = fmt.Sprintf("part-00000-%08d-%04d-4000-8000-000000000000-c000.zstd.parquet", v, n)
			commit.Adds = append(commit.Adds, add)
		}
		text, err := commit.Encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(replay.CommitPath(v))), text, 0o666); err != nil {
			return err
		}
	}
	if !s.checkpoint {
		return nil
	}
	if _, err := table.Refresh(ctx); err != nil {
		return err
	}
	return table.Checkpoint(ctx)
}

// oneRow is the add action of a file of one row, which it deletes.
func oneRow(ctx context.Context, table *delta.Table) (action.Add, error) {
	adds, err := writeFiles(ctx, table, data.WriterOptions{}, makeRows(7, 1, nil))
	if err != nil {
		return action.Add{}, err
	}
	return adds[0], table.Discard(ctx, adds)
}
