package data_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func columns(names ...string) *schema.Struct {
	s := &schema.Struct{}
	for _, name := range names {
		s.Fields = append(s.Fields, schema.Field{Name: name, Type: schema.Long, Nullable: true})
	}
	return s
}

// footer is the metadata of a file in the store.
func footer(t *testing.T, st store.Store, f data.File) *metadata.FileMetaData {
	t.Helper()
	content, err := st.Get(t.Context(), f.Path)
	require.NoError(t, err)
	require.Len(t, content, int(f.Size))
	r, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	return r.MetaData()
}

func TestFilesAreNamedAndDescribed(t *testing.T) {
	t.Parallel()
	st, table := mem.New(), columns("a")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := data.WriterOptions{NewID: func() string { return "id" }, Now: func() time.Time { return now }}
	rec := batch(t, memory.DefaultAllocator, table, `[{"a":1},{"a":null}]`)
	files := write(t, st, table, o, rec)
	require.Len(t, files, 1)
	size := files[0].Size
	require.Equal(t, []data.File{{
		Path: "part-00000-id-c000.zstd.parquet", Size: size, NumRecords: 2, ModTime: now,
		Stats: `{"numRecords":2,"minValues":{"a":1},"maxValues":{"a":1},"nullCount":{"a":1}}`,
	}}, files)
	meta := footer(t, st, files[0])
	require.Empty(t, meta.KeyValueMetadata())
	require.Equal(t, int64(2), meta.NumRows)
	require.Equal(t, "spark_schema", meta.Schema.Root().Name())

	o.NamePrefix, o.Compression = "chunk-7", data.Uncompressed
	require.Equal(t, "chunk-7-id-c000.parquet", write(t, mem.New(), table, o, rec)[0].Path)
	a, b := write(t, st, table, data.WriterOptions{}, rec), write(t, st, table, data.WriterOptions{}, rec)
	require.NotEqual(t, a[0].Path, b[0].Path)
	require.Regexp(t, `^part-00000-[0-9a-f-]{36}-c000\.zstd\.parquet$`, a[0].Path)
}

func TestNothingWrittenIsNoFile(t *testing.T) {
	t.Parallel()
	st, table := mem.New(), columns("a")
	require.Empty(t, write(t, st, table, data.WriterOptions{}))
	require.Empty(t, write(t, st, table, data.WriterOptions{}, batch(t, memory.DefaultAllocator, table, `[]`)))
	for range st.List(t.Context(), "", "") {
		require.Fail(t, "an object was created")
	}
}

func TestPhysicalTypes(t *testing.T) {
	t.Parallel()
	table := &schema.Struct{}
	for i, c := range []schema.Type{
		schema.Byte, schema.Short, schema.Integer, schema.Long, schema.Date, schema.Timestamp, schema.TimestampNTZ,
		schema.Decimal{Precision: 9, Scale: 2}, schema.Decimal{Precision: 18, Scale: 2}, schema.Decimal{Precision: 19, Scale: 2},
		schema.String, schema.Binary, schema.Boolean, schema.Float, schema.Double,
	} {
		table.Fields = append(table.Fields, schema.Field{Name: fmt.Sprint("c", i), Type: c, Nullable: true})
	}
	st := mem.New()
	files := write(t, st, table, data.WriterOptions{}, batch(t, memory.DefaultAllocator, table, `[{}]`))
	var got []string
	pq := footer(t, st, files[0]).Schema
	for i := range pq.NumColumns() {
		got = append(got, pq.Column(i).PhysicalType().String()+" "+pq.Column(i).LogicalType().String())
	}
	require.Equal(t, []string{
		"INT32 Int(bitWidth=8, isSigned=true)", "INT32 Int(bitWidth=16, isSigned=true)", "INT32 Int(bitWidth=32, isSigned=true)",
		"INT64 Int(bitWidth=64, isSigned=true)", "INT32 Date",
		"INT64 Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)",
		"INT64 Timestamp(isAdjustedToUTC=false, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)",
		"INT32 Decimal(precision=9, scale=2)", "INT64 Decimal(precision=18, scale=2)", "FIXED_LEN_BYTE_ARRAY Decimal(precision=19, scale=2)",
		"BYTE_ARRAY String", "BYTE_ARRAY None", "BOOLEAN None", "FLOAT None", "DOUBLE None",
	}, got)
}

func TestRowGroupsAndFilesEnd(t *testing.T) {
	t.Parallel()
	table := columns("a")
	alloc := checked(t)
	_, rec := oneColumn(alloc, schema.Long, func(b *array.Int64Builder) {
		for i := range 1000 {
			b.Append(int64(i) * 0x9E3779B97F4A7C)
		}
	})
	defer rec.Release()
	named := array.NewRecordBatch(table.Arrow(), rec.Columns(), rec.NumRows())
	defer named.Release()
	groups := func(o data.WriterOptions) (sizes [][]int64) {
		st := mem.New()
		for _, f := range write(t, st, table, o, named, named) {
			meta := footer(t, st, f)
			var rows []int64
			for i := range meta.NumRowGroups() {
				rows = append(rows, meta.RowGroup(i).NumRows())
			}
			sizes = append(sizes, rows)
		}
		return sizes
	}
	require.Equal(t, [][]int64{{2000}}, groups(data.WriterOptions{}))
	require.Equal(t, [][]int64{{600, 600, 600, 200}}, groups(data.WriterOptions{RowGroupRows: 600}))
	require.Equal(t, [][]int64{{600}, {600}, {600}, {200}}, groups(data.WriterOptions{RowGroupRows: 600, TargetFileBytes: 100}))
	for _, group := range groups(data.WriterOptions{RowGroupBytes: 1000})[0] {
		require.LessOrEqual(t, group, int64(250), "a thousand bytes are 125 values")
	}
}

func TestFlushReturnsWhatIsFinished(t *testing.T) {
	t.Parallel()
	st, table := mem.New(), columns("a")
	w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{})
	require.NoError(t, err)
	rec := batch(t, memory.DefaultAllocator, table, `[{"a":1},{"a":2}]`)
	require.NoError(t, w.Write(rec))
	rows, held := w.Buffered()
	require.Equal(t, int64(2), rows)
	require.Positive(t, held)
	first, err := w.Flush()
	require.NoError(t, err)
	require.Len(t, first, 1)
	rows, held = w.Buffered()
	require.Zero(t, rows)
	require.Zero(t, held)
	none, err := w.Flush()
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, w.Write(rec))
	second, err := w.Close()
	require.NoError(t, err)
	require.Len(t, second, 1)
	require.Len(t, read(t, st, table, nil, append(first, second...)...), 4)

	again, err := w.Close()
	require.NoError(t, err)
	require.Empty(t, again)
	require.NoError(t, w.Abort())
	require.ErrorContains(t, w.Write(rec), "closed")
	require.Len(t, read(t, st, table, nil, second...), 2)
}

func TestAbortLeavesOnlyWhatWasReturned(t *testing.T) {
	t.Parallel()
	st, table := mem.New(), columns("a")
	w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{RowGroupRows: 1, TargetFileBytes: 1})
	require.NoError(t, err)
	rec := batch(t, memory.DefaultAllocator, table, `[{"a":1},{"a":2}]`)
	require.NoError(t, w.Write(rec))
	kept, err := w.Flush()
	require.NoError(t, err)
	require.Len(t, kept, 2)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Abort())
	require.NoError(t, w.Abort())
	var left []string
	for info, err := range st.List(t.Context(), "", "") {
		require.NoError(t, err)
		left = append(left, info.Path)
	}
	require.ElementsMatch(t, []string{kept[0].Path, kept[1].Path}, left)
}

func TestColumnsAreMatchedByName(t *testing.T) {
	t.Parallel()
	alloc := checked(t)
	st := mem.New()
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "Id", Type: schema.Long}, {Name: "name", Type: schema.String, Nullable: true},
		{Name: "later", Type: &schema.Array{Element: schema.Date}, Nullable: true}, {Name: "nothing", Type: schema.Void, Nullable: true},
	}}
	as := arrow.NewSchema([]arrow.Field{
		{Name: "NAME", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	rec := arrowBatch(t, alloc, as, `[{"NAME":"x","id":7},{"NAME":null,"id":8}]`)
	defer rec.Release()
	files := write(t, st, table, data.WriterOptions{Allocator: alloc}, rec)
	require.Equal(t, [][]string{{"7", `"x"`, "NULL", "NULL"}, {"8", "NULL", "NULL", "NULL"}}, read(t, st, table, nil, files...))
	require.Equal(t, 3, footer(t, st, files[0]).NumColumns(), "void columns are not stored")
}

func TestBatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "id", Type: schema.Long},
		{Name: "d", Type: schema.Decimal{Precision: 3, Scale: 1}, Nullable: true},
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{
			{Name: "l", Type: &schema.Array{Element: schema.Decimal{Precision: 2}}, Nullable: true},
			{Name: "x", Type: schema.Long},
		}}, Nullable: true},
	}}
	id := arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	wide := func(name string, typ arrow.DataType) []arrow.Field {
		return []arrow.Field{id, {Name: name, Type: typ, Nullable: true}}
	}
	part := arrow.StructOf(
		arrow.Field{Name: "l", Type: arrow.ListOf(&arrow.Decimal128Type{Precision: 2}), Nullable: true},
		arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	for name, c := range map[string]struct {
		fields []arrow.Field
		json   string
		want   string
	}{
		"NULL in a column that is not nullable": {[]arrow.Field{id}, `[{"id":1},{"id":null}]`, "column id: row 1 is NULL"},
		"a column is missing":                   {wide("d", &arrow.Decimal128Type{Precision: 3, Scale: 1})[1:], `[]`, "column id: have no such column, want long not null"},
		"an unknown column":                     {wide("new", arrow.PrimitiveTypes.Int64), `[]`, "column new: have long, want no such column"},
		"another type":                          {wide("d", arrow.PrimitiveTypes.Int64), `[]`, "column d: have long, want decimal(3,1)"},
		"another scale":                         {wide("d", &arrow.Decimal128Type{Precision: 3, Scale: 2}), `[]`, "have decimal(3,2), want decimal(3,1)"},
		"a type Delta does not have":            {wide("d", arrow.PrimitiveTypes.Uint32), `[]`, "convert it to int64"},
		"a column twice":                        {wide("ID", arrow.PrimitiveTypes.Int64), `[]`, "twice"},
		"a part of another name":                {wide("s", arrow.StructOf(arrow.Field{Name: "z", Type: arrow.PrimitiveTypes.Int64})), `[]`, "column s"},
		"NULL in a part":                        {wide("s", part), `[{"id":1,"s":{"l":[],"x":null}}]`, "column s.x: is NULL"},
		"NULL element":                          {wide("s", part), `[{"id":1,"s":{"l":["1",null],"x":1}}]`, "column s.l.element: is NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alloc, st := checked(t), mem.New()
			w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{Allocator: alloc})
			require.NoError(t, err)
			good := arrowBatch(t, alloc, arrow.NewSchema([]arrow.Field{id}, nil), `[{"id":5}]`)
			defer good.Release()
			require.NoError(t, w.Write(good))
			bad := arrowBatch(t, alloc, arrow.NewSchema(c.fields, nil), c.json)
			defer bad.Release()
			require.ErrorContains(t, w.Write(bad), c.want)
			require.NoError(t, w.Write(good))
			files, err := w.Close()
			require.NoError(t, err)
			require.Equal(t, [][]string{{"5", "NULL", "NULL"}, {"5", "NULL", "NULL"}}, read(t, st, table, nil, files...))
		})
	}
}

// Dictionary or plain is decided by what the values are.
func TestEncodingsFitTheValues(t *testing.T) {
	t.Parallel()
	table, st := generatorSchema(), mem.New()
	rec := generate(memory.DefaultAllocator, table.Arrow(), 0, 20_000)
	encodings := func(o data.WriterOptions) (out []string) {
		files := write(t, st, table, o, rec)
		group := footer(t, st, files[0]).RowGroup(0)
		for i := range group.NumColumns() {
			chunk, err := group.ColumnChunk(i)
			require.NoError(t, err)
			for _, s := range chunk.EncodingStats() {
				if s.PageType != 2 { // no dictionary page
					out = append(out, s.Encoding.String())
				}
			}
		}
		return out
	}
	dict, plain := parquet.Encodings.RLEDict.String(), parquet.Encodings.Plain.String()
	require.Equal(t, []string{dict, plain, dict, dict, dict, plain, plain, dict, dict, plain, plain, plain}, encodings(data.WriterOptions{}))
	ints, text := parquet.Encodings.DeltaBinaryPacked.String(), parquet.Encodings.DeltaByteArray.String()
	require.Equal(t, []string{dict, text, dict, dict, dict, ints, ints, dict, dict, ints, ints, text}, encodings(data.WriterOptions{Encodings: data.Compact}))
}

// Some readers do not take a dictionary without values.
func TestColumnsOfNullHaveNoDictionary(t *testing.T) {
	t.Parallel()
	table, st := nullable(generatorSchema()), mem.New()
	rec := batch(t, memory.DefaultAllocator, table, `[{},{},{}]`)
	for _, o := range []data.WriterOptions{{}, {Encodings: data.Compact}} {
		files := write(t, st, table, o, rec)
		group := footer(t, st, files[0]).RowGroup(0)
		for i := range group.NumColumns() {
			chunk, err := group.ColumnChunk(i)
			require.NoError(t, err)
			require.False(t, chunk.HasDictionaryPage())
			require.Len(t, chunk.EncodingStats(), 1)
			require.Equal(t, parquet.Encodings.Plain, chunk.EncodingStats()[0].Encoding)
		}
		require.Len(t, read(t, st, table, nil, files...), 3)
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	everyList := &schema.Array{Element: schema.Long}
	list := &schema.Struct{Fields: []schema.Field{{Name: "l", Type: &schema.Array{Element: schema.Void}, Nullable: true}}}
	for name, c := range map[string]struct {
		table *schema.Struct
		o     data.WriterOptions
		want  string
	}{
		"compression":              {columns("a"), data.WriterOptions{Compression: "lzo"}, `compression "lzo"`},
		"encodings":                {columns("a"), data.WriterOptions{Encodings: "best"}, `encodings "best"`},
		"unknown partition column": {columns("a"), data.WriterOptions{PartitionBy: []string{"b"}}, "partition column b is not in the schema"},
		"only partition columns":   {columns("a"), data.WriterOptions{PartitionBy: []string{"a"}}, "no column to store"},
		"nested partition column":  {&schema.Struct{Fields: []schema.Field{{Name: "l", Type: everyList}}}, data.WriterOptions{PartitionBy: []string{"l"}}, "cannot be one"},
		"void element":             {list, data.WriterOptions{}, "void"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := data.NewWriter(t.Context(), mem.New(), c.table, c.o)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// failing is a store whose writes end with an error after so many bytes.
type failing struct {
	*mem.Store
	left    int
	aborted int
}

var errDisk = errors.New("the disk is full")

func (f *failing) Create(ctx context.Context, path string) (store.Writer, error) {
	w, err := f.Store.Create(ctx, path)
	return &failingWriter{w, f}, err
}

type failingWriter struct {
	store.Writer
	f *failing
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.f.left -= len(p); w.f.left < 0 {
		return 0, errDisk
	}
	return w.Writer.Write(p)
}

func (w *failingWriter) Abort() error {
	w.f.aborted++
	return w.Writer.Abort()
}

func TestWriteErrorsEndTheWriter(t *testing.T) {
	t.Parallel()
	table := generatorSchema()
	rec := generate(memory.DefaultAllocator, table.Arrow(), 0, 5000)
	for _, left := range []int{0, 10, 70_000, 100_000} {
		st := &failing{Store: mem.New(), left: left}
		w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{RowGroupRows: 2000})
		require.NoError(t, err)
		err = w.Write(rec)
		if err == nil {
			_, err = w.Close()
		}
		require.ErrorIs(t, err, errDisk, "after %d bytes", left)
		require.ErrorIs(t, w.Write(rec), errDisk)
		_, err = w.Close()
		require.ErrorIs(t, err, errDisk)
		require.NoError(t, w.Abort())
		require.Equal(t, 1, st.aborted)
	}
}

func TestTheContextEndsTheWriter(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := data.NewWriter(ctx, mem.New(), columns("a"), data.WriterOptions{})
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, w.Write(batch(t, memory.DefaultAllocator, columns("a"), `[{"a":1}]`)), context.Canceled)
}

// The statistics of row groups, which readers prune by too, are those of the rows.
func TestRowGroupStatistics(t *testing.T) {
	t.Parallel()
	const rows, group = 10_000, 1500
	table, st := generatorSchema(), mem.New()
	rec := generate(memory.DefaultAllocator, table.Arrow(), 0, rows)
	files := write(t, st, table, data.WriterOptions{RowGroupRows: group}, rec)
	meta := footer(t, st, files[0])
	require.Equal(t, (rows+group-1)/group, meta.NumRowGroups())
	for g := range meta.NumRowGroups() {
		part := rec.NewSlice(int64(g*group), min(rows, int64((g+1)*group)))
		for i := range meta.NumColumns() {
			chunk, err := meta.RowGroup(g).ColumnChunk(i)
			require.NoError(t, err)
			got, err := chunk.Statistics()
			require.NoError(t, err)
			require.Equal(t, int64(part.Column(i).NullN()), got.NullCount())
			require.Equal(t, int64(part.Column(i).Len()), got.NumValues()+got.NullCount())
			lo, hi := extremes(part.Column(i))
			require.Equal(t, lo, got.EncodeMin(), "minimum of %s", table.Fields[i].Name)
			require.Equal(t, hi, got.EncodeMax(), "maximum of %s", table.Fields[i].Name)
		}
	}
}

// extremes are the smallest and the largest value in plain encoding.
func extremes(arr arrow.Array) (lo, hi []byte) {
	var texts []string
	var numbers []int64
	for i := range arr.Len() {
		switch a := arr.(type) {
		case *array.String:
			if a.IsValid(i) {
				texts = append(texts, a.Value(i))
			}
		case *array.Int32:
			numbers = append(numbers, int64(a.Value(i)))
		case *array.Int64:
			numbers = append(numbers, a.Value(i))
		case *array.Timestamp:
			numbers = append(numbers, int64(a.Value(i)))
		case *array.Decimal128:
			numbers = append(numbers, int64(a.Value(i).LowBits()))
		}
	}
	if texts != nil {
		return []byte(slices.Min(texts)), []byte(slices.Max(texts))
	}
	width := 8
	if arr.DataType().ID() == arrow.INT32 {
		width = 4
	}
	lo = binary.LittleEndian.AppendUint64(nil, uint64(slices.Min(numbers)))
	hi = binary.LittleEndian.AppendUint64(nil, uint64(slices.Max(numbers)))
	return lo[:width], hi[:width]
}
