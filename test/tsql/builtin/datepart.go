package builtin

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// DatePart is a part of a date or time.
type DatePart uint8

// The dateparts.
const (
	Year DatePart = iota
	Quarter
	Month
	DayOfYear
	Day
	Week
	Weekday
	Hour
	Minute
	Second
	Millisecond
	Microsecond
	Nanosecond
	TZOffset
	ISOWeek
)

// ParseDatePart knows the names and abbreviations of the dateparts.
func ParseDatePart(name string) (DatePart, bool) {
	switch strings.ToLower(name) {
	case "year", "yy", "yyyy":
		return Year, true
	case "quarter", "qq", "q":
		return Quarter, true
	case "month", "mm", "m":
		return Month, true
	case "dayofyear", "dy", "y":
		return DayOfYear, true
	case "day", "dd", "d":
		return Day, true
	case "week", "wk", "ww":
		return Week, true
	case "weekday", "dw", "w":
		return Weekday, true
	case "hour", "hh":
		return Hour, true
	case "minute", "mi", "n":
		return Minute, true
	case "second", "ss", "s":
		return Second, true
	case "millisecond", "ms":
		return Millisecond, true
	case "microsecond", "mcs":
		return Microsecond, true
	case "nanosecond", "ns":
		return Nanosecond, true
	case "tzoffset", "tz":
		return TZOffset, true
	case "iso_week", "isowk", "isoww":
		return ISOWeek, true
	}
	return 0, false
}

// String is the full name of the datepart.
func (p DatePart) String() string {
	return [...]string{"year", "quarter", "month", "dayofyear", "day", "week", "weekday", "hour", "minute", "second",
		"millisecond", "microsecond", "nanosecond", "tzoffset", "iso_week"}[p]
}

// isTime tells whether the part belongs to the time of day.
func (p DatePart) isTime() bool { return p >= Hour && p <= Nanosecond }

// unsupported is the error of a part that a type does not have (9810).
func unsupported(p DatePart, function string, k sqltype.Kind) error {
	return sqlerr.New(9810, 16, 1, "The datepart %s is not supported by date function %s for data type %s.", p, function, k)
}

func partArg(v value, function string) (DatePart, error) {
	p, ok := ParseDatePart(v.Str())
	if !ok {
		return 0, sqlerr.Make(155, v.Str(), function)
	}
	return p, nil
}

func datePartsFunc(name string) *Func {
	switch name {
	case "DATEPART":
		return &Func{Min: 2, Max: 2, Args: []Arg{Part, Temporal}, Result: fixedKind(sqltype.KindInt), Stable: true,
			Eval: func(env *Env, a []value) (value, error) {
				p, err := partArg(a[0], "datepart")
				if err != nil {
					return value{}, err
				}
				n, err := getPart(p, a[1], env.DateFirst)
				return sqltype.Int(int32(n)), err
			}}
	case "DATENAME":
		return &Func{Min: 2, Max: 2, Args: []Arg{Part, Temporal}, Result: fixed(sqltype.NVarCharType(30)), Stable: true, Eval: dateName}
	case "YEAR", "MONTH", "DAY":
		part := map[string]DatePart{"YEAR": Year, "MONTH": Month, "DAY": Day}[name]
		return &Func{Min: 1, Max: 1, Args: []Arg{Old}, Result: fixedKind(sqltype.KindInt), Eval: func(env *Env, a []value) (value, error) {
			n, err := getPart(part, a[0], env.DateFirst)
			return sqltype.Int(int32(n)), err
		}}
	}
	return nil
}

// getPart computes a datepart of a value.
func getPart(p DatePart, v value, dateFirst int) (int64, error) {
	k := v.Kind()
	if k == sqltype.KindDate && (p.isTime() || p == TZOffset) || k == sqltype.KindTime && !p.isTime() {
		return 0, unsupported(p, "datepart", k)
	}
	if p == TZOffset {
		if k != sqltype.KindDateTimeOffset && k != sqltype.KindDateTime2 {
			return 0, unsupported(p, "datepart", k)
		}
		return int64(v.Offset()), nil
	}
	days, ticks := v.LocalParts()
	if k == sqltype.KindDateTime {
		ticks = (ticks + 5_000) / 10_000 * 10_000 // whole milliseconds, as they are shown
	}
	if p.isTime() {
		return timePart(p, ticks), nil
	}
	return dayPart(p, days, dateFirst), nil
}

func timePart(p DatePart, ticks int64) int64 {
	const second = sqltype.TicksPerSecond
	switch p {
	case Hour:
		return ticks / (3600 * second)
	case Minute:
		return ticks / (60 * second) % 60
	case Second:
		return ticks / second % 60
	case Millisecond:
		return ticks % second / 10_000
	case Microsecond:
		return ticks % second / 10
	}
	return ticks % second * 100
}

func dayPart(p DatePart, days int64, dateFirst int) int64 {
	y, m, d := sqltype.CivilDate(days)
	jan1, _ := sqltype.DayNumber(y, 1, 1)
	switch p {
	case Year:
		return y
	case Quarter:
		return (m + 2) / 3
	case Month:
		return m
	case Day:
		return d
	case DayOfYear:
		return days - jan1 + 1
	case Weekday:
		return weekday(days, dateFirst)
	case Week:
		return (days-jan1+weekday(jan1, dateFirst)-1)/7 + 1
	}
	return isoWeek(days)
}

// weekday is 1 to 7, 1 being the day that DATEFIRST names (7 is Sunday).
func weekday(days int64, dateFirst int) int64 {
	monday := days % 7 // 0001-01-01 was a Monday
	return (monday-int64(dateFirst-1)+7)%7 + 1
}

func isoWeek(days int64) int64 {
	thursday := days - days%7 + 3
	y, _, _ := sqltype.CivilDate(thursday)
	jan1, _ := sqltype.DayNumber(y, 1, 1)
	return (thursday-jan1)/7 + 1
}

func dateName(env *Env, a []value) (value, error) {
	p, err := partArg(a[0], "datename")
	if err != nil {
		return value{}, err
	}
	n, err := getPart(p, a[1], env.DateFirst)
	if err != nil {
		return value{}, err
	}
	switch p {
	case Month:
		return sqltype.NVarChar([...]string{"January", "February", "March", "April", "May", "June", "July", "August",
			"September", "October", "November", "December"}[n-1]), nil
	case Weekday:
		days, _ := a[1].LocalParts()
		return sqltype.NVarChar([...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}[days%7]), nil
	case TZOffset:
		return sqltype.NVarChar(offsetText(n)), nil
	}
	v, err := sqltype.Convert(sqltype.BigInt(n), sqltype.NVarCharType(30), sqltype.DefaultStyle)
	return v, err
}
