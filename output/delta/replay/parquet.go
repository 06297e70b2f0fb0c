package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/pqfile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// batchRows is how many actions of a checkpoint are in memory at a time.
const batchRows = 1024

// parquetFile is an open Parquet file of the log.
type parquetFile struct {
	path string
	obj  store.Object
	rd   *file.Reader
}

func openParquet(ctx context.Context, st store.Store, path string) (*parquetFile, error) {
	obj, err := st.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("reading checkpoint %s: %w", path, err)
	}
	rd, err := pqfile.Open(obj, obj.Size(), parquet.NewReaderProperties(memory.NewGoAllocator()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading checkpoint %s: %w", path, err), obj.Close())
	}
	return &parquetFile{path: path, obj: obj, rd: rd}, nil
}

func (p *parquetFile) close() error {
	return errors.Join(p.rd.Close(), p.obj.Close())
}

// leaves returns the indices of the leaf columns below the named top-level ones.
func (p *parquetFile) leaves(columns ...string) []int {
	var out []int
	sc := p.rd.MetaData().Schema
	for i := range sc.NumColumns() {
		if slices.Contains(columns, sc.ColumnRoot(i).Name()) {
			out = append(out, i)
		}
	}
	return out
}

// fileLeaves returns the leaf columns of file actions that are worth reading:
// the typed forms of statistics and partition values only where the text is not
// there.
func (p *parquetFile) fileLeaves() []int {
	sc := p.rd.MetaData().Schema
	text := sc.ColumnIndexByName("add.stats")
	hasText := text >= 0
	for g := 0; hasText && g < p.rd.NumRowGroups(); g++ {
		adds := sc.ColumnIndexByName("add.path")
		hasText = adds < 0 || p.present(g, text) == p.present(g, adds)
	}
	return slices.DeleteFunc(p.leaves("add", "remove", "sidecar"), func(leaf int) bool {
		path := sc.Column(leaf).Path()
		return strings.HasPrefix(path, "add.partitionValues_parsed.") || hasText && strings.HasPrefix(path, "add.stats_parsed.")
	})
}

// groupsWith returns the row groups in which some of the named columns may be
// not null, by their statistics. Checkpoints mostly are file actions: whoever
// needs the others skips nearly everything.
func (p *parquetFile) groupsWith(columns ...string) []int {
	leaves := p.leaves(columns...)
	var out []int
	for g := range p.rd.NumRowGroups() {
		if slices.ContainsFunc(leaves, func(leaf int) bool { return p.present(g, leaf) != 0 }) {
			out = append(out, g)
		}
	}
	return out
}

// present returns how many values of a leaf column in a row group are not null,
// or -1 if the file does not say.
func (p *parquetFile) present(group, leaf int) int64 {
	chunk, err := p.rd.MetaData().RowGroup(group).ColumnChunk(leaf)
	if err != nil {
		return -1
	}
	stats, err := chunk.Statistics()
	if err != nil || stats == nil || !stats.HasNullCount() {
		return -1
	}
	return chunk.NumValues() - stats.NullCount()
}

// count returns how many rows have the given leaf, for example "add.path".
func (p *parquetFile) count(ctx context.Context, column, field string) (int64, error) {
	leaf := p.rd.MetaData().Schema.ColumnIndexByName(column + "." + field)
	if leaf < 0 {
		return 0, nil
	}
	var n int64
	var unknown []int
	for g := range p.rd.NumRowGroups() {
		if present := p.present(g, leaf); present >= 0 {
			n += present
		} else {
			unknown = append(unknown, g)
		}
	}
	for rec, err := range p.records(ctx, []int{leaf}, unknown) {
		if err != nil {
			return 0, err
		}
		err := pqfile.Guard(func() error {
			g := groupOf(rec, column)
			for i := range int(rec.NumRows()) {
				if g.value(field, i) != nil {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// rows yields the records with the named top-level columns. A record is valid
// until the next one is asked for.
func (p *parquetFile) rows(ctx context.Context, columns ...string) iter.Seq2[arrow.RecordBatch, error] {
	return p.records(ctx, p.leaves(columns...), p.groupsWith(columns...))
}

// decoded is a record, or what went wrong with it.
type decoded struct {
	rec arrow.RecordBatch
	err error
}

// records yields the records of some leaf columns of some row groups. The next one is decoded while the consumer has
// the one before. On an error it yields that once and ends.
func (p *parquetFile) records(ctx context.Context, leaves, groups []int) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		if len(leaves) == 0 || len(groups) == 0 {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		next := make(chan decoded)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			defer close(next)
			p.decode(ctx, leaves, groups, func(d decoded) bool {
				select {
				case next <- d:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
		for d := range next {
			if d.err != nil {
				yield(nil, d.err)
				return
			}
			more := yield(d.rec, nil)
			d.rec.Release()
			if !more {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// decode sends the records until there are no more or send returns false. The receiver releases what it got.
func (p *parquetFile) decode(ctx context.Context, leaves, groups []int, send func(decoded) bool) {
	var rr pqarrow.RecordReader
	err := pqfile.Guard(func() error {
		fr, err := pqarrow.NewFileReader(p.rd, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.NewGoAllocator())
		if err != nil {
			return err
		}
		rr, err = fr.GetRecordReader(ctx, leaves, groups)
		return err
	})
	if err != nil {
		send(decoded{err: err})
		return
	}
	defer rr.Release()
	for {
		more := false
		err := pqfile.Guard(func() error {
			if more = rr.Next(); !more {
				return rr.Err()
			}
			return pqfile.Validate(rr.RecordBatch())
		})
		if err != nil && !errors.Is(err, io.EOF) {
			send(decoded{err: err})
			return
		}
		if !more {
			return
		}
		rec := rr.RecordBatch()
		rec.Retain()
		if !send(decoded{rec: rec}) {
			rec.Release()
			return
		}
	}
}

func (p *parquetFile) wrap(err error) error {
	return fmt.Errorf("reading checkpoint %s: %w", p.path, err)
}
