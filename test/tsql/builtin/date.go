package builtin

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func typeDateTime2(scale uint8) sqltype.Type {
	return sqltype.Type{Kind: sqltype.KindDateTime2, Scale: scale}
}

func typeOffset(scale uint8) sqltype.Type {
	return sqltype.Type{Kind: sqltype.KindDateTimeOffset, Scale: scale}
}

// clockFunc is a function without arguments that tells the time.
func clockFunc(t sqltype.Type, now func(env *Env) value) *Func {
	return &Func{Result: fixed(t), Stable: true, Eval: func(env *Env, _ []value) (value, error) { return now(env), nil }}
}

func dateFunc(name string) *Func {
	switch name {
	case "GETDATE", "CURRENT_TIMESTAMP":
		return clockFunc(sqltype.Type{Kind: sqltype.KindDateTime}, func(env *Env) value { return sqltype.FromTimeDateTime(env.Now) })
	case "GETUTCDATE":
		return clockFunc(sqltype.Type{Kind: sqltype.KindDateTime}, func(env *Env) value { return sqltype.FromTimeDateTime(env.Now.UTC()) })
	case "SYSDATETIME":
		return clockFunc(typeDateTime2(7), func(env *Env) value { return sqltype.FromTime(env.Now) })
	case "SYSUTCDATETIME":
		return clockFunc(typeDateTime2(7), func(env *Env) value { return sqltype.FromTime(env.Now.UTC()) })
	case "SYSDATETIMEOFFSET":
		return clockFunc(typeOffset(7), func(env *Env) value { return sqltype.FromTimeOffset(env.Now) })
	case "DATEADD":
		return &Func{Min: 3, Max: 3, Args: []Arg{Part, Int, Old}, Result: dateAddType, Eval: dateAdd}
	case "DATEDIFF", "DATEDIFF_BIG":
		k := sqltype.KindInt
		if name == "DATEDIFF_BIG" {
			k = sqltype.KindBigInt
		}
		lower := strings.ToLower(name)
		return &Func{Min: 3, Max: 3, Args: []Arg{Part, Temporal}, Result: fixedKind(k), Eval: func(_ *Env, a []value) (value, error) {
			n, err := dateDiff(lower, a)
			if err == nil && k == sqltype.KindInt && (n > math.MaxInt32 || n < math.MinInt32) {
				err = sqlerr.Make(535, lower, lower)
			}
			return sqltype.Integer(k, n), err
		}}
	case "EOMONTH":
		return &Func{Min: 1, Max: 2, Args: []Arg{Temporal, Int}, Result: fixedKind(sqltype.KindDate), Eval: endOfMonth}
	case "SWITCHOFFSET":
		return &Func{Min: 2, Max: 2, Args: []Arg{Zoned, Any}, Result: offsetType, Eval: switchOffset}
	case "TODATETIMEOFFSET":
		return &Func{Min: 2, Max: 2, Args: []Arg{Temporal, Any}, Result: offsetType, Eval: toDateTimeOffset}
	case "ISDATE":
		return &Func{Min: 1, Max: 1, NullOK: true, Result: fixedKind(sqltype.KindInt), Eval: func(_ *Env, a []value) (value, error) {
			_, err := sqltype.Convert(a[0], sqltype.Type{Kind: sqltype.KindDateTime}, sqltype.DefaultStyle)
			if err != nil || a[0].IsNull() {
				return sqltype.Int(0), nil
			}
			return sqltype.Int(1), nil
		}}
	case "DATEFROMPARTS", "DATETIMEFROMPARTS", "DATETIME2FROMPARTS", "DATETIMEOFFSETFROMPARTS":
		return fromParts(name)
	}
	return nil
}

func dateAddType(a []sqltype.Type) sqltype.Type {
	if a[2].Kind.IsTemporal() {
		return a[2]
	}
	return sqltype.Type{Kind: sqltype.KindDateTime}
}

// offsetType is datetimeoffset with the argument's fraction.
func offsetType(a []sqltype.Type) sqltype.Type {
	switch a[0].Kind {
	case sqltype.KindDateTime2, sqltype.KindDateTimeOffset, sqltype.KindTime:
		return typeOffset(a[0].Scale)
	case sqltype.KindDateTime:
		return typeOffset(3)
	case sqltype.KindDate, sqltype.KindSmallDateTime:
		return typeOffset(0)
	}
	return typeOffset(7)
}

// valueType is the type of a temporal value.
func valueType(v value) sqltype.Type { return sqltype.Type{Kind: v.Kind(), Scale: v.Scale()} }

func dateAdd(_ *Env, a []value) (value, error) {
	p, err := partArg(a[0], "dateadd")
	if err != nil {
		return value{}, err
	}
	n, v := a[1].Int64(), a[2]
	k := v.Kind()
	if p == TZOffset || p == ISOWeek || k == sqltype.KindDate && p.isTime() || k == sqltype.KindTime && !p.isTime() {
		return value{}, unsupported(p, "dateadd", k)
	}
	if n > math.MaxInt32 || n < math.MinInt32 {
		return value{}, sqlerr.Make(8115, "expression", "int")
	}
	days, ticks := v.LocalParts()
	if k == sqltype.KindDateTime && p >= Microsecond {
		ticks = (ticks + 5_000) / 10_000 * 10_000
	}
	switch p {
	case Year, Quarter, Month:
		months := n * map[DatePart]int64{Year: 12, Quarter: 3, Month: 1}[p]
		if days, err = addMonths(days, months, k); err != nil {
			return value{}, err
		}
	case Week:
		days += 7 * n
	case Day, DayOfYear, Weekday:
		days += n
	case Nanosecond:
		ticks += (n + 50) / 100
	default:
		ticks += n * partTicks(p)
	}
	r, err := sqltype.FromLocalParts(valueType(v), days, ticks, v.Offset())
	if err != nil {
		return value{}, sqlerr.Make(517, k.String())
	}
	return r, nil
}

func partTicks(p DatePart) int64 {
	switch p {
	case Hour:
		return 3600 * sqltype.TicksPerSecond
	case Minute:
		return 60 * sqltype.TicksPerSecond
	case Second:
		return sqltype.TicksPerSecond
	case Millisecond:
		return sqltype.TicksPerSecond / 1000
	}
	return sqltype.TicksPerSecond / 1_000_000
}

// addMonths keeps the day of the month, or takes the month's last.
func addMonths(days, months int64, k sqltype.Kind) (int64, error) {
	y, m, d := sqltype.CivilDate(days)
	total := y*12 + m - 1 + months
	y, m = total/12, total%12+1
	if total < 12 || y > 9999 {
		return 0, sqlerr.Make(517, k.String())
	}
	r, ok := sqltype.DayNumber(y, m, min(d, sqltype.DaysInMonth(y, m)))
	if !ok {
		return 0, sqlerr.Make(517, k.String())
	}
	return r, nil
}

// dateDiff counts the boundaries of a part between two moments.
func dateDiff(function string, a []value) (int64, error) {
	p, err := partArg(a[0], function)
	if err != nil {
		return 0, err
	}
	if p == TZOffset {
		return 0, unsupported(p, function, a[1].Kind())
	}
	d1, t1 := utcParts(a[1])
	d2, t2 := utcParts(a[2])
	y1, m1, _ := sqltype.CivilDate(d1)
	y2, m2, _ := sqltype.CivilDate(d2)
	switch p {
	case Year:
		return y2 - y1, nil
	case Quarter:
		return (y2*4 + (m2-1)/3) - (y1*4 + (m1-1)/3), nil
	case Month:
		return (y2*12 + m2) - (y1*12 + m1), nil
	case Week, ISOWeek: // always from Sunday
		return (d2+1)/7 - (d1+1)/7, nil
	case Day, DayOfYear, Weekday:
		return d2 - d1, nil
	}
	return tickDiff(function, p, d2-d1, t1, t2)
}

// utcParts is the moment in UTC for a datetimeoffset, as it stands for the others.
func utcParts(v value) (days, ticks int64) {
	days, ticks = v.LocalParts()
	if v.Kind() == sqltype.KindDateTimeOffset {
		return int64(v.Days()), v.Ticks()
	}
	if v.Kind() == sqltype.KindDateTime {
		ticks = (ticks + 5_000) / 10_000 * 10_000
	}
	return days, ticks
}

func tickDiff(function string, p DatePart, days, t1, t2 int64) (int64, error) {
	if p == Nanosecond {
		total := float64(days)*sqltype.TicksPerDay*100 + float64(t2-t1)*100
		if math.Abs(total) > math.MaxInt64 {
			return 0, sqlerr.Make(535, function, function)
		}
		return days*sqltype.TicksPerDay*100 + (t2-t1)*100, nil
	}
	unit := partTicks(p)
	perDay := int64(sqltype.TicksPerDay) / unit
	return days*perDay + t2/unit - t1/unit, nil
}

func endOfMonth(_ *Env, a []value) (value, error) {
	days, _ := a[0].LocalParts()
	if len(a) == 2 {
		var err error
		if days, err = addMonths(days, a[1].Int64(), sqltype.KindDate); err != nil {
			return value{}, err
		}
	}
	y, m, _ := sqltype.CivilDate(days)
	r, _ := sqltype.DayNumber(y, m, sqltype.DaysInMonth(y, m))
	return sqltype.Date(int32(r)), nil
}

// parseOffset reads ±hh:mm or a number of minutes.
func parseOffset(v value, function string) (int16, error) {
	bad := sqlerr.Make(9812, function)
	if v.Kind().IsNumeric() {
		m := int64(v.AsFloat())
		if m < -840 || m > 840 {
			return 0, bad
		}
		return int16(m), nil
	}
	s := strings.TrimSpace(v.Str())
	if s == "Z" || s == "z" {
		return 0, nil
	}
	if len(s) != 6 || s[3] != ':' || s[0] != '+' && s[0] != '-' {
		return 0, bad
	}
	h, err1 := strconv.Atoi(s[1:3])
	m, err2 := strconv.Atoi(s[4:])
	total := h*60 + m
	if err1 != nil || err2 != nil || m > 59 || total > 840 {
		return 0, bad
	}
	if s[0] == '-' {
		total = -total
	}
	return int16(total), nil
}

func offsetText(minutes int64) string {
	sign := '+'
	if minutes < 0 {
		sign, minutes = '-', -minutes
	}
	return fmt.Sprintf("%c%02d:%02d", sign, minutes/60, minutes%60)
}

func switchOffset(_ *Env, a []value) (value, error) {
	off, err := parseOffset(a[1], "switchoffset")
	if err != nil {
		return value{}, err
	}
	days, ticks := utcParts(a[0])
	return sqltype.DateTimeOffset(int32(days), ticks, off, offsetScale(a[0])), nil
}

func offsetScale(v value) uint8 {
	return offsetType([]sqltype.Type{valueType(v)}).Scale
}

func toDateTimeOffset(_ *Env, a []value) (value, error) {
	off, err := parseOffset(a[1], "todatetimeoffset")
	if err != nil {
		return value{}, err
	}
	days, ticks := a[0].LocalParts()
	return sqltype.FromLocalParts(typeOffset(offsetScale(a[0])), days, ticks, off)
}

// fromParts makes the …FROMPARTS functions.
func fromParts(name string) *Func {
	f := &Func{Args: []Arg{Int}}
	switch name {
	case "DATEFROMPARTS":
		f.Min, f.Result = 3, fixedKind(sqltype.KindDate)
	case "DATETIMEFROMPARTS":
		f.Min, f.Result = 7, fixedKind(sqltype.KindDateTime)
	case "DATETIME2FROMPARTS":
		f.Min, f.Result = 8, fixed(typeDateTime2(7))
	case "DATETIMEOFFSETFROMPARTS":
		f.Min, f.Result = 10, fixed(typeOffset(7))
	}
	f.Max = f.Min
	t := f.Result(nil)
	f.Eval = func(_ *Env, a []value) (value, error) {
		n := make([]int64, 10)
		for i := range a {
			n[i] = a[i].Int64()
		}
		return dateFromParts(t, n, len(a))
	}
	return f
}

func dateFromParts(t sqltype.Type, n []int64, count int) (value, error) {
	bad := sqlerr.New(289, 16, 3, "Cannot construct data type %s, some of the arguments have values which are not valid.", t.Kind)
	days, ok := sqltype.DayNumber(n[0], n[1], n[2])
	if !ok || n[3] < 0 || n[3] > 23 || n[4] < 0 || n[4] > 59 || n[5] < 0 || n[5] > 59 || n[6] < 0 {
		return value{}, bad
	}
	ticks := (n[3]*3600 + n[4]*60 + n[5]) * sqltype.TicksPerSecond
	scale, off := int64(3), int64(0)
	switch count {
	case 8:
		scale = n[7]
	case 10:
		scale, off = n[9], n[7]*60+n[8]
	}
	if scale < 0 || scale > 7 || off < -840 || off > 840 {
		return value{}, bad
	}
	frac, limit := n[6], int64(1)
	for range 7 - scale {
		frac *= 10
	}
	for range scale {
		limit *= 10
	}
	if n[6] >= limit {
		return value{}, bad
	}
	return sqltype.FromLocalParts(t, days, ticks+frac, int16(off))
}
