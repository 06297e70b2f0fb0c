package sqltype_test

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestValueIsSmall(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(sqltype.Value{}), uintptr(48))
	require.True(t, sqltype.Value{}.IsNull())
}

func TestCompare(t *testing.T) {
	t.Parallel()
	bin, ok := sqltype.LookupCollation("Latin1_General_100_BIN2")
	require.True(t, ok)
	cs, ok := sqltype.LookupCollation("Latin1_General_CS_AS")
	require.True(t, ok)
	ai, ok := sqltype.LookupCollation("Latin1_General_CI_AI")
	require.True(t, ok)
	u := func(s string) sqltype.Value {
		return must(sqltype.Convert(sqltype.VarChar(s), sqltype.Type{Kind: sqltype.KindUniqueIdentifier}, 0))
	}
	for _, c := range []struct {
		name string
		a, b sqltype.Value
		coll *sqltype.Collation
		want int
	}{
		{"binary is padded", sqltype.VarBinary([]byte{1}), sqltype.VarBinary([]byte{1, 0}), nil, 0},
		{"binary is unsigned", sqltype.Binary([]byte{0x80}), sqltype.Binary([]byte{0x7F}), nil, 1},
		{"binary from the left", sqltype.VarBinary([]byte{0xFF}), sqltype.VarBinary([]byte{1, 0xFF}), nil, 1},
		{"case does not count", sqltype.VarChar("ABC"), sqltype.NVarChar("abc"), nil, 0},
		{"blanks at the end do not count", sqltype.VarChar("a "), sqltype.VarChar("a"), nil, 0},
		{"accents count", sqltype.NVarChar("é"), sqltype.NVarChar("e"), nil, 1},
		{"accents do not count under AI", sqltype.NVarChar("é"), sqltype.NVarChar("E"), ai, 0},
		{"accented letters stand with their base", sqltype.NVarChar("é"), sqltype.NVarChar("f"), nil, -1},
		{"case counts under CS", sqltype.VarChar("A"), sqltype.VarChar("a"), cs, 1},
		{"letters before case under CS", sqltype.VarChar("Ab"), sqltype.VarChar("aa"), cs, 1},
		{"code points under BIN2", sqltype.VarChar("B"), sqltype.VarChar("a"), bin, -1},
		{"digits before letters", sqltype.VarChar("1"), sqltype.VarChar("a"), nil, -1},
		{"underscore before digits", sqltype.VarChar("_"), sqltype.VarChar("0"), nil, -1},
		{"numbers of different kinds", sqltype.Int(2), sqltype.Decimal(sqltype.Number{Lo: 20, Scale: 1}), nil, 0},
		{"float and int", sqltype.Float(1.5), sqltype.Int(1), nil, 1},
		{"money", sqltype.Money(15_000), sqltype.Decimal(sqltype.Number{Lo: 15, Scale: 1}), nil, 0},
		{"datetime and datetime2", sqltype.DateTime(0, 0), sqltype.DateTime2(sqltype.DaysTo1900, 0, 7), nil, 0},
		{"offsets are one instant", must(sqltype.Convert(sqltype.VarChar("2024-01-01 01:00 +01:00"), typ(t, "datetimeoffset(0)"), 0)),
			must(sqltype.Convert(sqltype.VarChar("2024-01-01 00:00 +00:00"), typ(t, "datetimeoffset(0)"), 0)), nil, 0},
		{"guids by the last group first", u("00000000-0000-0000-0000-000000000001"), u("FFFFFFFF-FFFF-FFFF-FFFF-000000000000"), nil, 1},
		{"guids by the bytes of the wire", u("01000000-0000-0000-0000-000000000000"), u("00000001-0000-0000-0000-000000000000"), nil, -1},
		{"null first", sqltype.Null(), sqltype.Int(-1), nil, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, sqltype.Compare(c.a, c.b, c.coll))
			require.Equal(t, -c.want, sqltype.Compare(c.b, c.a, c.coll))
		})
	}
}

func TestCollationNames(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]int{
		"SQL_Latin1_General_CP1_CI_AS": 1252, "Latin1_General_100_BIN2_UTF8": 65001, "Japanese_CI_AS": 932, "Chinese_PRC_CI_AS": 936,
		"SQL_Latin1_General_CP1251_CS_AS": 1251, "latin1_general_bin": 1252, "DATABASE_DEFAULT": 1252, "Polish_CI_AS": 1250,
	} {
		c, ok := sqltype.LookupCollation(name)
		require.True(t, ok, name)
		require.Equal(t, page, c.CodePage, name)
	}
	for _, name := range []string{"nosuch", "Latin1_General", "Klingon_CI_AS"} {
		_, ok := sqltype.LookupCollation(name)
		require.False(t, ok, name)
	}
}

func TestCodePages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ collation, text, bytes string }{
		{"SQL_Latin1_General_CP1_CI_AS", "é€", "\xe9\x80"}, {"Japanese_CI_AS", "日", "\x93\xfa"}, {"Chinese_PRC_CI_AS", "中", "\xd6\xd0"},
		{"Latin1_General_100_CI_AS_SC_UTF8", "日", "日"}, {"Cyrillic_General_CI_AS", "Я", "\xdf"},
	} {
		coll, ok := sqltype.LookupCollation(c.collation)
		require.True(t, ok)
		require.Equal(t, c.bytes, coll.EncodeVarChar(c.text), c.collation)
		require.Equal(t, c.text, coll.DecodeVarChar(c.bytes), c.collation)
	}
	require.Equal(t, "?", (*sqltype.Collation)(nil).EncodeVarChar("日"))
}

// TestTextOrderIsAnOrder: Compare is transitive and agrees with Key on equality.
func TestTextOrderIsAnOrder(t *testing.T) {
	t.Parallel()
	names := []string{"SQL_Latin1_General_CP1_CI_AS", "Latin1_General_CS_AS", "Latin1_General_BIN2", "Latin1_General_CI_AI"}
	rapid.Check(t, func(t *rapid.T) {
		coll, _ := sqltype.LookupCollation(rapid.SampledFrom(names).Draw(t, "collation"))
		word := rapid.StringOfN(rapid.RuneFrom([]rune("aAbBzZéÉñ19_- .ßłŁ日")), 0, 4, -1)
		list := rapid.SliceOfN(word, 3, 6).Draw(t, "words")
		slices.SortFunc(list, coll.CompareText)
		for i := range list {
			for j := range i {
				require.LessOrEqual(t, coll.CompareText(list[j], list[i]), 0, "%q", list)
			}
			require.Zero(t, coll.CompareText(list[i], list[i]+"  "))
		}
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		require.Equal(t, coll.CompareText(a, b) == 0, coll.Key(a) == coll.Key(b), "%q %q", a, b)
	})
}

func TestBinaryOrderIsThatOfPaddedBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7F, 0x80, 0xFF}), 0, 4)
		x, y := string(b.Draw(t, "x")), string(b.Draw(t, "y"))
		pad := func(s string) string { return s + strings.Repeat("\x00", 8-len(s)) }
		require.Equal(t, strings.Compare(pad(x), pad(y)), sqltype.CompareBytes(x, y))
	})
}
