package pqfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/pqfile"
)

// content is a file with columns below structs, which the Parquet library opens on
// goroutines of its own.
func content(t require.TestingT, binaryWidth, rows int) []byte {
	as := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Nullable: true, Type: arrow.StructOf(
			arrow.Field{Name: "t", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "f", Type: &arrow.FixedSizeBinaryType{ByteWidth: binaryWidth}, Nullable: true},
			arrow.Field{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
		)},
	}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, as, strings.NewReader("["+strings.Repeat(`{"a":1,"s":{"t":"x","f":null,"l":[1,null]}},`, rows)+`{"a":null,"s":null}]`))
	require.NoError(t, err)
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(as, &buf, parquet.NewWriterProperties(parquet.WithDictionaryDefault(false)), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// open reads the footer and the first records of a file.
func open(t *testing.T, data []byte) error {
	rd, err := pqfile.Open(bytes.NewReader(data), int64(len(data)), parquet.NewReaderProperties(memory.DefaultAllocator))
	if err != nil {
		return err
	}
	return pqfile.Guard(func() error {
		fr, err := pqarrow.NewFileReader(rd, pqarrow.ArrowReadProperties{BatchSize: 100}, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		rr, err := fr.GetRecordReader(t.Context(), nil, nil)
		if err != nil {
			return err
		}
		defer rr.Release()
		for range 10 {
			if !rr.Next() {
				break
			}
			if err := pqfile.Validate(rr.RecordBatch()); err != nil {
				return err
			}
		}
		if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	good := content(t, 16, 5000)
	require.NoError(t, open(t, good))
	require.ErrorContains(t, open(t, content(t, 2000, 1)), "column s.f has values of 2000 bytes")
	for _, n := range []int{0, 4, 8, 11, 12, len(good) / 2, len(good) - 1} {
		require.Error(t, open(t, good[:n]), "the first %d bytes", n)
	}
	// Fewer bytes than the footer speaks of.
	footer := len(good) - 8 - int(binary.LittleEndian.Uint32(good[len(good)-8:]))
	require.ErrorContains(t, open(t, append([]byte("PAR1"), good[footer:]...)), "do not fit into a file")
}

func TestGuardAndValidate(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, pqfile.Guard(func() error { panic("out of range") }), "corrupt or has a form that is not supported: out of range")
	require.ErrorIs(t, pqfile.Guard(func() error { return io.EOF }), io.EOF)
	require.NoError(t, pqfile.Guard(func() error { return nil }))
	long := array.NewInt64Builder(memory.DefaultAllocator)
	long.AppendValues([]int64{1, 2}, nil)
	column := long.NewArray()
	as := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)
	require.NoError(t, pqfile.Validate(array.NewRecordBatch(as, []arrow.Array{column}, 2)))
	require.ErrorContains(t, pqfile.Validate(longer{array.NewRecordBatch(as, []arrow.Array{column}, 2)}), "column a has 2 rows of 3")
}

// longer says it has one row more than its columns.
type longer struct{ arrow.RecordBatch }

func (l longer) NumRows() int64 { return l.RecordBatch.NumRows() + 1 }

// Whatever stands in the footer of a file, opening and reading it ends with rows or an error.
func FuzzFooter(f *testing.F) {
	good := content(f, 16, 1)
	footer := len(good) - 8 - int(binary.LittleEndian.Uint32(good[len(good)-8:]))
	f.Add(uint16(0), []byte{})
	f.Add(uint16(40), []byte{0xff, 0xff, 0x7f})
	f.Add(uint16(100), []byte{0x15})
	f.Fuzz(func(t *testing.T, at uint16, with []byte) {
		file := bytes.Clone(good)
		copy(file[footer+int(at)%(len(file)-8-footer):len(file)-8], with)
		if err := open(t, file); bytes.Equal(file, good) {
			require.NoError(t, err)
		}
	})
}
