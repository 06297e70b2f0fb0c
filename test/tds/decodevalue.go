package tds

import (
	"encoding/binary"
	"math"
)

// value reads one value in its parameter form.
func (d *decoder) value(t *TypeInfo) Value {
	switch {
	case t.ID == IDNull:
		return nil
	case t.IsFixed():
		return d.bare(t, d.take("value", t.ID.fixedSize()))
	case t.IsPLP():
		if b, ok := d.plp(); ok {
			return d.bare(t, nonNil(b))
		}
		return nil
	}
	switch t.ID {
	case IDChar, IDVarChar, IDNChar, IDNVarChar, IDBinary, IDVarBinary:
		n := d.u16("value length")
		if n == Max || d.err != nil {
			return nil
		}
		return d.bare(t, d.take("value", int(n)))
	case IDText, IDNText, IDImage:
		n := d.u32("value length")
		if n == math.MaxUint32 || d.err != nil {
			return nil
		}
		return d.bare(t, d.take("value", int(n)))
	case IDVariant:
		n := d.u32("value length")
		if n == 0 || d.err != nil {
			return nil
		}
		return d.variant(d.take("value", int(n)))
	default:
		n := d.u8("value length")
		if n == 0 || d.err != nil {
			return nil
		}
		return d.bare(t, d.take("value", int(n)))
	}
}

// nonNil gives an empty slice for nil, so that an empty value is not taken for a failed read.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// bare makes the Go value of a value's bytes, the length being known. A nil slice is a failed read.
func (d *decoder) bare(t *TypeInfo, b []byte) Value {
	if d.err != nil || b == nil {
		return nil
	}
	v, err := bareValue(t, b)
	if err != nil {
		d.off -= len(b)
		d.fail(t.String(), err)
		return nil
	}
	return v
}

// bareValue is the reading half of the Append functions. The length of b is checked against the type.
func bareValue(t *TypeInfo, b []byte) (Value, error) {
	switch kindOf(t) {
	case kindInt:
		return bareInt(t, b)
	case kindBit:
		if len(b) != 1 {
			return nil, errLength
		}
		return b[0] != 0, nil
	case kindFloat:
		return bareFloat(t, b)
	case kindDecimal:
		return bareDecimal(t, b)
	case kindMoney:
		return bareMoney(t, b)
	case kindString:
		return bareString(t, b)
	case kindBytes:
		return b, nil
	case kindUUID:
		if len(b) != 16 {
			return nil, errLength
		}
		return UUID(b).wire(), nil
	default:
		return bareTime(t, b)
	}
}

// sizeOf gives the bytes of a value of a type whose values all have one size.
func sizeOf(t *TypeInfo) int {
	if n := t.ID.fixedSize(); n > 0 {
		return n
	}
	return t.Size
}

// bareInt reads an integer; tinyint has no sign.
func bareInt(t *TypeInfo, b []byte) (Value, error) {
	if len(b) != sizeOf(t) {
		return nil, errLength
	}
	switch len(b) {
	case 1:
		return int64(b[0]), nil
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b))), nil
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), nil
	default:
		return int64(binary.LittleEndian.Uint64(b)), nil
	}
}

// bareFloat reads a real or float.
func bareFloat(t *TypeInfo, b []byte) (Value, error) {
	if len(b) != sizeOf(t) {
		return nil, errLength
	}
	if len(b) == 4 {
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// bareDecimal reads a sign and a magnitude of any length up to the type's.
func bareDecimal(t *TypeInfo, b []byte) (Value, error) {
	if len(b) < 2 || len(b) > 17 || len(b) > t.Size || b[0] > 1 {
		return nil, errLength
	}
	var m [16]byte
	copy(m[:], b[1:])
	return Decimal{
		Lo: binary.LittleEndian.Uint64(m[:]), Hi: binary.LittleEndian.Uint64(m[8:]),
		Scale: t.Scale, Negative: b[0] == 0,
	}, nil
}

// bareMoney reads a money or smallmoney.
func bareMoney(t *TypeInfo, b []byte) (Value, error) {
	if len(b) != sizeOf(t) {
		return nil, errLength
	}
	if len(b) == 4 {
		return Money(int32(binary.LittleEndian.Uint32(b))), nil
	}
	return Money(int64(binary.LittleEndian.Uint32(b))<<32 | int64(binary.LittleEndian.Uint32(b[4:]))), nil
}

// bareString reads text.
func bareString(t *TypeInfo, b []byte) (Value, error) {
	if !t.IsUnicode() {
		return decodeCodePage(b, t.Collation), nil
	}
	if len(b)%2 != 0 {
		return nil, errOdd
	}
	return decodeUTF16(b), nil
}

// bareTime reads the date and time types.
func bareTime(t *TypeInfo, b []byte) (Value, error) {
	want := 0
	switch kindOf(t) {
	case kindDate:
		want = 3
	case kindTime:
		want = timeSize(t.Scale)
	case kindDateTime2:
		want = timeSize(t.Scale) + 3
	case kindDateTimeOffset:
		want = timeSize(t.Scale) + 5
	case kindDateTime:
		want = 8
	case kindSmallDateTime:
		want = 4
	default:
		return nil, errType
	}
	if len(b) != want {
		return nil, errLength
	}
	switch kindOf(t) {
	case kindDate:
		d := dateFrom(b)
		return d, dateInRange(d)
	case kindTime:
		tm := timeFrom(b, t.Scale)
		return tm, timeInRange(tm)
	case kindDateTime:
		return DateTime{int32(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:])}, nil
	case kindSmallDateTime:
		return SmallDateTime{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])}, nil
	}
	n := timeSize(t.Scale)
	tm, date := timeFrom(b[:n], t.Scale), dateFrom(b[n:])
	if err := timeInRange(tm); err != nil {
		return nil, err
	}
	if kindOf(t) == kindDateTime2 {
		return DateTime2{date, tm}, dateInRange(date)
	}
	return DateTimeOffset{date, tm, int16(binary.LittleEndian.Uint16(b[n+3:]))}, dateInRange(date)
}

// dateFrom reads three bytes of days.
func dateFrom(b []byte) Date { return Date(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) }

// timeFrom reads a time of day of a scale.
func timeFrom(b []byte, scale uint8) Time {
	var v uint64
	for i, x := range b[:timeSize(scale)] {
		v |= uint64(x) << (8 * i)
	}
	return Time(int64(v) * timeUnit(scale))
}

// variant reads the inside of a sql_variant.
func (d *decoder) variant(b []byte) Value {
	if d.err != nil {
		return nil
	}
	in := decoder{b: b}
	t := TypeInfo{ID: TypeID(in.u8("base type"))}
	props := decoder{b: in.take("properties", int(in.u8("length of properties")))}
	switch t.ID {
	case IDTimeN, IDDateTime2N, IDDateTimeOffsetN:
		t.Scale = props.u8("scale")
	case IDDecimalN, IDNumericN:
		t.Precision, t.Scale, t.Size = props.u8("precision"), props.u8("scale"), 17
	case IDBinary, IDVarBinary:
		t.Size = int(props.u16("size"))
	case IDChar, IDVarChar, IDNChar, IDNVarChar:
		t.Collation, t.Size = props.collation(), int(props.u16("size"))
	case IDGUID:
		t.Size = 16
	case IDDateN:
	default:
		if t.Size = t.ID.fixedSize(); t.Size <= 0 {
			in.fail("base type of sql_variant", errType)
		}
	}
	if in.err == nil && props.err != nil {
		in.err = props.err
	}
	if in.err == nil && (t.Scale > 7 && t.ID != IDDecimalN && t.ID != IDNumericN || t.Scale > MaxPrecision) {
		in.fail("sql_variant", errSize)
	}
	v := in.bare(&t, nonNil(in.take("value", in.left())))
	if in.err != nil {
		d.off -= len(b)
		d.fail("sql_variant", in.err)
		return nil
	}
	return Variant{Type: t, Value: v}
}
