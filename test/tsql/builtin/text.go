package builtin

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"unicode/utf8"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func textFunc(name string) *Func {
	switch name {
	case "CONCAT":
		return &Func{Min: 2, Max: 254, Args: []Arg{Text}, Result: combine, NullOK: true, Eval: func(_ *Env, a []value) (value, error) {
			return concat("", a), nil
		}}
	case "CONCAT_WS":
		return &Func{Min: 3, Max: 254, Args: []Arg{Text}, Result: combine, NullOK: true, Eval: func(_ *Env, a []value) (value, error) {
			return concat(a[0].Str(), a[1:]), nil
		}}
	case "CHARINDEX":
		return &Func{Min: 2, Max: 3, Args: []Arg{Str, Str, Int}, Result: fixedKind(sqltype.KindInt), Eval: charIndex}
	case "PATINDEX":
		return &Func{Min: 2, Max: 2, Args: []Arg{Text}, Result: fixedKind(sqltype.KindInt), Eval: patIndex}
	case "CHAR":
		return &Func{Min: 1, Max: 1, Args: []Arg{Int}, Result: fixed(sqltype.Type{Kind: sqltype.KindChar, Length: 1}),
			Eval: func(_ *Env, a []value) (value, error) {
				n := a[0].Int64()
				if n < 0 || n > 255 {
					return sqltype.Null(), nil
				}
				return sqltype.Text(sqltype.KindChar, (*sqltype.Collation)(nil).DecodeVarChar(string([]byte{byte(n)}))), nil
			}}
	case "NCHAR":
		return &Func{Min: 1, Max: 1, Args: []Arg{Int}, Result: fixed(sqltype.Type{Kind: sqltype.KindNChar, Length: 1}),
			Eval: func(_ *Env, a []value) (value, error) {
				n := a[0].Int64()
				if n < 0 || n > 65535 {
					return sqltype.Null(), nil
				}
				return sqltype.Text(sqltype.KindNChar, string(rune(n))), nil
			}}
	case "ASCII":
		return &Func{Min: 1, Max: 1, Args: []Arg{Text}, Result: fixedKind(sqltype.KindInt), Eval: func(_ *Env, a []value) (value, error) {
			b := (*sqltype.Collation)(nil).EncodeVarChar(a[0].Str())
			if b == "" {
				return sqltype.Null(), nil
			}
			return int32Value(int(b[0])), nil
		}}
	case "UNICODE":
		return &Func{Min: 1, Max: 1, Args: []Arg{Text}, Result: fixedKind(sqltype.KindInt), Eval: func(_ *Env, a []value) (value, error) {
			if a[0].Str() == "" {
				return sqltype.Null(), nil
			}
			r, _ := utf8.DecodeRuneInString(a[0].Str())
			return int32Value(int(r)), nil
		}}
	case "QUOTENAME":
		return &Func{Min: 1, Max: 2, Args: []Arg{Text}, Result: fixed(sqltype.NVarCharType(258)), Eval: quoteName}
	case "PARSENAME":
		return &Func{Min: 2, Max: 2, Args: []Arg{Text, Int}, Result: fixed(sqltype.SysName()), Eval: parseName}
	case "TRANSLATE":
		return &Func{Min: 3, Max: 3, Args: []Arg{Text}, Result: wide, Eval: translate}
	case "HASHBYTES":
		return &Func{Min: 2, Max: 2, Args: []Arg{Text, Str}, Result: fixed(sqltype.VarBinaryType(8000)), Eval: hashBytes}
	case "FN_VARBINTOHEXSTR":
		return &Func{Min: 1, Max: 1, Args: []Arg{Any}, Result: fixed(sqltype.NVarCharType(sqltype.Max)), Eval: func(_ *Env, a []value) (value, error) {
			v, err := sqltype.Convert(a[0], sqltype.NVarCharType(sqltype.Max), 1)
			return sqltype.NVarChar(strings.ToLower(v.Str())), err
		}}
	}
	return nil
}

// concat joins texts; NULL counts as empty without a separator and is left out with one.
func concat(sep string, a []value) value {
	var b strings.Builder
	unicode, first := false, true
	for _, v := range a {
		unicode = unicode || v.Kind().IsUnicode()
		if v.IsNull() {
			continue
		}
		if !first {
			b.WriteString(sep)
		}
		first = false
		b.WriteString(v.Str())
	}
	if unicode {
		return sqltype.NVarChar(b.String())
	}
	return sqltype.VarChar(b.String())
}

func charIndex(_ *Env, a []value) (value, error) {
	start := int64(1)
	if len(a) == 3 {
		start = max(1, a[2].Int64())
	}
	if a[0].Str() == "" {
		return int32Value(0), nil
	}
	rest := slice(a[1], start-1, 1<<40).Str()
	i := strings.Index(rest, a[0].Str())
	if !a[0].Kind().IsBinary() {
		i = IndexFold(rest, a[0].Str())
	}
	if i < 0 {
		return int32Value(0), nil
	}
	if !a[1].Kind().IsBinary() {
		i = sqltype.TextLen(rest[:i])
	}
	return int32Value(i + int(start)), nil
}

func patIndex(_ *Env, a []value) (value, error) {
	p := CompilePattern(a[0].Str(), 0, nil)
	s := a[1].Str()
	open := strings.HasPrefix(a[0].Str(), "%")
	for i := range len(s) + 1 {
		if i > 0 && !open {
			break
		}
		if i < len(s) && !utf8.RuneStart(s[i]) {
			continue
		}
		if p.TrimPrefixAny().Match(s[i:]) {
			return int32Value(sqltype.TextLen(s[:i]) + 1), nil
		}
	}
	return int32Value(0), nil
}

func quoteName(_ *Env, a []value) (value, error) {
	s := a[0].Str()
	if sqltype.TextLen(s) > 128 {
		return sqltype.Null(), nil
	}
	mark := "["
	if len(a) == 2 {
		mark = a[1].Str()
	}
	var open, end string
	switch mark {
	case "[", "]":
		open, end = "[", "]"
	case "'", "\"", "`":
		open, end = mark, mark
	case "(", ")":
		open, end = "(", ")"
	case "<", ">":
		open, end = "<", ">"
	case "{", "}":
		open, end = "{", "}"
	default:
		return sqltype.Null(), nil
	}
	return sqltype.NVarChar(open + strings.ReplaceAll(s, end, end+end) + end), nil
}

// parseName gives part n of an object name, counted from the right.
func parseName(_ *Env, a []value) (value, error) {
	parts, ok := SplitName(a[0].Str())
	n := a[1].Int64()
	if !ok || n < 1 || n > 4 || int(n) > len(parts) || parts[len(parts)-int(n)] == "" {
		return sqltype.Null(), nil
	}
	return sqltype.NVarChar(parts[len(parts)-int(n)]), nil
}

// SplitName splits a name of up to four parts, with or without brackets or
// double quotes; ok is false when it is none.
func SplitName(s string) (parts []string, ok bool) {
	s = strings.TrimSpace(s)
	for {
		part, rest, ok := cutPart(s)
		if !ok || len(parts) == 4 {
			return nil, false
		}
		parts = append(parts, part)
		if rest == "" {
			return parts, parts[len(parts)-1] != ""
		}
		if rest[0] != '.' {
			return nil, false
		}
		s = rest[1:]
	}
}

func cutPart(s string) (part, rest string, ok bool) {
	if s == "" {
		return "", "", false
	}
	if s[0] != '[' && s[0] != '"' {
		if i := strings.IndexByte(s, '.'); i >= 0 {
			return s[:i], s[i:], true
		}
		return s, "", true
	}
	end := s[0]
	if end == '[' {
		end = ']'
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != end {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == end {
			b.WriteByte(end)
			i++
			continue
		}
		return b.String(), s[i+1:], true
	}
	return "", "", false
}

func translate(_ *Env, a []value) (value, error) {
	from, to := []rune(a[1].Str()), []rune(a[2].Str())
	if len(from) != len(to) {
		return value{}, translateError()
	}
	return like(a[0], strings.Map(func(r rune) rune {
		for i, f := range from {
			if f == r {
				return to[i]
			}
		}
		return r
	}, a[0].Str())), nil
}

func hashBytes(_ *Env, a []value) (value, error) {
	s := a[1].Str()
	if a[1].Kind().IsUnicode() {
		s = sqltype.EncodeUTF16(s)
	} else if a[1].Kind().IsText() {
		s = (*sqltype.Collation)(nil).EncodeVarChar(s)
	}
	b := []byte(s)
	switch strings.ToUpper(a[0].Str()) {
	case "MD5":
		h := md5.Sum(b)
		return sqltype.VarBinary(h[:]), nil
	case "SHA", "SHA1":
		h := sha1.Sum(b)
		return sqltype.VarBinary(h[:]), nil
	case "SHA2_256":
		h := sha256.Sum256(b)
		return sqltype.VarBinary(h[:]), nil
	case "SHA2_512":
		h := sha512.Sum512(b)
		return sqltype.VarBinary(h[:]), nil
	}
	return sqltype.Null(), nil
}
