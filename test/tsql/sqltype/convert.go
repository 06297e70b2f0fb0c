package sqltype

import (
	"math"
	"strconv"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// DefaultStyle is the style of CAST, and of CONVERT without one.
const DefaultStyle = -1

// Convert converts a value as CAST and CONVERT do: text and binary that are too
// long are cut, numbers round or fail. The error is an *sqlerr.Error (245,
// 8114, 8115, 241, 529 …). NULL stays NULL.
func Convert(v Value, to Type, style int) (Value, error) {
	if v.kind == KindNull || to.Kind == KindVariant || to.Kind == KindNull {
		return v, nil
	}
	if Castable(v.kind, to.Kind) == CastNever {
		return Value{}, sqlerr.Make(529, v.kind.errorName(), to.Kind.errorName())
	}
	switch {
	case to.Kind.IsInteger():
		return toInteger(v, to.Kind)
	case to.Kind.IsText():
		return toText(v, to, style)
	case to.Kind.IsBinary():
		return toBinary(v, to, style)
	case to.Kind == KindDecimal:
		return toDecimal(v, to)
	case to.Kind.IsFloat():
		return toFloat(v, to.Kind)
	case to.Kind.IsMoney():
		return toMoney(v, to.Kind)
	case to.Kind.IsTemporal():
		return toTemporal(v, to)
	}
	return toUUID(v)
}

// Store converts a value for a column: as Convert, but text or binary
// that is too long for it is error 8152 instead of being cut. Blanks and zero bytes that
// would be cut do not count.
func Store(v Value, to Type) (Value, error) {
	if to.Kind.IsText() && v.kind.IsText() && to.Length > 0 {
		if textTooLong(v.s, to) {
			return Value{}, sqlerr.Make(8152)
		}
	}
	if to.Kind.IsBinary() && v.kind.IsBinary() && to.Length > 0 && len(v.s) > to.Length {
		return Value{}, sqlerr.Make(8152)
	}
	return Convert(v, to, DefaultStyle)
}

// Castability tells how one type becomes another.
type Castability uint8

// How a conversion is allowed.
const (
	CastNever    Castability = iota
	CastExplicit             // only with CAST or CONVERT (implicitly: 257)
	CastImplicit
)

// Castable tells whether a conversion is allowed (documentation page "CAST and
// CONVERT", chart of conversions).
func Castable(from, to Kind) Castability {
	if from == to || from == KindNull || to == KindVariant {
		return CastImplicit
	}
	ff, ft := from.family(), to.family()
	switch {
	case from == KindVariant:
		return CastExplicit
	case from == KindXML:
		return explicitIf(to.IsText() || to.IsBinary())
	case to == KindXML:
		return implicitIf(from.IsText() || from.IsBinary())
	case from == KindImage || to == KindImage:
		return implicitIf(ff == familyBinary && ft == familyBinary)
	case ft == familyText:
		if ff == familyTemporal || ff == familyBinary || ff == familyText || ff == familyUUID || !from.IsMoney() {
			return CastImplicit
		}
		return CastExplicit
	case ff == familyText:
		return implicitIf(ft != familyBinary).orExplicit(ft == familyBinary)
	case ft == familyUUID || ff == familyUUID:
		return implicitIf(ff == familyBinary || ft == familyBinary)
	case ff == familyNumber && ft == familyNumber:
		return CastImplicit
	case ff == familyTemporal && ft == familyTemporal:
		return implicitIf(!(from == KindTime && to == KindDate) && !(from == KindDate && to == KindTime))
	case ff == familyTemporal && ft == familyNumber:
		return explicitIf(from == KindDateTime || from == KindSmallDateTime)
	case ff == familyNumber && ft == familyTemporal:
		return implicitIf(to == KindDateTime || to == KindSmallDateTime)
	case ff == familyBinary && ft == familyNumber:
		return implicitIf(!to.IsFloat())
	case ff == familyBinary && ft == familyTemporal:
		return explicitIf(true)
	}
	return CastImplicit
}

func implicitIf(ok bool) Castability {
	if ok {
		return CastImplicit
	}
	return CastNever
}

func explicitIf(ok bool) Castability {
	if ok {
		return CastExplicit
	}
	return CastNever
}

func (c Castability) orExplicit(ok bool) Castability {
	if c == CastNever && ok {
		return CastExplicit
	}
	return c
}

// errorName is the name that messages use: numeric for decimal.
func (k Kind) errorName() string {
	if k == KindDecimal {
		return "numeric"
	}
	return k.String()
}

// ErrorName is the name of the kind in messages: numeric for decimal.
func (k Kind) ErrorName() string { return k.errorName() }

func overflow(from string, to Kind, state uint8) error {
	return sqlerr.MakeState(8115, state, from, to.errorName())
}

var integerRange = [...]struct{ lo, hi int64 }{
	KindBit: {0, 1}, KindTinyInt: {0, math.MaxUint8}, KindSmallInt: {math.MinInt16, math.MaxInt16},
	KindInt: {math.MinInt32, math.MaxInt32}, KindBigInt: {math.MinInt64, math.MaxInt64},
}

// IntegerFits tells whether v is in the range of an integer kind.
func IntegerFits(k Kind, v int64) bool { return v >= integerRange[k].lo && v <= integerRange[k].hi }

func toInteger(v Value, to Kind) (Value, error) {
	switch {
	case v.kind.IsInteger():
		return integerFromInt(v.a, to)
	case v.kind == KindDecimal:
		return integerFromDecimal(v, to)
	case v.kind.IsFloat():
		return integerFromFloat(v.Float64(), to)
	case v.kind.IsMoney():
		n, err := v.AsNumber().Rescale(0)
		if err != nil {
			return Value{}, overflow("expression", to, 2)
		}
		i, _ := n.Int64()
		return integerFromInt(i, to)
	case v.kind.IsText():
		return integerFromText(v, to)
	case v.kind.IsBinary():
		return Value{kind: to, a: integerFromBytes(v.s, to)}, nil
	}
	days, ticks := v.dayTicks() // datetime and smalldatetime: rounded to days since 1900
	days -= DaysTo1900
	if ticks >= TicksPerDay/2 {
		days++
	}
	return integerFromInt(days, to)
}

func integerFromInt(i int64, to Kind) (Value, error) {
	if to == KindBit {
		return Bit(i != 0), nil
	}
	if IntegerFits(to, i) {
		return Value{kind: to, a: i}, nil
	}
	switch to {
	case KindTinyInt:
		return Value{}, sqlerr.Make(220, "tinyint", strconv.FormatInt(i, 10))
	case KindSmallInt:
		return Value{}, sqlerr.MakeState(220, 1, "smallint", strconv.FormatInt(i, 10))
	}
	return Value{}, overflow("expression", to, 2)
}

func integerFromDecimal(v Value, to Kind) (Value, error) {
	n := v.Number()
	if to == KindBit {
		return Bit(!n.IsZero()), nil
	}
	i, ok := n.Int64()
	if !ok || !IntegerFits(to, i) {
		return Value{}, overflow("numeric", to, 1)
	}
	return Value{kind: to, a: i}, nil
}

func integerFromFloat(f float64, to Kind) (Value, error) {
	if to == KindBit {
		return Bit(f != 0), nil
	}
	t := math.Trunc(f)
	if t >= -(1<<63) && t < 1<<63 && IntegerFits(to, int64(t)) {
		return Value{kind: to, a: int64(t)}, nil
	}
	if to == KindBigInt {
		return Value{}, overflow("expression", to, 2)
	}
	return Value{}, sqlerr.Make(232, to.String(), strconv.FormatFloat(f, 'f', 6, 64))
}

func integerFromText(v Value, to Kind) (Value, error) {
	s := trimBlanks(v.s)
	if to == KindBit {
		switch {
		case equalFoldASCII(s, "true"):
			return Bit(true), nil
		case equalFoldASCII(s, "false"):
			return Bit(false), nil
		}
	}
	if s == "" {
		return Value{kind: to}, nil
	}
	n, err := ParseNumber(s)
	if err == errSyntax || n.Scale > 0 || !allDigits(s) {
		if to == KindBigInt {
			return Value{}, sqlerr.Make(8114, v.kind.errorName(), "bigint")
		}
		return Value{}, sqlerr.Make(245, v.kind.errorName(), v.s, to.String())
	}
	i, ok := n.Int64()
	if to == KindBit {
		return Bit(!n.IsZero()), nil
	}
	if err == nil && ok && IntegerFits(to, i) {
		return Value{kind: to, a: i}, nil
	}
	switch to {
	case KindTinyInt:
		return Value{}, sqlerr.Make(244, v.kind.errorName(), v.s, "INT1")
	case KindSmallInt:
		return Value{}, sqlerr.MakeState(244, 2, v.kind.errorName(), v.s, "INT2")
	case KindInt:
		return Value{}, sqlerr.Make(248, v.kind.errorName(), v.s)
	}
	return Value{}, overflow("expression", to, 2)
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) && !(i == 0 && (s[i] == '-' || s[i] == '+')) {
			return false
		}
	}
	return true
}

// integerFromBytes reads the last bytes as a big-endian two's complement number.
func integerFromBytes(s string, to Kind) int64 {
	size := map[Kind]int{KindBit: 1, KindTinyInt: 1, KindSmallInt: 2, KindInt: 4, KindBigInt: 8}[to]
	if len(s) > size {
		s = s[len(s)-size:]
	}
	var u uint64
	for i := range len(s) {
		u = u<<8 | uint64(s[i])
	}
	switch to {
	case KindBit:
		return int64(boolInt(u != 0))
	case KindSmallInt:
		return int64(int16(u))
	case KindInt:
		return int64(int32(u))
	}
	return int64(u)
}

func trimBlanks(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t' || s[0] == '\r' || s[0] == '\n') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t' || s[len(s)-1] == '\r' || s[len(s)-1] == '\n') {
		s = s[:len(s)-1]
	}
	return s
}
