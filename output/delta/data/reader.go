package data

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/pqfile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Bounds of the batches that ReadFile yields.
const (
	readBatchRows  = 64 * 1024
	readBatchBytes = 8 << 20 // by the average size of a row
)

// maxPage bounds what a page may claim to be: the length of the largest value that can be
// read.
const maxPage = 1 << 30

// Input is a data file as an add action names it.
type Input struct {
	// Path is as in [File].
	Path string
	// Size is the length of the file in bytes; 0 or less: ask the store.
	Size int64
	// PartitionValues are those of the add action: the columns named there take that
	// value, whatever the file holds. Names are physical ones under column mapping.
	PartitionValues map[string]*string
	// Mapping is the table's; "" is none.
	Mapping schema.Mapping
	// Deleted are the rows that the file's deletion vector deletes; nil is none.
	Deleted *dv.Rows
	// Skip, if not nil, is asked for each row group when its turn to be read has come, with the
	// row of the file that it begins with; true leaves its rows out. It sees the statistics of
	// the group, and knows which rows the next batches are.
	Skip func(first int64, group *metadata.RowGroupMetaData) bool
}

// ReadFile reads the rows of a data file in batches of bounded size, with the columns
// named (nil is all of the table, in its order), as [schema.Struct.Arrow] has them.
//
// A column that the file does not have is NULL. Values of a type that the column was
// widened from are converted.
//
// A batch belongs to the sequence and is released when the loop asks for the next one:
// who keeps it retains it. On an error the sequence yields it once and ends.
func ReadFile(ctx context.Context, st Store, table *schema.Struct, in Input, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	// Batches lie on the Go heap: some decoders of the Parquet library never give back
	// what they take from an allocator.
	return readFile(ctx, memory.DefaultAllocator, st, table, in, columns)
}

func readFile(ctx context.Context, mem memory.Allocator, st Store, table *schema.Struct, in Input, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		f := fileReader{mem: mem, ctx: ctx, mapping: in.Mapping, deleted: in.Deleted, skip: in.Skip}
		defer f.close()
		err := pqfile.Guard(func() error {
			if err := f.project(table, in.PartitionValues, columns); err != nil {
				return err
			}
			return f.open(st, in.Path, in.Size)
		})
		for err == nil {
			var rec arrow.RecordBatch
			if err = pqfile.Guard(func() (err error) { rec, err = f.next(); return err }); err != nil {
				break
			}
			more := yield(rec, nil)
			rec.Release()
			if !more {
				return
			}
		}
		if err != io.EOF { //nolint:errorlint // next returns it as it is
			yield(nil, fmt.Errorf("reading data file %s: %w", in.Path, err))
		}
	}
}

// fileReader reads one file: row group by row group.
type fileReader struct {
	ctx     context.Context // of the one call of Read
	mem     memory.Allocator
	mapping schema.Mapping
	fields  []schema.Field // of the result
	values  []*string      // for each of them, if fixed, the partition value
	fixed   []bool
	result  *arrow.Schema

	object  store.Object
	parquet *file.Reader
	arrow   *pqarrow.FileReader
	sources []fileColumn // for each field that is not fixed

	nextGroup int
	group     *groupReader

	deleted *dv.Rows
	skip    func(int64, *metadata.RowGroupMetaData) bool
	row     int64 // the next row of the file
	keep    []byte
}

// fileColumn is where a field comes from.
type fileColumn struct {
	missing bool
	int96   int // a leaf of a flat INT96 column, or -1
	batch   int // column of the group's batch
}

// project chooses the fields of the result.
func (f *fileReader) project(table *schema.Struct, partitionValues map[string]*string, columns []string) error {
	chosen := table
	if columns != nil {
		chosen = &schema.Struct{}
		for _, name := range columns {
			field, ok := table.Field(name)
			if !ok {
				return fmt.Errorf("column %s is not in the table", name)
			}
			chosen.Fields = append(chosen.Fields, field)
		}
	}
	f.fields, f.result = chosen.Fields, chosen.Arrow()
	f.values, f.fixed = make([]*string, len(f.fields)), make([]bool, len(f.fields))
	for i, field := range f.fields {
		for name, value := range partitionValues {
			if schema.SameName(name, f.mapping.PhysicalName(field)) {
				f.values[i], f.fixed[i] = value, true
			}
		}
	}
	return nil
}

func (f *fileReader) open(st Store, path string, size int64) error {
	var err error
	if f.object, err = st.Open(f.ctx, path); err != nil {
		return err
	}
	if size <= 0 {
		size = f.object.Size()
	}
	props := parquet.NewReaderProperties(f.mem)
	props.BufferedStreamEnabled = true
	props.BufferSize = 256 << 10
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = maxPage, maxPage
	if f.parquet, err = pqfile.Open(f.object, size, props); err != nil {
		return err
	}
	if err := f.checkDeleted(); err != nil {
		return err
	}
	f.arrow, err = pqarrow.NewFileReader(f.parquet, pqarrow.ArrowReadProperties{BatchSize: f.batchRows()}, f.mem)
	if err != nil {
		return err
	}
	return f.checkIDs()
}

// batchRows bounds the rows of a batch by the average size of the file's rows.
func (f *fileReader) batchRows() int64 {
	var rows, size int64
	for i := range f.parquet.NumRowGroups() {
		group := f.parquet.MetaData().RowGroup(i)
		rows += group.NumRows()
		size += group.TotalByteSize()
	}
	if rows == 0 || size < rows {
		return readBatchRows
	}
	return max(1, min(readBatchRows, readBatchBytes/(size/rows)))
}

func (f *fileReader) close() {
	if f.group != nil {
		f.group.close()
	}
	if f.object != nil {
		_ = f.object.Close() // nothing was written, and what was read is checked
	}
}

// next is the next batch that has rows, or io.EOF.
func (f *fileReader) next() (arrow.RecordBatch, error) {
	for {
		if err := f.ctx.Err(); err != nil {
			return nil, context.Cause(f.ctx)
		}
		if f.group == nil {
			if f.nextGroup == f.parquet.NumRowGroups() {
				return nil, io.EOF
			}
			if meta := f.parquet.MetaData().RowGroup(f.nextGroup); f.skip != nil && f.skip(f.row, meta) {
				f.row += meta.NumRows()
				f.nextGroup++
				continue
			}
			group, err := f.newGroup(f.nextGroup)
			if err != nil {
				return nil, err
			}
			f.nextGroup++
			f.group = group
		}
		rows, err := f.group.advance()
		if err != nil {
			return nil, err
		}
		if rows == 0 {
			f.group.close()
			f.group = nil
			continue
		}
		rec, err := f.batch(rows)
		if err != nil {
			return nil, err
		}
		if rec, err = f.withoutDeleted(rec); err != nil || rec.NumRows() > 0 {
			return rec, err
		}
		rec.Release()
	}
}

// batch makes a batch of the result from the group's current rows.
func (f *fileReader) batch(rows int) (arrow.RecordBatch, error) {
	arrays := make([]arrow.Array, 0, len(f.fields))
	defer func() {
		for _, arr := range arrays {
			arr.Release()
		}
	}()
	for i, field := range f.fields {
		arr, err := f.column(i, rows)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", field.Name, err)
		}
		arrays = append(arrays, arr)
	}
	return array.NewRecordBatch(f.result, arrays, int64(rows)), nil
}

func (f *fileReader) column(i, rows int) (arrow.Array, error) {
	field := f.fields[i]
	if f.fixed[i] {
		return partitionArray(f.mem, field.Type, f.values[i], rows)
	}
	c := converter{ctx: f.ctx, mem: f.mem, mapping: f.mapping}
	switch source := f.sources[i]; {
	case source.missing:
		return array.MakeArrayOfNull(f.mem, schema.ArrowType(field.Type), rows), nil
	case source.int96 >= 0:
		return c.convert(f.group.int96s[source.int96].current, field.Type)
	default:
		return c.convert(f.group.current.Column(source.batch), field.Type)
	}
}
