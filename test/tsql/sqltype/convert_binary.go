package sqltype

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// toBinary converts to binary, varbinary, rowversion or image. Text and binary are padded and
// cut on the right, numbers on the left.
func toBinary(v Value, to Type, style int) (Value, error) {
	length := to.Length
	if to.Kind == KindRowVersion {
		length = 8
	}
	if v.kind.IsText() {
		b, err := bytesFromText(v, to, style)
		if err != nil {
			return Value{}, err
		}
		return Value{kind: to.Kind, s: fitRight(b, to.Kind, length)}, nil
	}
	if v.kind.IsBinary() || v.kind == KindUniqueIdentifier {
		b := v.s
		if v.kind == KindUniqueIdentifier {
			u := swapUUID(v.UUID())
			b = string(u[:])
		}
		return Value{kind: to.Kind, s: fitRight(b, to.Kind, length)}, nil
	}
	return Value{kind: to.Kind, s: fitLeft(numberBytes(v), to.Kind, length)}, nil
}

// fitRight pads and cuts at the end.
func fitRight(b string, k Kind, length int) string {
	if length <= 0 || len(b) == length {
		return b
	}
	if len(b) > length {
		return b[:length]
	}
	if k == KindBinary || k == KindRowVersion {
		return b + strings.Repeat("\x00", length-len(b))
	}
	return b
}

// fitLeft pads and cuts in front.
func fitLeft(b string, k Kind, length int) string {
	if length <= 0 || len(b) == length {
		return b
	}
	if len(b) > length {
		return b[len(b)-length:]
	}
	if k == KindBinary || k == KindRowVersion {
		return strings.Repeat("\x00", length-len(b)) + b
	}
	return b
}

func numberBytes(v Value) string {
	be := binary.BigEndian
	switch v.kind {
	case KindBit, KindTinyInt:
		return string([]byte{byte(v.a)})
	case KindSmallInt:
		return string(be.AppendUint16(nil, uint16(v.a)))
	case KindInt, KindSmallMoney:
		return string(be.AppendUint32(nil, uint32(v.a)))
	case KindReal:
		return string(be.AppendUint32(nil, math.Float32bits(float32(v.Float64()))))
	case KindFloat, KindBigInt, KindMoney:
		return string(be.AppendUint64(nil, uint64(v.a)))
	case KindDateTime:
		return string(be.AppendUint32(be.AppendUint32(nil, uint32(v.a)), uint32(v.b)))
	case KindSmallDateTime:
		return string(be.AppendUint16(be.AppendUint16(nil, uint16(v.a)), uint16(v.b)))
	case KindDecimal:
		return decimalBytes(v.Number())
	}
	return newTemporalBytes(v)
}

// decimalBytes is how SQL Server shows a decimal as binary: precision, scale,
// sign, then the magnitude in little-endian words of 32 bits.
func decimalBytes(n Number) string {
	le := binary.LittleEndian
	sign := byte(1)
	if n.Neg {
		sign = 0
	}
	out := []byte{n.Digits(), n.Scale, 0, sign}
	mag := le.AppendUint64(le.AppendUint64(nil, n.Lo), n.Hi)
	for len(mag) > 4 && string(mag[len(mag)-4:]) == "\x00\x00\x00\x00" {
		mag = mag[:len(mag)-4]
	}
	return string(append(out, mag...))
}

// newTemporalBytes is how the types of 2008 are stored: scale, time in 10^-scale s,
// date, offset, all little-endian.
func newTemporalBytes(v Value) string {
	var out []byte
	if v.kind != KindDate {
		out = append(out, v.scale)
		t := uint64(v.b) / pow10Low[7-v.scale]
		size := 3
		if v.scale > 2 {
			size++
		}
		if v.scale > 4 {
			size++
		}
		for range size {
			out = append(out, byte(t))
			t >>= 8
		}
	}
	if v.kind != KindTime {
		out = append(out, byte(v.a), byte(v.a>>8), byte(v.a>>16))
	}
	if v.kind == KindDateTimeOffset {
		out = binary.LittleEndian.AppendUint16(out, uint16(v.off))
	}
	return string(out)
}

func bytesFromText(v Value, to Type, style int) (string, error) {
	switch style {
	case DefaultStyle, 0:
		if v.kind.IsUnicode() {
			return EncodeUTF16(v.s), nil
		}
		return (*Collation)(nil).EncodeVarChar(v.s), nil
	case 1, 2:
		s := v.s
		if style == 1 {
			if len(s) < 2 || s[0] != '0' || s[1] != 'x' && s[1] != 'X' {
				return "", sqlerr.Make(8114, v.kind.errorName(), to.Kind.errorName())
			}
			s = s[2:]
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			return "", sqlerr.Make(8114, v.kind.errorName(), to.Kind.errorName())
		}
		return string(b), nil
	}
	return "", sqlerr.Make(9809, style, v.kind.errorName(), to.Kind.errorName())
}
