package builtin

import (
	"strings"
	"unicode/utf8"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

type value = sqltype.Value

func int32Value(n int) value { return sqltype.Int(int32(n)) }

// lenType is int, or bigint for the (max) types.
func lenType(a []sqltype.Type) sqltype.Type {
	if a[0].Length == sqltype.Max {
		return sqltype.Type{Kind: sqltype.KindBigInt}
	}
	return sqltype.Type{Kind: sqltype.KindInt}
}

func stringFunc(name string) *Func {
	switch name {
	case "LEN":
		return &Func{Min: 1, Max: 1, Args: []Arg{Str}, Result: lenType, Eval: func(_ *Env, a []value) (value, error) {
			if a[0].Kind().IsBinary() {
				return int32Value(len(a[0].Str())), nil
			}
			return int32Value(sqltype.TextLen(strings.TrimRight(a[0].Str(), " "))), nil
		}}
	case "DATALENGTH":
		return &Func{Min: 1, Max: 1, Result: lenType, Eval: func(_ *Env, a []value) (value, error) {
			return int32Value(DataLength(a[0])), nil
		}}
	case "SUBSTRING":
		return &Func{Min: 3, Max: 3, Args: []Arg{Str, Int, Int}, Result: textLike, Eval: substring}
	case "LEFT":
		return &Func{Min: 2, Max: 2, Args: []Arg{Str, Int}, Result: textLike, Eval: func(_ *Env, a []value) (value, error) {
			if a[1].Int64() < 0 {
				return value{}, invalidLength("left")
			}
			return slice(a[0], 0, a[1].Int64()), nil
		}}
	case "RIGHT":
		return &Func{Min: 2, Max: 2, Args: []Arg{Str, Int}, Result: textLike, Eval: func(_ *Env, a []value) (value, error) {
			if a[1].Int64() < 0 {
				return value{}, invalidLength("right")
			}
			n := int64(length(a[0]))
			return slice(a[0], max(0, n-a[1].Int64()), n), nil
		}}
	case "UPPER", "LOWER", "LTRIM", "RTRIM", "REVERSE":
		return &Func{Min: 1, Max: 1, Args: []Arg{Text}, Result: textLike, Eval: func(_ *Env, a []value) (value, error) {
			return like(a[0], simpleText(name, a[0].Str())), nil
		}}
	case "TRIM":
		return &Func{Min: 1, Max: 2, Args: []Arg{Text}, Result: textLike, Eval: func(_ *Env, a []value) (value, error) {
			cut := " "
			if len(a) == 2 {
				cut = a[1].Str()
			}
			return like(a[0], strings.Trim(a[0].Str(), cut)), nil
		}}
	case "REPLACE":
		return &Func{Min: 3, Max: 3, Args: []Arg{Text}, Result: combine, Eval: func(_ *Env, a []value) (value, error) {
			return like(a[0], replaceFold(a[0].Str(), a[1].Str(), a[2].Str())), nil
		}}
	case "REPLICATE":
		return &Func{Min: 2, Max: 2, Args: []Arg{Text, Int}, Result: wide, Eval: replicate}
	case "SPACE":
		return &Func{Min: 1, Max: 1, Args: []Arg{Int}, Result: fixed(sqltype.VarCharType(8000)),
			Eval: func(_ *Env, a []value) (value, error) {
				n := a[0].Int64()
				if n < 0 {
					return sqltype.Null(), nil
				}
				return sqltype.VarChar(strings.Repeat(" ", int(min(n, 8000)))), nil
			}}
	case "STUFF":
		return &Func{Min: 4, Max: 4, Args: []Arg{Str, Int, Int, Str}, Result: wide, NullOK: true, Eval: stuff}
	}
	return nil
}

// DataLength is the number of bytes of a value.
func DataLength(v value) int {
	k := v.Kind()
	switch {
	case k.IsUnicode():
		return 2 * sqltype.TextLen(v.Str())
	case k.IsText():
		return len((*sqltype.Collation)(nil).EncodeVarChar(v.Str()))
	case k.IsBinary():
		return len(v.Str())
	}
	switch k {
	case sqltype.KindBit, sqltype.KindTinyInt:
		return 1
	case sqltype.KindSmallInt:
		return 2
	case sqltype.KindInt, sqltype.KindReal, sqltype.KindSmallMoney, sqltype.KindSmallDateTime:
		return 4
	case sqltype.KindUniqueIdentifier:
		return 16
	case sqltype.KindDate:
		return 3
	case sqltype.KindDecimal:
		return decimalSize(v.Number())
	case sqltype.KindTime:
		return timeSize(v.Scale())
	case sqltype.KindDateTime2:
		return timeSize(v.Scale()) + 3
	case sqltype.KindDateTimeOffset:
		return timeSize(v.Scale()) + 5
	}
	return 8
}

// decimalSize is the storage of the digits that the value has.
func decimalSize(n sqltype.Number) int {
	switch d := n.Digits(); {
	case d <= 9:
		return 5
	case d <= 19:
		return 9
	case d <= 28:
		return 13
	}
	return 17
}

func timeSize(scale uint8) int {
	switch {
	case scale <= 2:
		return 3
	case scale <= 4:
		return 4
	}
	return 5
}

// length is the number of bytes of binary or UTF-16 units of text.
func length(v value) int {
	if v.Kind().IsBinary() {
		return len(v.Str())
	}
	return sqltype.TextLen(v.Str())
}

// slice cuts units from lo to hi, both limited to the value.
func slice(v value, lo, hi int64) value {
	n := int64(length(v))
	lo, hi = max(lo, 0), min(hi, n)
	if lo >= hi {
		lo, hi = 0, 0
	}
	s := v.Str()
	if v.Kind().IsBinary() {
		return sqltype.Bytes(sqltype.KindVarBinary, s[lo:hi])
	}
	if len(s) == int(n) {
		return like(v, s[lo:hi])
	}
	return like(v, s[unitOffset(s, lo):unitOffset(s, hi)])
}

// unitOffset is the byte offset of the n-th UTF-16 unit; half of a pair counts as its
// start.
func unitOffset(s string, n int64) int {
	for i, r := range s {
		if n <= 0 {
			return i
		}
		n--
		if r > 0xFFFF {
			n--
		}
	}
	return len(s)
}

func substring(_ *Env, a []value) (value, error) {
	start, n := a[1].Int64(), a[2].Int64()
	if n < 0 {
		return value{}, sqlerr.MakeState(537, 3)
	}
	end := start - 1 + n
	if end < start-1 { // overflow
		end = 1 << 40
	}
	return slice(a[0], start-1, end), nil
}

func simpleText(name, s string) string {
	switch name {
	case "UPPER":
		return strings.ToUpper(s)
	case "LOWER":
		return strings.ToLower(s)
	case "LTRIM":
		return strings.TrimLeft(s, " ")
	case "RTRIM":
		return strings.TrimRight(s, " ")
	}
	var b strings.Builder
	for len(s) > 0 {
		_, n := utf8.DecodeLastRuneInString(s)
		b.WriteString(s[len(s)-n:])
		s = s[:len(s)-n]
	}
	return b.String()
}

// replaceFold replaces without regard to case, as the default collation does.
func replaceFold(s, old, with string) string {
	if old == "" {
		return s
	}
	var b strings.Builder
	for {
		i := IndexFold(s, old)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		b.WriteString(with)
		s = s[i+len(old):]
	}
}

// IndexFold finds sub in s without regard to case, for texts of equal width; -1
// when it is not there.
func IndexFold(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(sub)], sub) {
			return i
		}
	}
	return -1
}

func replicate(_ *Env, a []value) (value, error) {
	n := a[1].Int64()
	if n < 0 {
		return sqltype.Null(), nil
	}
	s := a[0].Str()
	const limit = 64 << 20
	if s == "" || n == 0 {
		return like(a[0], ""), nil
	}
	return like(a[0], strings.Repeat(s, int(min(n, limit/int64(len(s))+1)))), nil
}

func stuff(_ *Env, a []value) (value, error) {
	if a[0].IsNull() || a[1].IsNull() || a[2].IsNull() {
		return sqltype.Null(), nil
	}
	start, n := a[1].Int64(), a[2].Int64()
	total := int64(length(a[0]))
	if start < 1 || start > total || n < 0 {
		return sqltype.Null(), nil
	}
	insert := ""
	if !a[3].IsNull() {
		insert = a[3].Str()
	}
	s := slice(a[0], 0, start-1).Str() + insert + slice(a[0], start-1+n, total).Str()
	if a[0].Kind().IsBinary() {
		return sqltype.Bytes(sqltype.KindVarBinary, s), nil
	}
	return like(a[0], s), nil
}
