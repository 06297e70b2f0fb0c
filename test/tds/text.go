package tds

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// load8 gives eight bytes of s from i on as a little-endian number; the compiler makes it one load.
func load8(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// highBits marks the top bit of each byte: none is set in ASCII.
const highBits = 0x8080808080808080

// asciiLen gives the length of the ASCII text that s begins with.
func asciiLen(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if load8(s, i)&highBits != 0 {
			break
		}
	}
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// spread puts a zero byte behind each of four bytes.
func spread(x uint64) uint64 {
	x = (x | x<<16) & 0x0000FFFF0000FFFF
	return (x | x<<8) & 0x00FF00FF00FF00FF
}

// appendUTF16 appends s as UTF-16LE. Surrogates in WTF-8 form come out as they are; other bytes that are no UTF-8 become
// U+FFFD.
func appendUTF16(dst []byte, s string) []byte {
	i, at := 0, len(dst)
	dst = slices.Grow(dst, 2*len(s))[:at+2*len(s)]
	for ; i+8 <= len(s); i += 8 {
		x := load8(s, i)
		if x&highBits != 0 {
			break
		}
		out := dst[at+2*i : at+2*i+16]
		binary.LittleEndian.PutUint64(out, spread(x&0xFFFFFFFF))
		binary.LittleEndian.PutUint64(out[8:], spread(x>>32))
	}
	for ; i < len(s) && s[i] < utf8.RuneSelf; i++ {
		dst[at+2*i], dst[at+2*i+1] = s[i], 0
	}
	return appendWide(dst[:at+2*i], s[i:])
}

// appendWide is appendUTF16 a character at a time.
func appendWide(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			dst = append(dst, c, 0)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			if unit, ok := surrogate(s[i:]); ok {
				dst = append(dst, byte(unit), byte(unit>>8))
				i += 3
				continue
			}
		}
		i += n
		if r < 0x10000 {
			dst = append(dst, byte(r), byte(r>>8))
			continue
		}
		hi, lo := utf16.EncodeRune(r)
		dst = append(dst, byte(hi), byte(hi>>8), byte(lo), byte(lo>>8))
	}
	return dst
}

// surrogate reads a lone surrogate in WTF-8 form: ED A0..BF 80..BF.
func surrogate(s string) (uint16, bool) {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | uint16(s[1]&0x3F)<<6 | uint16(s[2]&0x3F), true
}

// decodeUTF16 reads UTF-16LE; b has an even length. Lone surrogates become WTF-8.
func decodeUTF16(b []byte) string {
	out := make([]byte, 0, len(b)/2+len(b)/8)
	for i := 0; i+1 < len(b); i += 2 {
		unit := rune(binary.LittleEndian.Uint16(b[i:]))
		if !utf16.IsSurrogate(unit) {
			out = utf8.AppendRune(out, unit)
			continue
		}
		if i+3 < len(b) {
			if r := utf16.DecodeRune(unit, rune(binary.LittleEndian.Uint16(b[i+2:]))); r != utf8.RuneError {
				out = utf8.AppendRune(out, r)
				i += 2
				continue
			}
		}
		out = append(out, 0xED, 0x80|byte(unit>>6)&0x3F, 0x80|byte(unit)&0x3F)
	}
	return string(out)
}

// cutUnits gives the longest start of s with at most n UTF-16 units.
func cutUnits(s string, n int) string {
	if len(s) <= n {
		return s // never more units than bytes
	}
	for i, r := range s {
		need := 1
		if r >= 0x10000 {
			need = 2
		}
		if n < need {
			return s[:i]
		}
		n -= need
	}
	return s
}

// appendBVarchar appends a length of one byte in UTF-16 units, and the text; what does not fit is cut.
func appendBVarchar(dst []byte, s string) []byte {
	s = cutUnits(s, 255)
	at := len(dst)
	dst = appendUTF16(append(dst, 0), s)
	dst[at] = byte((len(dst) - at - 1) / 2)
	return dst
}

// appendUSVarchar appends a length of two bytes in UTF-16 units, and the text; what does not fit is cut.
func appendUSVarchar(dst []byte, s string) []byte {
	s = cutUnits(s, 65535)
	at := len(dst)
	dst = appendUTF16(append(dst, 0, 0), s)
	binary.LittleEndian.PutUint16(dst[at:], uint16((len(dst)-at-2)/2))
	return dst
}

// singleByte gives the table of a single-byte code page, nil for the others.
func singleByte(page int) *charmap.Charmap {
	switch page {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	case 874:
		return charmap.Windows874
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
	case 1252, 0:
		return charmap.Windows1252
	default:
		return nil
	}
}

// multiByte gives the encoding of a double-byte code page.
func multiByte(page int) encoding.Encoding {
	switch page {
	case 932:
		return japanese.ShiftJIS
	case 936:
		return simplifiedchinese.GBK
	case 949:
		return korean.EUCKR
	default:
		return traditionalchinese.Big5
	}
}

// appendCodePage appends s in the collation's code page. A character the page lacks becomes '?', as on SQL Server when no
// best fit exists. Only double-byte pages allocate, and only for text outside ASCII.
func appendCodePage(dst []byte, s string, c Collation) []byte {
	ascii := asciiLen(s)
	dst = append(dst, s[:ascii]...)
	if ascii == len(s) {
		return dst
	}
	return appendPage(dst, s[ascii:], c)
}

// appendPage is appendCodePage for text that does not begin with ASCII.
func appendPage(dst []byte, s string, c Collation) []byte {
	page := c.CodePage()
	if page == 65001 {
		return append(dst, s...)
	}
	if m := singleByte(page); m != nil {
		for _, r := range s {
			b, ok := m.EncodeRune(r)
			if !ok {
				b = '?'
			}
			dst = append(dst, b)
		}
		return dst
	}
	enc := multiByte(page).NewEncoder()
	for _, r := range s {
		b, err := enc.Bytes(utf8.AppendRune(nil, r))
		if err != nil {
			b = []byte{'?'}
		}
		dst = append(dst, b...)
	}
	return dst
}

// decodeCodePage reads text of the collation's code page; bytes that mean nothing there become U+FFFD.
func decodeCodePage(b []byte, c Collation) string {
	ascii := 0
	for ascii < len(b) && b[ascii] < utf8.RuneSelf {
		ascii++
	}
	page := c.CodePage()
	if ascii == len(b) || page == 65001 {
		return string(b)
	}
	if m := singleByte(page); m != nil {
		out := append(make([]byte, 0, len(b)+len(b)/2), b[:ascii]...)
		for _, x := range b[ascii:] {
			out = utf8.AppendRune(out, m.DecodeByte(x))
		}
		return string(out)
	}
	out, err := multiByte(page).NewDecoder().Bytes(b)
	if err != nil {
		return string(b[:ascii]) + string(utf8.RuneError)
	}
	return string(out)
}
