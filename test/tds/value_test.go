package tds_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// drawValue draws a value of a type.
func drawValue(t *rapid.T, typ *tds.TypeInfo) tds.Value {
	day := rapid.Int32Range(0, 3652058)
	unit := int64(math.Pow10(7 - int(typ.Scale)))
	clock := func() tds.Time {
		return tds.Time(rapid.Int64Range(0, tds.TicksPerDay/unit-1).Draw(t, "clock") * unit)
	}
	switch typ.ID {
	case tds.IDBit, tds.IDBitN:
		return rapid.Bool().Draw(t, "bit")
	case tds.IDIntN, tds.IDInt1, tds.IDInt2, tds.IDInt4, tds.IDInt8:
		if typ.Size == 1 {
			return int64(rapid.Uint8().Draw(t, "int"))
		}
		return rapid.Int64().Draw(t, "int") >> (64 - 8*typ.Size)
	case tds.IDFloatN, tds.IDFloat4, tds.IDFloat8:
		if typ.Size == 4 {
			return rapid.Float32().Draw(t, "real")
		}
		return rapid.Float64().Draw(t, "float")
	case tds.IDDecimalN, tds.IDNumericN:
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(typ.Precision)), nil)
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 17, 17).Draw(t, "digits"))
		n.Mod(n, limit)
		if n.Sign() != 0 && rapid.Bool().Draw(t, "sign") {
			n.Neg(n)
		}
		return must(tds.DecimalFromBig(n, typ.Scale))
	case tds.IDMoneyN, tds.IDMoney, tds.IDMoney4:
		return tds.Money(rapid.Int64().Draw(t, "money") >> (64 - 8*typ.Size))
	case tds.IDDateN:
		return tds.Date(day.Draw(t, "day"))
	case tds.IDTimeN:
		return clock()
	case tds.IDDateTime2N:
		return tds.DateTime2{Date: tds.Date(day.Draw(t, "day")), Time: clock()}
	case tds.IDDateTimeOffsetN:
		return tds.DateTimeOffset{Date: tds.Date(day.Draw(t, "day")), Time: clock(), Offset: rapid.Int16Range(-840, 840).Draw(t, "offset")}
	case tds.IDDateTimeN, tds.IDDateTime, tds.IDDateTime4:
		if typ.Size == 4 {
			return tds.SmallDateTime{Days: rapid.Uint16().Draw(t, "day"), Minutes: rapid.Uint16Range(0, 1439).Draw(t, "minutes")}
		}
		return tds.DateTime{Days: rapid.Int32Range(-53690, 2958463).Draw(t, "day"), Ticks: rapid.Uint32Range(0, tds.TicksPerDayDateTime-1).Draw(t, "ticks")}
	case tds.IDGUID:
		return tds.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
	case tds.IDVariant:
		base := rapid.SampledFrom([]tds.TypeInfo{
			tds.TypeFixed(tds.IDInt1), tds.TypeFixed(tds.IDInt8), tds.TypeFixed(tds.IDMoney), tds.TypeDateTime2(3),
			tds.TypeNVarChar(50, tds.CollationDefault()), tds.TypeUUID(), tds.TypeDate(),
		}).Draw(t, "base")
		return tds.Variant{Type: base, Value: drawValue(t, &base)}
	}
	if typ.IsUnicode() {
		return drawWide(t, min(typ.Size/2, 50))
	}
	b := rapid.SliceOfN(rapid.Byte(), 0, min(typ.Size, 50)).Draw(t, "bytes")
	if b == nil {
		b = []byte{}
	}
	if typ.ID == tds.IDVarChar || typ.ID == tds.IDChar {
		return strings.Map(func(r rune) rune { return 'a' + r%26 }, string(b))
	}
	return b
}

// drawWide draws UTF-16, surrogates without partner included, in the form strings have here.
func drawWide(t *rapid.T, most int) string {
	units := rapid.SliceOfN(rapid.OneOf(rapid.Uint16(), rapid.Uint16Range(0xD7F0, 0xE010), rapid.Uint16Range(32, 126)), 0, most).Draw(t, "units")
	var b strings.Builder
	for i := 0; i < len(units); i++ {
		u := rune(units[i])
		switch {
		case !utf16.IsSurrogate(u):
			b.WriteRune(u)
		case i+1 < len(units) && utf16.DecodeRune(u, rune(units[i+1])) != '\uFFFD':
			b.WriteRune(utf16.DecodeRune(u, rune(units[i+1])))
			i++
		default:
			b.Write([]byte{0xE0 | byte(u>>12), 0x80 | byte(u>>6)&0x3F, 0x80 | byte(u)&0x3F})
		}
	}
	return b.String()
}

// TestValuesRoundTrip encodes and decodes values of all types whose parameter form is their column form.
func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range typeCases() {
		if c.typ.ID == tds.IDText || c.typ.ID == tds.IDNText || c.typ.ID == tds.IDImage {
			continue // columns carry a text pointer, parameters do not
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				want := drawValue(t, &c.typ)
				b, err := tds.AppendValue([]byte("before"), &c.typ, want)
				require.NoError(t, err)
				got, n, err := tds.DecodeValue(b[6:], &c.typ)
				require.NoError(t, err)
				require.Equal(t, len(b)-6, n)
				require.Equal(t, want, got)
			})
			if !c.typ.IsFixed() {
				b, err := tds.AppendValue(nil, &c.typ, nil)
				require.NoError(t, err)
				got, n, err := tds.DecodeValue(b, &c.typ)
				require.NoError(t, err)
				require.Equal(t, len(b), n)
				require.Nil(t, got)
			}
		})
	}
}

// TestValuesAreChecked lists values that do not belong.
func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	c := tds.CollationDefault()
	for _, tc := range []struct {
		typ   tds.TypeInfo
		value tds.Value
		err   string
	}{
		{tds.TypeInt(1), 256, "encoding int as tinyint: out of range"},
		{tds.TypeInt(1), -1, "out of range"},
		{tds.TypeInt(2), int64(40000), "encoding int64 as smallint: out of range"},
		{tds.TypeInt(4), int64(math.MinInt32 - 1), "out of range"},
		{tds.TypeInt(4), "1", "a value of another type"},
		{tds.TypeInt(4), true, "a value of another type"},
		{tds.TypeFixed(tds.IDInt4), nil, "NULL in a type that cannot hold it"},
		{tds.TypeDecimal(4, 2), tds.NewDecimal(10000, 2), "out of range"},
		{tds.TypeDecimal(4, 2), tds.NewDecimal(1234, 3), "digits would be lost"},
		{tds.TypeDecimal(38, 30), must(tds.ParseDecimal("1234567890")), "more than 38 digits"},
		{sizedDecimal(18, 5), tds.NewDecimal(1<<32, 0), "out of range"},
		{sizedDecimal(38, 9), must(tds.ParseDecimal("18446744073709551616")), "out of range"},
		{sizedDecimal(38, 13), must(tds.ParseDecimal("79228162514264337593543950336")), "out of range"},
		{sizedDecimal(38, 12), tds.NewDecimal(1, 0), "out of range"},
		{tds.TypeMoney(4), tds.Money(math.MaxInt32 + 1), "out of range"},
		{tds.TypeMoney(8), must(tds.ParseDecimal("922337203685477.5808")), "out of range"},
		{tds.TypeVarChar(3, c), "four", "encoding string as varchar(3): longer than declared"},
		{tds.TypeNVarChar(1, c), "\U0001F600", "encoding string as nvarchar(1): longer than declared"},
		{tds.TypeVarBinary(1), []byte{1, 2}, "longer than declared"},
		{tds.TypeVarBinary(1), "x", "another type"},
		{tds.TypeDate(), tds.Date(-1), "out of range"},
		{tds.TypeTime(7), tds.Time(tds.TicksPerDay), "out of range"},
		{tds.TypeDateTime2(7), tds.DateTime{}, "another type"},
		{tds.TypeDateTime(8), tds.SmallDateTime{}, "another type"},
		{tds.TypeUUID(), "x", "another type"},
		{tds.TypeVariant(), 1, "another type"},
		{tds.TypeVariant(), tds.Variant{Type: tds.TypeInt(1), Value: 300}, "out of range"},
		{tds.TypeInfo{ID: 0x99}, 1, "another type"},
	} {
		b, err := tds.AppendValue([]byte("x"), &tc.typ, tc.value)
		require.ErrorContains(t, err, tc.err, "%s %v", tc.typ, tc.value)
		require.Equal(t, []byte("x"), b, "what was there stays")
	}
}

// sizedDecimal is decimal(precision, 0) that declares another size than its own.
func sizedDecimal(precision uint8, size int) tds.TypeInfo {
	t := tds.TypeDecimal(precision, 0)
	t.Size = size
	return t
}

func TestDecimals(t *testing.T) {
	t.Parallel()
	for size, largest := range map[int]string{5: "4294967295", 9: "18446744073709551615", 13: "79228162514264337593543950335", 17: "99999999999999999999999999999999999999"} {
		typ, d := sizedDecimal(38, size), must(tds.ParseDecimal(largest))
		b, err := tds.AppendValue(nil, &typ, d)
		require.NoError(t, err)
		require.Len(t, b, size+1)
		got, _, err := tds.DecodeValue(b, &typ)
		require.NoError(t, err)
		require.Equal(t, d, got)
	}
	for _, text := range []string{"0", "0.00", "-0.01", "12345678901234567890123456789012345678", "-0.00000000000000000000000000000000000001", "99999999999999999999.999999999999999999"} {
		d, err := tds.ParseDecimal(text)
		require.NoError(t, err)
		require.Equal(t, text, d.String())
		back, err := tds.DecimalFromBig(d.Big(), d.Scale)
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
	for _, text := range []string{"", "-", ".", "1e5", "1.2.3", "100000000000000000000000000000000000000", "0." + strings.Repeat("0", 39)} {
		_, err := tds.ParseDecimal(text)
		require.Error(t, err, text)
	}
	_, err := tds.DecimalFromBig(new(big.Int).Lsh(big.NewInt(1), 127), 0)
	require.Error(t, err)
	d, err := must(tds.ParseDecimal("1.500")).Rescale(1)
	require.NoError(t, err)
	require.Equal(t, "1.5", d.String())
	require.Equal(t, "-922337203685477.5808", tds.Money(math.MinInt64).String())
}

func TestTimes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "9999-12-31", tds.Date(3652058).String())
	require.Equal(t, "0001-01-01", tds.Date(0).String())
	require.Equal(t, "23:59:59.9999999", tds.Time(tds.TicksPerDay-1).String())
	require.Equal(t, "1900-01-01T00:00:00.000", tds.DateTime{}.String())
	require.Equal(t, "2024-02-29T23:30:00.5000000+05:30", tds.DateTimeOffsetOf(time.Date(2024, 2, 29, 23, 30, 0, 5e8, time.FixedZone("", 19800))).String())
	for in, want := range map[string]string{ // as SQL Server rounds
		"2024-01-01T00:00:00.001": "2024-01-01T00:00:00.000", "2024-01-01T00:00:00.002": "2024-01-01T00:00:00.003",
		"2024-01-01T00:00:00.005": "2024-01-01T00:00:00.007", "2024-01-01T00:00:00.008": "2024-01-01T00:00:00.007",
		"2024-12-31T23:59:59.999": "2025-01-01T00:00:00.000", "1753-01-01T00:00:00.000": "1753-01-01T00:00:00.000",
	} {
		require.Equal(t, want, tds.DateTimeOf(must(time.Parse("2006-01-02T15:04:05.000", in))).String(), in)
	}
	require.Equal(t, "00:00:00.0033333", tds.DateTime{Ticks: 1}.DateTime2().Time.String())
	require.Equal(t, "00:00:00.0066667", tds.DateTime{Ticks: 2}.DateTime2().Time.String())
	for in, want := range map[string]string{
		"2024-01-01T00:00:29.998": "2024-01-01T00:00:00", "2024-01-01T00:00:29.999": "2024-01-01T00:01:00", "2024-01-01T23:59:30.000": "2024-01-02T00:00:00",
	} {
		require.Equal(t, want, tds.SmallDateTimeOf(must(time.Parse("2006-01-02T15:04:05.000", in))).String(), in)
	}
	rapid.Check(t, func(t *rapid.T) {
		g := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "s"), 100*rapid.Int64Range(0, 9_999_999).Draw(t, "n")).UTC()
		require.True(t, g.Equal(tds.DateTime2Of(g).GoTime()))
		require.True(t, g.Equal(tds.DateTimeOffsetOf(g.In(time.FixedZone("", 60*rapid.IntRange(-840, 840).Draw(t, "zone")))).GoTime()))
		require.Equal(t, tds.NewDate(g.Year(), g.Month(), g.Day()), tds.DateOf(g))
	})
}

func TestUUIDs(t *testing.T) {
	t.Parallel()
	u, err := tds.ParseUUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")
	require.NoError(t, err)
	require.Equal(t, "6F9619FF-8B86-D011-B42D-00C04FC964FF", u.String())
	for _, bad := range []string{"", "6f9619ff8b86d011b42d00c04fc964ff", "6f9619ff-8b86-d011-b42d-00c04fc964fg", "6f9619ff-8b86-d011-b42d-00c04fc964ff0"} {
		_, err := tds.ParseUUID(bad)
		require.Error(t, err)
	}
}

// TestCodePages compares with bytes known from the code pages' tables.
func TestCodePages(t *testing.T) {
	t.Parallel()
	windows := func(lcid uint32) tds.Collation { return tds.NewCollation(lcid|0x00D00000, 0) }
	for _, tc := range []struct {
		name  string
		coll  tds.Collation
		page  int
		text  string
		bytes string
	}{
		{"1252", tds.CollationDefault(), 1252, "€é", "\x80\xE9"},
		{"1250", windows(0x405), 1250, "ř", "\xF8"},
		{"1251", windows(0x419), 1251, "Ж", "\xC6"},
		{"1253", windows(0x408), 1253, "Ω", "\xD9"},
		{"1254", windows(0x41F), 1254, "ş", "\xFE"},
		{"1255", windows(0x40D), 1255, "א", "\xE0"},
		{"1256", windows(0x401), 1256, "ا", "\xC7"},
		{"1257", windows(0x425), 1257, "õ", "\xF5"},
		{"1258", windows(0x42A), 1258, "đ", "\xF0"},
		{"874", windows(0x41E), 874, "ก", "\xA1"},
		{"932", tds.CollationJapanese(), 932, "日", "\x93\xFA"},
		{"936", tds.CollationChinese(), 936, "中", "\xD6\xD0"},
		{"949", windows(0x412), 949, "한", "\xC7\xD1"},
		{"950", windows(0x404), 950, "中", "\xA4\xA4"},
		{"437", tds.NewCollation(0x409, 30), 437, "é", "\x82"},
		{"850", tds.NewCollation(0x409, 40), 850, "é", "\x82"},
		{"UTF-8", tds.CollationUTF8(), 65001, "日é", "日é"},
		{"none", windows(0x439), 0, "a", "a"},
	} {
		require.Equal(t, tc.page, tc.coll.CodePage(), tc.name)
		typ := tds.TypeVarChar(20, tc.coll)
		b := tds.AppendString(nil, &typ, "a"+tc.text)
		require.Equal(t, "a"+tc.bytes, string(b[2:]), tc.name)
		v, _, err := tds.DecodeValue(b, &typ)
		require.NoError(t, err)
		require.Equal(t, "a"+tc.text, v, tc.name)
	}
	typ := tds.TypeVarChar(20, tds.CollationDefault())
	require.Equal(t, "?x?", string(tds.AppendString(nil, &typ, "日xЖ")[2:]), "what the page lacks")
	japanese := tds.TypeVarChar(20, tds.CollationJapanese())
	require.Equal(t, "?\x93\xFA", string(tds.AppendString(nil, &japanese, "é日")[2:]))
}

// TestCollationBytes compares with bytes that servers send for the names.
func TestCollationBytes(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]tds.Collation{
		"0904d00034": tds.CollationDefault(), "0904002200": tds.CollationLatin1BIN2(), "0904d02400": tds.CollationUTF8(),
		"1104d00000": tds.CollationJapanese(), "0408d00000": tds.CollationChinese(),
	} {
		require.Equal(t, text, c.String())
	}
	require.Equal(t, uint32(0x409), tds.CollationUTF8().LCID())
	require.True(t, tds.Collation{}.IsZero())
}

// TestPLPBytes compares the chunks with the document's layout.
func TestPLPBytes(t *testing.T) {
	t.Parallel()
	b := tds.AppendPLP(nil, []byte("abcde"), tds.PLP{Chunk: 2, Unknown: true})
	require.Equal(t, uint64(math.MaxUint64-1), binary.LittleEndian.Uint64(b))
	require.Equal(t, "\x02\x00\x00\x00ab\x02\x00\x00\x00cd\x01\x00\x00\x00e\x00\x00\x00\x00", string(b[8:]))
}
