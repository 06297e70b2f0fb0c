package merge

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// takeRows is how many rows of the source are put into a batch at a time.
const takeRows = 32 * 1024

// writeFiles writes new files by what fill does with a writer. Nothing is left after an error.
func (m *merger) writeFiles(ctx context.Context, o data.WriterOptions, fill func(*delta.Writer) error) ([]action.Add, error) {
	w, err := m.t.NewWriter(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := fill(w); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	adds, err := w.Close()
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return adds, nil
}

// writeFresh writes rows of the source, in this order.
func (m *merger) writeFresh(ctx context.Context, entries []int32) ([]action.Add, error) {
	return m.writeFiles(ctx, m.o.Writer, func(w *delta.Writer) error {
		for from := 0; from < len(entries); from += takeRows {
			if err := m.writeRows(ctx, w, entries[from:min(from+takeRows, len(entries))]); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeRows writes rows of the source to a writer.
func (m *merger) writeRows(ctx context.Context, w *delta.Writer, entries []int32) error {
	if len(entries) == 0 {
		return nil
	}
	rec, err := take(ctx, m.src.rows, entries)
	if err != nil {
		return fmt.Errorf("taking rows of the source: %w", err)
	}
	defer rec.Release()
	return w.Write(rec)
}

// rewriteFile writes the rows of a file that are left, with the new rows next to those they
// replace.
func (m *merger) rewriteFile(ctx context.Context, sc *scanner, w *work) ([]action.Add, error) {
	in, _, err := sc.input(ctx, action.Add{Path: w.file.add.Path, Size: w.file.add.Size, PartitionValues: w.file.add.PartitionValues})
	if err != nil {
		return nil, err
	}
	o := m.o.Writer
	// One file becomes one: a second one would be a small rest.
	o.TargetFileBytes = 2 * max(o.TargetFileBytes, data.DefaultTargetFileBytes, w.file.add.Size)
	kept := int64(0)
	adds, err := m.writeFiles(ctx, o, func(out *delta.Writer) error {
		var err error
		kept, err = m.copyRows(ctx, sc, w, in, out)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rewriting file %s: %w", w.file.add.Path, err)
	}
	var written int64
	for i := range adds {
		n, _ := numRecords(adds[i].Stats)
		written += n
		if len(in.PartitionValues) > 0 {
			adds[i].PartitionValues = w.file.add.PartitionValues // by the letter
		}
	}
	if want := w.file.rows - w.gone.Len(); kept != want || written != kept+int64(len(w.replaced)) {
		err := fmt.Errorf("rewriting file %s: %d rows should be left, %d were read and %d written with %d new ones: the file is damaged",
			w.file.add.Path, want, kept, written, len(w.replaced))
		return nil, errors.Join(err, m.t.Discard(context.WithoutCancel(ctx), adds))
	}
	return adds, nil
}

// copyRows copies what is left of a file and adds the new rows. It returns how many rows were
// left.
func (m *merger) copyRows(ctx context.Context, sc *scanner, w *work, in data.Input, out *delta.Writer) (kept int64, err error) {
	var first int64
	replaced := w.replaced
	var keep []byte
	for rec, err := range data.ReadFile(ctx, m.t.Store(), sc.s.Schema(), in, storedColumns(sc.s.Schema())) {
		if err != nil {
			return 0, err
		}
		n := int(rec.NumRows())
		keep = allOnes(keep, n)
		gone := w.gone.Clear(keep, first, n)
		if err := writeKept(ctx, out, rec, keep, n-gone); err != nil {
			return 0, err
		}
		kept += int64(n - gone)
		first += int64(n)
		var entries []int32
		for len(replaced) > 0 && replaced[0].row < first {
			entries = append(entries, replaced[0].entry)
			replaced = replaced[1:]
		}
		if err := m.writeRows(ctx, out, entries); err != nil {
			return 0, err
		}
	}
	return kept, nil
}

func allOnes(keep []byte, n int) []byte {
	keep = keep[:0]
	for range (n + 7) / 8 {
		keep = append(keep, 0xff)
	}
	return keep
}

// writeKept writes those n rows of a batch whose bits are set.
func writeKept(ctx context.Context, out *delta.Writer, rec arrow.RecordBatch, keep []byte, n int) error {
	switch {
	case n == 0:
		return nil
	case int64(n) == rec.NumRows():
		return out.Write(rec)
	}
	runs := runsOf(keep, int(rec.NumRows()))
	var rows []int32 // for columns that must be taken row by row
	kept, err := eachColumn(rec, n, func(column arrow.Array) (arrow.Array, error) {
		if out, ok := gather(column, runs, n); ok {
			return out, nil
		}
		if rows == nil {
			rows = rowsOf(runs, n)
		}
		return takeColumn(ctx, column, rows)
	})
	if err != nil {
		return fmt.Errorf("leaving rows out: %w", err)
	}
	defer kept.Release()
	return out.Write(kept)
}

// rowRun is rows from, from+1, … up to but without to.
type rowRun struct{ from, to int }

func runsOf(keep []byte, n int) []rowRun {
	var runs []rowRun
	for i := 0; i < n; {
		if keep[i/8]>>(i%8)&1 == 0 {
			i++
			continue
		}
		from := i
		for i < n && keep[i/8]>>(i%8)&1 == 1 {
			if i%8 == 0 && keep[i/8] == 0xff {
				i = min(i+8, n)
			} else {
				i++
			}
		}
		runs = append(runs, rowRun{from, i})
	}
	return runs
}

func rowsOf(runs []rowRun, n int) []int32 {
	rows := make([]int32, 0, n)
	for _, r := range runs {
		for i := r.from; i < r.to; i++ {
			rows = append(rows, int32(i))
		}
	}
	return rows
}

// take is some rows of a batch, in this order.
func take(ctx context.Context, rec arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	return eachColumn(rec, len(rows), func(column arrow.Array) (arrow.Array, error) {
		return takeColumn(ctx, column, rows)
	})
}

func takeColumn(ctx context.Context, column arrow.Array, rows []int32) (arrow.Array, error) {
	data := array.NewData(arrow.PrimitiveTypes.Int32, len(rows),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(rows))}, nil, 0, 0)
	defer data.Release()
	index := array.NewInt32Data(data)
	defer index.Release()
	return compute.TakeArray(ctx, column, index)
}

// eachColumn makes a batch of n rows from the columns of another.
func eachColumn(rec arrow.RecordBatch, n int, f func(arrow.Array) (arrow.Array, error)) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, rec.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, column := range rec.Columns() {
		made, err := f(column)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", rec.ColumnName(i), err)
		}
		columns = append(columns, made)
	}
	return array.NewRecordBatch(rec.Schema(), columns, int64(n)), nil
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

// writeVectors writes the deletion vectors of files and returns the files with them.
func (m *merger) writeVectors(ctx context.Context, works []*work) (adds []action.Add, path string, err error) {
	file := dv.NewFile(m.newUUID())
	for _, w := range works {
		a := w.file.add
		d, err := file.Add(w.gone)
		if err != nil {
			return nil, "", err
		}
		if a.Stats, err = looseStats(a.Stats, w.file.rows); err != nil {
			return nil, "", fmt.Errorf("deleting rows of file %s: %w", a.Path, err)
		}
		a.DeletionVector, a.DataChange = &d, true
		adds = append(adds, a)
	}
	if err := file.Write(ctx, m.t.Store()); err != nil {
		return nil, "", err
	}
	return adds, file.Path(), nil
}
