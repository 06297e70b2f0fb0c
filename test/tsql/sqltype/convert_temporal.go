package sqltype

import (
	"encoding/binary"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// moment is a point in time on its way between types: the local date and time
// of day, with the offset if it has one.
type moment struct {
	days, ticks int64
	offset      int16
}

func toTemporal(v Value, to Type) (Value, error) {
	if v.kind == to.Kind && (v.scale == to.Scale || to.Kind == KindDate || to.Kind == KindDateTime || to.Kind == KindSmallDateTime) {
		return v, nil
	}
	switch {
	case v.kind.IsText():
		return temporalFromText(v, to)
	case v.kind.IsTemporal():
		m := moment{offset: v.off}
		m.days, m.ticks = v.dayTicks()
		if v.kind == KindDateTimeOffset {
			m.days, m.ticks = normalize(m.days, m.ticks+int64(v.off)*ticksPerMinute)
		}
		return m.value(v.kind, to)
	case v.kind.IsBinary():
		return temporalFromBytes(v, to)
	}
	days, ticks, ok := dayFraction(v)
	if !ok {
		return Value{}, overflow("expression", to.Kind, 2)
	}
	return moment{days: days + DaysTo1900, ticks: ticks}.value(v.kind, to)
}

// dayFraction reads a number as days since 1900 with a fraction.
func dayFraction(v Value) (days, ticks int64, ok bool) {
	if v.kind.IsInteger() {
		return v.a, 0, v.a > -1_000_000 && v.a < 4_000_000
	}
	f := v.AsFloat()
	if f < -1e6 || f > 4e6 {
		return 0, 0, false
	}
	days = int64(f)
	frac := f - float64(days)
	if frac < 0 {
		days--
		frac++
	}
	days, ticks = normalize(days, int64(frac*TicksPerDay+0.5))
	return days, ticks, true
}

// normalize carries ticks outside a day into the days.
func normalize(days, ticks int64) (d, t int64) {
	q := floorDiv(ticks, TicksPerDay)
	return days + q, ticks - q*TicksPerDay
}

func temporalFromText(v Value, to Type) (Value, error) {
	p, ok := parseDateTime(v.s)
	old := to.Kind == KindDateTime || to.Kind == KindSmallDateTime
	if ok && old && (p.digits > 3 || p.hasOffset) {
		ok = false
	}
	switch {
	case !ok && to.Kind == KindSmallDateTime:
		return Value{}, sqlerr.Make(295)
	case !ok:
		return Value{}, sqlerr.Make(241)
	case p.badValue && old:
		return Value{}, sqlerr.Make(242, v.kind.errorName(), to.Kind.String())
	case p.badValue:
		return Value{}, sqlerr.Make(241)
	}
	return moment{days: p.days, ticks: p.ticks, offset: p.offset}.value(v.kind, to)
}

func temporalFromBytes(v Value, to Type) (Value, error) {
	b := []byte(v.s)
	switch to.Kind {
	case KindDateTime:
		buf := append(make([]byte, max(0, 8-len(b))), b...)
		days, ticks := int32(binary.BigEndian.Uint32(buf)), binary.BigEndian.Uint32(buf[4:])
		if ticks < dateTimeTicksPerDay {
			return DateTime(days, int32(ticks)), nil
		}
	case KindSmallDateTime:
		buf := append(make([]byte, max(0, 4-len(b))), b...)
		return SmallDateTime(binary.BigEndian.Uint16(buf), binary.BigEndian.Uint16(buf[2:])), nil
	}
	return Value{}, sqlerr.Make(241)
}

// value makes a value of the type; from is named in the out of range message.
func (m moment) value(from Kind, to Type) (Value, error) {
	switch to.Kind {
	case KindDate:
		if m.days < 0 || m.days > MaxDays {
			return Value{}, outOfRange(from, to.Kind)
		}
		return Date(int32(m.days)), nil
	case KindTime:
		t := roundTicks(m.ticks, to.Scale)
		if t >= TicksPerDay {
			t = 0
		}
		return Time(t, to.Scale), nil
	case KindDateTime:
		return m.dateTime(from)
	case KindSmallDateTime:
		return m.smallDateTime(from)
	}
	days, ticks := normalize(m.days, roundTicks(m.ticks, to.Scale))
	if days > MaxDays { // rounding up past the last day
		days, ticks = m.days, m.ticks-m.ticks%int64(pow10Low[7-to.Scale])
	}
	if to.Kind == KindDateTime2 {
		if days < 0 || days > MaxDays {
			return Value{}, outOfRange(from, to.Kind)
		}
		return DateTime2(int32(days), ticks, to.Scale), nil
	}
	days, ticks = normalize(days, ticks-int64(m.offset)*ticksPerMinute)
	if days < 0 || days > MaxDays {
		return Value{}, outOfRange(from, to.Kind)
	}
	return DateTimeOffset(int32(days), ticks, m.offset, to.Scale), nil
}

func outOfRange(from, to Kind) error {
	if from.IsText() && to != KindDateTime && to != KindSmallDateTime {
		return sqlerr.Make(241)
	}
	return sqlerr.Make(242, from.errorName(), to.errorName())
}

func (m moment) dateTime(from Kind) (Value, error) {
	const first = 639_905 // 1753-01-01
	v := dateTimeFromTicks(m.days-DaysTo1900, m.ticks)
	if m.days < first || v.a+DaysTo1900 > MaxDays {
		if from.IsNumeric() {
			return Value{}, overflow("expression", KindDateTime, 2)
		}
		return Value{}, outOfRange(from, KindDateTime)
	}
	return v, nil
}

func (m moment) smallDateTime(from Kind) (Value, error) {
	const last = 65_535 // 2079-06-06
	v := dateTimeFromTicks(m.days-DaysTo1900, m.ticks)
	days := v.a
	minutes := (v.b + 30*300) / (60 * 300)
	if minutes == 24*60 {
		days, minutes = days+1, 0
	}
	if days < 0 || days > last {
		if from.IsNumeric() {
			return Value{}, overflow("expression", KindSmallDateTime, 2)
		}
		return Value{}, outOfRange(from, KindSmallDateTime)
	}
	return SmallDateTime(uint16(days), uint16(minutes)), nil
}

// roundTicks rounds 100 ns units to scale digits of a second, half up.
func roundTicks(ticks int64, scale uint8) int64 {
	unit := int64(pow10Low[7-min(scale, 7)])
	return (ticks + unit/2) / unit * unit
}

// LocalParts gives a temporal value as its own wall clock: days since
// 0001-01-01 and 100 ns since midnight. A time of day is on 1900-01-01.
func (v Value) LocalParts() (days, ticks int64) {
	days, ticks = v.dayTicks()
	if v.kind == KindDateTimeOffset {
		return normalize(days, ticks+int64(v.off)*ticksPerMinute)
	}
	return days, ticks
}

// FromLocalParts makes a value of a temporal type from a wall clock (and an
// offset for datetimeoffset), rounding to the type and checking its range (242).
func FromLocalParts(to Type, days, ticks int64, offset int16) (Value, error) {
	days, ticks = normalize(days, ticks)
	return moment{days: days, ticks: ticks, offset: offset}.value(to.Kind, to)
}
