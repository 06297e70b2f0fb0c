package data

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// fileSchema is the Parquet schema of files that hold these columns.
func fileSchema(m schema.Mapping, columns *schema.Struct) (*pqschema.Schema, error) {
	stored := &schema.Struct{}
	for _, f := range columns.Fields {
		if f.Type != schema.Void {
			stored.Fields = append(stored.Fields, f)
		}
	}
	props := parquet.NewWriterProperties(parquet.WithStoreDecimalAsInteger(true), parquet.WithRootName("spark_schema"))
	return pqarrow.ToParquet(storedArrow(m, stored), props, pqarrow.NewArrowWriterProperties())
}

const magic = "PAR1"

// fileSink counts what goes into a file.
type fileSink struct {
	*bufio.Writer
	offset int64
}

func (s *fileSink) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.offset += int64(n)
	return n, err
}

// Tell is the length of what was written.
func (s *fileSink) Tell() int64 { return s.offset }

// parquetFile is a Parquet file being written.
type parquetFile struct {
	enc      *encoder
	sink     *fileSink
	meta     *metadata.FileMetaDataBuilder
	columns  []*column
	rows     int64 // in all
	buffered int64 // of them in the current row group
	groups   int
}

func newParquetFile(w io.Writer, leaves []leaf, pq *pqschema.Schema, enc *encoder) (*parquetFile, error) {
	options := []parquet.WriterProperty{
		parquet.WithCompression(enc.codec), parquet.WithCompressionLevel(enc.level),
		parquet.WithDictionaryDefault(false), parquet.WithCreatedBy(createdBy),
	}
	for i := range leaves {
		options = append(options, parquet.WithEncodingPath(pq.Column(i).ColumnPath(), enc.encodingOf(&leaves[i])))
	}
	props := parquet.NewWriterProperties(options...)
	f := &parquetFile{
		enc:  enc,
		sink: &fileSink{Writer: bufio.NewWriterSize(w, 64<<10)},
		meta: metadata.NewFileMetadataBuilder(pq, props, nil),
	}
	for i, l := range leaves {
		l.desc = pq.Column(i)
		f.columns = append(f.columns, newColumn(l, enc))
	}
	_, err := f.sink.Write([]byte(magic))
	return f, err
}

const createdBy = "rpconnect-mssqlcdc"

// append adds rows to the current row group; columns are those of the file's schema.
func (f *parquetFile) append(columns []arrow.Array, rows int64) error {
	size := 0
	for _, c := range columns {
		size += sizeOf(c)
	}
	err := f.enc.each(len(f.columns), size, func(i int, l *lane) error {
		return f.columns[i].append(columns[f.columns[i].column], l)
	})
	if err != nil {
		return err
	}
	f.rows += rows
	f.buffered += rows
	return nil
}

// memory is how many bytes the current row group takes.
func (f *parquetFile) memory() int64 {
	var n int64
	for _, c := range f.columns {
		n += c.memory()
	}
	return n
}

// endRowGroup writes the current row group.
func (f *parquetFile) endRowGroup() error {
	if f.buffered == 0 {
		return nil
	}
	open := 0
	for _, c := range f.columns {
		open += c.open()
	}
	if err := f.enc.each(len(f.columns), open, func(i int, l *lane) error { return f.columns[i].endChunk(l) }); err != nil {
		return err
	}
	group := f.meta.AppendRowGroup()
	for _, c := range f.columns {
		if err := c.writeChunk(group.NextColumnChunk(), f.sink); err != nil {
			return fmt.Errorf("writing column %s: %w", c.desc.Path(), err)
		}
	}
	group.SetNumRows(int(f.buffered))
	if err := group.Finish(0, int16(f.groups)); err != nil {
		return err
	}
	f.groups++
	f.buffered = 0
	return nil
}

// finish writes what is left and the footer.
func (f *parquetFile) finish() error {
	if err := f.endRowGroup(); err != nil {
		return err
	}
	meta, err := f.meta.Finish()
	if err != nil {
		return err
	}
	n, err := meta.WriteTo(f.sink, nil)
	if err != nil {
		return err
	}
	tail := binary.LittleEndian.AppendUint32(nil, uint32(n))
	if _, err := f.sink.Write(append(tail, magic...)); err != nil {
		return err
	}
	return f.sink.Flush()
}
