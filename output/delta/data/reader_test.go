package data_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// foreign writes a batch with the Parquet library's own writer, as another engine would.
func foreign(t *testing.T, rec arrow.RecordBatch, o ...pqarrow.WriterOption) (store.Store, data.File) {
	t.Helper()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &buf, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(3)), pqarrow.NewArrowWriterProperties(o...))
	require.NoError(t, err)
	require.NoError(t, w.WriteBuffered(rec))
	require.NoError(t, w.Close())
	st := mem.New()
	require.NoError(t, st.Put(t.Context(), "f.parquet", buf.Bytes()))
	return st, data.File{Path: "f.parquet"}
}

func TestReadTakesTheTablesShape(t *testing.T) {
	t.Parallel()
	written := &schema.Struct{Fields: []schema.Field{
		{Name: "a", Type: schema.Long, Nullable: true},
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Long, Nullable: true}}}, Nullable: true},
		{Name: "l", Type: &schema.Array{Element: &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Integer}}}, ContainsNull: true}, Nullable: true},
		{Name: "m", Type: &schema.Map{Key: schema.String, Value: schema.Integer, ValueContainsNull: true}, Nullable: true},
		{Name: "gone", Type: schema.String, Nullable: true},
	}}
	now := &schema.Struct{Fields: []schema.Field{
		{Name: "new", Type: schema.Date, Nullable: true},
		{Name: "A", Type: schema.Long, Nullable: true},
		{Name: "m", Type: &schema.Map{Key: schema.String, Value: schema.Long, ValueContainsNull: true}, Nullable: true},
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{
			{Name: "y", Type: &schema.Array{Element: schema.Long}, Nullable: true}, {Name: "X", Type: schema.Long, Nullable: true}}}, Nullable: true},
		{Name: "l", Type: &schema.Array{Element: &schema.Struct{Fields: []schema.Field{
			{Name: "x", Type: schema.Long}, {Name: "z", Type: schema.String, Nullable: true}}}, ContainsNull: true}, Nullable: true},
	}}
	st := mem.New()
	rec := batch(t, memory.DefaultAllocator, written, `[
		{"a":1,"s":{"x":2},"l":[{"x":3},null],"m":[{"key":"k","value":4},{"key":"n","value":null}],"gone":"g"},
		{"a":null,"s":null,"l":null,"m":null,"gone":null},
		{"a":7,"s":{"x":null},"l":[],"m":[],"gone":null}]`)
	files := write(t, st, written, data.WriterOptions{RowGroupRows: 2}, rec)
	want := [][]string{
		{"NULL", "1", `[{"k";4;};{"n";NULL;};]`, "{NULL;2;}", "[{3;NULL;};NULL;]"},
		{"NULL", "NULL", "NULL", "NULL", "NULL"},
		{"NULL", "7", "[]", "{NULL;NULL;}", "[]"},
	}
	require.Equal(t, want, read(t, st, now, nil, files...))
	require.Equal(t, [][]string{{"{NULL;2;}", "1"}, {"NULL", "NULL"}, {"{NULL;NULL;}", "7"}}, read(t, st, now, []string{"S", "a"}, files...))
	require.Equal(t, [][]string{{"NULL"}, {"NULL"}, {"NULL"}}, read(t, st, now, []string{"new"}, files...))
	require.Equal(t, [][]string{{}, {}, {}}, toEmpty(read(t, st, now, []string{}, files...)))
	for _, err := range data.ReadFile(t.Context(), st, now, data.Input{Path: files[0].Path}, []string{"absent"}) {
		require.ErrorContains(t, err, "column absent is not in the table")
	}
}

func toEmpty(rows [][]string) [][]string {
	for i := range rows {
		rows[i] = append([]string{}, rows[i]...)
	}
	return rows
}

func TestReadWidensWhatIsNarrower(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file arrow.DataType
		json string
		to   schema.Type
		want string
	}{
		{arrow.PrimitiveTypes.Int8, "-128", schema.Long, "-128"},
		{arrow.PrimitiveTypes.Int16, "-32768", schema.Integer, "-32768"},
		{arrow.PrimitiveTypes.Int32, "5", schema.Short, "5"},
		{arrow.PrimitiveTypes.Uint32, "4000000000", schema.Long, "4000000000"},
		{arrow.PrimitiveTypes.Int32, "5", schema.Double, fmt.Sprintf("5/%016x", math.Float64bits(5))},
		{arrow.PrimitiveTypes.Float32, "0.5", schema.Double, fmt.Sprintf("0.5/%016x", math.Float64bits(0.5))},
		{arrow.PrimitiveTypes.Int32, "-7", schema.Decimal{Precision: 12, Scale: 2}, "-7.00"},
		{arrow.PrimitiveTypes.Int64, "-7", schema.Decimal{Precision: 20}, "-7"},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `"-1.25"`, schema.Decimal{Precision: 30, Scale: 5}, "-1.25000"},
		{&arrow.Decimal128Type{Precision: 38, Scale: 10}, `"12345678901234567890.0123456789"`, schema.Decimal{Precision: 38, Scale: 10}, "12345678901234567890.0123456789"},
		{arrow.FixedWidthTypes.Date32, `"1969-12-31"`, schema.TimestampNTZ, "-86400000000"},
		{arrow.FixedWidthTypes.Timestamp_ms, `"1969-12-31T23:59:59.999Z"`, schema.Timestamp, "-1000"},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, `"1969-12-31T23:59:59.999"`, schema.TimestampNTZ, "-1000"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, `"1969-12-31T23:59:59.999999001"`, schema.TimestampNTZ, "-1"},
		{arrow.FixedWidthTypes.Timestamp_us, `"2026-01-01T00:00:00.000001Z"`, schema.TimestampNTZ, "1767225600000001"},
		{arrow.BinaryTypes.Binary, `"YWI="`, schema.String, `"ab"`},
		{arrow.BinaryTypes.String, `"ab"`, schema.Binary, "6162"},
		{arrow.BinaryTypes.LargeString, `"ab"`, schema.String, `"ab"`},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `"ab"`, schema.String, `"ab"`},
	} {
		t.Run(fmt.Sprint(c.file, " to ", c.to), func(t *testing.T) {
			t.Parallel()
			as := arrow.NewSchema([]arrow.Field{{Name: "v", Type: c.file, Nullable: true}}, nil)
			st, f := foreign(t, arrowBatch(t, memory.DefaultAllocator, as, `[{"v":`+c.json+`},{"v":null}]`), pqarrow.WithStoreSchema())
			table := &schema.Struct{Fields: []schema.Field{{Name: "V", Type: c.to, Nullable: true}}}
			require.Equal(t, [][]string{{c.want}, {"NULL"}}, read(t, st, table, nil, f))
		})
	}
}

func TestReadRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file arrow.DataType
		json string
		to   schema.Type
	}{
		{arrow.PrimitiveTypes.Int64, "300", schema.Byte},
		{arrow.BinaryTypes.String, `"5"`, schema.Long},
		{arrow.PrimitiveTypes.Float64, "5", schema.Long},
		{arrow.PrimitiveTypes.Int64, "5", schema.Timestamp},
		{arrow.PrimitiveTypes.Int64, "5", schema.String},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `"1.25"`, schema.Decimal{Precision: 5, Scale: 1}},
		{arrow.ListOf(arrow.PrimitiveTypes.Int64), "[1]", schema.Long},
		{arrow.PrimitiveTypes.Int64, "5", &schema.Array{Element: schema.Long}},
		{arrow.ListOf(arrow.PrimitiveTypes.Int64), "[1]", &schema.Map{Key: schema.Long, Value: schema.Long}},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, `9223372036854775807`, schema.TimestampNTZ},
	} {
		t.Run(fmt.Sprint(c.file, " to ", c.to), func(t *testing.T) {
			t.Parallel()
			as := arrow.NewSchema([]arrow.Field{{Name: "v", Type: c.file, Nullable: true}}, nil)
			if c.file.ID() == arrow.TIMESTAMP {
				as = arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
			}
			rec := arrowBatch(t, memory.DefaultAllocator, as, `[{"v":`+c.json+`}]`)
			if c.file.ID() == arrow.TIMESTAMP {
				rec = retyped(rec, c.file)
			}
			st, f := foreign(t, rec)
			table := &schema.Struct{Fields: []schema.Field{{Name: "v", Type: c.to, Nullable: true}}}
			failed := false
			for _, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: f.Path}, nil) {
				require.ErrorContains(t, err, "reading data file f.parquet: column v: ")
				failed = true
			}
			require.True(t, failed)
		})
	}
}

// Spark's old timestamps: nanoseconds of a Julian day. They reach further than an int64 of
// nanoseconds does.
func TestReadInt96(t *testing.T) {
	t.Parallel()
	as := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "v", Type: &arrow.TimestampType{Unit: arrow.Nanosecond}, Nullable: true},
		{Name: "w", Type: &arrow.TimestampType{Unit: arrow.Nanosecond}},
	}, nil)
	rec := arrowBatch(t, memory.DefaultAllocator, as, `[
		{"n":1,"v":"1969-12-31T23:59:59.999999999","w":"2026-01-02T03:04:05.123456"}, {"n":2,"v":null,"w":"1970-01-01"},
		{"n":3,"v":"1970-01-01T00:00:00.000001","w":"1700-01-01"}, {"n":4,"v":null,"w":"1970-01-01"}, {"n":5,"v":"2200-01-01","w":"1970-01-01"}]`)
	st, f := foreign(t, rec, pqarrow.WithDeprecatedInt96Timestamps(true))
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "v", Type: schema.Timestamp, Nullable: true}, {Name: "n", Type: schema.Long}, {Name: "w", Type: schema.TimestampNTZ}}}
	require.Equal(t, [][]string{
		{"-1", "1", "1767323045123456"}, {"NULL", "2", "0"}, {"1", "3", "-8520336000000000"}, {"NULL", "4", "0"}, {"7258118400000000", "5", "0"},
	}, read(t, st, table, nil, f))
	require.Equal(t, [][]string{{"-1"}, {"NULL"}, {"1"}, {"NULL"}, {"7258118400000000"}}, read(t, st, table, []string{"v"}, f))
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := &schema.Struct{Fields: []schema.Field{{Name: "v", Type: schema.String, Nullable: true}}}
	var rows []string
	for i := range 150 {
		rows = append(rows, fmt.Sprintf(`{"v":"%d%s"}`, i, strings.Repeat("x", 200_000)))
	}
	rec := batch(t, memory.DefaultAllocator, table, "["+strings.Join(rows, ",")+"]")
	files := write(t, st, table, data.WriterOptions{}, rec)
	total := int64(0)
	for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: files[0].Path, Size: files[0].Size}, nil) {
		require.NoError(t, err)
		require.LessOrEqual(t, rec.NumRows(), int64(64), "64 rows are 13 MB")
		total += rec.NumRows()
	}
	require.Equal(t, files[0].NumRecords, total)
}

func TestReadCanBeLeft(t *testing.T) {
	t.Parallel()
	alloc, st, table := checked(t), mem.New(), generatorSchema()
	rec := generate(memory.DefaultAllocator, table.Arrow(), 0, 5000)
	files := write(t, st, table, data.WriterOptions{RowGroupRows: 1000}, rec)
	for rec, err := range data.ReadFileWith(t.Context(), alloc, st, table, data.Input{Path: files[0].Path}, nil) {
		require.NoError(t, err)
		require.Equal(t, int64(1000), rec.NumRows())
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range data.ReadFileWith(ctx, alloc, st, table, data.Input{Path: files[0].Path}, nil) {
		cancel()
		if n++; n == 2 {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Equal(t, 2, n)
}

func TestReadOfNoFile(t *testing.T) {
	t.Parallel()
	for _, err := range data.ReadFile(t.Context(), mem.New(), columns("a"), data.Input{Path: "absent"}, nil) {
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

// A file cut short or damaged gives an error, never wrong rows or a panic.
func FuzzReadFile(f *testing.F) {
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "a", Type: schema.Long, Nullable: true}, {Name: "s", Type: schema.String, Nullable: true},
		{Name: "l", Type: &schema.Array{Element: schema.Decimal{Precision: 20}, ContainsNull: true}, Nullable: true},
	}}
	st := mem.New()
	w, err := data.NewWriter(context.Background(), st, table, data.WriterOptions{RowGroupRows: 2, Compression: data.Uncompressed})
	require.NoError(f, err)
	rec, _, err := recordFromJSON(table.Arrow(), `[{"a":1,"s":"x","l":["1",null]},{"a":null,"s":null,"l":null},{"a":2,"s":"y","l":[]}]`)
	require.NoError(f, err)
	require.NoError(f, w.Write(rec))
	files, err := w.Close()
	require.NoError(f, err)
	content, err := st.Get(context.Background(), files[0].Path)
	require.NoError(f, err)
	f.Add(content)
	f.Add(content[:len(content)-9])
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		st := mem.New()
		require.NoError(t, st.Put(t.Context(), "f", content))
		rows := int64(0)
		for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: "f"}, nil) {
			if err != nil {
				return
			}
			if rows += rec.NumRows(); rows > 1_000_000 {
				return
			}
		}
	})
}
