package rowfilter

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"
)

// maxDigits is the largest precision of a decimal; 10^38 fits into 127 bits.
const maxDigits = 38

// uint128 is an unsigned number of 128 bits.
type uint128 struct{ hi, lo uint64 }

// powers are those of ten.
var powers = func() [maxDigits + 1]uint128 {
	var p [maxDigits + 1]uint128
	p[0].lo = 1
	for i := 1; i < len(p); i++ {
		carry, low := bits.Mul64(p[i-1].lo, 10)
		p[i] = uint128{p[i-1].hi*10 + carry, low}
	}
	return p
}()

// valueFault says that a value is not what the column promises. It never holds the value.
type valueFault string

func (v valueFault) Error() string { return string(v) }

const (
	wrongSize   = malformed("a value of a length that its type does not have")
	wrongTime   = malformed("a time beyond the range of its type")
	wrongDigits = valueFault("more digits than the declared precision")
)

// Days from 0001-01-01 and from 1900-01-01 to 1970-01-01, and from 0001-01-01 to 9999-12-31.
const (
	unixDay  = 719_162
	unix1900 = 25_567
	lastDay  = 3_652_058

	microsADay = 86_400_000_000
	ticksADay  = 864_000_000_000 // of 100 ns
)

// put decodes a value that is not NULL.
func (c *column) put(v []byte) error {
	switch c.op {
	case opLSN:
		if len(v) != lsnWidth {
			return valueFault(fmt.Sprintf("%d bytes, want %d", len(v), lsnWidth))
		}
		c.values = append(c.values, v...)
	case opCopy4:
		binary.NativeEndian.PutUint32(c.extend(4), le32(v))
	case opCopy8:
		binary.NativeEndian.PutUint64(c.extend(8), le64(v))
	case opCopy2:
		binary.NativeEndian.PutUint16(c.extend(2), uint16(le16(v)))
	case opDecimal:
		return c.putDecimal(v)
	case opDateTime2:
		return c.putDateTime2(v)
	case opDateTime:
		ticks := int64(le32(v[4:]))
		return c.putMicros((int64(int32(le32(v)))-unix1900)*microsADay + ticks/300*1_000_000 + (ticks%300*20+3)/6*1000)
	case opSmallDateTime:
		return c.putMicros(int64(le16(v)-unix1900)*microsADay + int64(le16(v[2:]))*60_000_000)
	case opOffset:
		return c.putDateTime2(v[:len(v)-2])
	case opDate:
		days := int(v[0]) | int(v[1])<<8 | int(v[2])<<16
		if days > lastDay {
			return wrongTime
		}
		binary.NativeEndian.PutUint32(c.extend(4), uint32(int32(days-unixDay)))
	case opBool:
		if len(v) != 1 {
			return valueFault("a value of type int64, want bool")
		}
		c.putBit(v[0] != 0)
	case opInteger:
		c.putInteger(v)
	case opWiden:
		binary.NativeEndian.PutUint64(c.extend(8), math.Float64bits(float64(math.Float32frombits(le32(v)))))
	case opMoney:
		return c.putMoney(int64(uint64(le32(v))<<32 | uint64(le32(v[4:]))))
	case opSmallMoney:
		return c.putMoney(int64(int32(le32(v))))
	default:
		return c.putBytes(v)
	}
	c.added()
	return nil
}

// putBytes decodes a value that becomes one of any length.
func (c *column) putBytes(v []byte) error {
	switch c.op {
	case opBytes:
		c.values = append(c.values, v...)
	case opChar:
		if isASCII(v) {
			c.values = append(c.values, v...)
		} else {
			c.values = c.chars.append(c.values, v)
		}
	case opXML, opUTF16:
		if len(v)&1 != 0 {
			return malformed("text of an odd number of bytes")
		}
		if c.op == opXML && len(v) >= 2 && v[0] == 0xFF && v[1] == 0xFE {
			v = v[2:]
		}
		c.putUTF16(v)
	case opGUID:
		c.values = appendGUID(c.values, v)
	case opTime:
		ticks := partsOf(v) * scaleUp[c.scale]
		if ticks >= ticksADay {
			return wrongTime
		}
		c.values = appendTimeOfDay(c.values, ticks)
	default:
		return valueFault("a value in a column that is read as NULL")
	}
	if len(c.values) > math.MaxInt32 {
		return valueFault(fmt.Sprintf("a value of %d bytes does not fit into a record", len(v)))
	}
	c.ended()
	return nil
}

// putUTF16 adds little-endian UTF-16, whose length is even, in UTF-8. Text that is ASCII only is packed in place.
func (c *column) putUTF16(v []byte) {
	at := len(c.values)
	dst := c.extend(len(v) / 2)
	for i := 0; ; i += 4 {
		if len(v)-2*i < 8 {
			if packASCII(dst[i:], v[2*i:]) {
				return
			}
			break
		}
		x := le64(v[2*i:])
		if x&highBits16 != 0 {
			break
		}
		x |= x >> 8
		binary.LittleEndian.PutUint32(dst[i:], uint32(x&0xFFFF|x>>16&0xFFFF0000))
	}
	c.values = appendUTF16(c.values[:at], v)
}

// packASCII takes the last units of a text; false if one is not ASCII.
func packASCII(dst, v []byte) bool {
	for i := range dst {
		unit := le16(v[2*i:])
		if unit >= utf8.RuneSelf {
			return false
		}
		dst[i] = byte(unit)
	}
	return true
}

func (c *column) putBit(v bool) {
	if c.rows&7 == 0 {
		c.values = append(c.values, 0)
	}
	if v {
		c.values[c.rows>>3] |= 1 << (c.rows & 7)
	}
}

// putInteger widens a number; that of one byte has no sign.
func (c *column) putInteger(v []byte) {
	var x int64
	switch c.from {
	case 1:
		x = int64(v[0])
	case 2:
		x = int64(int16(le16(v)))
	default:
		x = int64(int32(le32(v)))
	}
	switch c.width {
	case 2:
		binary.NativeEndian.PutUint16(c.extend(2), uint16(x))
	case 4:
		binary.NativeEndian.PutUint32(c.extend(4), uint32(x))
	default:
		binary.NativeEndian.PutUint64(c.extend(8), uint64(x))
	}
}

// putDecimal takes a sign, 1 for positive, and a magnitude of 4, 8, 12 or 16 bytes.
func (c *column) putDecimal(v []byte) error {
	var m uint128
	switch len(v) {
	case 9:
		m.lo = le64(v[1:])
	case 5:
		m.lo = uint64(le32(v[1:]))
	case 13:
		m = uint128{uint64(le32(v[9:])), le64(v[1:])}
	case 17:
		m = uint128{le64(v[9:]), le64(v[1:])}
	default:
		return wrongSize
	}
	return c.putMagnitude(m, v[0] == 0)
}

func (c *column) putMoney(x int64) error {
	m := uint64(x)
	if x < 0 {
		m = -m
	}
	return c.putMagnitude(uint128{lo: m}, x < 0)
}

func (c *column) putMagnitude(m uint128, negative bool) error {
	if m.hi > c.limit.hi || m.hi == c.limit.hi && m.lo >= c.limit.lo {
		return wrongDigits
	}
	if negative {
		var borrow uint64
		m.lo, borrow = bits.Sub64(0, m.lo, 0)
		m.hi, _ = bits.Sub64(0, m.hi, borrow)
	}
	b := c.extend(16)
	binary.NativeEndian.PutUint64(b, m.lo)
	binary.NativeEndian.PutUint64(b[8:], m.hi)
	c.added()
	return nil
}

func (c *column) putMicros(micros int64) error {
	binary.NativeEndian.PutUint64(c.extend(8), uint64(micros))
	c.added()
	return nil
}

// putDateTime2 takes parts of a second since midnight and three bytes of days. What is finer than a microsecond is cut.
func (c *column) putDateTime2(v []byte) error {
	var parts, days int64
	if len(v) == 8 {
		x := int64(le64(v))
		parts, days = x&(1<<40-1), int64(uint64(x)>>40)
	} else {
		n := len(v) - 3
		parts, days = partsOf(v[:n]), int64(v[n])|int64(v[n+1])<<8|int64(v[n+2])<<16
	}
	ticks := parts * scaleUp[c.scale]
	if uint64(ticks) >= ticksADay || days > lastDay {
		return wrongTime
	}
	return c.putMicros(ticks/10 + (days-unixDay)*microsADay)
}

// scaleUp makes 100 ns of the parts of a second of a scale.
var scaleUp = [8]int64{10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1}

// partsOf reads a number of 3 to 5 bytes.
func partsOf(v []byte) int64 {
	x := int64(v[0]) | int64(v[1])<<8 | int64(v[2])<<16
	if len(v) > 3 {
		x |= int64(v[3]) << 24
	}
	if len(v) > 4 {
		x |= int64(v[4]) << 32
	}
	return x
}

// appendTimeOfDay writes hh:mm:ss and nine digits, of which the last two are always 0.
func appendTimeOfDay(dst []byte, ticks int64) []byte {
	seconds, rest := int(ticks/10_000_000), int(ticks%10_000_000)
	dst = append(dst, two(seconds/3600)...)
	dst = append(dst, ':')
	dst = append(dst, two(seconds/60%60)...)
	dst = append(dst, ':')
	dst = append(dst, two(seconds%60)...)
	dst = append(dst, '.')
	for unit := 1_000_000; unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+rest/unit%10))
	}
	return append(dst, '0', '0')
}

func two(n int) []byte { return []byte{byte('0' + n/10), byte('0' + n%10)} }

// appendGUID writes the canonical text. The wire has the first three groups in little-endian order.
func appendGUID(dst, v []byte) []byte {
	const digits = "0123456789ABCDEF"
	for i, j := range guidOrder {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[v[j]>>4], digits[v[j]&0x0F])
	}
	return dst
}

var guidOrder = [16]byte{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}
