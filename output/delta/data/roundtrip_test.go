package data_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// Whatever the schema, the rows, the sizes of batches, pages, dictionaries, row groups
// and files: what is read is what was written, and the statistics hold for every row.
func TestRandomTablesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
		table := drawStruct(rt, 3)
		o := data.WithLimits(data.WriterOptions{
			Compression:     rapid.SampledFrom([]data.Compression{data.Zstd, data.Snappy, data.Gzip, data.Uncompressed, "none"}).Draw(rt, "compression"),
			Encodings:       rapid.SampledFrom([]data.Encodings{data.Plain, data.Compact}).Draw(rt, "encodings"),
			RowGroupRows:    rapid.Int64Range(1, 60).Draw(rt, "rowGroupRows"),
			TargetFileBytes: rapid.SampledFrom([]int64{0, 1, 2000}).Draw(rt, "targetFileBytes"),
			Allocator:       alloc,
		},
			rapid.IntRange(1, 40).Draw(rt, "pageRows"), rapid.SampledFrom([]int{8, 100, 10000}).Draw(rt, "pageBytes"),
			rapid.SampledFrom([]int{1, 50, 10000}).Draw(rt, "dictBytes"), rapid.IntRange(1, 50).Draw(rt, "sample"))
		st := mem.New()
		w, err := data.NewWriter(t.Context(), st, table, o)
		require.NoError(rt, err)
		var want [][]string
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			rec := drawBatch(rt, alloc, table, rapid.IntRange(0, 50).Draw(rt, "rows"))
			slice := rec.NewSlice(rapid.Int64Range(0, rec.NumRows()).Draw(rt, "from"), rec.NumRows())
			require.NoError(rt, w.Write(slice))
			want = append(want, rowsOf(slice)...)
			slice.Release()
			rec.Release()
		}
		files, err := w.Close()
		require.NoError(rt, err)

		var got [][]string
		for _, f := range files {
			rows := int64(0)
			for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: f.Path, Size: f.Size}, nil) {
				require.NoError(rt, err)
				require.True(rt, rec.Schema().Equal(table.Arrow()))
				got = append(got, rowsOf(rec)...)
				rows += rec.NumRows()
				requireBounds(rt, table, f.Stats, rec)
			}
			require.Equal(rt, f.NumRecords, rows)
		}
		require.Equal(rt, want, got)
		alloc.AssertSize(t, 0)
	})
}

// The edges of every type come back bit for bit, in nullable and in required columns, as
// dictionary and plain.
func TestEdgesOfEveryType(t *testing.T) {
	t.Parallel()
	nines := decimal128.GetMaxValue(38)
	edges := map[schema.Type]func(array.Builder){
		schema.String: func(b array.Builder) { b.(*array.StringBuilder).AppendValues(nastyStrings, nil) },
		schema.Binary: func(b array.Builder) {
			b.(*array.BinaryBuilder).AppendValues([][]byte{{}, {0}, {0xff, 0xfe}, bytes.Repeat([]byte{7}, 70_000)}, nil)
		},
		schema.Boolean: func(b array.Builder) {
			b.(*array.BooleanBuilder).AppendValues([]bool{true, false, true, true, false, true, true, false, true, true}, nil)
		},
		schema.Byte: func(b array.Builder) {
			b.(*array.Int8Builder).AppendValues([]int8{math.MinInt8, 0, -1, math.MaxInt8}, nil)
		},
		schema.Short: func(b array.Builder) {
			b.(*array.Int16Builder).AppendValues([]int16{math.MinInt16, 0, -1, math.MaxInt16}, nil)
		},
		schema.Integer: func(b array.Builder) {
			b.(*array.Int32Builder).AppendValues([]int32{math.MinInt32, 0, -1, math.MaxInt32}, nil)
		},
		schema.Long: func(b array.Builder) {
			b.(*array.Int64Builder).AppendValues([]int64{math.MinInt64, 0, -1, math.MaxInt64}, nil)
		},
		schema.Float: func(b array.Builder) {
			b.(*array.Float32Builder).AppendValues([]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
				float32(math.Copysign(0, -1)), 0, math.MaxFloat32, math.SmallestNonzeroFloat32}, nil)
		},
		schema.Double: func(b array.Builder) {
			b.(*array.Float64Builder).AppendValues([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0,
				math.MaxFloat64, math.SmallestNonzeroFloat64}, nil)
		},
		schema.Date: func(b array.Builder) { // 0001-01-01, 9999-12-31
			b.(*array.Date32Builder).AppendValues([]arrow.Date32{-719162, 2932896, 0, -1, math.MinInt32, math.MaxInt32}, nil)
		},
		schema.Timestamp:    appendTimes,
		schema.TimestampNTZ: appendTimes,
		schema.Decimal{Precision: 38, Scale: 38}: func(b array.Builder) {
			b.(*array.Decimal128Builder).AppendValues([]decimal128.Num{nines, nines.Negate(), decimal128.FromI64(-1), {}}, nil)
		},
		schema.Decimal{Precision: 18, Scale: 2}: func(b array.Builder) {
			most := decimal128.GetMaxValue(18)
			b.(*array.Decimal128Builder).AppendValues([]decimal128.Num{most, most.Negate(), decimal128.FromI64(-1), {}}, nil)
		},
		schema.Decimal{Precision: 9, Scale: 9}: func(b array.Builder) {
			most := decimal128.GetMaxValue(9)
			b.(*array.Decimal128Builder).AppendValues([]decimal128.Num{most, most.Negate(), decimal128.FromI64(-1), {}}, nil)
		},
	}
	for typ, fill := range edges {
		for _, nullable := range []bool{true, false} {
			alloc, st := checked(t), mem.New()
			table := &schema.Struct{Fields: []schema.Field{{Name: "v", Type: typ, Nullable: nullable}}}
			b := array.NewRecordBuilder(alloc, table.Arrow())
			fill(b.Field(0))
			if nullable {
				b.Field(0).AppendNull()
			}
			rec := b.NewRecordBatch()
			b.Release()
			want := append(rowsOf(rec), rowsOf(rec)...)
			for _, o := range []data.WriterOptions{{}, {Encodings: data.Compact},
				data.WithLimits(data.WriterOptions{}, 100, 1_000_000, 1_000_000, 1), data.WithLimits(data.WriterOptions{}, 2, 10, 10, 100)} {
				o.Allocator = alloc
				files := write(t, st, table, o, rec, rec)
				var got [][]string
				for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: files[0].Path, Size: files[0].Size}, nil) {
					require.NoError(t, err)
					got = append(got, rowsOf(rec)...)
					requireBounds(t, table, files[0].Stats, rec)
				}
				require.Equal(t, want, got, "%s", typ)
			}
			rec.Release()
		}
	}
}

func appendTimes(b array.Builder) { // 0001-01-01, 9999-12-31 23:59:59.999999, before 1970
	b.(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{-62135596800000000, 253402300799999999, -1, 0, math.MinInt64, math.MaxInt64}, nil)
}
