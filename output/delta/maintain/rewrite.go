package maintain

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// rewrite writes the rows of a bin to new files, which it leaves in the bin.
func (r *optimizer) rewrite(ctx context.Context, s *delta.Snapshot, o OptimizeOptions, b *bin) error {
	// The bins bound the size. A bin becomes two files only where the rows take more
	// bytes than they did, which is no reason to split off a small rest.
	o.Writer.TargetFileBytes = 2 * max(o.TargetBytes, b.bytes)
	w, err := r.t.NewWriter(ctx, o.Writer)
	if err != nil {
		return err
	}
	rows, err := r.copyRows(ctx, s, b, w)
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	if b.adds, err = w.Close(); err != nil {
		return errors.Join(err, w.Abort())
	}
	var written int64
	for i := range b.adds {
		n, ok := numRecords(b.adds[i])
		if !ok {
			return errors.Join(fmt.Errorf("file %s: %w", b.adds[i].Path, delta.ErrNoStatistics), r.discard(ctx, b))
		}
		written += n
		b.replaces(&b.adds[i])
	}
	if written != rows {
		return errors.Join(fmt.Errorf("%d rows were read and %d written", rows, written), r.discard(ctx, b))
	}
	return nil
}

// copyRows copies the rows of the bin's files and counts them. A file that holds
// another number of rows than the log says is not touched.
func (r *optimizer) copyRows(ctx context.Context, s *delta.Snapshot, b *bin, w *delta.Writer) (int64, error) {
	var total int64
	columns := storedColumns(s.Schema())
	for _, f := range b.files {
		var rows int64
		for rec, err := range r.t.ReadFile(ctx, s, f.add, delta.ReadOptions{Columns: columns}) {
			if err != nil {
				return 0, err
			}
			rows += rec.NumRows()
			if err := w.Write(rec); err != nil {
				return 0, fmt.Errorf("rewriting file %s: %w", f.add.Path, err)
			}
		}
		want, ok := numRecords(f.add)
		if f.add.DeletionVector != nil {
			want -= f.add.DeletionVector.Cardinality
		}
		if ok && rows != want {
			return 0, fmt.Errorf("file %s has %d rows and the log says %d: one of them is damaged, so it is left as it is", f.add.Path, rows, want)
		}
		total += rows
	}
	return total, nil
}

// storedColumns are the columns that a file has: all but those of type void.
func storedColumns(s *schema.Struct) []string {
	var names []string
	for _, f := range s.Fields {
		if f.Type != schema.Void {
			names = append(names, f.Name)
		}
	}
	return names
}

// replaces makes a new file take the place of the bin's: no row changes, the
// partition is the same by the letter, and the rows are as old as they were.
func (b *bin) replaces(a *action.Add) {
	a.DataChange = false
	a.PartitionValues = b.files[0].add.PartitionValues
	inserted := b.files[0].inserted
	for _, f := range b.files {
		inserted = max(inserted, f.inserted)
	}
	a.Tags = map[string]string{tagInsertionTime: strconv.FormatInt(inserted, 10)}
}
