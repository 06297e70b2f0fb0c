package data

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/klauspost/compress/zstd"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// encoder is what the columns of all open files of a Writer share.
type encoder struct {
	codec   compress.Compression
	level   int
	compact bool
	zstd    *zstd.Encoder  // for Zstd, because the library's keeps more memory
	other   compress.Codec // for all others but Uncompressed
	packed  []byte         // scratch of other
	limits  limits
	scratch []byte
	delta   deltaEncoder

	// manyFiles says that several files are open at a time: then none keeps memory
	// beyond its row group.
	manyFiles bool
}

func newEncoder(c Compression, e Encodings, l limits) (*encoder, error) {
	enc := &encoder{level: compress.DefaultCompressionLevel, limits: l}
	switch e {
	case "", Plain:
	case Compact:
		enc.compact = true
	default:
		return nil, fmt.Errorf("encodings %q: want %s or %s", e, Plain, Compact)
	}
	var err error
	switch c {
	case Zstd:
		enc.codec, enc.level = compress.Codecs.Zstd, 1
		// Literals are always entropy coded: most pages of a table are integers, which have
		// few matches. It makes them a fifth smaller and costs no time.
		enc.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
	case Snappy:
		enc.codec = compress.Codecs.Snappy
		enc.other, err = compress.GetCodec(enc.codec)
	case Gzip:
		enc.codec = compress.Codecs.Gzip
		enc.other, err = compress.GetCodec(enc.codec)
	case Uncompressed, none:
		enc.codec = compress.Codecs.Uncompressed
	default:
		return nil, fmt.Errorf("compression %q: want %s, %s, %s or %s", c, Zstd, Snappy, Gzip, Uncompressed)
	}
	return enc, err
}

// encodingOf is how values of a leaf are encoded that are not in a dictionary.
func (e *encoder) encodingOf(l *leaf) parquet.Encoding {
	switch {
	case !e.compact:
		return parquet.Encodings.Plain
	case l.phys == asInt32 || l.phys == asInt64:
		return parquet.Encodings.DeltaBinaryPacked
	case l.phys == asBytes:
		return parquet.Encodings.DeltaByteArray
	default:
		return parquet.Encodings.Plain
	}
}

// compress appends the compressed body of a page.
func (e *encoder) compress(dst, body []byte) []byte {
	switch {
	case e.zstd != nil:
		return e.zstd.EncodeAll(body, dst)
	case e.other != nil:
		bound := e.other.CompressBound(int64(len(body)))
		return append(dst, e.other.Encode(resize(&e.packed, int(bound)), body)...)
	default:
		return append(dst, body...)
	}
}

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
	for _, c := range f.columns {
		if err := c.append(columns[c.column]); err != nil {
			return err
		}
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
	group := f.meta.AppendRowGroup()
	for i, c := range f.columns {
		if err := c.writeChunk(group.NextColumnChunk(), f.sink, f.groups, i); err != nil {
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
