package sqltype

import (
	"math"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

func toFloat(v Value, to Kind) (Value, error) {
	var f float64
	switch {
	case v.kind.IsNumeric():
		f = v.AsFloat()
	case v.kind.IsText():
		s := trimBlanks(v.s)
		if s != "" {
			var err error
			f, err = strconv.ParseFloat(s, 64)
			if math.IsInf(f, 0) && err != nil {
				return Value{}, overflow("expression", to, 2)
			}
			if err != nil || strings.ContainsAny(s, "xXpP_nNiI") {
				return Value{}, sqlerr.Make(8114, v.kind.errorName(), to.String())
			}
		}
	default: // datetime and smalldatetime: days since 1900 with a fraction
		days, ticks := v.dayTicks()
		f = float64(days-DaysTo1900) + float64(ticks)/TicksPerDay
	}
	if to == KindFloat {
		return Float(f), nil
	}
	r := float32(f)
	if math.IsInf(float64(r), 0) {
		return Value{}, sqlerr.MakeState(232, 2, "real", strconv.FormatFloat(f, 'f', 6, 64))
	}
	return Real(r), nil
}

func toDecimal(v Value, to Type) (Value, error) {
	var n Number
	from, state := v.kind.errorName(), uint8(8)
	switch {
	case v.kind == KindDecimal, v.kind.IsInteger(), v.kind.IsMoney():
		n = v.AsNumber()
	case v.kind.IsFloat():
		var err error
		state = 6
		if n, err = numberFromFloat(v.Float64()); err != nil {
			return Value{}, overflow(from, KindDecimal, state)
		}
	case v.kind.IsText():
		s := trimBlanks(v.s)
		var err error
		n, err = ParseNumber(s)
		switch {
		case err == errSyntax:
			return Value{}, sqlerr.Make(8114, from, "numeric")
		case err != nil:
			return Value{}, overflow(from, KindDecimal, state)
		}
	case v.kind.IsBinary():
		return Value{}, sqlerr.Make(8114, from, "numeric")
	default:
		days, ticks := v.dayTicks()
		var err error
		if n, err = numberFromFloat(float64(days-DaysTo1900) + float64(ticks)/TicksPerDay); err != nil {
			return Value{}, overflow("expression", KindDecimal, 2)
		}
	}
	r, err := n.Fit(to.Precision, to.Scale)
	if err != nil {
		return Value{}, overflow(from, KindDecimal, state)
	}
	return Decimal(r), nil
}

// numberFromFloat takes 17 significant digits, which name a float exactly.
func numberFromFloat(f float64) (Number, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) || math.Abs(f) >= 1e38 {
		return Number{}, errOverflow
	}
	s := strconv.FormatFloat(f, 'e', 16, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	e, err := strconv.Atoi(exp)
	if err != nil {
		return Number{}, errSyntax
	}
	neg := strings.HasPrefix(mantissa, "-")
	digits := strings.Replace(strings.TrimPrefix(mantissa, "-"), ".", "", 1)
	point := 1 + e // position of the point in digits
	switch {
	case point <= 0:
		digits = "0." + strings.Repeat("0", min(-point, 60)) + digits
	case point >= len(digits):
		digits += strings.Repeat("0", point-len(digits))
	default:
		digits = digits[:point] + "." + digits[point:]
	}
	n, err := ParseNumber(digits)
	if neg {
		n = n.Negate()
	}
	return n, err
}

func toMoney(v Value, to Kind) (Value, error) {
	var n Number
	switch {
	case v.kind.IsText():
		s := strings.ReplaceAll(trimBlanks(v.s), ",", "")
		s = strings.TrimPrefix(strings.Replace(s, "-$", "-", 1), "$")
		if s == "" {
			return Value{kind: to}, nil
		}
		var err error
		if n, err = ParseNumber(s); err != nil {
			if err == errSyntax {
				return Value{}, sqlerr.Make(map[Kind]int32{KindMoney: 235, KindSmallMoney: 293}[to])
			}
			return Value{}, sqlerr.Make(236)
		}
	case v.kind.IsFloat():
		var err error
		if n, err = numberFromFloat(v.Float64()); err != nil {
			return Value{}, overflow("expression", to, 2)
		}
	case v.kind.IsBinary():
		n = Number{Scale: 4}
		i := NumberFromInt64(integerFromBytes(v.s, KindBigInt))
		n.Neg, n.Lo = i.Neg, i.Lo
	default:
		n = v.AsNumber()
	}
	n, err := n.Rescale(4)
	if err == nil {
		n.Scale = 0
		units, ok := n.Int64()
		if ok && (to == KindMoney || units == int64(int32(units))) {
			return Value{kind: to, a: units}, nil
		}
	}
	return Value{}, overflow(moneySource(v.kind), to, 2)
}

func moneySource(k Kind) string {
	if k == KindDecimal {
		return "numeric"
	}
	return "expression"
}

// formatFloat writes a float as CONVERT does: style 0 six digits at most, 1
// eight and 2 sixteen in scientific notation, 3 seventeen.
func formatFloat(v Value, style int) string {
	f := v.Float64()
	digits := -1
	switch style {
	case 1:
		digits = 8
	case 2:
		digits = 16
	case 3:
		digits = 17
		if v.kind == KindReal {
			digits = 9
		}
	}
	if digits > 0 {
		return fixExponent(strconv.FormatFloat(f, 'e', digits-1, 64))
	}
	return fixExponent(strconv.FormatFloat(f, 'g', 6, 64))
}

// fixExponent writes exponents with three digits.
func fixExponent(s string) string {
	m, e, ok := strings.Cut(s, "e")
	if !ok {
		return s
	}
	sign := e[:1]
	e = e[1:]
	for len(e) < 3 {
		e = "0" + e
	}
	return m + "e" + sign + e
}

// formatMoney writes money: style 0 with two digits, 1 with two and commas, 2
// (and 126) with four.
func formatMoney(v Value, style int) string {
	n := v.AsNumber()
	if style == 2 || style == 126 {
		return n.String()
	}
	n, err := n.Rescale(2)
	if err != nil {
		return ""
	}
	s := n.String()
	if style != 1 {
		return s
	}
	whole, frac, _ := strings.Cut(s, ".")
	neg := strings.HasPrefix(whole, "-")
	whole = strings.TrimPrefix(whole, "-")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if neg {
		whole = "-" + whole
	}
	return whole + "." + frac
}
