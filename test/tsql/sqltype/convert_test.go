package sqltype_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// typ parses a declared type such as decimal(18,2).
func typ(t testing.TB, s string) sqltype.Type {
	t.Helper()
	name, rest, ok := strings.Cut(s, "(")
	var params []int
	if ok {
		for p := range strings.SplitSeq(strings.TrimSuffix(rest, ")"), ",") {
			n := 0
			for _, c := range strings.TrimSpace(p) {
				n = n*10 + int(c-'0')
			}
			if p == "max" {
				n = sqltype.Max
			}
			params = append(params, n)
		}
	}
	ty, err := sqltype.ParseType(name, params...)
	require.NoError(t, err, s)
	return ty
}

func show(v sqltype.Value) string {
	if v.Kind().IsText() {
		return "'" + v.Str() + "'"
	}
	return v.String()
}

// TestConvert holds conversions whose results are known: from the documentation of CAST
// and CONVERT, or from the recordings of another server where it agrees with SQL Server.
func TestConvert(t *testing.T) {
	t.Parallel()
	text := sqltype.VarChar
	lsn := sqltype.Binary([]byte{0, 0, 0, 0x2C, 0, 0, 0x0A, 0x78, 0, 3})
	style := func(n int) int { return n }
	for _, c := range []struct {
		name  string
		v     sqltype.Value
		to    string
		style int
		want  string
	}{
		{"text to int", text(" 42 "), "int", 0, "42"},
		{"empty text to int", text(""), "int", 0, "0"},
		{"true to bit", text("TRUE"), "bit", 0, "1"},
		{"decimal to int truncates", sqltype.Decimal(sqltype.Number{Lo: 19, Scale: 1, Neg: true}), "int", 0, "-1"},
		{"money to int rounds", sqltype.Money(15_000), "int", 0, "2"},
		{"float to int truncates", sqltype.Float(-1.9), "int", 0, "-1"},
		{"binary to int", sqltype.Binary([]byte{0, 0xFF}), "int", 0, "255"},
		{"binary to bigint takes the last bytes", lsn, "bigint", 0, "12384899150905347"},
		{"negative binary", sqltype.Binary([]byte{0xFF, 0xFF, 0xFF, 0xFE}), "int", 0, "-2"},
		{"int to binary", sqltype.Int(1), "binary(4)", 0, "0x00000001"},
		{"int to longer binary", sqltype.Int(1), "binary(6)", 0, "0x000000000001"},
		{"int to shorter varbinary", sqltype.Int(258), "varbinary(1)", 0, "0x02"},
		{"text to decimal", text("1.005"), "decimal(9,2)", 0, "1.01"},
		{"text to decimal, half away from zero", text("-1.005"), "decimal(9,2)", 0, "-1.01"},
		{"float to decimal", sqltype.Float(0.1), "decimal(18,10)", 0, "0.1000000000"},
		{"int to decimal", sqltype.Int(5), "decimal(5,2)", 0, "5.00"},
		{"text to money", text("$1,234.56"), "money", 0, "1234.5600"},
		{"money text style 0", sqltype.Money(12_345_678), "varchar(30)", 0, "'1234.57'"},
		{"money text style 1", sqltype.Money(123_456_789_000), "varchar(30)", 1, "'12,345,678.90'"},
		{"money text style 2", sqltype.Money(15_000), "varchar(30)", 2, "'1.5000'"},
		{"float text", sqltype.Float(0.1), "varchar(40)", 0, "'0.1'"},
		{"float text of a large number", sqltype.Float(123456789), "varchar(40)", 0, "'1.23457e+008'"},
		{"float text style 3", sqltype.Float(0.1), "varchar(40)", 3, "'1.0000000000000001e-001'"},
		{"int into too short char", sqltype.Int(100), "varchar(2)", 0, "'*'"},
		{"char pads", text("ab"), "char(4)", 0, "'ab  '"},
		{"varchar cuts", text("abcdef"), "varchar(3)", 0, "'abc'"},
		{"varchar outside the code page", sqltype.NVarChar("łé"), "varchar(10)", 0, "'?é'"},
		{"nvarchar counts units", sqltype.NVarChar("日本😀x"), "nvarchar(4)", 0, "'日本😀'"},
		{"binary pads", sqltype.VarBinary([]byte{1}), "binary(3)", 0, "0x010000"},
		{"binary cuts", sqltype.VarBinary([]byte{1, 2, 3}), "binary(2)", 0, "0x0102"},
		{"text to binary", text("A"), "varbinary(10)", 0, "0x41"},
		{"nvarchar to binary", sqltype.NVarChar("A"), "varbinary(10)", 0, "0x4100"},
		{"binary to text", sqltype.VarBinary([]byte{0x41}), "varchar(2)", 0, "'A'"},
		{"binary to nvarchar", sqltype.VarBinary([]byte{0x41, 0}), "nvarchar(2)", 0, "'A'"},
		{"LSN style 1", lsn, "varchar(22)", style(1), "'0x0000002C00000A780003'"},
		{"LSN style 2", lsn, "varchar(20)", style(2), "'0000002C00000A780003'"},
		{"hex text style 1", text("0x0000002c00000a780003"), "binary(10)", 1, "0x0000002C00000A780003"},
		{"hex text style 2", text("0000002C00000A780003"), "binary(10)", 2, "0x0000002C00000A780003"},
		{"guid", text("6F9619FF-8B86-D011-B42D-00C04FC964FF"), "uniqueidentifier", 0, "6F9619FF-8B86-D011-B42D-00C04FC964FF"},
		{"guid to binary swaps groups", must(sqltype.Convert(text("6F9619FF-8B86-D011-B42D-00C04FC964FF"), sqltype.Type{Kind: sqltype.KindUniqueIdentifier}, 0)), "varbinary(16)", 0, "0xFF19966F868B11D0B42D00C04FC964FF"},
		{"binary to guid", sqltype.VarBinary([]byte{0xFF, 0x19, 0x96, 0x6F, 0x86, 0x8B, 0x11, 0xD0, 0xB4, 0x2D, 0, 0xC0, 0x4F, 0xC9, 0x64, 0xFF}), "uniqueidentifier", 0, "6F9619FF-8B86-D011-B42D-00C04FC964FF"},
		{"number to datetime", sqltype.Float(1.5), "datetime", 0, "1900-01-02 12:00:00.000"},
		{"datetime to int", sqltype.DateTime(10, 12*3600*300), "int", 0, "11"},
		{"rowversion", sqltype.BigInt(2001), "rowversion", 0, "0x00000000000007D1"},
		{"float to real", sqltype.Float(1.005), "real", 0, "1.0049999952316284"},
		{"null", sqltype.Null(), "int", 0, "NULL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, err := sqltype.Convert(c.v, typ(t, c.to), c.style)
			require.NoError(t, err)
			require.Equal(t, c.want, show(v))
		})
	}
}

func must(v sqltype.Value, err error) sqltype.Value {
	if err != nil {
		panic(err)
	}
	return v
}

func TestConvertErrors(t *testing.T) {
	t.Parallel()
	text := sqltype.VarChar
	for _, c := range []struct {
		name   string
		v      sqltype.Value
		to     string
		style  int
		number int32
		text   string
	}{
		{"not an int", text("x"), "int", 0, 245, "Conversion failed when converting the varchar value 'x' to data type int."},
		{"a fraction is no int", sqltype.NVarChar("1.5"), "int", 0, 245, "Conversion failed when converting the nvarchar value '1.5' to data type int."},
		{"not a bigint", text("x"), "bigint", 0, 8114, "Error converting data type varchar to bigint."},
		{"not a decimal", text("1e3"), "decimal(5,2)", 0, 8114, "Error converting data type varchar to numeric."},
		{"not a float", text("x"), "float", 0, 8114, "Error converting data type varchar to float."},
		{"tinyint overflow", sqltype.Int(300), "tinyint", 0, 220, "Arithmetic overflow error for data type tinyint, value = 300."},
		{"smallint overflow", sqltype.Int(40_000), "smallint", 0, 220, "Arithmetic overflow error for data type smallint, value = 40000."},
		{"int overflow", sqltype.BigInt(1 << 40), "int", 0, 8115, "Arithmetic overflow error converting expression to data type int."},
		{"float to int overflow", sqltype.Float(1e10), "int", 0, 232, "Arithmetic overflow error for type int, value = 10000000000.000000."},
		{"text to tinyint overflow", text("300"), "tinyint", 0, 244, "The conversion of the varchar value '300' overflowed an INT1 column. Use a larger integer column."},
		{"text to int overflow", text("99999999999"), "int", 0, 248, "The conversion of the varchar value '99999999999' overflowed an int column."},
		{"decimal overflow", text("1000"), "decimal(3,0)", 0, 8115, "Arithmetic overflow error converting varchar to data type numeric."},
		{"decimal to decimal overflow", sqltype.Decimal(sqltype.Number{Lo: 1000}), "decimal(3,0)", 0, 8115, "Arithmetic overflow error converting numeric to data type numeric."},
		{"bad date", text("2024-13-01"), "datetime", 0, 242, "The conversion of a varchar data type to a datetime data type resulted in an out-of-range value."},
		{"bad date for the new types", text("2024-13-01"), "date", 0, 241, "Conversion failed when converting date and/or time from character string."},
		{"no date", text("hello"), "datetime", 0, 241, "Conversion failed when converting date and/or time from character string."},
		{"no smalldatetime", text("hello"), "smalldatetime", 0, 295, "Conversion failed when converting character string to smalldatetime data type."},
		{"seven digits for datetime", text("2024-01-01 00:00:00.1234567"), "datetime", 0, 241, ""},
		{"eight digits", text("2024-01-01 00:00:00.12345678"), "datetime2(7)", 0, 241, ""},
		{"before 1753", sqltype.Date(0), "datetime", 0, 242, "The conversion of a date data type to a datetime data type resulted in an out-of-range value."},
		{"no guid", text("x"), "uniqueidentifier", 0, 8169, ""},
		{"guid into a short char", must(sqltype.Convert(text("6F9619FF-8B86-D011-B42D-00C04FC964FF"), sqltype.Type{Kind: sqltype.KindUniqueIdentifier}, 0)), "char(10)", 0, 8170, ""},
		{"style 1 without 0x", text("0A"), "binary(2)", 1, 8114, "Error converting data type varchar to binary."},
		{"odd hex digits", text("0x0"), "varbinary(2)", 1, 8114, ""},
		{"no money", text("x"), "money", 0, 235, ""},
		{"unknown date style", sqltype.Date(1), "varchar(20)", 99, 281, "99 is not a valid style number when converting from date to a character string."},
		{"date to int", sqltype.Date(1), "int", 0, 529, "Explicit conversion from data type date to int is not allowed."},
		{"float to binary is fine, binary to float not", sqltype.VarBinary([]byte{1}), "float", 0, 529, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := sqltype.Convert(c.v, typ(t, c.to), c.style)
			e := sqlerr.Of(err)
			require.NotNil(t, e)
			require.Equal(t, c.number, e.Number, e.Message)
			if c.text != "" {
				require.Equal(t, c.text, e.Message)
			}
			require.NotContains(t, e.Message, "%!")
		})
	}
}

func TestStoreRefusesWhatCastCuts(t *testing.T) {
	t.Parallel()
	_, err := sqltype.Store(sqltype.VarChar("abcd"), sqltype.VarCharType(3))
	require.True(t, sqlerr.IsNumber(err, 8152))
	_, err = sqltype.Store(sqltype.VarBinary([]byte{1, 2}), sqltype.VarBinaryType(1))
	require.True(t, sqlerr.IsNumber(err, 8152))
	v, err := sqltype.Store(sqltype.VarChar("abc  "), sqltype.VarCharType(3))
	require.NoError(t, err)
	require.Equal(t, "abc", v.Str())
	v, err = sqltype.Store(sqltype.NVarChar("łół"), sqltype.NVarCharType(3))
	require.NoError(t, err)
	require.Equal(t, "łół", v.Str())
}

func TestCastable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to sqltype.Kind
		want     sqltype.Castability
	}{
		{sqltype.KindVarChar, sqltype.KindVarBinary, sqltype.CastExplicit},
		{sqltype.KindVarBinary, sqltype.KindVarChar, sqltype.CastImplicit},
		{sqltype.KindDateTime, sqltype.KindInt, sqltype.CastExplicit},
		{sqltype.KindDate, sqltype.KindInt, sqltype.CastNever},
		{sqltype.KindInt, sqltype.KindDateTime, sqltype.CastImplicit},
		{sqltype.KindInt, sqltype.KindDate, sqltype.CastNever},
		{sqltype.KindUniqueIdentifier, sqltype.KindInt, sqltype.CastNever},
		{sqltype.KindUniqueIdentifier, sqltype.KindVarChar, sqltype.CastImplicit},
		{sqltype.KindVariant, sqltype.KindInt, sqltype.CastExplicit},
		{sqltype.KindInt, sqltype.KindVariant, sqltype.CastImplicit},
		{sqltype.KindTime, sqltype.KindDate, sqltype.CastNever},
		{sqltype.KindXML, sqltype.KindNVarChar, sqltype.CastExplicit},
		{sqltype.KindNVarChar, sqltype.KindXML, sqltype.CastImplicit},
		{sqltype.KindDateTime2, sqltype.KindBinary, sqltype.CastImplicit},
	} {
		require.Equal(t, c.want, sqltype.Castable(c.from, c.to), "%s to %s", c.from, c.to)
	}
}

func TestParseType(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"int": "int", "INTEGER": "int", "numeric(9,2)": "decimal(9,2)", "dec": "decimal(18,0)", "sysname": "nvarchar(128)",
		"timestamp": "timestamp", "rowversion": "timestamp", "varchar": "varchar(1)", "nvarchar(max)": "nvarchar(max)",
		"float(24)": "real", "float(25)": "float", "datetime2": "datetime2(7)", "time(3)": "time(3)", "national character varying(5)": "nvarchar(5)",
		"double precision": "float", "character(3)": "char(3)", "sql_variant": "sql_variant", "varbinary(max)": "varbinary(max)",
	} {
		require.Equal(t, want, typ(t, in).String(), in)
	}
	_, err := sqltype.ParseType("nosuch")
	require.ErrorIs(t, err, sqltype.ErrUnknownType)
	var bad *sqltype.TypeParamError
	for _, c := range []struct {
		name   string
		params []int
	}{{"varchar", []int{8001}}, {"nvarchar", []int{4001}}, {"char", []int{sqltype.Max}}, {"decimal", []int{39}}, {"decimal", []int{5, 6}}, {"time", []int{8}}, {"int", []int{4}}, {"datetime", []int{3}}} {
		_, err := sqltype.ParseType(c.name, c.params...)
		require.ErrorAs(t, err, &bad, "%s %v", c.name, c.params)
		require.NotEmpty(t, bad.Error())
	}
}
