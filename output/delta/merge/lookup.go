package merge

import (
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
)

func lookup(ctx context.Context, t *delta.Table, s *delta.Snapshot, wanted []arrow.RecordBatch, o LookupOptions) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		l := &looker{t: t, s: s, o: o}
		more, err := true, l.prepare(ctx, wanted)
		if err == nil {
			for add, fileErr := range s.PrunedFiles(ctx, o.Prune) {
				if err = fileErr; err == nil && l.sc.filter.keeps(add) {
					more, err = l.file(ctx, add, yield)
				}
				if err != nil || !more {
					break
				}
			}
		}
		if err != nil && more {
			yield(nil, fmt.Errorf("looking keys up in table %s: %w", t.Store().URL(), err))
		}
	}
}

// looker is one call of Lookup.
type looker struct {
	t  *delta.Table
	s  *delta.Snapshot
	o  LookupOptions
	sc *scanner
}

func (l *looker) prepare(ctx context.Context, wanted []arrow.RecordBatch) error {
	fields, kinds, err := columnsOf(l.s.Schema(), l.o.Keys)
	if err != nil {
		return fmt.Errorf("taking key columns: %w", err)
	}
	if len(fields) == 0 {
		return fmt.Errorf("no key columns are given")
	}
	src := &source{keys: fields, index: newIndex(kinds)}
	keys := newKeyReader(kinds)
	for i, rec := range wanted {
		err := withColumns(ctx, fields, rec, keys.load, func() error {
			src.index.add(keys, int(rec.NumRows()), true)
			return nil
		})
		if err != nil {
			return wrapBatch(err, i, "wanted keys")
		}
	}
	src.order = src.index.sorted()
	l.sc = newScanner(l.t, l.s, src)
	return nil
}

// file yields the rows of one file: it finds them first, and reads the columns of the row groups
// that have some.
func (l *looker) file(ctx context.Context, add action.Add, yield func(arrow.RecordBatch, error) bool) (more bool, err error) {
	found, err := l.sc.scan(ctx, add)
	if err != nil || len(found.hits) == 0 {
		return true, err
	}
	var rows dv.Builder
	for _, h := range found.hits {
		rows.Add(h.row)
	}
	wanted, err := rows.Rows()
	if err != nil {
		return true, err
	}
	in, _, err := l.sc.input(ctx, action.Add{Path: add.Path, Size: add.Size, PartitionValues: add.PartitionValues})
	if err != nil {
		return true, err
	}
	var next int64
	in.Skip = func(first int64, group *metadata.RowGroupMetaData) bool {
		next = first
		return !wanted.AnyIn(first, first+group.NumRows())
	}
	hits := found.hits
	for rec, err := range data.ReadFile(ctx, l.t.Store(), l.s.Schema(), in, l.o.Columns) {
		if err != nil {
			return true, err
		}
		var positions []int32
		end := next + rec.NumRows()
		for len(hits) > 0 && hits[0].row < end {
			positions = append(positions, int32(hits[0].row-next))
			hits = hits[1:]
		}
		next = end
		if len(positions) == 0 {
			continue
		}
		out, err := take(ctx, rec, positions)
		if err != nil {
			return true, err
		}
		more := yield(out, nil)
		out.Release()
		if !more {
			return false, nil
		}
	}
	return true, nil
}
