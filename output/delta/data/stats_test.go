package data_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// oneColumn is a batch of one nullable column named v, of values made by fill.
func oneColumn[B array.Builder](alloc memory.Allocator, typ schema.Type, fill func(B)) (*schema.Struct, arrow.RecordBatch) {
	table := &schema.Struct{Fields: []schema.Field{{Name: "v", Type: typ, Nullable: true}}}
	b := array.NewRecordBuilder(alloc, table.Arrow())
	defer b.Release()
	fill(b.Field(0).(B))
	return table, b.NewRecordBatch()
}

func statsOf[B array.Builder](t *testing.T, typ schema.Type, fill func(B)) string {
	t.Helper()
	alloc := checked(t)
	table, rec := oneColumn(alloc, typ, fill)
	defer rec.Release()
	files := write(t, mem.New(), table, data.WriterOptions{Allocator: alloc}, rec)
	require.Len(t, files, 1)
	return files[0].Stats
}

func minMax(rows int, lo, hi string, nulls int) string {
	text := fmt.Sprintf(`{"numRecords":%d`, rows)
	if lo != "" {
		text += `,"minValues":{"v":` + lo + `}`
	}
	if hi != "" {
		text += `,"maxValues":{"v":` + hi + `}`
	}
	return text + fmt.Sprintf(`,"nullCount":{"v":%d}}`, nulls)
}

func TestStatisticsOfStrings(t *testing.T) {
	t.Parallel()
	const top = "\U0010FFFF"
	x := strings.Repeat
	for name, c := range map[string]struct {
		values []string
		lo, hi string
	}{
		"short":                       {[]string{"b", "a", "c"}, "a", "c"},
		"empty":                       {[]string{"", "z"}, "", "z"},
		"byte order":                  {[]string{"Z", "a", "ä", "\uE000", "😀"}, "Z", "😀"},
		"exactly 32":                  {[]string{x("q", 32)}, x("q", 32), x("q", 32)},
		"33":                          {[]string{x("q", 33)}, x("q", 32), x("q", 32) + top},
		"40 of two bytes":             {[]string{x("é", 40)}, x("é", 32), x("é", 32) + top},
		"40 of four bytes":            {[]string{x("😀", 40)}, x("😀", 32), x("😀", 32) + top},
		"the highest character":       {[]string{top}, top, top},
		"the next is the highest":     {[]string{x("q", 32) + top + "abc"}, x("q", 32), x("q", 32) + top + top},
		"40 of the highest":           {[]string{x(top, 40)}, x(top, 32), x(top, 40)},
		"too many of the highest":     {[]string{x(top, 80)}, x(top, 32), ""},
		"quotes, markup, line breaks": {[]string{"<\"\\\u2028\n>"}, `\<"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parseStats(t, statsOf(t, schema.String, func(b *array.StringBuilder) { b.AppendValues(c.values, nil) }))
			if name == "quotes, markup, line breaks" {
				require.Equal(t, c.values[0], got.MinValues["v"])
				require.Equal(t, c.values[0], got.MaxValues["v"])
				return
			}
			require.Equal(t, c.lo, got.MinValues["v"])
			if c.hi == "" {
				require.NotContains(t, got.MaxValues, "v")
			} else {
				require.Equal(t, c.hi, got.MaxValues["v"])
			}
		})
	}
	require.Equal(t, minMax(1, "", "", 0), statsOf(t, schema.String, func(b *array.StringBuilder) { b.Append("\xff\xfe") }),
		"text that is no UTF-8 has no JSON form")
}

func TestStatisticsOfTimes(t *testing.T) {
	t.Parallel()
	times := func(typ schema.Type, micros ...int64) string {
		return statsOf(t, typ, func(b *array.TimestampBuilder) {
			for _, v := range micros {
				b.Append(arrow.Timestamp(v))
			}
		})
	}
	// Minimum down, maximum up to the millisecond.
	require.Equal(t, minMax(1, `"2023-11-14T22:13:20.298Z"`, `"2023-11-14T22:13:20.299Z"`, 0), times(schema.Timestamp, 1700000000298677))
	require.Equal(t, minMax(1, `"2023-11-14T22:13:20.298"`, `"2023-11-14T22:13:20.299"`, 0), times(schema.TimestampNTZ, 1700000000298677))
	require.Equal(t, minMax(1, `"2023-11-14T22:13:20.298Z"`, `"2023-11-14T22:13:20.298Z"`, 0), times(schema.Timestamp, 1700000000298000))
	require.Equal(t, minMax(1, `"1969-12-31T23:59:59.999Z"`, `"1970-01-01T00:00:00.000Z"`, 0), times(schema.Timestamp, -1))
	require.Equal(t, minMax(2, `"0001-01-01T00:00:00.000Z"`, `"9999-12-31T23:59:59.999Z"`, 0),
		times(schema.Timestamp, -62135596800000000, 253402300799999000))
	// What four digits of a year cannot hold is left out.
	require.Equal(t, minMax(1, `"9999-12-31T23:59:59.999"`, `"9999-12-31T23:59:59.999999"`, 0), times(schema.TimestampNTZ, 253402300799999999))
	require.Equal(t, minMax(1, `"9999-12-31T23:59:59.999Z"`, `"9999-12-31T23:59:59.999001Z"`, 0), times(schema.Timestamp, 253402300799999001))
	require.Equal(t, minMax(2, "", `"1970-01-01T00:00:00.000"`, 0), times(schema.TimestampNTZ, -62135596800000001, 0))
	require.Equal(t, minMax(2, "", "", 0), times(schema.Timestamp, math.MinInt64, math.MaxInt64))

	days := func(values ...arrow.Date32) string {
		return statsOf(t, schema.Date, func(b *array.Date32Builder) { b.AppendValues(values, nil) })
	}
	require.Equal(t, minMax(2, `"0001-01-01"`, `"9999-12-31"`, 0), days(-719162, 2932896))
	require.Equal(t, minMax(2, "", "", 0), days(-719163, 2932897))
}

func TestStatisticsOfDecimals(t *testing.T) {
	t.Parallel()
	decimals := func(d schema.Decimal, values ...string) string {
		return statsOf(t, d, func(b *array.Decimal128Builder) {
			for _, v := range values {
				n, err := decimal128.FromString(v, 38, int32(d.Scale))
				require.NoError(t, err)
				b.Append(n)
			}
		})
	}
	nines := strings.Repeat("9", 38)
	for _, c := range []struct {
		d      schema.Decimal
		lo, hi string
	}{
		{schema.Decimal{Precision: 9, Scale: 2}, "-9999999.99", "9999999.99"},
		{schema.Decimal{Precision: 18, Scale: 0}, "-999999999999999999", "999999999999999999"},
		{schema.Decimal{Precision: 19, Scale: 4}, "-922337203685477.5808", "922337203685477.5807"}, // money
		{schema.Decimal{Precision: 38, Scale: 10}, "-1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"},
	} {
		require.Equal(t, minMax(2, c.lo, c.hi, 0), decimals(c.d, c.hi, c.lo))
	}
	require.Equal(t, minMax(2, "-0."+nines, "0."+nines, 0), statsOf(t, schema.Decimal{Precision: 38, Scale: 38}, func(b *array.Decimal128Builder) {
		b.Append(decimal128.GetMaxValue(38))
		b.Append(decimal128.GetMaxValue(38).Negate())
	}))
	require.Equal(t, minMax(2, "-"+nines, nines, 0), statsOf(t, schema.Decimal{Precision: 38}, func(b *array.Decimal128Builder) {
		b.Append(decimal128.GetMaxValue(38))
		b.Append(decimal128.GetMaxValue(38).Negate())
	}))
	require.Equal(t, minMax(1, "0.00", "0.00", 0), decimals(schema.Decimal{Precision: 5, Scale: 2}, "0"))
}

func TestStatisticsOfFloats(t *testing.T) {
	t.Parallel()
	doubles := func(values ...float64) string {
		return statsOf(t, schema.Double, func(b *array.Float64Builder) { b.AppendValues(values, nil) })
	}
	nan, inf := math.NaN(), math.Inf(1)
	require.Equal(t, minMax(2, "-5.0", "1.5", 0), doubles(1.5, -5))
	require.Equal(t, minMax(3, "-5.0", "", 0), doubles(1, nan, -5), "NaN is above every number")
	require.Equal(t, minMax(1, "", "", 0), doubles(nan))
	require.Equal(t, minMax(2, "1.0", "", 0), doubles(1, inf))
	require.Equal(t, minMax(2, "", "1.0", 0), doubles(1, -inf))
	require.Equal(t, minMax(2, "-0.0", "0.0", 0), doubles(0, 0))
	require.Equal(t, minMax(2, "5e-324", "1.7976931348623157e+308", 0), doubles(math.MaxFloat64, math.SmallestNonzeroFloat64))
	require.Equal(t, minMax(1, "0.10000000149011612", "0.10000000149011612", 0),
		statsOf(t, schema.Float, func(b *array.Float32Builder) { b.Append(0.1) }), "a float is written as the double it is")
}

func TestStatisticsOfTheRest(t *testing.T) {
	t.Parallel()
	require.Equal(t, minMax(3, "-9223372036854775808", "9223372036854775807", 1), statsOf(t, schema.Long, func(b *array.Int64Builder) {
		b.AppendValues([]int64{math.MaxInt64, 0, math.MinInt64}, []bool{true, false, true})
	}))
	require.Equal(t, minMax(2, "-128", "127", 0), statsOf(t, schema.Byte, func(b *array.Int8Builder) { b.AppendValues([]int8{127, -128}, nil) }))
	require.Equal(t, minMax(2, "-32768", "255", 0), statsOf(t, schema.Short, func(b *array.Int16Builder) { b.AppendValues([]int16{255, -32768}, nil) }))
	require.Equal(t, minMax(2, "", "", 2), statsOf(t, schema.Long, func(b *array.Int64Builder) { b.AppendNulls(2) }))
	require.Equal(t, minMax(2, "", "", 1), statsOf(t, schema.Boolean, func(b *array.BooleanBuilder) { b.AppendNull(); b.Append(true) }))
	require.Equal(t, minMax(2, "", "", 1), statsOf(t, schema.Binary, func(b *array.BinaryBuilder) { b.AppendNull(); b.Append([]byte("x")) }))
}

func TestStatisticsOfNestedColumns(t *testing.T) {
	t.Parallel()
	alloc := checked(t)
	long := func(name string) schema.Field { return schema.Field{Name: name, Type: schema.Long, Nullable: true} }
	inner := &schema.Struct{Fields: []schema.Field{long("x"), {Name: "deep", Type: &schema.Struct{Fields: []schema.Field{long("y")}}, Nullable: true}}}
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "s", Type: inner, Nullable: true},
		{Name: "l", Type: &schema.Array{Element: schema.Long, ContainsNull: true}, Nullable: true},
		{Name: "m", Type: &schema.Map{Key: schema.String, Value: schema.Long, ValueContainsNull: true}, Nullable: true},
		{Name: "sl", Type: &schema.Struct{Fields: []schema.Field{{Name: "l", Type: &schema.Array{Element: schema.Long}, Nullable: true}}}, Nullable: true},
	}}
	rec := batch(t, alloc, table, `[
		{"s":{"x":1,"deep":{"y":5}},"l":[1,null],"m":[{"key":"a","value":null}],"sl":{"l":[]}},
		{"s":{"x":null,"deep":null},"l":[],"m":[],"sl":{"l":null}},
		{"s":null,"l":null,"m":null,"sl":null}]`)
	defer rec.Release()
	files := write(t, mem.New(), table, data.WriterOptions{Allocator: alloc}, rec)
	require.JSONEq(t, `{"numRecords":3,
		"minValues":{"s":{"x":1,"deep":{"y":5}}},
		"maxValues":{"s":{"x":1,"deep":{"y":5}}},
		"nullCount":{"s":{"x":2,"deep":{"y":2}},"l":1,"m":1,"sl":{"l":2}}}`, files[0].Stats)
}

func TestStatisticsOverManyRowGroupsAndDictionaries(t *testing.T) {
	t.Parallel()
	alloc := checked(t)
	table, rec := oneColumn(alloc, schema.String, func(b *array.StringBuilder) {
		for i := range 10_000 {
			b.Append(fmt.Sprintf("value-%04d", (i*7919)%10_000))
		}
	})
	defer rec.Release()
	for _, sample := range []int{1, 100, 100_000} {
		o := data.WithLimits(data.WriterOptions{RowGroupRows: 700, Allocator: alloc}, 100, 2000, 3000, sample)
		files := write(t, mem.New(), table, o, rec)
		require.Equal(t, minMax(10_000, `"value-0000"`, `"value-9999"`, 0), files[0].Stats)
	}
}

func TestColumnNamesInStatisticsAreAsTheyAre(t *testing.T) {
	t.Parallel()
	table := &schema.Struct{Fields: []schema.Field{{Name: "a b.c`d\"e<ü", Type: schema.Long, Nullable: true}}}
	rec := batch(t, memory.DefaultAllocator, table, `[{"a b.c`+"`"+`d\"e<ü": 1}]`)
	files := write(t, mem.New(), table, data.WriterOptions{}, rec)
	require.Equal(t, `{"numRecords":1,"minValues":{"a b.c`+"`"+`d\"e<ü":1},"maxValues":{"a b.c`+"`"+`d\"e<ü":1},"nullCount":{"a b.c`+"`"+`d\"e<ü":0}}`, files[0].Stats)
}

func TestStatsColumns(t *testing.T) {
	t.Parallel()
	table := &schema.Struct{Fields: []schema.Field{{Name: "p", Type: schema.Long, Nullable: true}}}
	for i := range 40 {
		f := schema.Field{Name: fmt.Sprintf("c%d", i), Type: schema.Long, Nullable: true}
		if i == 1 {
			f.Type = &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Long, Nullable: true}, {Name: "y.z", Type: schema.Long, Nullable: true}}}
		}
		table.Fields = append(table.Fields, f)
	}
	rec := batch(t, memory.DefaultAllocator, table, `[{"p":1,"c0":1,"c30":2}]`)
	last := func(properties map[string]string) string {
		stats, err := data.StatsColumnsOf(properties)
		require.NoError(t, err)
		files := write(t, mem.New(), table, data.WriterOptions{PartitionBy: []string{"P"}, Stats: stats}, rec)
		return files[0].Stats
	}
	counts := func(text string) (n int) {
		for _, v := range parseStats(t, text).NullCount {
			n++
			if parts, ok := v.(map[string]any); ok {
				n += len(parts) - 1
			}
		}
		return n
	}
	byDefault := last(nil)
	require.Equal(t, 32, counts(byDefault))
	require.Contains(t, byDefault, `"c30"`)
	require.NotContains(t, byDefault, `"c31"`)
	require.NotContains(t, byDefault, `"p"`, "partition columns have no statistics and do not count")
	require.Equal(t, 41, counts(last(map[string]string{data.PropertyNumIndexedCols: "-1"})))
	require.Equal(t, 2, counts(last(map[string]string{data.PropertyNumIndexedCols: "2"})), "c0 and the first part of c1")
	require.Equal(t, `{"numRecords":1}`, last(map[string]string{data.PropertyNumIndexedCols: "0"}))
	require.JSONEq(t, `{"numRecords":1,"nullCount":{"c1":{"y.z":1},"c39":1}}`,
		last(map[string]string{data.PropertyStatsColumns: "C39, c1.`y.z`", data.PropertyNumIndexedCols: "1"}))
	require.JSONEq(t, `{"numRecords":1,"nullCount":{"c1":{"x":1,"y.z":1}}}`, last(map[string]string{data.PropertyStatsColumns: "`c1`"}))
	require.Equal(t, `{"numRecords":1}`, last(map[string]string{data.PropertyStatsColumns: ""}))
}

func TestStatsColumnsOfRefuses(t *testing.T) {
	t.Parallel()
	for _, properties := range []map[string]string{
		{data.PropertyNumIndexedCols: "many"},
		{data.PropertyNumIndexedCols: "-2"},
		{data.PropertyStatsColumns: "a,"},
		{data.PropertyStatsColumns: "a,,b"},
		{data.PropertyStatsColumns: "a."},
		{data.PropertyStatsColumns: "`a"},
		{data.PropertyStatsColumns: "`a`b"},
	} {
		_, err := data.StatsColumnsOf(properties)
		require.Error(t, err, properties)
	}
}

func FuzzStatsColumns(f *testing.F) {
	f.Add("a, b.c,`d e`.`f``g`")
	f.Add("``")
	f.Add(" ,")
	f.Fuzz(func(t *testing.T, list string) {
		c, err := data.StatsColumnsOf(map[string]string{data.PropertyStatsColumns: list})
		if err != nil {
			return
		}
		var again []string
		for _, path := range c.Only {
			var parts []string
			for _, name := range path {
				parts = append(parts, "`"+strings.ReplaceAll(name, "`", "``")+"`")
			}
			again = append(again, strings.Join(parts, "."))
		}
		d, err := data.StatsColumnsOf(map[string]string{data.PropertyStatsColumns: strings.Join(again, ", ")})
		require.NoError(t, err)
		require.Equal(t, c, d)
	})
}
