package data_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func TestPartitionValuesAndDirectories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ       schema.Type
		json      string // of the value
		value     string
		directory string
	}{
		{schema.String, `"plain"`, "plain", "p=plain"},
		{schema.String, `"a b"`, "a b", "p=a b"},
		{schema.String, `"a/b"`, "a/b", "p=a%2Fb"},
		{schema.String, `"ü 😀"`, "ü 😀", "p=ü 😀"},
		{schema.String, `"x+y=z?#%'*:\"\\{[]^}"`, `x+y=z?#%'*:"\{[]^}`, "p=x+y%3Dz%3F%23%25%27%2A%3A%22%5C%7B%5B%5D%5E}"},
		{schema.String, `"tab\tdel\u007f"`, "tab\tdel\x7f", "p=tab%09del%7F"},
		{schema.Long, `-9223372036854775808`, "-9223372036854775808", "p=-9223372036854775808"},
		{schema.Byte, `-5`, "-5", "p=-5"},
		{schema.Short, `300`, "300", "p=300"},
		{schema.Integer, `7`, "7", "p=7"},
		{schema.Boolean, `true`, "true", "p=true"},
		{schema.Date, `"2026-01-31"`, "2026-01-31", "p=2026-01-31"},
		{schema.Date, `"0001-01-01"`, "0001-01-01", "p=0001-01-01"},
		{schema.Double, `0.1`, "0.1", "p=0.1"},
		{schema.Double, `3`, "3.0", "p=3.0"},
		{schema.Float, `0.1`, "0.1", "p=0.1"},
		{schema.Decimal{Precision: 10, Scale: 2}, `"-1.50"`, "-1.50", "p=-1.50"},
		{schema.Decimal{Precision: 38, Scale: 38}, `"0.00000000000000000000000000000000000001"`, "0.00000000000000000000000000000000000001", "p=0.00000000000000000000000000000000000001"},
		{schema.Timestamp, `"2026-01-02T03:04:05.000006Z"`, "2026-01-02T03:04:05.000006Z", "p=2026-01-02T03%3A04%3A05.000006Z"},
		{schema.Timestamp, `"1969-12-31T23:59:59Z"`, "1969-12-31T23:59:59.000000Z", "p=1969-12-31T23%3A59%3A59.000000Z"},
		{schema.TimestampNTZ, `"2026-01-02T03:04:05"`, "2026-01-02 03:04:05", "p=2026-01-02 03%3A04%3A05"},
		{schema.TimestampNTZ, `"2026-01-02T03:04:05.000006"`, "2026-01-02 03:04:05.000006", "p=2026-01-02 03%3A04%3A05.000006"},
	} {
		t.Run(fmt.Sprint(c.typ, c.json), func(t *testing.T) {
			t.Parallel()
			alloc, st := checked(t), mem.New()
			table := columns("a")
			table.Fields = append(table.Fields, schema.Field{Name: "p", Type: c.typ, Nullable: true})
			rec := batch(t, alloc, table, `[{"a":1,"p":`+c.json+`},{"a":2,"p":null},{"a":3,"p":`+c.json+`}]`)
			defer rec.Release()
			o := data.WriterOptions{PartitionBy: []string{"P"}, NewID: func() string { return "id" }, Allocator: alloc}
			files := write(t, st, table, o, rec)
			require.Len(t, files, 2)
			require.Equal(t, c.directory+"/part-00000-id-c000.zstd.parquet", files[0].Path)
			require.Equal(t, map[string]*string{"p": &c.value}, files[0].PartitionValues)
			require.Equal(t, "p=__HIVE_DEFAULT_PARTITION__/part-00000-id-c000.zstd.parquet", files[1].Path)
			require.Equal(t, map[string]*string{"p": nil}, files[1].PartitionValues)
			require.Equal(t, 1, footer(t, st, files[0]).NumColumns(), "partition columns are not in the file")
			require.NotContains(t, files[0].Stats, `"p"`)
			rows := rowsOf(rec)
			require.Equal(t, [][]string{rows[0], rows[2], rows[1]}, read(t, st, table, nil, files...))
		})
	}
}

func TestPartitionValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ  schema.Type
		fill func(array.Builder)
		want string
	}{
		"empty string":     {schema.String, func(b array.Builder) { b.(*array.StringBuilder).Append("") }, "the empty string cannot be a partition value"},
		"the name of NULL": {schema.String, func(b array.Builder) { b.(*array.StringBuilder).Append("__HIVE_DEFAULT_PARTITION__") }, "stands for NULL"},
		"year 10000":       {schema.Date, func(b array.Builder) { b.(*array.Date32Builder).Append(2932897) }, "outside of the years"},
		"time before 1":    {schema.TimestampNTZ, func(b array.Builder) { b.(*array.TimestampBuilder).Append(-62135596800000001) }, "outside of the years"},
		"not null column":  {schema.Long, func(b array.Builder) { b.AppendNull() }, "not nullable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alloc, st := checked(t), mem.New()
			table := &schema.Struct{Fields: []schema.Field{{Name: "p", Type: c.typ}, {Name: "a", Type: schema.Long, Nullable: true}}}
			b := array.NewRecordBuilder(alloc, table.Arrow())
			defer b.Release()
			c.fill(b.Field(0))
			b.Field(1).AppendNull()
			rec := b.NewRecordBatch()
			defer rec.Release()
			w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{PartitionBy: []string{"p"}, Allocator: alloc})
			require.NoError(t, err)
			err = w.Write(rec)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "column p")
			files, err := w.Close()
			require.NoError(t, err)
			require.Empty(t, files)
		})
	}
}

func TestFewFilesAreOpenAtATime(t *testing.T) {
	t.Parallel()
	table, st := columns("a", "p"), mem.New()
	var rows []string
	for i := range 40 {
		rows = append(rows, fmt.Sprintf(`{"a":%d,"p":%d}`, i, i%4))
	}
	rec := batch(t, memory.DefaultAllocator, table, "["+strings.Join(rows, ",")+"]")
	count := func(open int) int {
		return len(write(t, st, table, data.WriterOptions{PartitionBy: []string{"p"}, MaxOpenFiles: open}, rec, rec))
	}
	require.Equal(t, 4, count(4))
	require.Equal(t, 8, count(1), "each batch opens each partition again")
}

// Memory for open row groups is bounded over all partitions together.
func TestPartitionsShareTheMemory(t *testing.T) {
	t.Parallel()
	table := generatorSchema()
	w, err := data.NewWriter(t.Context(), mem.New(), table, data.WriterOptions{PartitionBy: []string{"status", "region"}, MaxOpenFiles: 100, RowGroupBytes: 200_000})
	require.NoError(t, err)
	for from := 0; from < 60_000; from += 2000 {
		rec := generate(memory.DefaultAllocator, table.Arrow(), from, 2000)
		require.NoError(t, w.Write(rec))
		rec.Release()
		_, held := w.Buffered()
		require.LessOrEqual(t, held, int64(200_000))
	}
	files, err := w.Close()
	require.NoError(t, err)
	require.Len(t, files, 5*8)
	var rows int64
	for _, f := range files {
		rows += f.NumRecords
	}
	require.Equal(t, int64(60_000), rows)
}

// Any types, any order of values: every row is in the file of its partition, in order.
func TestRandomPartitions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		alloc, st := memory.NewCheckedAllocator(memory.DefaultAllocator), mem.New()
		table := drawStruct(rt, 2)
		table.Fields = append(table.Fields, schema.Field{Name: "number", Type: schema.Long})
		types := []schema.Type{schema.String, schema.Long, schema.Byte, schema.Double, schema.Boolean, schema.Date, schema.Timestamp,
			schema.TimestampNTZ, schema.Decimal{Precision: 5, Scale: 2}, schema.Decimal{Precision: 30, Scale: 2}}
		var parts []string
		for i := range rapid.IntRange(1, 3).Draw(rt, "partition columns") {
			name := fmt.Sprint("p", i)
			parts = append(parts, name)
			table.Fields = append([]schema.Field{{Name: name, Type: rapid.SampledFrom(types).Draw(rt, "type"), Nullable: true}}, table.Fields...)
		}
		rec := drawBatch(rt, alloc, table, rapid.IntRange(1, 40).Draw(rt, "rows"))
		w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{PartitionBy: parts, MaxOpenFiles: rapid.IntRange(1, 5).Draw(rt, "open"), Allocator: alloc})
		require.NoError(rt, err)
		if err := w.Write(rec); err != nil { // an empty string or a year out of range
			require.ErrorContains(rt, err, "cannot be a partition value")
			rec.Release()
			rt.SkipNow()
		}
		files, err := w.Close()
		require.NoError(rt, err)
		var got [][]string
		for _, f := range files {
			for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: f.Path, Size: f.Size, PartitionValues: f.PartitionValues}, nil) {
				require.NoError(rt, err)
				got = append(got, rowsOf(rec)...)
			}
		}
		require.ElementsMatch(rt, canonicalZeros(rowsOf(rec)), canonicalZeros(got))
		rec.Release()
		alloc.AssertSize(t, 0)
	})
}

// canonicalZeros drops the payload of NaN, which has no form in the log.
func canonicalZeros(rows [][]string) [][]string {
	for _, row := range rows {
		for i, v := range row {
			if strings.HasPrefix(v, "NaN/") {
				row[i] = "NaN"
			}
		}
	}
	return rows
}

func TestPartitionValuesOfOtherWriters(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := columns("a")
	files := write(t, st, table, data.WriterOptions{}, batch(t, memory.DefaultAllocator, table, `[{"a":1}]`))
	value := func(typ schema.Type, text string) (string, error) {
		wide := &schema.Struct{Fields: append([]schema.Field{{Name: "P", Type: typ, Nullable: true}}, table.Fields...)}
		for rec, err := range data.ReadFile(t.Context(), st, wide, data.Input{Path: files[0].Path, PartitionValues: map[string]*string{"p": &text}}, []string{"p"}) {
			if err != nil {
				return "", err
			}
			return cell(rec.Column(0), 0), nil
		}
		return "", nil
	}
	for _, c := range []struct {
		typ  schema.Type
		text string
		want string
	}{
		{schema.String, "", "NULL"},
		{schema.Timestamp, "1970-01-01 00:00:01", "1000000"},
		{schema.Timestamp, "1970-01-01 00:00:01.5", "1500000"},
		{schema.Timestamp, "1970-01-01T00:00:01.123456Z", "1123456"},
		{schema.Timestamp, "1970-01-01T01:00:01+01:00", "1000000"},
		{schema.TimestampNTZ, "1969-12-31 23:59:59.999999", "-1"},
		{schema.Date, "1969-12-31", "-1"},
		{schema.Decimal{Precision: 20, Scale: 5}, "-2342342.23423", "-2342342.23423"},
		{schema.Decimal{Precision: 5, Scale: 2}, "1.500", "1.50"},
		{schema.Decimal{Precision: 3}, "1E+2", "100"},
		{schema.Decimal{Precision: 38, Scale: 18}, "0E-18", "0." + strings.Repeat("0", 18)},
		{schema.TimestampNTZ, "1970-01-02", "86400000000"}, // was a date before the column was widened
		{schema.Decimal{Precision: 38}, strings.Repeat("9", 38), strings.Repeat("9", 38)},
		{schema.Double, "-Infinity", fmt.Sprintf("-Inf/%016x", math.Float64bits(math.Inf(-1)))},
		{schema.Double, "1.0E10", "1e+10/" + fmt.Sprintf("%016x", math.Float64bits(1e10))},
		{schema.Boolean, "false", "false"},
		{schema.Binary, "ab", "6162"},
	} {
		got, err := value(c.typ, c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
	}
	for _, c := range []struct {
		typ  schema.Type
		text string
	}{
		{schema.Long, "x"}, {schema.Byte, "128"}, {schema.Date, "2026-13-01"}, {schema.Timestamp, "yesterday"}, {schema.Boolean, "maybe"},
		{schema.Decimal{Precision: 3, Scale: 2}, "1.234"}, {schema.Decimal{Precision: 3, Scale: 2}, "10.00"}, {schema.Decimal{Precision: 3}, "1e3"},
		{schema.Decimal{Precision: 3}, "1_0"}, {schema.Decimal{Precision: 38}, strings.Repeat("9", 60)}, {schema.Decimal{Precision: 3}, ""[:0] + "-"},
	} {
		_, err := value(c.typ, c.text)
		require.ErrorContains(t, err, fmt.Sprintf("partition value %q is no %s", c.text, c.typ))
	}
}
