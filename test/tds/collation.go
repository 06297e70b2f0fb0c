package tds

import (
	"encoding/binary"
	"fmt"
)

// Collation is the 5-byte collation of a text type: a little-endian word of locale (20 bits), comparison flags (8 bits) and
// version (4 bits), and the sort id of a SQL collation (MS-TDS 2.2.5.1.2).
type Collation [5]byte

// Collations that a test needs. Their bytes are what SQL Server sends for the name.
const (
	collationLatin1 = 0x00409
	flagsCIAS       = 0x00D00000
	flagBinary2     = 0x02000000
	flagUTF8        = 0x04000000
	version100      = 0x20000000
)

// CollationDefault is SQL_Latin1_General_CP1_CI_AS, code page 1252: the default of an English server.
func CollationDefault() Collation { return NewCollation(collationLatin1|flagsCIAS, 52) }

// CollationLatin1BIN2 is Latin1_General_100_BIN2, code page 1252.
func CollationLatin1BIN2() Collation { return NewCollation(collationLatin1|flagBinary2|version100, 0) }

// CollationUTF8 is Latin1_General_100_CI_AS_SC_UTF8: char and varchar hold UTF-8.
func CollationUTF8() Collation {
	return NewCollation(collationLatin1|flagsCIAS|flagUTF8|version100, 0)
}

// CollationJapanese is Japanese_CI_AS, code page 932.
func CollationJapanese() Collation { return NewCollation(0x00411|flagsCIAS, 0) }

// CollationChinese is Chinese_PRC_CI_AS, code page 936.
func CollationChinese() Collation { return NewCollation(0x00804|flagsCIAS, 0) }

// NewCollation makes the five bytes from the word of locale, flags and version, and the sort id (0 for Windows collations).
func NewCollation(word uint32, sortID uint8) Collation {
	var c Collation
	binary.LittleEndian.PutUint32(c[:], word)
	c[4] = sortID
	return c
}

// word gives locale, flags and version.
func (c Collation) word() uint32 { return binary.LittleEndian.Uint32(c[:]) }

// LCID gives the Windows locale.
func (c Collation) LCID() uint32 { return c.word() & 0xFFFFF }

// SortID gives the sort order of a SQL collation; 0 means a Windows collation.
func (c Collation) SortID() uint8 { return c[4] }

// IsUTF8 reports whether char and varchar of the collation hold UTF-8.
func (c Collation) IsUTF8() bool { return c.word()&flagUTF8 != 0 }

// IsZero reports an absent collation; text of it is treated as code page 1252.
func (c Collation) IsZero() bool { return c == Collation{} }

// String gives the bytes in hex, as protocol traces print them.
func (c Collation) String() string { return fmt.Sprintf("%x", c[:]) }

// CodePage gives the Windows code page of char and varchar, 65001 for UTF-8, 0 for locales that have none (their text is
// Unicode only; SQL Server refuses varchar there).
func (c Collation) CodePage() int {
	if c.IsUTF8() {
		return 65001
	}
	if c.SortID() != 0 {
		return sortPage(c.SortID())
	}
	return localePage(c.LCID())
}

// sortPage gives the code page of a SQL collation's sort order (MS-TDS 2.2.5.1.2, SortId; names in sys.syscharsets).
func sortPage(id uint8) int {
	switch {
	case id >= 30 && id <= 35:
		return 437
	case id >= 40 && id <= 49, id >= 55 && id <= 61:
		return 850
	case id >= 80 && id <= 98:
		return 1250
	case id >= 104 && id <= 108:
		return 1251
	case id >= 112 && id <= 124:
		return 1253
	case id >= 128 && id <= 130:
		return 1254
	case id >= 136 && id <= 138:
		return 1255
	case id >= 144 && id <= 146:
		return 1256
	case id >= 152 && id <= 160:
		return 1257
	case id == 192, id == 193, id == 200:
		return 932
	case id == 194, id == 195, id == 201:
		return 949
	case id == 196, id == 197, id == 202:
		return 950
	case id == 198, id == 199, id == 203:
		return 936
	case id >= 204 && id <= 206:
		return 874
	default:
		return 1252
	}
}

// localePage gives the ANSI code page of a Windows locale (MS-LCID). The table lists the locales SQL Server has collations
// for; what is not listed is a Western one.
func localePage(lcid uint32) int {
	switch lcid & 0xFFFF { // the upper bits choose a sort order of the same locale
	case 0x0405, 0x040E, 0x0415, 0x0418, 0x041A, 0x041B, 0x041C, 0x0424, 0x0442, 0x081A, 0x101A, 0x141A:
		return 1250
	case 0x0402, 0x0419, 0x0422, 0x0423, 0x042F, 0x0440, 0x043F, 0x0444, 0x0450, 0x046D, 0x0485, 0x0C1A, 0x1C1A, 0x082C, 0x0843, 0x201A:
		return 1251
	case 0x0408:
		return 1253
	case 0x041F, 0x042C, 0x0443:
		return 1254
	case 0x040D:
		return 1255
	case 0x0401, 0x0420, 0x0429, 0x0480, 0x048C:
		return 1256
	case 0x0425, 0x0426, 0x0427, 0x0827:
		return 1257
	case 0x042A:
		return 1258
	case 0x041E:
		return 874
	case 0x0411:
		return 932
	case 0x0804, 0x1004:
		return 936
	case 0x0412:
		return 949
	case 0x0404, 0x0C04, 0x1404:
		return 950
	case 0x0439, 0x043A, 0x0445, 0x044D, 0x0437, 0x045A, 0x0461, 0x0463, 0x0465, 0x0481, 0x0451, 0x0453, 0x0454, 0x042B:
		return 0
	default:
		return 1252
	}
}
