// Package builtin holds the scalar functions of T-SQL that need no server:
// strings, numbers, dates, identifiers. A function gets its arguments converted
// and never sees NULL unless it asks to.
package builtin

import (
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Env is what a function may know of its session.
type Env struct {
	Now       time.Time // one for the whole statement, in the server's zone
	DateFirst int       // SET DATEFIRST, 1 to 7
}

// Arg says what an argument is converted to before the call.
type Arg uint8

// The argument classes.
const (
	Any      Arg = iota // as it is
	Text                // character string; other types are written as text
	Str                 // text or binary as it is, other types as text
	Int                 // bigint
	Number              // any number; text becomes float
	Float               // float
	Temporal            // any date or time; text becomes datetime2(7)
	Old                 // as Temporal, but text and numbers become datetime
	Zoned               // as Temporal, but text becomes datetimeoffset(7)
	Part                // a datepart name: a bare word, handed over as text
)

// Func is a scalar function.
type Func struct {
	Name     string
	Min, Max int   // number of arguments; Max -1 means any
	Args     []Arg // classes; the last one holds for the rest
	// Result gives the type of the result for the types of the arguments.
	Result func(args []sqltype.Type) sqltype.Type
	// Eval computes it. The args slice is reused by the caller.
	Eval func(env *Env, args []sqltype.Value) (sqltype.Value, error)
	// NullOK functions see NULL arguments; the others are NULL when any is.
	NullOK bool
	// Volatile functions give another result every time (NEWID).
	Volatile bool
	// Stable functions depend on the session (GETDATE): no constant folding.
	Stable bool
}

// ArgClass is the class of argument i.
func (f *Func) ArgClass(i int) Arg {
	if len(f.Args) == 0 {
		return Any
	}
	return f.Args[min(i, len(f.Args)-1)]
}

// Lookup finds a function by name, in any case.
func Lookup(name string) (*Func, bool) {
	upper := strings.ToUpper(name)
	for _, find := range [...]func(string) *Func{stringFunc, textFunc, numberFunc, dateFunc, datePartsFunc, otherFunc} {
		if f := find(upper); f != nil {
			f.Name = upper
			return f, true
		}
	}
	return nil, false
}

func fixed(t sqltype.Type) func([]sqltype.Type) sqltype.Type {
	return func([]sqltype.Type) sqltype.Type { return t }
}

func fixedKind(k sqltype.Kind) func([]sqltype.Type) sqltype.Type {
	return fixed(sqltype.Type{Kind: k})
}

// textLike is the type of a function that returns text shaped like its first argument:
// varchar for varchar and char, nvarchar for the Unicode types.
func textLike(a []sqltype.Type) sqltype.Type {
	return varyingOf(a[0])
}

// varyingOf is varchar, nvarchar or varbinary as wide as t.
func varyingOf(t sqltype.Type) sqltype.Type {
	switch {
	case t.Kind == sqltype.KindNull:
		return sqltype.VarCharType(1)
	case t.Kind.IsBinary():
		n := t.Length
		if t.Kind == sqltype.KindImage {
			n = sqltype.Max
		}
		return sqltype.VarBinaryType(n)
	case t.Kind == sqltype.KindText || t.Kind == sqltype.KindNText || t.Kind == sqltype.KindXML:
		k := sqltype.KindVarChar
		if t.Kind != sqltype.KindText {
			k = sqltype.KindNVarChar
		}
		return sqltype.Type{Kind: k, Length: sqltype.Max, Collation: t.Collation}
	case t.Kind.IsUnicode():
		return sqltype.Type{Kind: sqltype.KindNVarChar, Length: t.Length, Collation: t.Collation}
	case t.Kind.IsText():
		return sqltype.Type{Kind: sqltype.KindVarChar, Length: t.Length, Collation: t.Collation}
	}
	return sqltype.VarCharType(sqltype.TextWidth(t))
}

// wide is text as long as the type allows: 8000 bytes, 4000 characters, or max when an argument is.
func wide(a []sqltype.Type) sqltype.Type {
	t := varyingOf(a[0])
	if t.Length == sqltype.Max {
		return t
	}
	t.Length = 8000
	if t.Kind == sqltype.KindNVarChar {
		t.Length = 4000
	}
	return t
}

// combine is wide, but Unicode when any argument is and max when any is.
func combine(a []sqltype.Type) sqltype.Type {
	t := sqltype.VarCharType(8000)
	for _, x := range a {
		v := varyingOf(x)
		if v.Kind == sqltype.KindNVarChar && t.Kind == sqltype.KindVarChar {
			t.Kind = sqltype.KindNVarChar
			if t.Length != sqltype.Max {
				t.Length = 4000
			}
		}
		if v.Length == sqltype.Max {
			t.Length = sqltype.Max
		}
		if t.Collation == "" {
			t.Collation = v.Collation
		}
	}
	return t
}

// like makes text of the kind that v has (varchar for anything that is not
// Unicode).
func like(v sqltype.Value, s string) sqltype.Value {
	if v.Kind().IsUnicode() {
		return sqltype.NVarChar(s)
	}
	return sqltype.VarChar(s)
}

func invalidLength(function string) error { return sqlerr.Make(536, function) }
