package tsql

import (
	"math"
	"math/bits"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// opName is the name of an operator in messages.
func opName(op string) string {
	switch op {
	case "+":
		return "add"
	case "-":
		return "subtract"
	case "*":
		return "multiply"
	case "/":
		return "divide"
	case "%":
		return "modulo"
	}
	return op
}

// binary compiles an arithmetic, bitwise or concatenation operator.
func (c *compiler) binary(x *ast.Binary) (*expr, error) {
	if ast.IsCondition(x) {
		return nil, sqlerr.Syntax(x.Op)
	}
	l, err := c.expr(x.L)
	if err != nil {
		return nil, err
	}
	r, err := c.expr(x.R)
	if err != nil {
		return nil, err
	}
	return c.arithmetic(x.Op, l, r)
}

func (c *compiler) arithmetic(op string, l, r *expr) (*expr, error) {
	l, r = typedNull(l, r), typedNull(r, l)
	lk, rk := l.typ.Kind, r.typ.Kind
	if lk == sqltype.KindVariant || rk == sqltype.KindVariant {
		return nil, sqlerr.Make(402, lk.String(), rk.String(), opName(op))
	}
	switch op {
	case "&", "|", "^":
		return c.bitwise(op, l, r)
	case "+":
		switch {
		case lk.IsText() && rk.IsText():
			return c.concat(l, r)
		case lk.IsBinary() && rk.IsBinary():
			return c.concatBinary(l, r)
		}
	}
	if lk.IsTemporal() || rk.IsTemporal() {
		return c.dateArithmetic(op, l, r)
	}
	if lk.IsText() && rk.IsText() || lk.IsBinary() && rk.IsBinary() {
		return nil, sqlerr.Make(8117, lk.String(), opName(op))
	}
	for _, k := range [...]sqltype.Kind{lk, rk} {
		if !k.IsNumeric() && !k.IsText() && !k.IsBinary() {
			return nil, sqlerr.Make(206, lk.String(), rk.String())
		}
	}
	return c.numeric(op, l, r)
}

// typedNull gives a bare NULL the type of the other side, or int.
func typedNull(x, other *expr) *expr {
	if !x.isNullLiteral() {
		return x
	}
	t := other.typ
	if t.Kind == sqltype.KindNull {
		t = sqltype.Type{Kind: sqltype.KindInt}
	}
	return constant(sqltype.Null(), t)
}

// numeric compiles + - * / % on numbers.
func (c *compiler) numeric(op string, l, r *expr) (*expr, error) {
	t := sqltype.Common(l.typ, r.typ)
	switch {
	case !t.Kind.IsNumeric():
		t = sqltype.Type{Kind: sqltype.KindInt}
	case t.Kind == sqltype.KindBit:
		if op == "+" || op == "-" || op == "*" || op == "/" || op == "%" {
			if l.typ.Kind == sqltype.KindBit && r.typ.Kind == sqltype.KindBit {
				return nil, sqlerr.Make(8117, "bit", opName(op))
			}
		}
	case t.Kind == sqltype.KindDecimal:
		return c.decimalOp(op, l, r)
	case t.Kind.IsFloat() && op == "%":
		return nil, sqlerr.Make(402, l.typ.Kind.ErrorName(), r.typ.Kind.ErrorName(), opName(op))
	}
	l, err := c.convertTo(l, t, false)
	if err != nil {
		return nil, err
	}
	r, err = c.convertTo(r, t, false)
	if err != nil {
		return nil, err
	}
	var fn func(a, b sqltype.Value) (sqltype.Value, error)
	switch {
	case t.Kind.IsFloat():
		fn = floatOp(op, t.Kind)
	case t.Kind.IsMoney():
		fn = moneyOp(op, t.Kind)
	default:
		fn = intOp(op, t.Kind)
	}
	return derive(t, binaryEval(l.eval, r.eval, fn), l, r).mayFail().fold(), nil
}

// binaryEval applies fn unless a side is NULL.
func binaryEval(l, r evalFn, fn func(a, b sqltype.Value) (sqltype.Value, error)) evalFn {
	return func(f *frame) (sqltype.Value, error) {
		a, err := l(f)
		if err != nil || a.IsNull() {
			return sqltype.Null(), err
		}
		b, err := r(f)
		if err != nil || b.IsNull() {
			return sqltype.Null(), err
		}
		return fn(a, b)
	}
}

func intOp(op string, k sqltype.Kind) func(a, b sqltype.Value) (sqltype.Value, error) {
	check := func(n int64, ok bool) (sqltype.Value, error) {
		if !ok || !sqltype.IntegerFits(k, n) {
			return sqltype.Value{}, sqlerr.Make(8115, "expression", k.String())
		}
		return sqltype.Integer(k, n), nil
	}
	switch op {
	case "+":
		return func(a, b sqltype.Value) (sqltype.Value, error) {
			x, y := a.Int64(), b.Int64()
			n := x + y
			return check(n, (n > x) == (y > 0))
		}
	case "-":
		return func(a, b sqltype.Value) (sqltype.Value, error) {
			x, y := a.Int64(), b.Int64()
			n := x - y
			return check(n, (n < x) == (y > 0))
		}
	case "*":
		return func(a, b sqltype.Value) (sqltype.Value, error) { return check(mulInt64(a.Int64(), b.Int64())) }
	}
	return func(a, b sqltype.Value) (sqltype.Value, error) {
		x, y := a.Int64(), b.Int64()
		switch {
		case y == 0:
			return sqltype.Value{}, sqlerr.Make(8134)
		case x == math.MinInt64 && y == -1:
			return check(0, op == "%")
		case op == "%":
			return check(x%y, true)
		}
		return check(x/y, true)
	}
}

func mulInt64(x, y int64) (int64, bool) {
	neg := (x < 0) != (y < 0)
	hi, lo := bits.Mul64(absUint(x), absUint(y))
	if hi != 0 || lo > 1<<63 || lo == 1<<63 && !neg {
		return 0, false
	}
	if neg {
		return -int64(lo), true
	}
	return int64(lo), true
}

func absUint(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func floatOp(op string, k sqltype.Kind) func(a, b sqltype.Value) (sqltype.Value, error) {
	return func(a, b sqltype.Value) (sqltype.Value, error) {
		x, y := a.Float64(), b.Float64()
		switch op {
		case "+":
			x += y
		case "-":
			x -= y
		case "*":
			x *= y
		default:
			if y == 0 {
				return sqltype.Value{}, sqlerr.Make(8134)
			}
			x /= y
		}
		if k == sqltype.KindReal {
			x = float64(float32(x))
		}
		if math.IsInf(x, 0) {
			return sqltype.Value{}, sqlerr.Make(8115, "expression", k.String())
		}
		if k == sqltype.KindReal {
			return sqltype.Real(float32(x)), nil
		}
		return sqltype.Float(x), nil
	}
}

// moneyOp computes on the 1/10,000 units.
func moneyOp(op string, k sqltype.Kind) func(a, b sqltype.Value) (sqltype.Value, error) {
	return func(a, b sqltype.Value) (sqltype.Value, error) {
		x, y := a.AsNumber(), b.AsNumber()
		var n sqltype.Number
		var err error
		switch op {
		case "+":
			n, err = x.Add(y, 4)
		case "-":
			n, err = x.Sub(y, 4)
		case "*":
			n, err = x.Mul(y, 4)
		case "/":
			n, err = x.Div(y, 4)
		default:
			n, err = x.Mod(y, 4)
		}
		if err != nil {
			return sqltype.Value{}, numberError(err, k)
		}
		return sqltype.Convert(sqltype.Decimal(n), sqltype.Type{Kind: k}, sqltype.DefaultStyle)
	}
}

func numberError(err error, k sqltype.Kind) error {
	if sqltype.IsDivideByZero(err) {
		return sqlerr.Make(8134)
	}
	return sqlerr.Make(8115, "expression", k.ErrorName())
}

// decimalType is the type of an operand of decimal arithmetic; an integer
// literal counts with its own digits.
func (x *expr) decimalType() sqltype.Type {
	if x.digits > 0 {
		return sqltype.DecimalType(x.digits, 0)
	}
	return sqltype.AsDecimal(x.typ)
}

func (c *compiler) decimalOp(op string, l, r *expr) (*expr, error) {
	lt, rt := l.decimalType(), r.decimalType()
	if !lt.Kind.IsNumeric() {
		lt = rt
	}
	if !rt.Kind.IsNumeric() {
		rt = lt
	}
	l, err := c.convertTo(l, lt, false)
	if err != nil {
		return nil, err
	}
	if r, err = c.convertTo(r, rt, false); err != nil {
		return nil, err
	}
	t := sqltype.DecimalOp(op[0], lt, rt)
	return derive(t, binaryEval(l.eval, r.eval, func(a, b sqltype.Value) (sqltype.Value, error) {
		x, y := a.AsNumber(), b.AsNumber()
		var n sqltype.Number
		var err error
		switch op {
		case "+":
			n, err = x.Add(y, t.Scale)
		case "-":
			n, err = x.Sub(y, t.Scale)
		case "*":
			n, err = x.Mul(y, t.Scale)
		case "/":
			n, err = x.Div(y, t.Scale)
		default:
			n, err = x.Mod(y, t.Scale)
		}
		if err == nil {
			n, err = n.Fit(t.Precision, t.Scale)
		}
		if err != nil {
			return sqltype.Value{}, numberError(err, sqltype.KindDecimal)
		}
		return sqltype.Decimal(n), nil
	}), l, r).mayFail().fold(), nil
}

func negate(a *expr) (*expr, error) {
	a = typedNull(a, a)
	t := a.typ
	switch k := t.Kind; {
	case k == sqltype.KindDecimal || k.IsFloat() || k.IsMoney() || k.IsInteger() && k != sqltype.KindBit && k != sqltype.KindTinyInt:
	case k == sqltype.KindTinyInt:
		t = sqltype.Type{Kind: sqltype.KindSmallInt}
	default:
		return nil, sqlerr.Make(8117, k.String(), "minus")
	}
	eval := a.eval
	r := derive(t, func(f *frame) (sqltype.Value, error) {
		v, err := eval(f)
		if err != nil || v.IsNull() {
			return v, err
		}
		switch k := v.Kind(); {
		case k == sqltype.KindDecimal:
			return sqltype.Decimal(v.Number().Negate()), nil
		case k == sqltype.KindReal:
			return sqltype.Real(float32(-v.Float64())), nil
		case k == sqltype.KindFloat:
			return sqltype.Float(-v.Float64()), nil
		case k.IsMoney():
			return sqltype.Convert(sqltype.Money(-v.Int64()), t, sqltype.DefaultStyle)
		}
		n := -v.Int64()
		if !sqltype.IntegerFits(t.Kind, n) || n == math.MinInt64 {
			return sqltype.Value{}, sqlerr.Make(8115, "expression", t.Kind.String())
		}
		return sqltype.Integer(t.Kind, n), nil
	}, a)
	r = r.fold()
	r.digits = a.digits
	return r, nil
}

func bitNot(a *expr) (*expr, error) {
	a = typedNull(a, a)
	k := a.typ.Kind
	if !k.IsInteger() {
		return nil, sqlerr.Make(8117, k.ErrorName(), "'~'")
	}
	eval := a.eval
	return derive(a.typ, func(f *frame) (sqltype.Value, error) {
		v, err := eval(f)
		if err != nil || v.IsNull() {
			return v, err
		}
		switch k {
		case sqltype.KindBit:
			return sqltype.Bit(!v.Bool()), nil
		case sqltype.KindTinyInt:
			return sqltype.TinyInt(^uint8(v.Int64())), nil
		}
		return sqltype.Integer(k, ^v.Int64()), nil
	}, a).fold(), nil
}

// bitwise compiles & | ^: on integers, where one side may be binary.
func (c *compiler) bitwise(op string, l, r *expr) (*expr, error) {
	t := sqltype.Common(l.typ, r.typ)
	for _, x := range [...]*expr{l, r} {
		if k := x.typ.Kind; !k.IsInteger() && !k.IsBinary() || l.typ.Kind.IsBinary() && r.typ.Kind.IsBinary() {
			return nil, sqlerr.Make(402, l.typ.Kind.ErrorName(), r.typ.Kind.ErrorName(), "'"+op+"'")
		}
	}
	l, err := c.convertTo(l, t, false)
	if err != nil {
		return nil, err
	}
	if r, err = c.convertTo(r, t, false); err != nil {
		return nil, err
	}
	return derive(t, binaryEval(l.eval, r.eval, func(a, b sqltype.Value) (sqltype.Value, error) {
		x, y := a.Int64(), b.Int64()
		switch op {
		case "&":
			x &= y
		case "|":
			x |= y
		default:
			x ^= y
		}
		return sqltype.Integer(t.Kind, x), nil
	}), l, r).fold(), nil
}

// concat compiles text + text.
func (c *compiler) concat(l, r *expr) (*expr, error) {
	t := sqltype.Common(l.typ, r.typ)
	limit := 8000
	t.Kind = sqltype.KindVarChar
	if l.typ.Kind.IsUnicode() || r.typ.Kind.IsUnicode() {
		t.Kind, limit = sqltype.KindNVarChar, 4000
	}
	if l.typ.Length == sqltype.Max || r.typ.Length == sqltype.Max || l.typ.Length == 0 || r.typ.Length == 0 {
		t.Length = sqltype.Max
	} else {
		t.Length = min(limit, l.typ.Length+r.typ.Length)
	}
	coll, rk := mergeCollation([]*expr{l, r})
	if rk == noCollation {
		return nil, sqlerr.Make(468, collationName(l.coll), collationName(r.coll), "add")
	}
	t.Collation = pickCollation(l, r)
	x := derive(t, binaryEval(l.eval, r.eval, func(a, b sqltype.Value) (sqltype.Value, error) {
		v := sqltype.Text(t.Kind, a.Str()+b.Str())
		if t.Length != sqltype.Max && len(v.Str()) > t.Length {
			return sqltype.Convert(v, t, sqltype.DefaultStyle)
		}
		return v, nil
	}), l, r)
	x.coll, x.rank = coll, rk
	return x.fold(), nil
}

func pickCollation(l, r *expr) string {
	if r.rank > l.rank {
		return r.typ.Collation
	}
	return l.typ.Collation
}

func (c *compiler) concatBinary(l, r *expr) (*expr, error) {
	n := sqltype.Max
	if l.typ.Length > 0 && r.typ.Length > 0 {
		n = min(8000, l.typ.Length+r.typ.Length)
	}
	t := sqltype.VarBinaryType(n)
	return derive(t, binaryEval(l.eval, r.eval, func(a, b sqltype.Value) (sqltype.Value, error) {
		return sqltype.Convert(sqltype.Bytes(sqltype.KindVarBinary, a.Str()+b.Str()), t, sqltype.DefaultStyle)
	}), l, r).fold(), nil
}

// dateArithmetic compiles datetime ± number and datetime ± datetime.
func (c *compiler) dateArithmetic(op string, l, r *expr) (*expr, error) {
	lk, rk := l.typ.Kind, r.typ.Kind
	old := func(k sqltype.Kind) bool { return k == sqltype.KindDateTime || k == sqltype.KindSmallDateTime }
	if op != "+" && op != "-" || lk.IsTemporal() && !old(lk) || rk.IsTemporal() && !old(rk) {
		if lk.IsTemporal() && rk.IsTemporal() {
			return nil, sqlerr.Make(8117, lk.String(), opName(op))
		}
		return nil, sqlerr.Make(206, lk.String(), rk.String())
	}
	t := sqltype.Type{Kind: sqltype.KindDateTime}
	l, err := c.convertTo(l, t, true)
	if err != nil {
		return nil, err
	}
	if r, err = c.convertTo(r, t, true); err != nil {
		return nil, err
	}
	return derive(t, binaryEval(l.eval, r.eval, func(a, b sqltype.Value) (sqltype.Value, error) {
		const perDay = 86_400 * 300
		x, y := int64(a.Days())*perDay+a.Ticks(), int64(b.Days())*perDay+b.Ticks()
		if op == "-" {
			y = -y
		}
		n := x + y
		days, ticks := n/perDay, n%perDay
		if ticks < 0 {
			days, ticks = days-1, ticks+perDay
		}
		if days < -53_690 || days > 2_958_463 {
			return sqltype.Value{}, sqlerr.Make(8115, "expression", "datetime")
		}
		return sqltype.DateTime(int32(days), int32(ticks)), nil
	}), l, r).mayFail().fold(), nil
}
