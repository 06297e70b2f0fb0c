package sqlserversim

import (
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// fromWire turns a parameter's value into one of the language.
func fromWire(t *tds.TypeInfo, v tds.Value) (sqltype.Value, error) {
	kind := sqlType(t).Kind
	switch x := v.(type) {
	case nil:
		return sqltype.Null(), nil
	case bool:
		return sqltype.Bit(x), nil
	case int64:
		return sqltype.Integer(kind, x), nil
	case float32:
		return sqltype.Real(x), nil
	case float64:
		return sqltype.Float(x), nil
	case tds.Decimal:
		return sqltype.Decimal(sqltype.Number{Neg: x.Negative, Hi: x.Hi, Lo: x.Lo, Scale: x.Scale}), nil
	case tds.Money:
		if kind == sqltype.KindSmallMoney {
			return sqltype.SmallMoney(int32(x)), nil
		}
		return sqltype.Money(int64(x)), nil
	case tds.Date:
		return sqltype.Date(int32(x)), nil
	case tds.Time:
		return sqltype.Time(int64(x), t.Scale), nil
	case tds.DateTime2:
		return sqltype.DateTime2(int32(x.Date), int64(x.Time), t.Scale), nil
	case tds.DateTimeOffset:
		return sqltype.DateTimeOffset(int32(x.Date), int64(x.Time), x.Offset, t.Scale), nil
	case tds.DateTime:
		return sqltype.DateTime(x.Days, int32(x.Ticks)), nil
	case tds.SmallDateTime:
		return sqltype.SmallDateTime(x.Days, x.Minutes), nil
	case string:
		return sqltype.Text(kind, x), nil
	case []byte:
		return sqltype.Bytes(kind, string(x)), nil
	case tds.UUID:
		return sqltype.UniqueIdentifier(x), nil
	case tds.Variant:
		return fromWire(&x.Type, x.Value)
	}
	return sqltype.Null(), fmt.Errorf("reading a parameter: no conversion of %T", v)
}

// toWire turns a value into what package tds encodes. It is the slow way, for output parameters and sql_variant; rows go
// through rowEncoder.
func toWire(v sqltype.Value) tds.Value {
	switch v.Kind() {
	case sqltype.KindNull:
		return nil
	case sqltype.KindBit:
		return v.Bool()
	case sqltype.KindTinyInt, sqltype.KindSmallInt, sqltype.KindInt, sqltype.KindBigInt:
		return v.Int64()
	case sqltype.KindReal:
		return float32(v.Float64())
	case sqltype.KindFloat:
		return v.Float64()
	case sqltype.KindDecimal:
		n := v.Number()
		return tds.Decimal{Negative: n.Neg, Hi: n.Hi, Lo: n.Lo, Scale: n.Scale}
	case sqltype.KindMoney, sqltype.KindSmallMoney:
		return tds.Money(v.Int64())
	case sqltype.KindDate:
		return tds.Date(v.Days())
	case sqltype.KindTime:
		return tds.Time(v.Ticks())
	case sqltype.KindDateTime2:
		return tds.DateTime2{Date: tds.Date(v.Days()), Time: tds.Time(v.Ticks())}
	case sqltype.KindDateTimeOffset:
		return tds.DateTimeOffset{Date: tds.Date(v.Days()), Time: tds.Time(v.Ticks()), Offset: v.Offset()}
	case sqltype.KindDateTime:
		return tds.DateTime{Days: v.Days(), Ticks: uint32(v.Ticks())}
	case sqltype.KindSmallDateTime:
		return tds.SmallDateTime{Days: uint16(v.Days()), Minutes: uint16(v.Ticks())}
	case sqltype.KindUniqueIdentifier:
		return tds.UUID(v.UUID())
	}
	if v.Kind().IsBinary() {
		return []byte(v.Str())
	}
	return v.Str()
}

// variantToWire wraps a value with the type it has inside a sql_variant.
func variantToWire(v sqltype.Value, dbCollation string) tds.Value {
	if v.IsNull() {
		return nil
	}
	return tds.Variant{Type: wireType(variantBase(v), true, dbCollation), Value: toWire(v)}
}

// variantBase is the declared type that a bare value has inside a sql_variant.
func variantBase(v sqltype.Value) sqltype.Type {
	t := sqltype.TypeOf(v.Kind())
	switch {
	case v.Kind().IsText():
		t.Length = max(1, len([]rune(v.Str())))
	case v.Kind().IsBinary():
		t.Length = max(1, len(v.Str()))
	case v.Kind() == sqltype.KindDecimal:
		t.Precision, t.Scale = 38, v.Scale()
	case v.Kind() == sqltype.KindTime, v.Kind() == sqltype.KindDateTime2, v.Kind() == sqltype.KindDateTimeOffset:
		t.Scale = v.Scale()
	}
	return t
}
