package silver

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
)

// writer makes a merge of images.
type writer struct {
	*history
	write, remove []*image
	source        *merge.Source
	kept          []arrow.RecordBatch // that the images refer to
}

func (w *writer) clear() {
	release(w.source.Upserts)
	release(w.source.Deletes)
	release(w.kept)
	w.kept = nil
	*w.source = merge.Source{}
	w.write, w.remove = nil, nil
}

func (w *writer) flush(ctx context.Context, last bool) error {
	defer w.clear()
	if err := w.add(ctx, w.write, &w.source.Upserts); err != nil {
		return err
	}
	if err := w.add(ctx, w.remove, &w.source.Deletes); err != nil {
		return err
	}
	return w.merge(ctx, *w.source, nil, last)
}

// add makes rows of the table of images, those of one batch together.
func (w *writer) add(ctx context.Context, images []*image, to *[]arrow.RecordBatch) error {
	at := map[arrow.RecordBatch]int{}
	var groups [][]*image
	for _, i := range images {
		n, ok := at[i.values.rec]
		if !ok || mixed(i) {
			n = len(groups)
			groups = append(groups, nil)
			if !mixed(i) {
				at[i.values.rec] = n
			}
		}
		groups[n] = append(groups[n], i)
	}
	for _, group := range groups {
		rec, err := w.rows(ctx, group)
		if err != nil {
			return err
		}
		*to = append(*to, rec)
	}
	return nil
}

// mixed tells whether an image has values of two rows.
func mixed(i *image) bool { return i.large.rec != nil }

// rows are images that have their values from one batch, or a single one.
func (w *writer) rows(ctx context.Context, images []*image) (arrow.RecordBatch, error) {
	fields, columns, err := w.values(ctx, images)
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	if err != nil {
		return nil, err
	}
	text := func(value func(*image) string) arrow.Array {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		for _, i := range images {
			if v := value(i); v != "" {
				b.Append(v)
			} else {
				b.AppendNull()
			}
		}
		return b.NewArray()
	}
	stamp := func(value func(*image) moment) arrow.Array {
		b := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
		defer b.Release()
		for _, i := range images {
			if v := value(i); v.known {
				b.Append(arrow.Timestamp(v.micros))
			} else {
				b.AppendNull()
			}
		}
		return b.NewArray()
	}
	operation := array.NewInt32Builder(memory.DefaultAllocator)
	defer operation.Release()
	current := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer current.Release()
	for _, i := range images {
		operation.Append(int32(i.op))
		current.Append(i.end == "")
	}
	for _, c := range []struct {
		name string
		arr  arrow.Array
	}{
		{mssqlcdc.ColStartLSN, text(func(i *image) string { return i.start })},
		{mssqlcdc.ColSeqVal, text(func(i *image) string { return i.seq })},
		{mssqlcdc.ColOperation, operation.NewArray()},
		{ColValidFrom, stamp(func(i *image) moment { return i.from })},
		{ColValidTo, stamp(func(i *image) moment { return i.to })},
		{ColIsCurrent, current.NewArray()},
		{ColEndLSN, text(func(i *image) string { return i.end })},
	} {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.arr.DataType(), Nullable: true})
		columns = append(columns, c.arr)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(len(images))), nil
}

// values are the captured columns of images.
func (w *writer) values(ctx context.Context, images []*image) (fields []arrow.Field, columns []arrow.Array, err error) {
	if mixed(images[0]) {
		for n, c := range w.layout.captured {
			arr, at := images[0].value(n)
			fields = append(fields, arrow.Field{Name: c.to, Type: arr.DataType(), Nullable: true})
			columns = append(columns, array.NewSlice(arr, int64(at), int64(at+1)))
		}
		return fields, columns, nil
	}
	var rows []int64
	for _, i := range images {
		rows = append(rows, int64(i.values.at))
	}
	part, err := take(ctx, images[0].values.rec, rows)
	if err != nil {
		return nil, nil, err
	}
	defer part.Release()
	for _, c := range w.layout.captured {
		arr := part.Column(columnOf(part.Schema(), c.to))
		arr.Retain()
		fields = append(fields, arrow.Field{Name: c.to, Type: arr.DataType(), Nullable: true})
		columns = append(columns, arr)
	}
	return fields, columns, nil
}
