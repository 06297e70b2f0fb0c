package sqltype

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/unicode/norm"
)

// Collation is the order of a character type and the code page of its
// varchar. A nil Collation stands for [DefaultCollation]. It is immutable.
type Collation struct {
	Name            string
	Binary          bool // _BIN or _BIN2: code point order
	CaseSensitive   bool
	AccentSensitive bool
	UTF8            bool
	CodePage        int // of varchar; 65001 for UTF8
}

// LookupCollation finds a collation by name (any case). It knows the names by
// their shape: a known language, then suffixes.
func LookupCollation(name string) (*Collation, bool) {
	upper := strings.ToUpper(name)
	c := &Collation{Name: name, AccentSensitive: true}
	if upper == "DATABASE_DEFAULT" || upper == "CATALOG_DEFAULT" || upper == "" {
		return defaultCollation(), true
	}
	family, ok := codePageOf(upper)
	if !ok {
		return nil, false
	}
	c.CodePage = family
	seen := false
	for part := range strings.SplitSeq(upper, "_") {
		switch part {
		case "BIN", "BIN2":
			c.Binary, c.CaseSensitive, seen = true, true, true
		case "CS":
			c.CaseSensitive, seen = true, true
		case "CI":
			seen = true
		case "AI":
			c.AccentSensitive = false
		case "UTF8":
			c.UTF8, c.CodePage = true, 65001
		}
	}
	return c, seen
}

func defaultCollation() *Collation {
	return &Collation{Name: DefaultCollation, AccentSensitive: true, CodePage: 1252}
}

// codePageOf gives the code page of the language a collation is named after.
func codePageOf(upper string) (int, bool) {
	for _, f := range collationFamilies {
		if strings.HasPrefix(upper, f.prefix) {
			return f.page, true
		}
	}
	return 0, false
}

var collationFamilies = [...]struct {
	prefix string
	page   int
}{
	{"SQL_LATIN1_GENERAL_CP1251_", 1251}, {"SQL_LATIN1_GENERAL_CP1250_", 1250}, {"SQL_LATIN1_GENERAL_CP437_", 437},
	{"SQL_LATIN1_GENERAL_CP850_", 850}, {"SQL_LATIN1_GENERAL_", 1252}, {"LATIN1_GENERAL_", 1252},
	{"JAPANESE_", 932}, {"CHINESE_PRC_", 936}, {"CHINESE_SIMPLIFIED_", 936}, {"KOREAN_", 949},
	{"CHINESE_TAIWAN_", 950}, {"CHINESE_TRADITIONAL_", 950}, {"CYRILLIC_GENERAL_", 1251}, {"UKRAINIAN_", 1251},
	{"POLISH_", 1250}, {"CZECH_", 1250}, {"HUNGARIAN_", 1250}, {"ROMANIAN_", 1250}, {"GREEK_", 1253},
	{"TURKISH_", 1254}, {"HEBREW_", 1255}, {"ARABIC_", 1256}, {"VIETNAMESE_", 1258}, {"THAI_", 874},
	{"FRENCH_", 1252}, {"MODERN_SPANISH_", 1252}, {"TRADITIONAL_SPANISH_", 1252}, {"DANISH_", 1252},
	{"FINNISH_SWEDISH_", 1252}, {"GERMAN_PHONEBOOK_", 1252}, {"ICELANDIC_", 1252}, {"ALBANIAN_", 1250},
	{"ESTONIAN_", 1257}, {"LATVIAN_", 1257}, {"LITHUANIAN_", 1257}, {"CROATIAN_", 1250}, {"SLOVAK_", 1250},
	{"SLOVENIAN_", 1250}, {"INDIC_GENERAL_", 1252},
}

// pageEncoding gives the encoding of a code page, nil for one that is unknown.
func pageEncoding(page int) encoding.Encoding {
	switch page {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	case 874:
		return charmap.Windows874
	case 932:
		return japanese.ShiftJIS
	case 936:
		return simplifiedchinese.GBK
	case 949:
		return korean.EUCKR
	case 950:
		return traditionalchinese.Big5
	case 1250:
		return charmap.Windows1250
	case 1251:
		return charmap.Windows1251
	case 1253:
		return charmap.Windows1253
	case 1254:
		return charmap.Windows1254
	case 1255:
		return charmap.Windows1255
	case 1256:
		return charmap.Windows1256
	case 1257:
		return charmap.Windows1257
	case 1258:
		return charmap.Windows1258
	}
	return charmap.Windows1252
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// toCodePage replaces the characters that a varchar of the collation cannot
// hold by question marks.
func (c *Collation) toCodePage(s string) string {
	if isASCII(s) || c != nil && c.UTF8 {
		return s
	}
	enc := pageEncoding(c.page()).NewEncoder()
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		if _, err := enc.String(string(r)); err != nil {
			b.WriteByte('?')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (c *Collation) page() int {
	if c == nil {
		return 1252
	}
	return c.CodePage
}

// EncodeVarChar gives the bytes of a varchar in the collation's code page.
func (c *Collation) EncodeVarChar(s string) string {
	if isASCII(s) || c != nil && c.UTF8 {
		return s
	}
	out, err := encoding.ReplaceUnsupported(pageEncoding(c.page()).NewEncoder()).String(s)
	if err != nil {
		return s
	}
	return strings.ReplaceAll(out, "\x1a", "?")
}

// DecodeVarChar is the inverse of EncodeVarChar; invalid bytes become U+FFFD.
func (c *Collation) DecodeVarChar(b string) string {
	if isASCII(b) {
		return b
	}
	if c != nil && c.UTF8 {
		return strings.ToValidUTF8(b, "\uFFFD")
	}
	out, err := pageEncoding(c.page()).NewDecoder().String(b)
	if err != nil {
		return strings.ToValidUTF8(b, "\uFFFD")
	}
	return out
}

// varCharLen is the number of bytes of s in the code page.
func (c *Collation) varCharLen(s string) int {
	if isASCII(s) || c != nil && c.UTF8 {
		return len(s)
	}
	return len(c.EncodeVarChar(s))
}

// CompareText compares two strings; trailing blanks do not count.
func (c *Collation) CompareText(a, b string) int {
	a, b = strings.TrimRight(a, " "), strings.TrimRight(b, " ")
	if c != nil && c.Binary {
		return strings.Compare(a, b)
	}
	if a == b {
		return 0
	}
	return c.compareWeights(a, b)
}

// compareWeights compares by base letters first, then accents, then case.
func (c *Collation) compareWeights(a, b string) int {
	tie := 0 // first secondary or tertiary difference
	for a != "" && b != "" {
		ra, na := nextRune(a)
		rb, nb := nextRune(b)
		a, b = a[na:], b[nb:]
		if ra == rb {
			continue
		}
		wa, wb := weigh(ra), weigh(rb)
		if wa.primary != wb.primary {
			if wa.primary < wb.primary {
				return -1
			}
			return 1
		}
		if tie == 0 && (c == nil || c.AccentSensitive) && wa.accent != wb.accent {
			tie = cmpRune(wa.accent, wb.accent) * 2
		}
		if tie == 0 && c != nil && c.CaseSensitive && wa.upper != wb.upper {
			tie = 1
			if wb.upper {
				tie = -1
			}
		}
	}
	switch {
	case a != "":
		return 1
	case b != "":
		return -1
	case tie < 0:
		return -1
	case tie > 0:
		return 1
	}
	return 0
}

func cmpRune(a, b rune) int {
	if a < b {
		return -1
	}
	return 1
}

func nextRune(s string) (rune, int) {
	if c := s[0]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s)
}

type weight struct {
	primary int32
	accent  rune
	upper   bool
}

// weigh ranks a rune: blanks, then punctuation, then digits, then letters by
// their base letter.
func weigh(r rune) weight {
	if r < utf8.RuneSelf {
		return weighASCII(r)
	}
	w := weight{upper: unicode.IsUpper(r)}
	base := unicode.ToLower(r)
	if d := norm.NFD.PropertiesString(string(base)).Decomposition(); len(d) > 0 {
		first, n := utf8.DecodeRune(d)
		if unicode.IsLetter(first) {
			base = first
			w.accent, _ = utf8.DecodeRune(d[n:])
		}
	}
	if base < utf8.RuneSelf {
		w.primary = weighASCII(base).primary
		return w
	}
	w.primary = int32(base) + 1<<16
	return w
}

func weighASCII(r rune) weight {
	switch {
	case 'a' <= r && r <= 'z':
		return weight{primary: int32(r-'a')*8 + 1<<12}
	case 'A' <= r && r <= 'Z':
		return weight{primary: int32(r-'A')*8 + 1<<12, upper: true}
	case '0' <= r && r <= '9':
		return weight{primary: r + 1<<10}
	}
	return weight{primary: r}
}

// Key gives a string that is equal for two strings exactly when CompareText
// finds them equal: for hashing in GROUP BY, DISTINCT and set operations.
func (c *Collation) Key(s string) string {
	s = strings.TrimRight(s, " ")
	if c != nil && (c.Binary || c.CaseSensitive && c.AccentSensitive) {
		return s
	}
	lowerOnly := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || 'A' <= s[i] && s[i] <= 'Z' {
			lowerOnly = false
			break
		}
	}
	if lowerOnly {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if c == nil || !c.CaseSensitive {
			r = unicode.ToLower(r)
		}
		if c != nil && !c.AccentSensitive {
			r = stripAccent(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func stripAccent(r rune) rune {
	if r < utf8.RuneSelf {
		return r
	}
	if d := norm.NFD.PropertiesString(string(r)).Decomposition(); len(d) > 0 {
		if first, _ := utf8.DecodeRune(d); unicode.IsLetter(first) {
			return first
		}
	}
	return r
}

// DefaultKey is the [Collation.Key] of the default collation: for looking names up.
func DefaultKey(s string) string { return (*Collation)(nil).Key(s) }
