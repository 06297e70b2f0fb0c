package builtin

import (
	"crypto/rand"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func otherFunc(name string) *Func {
	switch name {
	case "NEWID":
		return &Func{Result: fixedKind(sqltype.KindUniqueIdentifier), Volatile: true, Eval: func(*Env, []value) (value, error) {
			var u [16]byte
			if _, err := rand.Read(u[:]); err != nil {
				return value{}, err
			}
			u[6] = u[6]&0x0F | 0x40
			u[8] = u[8]&0x3F | 0x80
			return sqltype.UniqueIdentifier(u), nil
		}}
	case "GREATEST", "LEAST":
		want := 1
		if name == "LEAST" {
			want = -1
		}
		return &Func{Min: 1, Max: 254, NullOK: true, Result: commonType, Eval: func(_ *Env, a []value) (value, error) {
			var best value
			for _, v := range a {
				if !v.IsNull() && (best.IsNull() || sqltype.Compare(v, best, nil) == want) {
					best = v
				}
			}
			return best, nil
		}}
	case "SQL_VARIANT_PROPERTY":
		return &Func{Min: 2, Max: 2, Args: []Arg{Any, Text}, Result: fixedKind(sqltype.KindVariant), Eval: variantProperty}
	}
	return nil
}

func commonType(a []sqltype.Type) sqltype.Type {
	t := a[0]
	for _, x := range a[1:] {
		t = sqltype.Common(t, x)
	}
	return t
}

func variantProperty(_ *Env, a []value) (value, error) {
	switch sqltype.DefaultKey(a[1].Str()) {
	case "basetype":
		return sqltype.NVarChar(a[0].Kind().ErrorName()), nil
	case "maxlength", "totalbytes":
		return sqltype.Int(int32(DataLength(a[0]))), nil
	case "scale":
		return sqltype.Int(int32(a[0].Scale())), nil
	case "precision":
		if a[0].Kind() == sqltype.KindDecimal {
			return sqltype.Int(int32(a[0].Number().Digits())), nil
		}
	}
	return sqltype.Null(), nil
}
