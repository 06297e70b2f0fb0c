package sqltype

import (
	"encoding/binary"
	"math"
	"time"
)

// Value is one SQL Server value. The zero Value is NULL.
//
// What the words hold, by kind: integers and money (in 1/10,000) in a; float
// bits in a; a decimal's magnitude in a (high) and b (low); dates as days since
// 0001-01-01 in a (datetime and smalldatetime: days since 1900-01-01) and the
// time of day in b (100 ns, 1/300 s or minutes); a uniqueidentifier in a and b;
// text (UTF-8) and binary in s.
type Value struct {
	s     string
	a, b  int64
	kind  Kind
	scale uint8 // decimal: digits after the point; time types: fraction digits
	neg   bool  // decimal: the sign
	off   int16 // datetimeoffset: minutes east of UTC
}

// Row is a list of values, one per column.
type Row []Value

// Column describes a column of a table or rowset.
type Column struct {
	Name                         string
	Type                         Type
	Nullable, Identity, Computed bool
}

// Null is the NULL value, the same as Value{}.
func Null() Value { return Value{} }

// Bit is a bit value.
func Bit(v bool) Value {
	if v {
		return Value{kind: KindBit, a: 1}
	}
	return Value{kind: KindBit}
}

// TinyInt is a tinyint value.
func TinyInt(v uint8) Value { return Value{kind: KindTinyInt, a: int64(v)} }

// SmallInt is a smallint value.
func SmallInt(v int16) Value { return Value{kind: KindSmallInt, a: int64(v)} }

// Int is an int value.
func Int(v int32) Value { return Value{kind: KindInt, a: int64(v)} }

// BigInt is a bigint value.
func BigInt(v int64) Value { return Value{kind: KindBigInt, a: v} }

// Integer is a value of an integer kind (KindBit to KindBigInt). The caller has
// checked the range.
func Integer(k Kind, v int64) Value { return Value{kind: k, a: v} }

// Real is a real value.
func Real(v float32) Value { return Value{kind: KindReal, a: int64(math.Float64bits(float64(v)))} }

// Float is a float value.
func Float(v float64) Value { return Value{kind: KindFloat, a: int64(math.Float64bits(v))} }

// Decimal is a decimal value.
func Decimal(n Number) Value {
	return Value{kind: KindDecimal, a: int64(n.Hi), b: int64(n.Lo), scale: n.Scale, neg: n.Neg}
}

// Money is a money value, in units of 1/10,000.
func Money(units int64) Value { return Value{kind: KindMoney, a: units} }

// SmallMoney is a smallmoney value, in units of 1/10,000.
func SmallMoney(units int32) Value { return Value{kind: KindSmallMoney, a: int64(units)} }

// Text is a value of a character kind (KindChar to KindXML); s is UTF-8 and
// already padded where the type pads.
func Text(k Kind, s string) Value { return Value{kind: k, s: s} }

// VarChar is a varchar value.
func VarChar(s string) Value { return Value{kind: KindVarChar, s: s} }

// NVarChar is an nvarchar value.
func NVarChar(s string) Value { return Value{kind: KindNVarChar, s: s} }

// Bytes is a value of a binary kind (KindBinary to KindImage) over the bytes of
// s, already padded where the type pads.
func Bytes(k Kind, s string) Value { return Value{kind: k, s: s} }

// Binary is a binary value with a copy of b; its length is len(b).
func Binary(b []byte) Value { return Value{kind: KindBinary, s: string(b)} }

// VarBinary is a varbinary value with a copy of b.
func VarBinary(b []byte) Value { return Value{kind: KindVarBinary, s: string(b)} }

// Date is a date: days since 0001-01-01.
func Date(days int32) Value { return Value{kind: KindDate, a: int64(days)} }

// Time is a time of day in units of 100 ns, already rounded to scale digits.
func Time(ticks int64, scale uint8) Value { return Value{kind: KindTime, b: ticks, scale: scale} }

// DateTime2 is a datetime2: days since 0001-01-01 and 100 ns units since
// midnight, already rounded to scale digits.
func DateTime2(days int32, ticks int64, scale uint8) Value {
	return Value{kind: KindDateTime2, a: int64(days), b: ticks, scale: scale}
}

// DateTimeOffset is a datetimeoffset. Days and ticks are UTC, as on the wire;
// offset is in minutes east of it.
func DateTimeOffset(days int32, ticks int64, offset int16, scale uint8) Value {
	return Value{kind: KindDateTimeOffset, a: int64(days), b: ticks, off: offset, scale: scale}
}

// DateTime is a datetime: days since 1900-01-01 (negative before) and 1/300 s
// since midnight.
func DateTime(days, ticks int32) Value {
	return Value{kind: KindDateTime, a: int64(days), b: int64(ticks)}
}

// SmallDateTime is a smalldatetime: days since 1900-01-01 and minutes since
// midnight.
func SmallDateTime(days, minutes uint16) Value {
	return Value{kind: KindSmallDateTime, a: int64(days), b: int64(minutes)}
}

// UniqueIdentifier is a uniqueidentifier. The bytes are in the order of the
// text form (big-endian groups), not in that of the wire.
func UniqueIdentifier(u [16]byte) Value {
	return Value{
		kind: KindUniqueIdentifier,
		a:    int64(binary.BigEndian.Uint64(u[:8])),
		b:    int64(binary.BigEndian.Uint64(u[8:])),
	}
}

// Kind is the kind of the value; KindNull for NULL.
func (v Value) Kind() Kind { return v.kind }

// IsNull tells whether the value is NULL.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Int64 is the number of an integer kind, or the 1/10,000 units of money.
func (v Value) Int64() int64 { return v.a }

// Bool is the truth of a bit.
func (v Value) Bool() bool { return v.a != 0 }

// Float64 is the number of a real or float.
func (v Value) Float64() float64 { return math.Float64frombits(uint64(v.a)) }

// Number is the number of a decimal.
func (v Value) Number() Number {
	return Number{Neg: v.neg, Hi: uint64(v.a), Lo: uint64(v.b), Scale: v.scale}
}

// Str is the text (UTF-8) of a character kind or the bytes of a binary kind.
func (v Value) Str() string { return v.s }

// Days is the date part: days since 0001-01-01 (date, datetime2,
// datetimeoffset in UTC), or since 1900-01-01 (datetime, smalldatetime).
func (v Value) Days() int32 { return int32(v.a) }

// Ticks is the time of day in the unit of the kind: 100 ns (time, datetime2,
// datetimeoffset in UTC), 1/300 s (datetime), minutes (smalldatetime).
func (v Value) Ticks() int64 { return v.b }

// Scale is the number of fraction digits of a decimal, time, datetime2 or
// datetimeoffset.
func (v Value) Scale() uint8 { return v.scale }

// Offset is the offset of a datetimeoffset in minutes east of UTC.
func (v Value) Offset() int16 { return v.off }

// UUID is the 16 bytes of a uniqueidentifier in text order.
func (v Value) UUID() [16]byte {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], uint64(v.a))
	binary.BigEndian.PutUint64(u[8:], uint64(v.b))
	return u
}

// Units of the temporal kinds.
const (
	TicksPerSecond = 10_000_000 // 100 ns
	ticksPerMinute = 60 * TicksPerSecond
	TicksPerDay    = 86_400 * TicksPerSecond
	// DaysTo1900 is the number of days from 0001-01-01 to 1900-01-01.
	DaysTo1900 = 693_595
	// daysTo1970 is the number of days from 0001-01-01 to 1970-01-01.
	daysTo1970 = 719_162
	// MaxDays is the day number of 9999-12-31, counted from 0001-01-01.
	MaxDays = 3_652_058
	// dateTimeTicksPerDay counts 1/300 s.
	dateTimeTicksPerDay = 86_400 * 300
)

// FromTime makes a datetime2(7) of t's wall clock.
func FromTime(t time.Time) Value {
	days, ticks := splitTime(t)
	return DateTime2(days, ticks, 7)
}

// FromTimeOffset makes a datetimeoffset(7) of t.
func FromTimeOffset(t time.Time) Value {
	_, sec := t.Zone()
	days, ticks := splitTime(t.UTC())
	return DateTimeOffset(days, ticks, int16(sec/60), 7)
}

// FromTimeDateTime makes a datetime of t's wall clock, rounded to 1/300 s.
func FromTimeDateTime(t time.Time) Value {
	days, ticks := splitTime(t)
	return dateTimeFromTicks(int64(days)-DaysTo1900, ticks)
}

// dateTimeFromTicks rounds 100 ns ticks to 1/300 s and carries into the day.
func dateTimeFromTicks(days, ticks int64) Value {
	const per = TicksPerSecond / 100 // three 1/300 s units are 100,000 ticks
	units := (ticks*3 + per/2) / per
	if units >= dateTimeTicksPerDay {
		units -= dateTimeTicksPerDay
		days++
	}
	return Value{kind: KindDateTime, a: days, b: units}
}

func splitTime(t time.Time) (days int32, ticks int64) {
	sec := t.Unix()
	if _, off := t.Zone(); off != 0 {
		sec += int64(off)
	}
	d := floorDiv(sec, 86_400)
	return int32(d + daysTo1970), (sec-d*86_400)*TicksPerSecond + int64(t.Nanosecond())/100
}

// GoTime gives the instant of a temporal value: the wall clock in loc, or for
// a datetimeoffset the instant with its own offset. A time of day gets the day
// 1900-01-01. It is for tests and for hosts; SQL semantics never go through it.
func (v Value) GoTime(loc *time.Location) time.Time {
	days, ticks := v.dayTicks()
	sec := (days-daysTo1970)*86_400 + ticks/TicksPerSecond
	t := time.Unix(sec, ticks%TicksPerSecond*100).UTC()
	if v.kind == KindDateTimeOffset {
		return t.In(time.FixedZone("", int(v.off)*60))
	}
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), loc)
}

// dayTicks gives any temporal value as days since 0001-01-01 and 100 ns ticks
// (a datetimeoffset in UTC; a time of day on 1900-01-01). 1/300 s are given to the
// nearest tick, so .003 s is 33,333 ticks.
func (v Value) dayTicks() (days, ticks int64) {
	switch v.kind {
	case KindDate:
		return v.a, 0
	case KindTime:
		return DaysTo1900, v.b
	case KindDateTime:
		return v.a + DaysTo1900, (v.b*(TicksPerSecond/100) + 1) / 3
	case KindSmallDateTime:
		return v.a + DaysTo1900, v.b * ticksPerMinute
	}
	return v.a, v.b
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
