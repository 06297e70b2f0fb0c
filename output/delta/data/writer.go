package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/google/uuid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Writer writes record batches to data files of one table. It is used from one
// goroutine at a time. After an error other than a refused batch only Abort is left.
type Writer struct {
	ctx    context.Context // of the creation: everything that is written ends with it
	st     Store
	o      WriterOptions
	table  *schema.Struct
	stored *schema.Struct // the table without its partition columns
	parts  []partColumn
	leaves []leaf
	pq     *pqschema.Schema
	stats  []statsNode
	enc    *encoder

	arranger arranger
	open     []*openFile // least recently written first
	finished []File
	failed   error
	closed   bool
}

// NewWriter makes a writer for rows of the table's schema (partition columns
// included). Nothing is created before the first row. The context covers everything
// the writer does until Close or Abort.
func NewWriter(ctx context.Context, st Store, table *schema.Struct, o WriterOptions) (*Writer, error) {
	o.setDefaults()
	enc, err := newEncoder(o)
	if err != nil {
		return nil, fmt.Errorf("making a data writer: %w", err)
	}
	w := &Writer{ctx: ctx, st: st, o: o, table: table, enc: enc}
	if err := w.setSchema(); err != nil {
		return nil, fmt.Errorf("making a data writer: %w", err)
	}
	return w, nil
}

func (o *WriterOptions) setDefaults() {
	setDefault(&o.RowGroupRows, DefaultRowGroupRows)
	setDefault(&o.RowGroupBytes, DefaultRowGroupBytes)
	setDefault(&o.TargetFileBytes, DefaultTargetFileBytes)
	setDefault(&o.MaxOpenFiles, DefaultMaxOpenFiles)
	setDefault(&o.Compression, Zstd)
	setDefault(&o.NamePrefix, "part-00000")
	setDefault(&o.limits, defaultLimits())
	if o.Allocator == nil {
		o.Allocator = memory.DefaultAllocator
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func setDefault[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

func (w *Writer) setSchema() error {
	if err := checkStorable(w.table); err != nil {
		return err
	}
	if err := w.o.Mapping.Check(w.table); err != nil {
		return err
	}
	for _, name := range w.o.PartitionBy {
		i := w.table.Index(name)
		if i < 0 {
			return fmt.Errorf("partition column %s is not in the schema", name)
		}
		p, err := newPartColumn(i, w.table.Fields[i], w.o.Mapping)
		if err != nil {
			return err
		}
		w.parts = append(w.parts, p)
	}
	w.stored = w.table.Without(w.o.PartitionBy)
	w.leaves = leavesOf(w.stored)
	if len(w.leaves) == 0 {
		return errors.New("the schema has no column to store beside the partition columns")
	}
	var err error
	if w.pq, err = fileSchema(w.o.Mapping, w.stored); err != nil {
		return err
	}
	w.enc.manyFiles = len(w.parts) > 0
	w.stats = statsTree(w.stored, w.leaves, w.o.Stats, w.o.Mapping)
	w.arranger = arranger{table: w.table, mem: w.o.Allocator}
	return nil
}

// checkStorable refuses void parts of nested columns, which have no Parquet form.
func checkStorable(t schema.Type) error {
	s, ok := t.(*schema.Struct)
	if !ok {
		return nil
	}
	for _, f := range s.Fields {
		if f.Type != schema.Void && hasVoid(f.Type) {
			return fmt.Errorf("column %s: a part of it has type void, which cannot be written", f.Name)
		}
	}
	return nil
}

func hasVoid(t schema.Type) bool {
	switch t := t.(type) {
	case *schema.Array:
		return hasVoid(t.Element)
	case *schema.Map:
		return hasVoid(t.Key) || hasVoid(t.Value)
	case *schema.Struct:
		return slices.ContainsFunc(t.Fields, func(f schema.Field) bool { return hasVoid(f.Type) })
	default:
		return t == schema.Void
	}
}

// Write adds the rows of a batch. Columns are matched by name, ignoring case, in any
// order; a column that the batch does not have is NULL, if the table lets it. Values of a
// type that fits into the table's ([schema.Fits]) are converted. A batch with a column that
// the table does not have, or of a type that does not fit, is a
// [*schema.SchemaError]; a NULL in a column that is not nullable and an empty string as
// a partition value are errors too. A refused batch leaves the writer as it was.
//
// The writer keeps nothing of the batch after Write returned.
func (w *Writer) Write(rec arrow.RecordBatch) error {
	if err := w.usable(); err != nil {
		return err
	}
	rows, err := w.arranger.arrange(rec)
	if err != nil {
		return fmt.Errorf("writing a batch: %w", err)
	}
	defer rows.Release()
	if rows.NumRows() == 0 {
		return nil
	}
	groups, err := w.split(rows)
	if err != nil {
		return fmt.Errorf("writing a batch: %w", err)
	}
	defer func() {
		for _, g := range groups {
			g.rows.Release()
		}
	}()
	for _, g := range groups {
		if err := w.writeGroup(g); err != nil {
			w.failed = fmt.Errorf("writing data files: %w", err)
			return w.failed
		}
	}
	return nil
}

func (w *Writer) usable() error {
	switch {
	case w.failed != nil:
		return fmt.Errorf("the data writer cannot be used after an error: %w", w.failed)
	case w.closed:
		return errors.New("the data writer is closed")
	default:
		return context.Cause(w.ctx)
	}
}

// writeGroup appends rows of one partition, in pieces that end where a row group does.
func (w *Writer) writeGroup(g group) error {
	columns := w.storedColumns(g.rows)
	total := g.rows.NumRows()
	step := w.rowsPerStep(columns, total)
	for from := int64(0); from < total; {
		f, err := w.file(g)
		if err != nil {
			return err
		}
		n := min(total-from, step, w.o.RowGroupRows-f.buffered)
		if err := f.appendSlice(columns, from, n); err != nil {
			return err
		}
		from += n
		if err := w.roll(f); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) storedColumns(rows arrow.RecordBatch) []arrow.Array {
	var columns []arrow.Array
	for i, column := range rows.Columns() {
		if !slices.ContainsFunc(w.parts, func(p partColumn) bool { return p.index == i }) {
			columns = append(columns, column)
		}
	}
	return columns
}

// rowsPerStep bounds what is added before the size of the row group is looked at.
func (w *Writer) rowsPerStep(columns []arrow.Array, rows int64) int64 {
	size := 0
	for _, c := range columns {
		size += sizeOf(c)
	}
	bytesEach := int64(size)/rows + 1
	return max(1, min(16*1024, w.o.RowGroupBytes/bytesEach))
}

// roll ends row groups and files that are large enough.
func (w *Writer) roll(f *openFile) error {
	if f.buffered >= w.o.RowGroupRows {
		if err := f.endRowGroup(); err != nil {
			return err
		}
	}
	for {
		_, held := w.Buffered()
		largest := slices.MaxFunc(w.open, func(a, b *openFile) int { return cmp.Compare(a.memory(), b.memory()) })
		if held < w.o.RowGroupBytes || largest.buffered == 0 {
			break
		}
		if err := largest.endRowGroup(); err != nil {
			return err
		}
	}
	if f.sink.Tell() >= w.o.TargetFileBytes {
		return w.finishFile(f)
	}
	return nil
}

// Buffered is how many rows were written and are not in a finished file yet, and how
// many bytes of memory the writer holds for them.
func (w *Writer) Buffered() (rows, bytes int64) {
	for _, f := range w.open {
		rows += f.rows
		bytes += f.memory()
	}
	return rows, bytes
}

// Flush finishes the open files and returns the files finished since the last Flush,
// in the order in which they were finished. The writer can be written to again.
func (w *Writer) Flush() ([]File, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	for len(w.open) > 0 {
		if err := w.finishFile(w.open[0]); err != nil {
			w.failed = fmt.Errorf("finishing data files: %w", err)
			return nil, w.failed
		}
	}
	files := w.finished
	w.finished = nil
	return files, nil
}

// Close is Flush for the last time. Calls after the first return nothing.
func (w *Writer) Close() ([]File, error) {
	if w.closed {
		return nil, nil
	}
	files, err := w.Flush()
	if err == nil {
		w.closed = true
	}
	return files, err
}

// Abort gives up what no Flush has returned: open files are not completed, finished
// ones are deleted. It does nothing after Close and after the first Abort.
func (w *Writer) Abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	for _, f := range w.open {
		errs = append(errs, f.object.Abort())
	}
	var paths []string
	for _, f := range w.finished {
		paths = append(paths, f.Path)
	}
	w.open, w.finished = nil, nil
	if len(paths) > 0 {
		errs = append(errs, w.st.Delete(context.WithoutCancel(w.ctx), paths...))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("giving up data files: %w", err)
	}
	return nil
}

// appendSlice adds rows from, from+1 … of the columns.
func (f *openFile) appendSlice(columns []arrow.Array, from, n int64) error {
	slices := make([]arrow.Array, len(columns))
	for i, c := range columns {
		slices[i] = array.NewSlice(c, from, from+n)
		defer slices[i].Release()
	}
	return f.append(slices, n)
}
