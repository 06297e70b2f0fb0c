package rowfilter

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	highBits8  = 0x8080808080808080
	highBits16 = 0xFF80FF80FF80FF80
)

// append adds the characters of v in UTF-8.
func (c *charset) append(dst, v []byte) []byte {
	for _, b := range v {
		if b < utf8.RuneSelf {
			dst = append(dst, b)
			continue
		}
		dst = utf8.AppendRune(dst, c[b])
	}
	return dst
}

func isASCII(v []byte) bool {
	for len(v) >= 8 {
		if binary.LittleEndian.Uint64(v)&highBits8 != 0 {
			return false
		}
		v = v[8:]
	}
	for _, b := range v {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendUTF16 adds little-endian UTF-16, whose length is even, in UTF-8. A surrogate without its other half becomes U+FFFD.
func appendUTF16(dst, v []byte) []byte {
	for len(v) >= 8 {
		x := binary.LittleEndian.Uint64(v)
		if x&highBits16 != 0 {
			break
		}
		dst = append(dst, byte(x), byte(x>>16), byte(x>>32), byte(x>>48))
		v = v[8:]
	}
	for len(v) >= 2 {
		r := rune(binary.LittleEndian.Uint16(v))
		v = v[2:]
		if r < utf8.RuneSelf {
			dst = append(dst, byte(r))
			continue
		}
		if utf16.IsSurrogate(r) {
			second := rune(0)
			if len(v) >= 2 {
				second = rune(binary.LittleEndian.Uint16(v))
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				v = v[2:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
