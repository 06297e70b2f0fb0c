package builtin

import (
	"math"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// numericType is the type that a numeric function returns: int for the small
// integers, otherwise the argument's own; float for text.
func numericType(a []sqltype.Type) sqltype.Type {
	switch k := a[0].Kind; {
	case k == sqltype.KindBit, k == sqltype.KindTinyInt, k == sqltype.KindSmallInt, k == sqltype.KindNull:
		return sqltype.Type{Kind: sqltype.KindInt}
	case k == sqltype.KindReal, k.IsText():
		return sqltype.Type{Kind: sqltype.KindFloat}
	case k == sqltype.KindSmallMoney:
		return sqltype.Type{Kind: sqltype.KindMoney}
	}
	return a[0]
}

// roundedType is numericType, a decimal without its fraction.
func roundedType(a []sqltype.Type) sqltype.Type {
	t := numericType(a)
	if t.Kind == sqltype.KindDecimal {
		t.Scale = 0
	}
	return t
}

func floatFunc(fn func(float64) float64) *Func {
	return &Func{Min: 1, Max: 1, Args: []Arg{Float}, Result: fixedKind(sqltype.KindFloat), Eval: func(_ *Env, a []value) (value, error) {
		f := fn(a[0].Float64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return value{}, sqlerr.New(3623, 16, 1, "An invalid floating point operation occurred.")
		}
		return sqltype.Float(f), nil
	}}
}

func numberFunc(name string) *Func {
	switch name {
	case "ABS":
		return &Func{Min: 1, Max: 1, Args: []Arg{Number}, Result: numericType, Eval: func(_ *Env, a []value) (value, error) { return abs(a[0]) }}
	case "SIGN":
		return &Func{Min: 1, Max: 1, Args: []Arg{Number}, Result: numericType, Eval: func(_ *Env, a []value) (value, error) {
			return fromInt(a[0], int64(sqltype.Compare(a[0], sqltype.Int(0), nil))), nil
		}}
	case "CEILING", "FLOOR":
		return &Func{Min: 1, Max: 1, Args: []Arg{Number}, Result: roundedType, Eval: func(_ *Env, a []value) (value, error) {
			return toWhole(a[0], name == "CEILING")
		}}
	case "ROUND":
		return &Func{Min: 2, Max: 3, Args: []Arg{Number, Int, Int}, Result: numericType, Eval: round}
	case "POWER":
		return &Func{Min: 2, Max: 2, Args: []Arg{Number, Float}, Result: numericType, Eval: power}
	case "SQRT":
		return floatFunc(math.Sqrt)
	case "SQUARE":
		return floatFunc(func(f float64) float64 { return f * f })
	case "EXP":
		return floatFunc(math.Exp)
	case "LOG10":
		return floatFunc(math.Log10)
	case "LOG":
		f := floatFunc(math.Log)
		f.Max = 2
		one := f.Eval
		f.Eval = func(env *Env, a []value) (value, error) {
			if len(a) == 1 {
				return one(env, a)
			}
			return sqltype.Float(math.Log(a[0].Float64()) / math.Log(a[1].Float64())), nil
		}
		return f
	case "PI":
		return &Func{Result: fixedKind(sqltype.KindFloat), Eval: func(*Env, []value) (value, error) { return sqltype.Float(math.Pi), nil }}
	case "ISNUMERIC":
		return &Func{Min: 1, Max: 1, NullOK: true, Result: fixedKind(sqltype.KindInt), Eval: isNumeric}
	}
	return nil
}

// fromInt makes a number of the kind that v has.
func fromInt(v value, n int64) value {
	switch k := v.Kind(); {
	case k == sqltype.KindBigInt:
		return sqltype.BigInt(n)
	case k == sqltype.KindDecimal:
		num, err := sqltype.NumberFromInt64(n).Rescale(v.Scale())
		if err != nil {
			num = sqltype.NumberFromInt64(n)
		}
		return sqltype.Decimal(num)
	case k.IsFloat():
		return sqltype.Float(float64(n))
	case k.IsMoney():
		return sqltype.Money(n * 10_000)
	}
	return sqltype.Int(int32(n))
}

func abs(v value) (value, error) {
	switch k := v.Kind(); {
	case k == sqltype.KindDecimal:
		n := v.Number()
		n.Neg = false
		return sqltype.Decimal(n), nil
	case k.IsFloat():
		return sqltype.Float(math.Abs(v.Float64())), nil
	}
	n := v.Int64()
	if n < 0 {
		n = -n
	}
	k := v.Kind()
	switch {
	case k.IsMoney():
		return sqltype.Money(n), nil
	case k == sqltype.KindBigInt:
		if n < 0 {
			return value{}, sqlerr.Make(8115, "expression", "bigint")
		}
		return sqltype.BigInt(n), nil
	case n > math.MaxInt32:
		return value{}, sqlerr.Make(8115, "expression", "int")
	}
	return sqltype.Int(int32(n)), nil
}

func toWhole(v value, up bool) (value, error) {
	switch k := v.Kind(); {
	case k.IsFloat():
		if up {
			return sqltype.Float(math.Ceil(v.Float64())), nil
		}
		return sqltype.Float(math.Floor(v.Float64())), nil
	case k == sqltype.KindDecimal || k.IsMoney():
		n := v.AsNumber()
		t, err := n.Truncate(0)
		if err != nil {
			return value{}, err
		}
		if t.Cmp(n) != 0 && n.Neg != up {
			step := sqltype.NumberFromInt64(1)
			step.Neg = n.Neg
			if t, err = t.Add(step, 0); err != nil {
				return value{}, sqlerr.Make(8115, "expression", "numeric")
			}
		}
		if k.IsMoney() {
			return sqltype.Convert(sqltype.Decimal(t), sqltype.Type{Kind: sqltype.KindMoney}, sqltype.DefaultStyle)
		}
		return sqltype.Decimal(t), nil
	case k == sqltype.KindBigInt:
		return v, nil
	}
	return sqltype.Int(int32(v.Int64())), nil
}

// round rounds to n digits; a third argument other than 0 truncates.
func round(_ *Env, a []value) (value, error) {
	v, digits := a[0], a[1].Int64()
	truncate := len(a) == 3 && a[2].Int64() != 0
	if v.Kind().IsFloat() {
		scale := math.Pow(10, float64(digits))
		f := v.Float64() * scale
		if truncate {
			f = math.Trunc(f)
		} else {
			f = math.Round(f)
		}
		return sqltype.Float(f / scale), nil
	}
	n := v.AsNumber()
	scale := n.Scale
	switch {
	case digits >= int64(scale):
		return v, nil
	case digits < -38:
		return fromInt(v, 0), nil
	}
	r, err := roundNumber(n, int(digits), truncate)
	if err == nil {
		r, err = r.Rescale(scale)
	}
	if err != nil {
		return value{}, sqlerr.Make(8115, "expression", v.Kind().ErrorName())
	}
	switch k := v.Kind(); {
	case k == sqltype.KindDecimal:
		return sqltype.Decimal(r), nil
	case k.IsMoney():
		return sqltype.Convert(sqltype.Decimal(r), sqltype.Type{Kind: sqltype.KindMoney}, sqltype.DefaultStyle)
	case k == sqltype.KindBigInt:
		return sqltype.Convert(sqltype.Decimal(r), sqltype.Type{Kind: sqltype.KindBigInt}, sqltype.DefaultStyle)
	}
	return sqltype.Convert(sqltype.Decimal(r), sqltype.Type{Kind: sqltype.KindInt}, sqltype.DefaultStyle)
}

// roundNumber rounds at a digit in front of the point (negative) or behind it.
func roundNumber(n sqltype.Number, digits int, truncate bool) (sqltype.Number, error) {
	cut := func(n sqltype.Number, s uint8) (sqltype.Number, error) {
		if truncate {
			return n.Truncate(s)
		}
		return n.Rescale(s)
	}
	if digits >= 0 {
		return cut(n, uint8(digits))
	}
	shift := uint8(-digits)
	if int(n.Scale)+int(shift) > 76 {
		return sqltype.Number{}, nil
	}
	n.Scale += shift // as if divided by 10^shift
	r, err := cut(n, 0)
	if err != nil {
		return r, err
	}
	if r.IsZero() {
		return sqltype.Number{}, nil
	}
	r, err = r.Rescale(shift)
	r.Scale = 0
	return r, err
}

func power(_ *Env, a []value) (value, error) {
	f := math.Pow(a[0].AsFloat(), a[1].Float64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return value{}, sqlerr.New(3623, 16, 1, "An invalid floating point operation occurred.")
	}
	switch k := a[0].Kind(); {
	case k.IsFloat():
		return sqltype.Float(f), nil
	case k == sqltype.KindDecimal:
		return sqltype.Convert(sqltype.Float(f), sqltype.DecimalType(38, a[0].Scale()), sqltype.DefaultStyle)
	case k.IsMoney():
		return sqltype.Convert(sqltype.Float(f), sqltype.Type{Kind: sqltype.KindMoney}, sqltype.DefaultStyle)
	case k == sqltype.KindBigInt:
		return sqltype.Convert(sqltype.Float(f), sqltype.Type{Kind: sqltype.KindBigInt}, sqltype.DefaultStyle)
	}
	return sqltype.Convert(sqltype.Float(f), sqltype.Type{Kind: sqltype.KindInt}, sqltype.DefaultStyle)
}

func isNumeric(_ *Env, a []value) (value, error) {
	v := a[0]
	ok := v.Kind().IsNumeric()
	if v.Kind().IsText() {
		_, err := sqltype.Convert(v, sqltype.Type{Kind: sqltype.KindFloat}, sqltype.DefaultStyle)
		if err != nil {
			_, err = sqltype.Convert(v, sqltype.Type{Kind: sqltype.KindMoney}, sqltype.DefaultStyle)
		}
		ok = err == nil && v.Str() != ""
	}
	if ok {
		return sqltype.Int(1), nil
	}
	return sqltype.Int(0), nil
}
