package sqltype

import (
	"strconv"
)

// clock is a temporal value taken apart for formatting.
type clock struct {
	year, month, day  int64
	hour, minute, sec int64
	frac              int64 // 100 ns
	digits            uint8 // fraction digits that the type shows
	offset            int16
	isOffset          bool
	oldType           bool // datetime or smalldatetime
}

func clockOf(v Value) clock {
	days, ticks := v.LocalParts()
	c := clock{digits: v.scale, offset: v.off, isOffset: v.kind == KindDateTimeOffset}
	switch v.kind {
	case KindDateTime:
		c.digits, c.oldType = 3, true
		ticks = (ticks + 5_000) / 10_000 * 10_000 // .0033333 shows as .003, .0066667 as .007
	case KindSmallDateTime:
		c.digits, c.oldType = 3, true
	}
	c.year, c.month, c.day = CivilDate(days)
	s := ticks / TicksPerSecond
	c.frac = ticks % TicksPerSecond
	c.hour, c.minute, c.sec = s/3600, s/60%60, s%60
	return c
}

// formatTemporal writes a date or time in a style of CONVERT; ok is false for a
// style that does not exist. [DefaultStyle] is 0 for datetime and smalldatetime, 121 for
// the others.
func formatTemporal(v Value, style int) (string, bool) {
	if style == DefaultStyle {
		style = 121
		if v.kind == KindDateTime || v.kind == KindSmallDateTime {
			style = 0
		}
	}
	date, timePart := v.kind != KindTime, v.kind != KindDate
	f := formatter{c: clockOf(v)}
	layout := layoutOf(style)
	if layout == nil {
		return "", false
	}
	f.write(layout, date, timePart, style)
	return string(f.out), true
}

// layout is a style: the date's pattern, then the time's. In a pattern Y is the
// year, y two digits of it, M D the month and day in two digits, N the name
// of the month, d the day blank-padded; h n s hours, minutes, seconds; i the hour
// of twelve, blank-padded; f the fraction behind a point (or colon F), p AM/PM.
type layout struct{ date, sep, time string }

func layoutOf(style int) *layout {
	if l, ok := centuryLayout(style); ok {
		return l
	}
	if style >= 1 && style <= 12 && style != 9 && style != 8 {
		l, ok := centuryLayout(style + 100)
		if !ok {
			return nil
		}
		short := *l
		short.date = shortYear(short.date)
		return &short
	}
	return nil
}

func shortYear(p string) string {
	b := []byte(p)
	for i := range b {
		if b[i] == 'Y' {
			b[i] = 'y'
		}
	}
	return string(b)
}

func centuryLayout(style int) (*layout, bool) {
	switch style {
	case 0, 100:
		return &layout{"N d Y", " ", "i:np"}, true
	case 101:
		return &layout{"M/D/Y", " ", ""}, true
	case 102:
		return &layout{"Y.M.D", " ", ""}, true
	case 103:
		return &layout{"D/M/Y", " ", ""}, true
	case 104:
		return &layout{"D.M.Y", " ", ""}, true
	case 105:
		return &layout{"D-M-Y", " ", ""}, true
	case 106:
		return &layout{"D N Y", " ", ""}, true
	case 107:
		return &layout{"N D, Y", " ", ""}, true
	case 8, 24, 108:
		return &layout{"", "", "h:n:s"}, true
	case 9, 109:
		return &layout{"N d Y", " ", "i:n:sFp"}, true
	case 110:
		return &layout{"M-D-Y", " ", ""}, true
	case 111:
		return &layout{"Y/M/D", " ", ""}, true
	case 112:
		return &layout{"YMD", " ", ""}, true
	case 13, 113:
		return &layout{"D N Y", " ", "h:n:sF"}, true
	case 14, 114:
		return &layout{"", "", "h:n:sF"}, true
	case 20, 120:
		return &layout{"Y-M-D", " ", "h:n:s"}, true
	case 21, 25, 121:
		return &layout{"Y-M-D", " ", "h:n:sf"}, true
	case 126, 127:
		return &layout{"Y-M-D", "T", "h:n:sf"}, true
	}
	return nil, false
}

type formatter struct {
	c        clock
	out      []byte
	dropZero bool // a zero fraction is left out
}

func (f *formatter) write(l *layout, date, timePart bool, style int) {
	if style == 127 && f.c.isOffset {
		f.toUTC()
	}
	f.dropZero = style == 126 || style == 127
	showDate, showTime := date && l.date != "", timePart && l.time != ""
	if showDate {
		f.pattern(l.date)
	}
	if showDate && showTime {
		f.out = append(f.out, l.sep...)
	}
	if showTime {
		f.pattern(l.time)
	}
	f.suffix(style, timePart && showTime)
}

// suffix writes the offset of a datetimeoffset, and the Z of style 127.
func (f *formatter) suffix(style int, showTime bool) {
	if !showTime {
		return
	}
	switch {
	case style == 127 && f.c.isOffset:
		f.out = append(f.out, 'Z')
	case f.c.isOffset && style == 126:
		f.zone()
	case f.c.isOffset && (style >= 120 || style == 20 || style == 21 || style == 25 || style < 20):
		f.out = append(f.out, ' ')
		f.zone()
	}
}

func (f *formatter) toUTC() {
	c := &f.c
	days, ticks := normalize(dayNumber(c.year, c.month, c.day),
		((c.hour*3600+c.minute*60+c.sec)-int64(c.offset)*60)*TicksPerSecond)
	c.year, c.month, c.day = CivilDate(days)
	s := ticks / TicksPerSecond
	c.hour, c.minute, c.sec = s/3600, s/60%60, s%60
}

func (f *formatter) zone() {
	o := f.c.offset
	sign := byte('+')
	if o < 0 {
		sign, o = '-', -o
	}
	f.out = append(f.out, sign)
	f.pad(int64(o/60), 2, '0')
	f.out = append(f.out, ':')
	f.pad(int64(o%60), 2, '0')
}

func (f *formatter) pattern(p string) {
	c := &f.c
	for i := range len(p) {
		switch p[i] {
		case 'Y':
			f.pad(c.year, 4, '0')
		case 'y':
			f.pad(c.year%100, 2, '0')
		case 'M':
			f.pad(c.month, 2, '0')
		case 'D':
			f.pad(c.day, 2, '0')
		case 'N':
			f.out = append(f.out, monthNames[c.month-1][:3]...)
		case 'd':
			f.pad(c.day, 2, ' ')
		case 'h':
			f.pad(c.hour, 2, '0')
		case 'i':
			f.pad((c.hour+11)%12+1, 2, ' ')
		case 'n':
			f.pad(c.minute, 2, '0')
		case 's':
			f.pad(c.sec, 2, '0')
		case 'f':
			f.fraction('.')
		case 'F':
			f.fraction(fractionMark(c))
		case 'p':
			f.out = append(f.out, "AP"[c.hour/12], 'M')
		default:
			f.out = append(f.out, p[i])
		}
	}
}

// fractionMark is a colon for datetime and smalldatetime, a point for the newer types.
func fractionMark(c *clock) byte {
	if c.oldType {
		return ':'
	}
	return '.'
}

func (f *formatter) fraction(mark byte) {
	c := &f.c
	if c.digits == 0 || f.dropZero && c.frac == 0 {
		return
	}
	f.out = append(f.out, mark)
	f.pad(c.frac/int64(pow10Low[7-c.digits]), int(c.digits), '0')
}

func (f *formatter) pad(v int64, width int, fill byte) {
	s := strconv.FormatInt(v, 10)
	for range width - len(s) {
		f.out = append(f.out, fill)
	}
	f.out = append(f.out, s...)
}
