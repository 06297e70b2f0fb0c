package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// sameStorage tells whether a value of type a is a value of type b as it stands.
func sameStorage(a, b sqltype.Type) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case sqltype.KindChar, sqltype.KindNChar, sqltype.KindBinary:
		return a.Length == b.Length
	case sqltype.KindVarChar:
		return (b.Length == sqltype.Max || a.Length != sqltype.Max && a.Length <= b.Length) &&
			(a.Collation == b.Collation || b.Collation == "")
	case sqltype.KindNVarChar, sqltype.KindVarBinary:
		return b.Length == sqltype.Max || a.Length != sqltype.Max && a.Length <= b.Length
	case sqltype.KindDecimal:
		return a.Scale == b.Scale && a.Precision <= b.Precision
	case sqltype.KindTime, sqltype.KindDateTime2, sqltype.KindDateTimeOffset:
		return a.Scale == b.Scale
	}
	return true
}

// convertTo converts implicitly (257 where only CAST may), or explicitly.
func (c *compiler) convertTo(x *expr, t sqltype.Type, explicitCast bool) (*expr, error) {
	if x.isNullLiteral() {
		r := constant(sqltype.Null(), t)
		return r, nil
	}
	if sameStorage(x.typ, t) {
		if x.typ == t {
			return x, nil
		}
		r := *x
		r.typ = t
		if t.Collation == "" {
			r.typ.Collation = x.typ.Collation
		}
		return &r, nil
	}
	switch sqltype.Castable(x.typ.Kind, t.Kind) {
	case sqltype.CastNever:
		if explicitCast {
			return nil, sqlerr.Make(529, x.typ.Kind.String(), t.Kind.String())
		}
		return nil, sqlerr.Make(206, x.typ.Kind.String(), t.Kind.String())
	case sqltype.CastExplicit:
		if !explicitCast {
			return nil, sqlerr.Make(257, x.typ.Kind.String(), t.Kind.String())
		}
	}
	eval := x.eval
	r := derive(t, func(f *frame) (sqltype.Value, error) {
		v, err := eval(f)
		if err != nil || v.IsNull() {
			return v, err
		}
		return sqltype.Convert(v, t, sqltype.DefaultStyle)
	}, x)
	c.inheritCollation(r, x, t)
	return r.fold(), nil
}

func (c *compiler) inheritCollation(r, x *expr, t sqltype.Type) {
	if !t.Kind.IsText() || !x.typ.Kind.IsText() {
		return
	}
	r.coll, r.rank = x.coll, x.rank
	if t.Collation == "" {
		r.typ.Collation = x.typ.Collation
	}
}

// cast compiles CAST, CONVERT and their TRY_ forms.
func (c *compiler) cast(operand ast.Expr, t sqltype.Type, styleExpr ast.Expr, try bool) (*expr, error) {
	x, err := c.expr(operand)
	if err != nil {
		return nil, err
	}
	if x.isNullLiteral() {
		return constant(sqltype.Null(), t), nil
	}
	if sqltype.Castable(x.typ.Kind, t.Kind) == sqltype.CastNever && x.typ.Kind != sqltype.KindVariant {
		return nil, sqlerr.Make(529, x.typ.Kind.String(), t.Kind.String())
	}
	if t.Kind.IsText() && t.Collation == "" && x.typ.Kind.IsText() {
		t.Collation = x.typ.Collation
	}
	var style *expr
	if styleExpr != nil {
		if style, err = c.expr(styleExpr); err != nil {
			return nil, err
		}
		if style, err = c.convertTo(style, sqltype.Type{Kind: sqltype.KindInt}, false); err != nil {
			return nil, err
		}
	}
	r := derive(t, castEval(x.eval, t, style, try), x)
	if style != nil { // the style is computed each time
		r.deps.addAll(style.deps)
		r.lvl = max(r.lvl, style.lvl)
	}
	r.nullable = true
	c.inheritCollation(r, x, t)
	return r.fold(), nil
}

func castEval(eval evalFn, t sqltype.Type, style *expr, try bool) evalFn {
	return func(f *frame) (sqltype.Value, error) {
		v, err := eval(f)
		if err != nil || v.IsNull() {
			return v, err
		}
		n := sqltype.DefaultStyle
		if style != nil {
			s, err := style.eval(f)
			if err != nil || s.IsNull() {
				return sqltype.Null(), err
			}
			n = int(s.Int64())
		}
		r, err := sqltype.Convert(v, t, n)
		if err != nil && try {
			return sqltype.Null(), nil
		}
		return r, err
	}
}

// parseText compiles PARSE: a conversion from text to a date or number.
func (c *compiler) parseText(x *ast.ParseText) (*expr, error) {
	if !x.Type.Kind.IsTemporal() && !x.Type.Kind.IsNumeric() {
		return nil, sqlerr.New(10761, 15, 1, "Invalid data type %s in function PARSE.", x.Type.Kind)
	}
	a, err := c.expr(x.X)
	if err != nil {
		return nil, err
	}
	if a, err = c.convertTo(a, sqltype.NVarCharType(4000), false); err != nil {
		return nil, err
	}
	t := x.Type
	r := derive(t, func(f *frame) (sqltype.Value, error) {
		v, err := a.eval(f)
		if err != nil || v.IsNull() {
			return v, err
		}
		r, err := sqltype.Convert(v, t, sqltype.DefaultStyle)
		switch {
		case err == nil:
			return r, nil
		case x.Try:
			return sqltype.Null(), nil
		}
		return r, sqlerr.New(9819, 16, 1, "Error converting string value '%s' into data type %s using culture ''.", v.Str(), t.Kind)
	}, a)
	r.nullable = r.nullable || x.Try
	return r.fold(), nil
}

func (c *compiler) atTimeZone(x *ast.AtTimeZone) (*expr, error) {
	a, err := c.expr(x.X)
	if err != nil {
		return nil, err
	}
	zone, err := c.expr(x.Zone)
	if err != nil {
		return nil, err
	}
	switch a.typ.Kind {
	case sqltype.KindDateTime, sqltype.KindSmallDateTime, sqltype.KindDateTime2, sqltype.KindDateTimeOffset, sqltype.KindNull:
	default:
		return nil, sqlerr.Make(8116, a.typ.Kind.String(), 1, "AT TIME ZONE")
	}
	scale := uint8(0)
	switch a.typ.Kind {
	case sqltype.KindDateTime2, sqltype.KindDateTimeOffset:
		scale = a.typ.Scale
	case sqltype.KindDateTime:
		scale = 3
	}
	r := derive(sqltype.Type{Kind: sqltype.KindDateTimeOffset, Scale: scale}, func(f *frame) (sqltype.Value, error) {
		v, err := a.eval(f)
		if err != nil || v.IsNull() {
			return v, err
		}
		z, err := zone.eval(f)
		if err != nil || z.IsNull() {
			return sqltype.Null(), err
		}
		return builtin.AtTimeZone(v, z.Str())
	}, a, zone)
	r.nullable = true
	return r.fold(), nil
}
