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
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

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

// ReadFile reads the rows of a data file in batches of bounded size, with the columns
// named (nil is all of the table, in its order), as [schema.Struct.Arrow] has them.
//
// path is as in [File], size the length of the file (0 or less: ask the store), and
// partitionValues those of the add action: columns named there take that value,
// whatever the file holds. A column that the file does not have is NULL.
//
// A batch belongs to the sequence and is released when the loop asks for the next one:
// who keeps it retains it. On an error the sequence yields it once and ends.
func ReadFile(ctx context.Context, st Store, path string, size int64, table *schema.Struct,
	partitionValues map[string]*string, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	// Batches lie on the Go heap: some decoders of the Parquet library never give back
	// what they take from an allocator.
	return readFile(ctx, memory.DefaultAllocator, st, path, size, table, partitionValues, columns)
}

func readFile(ctx context.Context, mem memory.Allocator, st Store, path string, size int64, table *schema.Struct,
	partitionValues map[string]*string, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		f := fileReader{mem: mem, ctx: ctx}
		defer f.close()
		err := guard(func() error {
			if err := f.project(table, partitionValues, columns); err != nil {
				return err
			}
			return f.open(st, path, size)
		})
		for err == nil {
			var rec arrow.RecordBatch
			if err = guard(func() (err error) { rec, err = f.next(); return err }); err != nil {
				break
			}
			more := yield(rec, nil)
			rec.Release()
			if !more {
				return
			}
		}
		if err != io.EOF { //nolint:errorlint // next returns it as it is
			yield(nil, fmt.Errorf("reading data file %s: %w", path, err))
		}
	}
}

// guard turns a panic of the Parquet library, which it answers to some corrupt files
// with, into an error.
func guard(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the file is corrupt or has a form that is not supported: %v", cause)
		}
	}()
	return f()
}

// fileReader reads one file: row group by row group.
type fileReader struct {
	ctx    context.Context // of the one call of Read
	mem    memory.Allocator
	fields []schema.Field // of the result
	values []*string      // for each of them, if fixed, the partition value
	fixed  []bool
	result *arrow.Schema

	object  store.Object
	parquet *file.Reader
	arrow   *pqarrow.FileReader
	sources []fileColumn // for each field that is not fixed

	nextGroup int
	group     *groupReader
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
			if schema.SameName(name, field.Name) {
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
	f.parquet, err = file.NewParquetReader(io.NewSectionReader(f.object, 0, size), file.WithReadProps(props))
	if err != nil {
		return err
	}
	f.arrow, err = pqarrow.NewFileReader(f.parquet, pqarrow.ArrowReadProperties{BatchSize: f.batchRows()}, f.mem)
	return err
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

// next is the next batch, or io.EOF.
func (f *fileReader) next() (arrow.RecordBatch, error) {
	for {
		if err := f.ctx.Err(); err != nil {
			return nil, context.Cause(f.ctx)
		}
		if f.group == nil {
			if f.nextGroup == f.parquet.NumRowGroups() {
				return nil, io.EOF
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
		return f.batch(rows)
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
	switch source := f.sources[i]; {
	case source.missing:
		return array.MakeArrayOfNull(f.mem, schema.ArrowType(field.Type), rows), nil
	case source.int96 >= 0:
		raw, err := f.group.int96(f.mem, source.int96, rows)
		if err != nil {
			return nil, err
		}
		defer raw.Release()
		return convert(f.ctx, f.mem, raw, field.Type)
	default:
		return convert(f.ctx, f.mem, f.group.current.Column(source.batch), field.Type)
	}
}
