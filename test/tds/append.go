package tds

import (
	"encoding/binary"
	"math"
)

// The Append functions append one value of a column as it stands in a ROW token, or in a parameter. They do not check
// that the value belongs to the type or fits it: [Row] and [AppendValue] do. None of them allocates when dst has room.

// AppendNull appends NULL. For a type of fixed length, which has none, it appends a zero value.
func AppendNull(dst []byte, t *TypeInfo) []byte {
	switch t.ID {
	case IDChar, IDVarChar, IDNChar, IDNVarChar, IDBinary, IDVarBinary:
		if t.IsPLP() {
			return append(dst, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)
		}
		return append(dst, 0xFF, 0xFF)
	case IDXML, IDUDT:
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)
	case IDVariant:
		return append(dst, 0, 0, 0, 0)
	case IDNull:
		return dst
	default:
		n := t.ID.fixedSize()
		if n < 0 {
			n = 1 // the length byte, or the length of the text pointer
		}
		return append(dst, make([]byte, n)...)
	}
}

// AppendInt appends a tinyint, smallint, int, bigint or bit; a bit is 1 unless v is 0.
func AppendInt(dst []byte, t *TypeInfo, v int64) []byte {
	if t.ID == IDIntN {
		switch t.Size {
		case 4:
			return append(dst, 4, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		case 8:
			return binary.LittleEndian.AppendUint64(append(dst, 8), uint64(v))
		case 2:
			return append(dst, 2, byte(v), byte(v>>8))
		default:
			return append(dst, 1, byte(v))
		}
	}
	switch t.ID {
	case IDInt4:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	case IDInt8:
		return binary.LittleEndian.AppendUint64(dst, uint64(v))
	case IDInt2:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	case IDInt1:
		return append(dst, byte(v))
	}
	if v != 0 {
		v = 1
	}
	if t.ID == IDBitN {
		return append(dst, 1, byte(v))
	}
	return append(dst, byte(v))
}

// AppendFloat appends a real or float.
func AppendFloat(dst []byte, t *TypeInfo, v float64) []byte {
	size := t.Size
	if t.ID == IDFloatN {
		dst = append(dst, byte(size))
	} else {
		size = t.ID.fixedSize()
	}
	if size == 4 {
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// AppendDecimal appends a decimal or numeric: the magnitude hi×2^64+lo in units of the type's scale. See [TypeDecimal]
// for the length.
func AppendDecimal(dst []byte, t *TypeInfo, negative bool, hi, lo uint64) []byte {
	size := t.Size
	if size == decimalMax {
		size = smallestDecimal(hi, lo)
	}
	sign := byte(1)
	if negative {
		sign = 0
	}
	dst = append(dst, byte(size), sign)
	switch size {
	case 5:
		return binary.LittleEndian.AppendUint32(dst, uint32(lo))
	case 9:
		return binary.LittleEndian.AppendUint64(dst, lo)
	case 13:
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(dst, lo), uint32(hi))
	default:
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, lo), hi)
	}
}

// smallestDecimal gives the smallest of the four sizes that holds the magnitude.
func smallestDecimal(hi, lo uint64) int {
	switch {
	case hi == 0 && lo <= math.MaxUint32:
		return 5
	case hi == 0:
		return 9
	case hi <= math.MaxUint32:
		return 13
	default:
		return 17
	}
}

// AppendMoney appends a money or smallmoney. The eight bytes of money are the high half, then the low half.
func AppendMoney(dst []byte, t *TypeInfo, v Money) []byte {
	size := t.Size
	if t.ID == IDMoneyN {
		dst = append(dst, byte(size))
	} else {
		size = t.ID.fixedSize()
	}
	if size == 4 {
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(v>>32))
	return binary.LittleEndian.AppendUint32(dst, uint32(v))
}

// AppendDate appends a date.
func AppendDate(dst []byte, d Date) []byte {
	return append(dst, 3, byte(d), byte(d>>8), byte(d>>16))
}

// timeSize gives the bytes of a time of day at a scale.
func timeSize(scale uint8) int {
	switch {
	case scale <= 2:
		return 3
	case scale <= 4:
		return 4
	default:
		return 5
	}
}

// timeUnit gives the 100 ns units of one unit of a scale.
func timeUnit(scale uint8) int64 {
	switch scale {
	case 0:
		return 10_000_000
	case 1:
		return 1_000_000
	case 2:
		return 100_000
	case 3:
		return 10_000
	case 4:
		return 1_000
	case 5:
		return 100
	case 6:
		return 10
	default:
		return 1
	}
}

// appendTimeUnits appends a time of day without a length.
func appendTimeUnits(dst []byte, scale uint8, t Time) []byte {
	v := uint64(t)
	if scale < 7 {
		v = uint64(int64(t) / timeUnit(scale))
	}
	switch timeSize(scale) {
	case 3:
		return append(dst, byte(v), byte(v>>8), byte(v>>16))
	case 4:
		return append(dst, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	default:
		return append(dst, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32))
	}
}

// AppendTime appends a time(scale); digits beyond the scale are dropped.
func AppendTime(dst []byte, scale uint8, t Time) []byte {
	return appendTimeUnits(append(dst, byte(timeSize(scale))), scale, t)
}

// AppendDateTime2 appends a datetime2(scale); digits beyond the scale are dropped.
func AppendDateTime2(dst []byte, scale uint8, d Date, t Time) []byte {
	if scale == 7 {
		return append(dst, 8, byte(t), byte(t>>8), byte(t>>16), byte(t>>24), byte(t>>32), byte(d), byte(d>>8), byte(d>>16))
	}
	dst = appendTimeUnits(append(dst, byte(timeSize(scale)+3)), scale, t)
	return append(dst, byte(d), byte(d>>8), byte(d>>16))
}

// AppendDateTimeOffset appends a datetimeoffset(scale). Date and time are UTC; offset is in minutes.
func AppendDateTimeOffset(dst []byte, scale uint8, d Date, t Time, offset int16) []byte {
	dst = appendTimeUnits(append(dst, byte(timeSize(scale)+5)), scale, t)
	return append(dst, byte(d), byte(d>>8), byte(d>>16), byte(offset), byte(offset>>8))
}

// AppendDateTime appends a datetime.
func AppendDateTime(dst []byte, t *TypeInfo, d DateTime) []byte {
	if t.ID == IDDateTimeN {
		dst = append(dst, 8)
	}
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(dst, uint32(d.Days)), d.Ticks)
}

// AppendSmallDateTime appends a smalldatetime.
func AppendSmallDateTime(dst []byte, t *TypeInfo, d SmallDateTime) []byte {
	if t.ID == IDDateTimeN {
		dst = append(dst, 4)
	}
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(dst, d.Days), d.Minutes)
}

// AppendUUID appends a uniqueidentifier.
func AppendUUID(dst []byte, u UUID) []byte {
	w := u.wire()
	return append(append(dst, 16), w[:]...)
}

// textPointer stands in front of a text, ntext or image value: the length of the pointer, 16 bytes of it and a timestamp
// of 8 bytes. Clients read past it; SQL Server fills both with this text when there is no real pointer.
const textPointer = "\x10dummy textptr\x00\x00\x00dummyTS\x00"

// AppendBytes appends the bytes of a value of variable length as they are: binary, varbinary, rowversion, image, a CLR
// value, or text that is encoded already. A (max) value is one chunk with a known length; [AppendPLP] gives the choice.
func AppendBytes(dst []byte, t *TypeInfo, b []byte) []byte {
	switch {
	case t.Size == Max || t.ID == IDXML:
		return AppendPLP(dst, b, PLP{})
	case t.isLOB():
		dst = append(dst, textPointer...)
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(b))), b...)
	default:
		return append(append(dst, byte(len(b)), byte(len(b)>>8)), b...)
	}
}

// AppendString appends a text value, s being UTF-8 (see [Value] for lone surrogates): UTF-16 for the n types and xml, the
// collation's code page for the others. A (max) value is one chunk with a known length.
func AppendString(dst []byte, t *TypeInfo, s string) []byte {
	if t.Size == Max || t.ID == IDXML || t.isLOB() {
		return appendLongString(dst, t, s)
	}
	at := len(dst)
	dst = appendText(append(dst, 0, 0), t, s)
	binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// appendLongString appends a text value that is not counted by two bytes.
func appendLongString(dst []byte, t *TypeInfo, s string) []byte {
	at := len(dst)
	if t.isLOB() {
		dst = append(dst, textPointer...)
		at = len(dst)
		dst = appendText(append(dst, 0, 0, 0, 0), t, s)
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
		return dst
	}
	var head [12]byte // total length and the length of the one chunk
	dst = appendText(append(dst, head[:]...), t, s)
	n := len(dst) - at - len(head)
	binary.LittleEndian.PutUint64(dst[at:], uint64(n))
	if n == 0 {
		return dst[:at+12] // no chunk: its length is the terminator
	}
	binary.LittleEndian.PutUint32(dst[at+8:], uint32(n))
	return append(dst, 0, 0, 0, 0)
}

// appendText appends the text's bytes without a length.
func appendText(dst []byte, t *TypeInfo, s string) []byte {
	if t.IsUnicode() {
		return appendUTF16(dst, s)
	}
	return appendCodePage(dst, s, t.Collation)
}

// PLP says how a (max) value is cut. The zero value is one chunk of any size with the total length in front, as SQL Server
// sends values it has at hand.
type PLP struct {
	Chunk   int  // bytes of a chunk, 0 for one chunk
	Unknown bool // the total is the "unknown length" marker, as SQL Server sends xml
}

// plpUnknown is the total that stands for an unknown length, plpNull the one for NULL.
const (
	plpUnknown uint64 = 0xFFFFFFFFFFFFFFFE
	plpNull    uint64 = 0xFFFFFFFFFFFFFFFF
)

// AppendPLP appends b as a value in chunks (MS-TDS 2.2.5.2.3).
func AppendPLP(dst, b []byte, p PLP) []byte {
	total := uint64(len(b))
	if p.Unknown {
		total = plpUnknown
	}
	dst = binary.LittleEndian.AppendUint64(dst, total)
	chunk := p.Chunk
	if chunk <= 0 {
		chunk = max(1, len(b))
	}
	for len(b) > 0 {
		n := min(chunk, len(b))
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(n)), b[:n]...)
		b = b[n:]
	}
	return append(dst, 0, 0, 0, 0)
}
