package sqltype

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// TextLen is the length of a text in UTF-16 units, which is what LEN counts and
// nvarchar(n) limits.
func TextLen(s string) int {
	if isASCII(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// typeCollation finds the collation of a type, nil for the default.
func typeCollation(t Type) *Collation {
	if t.Collation == "" {
		return nil
	}
	c, ok := LookupCollation(t.Collation)
	if !ok {
		return nil
	}
	return c
}

// declaredLen measures s in the unit of the type's Length.
func declaredLen(s string, t Type) int {
	if t.Kind.IsUnicode() {
		return TextLen(s)
	}
	if isASCII(s) {
		return len(s)
	}
	return typeCollation(t).varCharLen(s)
}

// textTooLong tells whether storing s in t would lose more than blanks.
func textTooLong(s string, t Type) bool {
	if len(s) <= t.Length {
		return false
	}
	return declaredLen(strings.TrimRight(s, " "), t) > t.Length
}

// fitText cuts s to the length of the type and pads char and nchar with blanks.
func fitText(s string, t Type) string {
	if !t.Kind.IsUnicode() && !isASCII(s) {
		s = typeCollation(t).toCodePage(s)
	}
	if t.Length <= 0 {
		return s
	}
	if len(s) > t.Length && declaredLen(s, t) > t.Length {
		s = cutText(s, t)
	}
	if t.Kind == KindChar || t.Kind == KindNChar {
		if n := declaredLen(s, t); n < t.Length {
			s += strings.Repeat(" ", t.Length-n)
		}
	}
	return s
}

func cutText(s string, t Type) string {
	if isASCII(s) {
		return s[:t.Length]
	}
	n := 0
	for i, r := range s {
		w := 1
		switch {
		case t.Kind.IsUnicode() && r > 0xFFFF:
			w = 2
		case !t.Kind.IsUnicode() && r >= utf8.RuneSelf:
			w = typeCollation(t).varCharLen(string(r))
		}
		if n+w > t.Length {
			return s[:i]
		}
		n += w
	}
	return s
}

func toText(v Value, to Type, style int) (Value, error) {
	if v.kind.IsText() {
		return Value{kind: to.Kind, s: fitText(v.s, to)}, nil
	}
	if v.kind.IsBinary() {
		return textFromBinary(v, to, style)
	}
	s, err := formatValue(v, to.Kind, style)
	if err != nil {
		return Value{}, err
	}
	if to.Length > 0 && len(s) > to.Length {
		if s, err = tooNarrow(v, s, to); err != nil {
			return Value{}, err
		}
	}
	return Value{kind: to.Kind, s: fitText(s, to)}, nil
}

// tooNarrow decides what happens when a number, date or identifier does not fit.
func tooNarrow(v Value, s string, to Type) (string, error) {
	switch {
	case v.kind.IsTemporal():
		return s, nil // cut
	case v.kind == KindUniqueIdentifier:
		return "", sqlerr.Make(8170)
	case v.kind.IsInteger() && !to.Kind.IsUnicode():
		return "*", nil
	case v.kind.IsMoney():
		return "", sqlerr.Make(234, to.Kind.String())
	case v.kind.IsInteger():
		return "", overflow("expression", to.Kind, 2)
	}
	return "", overflow(v.kind.errorName(), to.Kind, 5)
}

func formatValue(v Value, to Kind, style int) (string, error) {
	switch {
	case v.kind.IsInteger():
		return strconv.FormatInt(v.a, 10), nil
	case v.kind == KindDecimal:
		return v.Number().String(), nil
	case v.kind.IsFloat():
		return formatFloat(v, style), nil
	case v.kind.IsMoney():
		return formatMoney(v, style), nil
	case v.kind.IsTemporal():
		s, ok := formatTemporal(v, style)
		if !ok {
			return "", sqlerr.Make(281, style, v.kind.String())
		}
		return s, nil
	}
	return formatUUID(v), nil
}

// String gives the value as CONVERT to nvarchar(max) does with the default style, binary as hex
// digits. It is for messages and tests.
func (v Value) String() string {
	switch {
	case v.kind == KindNull:
		return "NULL"
	case v.kind.IsText():
		return v.s
	case v.kind.IsBinary():
		return "0x" + strings.ToUpper(hex.EncodeToString([]byte(v.s)))
	case v.kind.IsMoney():
		return formatMoney(v, 2)
	case v.kind.IsTemporal():
		s, _ := formatTemporal(v, 121)
		return s
	case v.kind.IsFloat():
		return strconv.FormatFloat(v.Float64(), 'g', -1, 64)
	}
	s, err := formatValue(v, KindNVarChar, DefaultStyle)
	if err != nil {
		return err.Error()
	}
	return s
}

func formatUUID(v Value) string {
	u := v.UUID()
	h := strings.ToUpper(hex.EncodeToString(u[:]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// textFromBinary: style 0 takes the bytes for characters, 1 writes 0x and hex
// digits, 2 the digits alone.
func textFromBinary(v Value, to Type, style int) (Value, error) {
	var s string
	switch style {
	case DefaultStyle, 0:
		s = textFromBytes(v.s, to)
	case 1:
		s = hexText("0x", v.s)
	case 2:
		s = hexText("", v.s)
	default:
		return Value{}, sqlerr.Make(9809, style, v.kind.errorName(), to.Kind.errorName())
	}
	return Value{kind: to.Kind, s: fitText(s, to)}, nil
}

func hexText(prefix, b string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(prefix)+2*len(b))
	out = append(out, prefix...)
	for i := range len(b) {
		out = append(out, digits[b[i]>>4], digits[b[i]&15])
	}
	return string(out)
}

func textFromBytes(b string, to Type) string {
	if !to.Kind.IsUnicode() {
		return typeCollation(to).DecodeVarChar(b)
	}
	if len(b)%2 == 1 {
		b += "\x00"
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
	}
	return string(utf16.Decode(units))
}

// EncodeUTF16 gives the bytes of an nvarchar: UTF-16, little-endian.
func EncodeUTF16(s string) string {
	out := make([]byte, 0, 2*len(s))
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

func toUUID(v Value) (Value, error) {
	if v.kind.IsBinary() {
		var wire [16]byte
		copy(wire[:], v.s)
		return UniqueIdentifier(swapUUID(wire)), nil
	}
	if v.kind == KindUniqueIdentifier {
		return v, nil
	}
	s := strings.TrimPrefix(trimBlanks(v.s), "{")
	if len(s) < 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return Value{}, sqlerr.Make(8169)
	}
	b, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36])
	if err != nil {
		return Value{}, sqlerr.Make(8169)
	}
	return UniqueIdentifier([16]byte(b)), nil
}

// swapUUID changes between the order of the text and that of the wire.
func swapUUID(u [16]byte) [16]byte {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]
	return u
}
