package data_test

import (
	"context"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// nowhere is a store that throws away what is written.
type nowhere struct{ size int64 }

func (n *nowhere) Create(context.Context, string) (store.Writer, error) { return n, nil }
func (n *nowhere) Open(context.Context, string) (store.Object, error)   { return nil, store.ErrNotFound }
func (n *nowhere) Delete(context.Context, ...string) error              { return nil }
func (n *nowhere) Close() error                                         { return nil }
func (n *nowhere) Abort() error                                         { return nil }

func (n *nowhere) Write(p []byte) (int, error) {
	n.size += int64(len(p))
	return len(p), nil
}

const (
	benchRows  = 256 * 1024
	benchBatch = 8 * 1024
)

func benchBatches(as *arrow.Schema) (recs []arrow.RecordBatch, raw int64) {
	for from := 0; from < benchRows; from += benchBatch {
		rec := generate(memory.DefaultAllocator, as, from, benchBatch)
		for _, c := range rec.Columns() {
			raw += int64(c.Data().SizeInBytes())
		}
		recs = append(recs, rec)
	}
	return recs, raw
}

// BenchmarkWriter writes the generator's 12-column table. Its operations are the whole
// of it; ns/row is what design decisions compare.
func BenchmarkWriter(b *testing.B) {
	plain, all := generatorSchema(), nullable(generatorSchema())
	for _, c := range []struct {
		name  string
		table *schema.Struct
		as    *arrow.Schema
		o     data.WriterOptions
	}{
		{"text", plain, plain.Arrow(), data.WriterOptions{}},
		{"nullable", all, all.Arrow(), data.WriterOptions{}},
		{"dictionaries", plain, withDictionaries(plain.Arrow()), data.WriterOptions{}},
		{"compact", plain, plain.Arrow(), data.WriterOptions{Encodings: data.Compact}},
		{"compact_dictionaries", plain, withDictionaries(plain.Arrow()), data.WriterOptions{Encodings: data.Compact}},
		{"snappy", plain, plain.Arrow(), data.WriterOptions{Compression: data.Snappy}},
		{"small_groups", plain, plain.Arrow(), data.WriterOptions{RowGroupRows: 16 * 1024}},
	} {
		b.Run(c.name, func(b *testing.B) {
			recs, raw := benchBatches(c.as)
			benchmark(b, raw, func(sink *nowhere) error {
				w, err := data.NewWriter(context.Background(), sink, c.table, c.o)
				if err != nil {
					return err
				}
				for _, rec := range recs {
					if err := w.Write(rec); err != nil {
						return err
					}
				}
				_, err = w.Close()
				return err
			})
		})
	}
}

// BenchmarkLibraryWriter is the same through the Parquet library's own writer, with the
// settings that suit it best: what the encoder of this package is measured against.
func BenchmarkLibraryWriter(b *testing.B) {
	as := generatorSchema().Arrow()
	recs, raw := benchBatches(as)
	options := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false), parquet.WithMaxRowGroupLength(data.DefaultRowGroupRows),
		parquet.WithStoreDecimalAsInteger(true),
	}
	for _, column := range []string{"operation", "table_name", "status", "region"} {
		options = append(options, parquet.WithDictionaryFor(column, true))
	}
	benchmark(b, raw, func(sink *nowhere) error {
		w, err := pqarrow.NewFileWriter(as, struct{ io.Writer }{sink}, parquet.NewWriterProperties(options...), pqarrow.NewArrowWriterProperties())
		if err != nil {
			return err
		}
		for _, rec := range recs {
			if err := w.WriteBuffered(rec); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

func benchmark(b *testing.B, raw int64, write func(*nowhere) error) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(raw)
	var sink nowhere
	for b.Loop() {
		sink.size = 0
		require.NoError(b, write(&sink))
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/benchRows/float64(b.N), "ns/row")
	b.ReportMetric(float64(sink.size)/benchRows, "B/row")
}

// BenchmarkReadFile reads the table back.
func BenchmarkReadFile(b *testing.B) {
	table, st := generatorSchema(), mem.New()
	recs, raw := benchBatches(table.Arrow())
	w, err := data.NewWriter(context.Background(), st, table, data.WriterOptions{})
	require.NoError(b, err)
	for _, rec := range recs {
		require.NoError(b, w.Write(rec))
	}
	files, err := w.Close()
	require.NoError(b, err)
	b.ReportAllocs()
	b.SetBytes(raw)
	for b.Loop() {
		for _, f := range files {
			for _, err := range data.ReadFile(context.Background(), st, table, data.Input{Path: f.Path, Size: f.Size}, nil) {
				require.NoError(b, err)
			}
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
