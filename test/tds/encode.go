package tds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// Reasons for refusing a value.
var (
	errKind  = errors.New("a value of another type")
	errNull  = errors.New("NULL in a type that cannot hold it")
	errRange = errors.New("out of range")
	errLong  = errors.New("longer than declared")
)

// AppendValue appends any value of a column, after checking that it belongs to the type and fits it. A value with more
// digits than the type's scale is refused for decimals and cut for times. On an error dst is returned as it was.
func AppendValue(dst []byte, t *TypeInfo, v Value) ([]byte, error) {
	out, err := appendValue(dst, t, v)
	if err != nil {
		return dst, fmt.Errorf("encoding %T as %s: %w", v, t, err)
	}
	return out, nil
}

// appendValue is AppendValue without the words.
func appendValue(dst []byte, t *TypeInfo, v Value) ([]byte, error) {
	if v == nil {
		if t.IsFixed() {
			return dst, errNull
		}
		return AppendNull(dst, t), nil
	}
	switch kindOf(t) {
	case kindInt, kindBit:
		return appendIntValue(dst, t, v)
	case kindFloat:
		return appendFloatValue(dst, t, v)
	case kindDecimal, kindMoney:
		return appendNumberValue(dst, t, v)
	case kindString:
		if s, ok := v.(string); ok {
			return finishSized(dst, AppendString(dst, t, s), t)
		}
	case kindBytes:
		if b, ok := v.([]byte); ok {
			return finishSized(dst, AppendBytes(dst, t, b), t)
		}
	case kindUUID:
		if u, ok := v.(UUID); ok {
			return AppendUUID(dst, u), nil
		}
	case kindVariant:
		if x, ok := v.(Variant); ok {
			return appendVariant(dst, x)
		}
	case kindNone, kindNull:
	default:
		return appendTimeValue(dst, t, v)
	}
	return dst, errKind
}

// finishSized checks the length of a text or binary value that was just appended.
func finishSized(dst, out []byte, t *TypeInfo) ([]byte, error) {
	if !t.IsPLP() && !t.isLOB() && len(out)-len(dst)-2 > t.Size {
		return dst, errLong
	}
	return out, nil
}

// appendIntValue appends bool, int and int64.
func appendIntValue(dst []byte, t *TypeInfo, v Value) ([]byte, error) {
	var n int64
	switch v := v.(type) {
	case bool:
		if v {
			n = 1
		}
		if kindOf(t) != kindBit {
			return dst, errKind
		}
	case int64:
		n = v
	case int:
		n = int64(v)
	default:
		return dst, errKind
	}
	if !intFits(t, n) {
		return dst, errRange
	}
	return AppendInt(dst, t, n), nil
}

// intFits reports whether n is in the range of an integer type; every n is one of bit.
func intFits(t *TypeInfo, n int64) bool {
	size := t.Size
	if f := t.ID.fixedSize(); f > 0 {
		size = f
	}
	switch {
	case t.ID == IDBit || t.ID == IDBitN || size == 8:
		return true
	case size == 1:
		return n >= 0 && n <= math.MaxUint8
	case size == 2:
		return n >= math.MinInt16 && n <= math.MaxInt16
	default:
		return n >= math.MinInt32 && n <= math.MaxInt32
	}
}

// appendFloatValue appends float32 and float64; a float64 is rounded for real.
func appendFloatValue(dst []byte, t *TypeInfo, v Value) ([]byte, error) {
	switch v := v.(type) {
	case float32:
		return AppendFloat(dst, t, float64(v)), nil
	case float64:
		return AppendFloat(dst, t, v), nil
	default:
		return dst, errKind
	}
}

// appendNumberValue appends Decimal and Money to decimal and money types.
func appendNumberValue(dst []byte, t *TypeInfo, v Value) ([]byte, error) {
	var d Decimal
	switch v := v.(type) {
	case Decimal:
		d = v
	case Money:
		d = v.Decimal()
	default:
		return dst, errKind
	}
	if kindOf(t) == kindDecimal {
		d, err := d.Rescale(t.Scale)
		if err != nil {
			return dst, err
		}
		if hi, lo := decimalLimit(t); d.Hi > hi || d.Hi == hi && d.Lo >= lo {
			return dst, errRange
		}
		return AppendDecimal(dst, t, d.Negative, d.Hi, d.Lo), nil
	}
	d, err := d.Rescale(4)
	if err != nil {
		return dst, err
	}
	m, ok := moneyOf(d, t)
	if !ok {
		return dst, errRange
	}
	return AppendMoney(dst, t, m), nil
}

// moneyOf gives a decimal of scale 4 as money if it is in the range of the type.
func moneyOf(d Decimal, t *TypeInfo) (Money, bool) {
	limit := uint64(math.MaxInt64)
	if t.Size == 4 || t.ID == IDMoney4 {
		limit = math.MaxInt32
	}
	if d.Negative {
		limit++
	}
	if d.Hi != 0 || d.Lo > limit {
		return 0, false
	}
	if d.Negative {
		return Money(-d.Lo), true
	}
	return Money(d.Lo), true
}

// decimalLimit gives the first magnitude that is too large for a decimal type: by its precision, or by its size where that
// is smaller. Types with a size that only clients declare hold nothing.
func decimalLimit(t *TypeInfo) (hi, lo uint64) {
	lo = 1
	for range min(t.Precision, MaxPrecision) {
		hi, lo, _ = mulAdd(hi, lo, 10, 0)
	}
	switch {
	case t.Size != 5 && t.Size != 9 && t.Size != 13 && t.Size != decimalMax:
		return 0, 0
	case t.Size == 5 && (hi > 0 || lo > 1<<32):
		return 0, 1 << 32
	case t.Size == 9 && hi > 0:
		return 1, 0
	case t.Size == 13 && hi > 1<<32:
		return 1 << 32, 0
	default:
		return hi, lo
	}
}

// appendTimeValue appends the date and time values, and time.Time to any of the types.
func appendTimeValue(dst []byte, t *TypeInfo, v Value) ([]byte, error) {
	if g, ok := v.(time.Time); ok {
		v = fromGoTime(t, g)
	}
	switch v := v.(type) {
	case Date:
		if t.ID == IDDateN {
			return AppendDate(dst, v), dateInRange(v)
		}
	case Time:
		if t.ID == IDTimeN {
			return AppendTime(dst, t.Scale, v), timeInRange(v)
		}
	case DateTime2:
		if t.ID == IDDateTime2N {
			return AppendDateTime2(dst, t.Scale, v.Date, v.Time), errors.Join(dateInRange(v.Date), timeInRange(v.Time))
		}
	case DateTimeOffset:
		if t.ID == IDDateTimeOffsetN {
			out := AppendDateTimeOffset(dst, t.Scale, v.Date, v.Time, v.Offset)
			return out, errors.Join(dateInRange(v.Date), timeInRange(v.Time))
		}
	case DateTime:
		if kindOf(t) == kindDateTime {
			return AppendDateTime(dst, t, v), nil
		}
	case SmallDateTime:
		if kindOf(t) == kindSmallDateTime {
			return AppendSmallDateTime(dst, t, v), nil
		}
	}
	return dst, errKind
}

// fromGoTime gives the value of a type for a wall clock.
func fromGoTime(t *TypeInfo, g time.Time) Value {
	switch kindOf(t) {
	case kindDate:
		return DateOf(g)
	case kindTime:
		return TimeOf(g)
	case kindDateTime2:
		return DateTime2Of(g)
	case kindDateTimeOffset:
		return DateTimeOffsetOf(g)
	case kindDateTime:
		return DateTimeOf(g)
	default:
		return SmallDateTimeOf(g)
	}
}

// dateInRange checks a day against 0001-01-01 to 9999-12-31.
func dateInRange(d Date) error {
	if d < 0 || d > 3_652_058 {
		return errRange
	}
	return nil
}

// timeInRange checks a time of day.
func timeInRange(t Time) error {
	if t < 0 || t >= TicksPerDay {
		return errRange
	}
	return nil
}

// appendVariant appends a sql_variant: total length, base type, its properties, the bare value (MS-TDS 2.2.5.5.4).
func appendVariant(dst []byte, x Variant) ([]byte, error) {
	if x.Value == nil {
		return append(dst, 0, 0, 0, 0), nil
	}
	at := len(dst)
	t := variantBase(x.Type)
	dst = append(dst, 0, 0, 0, 0, byte(t.ID))
	switch t.ID {
	case IDTimeN, IDDateTime2N, IDDateTimeOffsetN:
		dst = append(dst, 1, t.Scale)
	case IDDecimalN, IDNumericN:
		dst = append(dst, 2, t.Precision, t.Scale)
	case IDBinary, IDVarBinary:
		dst = binary.LittleEndian.AppendUint16(append(dst, 2), uint16(t.Size))
	case IDChar, IDVarChar, IDNChar, IDNVarChar:
		dst = binary.LittleEndian.AppendUint16(append(append(dst, 7), t.Collation[:]...), uint16(t.Size))
	default:
		dst = append(dst, 0)
	}
	body := len(dst)
	dst, err := appendValue(dst, &t, x.Value)
	if err != nil {
		return dst[:at], err
	}
	if n := lengthPrefix(&t); n > 0 { // the value stands without its own length
		dst = append(dst[:body], dst[body+n:]...)
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, nil
}

// variantBase gives the form a type has inside a sql_variant: of fixed length where there is one.
func variantBase(t TypeInfo) TypeInfo {
	fixed := map[TypeID]map[int]TypeID{
		IDIntN:      {1: IDInt1, 2: IDInt2, 4: IDInt4, 8: IDInt8},
		IDBitN:      {1: IDBit},
		IDFloatN:    {4: IDFloat4, 8: IDFloat8},
		IDMoneyN:    {4: IDMoney4, 8: IDMoney},
		IDDateTimeN: {4: IDDateTime4, 8: IDDateTime},
	}
	if id, ok := fixed[t.ID][t.Size]; ok {
		return TypeFixed(id)
	}
	return t
}

// lengthPrefix gives the bytes of the length in front of a value that may stand in a sql_variant.
func lengthPrefix(t *TypeInfo) int {
	switch {
	case t.IsFixed():
		return 0
	case t.ID == IDChar || t.ID == IDVarChar || t.ID == IDNChar || t.ID == IDNVarChar || t.ID == IDBinary || t.ID == IDVarBinary:
		return 2
	default:
		return 1
	}
}
