package data

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
)

// checkDeleted reports a deletion vector that is of another file.
func (f *fileReader) checkDeleted() error {
	if f.deleted == nil {
		return nil
	}
	var rows int64
	for i := range f.parquet.NumRowGroups() {
		rows += f.parquet.MetaData().RowGroup(i).NumRows()
	}
	if last := f.deleted.Last(); last >= rows {
		return fmt.Errorf("its deletion vector deletes row %d, and it has %d rows", last, rows)
	}
	return nil
}

// withoutDeleted takes the deleted rows out of a batch, which it consumes: the next rows of
// the file.
func (f *fileReader) withoutDeleted(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	n := int(rec.NumRows())
	if f.deleted == nil {
		f.row += int64(n)
		return rec, nil
	}
	keep := resize(&f.keep, (n+7)/8)
	for i := range keep {
		keep[i] = 0xff
	}
	gone := f.deleted.Clear(keep, f.row, n)
	f.row += int64(n)
	if gone == 0 {
		return rec, nil
	}
	defer rec.Release()
	positions := array.NewInt32Builder(f.mem)
	defer positions.Release()
	positions.Reserve(n - gone)
	for i := range n {
		if keep[i/8]>>(i%8)&1 == 1 {
			positions.UnsafeAppend(int32(i))
		}
	}
	index := positions.NewInt32Array()
	defer index.Release()
	return f.take(rec, index)
}

func (f *fileReader) take(rec arrow.RecordBatch, index *array.Int32) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, rec.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, column := range rec.Columns() {
		taken, err := compute.TakeArray(compute.WithAllocator(f.ctx, f.mem), column, index)
		if err != nil {
			return nil, fmt.Errorf("column %s: leaving deleted rows out: %w", rec.ColumnName(i), err)
		}
		columns = append(columns, taken)
	}
	return array.NewRecordBatch(rec.Schema(), columns, int64(index.Len())), nil
}
