package rowfilter

import (
	"golang.org/x/text/encoding/charmap"
	"unicode/utf8"
)

// codePage is the code page of a collation's char and varchar values; 0 when it is not decoded here: several bytes a character,
// UTF-8, and languages that have none. A sort order of SQL Server decides, or else the language.
// https://learn.microsoft.com/sql/relational-databases/collations/collation-and-unicode-support
func codePage(lcid uint32, sortID byte) int {
	if lcid&utf8Flag != 0 {
		return 0
	}
	if sortID != 0 {
		return pageOfSortOrder(sortID)
	}
	return pageOfLanguage(lcid & 0xFFFFF)
}

func pageOfSortOrder(id byte) int {
	switch {
	case id >= 30 && id <= 34:
		return 437
	case id >= 40 && id <= 42, id == 44, id == 49, id >= 55 && id <= 61:
		return 850
	case id >= 50 && id <= 54, id >= 71 && id <= 75, id >= 183 && id <= 186, id >= 210 && id <= 217:
		return 1252
	case id >= 80 && id <= 96:
		return 1250
	case id >= 104 && id <= 108:
		return 1251
	case id >= 112 && id <= 114, id == 121, id == 124:
		return 1253
	case id >= 128 && id <= 130:
		return 1254
	case id >= 136 && id <= 138:
		return 1255
	case id >= 144 && id <= 146:
		return 1256
	case id >= 152 && id <= 160:
		return 1257
	case id >= 204 && id <= 206:
		return 874
	}
	return 0
}

func pageOfLanguage(lcid uint32) int {
	switch lcid {
	case 0x0409, 0x0407, 0x0809, 0x040C, 0x0410, 0x0413, 0x041D, 0x0414, 0x0406, 0x040B, 0x0416, 0x0816, 0x0403, 0x040F, 0x0C0A, 0x080A,
		0x10407, 0x0807, 0x0C07, 0x0C09, 0x1009, 0x0C0C, 0x080C, 0x0813, 0x0814, 0x0436, 0x0421, 0x0456, 0x043E:
		return 1252
	case 0x041C, 0x041A, 0x0405, 0x040E, 0x1040E, 0x0415, 0x0418, 0x041B, 0x0424, 0x0442, 0x081A, 0x141A:
		return 1250
	case 0x0423, 0x0402, 0x042F, 0x0419, 0x0C1A, 0x0422, 0x043F, 0x0444, 0x082C, 0x046D, 0x0485, 0x201A:
		return 1251
	case 0x0408:
		return 1253
	case 0x041F, 0x042C, 0x0443:
		return 1254
	case 0x040D:
		return 1255
	case 0x0401, 0x0801, 0x0C01, 0x1001, 0x1401, 0x1801, 0x1C01, 0x2001, 0x2401, 0x2801, 0x2C01, 0x3001, 0x3401, 0x3801, 0x3C01, 0x4001,
		0x0429, 0x0420, 0x0480, 0x048C:
		return 1256
	case 0x0425, 0x0426, 0x0427, 0x0827:
		return 1257
	case 0x042A:
		return 1258
	case 0x001E, 0x041E:
		return 874
	}
	return 0
}

// charset turns the bytes of a code page into characters. A byte that the page leaves open becomes U+FFFD.
type charset [256]rune

func newCharset(page int) *charset {
	var from *charmap.Charmap
	switch page {
	case 437:
		from = charmap.CodePage437
	case 850:
		from = charmap.CodePage850
	case 874:
		from = charmap.Windows874
	case 1250:
		from = charmap.Windows1250
	case 1251:
		from = charmap.Windows1251
	case 1252:
		from = charmap.Windows1252
	case 1253:
		from = charmap.Windows1253
	case 1254:
		from = charmap.Windows1254
	case 1255:
		from = charmap.Windows1255
	case 1256:
		from = charmap.Windows1256
	case 1257:
		from = charmap.Windows1257
	case 1258:
		from = charmap.Windows1258
	default:
		return nil
	}
	c := new(charset)
	for i := range c {
		c[i] = from.DecodeByte(byte(i))
		// The web's tables give the bytes that a Windows page leaves open the control characters of the same number.
		if i >= 0x80 && c[i] >= 0x80 && c[i] < 0xA0 || page == 1255 && i == 0xCA {
			c[i] = utf8.RuneError
		}
	}
	return c
}
