package tds

import (
	"fmt"
	"time"
)

// TicksPerDay is the number of 100 ns units of a day.
const TicksPerDay = 24 * 60 * 60 * 10_000_000

// Days of well-known dates, counted from 0001-01-01.
const (
	daysTo1900 = 693_595
	daysTo1970 = 719_162
)

// Date is a day of the proleptic Gregorian calendar, as the number of days since 0001-01-01 (the date type's own form).
// SQL Server's range is 0 to 3652058, which is 9999-12-31.
type Date int32

// NewDate gives the day of a calendar date.
func NewDate(year int, month time.Month, day int) Date {
	return DateOf(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// DateOf gives the calendar day of t in t's own zone.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	seconds := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	return Date(seconds/86400 + daysTo1970)
}

// GoTime gives midnight of the day, UTC.
func (d Date) GoTime() time.Time { return time.Unix((int64(d)-daysTo1970)*86400, 0).UTC() }

// String gives YYYY-MM-DD.
func (d Date) String() string { return d.GoTime().Format("2006-01-02") }

// Time is a time of day in units of 100 ns since midnight. Columns of a smaller scale drop digits, they do not round:
// rounding is the engine's business.
type Time int64

// NewTime gives a time of day; nanoseconds below 100 are dropped.
func NewTime(hour, minute, second, nanosecond int) Time {
	return Time(((int64(hour)*60+int64(minute))*60+int64(second))*10_000_000 + int64(nanosecond)/100)
}

// TimeOf gives the time of day of t in t's own zone.
func TimeOf(t time.Time) Time { return NewTime(t.Hour(), t.Minute(), t.Second(), t.Nanosecond()) }

// String gives HH:MM:SS with seven digits of the fraction.
func (t Time) String() string {
	s := int64(t) / 10_000_000
	return fmt.Sprintf("%02d:%02d:%02d.%07d", s/3600, s/60%60, s%60, int64(t)%10_000_000)
}

// DateTime2 is a day and a time of day, without a zone.
type DateTime2 struct {
	Date Date
	Time Time
}

// DateTime2Of gives the wall clock of t in t's own zone.
func DateTime2Of(t time.Time) DateTime2 { return DateTime2{DateOf(t), TimeOf(t)} }

// GoTime gives the same wall clock in UTC.
func (d DateTime2) GoTime() time.Time {
	return d.Date.GoTime().Add(time.Duration(d.Time) * 100)
}

// String gives YYYY-MM-DDTHH:MM:SS.fffffff.
func (d DateTime2) String() string { return d.Date.String() + "T" + d.Time.String() }

// DateTimeOffset is an instant and the offset of the place it was noted in. Date and Time are UTC, as on the wire; the
// local clock is Offset minutes ahead of them.
type DateTimeOffset struct {
	Date   Date
	Time   Time
	Offset int16
}

// DateTimeOffsetOf gives the instant t with its zone's offset, in whole minutes.
func DateTimeOffsetOf(t time.Time) DateTimeOffset {
	_, seconds := t.Zone()
	utc := t.UTC()
	return DateTimeOffset{DateOf(utc), TimeOf(utc), int16(seconds / 60)}
}

// GoTime gives the instant in a fixed zone of the offset.
func (d DateTimeOffset) GoTime() time.Time {
	return DateTime2{d.Date, d.Time}.GoTime().In(time.FixedZone("", int(d.Offset)*60))
}

// String gives the local clock and its offset.
func (d DateTimeOffset) String() string {
	return d.GoTime().Format("2006-01-02T15:04:05.0000000-07:00")
}

// TicksPerDayDateTime is the number of 1/300 s units of a day.
const TicksPerDayDateTime = 24 * 60 * 60 * 300

// DateTime is a datetime: days since 1900-01-01 (negative back to 1753) and 1/300 s units since midnight.
type DateTime struct {
	Days  int32
	Ticks uint32
}

// DateTimeOf gives the wall clock of t in t's own zone, rounded to 1/300 s as SQL Server rounds: to the nearest tick, from
// 23:59:59.998333 on to the next day.
func DateTimeOf(t time.Time) DateTime {
	days := int32(DateOf(t)) - daysTo1900
	ticks := (int64(TimeOf(t))*3 + 50_000) / 100_000
	if ticks == TicksPerDayDateTime {
		days, ticks = days+1, 0
	}
	return DateTime{days, uint32(ticks)}
}

// DateTime2 gives the value as SQL Server converts it: the thirds of a hundredth become .0000000, .0033333, .0066667.
func (d DateTime) DateTime2() DateTime2 {
	ticks := (int64(d.Ticks)*100_000 + 1) / 3
	return DateTime2{Date(d.Days + daysTo1900), Time(ticks)}
}

// Milliseconds gives the day and the milliseconds since midnight as SQL Server prints them: .000, .003, .007.
func (d DateTime) Milliseconds() (Date, int64) {
	return Date(d.Days + daysTo1900), (int64(d.Ticks)*10 + 1) / 3
}

// GoTime gives the wall clock in UTC, in whole milliseconds as SQL Server prints it.
func (d DateTime) GoTime() time.Time {
	date, ms := d.Milliseconds()
	return date.GoTime().Add(time.Duration(ms) * time.Millisecond)
}

// String gives YYYY-MM-DDTHH:MM:SS.mmm.
func (d DateTime) String() string { return d.GoTime().Format("2006-01-02T15:04:05.000") }

// SmallDateTime is a smalldatetime: days since 1900-01-01 and minutes since midnight.
type SmallDateTime struct {
	Days, Minutes uint16
}

// SmallDateTimeOf gives the wall clock of t in t's own zone, rounded to the minute as SQL Server rounds: up from
// 29.999 s. A day before 1900-01-01 or after 2079-06-06 wraps.
func SmallDateTimeOf(t time.Time) SmallDateTime {
	days := int32(DateOf(t)) - daysTo1900
	ms := int64(TimeOf(t)) / 10_000
	minutes := (ms + 30_001) / 60_000
	if minutes == 24*60 {
		days, minutes = days+1, 0
	}
	return SmallDateTime{uint16(days), uint16(minutes)}
}

// GoTime gives the wall clock in UTC.
func (d SmallDateTime) GoTime() time.Time {
	return Date(int32(d.Days) + daysTo1900).GoTime().Add(time.Duration(d.Minutes) * time.Minute)
}

// String gives YYYY-MM-DDTHH:MM:SS.
func (d SmallDateTime) String() string { return d.GoTime().Format("2006-01-02T15:04:05") }
