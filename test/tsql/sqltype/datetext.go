package sqltype

import (
	"strings"
)

// dateTimeParts is what a date and time text says.
type dateTimeParts struct {
	days      int64 // since 0001-01-01
	ticks     int64 // 100 ns
	offset    int16 // minutes
	hasDate   bool
	hasTime   bool
	hasOffset bool
	digits    int  // of the fraction
	badValue  bool // well formed, but a field is out of its range (242)
}

// parseDateTime reads the date and time formats that SQL Server takes under
// us_english (dates in figures are month, day, year unless the year comes
// first): yyyy-mm-dd, yyyymmdd, m/d/yyyy, Mon dd yyyy, dd Mon yyyy, hh:mm[:ss[.f]] [AM|PM], T
// between, an offset or Z behind. ok is false when the text is none of them.
func parseDateTime(s string) (p dateTimeParts, ok bool) {
	d := dateScanner{s: strings.TrimSpace(s)}
	if d.s == "" {
		p.days, p.hasDate = DaysTo1900, true
		return p, true
	}
	for d.i < len(d.s) {
		switch {
		case d.s[d.i] == ' ' || d.s[d.i] == ',':
			d.i++
		case d.atTime():
			if p.hasTime || !d.time(&p) {
				return p, false
			}
		case p.hasTime && (d.s[d.i] == '+' || d.s[d.i] == '-' || d.s[d.i] == 'Z' || d.s[d.i] == 'z'):
			if p.hasOffset || !d.offset(&p) {
				return p, false
			}
		default:
			if p.hasDate || !d.date(&p) {
				return p, false
			}
			if d.i < len(d.s) && (d.s[d.i] == 'T' || d.s[d.i] == 't') {
				d.i++
				if !d.atTime() {
					return p, false
				}
			}
		}
	}
	if !p.hasDate {
		p.days = DaysTo1900
	}
	return p, p.hasDate || p.hasTime
}

type dateScanner struct {
	s string
	i int
}

// number reads digits and says how many there were.
func (d *dateScanner) number() (v int64, width int) {
	start := d.i
	for d.i < len(d.s) && isDigit(d.s[d.i]) && d.i-start < 9 {
		v = v*10 + int64(d.s[d.i]-'0')
		d.i++
	}
	return v, d.i - start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func (d *dateScanner) word() string {
	start := d.i
	for d.i < len(d.s) && isLetter(d.s[d.i]) {
		d.i++
	}
	return d.s[start:d.i]
}

func (d *dateScanner) skip(set string) bool {
	start := d.i
	for d.i < len(d.s) && strings.IndexByte(set, d.s[d.i]) >= 0 {
		d.i++
	}
	return d.i > start
}

// atTime tells whether a time of day begins here: digits, then a colon or AM/PM.
func (d *dateScanner) atTime() bool {
	i := d.i
	for i < len(d.s) && isDigit(d.s[i]) {
		i++
	}
	if i == d.i || i-d.i > 2 {
		return false
	}
	if i < len(d.s) && d.s[i] == ':' {
		return true
	}
	rest := strings.ToUpper(strings.TrimLeft(d.s[i:], " "))
	return strings.HasPrefix(rest, "AM") || strings.HasPrefix(rest, "PM")
}

func (d *dateScanner) time(p *dateTimeParts) bool {
	p.hasTime = true
	h, _ := d.number()
	var m, sec, frac int64
	if d.eat(':') {
		var w int
		if m, w = d.number(); w == 0 || w > 2 {
			return false
		}
		if d.eat(':') {
			if sec, w = d.number(); w == 0 || w > 2 {
				return false
			}
			var ok bool
			if frac, ok = d.fraction(p); !ok {
				return false
			}
		}
	}
	d.skip(" ")
	switch strings.ToUpper(d.peekWord()) {
	case "AM":
		d.word()
		p.badValue = p.badValue || h > 12
		h %= 12
	case "PM":
		d.word()
		p.badValue = p.badValue || h > 23 || h == 0
		if h < 12 {
			h += 12
		}
	}
	if h > 23 || m > 59 || sec > 59 {
		p.badValue = true
		return true
	}
	p.ticks = (h*3600+m*60+sec)*TicksPerSecond + frac
	return true
}

func (d *dateScanner) peekWord() string {
	save := d.i
	w := d.word()
	d.i = save
	return w
}

func (d *dateScanner) eat(c byte) bool {
	if d.i < len(d.s) && d.s[d.i] == c {
		d.i++
		return true
	}
	return false
}

// fraction reads .fffffff (a fraction) or :mmm (thousandths).
func (d *dateScanner) fraction(p *dateTimeParts) (int64, bool) {
	colon := false
	switch {
	case d.eat('.'):
	case d.eat(':'):
		colon = true
	default:
		return 0, true
	}
	v, w := d.number()
	if w == 0 || w > 7 || colon && w > 3 {
		return 0, false
	}
	if colon {
		p.digits = 3
		return v * TicksPerSecond / 1000, true
	}
	p.digits = w
	for range 7 - w {
		v *= 10
	}
	return v, true
}

func (d *dateScanner) offset(p *dateTimeParts) bool {
	p.hasOffset = true
	if d.eat('Z') || d.eat('z') {
		return true
	}
	sign := int16(1)
	if d.s[d.i] == '-' {
		sign = -1
	}
	d.i++
	h, w := d.number()
	if w != 2 || !d.eat(':') {
		return false
	}
	m, w := d.number()
	if w != 2 {
		return false
	}
	if m > 59 || h*60+m > 14*60 {
		p.badValue = true
		return true
	}
	p.offset = sign * int16(h*60+m)
	return true
}

func (d *dateScanner) date(p *dateTimeParts) bool {
	p.hasDate = true
	var year, month, day int64
	var ok bool
	if isLetter(d.s[d.i]) {
		year, month, day, ok = d.monthFirst()
	} else {
		year, month, day, ok = d.figures()
	}
	if !ok {
		return false
	}
	if year < 1 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		p.badValue = true
		return true
	}
	p.days = dayNumber(year, month, day)
	return true
}

// monthFirst reads Mon dd[,] yyyy.
func (d *dateScanner) monthFirst() (year, month, day int64, ok bool) {
	if month = monthNumber(d.word()); month == 0 {
		return 0, 0, 0, false
	}
	d.skip(" ,.-/")
	day, w := d.number()
	if w == 0 {
		return 0, 0, 0, false
	}
	if w == 4 {
		return day, month, 1, true
	}
	d.skip(" ,.-/")
	year, w = d.number()
	return fullYear(year, w), month, day, w == 2 || w == 4
}

// figures reads yyyymmdd, yymmdd, yyyy, and three parts with separators, of which the
// second may be the name of a month.
func (d *dateScanner) figures() (year, month, day int64, ok bool) {
	a, w := d.number()
	switch w {
	case 8:
		return a / 10000, a / 100 % 100, a % 100, true
	case 6:
		return fullYear(a/10000, 2), a / 100 % 100, a % 100, true
	case 0, 3, 5, 7, 9:
		return 0, 0, 0, false
	}
	if !d.skip("-/. ") || d.i == len(d.s) {
		return a, 1, 1, w == 4
	}
	if isLetter(d.s[d.i]) {
		if month = monthNumber(d.word()); month == 0 {
			return 0, 0, 0, false
		}
		d.skip("-/. ,")
		y, yw := d.number()
		if w == 4 {
			return a, month, y, yw > 0 && yw <= 2
		}
		return fullYear(y, yw), month, a, yw == 2 || yw == 4
	}
	b, bw := d.number()
	if bw == 0 || bw > 2 || !d.skip("-/.") {
		return 0, 0, 0, false
	}
	c, cw := d.number()
	if w == 4 {
		return a, b, c, cw == 1 || cw == 2
	}
	return fullYear(c, cw), a, b, cw == 2 || cw == 4
}

// fullYear widens a two-digit year (cut-off 2049).
func fullYear(y int64, width int) int64 {
	switch {
	case width > 2:
		return y
	case y < 50:
		return y + 2000
	}
	return y + 1900
}

var monthNames = [...]string{"January", "February", "March", "April", "May", "June", "July", "August",
	"September", "October", "November", "December"}

// monthNumber knows full names and their first three letters; 0 otherwise.
func monthNumber(w string) int64 {
	for i, m := range monthNames {
		if strings.EqualFold(w, m) || len(w) == 3 && strings.EqualFold(w, m[:3]) {
			return int64(i + 1)
		}
	}
	return 0
}

func isLeap(y int64) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func daysIn(y, m int64) int64 {
	switch m {
	case 2:
		if isLeap(y) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// dayNumber counts days since 0001-01-01 in the Gregorian calendar.
func dayNumber(y, m, d int64) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	return 365*y + y/4 - y/100 + y/400 + (153*(m-3)+2)/5 + d - 307
}

// CivilDate splits a day number (days since 0001-01-01) into year, month and day.
func CivilDate(days int64) (year, month, day int64) {
	z := days + 306
	era := floorDiv(z, 146_097)
	doe := z - era*146_097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = doy - (153*mp+2)/5 + 1
	month = mp + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// DayNumber counts days from 0001-01-01 to a date; ok is false for a date that
// does not exist or lies outside the years 1 to 9999.
func DayNumber(year, month, day int64) (days int64, ok bool) {
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false
	}
	return dayNumber(year, month, day), true
}

// DaysInMonth is the number of days of a month.
func DaysInMonth(year, month int64) int64 { return daysIn(year, month) }
