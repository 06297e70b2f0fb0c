package sqlserversim

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// wireCollation gives the five bytes of a collation by its name; the database's default for an empty or unknown name.
// Locales: MS-LCID; flags: MS-TDS 2.2.5.1.2; sort ids: sys.fn_helpcollations.
func wireCollation(name string) tds.Collation {
	if name == "" || strings.EqualFold(name, sqltype.DefaultCollation) {
		return tds.CollationDefault()
	}
	upper := strings.ToUpper(name)
	const (
		ignoreCase, ignoreAccent      = 0x00100000, 0x00200000
		ignoreKana, ignoreWidth       = 0x00400000, 0x00800000
		binary, binary2, utf8         = 0x01000000, 0x02000000, 0x04000000
		version90, version100, ver140 = 0x10000000, 0x20000000, 0x30000000
	)
	word := localeOf(upper)
	flags := uint32(ignoreKana | ignoreWidth)
	for part := range strings.SplitSeq(upper, "_") {
		switch part {
		case "CI":
			flags |= ignoreCase
		case "AI":
			flags |= ignoreAccent
		case "KS":
			flags &^= ignoreKana
		case "WS":
			flags &^= ignoreWidth
		case "BIN":
			flags = flags&^(ignoreKana|ignoreWidth) | binary
		case "BIN2":
			flags = flags&^(ignoreKana|ignoreWidth) | binary2
		case "UTF8":
			flags |= utf8
		case "90":
			word |= version90
		case "100":
			word |= version100
		case "140":
			word |= ver140
		}
	}
	return tds.NewCollation(word|flags, sortIDOf(upper))
}

// localeOf gives the Windows locale of a collation by the language it is named after.
func localeOf(upper string) uint32 {
	for _, l := range []struct {
		prefix string
		lcid   uint32
	}{
		{"JAPANESE", 0x0411}, {"CHINESE_PRC", 0x0804}, {"CHINESE_SIMPLIFIED", 0x0804}, {"KOREAN", 0x0412},
		{"CHINESE_TAIWAN", 0x0404}, {"CHINESE_TRADITIONAL", 0x0404}, {"CYRILLIC_GENERAL", 0x0419}, {"UKRAINIAN", 0x0422},
		{"POLISH", 0x0415}, {"CZECH", 0x0405}, {"HUNGARIAN", 0x040E}, {"ROMANIAN", 0x0418}, {"GREEK", 0x0408},
		{"TURKISH", 0x041F}, {"HEBREW", 0x040D}, {"ARABIC", 0x0401}, {"VIETNAMESE", 0x042A}, {"THAI", 0x041E},
		{"FRENCH", 0x040C}, {"MODERN_SPANISH", 0x0C0A}, {"TRADITIONAL_SPANISH", 0x040A}, {"DANISH", 0x0406},
		{"FINNISH_SWEDISH", 0x040B}, {"GERMAN_PHONEBOOK", 0x10407}, {"ICELANDIC", 0x040F}, {"ALBANIAN", 0x041C},
		{"ESTONIAN", 0x0425}, {"LATVIAN", 0x0426}, {"LITHUANIAN", 0x0427}, {"CROATIAN", 0x041A}, {"SLOVAK", 0x041B},
		{"SLOVENIAN", 0x0424}, {"SQL_LATIN1_GENERAL_CP1251", 0x0419}, {"SQL_LATIN1_GENERAL_CP1250", 0x0405},
	} {
		if strings.HasPrefix(upper, l.prefix) {
			return l.lcid
		}
	}
	return 0x0409
}

// sortIDOf gives the sort id of the SQL collations that a test may want; 0 for Windows collations.
func sortIDOf(upper string) uint8 {
	switch upper {
	case "SQL_LATIN1_GENERAL_CP1_CS_AS":
		return 51
	case "SQL_LATIN1_GENERAL_CP1_CI_AS":
		return 52
	case "SQL_LATIN1_GENERAL_CP1_CI_AI":
		return 54
	case "SQL_LATIN1_GENERAL_CP437_CI_AS":
		return 32
	case "SQL_LATIN1_GENERAL_CP850_CI_AS":
		return 42
	case "SQL_LATIN1_GENERAL_CP1250_CI_AS":
		return 82
	case "SQL_LATIN1_GENERAL_CP1251_CI_AS":
		return 106
	}
	return 0
}

// wireType gives the type as it travels. A NOT NULL column of a fixed-length type has the form without a length byte, as SQL
// Server sends it. dbCollation is the collation of texts that name none.
func wireType(t sqltype.Type, nullable bool, dbCollation string) tds.TypeInfo {
	if fixed, ok := fixedType(t.Kind); ok {
		if !nullable {
			return tds.TypeFixed(fixed)
		}
		return nullableType(t.Kind)
	}
	length := t.Length
	if length == sqltype.Max {
		length = tds.Max
	}
	name := t.Collation
	if name == "" {
		name = dbCollation
	}
	switch t.Kind {
	case sqltype.KindDecimal:
		return tds.TypeDecimal(max(1, t.Precision), t.Scale)
	case sqltype.KindDate:
		return tds.TypeDate()
	case sqltype.KindTime:
		return tds.TypeTime(t.Scale)
	case sqltype.KindDateTime2:
		return tds.TypeDateTime2(t.Scale)
	case sqltype.KindDateTimeOffset:
		return tds.TypeDateTimeOffset(t.Scale)
	case sqltype.KindChar:
		return tds.TypeChar(max(1, length), wireCollation(name))
	case sqltype.KindVarChar:
		return tds.TypeVarChar(max(1, length), wireCollation(name))
	case sqltype.KindNChar:
		return tds.TypeNChar(max(1, length), wireCollation(name))
	case sqltype.KindNVarChar:
		return tds.TypeNVarChar(max(1, length), wireCollation(name))
	case sqltype.KindText:
		return tds.TypeText(wireCollation(name))
	case sqltype.KindNText:
		return tds.TypeNText(wireCollation(name))
	case sqltype.KindXML:
		return tds.TypeXML()
	case sqltype.KindBinary:
		return tds.TypeBinary(max(1, length))
	case sqltype.KindVarBinary:
		return tds.TypeVarBinary(max(1, length))
	case sqltype.KindRowVersion:
		return tds.TypeRowVersion()
	case sqltype.KindImage:
		return tds.TypeImage()
	case sqltype.KindUniqueIdentifier:
		return tds.TypeUUID()
	case sqltype.KindVariant:
		return tds.TypeVariant()
	}
	return tds.TypeInt(4) // the type of a bare NULL [SELECT NULL is int]
}

// withoutUTF8 gives the type in which a client that did not ask for UTF-8 at its login (MS-TDS 2.2.6.4, UTF8_SUPPORT) gets text of a UTF-8
// collation: SQL Server sends it as UTF-16 then. What is longer than an nvarchar can be goes as nvarchar(max) [K].
func withoutUTF8(t tds.TypeInfo) tds.TypeInfo {
	const longest = 4000
	switch {
	case t.ID == tds.IDText:
		return tds.TypeNText(t.Collation)
	case t.ID == tds.IDChar && t.Size <= longest:
		return tds.TypeNChar(t.Size, t.Collation)
	case t.ID == tds.IDVarChar && t.Size <= longest:
		return tds.TypeNVarChar(t.Size, t.Collation)
	case t.ID == tds.IDChar, t.ID == tds.IDVarChar:
		return tds.TypeNVarChar(tds.Max, t.Collation)
	}
	return t
}

func fixedType(k sqltype.Kind) (tds.TypeID, bool) {
	switch k {
	case sqltype.KindBit:
		return tds.IDBit, true
	case sqltype.KindTinyInt:
		return tds.IDInt1, true
	case sqltype.KindSmallInt:
		return tds.IDInt2, true
	case sqltype.KindInt:
		return tds.IDInt4, true
	case sqltype.KindBigInt:
		return tds.IDInt8, true
	case sqltype.KindReal:
		return tds.IDFloat4, true
	case sqltype.KindFloat:
		return tds.IDFloat8, true
	case sqltype.KindMoney:
		return tds.IDMoney, true
	case sqltype.KindSmallMoney:
		return tds.IDMoney4, true
	case sqltype.KindDateTime:
		return tds.IDDateTime, true
	case sqltype.KindSmallDateTime:
		return tds.IDDateTime4, true
	}
	return 0, false
}

func nullableType(k sqltype.Kind) tds.TypeInfo {
	switch k {
	case sqltype.KindBit:
		return tds.TypeBit()
	case sqltype.KindTinyInt:
		return tds.TypeInt(1)
	case sqltype.KindSmallInt:
		return tds.TypeInt(2)
	case sqltype.KindBigInt:
		return tds.TypeInt(8)
	case sqltype.KindReal:
		return tds.TypeFloat(4)
	case sqltype.KindFloat:
		return tds.TypeFloat(8)
	case sqltype.KindMoney:
		return tds.TypeMoney(8)
	case sqltype.KindSmallMoney:
		return tds.TypeMoney(4)
	case sqltype.KindDateTime:
		return tds.TypeDateTime(8)
	case sqltype.KindSmallDateTime:
		return tds.TypeDateTime(4)
	}
	return tds.TypeInt(4)
}

// sqlType gives the declared type of a parameter that came over the wire.
func sqlType(t *tds.TypeInfo) sqltype.Type {
	length := t.Size
	if t.IsPLP() {
		length = sqltype.Max
	} else if t.IsUnicode() {
		length = t.Size / 2
	}
	sized := func(k sqltype.Kind) sqltype.Type { return sqltype.Type{Kind: k, Length: length} }
	plain := func(k sqltype.Kind) sqltype.Type { return sqltype.Type{Kind: k} }
	switch t.ID {
	case tds.IDBit, tds.IDBitN:
		return plain(sqltype.KindBit)
	case tds.IDInt1, tds.IDInt2, tds.IDInt4, tds.IDInt8, tds.IDIntN:
		return plain(integerKind(t.Size))
	case tds.IDFloat4:
		return plain(sqltype.KindReal)
	case tds.IDFloat8:
		return plain(sqltype.KindFloat)
	case tds.IDFloatN:
		if t.Size == 4 {
			return plain(sqltype.KindReal)
		}
		return plain(sqltype.KindFloat)
	case tds.IDDecimalN, tds.IDNumericN:
		return sqltype.DecimalType(t.Precision, t.Scale)
	case tds.IDMoney, tds.IDMoney4, tds.IDMoneyN:
		if t.Size == 4 {
			return plain(sqltype.KindSmallMoney)
		}
		return plain(sqltype.KindMoney)
	case tds.IDDateTime, tds.IDDateTime4, tds.IDDateTimeN:
		if t.Size == 4 {
			return plain(sqltype.KindSmallDateTime)
		}
		return plain(sqltype.KindDateTime)
	case tds.IDDateN:
		return plain(sqltype.KindDate)
	case tds.IDTimeN:
		return sqltype.Type{Kind: sqltype.KindTime, Scale: t.Scale}
	case tds.IDDateTime2N:
		return sqltype.Type{Kind: sqltype.KindDateTime2, Scale: t.Scale}
	case tds.IDDateTimeOffsetN:
		return sqltype.Type{Kind: sqltype.KindDateTimeOffset, Scale: t.Scale}
	case tds.IDChar:
		return sized(sqltype.KindChar)
	case tds.IDVarChar:
		return sized(sqltype.KindVarChar)
	case tds.IDNChar:
		return sized(sqltype.KindNChar)
	case tds.IDNVarChar:
		return sized(sqltype.KindNVarChar)
	case tds.IDText:
		return plain(sqltype.KindText)
	case tds.IDNText:
		return plain(sqltype.KindNText)
	case tds.IDXML:
		return plain(sqltype.KindXML)
	case tds.IDBinary:
		return sized(sqltype.KindBinary)
	case tds.IDVarBinary:
		return sized(sqltype.KindVarBinary)
	case tds.IDImage:
		return plain(sqltype.KindImage)
	case tds.IDGUID:
		return plain(sqltype.KindUniqueIdentifier)
	case tds.IDVariant:
		return plain(sqltype.KindVariant)
	}
	return plain(sqltype.KindNull)
}

func integerKind(size int) sqltype.Kind {
	switch size {
	case 1:
		return sqltype.KindTinyInt
	case 2:
		return sqltype.KindSmallInt
	case 8:
		return sqltype.KindBigInt
	}
	return sqltype.KindInt
}
