// Package pqfile opens Parquet files that anybody may have written, such that a corrupt
// one is an error and never the end of the process.
//
// The Parquet library answers some corrupt files with a panic. [Guard] turns those into
// errors where they happen on the caller's goroutine. The library opens the columns below
// a struct on goroutines of its own, though, where nobody can recover: what it believes of
// the footer there is checked by [Open] before.
package pqfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// maxFixedLength bounds the length of FIXED_LEN_BYTE_ARRAY values: the library makes room
// for a whole batch of them before it reads one. Decimals have up to 16 bytes.
const maxFixedLength = 1024

// Open reads the footer of a file of size bytes and checks it. The reader does not close r.
func Open(r io.ReaderAt, size int64, props *parquet.ReaderProperties) (*file.Reader, error) {
	var rd *file.Reader
	err := Guard(func() (err error) {
		rd, err = file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(props))
		if err != nil {
			return err
		}
		return check(rd.MetaData(), size)
	})
	if err != nil {
		return nil, err
	}
	return rd, nil
}

// check reports what the library would believe and must not.
func check(meta *metadata.FileMetaData, size int64) error {
	for i := range meta.Schema.NumColumns() {
		column := meta.Schema.Column(i)
		if column.PhysicalType() == parquet.Types.FixedLenByteArray && (column.TypeLength() < 1 || column.TypeLength() > maxFixedLength) {
			return fmt.Errorf("column %s has values of %d bytes", column.Path(), column.TypeLength())
		}
	}
	for g := range meta.NumRowGroups() {
		if err := checkGroup(meta.RowGroup(g), size); err != nil {
			return fmt.Errorf("row group %d: %w", g, err)
		}
	}
	return nil
}

func checkGroup(group *metadata.RowGroupMetaData, size int64) error {
	if group.NumRows() < 0 {
		return fmt.Errorf("it has %d rows", group.NumRows())
	}
	if group.NumColumns() != group.Schema.NumColumns() {
		return fmt.Errorf("it has %d columns, the schema %d", group.NumColumns(), group.Schema.NumColumns())
	}
	for c := range group.NumColumns() {
		chunk, err := group.ColumnChunk(c)
		if err != nil {
			return err
		}
		if err := checkChunk(chunk, group.Schema.Column(c).PhysicalType(), size); err != nil {
			return fmt.Errorf("column %s: %w", group.Schema.Column(c).Path(), err)
		}
	}
	return nil
}

func checkChunk(chunk *metadata.ColumnChunkMetaData, want parquet.Type, size int64) error {
	if chunk.CryptoMetadata() != nil {
		return errors.New("it is encrypted")
	}
	if chunk.Type() != want {
		return fmt.Errorf("it is stored as %v, the schema says %v", chunk.Type(), want)
	}
	start := chunk.DataPageOffset()
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
		start = min(start, chunk.DictionaryPageOffset())
	}
	length := chunk.TotalCompressedSize()
	if start < 0 || length < 0 || start > size || length > size-start || chunk.NumValues() < 0 {
		return fmt.Errorf("%d values in %d bytes from %d on do not fit into a file of %d bytes", chunk.NumValues(), length, start, size)
	}
	return nil
}

// Guard runs f and turns a panic of the Parquet library into an error.
func Guard(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the file is corrupt or has a form that is not supported: %v", cause)
		}
	}()
	return f()
}

// Validate reports a record whose parts do not fit together: the library makes such ones
// of files whose columns have different numbers of values.
func Validate(rec arrow.RecordBatch) error {
	for i, column := range rec.Columns() {
		if int64(column.Len()) != rec.NumRows() {
			return fmt.Errorf("column %s has %d rows of %d", rec.ColumnName(i), column.Len(), rec.NumRows())
		}
	}
	return nil
}
