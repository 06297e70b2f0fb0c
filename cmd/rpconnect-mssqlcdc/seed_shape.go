package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/pqfile"
)

type arrowRecord = arrow.RecordBatch

// rowsOfCopy is a copy that is open: its columns, and its rows in records of bounded size,
// each of which is good until the next one is asked for.
type rowsOfCopy struct {
	schema  *arrow.Schema
	records iter.Seq2[arrowRecord, error]
}

// openCopy opens the copy, whatever it is.
func (c *copying) openCopy(ctx context.Context) (rowsOfCopy, error) {
	path := c.flags.String("copy")
	files, err := parquetFiles(path)
	if err != nil {
		return rowsOfCopy{}, fmt.Errorf("--copy: %w", err)
	}
	if len(files) > 0 {
		return openParquet(ctx, files)
	}
	table, err := c.lake.open(ctx, path)
	if err != nil {
		return rowsOfCopy{}, fmt.Errorf("--copy: %w", err)
	}
	s := table.Snapshot()
	return rowsOfCopy{schema: s.Schema().Arrow(), records: table.Read(ctx, s, delta.ReadOptions{})}, nil
}

// parquetFiles are the files of a copy that is no Delta table; none for one that is.
func parquetFiles(path string) ([]string, error) {
	if strings.Contains(path, "://") {
		return nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return []string{path}, nil
	}
	if _, err := os.Stat(filepath.Join(path, "_delta_log")); err == nil {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.parquet"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s holds neither a Delta table nor files *.parquet (folders of partitions are not looked into)", path)
	}
	return files, err
}

// openParquet opens Parquet files of one schema.
func openParquet(ctx context.Context, files []string) (rowsOfCopy, error) {
	var schema *arrow.Schema
	err := withParquet(files[0], func(r *pqarrow.FileReader) (err error) {
		schema, err = r.Schema()
		return err
	})
	if err != nil {
		return rowsOfCopy{}, err
	}
	records := func(yield func(arrowRecord, error) bool) {
		for _, path := range files {
			more := true
			err := withParquet(path, func(r *pqarrow.FileReader) (err error) {
				more, err = readParquet(ctx, r, schema, yield)
				return err
			})
			if err != nil {
				yield(nil, fmt.Errorf("reading %s: %w", path, err))
				return
			}
			if !more {
				return
			}
		}
	}
	return rowsOfCopy{schema: schema, records: records}, nil
}

// copyRows is how many rows of a Parquet file are held at once.
const copyRows = 8192

func withParquet(path string, use func(*pqarrow.FileReader) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return pqfile.Guard(func() error {
		pq, err := pqfile.Open(file, info.Size(), nil)
		if err != nil {
			return err
		}
		r, err := pqarrow.NewFileReader(pq, pqarrow.ArrowReadProperties{BatchSize: copyRows}, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		return use(r)
	})
}

func readParquet(ctx context.Context, r *pqarrow.FileReader, schema *arrow.Schema, yield func(arrowRecord, error) bool) (more bool, err error) {
	own, err := r.Schema()
	if err != nil {
		return false, err
	}
	if !slices.EqualFunc(own.Fields(), schema.Fields(), func(a, b arrow.Field) bool { return a.Name == b.Name && arrow.TypeEqual(a.Type, b.Type) }) {
		return false, errors.New("its columns are not those of the first file")
	}
	records, err := r.GetRecordReader(ctx, nil, nil)
	if err != nil {
		return false, err
	}
	defer records.Release()
	for {
		record, err := records.Read()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !yield(record, nil) {
			return false, nil
		}
	}
}

// shape makes records of a snapshot out of records of a copy.
type shape struct {
	schema  *arrow.Schema
	from    []int // column of the copy, -1 for none, of each captured column
	missing []string
}

func newShape(layout sqlserver.Layout, source *arrow.Schema, allowMissing bool) (*shape, error) {
	s := &shape{schema: layout.Schema()}
	var errs []error
	for _, column := range layout.Columns {
		at, err := columnOf(source, column.Name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case at < 0:
			s.missing = append(s.missing, column.Name)
		case !reads(source.Field(at).Type, column.Type):
			errs = append(errs, fmt.Errorf("column %s of the copy is of type %s, which does not become %s without doubt: cast it in the copy", column.Name, source.Field(at).Type, column.Type))
		}
		s.from = append(s.from, at)
	}
	if len(s.missing) == len(layout.Columns) || len(s.missing) > 0 && !allowMissing {
		errs = append(errs, fmt.Errorf("the copy has no column %s: --allow-missing-columns makes it NULL, --exclude leaves it out", strings.Join(s.missing, ", ")))
	}
	return s, errors.Join(errs...)
}

// columnOf looks a name up: as it is, or else ignoring case.
func columnOf(schema *arrow.Schema, name string) (int, error) {
	if at := schema.FieldIndices(name); len(at) == 1 {
		return at[0], nil
	}
	found := -1
	for i, f := range schema.Fields() {
		if !strings.EqualFold(f.Name, name) {
			continue
		}
		if found >= 0 {
			return -1, fmt.Errorf("the copy has several columns %s", name)
		}
		found = i
	}
	return found, nil
}

// reads tells whether values of one type are those of another, or are refused one by one.
// A time with a zone is none without: which clock it was read by is not known.
func reads(from, to arrow.DataType) bool {
	if arrow.TypeEqual(from, to) {
		return true
	}
	kind := func(t arrow.DataType) string {
		switch t := t.(type) {
		case *arrow.TimestampType:
			if t.TimeZone == "" {
				return "time"
			}
			return "instant"
		case arrow.BinaryDataType:
			if t.IsUtf8() {
				return "text"
			}
			return "bytes"
		case *arrow.FixedSizeBinaryType:
			return "bytes"
		case *arrow.Date32Type, *arrow.Date64Type:
			return "date"
		}
		switch {
		case arrow.IsInteger(t.ID()):
			return "integer"
		case arrow.IsDecimal(t.ID()):
			return "decimal"
		case t.ID() == arrow.FLOAT32, t.ID() == arrow.FLOAT64:
			return "float"
		}
		return t.String()
	}
	return kind(from) == kind(to)
}

// convert makes a record of the snapshot. It stays good when the copy goes on.
func (s *shape) convert(ctx context.Context, record arrowRecord, at sqlserver.Head) (arrowRecord, error) {
	rows := int(record.NumRows())
	columns := stamped(at, rows)
	for i, from := range s.from {
		field := s.schema.Field(mssqlcdc.FirstCaptured + i)
		if from < 0 {
			columns = append(columns, array.MakeArrayOfNull(memory.DefaultAllocator, field.Type, rows))
			continue
		}
		column := record.Column(from)
		if !arrow.TypeEqual(column.DataType(), field.Type) {
			cast, err := compute.CastArray(ctx, column, compute.SafeCastOptions(field.Type))
			if err != nil { // its text holds the value
				return nil, fmt.Errorf("column %s: a value of type %s does not fit into %s", field.Name, column.DataType(), field.Type)
			}
			column = cast
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(s.schema, columns, int64(rows)), nil
}

func (s *shape) empty() arrowRecord {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, s.schema)
	defer builder.Release()
	return builder.NewRecordBatch()
}

// stamped are the metadata columns of snapshot rows.
func stamped(at sqlserver.Head, rows int) []arrow.Array {
	lsnType := &arrow.FixedSizeBinaryType{ByteWidth: mssqlcdc.LSNSize}
	lsns := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, lsnType)
	operations := array.NewInt32Builder(memory.DefaultAllocator)
	times := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
	for range rows {
		lsns.Append(at.LSN[:])
		operations.Append(int32(mssqlcdc.Read))
		if at.Time.IsZero() {
			times.AppendNull()
		} else {
			times.Append(arrow.Timestamp(at.Time.UnixMicro()))
		}
	}
	return []arrow.Array{
		lsns.NewArray(), array.MakeArrayOfNull(memory.DefaultAllocator, lsnType, rows), operations.NewArray(),
		array.MakeArrayOfNull(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, rows), times.NewArray(),
	}
}
