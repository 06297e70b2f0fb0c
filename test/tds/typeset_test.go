package tds_test

import (
	"math"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// typeCase is a column and values of it, with what go-mssqldb makes of each.
type typeCase struct {
	name   string
	typ    tds.TypeInfo
	values []tds.Value
	want   []any
	user   uint32
}

// utc is short for a wall clock.
func utc(year int, month time.Month, day, hour, minute, second, nanos int) time.Time {
	return time.Date(year, month, day, hour, minute, second, nanos, time.UTC)
}

// typeCases are all encodings with their extremes. Every case has the same number of values.
func typeCases() []typeCase {
	cp1252, utf8, bin2 := tds.CollationDefault(), tds.CollationUTF8(), tds.CollationLatin1BIN2()
	long := strings.Repeat("long text of 18 B.", 500)
	wide := "Ünïcödé 日本 \U0001F600"
	cases := slicesOf(
		numberCases(),
		timeCases(),
		[]typeCase{
			{name: "char", typ: tds.TypeChar(10, cp1252), values: []tds.Value{"a€bcdefghi", "0123456789", "          "}, want: []any{"a€bcdefghi", "0123456789", "          "}},
			{name: "varchar", typ: tds.TypeVarChar(8000, cp1252), values: []tds.Value{"", "naïve", strings.Repeat("x", 8000)}, want: []any{"", "naïve", strings.Repeat("x", 8000)}},
			{name: "varchar bin2", typ: tds.TypeVarChar(20, bin2), values: []tds.Value{"A", "ß", "œ"}, want: []any{"A", "ß", "œ"}},
			{name: "varchar 932", typ: tds.TypeVarChar(20, tds.CollationJapanese()), values: []tds.Value{"ascii", "日本語", "ｱｲｳ表"}, want: []any{"ascii", "日本語", "ｱｲｳ表"}},
			{name: "varchar 936", typ: tds.TypeVarChar(20, tds.CollationChinese()), values: []tds.Value{"ascii", "中文", "简体字"}, want: []any{"ascii", "中文", "简体字"}},
			{name: "nchar", typ: tds.TypeNChar(4, cp1252), values: []tds.Value{"日本  ", "\U0001F600  ", "abcd"}, want: []any{"日本  ", "\U0001F600  ", "abcd"}},
			{name: "nvarchar", typ: tds.TypeNVarChar(4000, cp1252), values: []tds.Value{"", wide, strings.Repeat("z", 4000)}, want: []any{"", wide, strings.Repeat("z", 4000)}},
			{name: "varchar(max)", typ: tds.TypeVarChar(tds.Max, cp1252), values: []tds.Value{"", long, "x"}, want: []any{"", long, "x"}},
			{name: "nvarchar(max)", typ: tds.TypeNVarChar(tds.Max, cp1252), values: []tds.Value{"", wide + long, "x"}, want: []any{"", wide + long, "x"}},
			{name: "varbinary(max)", typ: tds.TypeVarBinary(tds.Max), values: []tds.Value{[]byte{}, []byte(long), []byte{0}}, want: []any{[]byte{}, []byte(long), []byte{0}}},
			{name: "binary", typ: tds.TypeBinary(10), values: []tds.Value{make([]byte, 10), []byte("\xff\xfe23456789"), []byte("0123456789")}, want: []any{make([]byte, 10), []byte("\xff\xfe23456789"), []byte("0123456789")}},
			{name: "varbinary", typ: tds.TypeVarBinary(8000), values: []tds.Value{[]byte{}, []byte{1, 2, 0}, []byte(long[:8000])}, want: []any{[]byte{}, []byte{1, 2, 0}, []byte(long[:8000])}},
			{name: "rowversion", typ: tds.TypeRowVersion(), user: tds.UserTypeRowVersion, values: []tds.Value{[]byte{0, 0, 0, 0, 0, 0, 7, 208}, make([]byte, 8), []byte("\xff\xff\xff\xff\xff\xff\xff\xff")}, want: []any{[]byte{0, 0, 0, 0, 0, 0, 7, 208}, make([]byte, 8), []byte("\xff\xff\xff\xff\xff\xff\xff\xff")}},
			{name: "xml", typ: tds.TypeXML(), values: []tds.Value{"<a>1</a>", "", "<b>" + wide + "</b>"}, want: []any{"<a>1</a>", "", "<b>" + wide + "</b>"}},
			{name: "xml schema", typ: tds.TypeInfo{ID: tds.IDXML, Schema: &tds.XMLSchema{Database: "d", Owner: "dbo", Collection: "c"}}, values: []tds.Value{"<a/>", "<b/>", "<c/>"}, want: []any{"<a/>", "<b/>", "<c/>"}},
			{name: "text", typ: tds.TypeText(cp1252, "dbo", "t"), values: []tds.Value{"", "tëxt", long}, want: []any{"", "tëxt", long}},
			{name: "text of no known table", typ: tds.TypeText(cp1252), values: []tds.Value{"", "tëxt", long}, want: []any{"", "tëxt", long}},
			{name: "ntext", typ: tds.TypeNText(cp1252, "t"), values: []tds.Value{"", wide, long}, want: []any{"", wide, long}},
			{name: "image", typ: tds.TypeImage("s", "d", "o", "t"), values: []tds.Value{[]byte{}, []byte{1, 2}, []byte(long)}, want: []any{[]byte{}, []byte{1, 2}, []byte(long)}},
			{name: "udt", typ: tds.TypeUDT("d", "sys", "hierarchyid", "Microsoft.SqlServer.Types.SqlHierarchyId, Microsoft.SqlServer.Types"), values: []tds.Value{[]byte{}, []byte{0x58}, []byte{0x5A, 0xC0}}, want: []any{[]byte{}, []byte{0x58}, []byte{0x5A, 0xC0}}},
			{name: "uniqueidentifier", typ: tds.TypeUUID(), values: []tds.Value{must(tds.ParseUUID("0E984725-C51C-4BF4-9960-E1C80E27ABA0")), tds.UUID{}, must(tds.ParseUUID("{ffffffff-ffff-ffff-ffff-ffffffffffff}"))},
				want: []any{[]byte("\x25\x47\x98\x0e\x1c\xc5\xf4\x4b\x99\x60\xe1\xc8\x0e\x27\xab\xa0"), make([]byte, 16), []byte(strings.Repeat("\xff", 16))}},
		},
		variantCases(),
	)
	// go-mssqldb 1.11.2 reads UTF-8 collations by their locale's code page: outside ASCII only the bytes can be compared.
	return append(cases, typeCase{name: "varchar utf8", typ: tds.TypeVarChar(40, utf8), values: []tds.Value{"ascii", "", "x"}, want: []any{"ascii", "", "x"}})
}

// slicesOf joins.
func slicesOf(parts ...[]typeCase) []typeCase {
	var all []typeCase
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// numberCases are bit, integers, floats, decimals and money, in the nullable and in the fixed form.
func numberCases() []typeCase {
	maxDecimal := must(tds.ParseDecimal("9999999999999999999999999999.9999999999"))
	minDecimal := must(tds.ParseDecimal("-9999999999999999999999999999.9999999999"))
	ints := func(values ...int64) ([]tds.Value, []any) {
		v, w := make([]tds.Value, len(values)), make([]any, len(values))
		for i, n := range values {
			v[i], w[i] = n, n
		}
		return v, w
	}
	var cases []typeCase
	add := func(name string, typ tds.TypeInfo, values []tds.Value, want []any) {
		cases = append(cases, typeCase{name: name, typ: typ, values: values, want: want})
	}
	bits, bitsWant := []tds.Value{true, false, true}, []any{true, false, true}
	add("bit", tds.TypeBit(), bits, bitsWant)
	add("bit not null", tds.TypeFixed(tds.IDBit), bits, bitsWant)
	for _, c := range []struct {
		name  string
		size  int
		fixed tds.TypeID
		low   int64
		high  int64
	}{
		{"tinyint", 1, tds.IDInt1, 0, 255},
		{"smallint", 2, tds.IDInt2, math.MinInt16, math.MaxInt16},
		{"int", 4, tds.IDInt4, math.MinInt32, math.MaxInt32},
		{"bigint", 8, tds.IDInt8, math.MinInt64, math.MaxInt64},
	} {
		v, w := ints(c.low, c.high, 42)
		add(c.name, tds.TypeInt(c.size), v, w)
		add(c.name+" not null", tds.TypeFixed(c.fixed), v, w)
	}
	reals := []tds.Value{float32(math.MaxFloat32), float32(-0.5), float32(math.SmallestNonzeroFloat32)}
	realsWant := []any{float64(float32(math.MaxFloat32)), -0.5, float64(float32(math.SmallestNonzeroFloat32))}
	floats := []tds.Value{math.MaxFloat64, -1e-300, 3.14}
	floatsWant := []any{math.MaxFloat64, -1e-300, 3.14}
	add("real", tds.TypeFloat(4), reals, realsWant)
	add("real not null", tds.TypeFixed(tds.IDFloat4), reals, realsWant)
	add("float", tds.TypeFloat(8), floats, floatsWant)
	add("float not null", tds.TypeFixed(tds.IDFloat8), floats, floatsWant)
	add("decimal(38,10)", tds.TypeDecimal(38, 10), []tds.Value{maxDecimal, minDecimal, tds.NewDecimal(0, 10)},
		[]any{[]byte("9999999999999999999999999999.9999999999"), []byte("-9999999999999999999999999999.9999999999"), []byte("0.0000000000")})
	add("numeric(9,2)", tds.TypeNumeric(9, 2), []tds.Value{tds.NewDecimal(999999999, 2), tds.NewDecimal(-1, 2), tds.NewDecimal(5, 0)},
		[]any{[]byte("9999999.99"), []byte("-0.01"), []byte("5.00")})
	add("decimal(19,4)", tds.TypeDecimal(19, 4), []tds.Value{must(tds.ParseDecimal("999999999999999.9999")), tds.NewDecimal(-7, 4), tds.NewDecimal(1, 4)},
		[]any{[]byte("999999999999999.9999"), []byte("-0.0007"), []byte("0.0001")})
	add("decimal(28,0)", tds.TypeDecimal(28, 0), []tds.Value{must(tds.ParseDecimal("9999999999999999999999999999")), tds.NewDecimal(-1, 0), tds.NewDecimal(0, 0)},
		[]any{[]byte("9999999999999999999999999999"), []byte("-1"), []byte("0")})
	fixed := tds.TypeDecimal(18, 2)
	fixed.Size = 9
	add("decimal(18,2) in 9", fixed, []tds.Value{tds.NewDecimal(43, 2), tds.NewDecimal(-5_000_000_000, 2), tds.NewDecimal(0, 2)},
		[]any{[]byte("0.43"), []byte("-50000000.00"), []byte("0.00")})
	money := []tds.Value{tds.Money(math.MaxInt64), tds.Money(math.MinInt64), tds.Money(-5000)}
	moneyWant := []any{[]byte("922337203685477.5807"), []byte("-922337203685477.5808"), []byte("-0.5000")}
	small := []tds.Value{tds.Money(math.MaxInt32), tds.Money(math.MinInt32), tds.NewDecimal(1, 1)}
	smallWant := []any{[]byte("214748.3647"), []byte("-214748.3648"), []byte("0.1000")}
	add("money", tds.TypeMoney(8), money, moneyWant)
	add("money not null", tds.TypeFixed(tds.IDMoney), money, moneyWant)
	add("smallmoney", tds.TypeMoney(4), small, smallWant)
	add("smallmoney not null", tds.TypeFixed(tds.IDMoney4), small, smallWant)
	return cases
}

// timeCases are the date and time types at all scales.
func timeCases() []typeCase {
	first, last := tds.NewDate(1, 1, 1), tds.NewDate(9999, 12, 31)
	end := tds.NewTime(23, 59, 59, 999_999_900)
	noon := tds.NewTime(12, 34, 56, 123_456_700)
	cases := []typeCase{
		{name: "date", typ: tds.TypeDate(), values: []tds.Value{first, last, tds.NewDate(2024, 2, 29)}, want: []any{utc(1, 1, 1, 0, 0, 0, 0), utc(9999, 12, 31, 0, 0, 0, 0), utc(2024, 2, 29, 0, 0, 0, 0)}},
		{name: "datetime", typ: tds.TypeDateTime(8), values: []tds.Value{tds.DateTime{Days: -53690}, tds.DateTime{Days: 2958463, Ticks: tds.TicksPerDayDateTime - 1}, utc(2024, 5, 6, 7, 8, 9, 7_000_000)},
			want: []any{utc(1753, 1, 1, 0, 0, 0, 0), utc(9999, 12, 31, 23, 59, 59, 997_000_000), utc(2024, 5, 6, 7, 8, 9, 7_000_000)}},
		{name: "smalldatetime", typ: tds.TypeDateTime(4), values: []tds.Value{tds.SmallDateTime{}, tds.SmallDateTime{65535, 1439}, utc(2024, 5, 6, 7, 8, 29, 999_000_000)},
			want: []any{utc(1900, 1, 1, 0, 0, 0, 0), utc(2079, 6, 6, 23, 59, 0, 0), utc(2024, 5, 6, 7, 9, 0, 0)}},
	}
	fixed := cases[1]
	fixed.name, fixed.typ = "datetime not null", tds.TypeFixed(tds.IDDateTime)
	cases = append(cases, fixed)
	fixed = cases[2]
	fixed.name, fixed.typ = "smalldatetime not null", tds.TypeFixed(tds.IDDateTime4)
	cases = append(cases, fixed)
	for scale := range uint8(8) {
		unit := int(math.Pow10(9 - int(scale))) // nanoseconds
		cut := func(nanos int) int { return nanos / unit * unit }
		suffix := "(" + string('0'+scale) + ")"
		wantTime := func(n int) []any {
			return []any{utc(1, 1, 1, 0, 0, 0, 0), utc(1, 1, 1, 23, 59, 59, cut(999_999_900)), utc(1, 1, 1, 12, 34, 56, cut(n))}
		}
		east, west := time.FixedZone("", 14*3600), time.FixedZone("", -(5*3600+30*60))
		cases = append(cases,
			typeCase{name: "time" + suffix, typ: tds.TypeTime(scale), values: []tds.Value{tds.Time(0), end, noon}, want: wantTime(123_456_700)},
			typeCase{name: "datetime2" + suffix, typ: tds.TypeDateTime2(scale),
				values: []tds.Value{tds.DateTime2{Date: first}, tds.DateTime2{Date: last, Time: end}, tds.DateTime2{Date: tds.NewDate(2024, 2, 29), Time: noon}},
				want:   []any{utc(1, 1, 1, 0, 0, 0, 0), utc(9999, 12, 31, 23, 59, 59, cut(999_999_900)), utc(2024, 2, 29, 12, 34, 56, cut(123_456_700))}},
			typeCase{name: "datetimeoffset" + suffix, typ: tds.TypeDateTimeOffset(scale),
				values: []tds.Value{
					tds.DateTimeOffset{Date: first, Time: noon, Offset: 840},
					tds.DateTimeOffset{Date: last, Time: end},
					time.Date(2024, 2, 29, 1, 2, 3, 123_456_700, west),
				},
				want: []any{utc(1, 1, 1, 12, 34, 56, cut(123_456_700)).In(east), utc(9999, 12, 31, 23, 59, 59, cut(999_999_900)), time.Date(2024, 2, 29, 1, 2, 3, cut(123_456_700), west)}},
		)
	}
	return cases
}

// variantCases are sql_variants of all base types, three at a time.
func variantCases() []typeCase {
	v := func(t tds.TypeInfo, value tds.Value) tds.Variant { return tds.Variant{Type: t, Value: value} }
	c := tds.CollationDefault()
	all := []struct {
		value tds.Variant
		want  any
	}{
		{v(tds.TypeInt(4), 42), int64(42)},
		{v(tds.TypeInt(1), 255), int64(255)},
		{v(tds.TypeInt(8), math.MinInt64), int64(math.MinInt64)},
		{v(tds.TypeBit(), true), true},
		{v(tds.TypeFloat(8), 2.5), 2.5},
		{v(tds.TypeFloat(4), float32(0.5)), 0.5},
		{v(tds.TypeDecimal(10, 3), tds.NewDecimal(-12345, 3)), []byte("-12.345")},
		{v(tds.TypeMoney(8), tds.Money(12345)), []byte("1.2345")},
		{v(tds.TypeDateTime2(7), tds.DateTime2{Date: tds.NewDate(2020, 1, 2), Time: 1}), utc(2020, 1, 2, 0, 0, 0, 100)},
		{v(tds.TypeDate(), tds.NewDate(2020, 1, 2)), utc(2020, 1, 2, 0, 0, 0, 0)},
		{v(tds.TypeDateTime(8), tds.DateTime{Days: 1}), utc(1900, 1, 2, 0, 0, 0, 0)},
		{v(tds.TypeNVarChar(10, c), "日本"), "日本"},
		{v(tds.TypeVarChar(10, c), "é"), "é"},
		{v(tds.TypeVarBinary(10), []byte{1, 2}), []byte{1, 2}},
		{v(tds.TypeUUID(), tds.UUID{15: 1}), []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01")},
	}
	var cases []typeCase
	for i := 0; i < len(all); i += 3 {
		part := all[i : i+3]
		cases = append(cases, typeCase{name: "sql_variant " + part[0].value.Type.String(), typ: tds.TypeVariant(),
			values: []tds.Value{part[0].value, part[1].value, part[2].value}, want: []any{part[0].want, part[1].want, part[2].want}})
	}
	return cases
}
