package sqltype

import (
	"errors"
	"fmt"
	"strings"
)

// ParseType makes a type from its declared name (any case, with the aliases that
// SQL Server knows: integer, numeric, character varying, sysname, timestamp …)
// and the parameters in parentheses, Max for MAX. Missing parameters are those of
// a column or variable: length 1, decimal(18,0), scale 7. The error says what
// is wrong: [ErrUnknownType] or a parameter out of range.
func ParseType(name string, params ...int) (Type, error) {
	key := strings.ToLower(strings.Join(strings.Fields(name), " "))
	if key == "sysname" && len(params) == 0 {
		return SysName(), nil
	}
	k, ok := lookupKind(key)
	if !ok {
		return Type{}, fmt.Errorf("%w %q", ErrUnknownType, name)
	}
	t := Type{Kind: k}
	switch k {
	case KindChar, KindVarChar, KindNChar, KindNVarChar, KindBinary, KindVarBinary:
		return parseLength(t, params)
	case KindDecimal:
		return parseDecimal(t, params)
	case KindTime, KindDateTime2, KindDateTimeOffset:
		return parseScale(t, params)
	case KindFloat:
		if len(params) == 1 && params[0] >= 1 && params[0] <= 53 {
			if params[0] <= 24 {
				t.Kind = KindReal
			}
			return t, nil
		}
	case KindRowVersion:
		t.Length = 8
	case KindXML:
		return t, nil
	}
	if len(params) > 0 {
		return t, &TypeParamError{Name: key, NotAllowed: true}
	}
	return t, nil
}

// ErrUnknownType tells that a name is no system type.
var ErrUnknownType = errors.New("unknown type")

// TypeParamError tells that the parameters of a type are not allowed or out of
// range.
type TypeParamError struct {
	Name       string
	NotAllowed bool // the type takes none
	Value      int  // else the value out of range
}

// Error describes the parameter.
func (e *TypeParamError) Error() string {
	if e.NotAllowed {
		return fmt.Sprintf("type %s takes no such parameter", e.Name)
	}
	return fmt.Sprintf("parameter %d of type %s is out of range", e.Value, e.Name)
}

func lookupKind(key string) (Kind, bool) {
	switch key {
	case "integer":
		return KindInt, true
	case "numeric", "dec":
		return KindDecimal, true
	case "character":
		return KindChar, true
	case "character varying", "char varying":
		return KindVarChar, true
	case "national character", "national char":
		return KindNChar, true
	case "national character varying", "national char varying":
		return KindNVarChar, true
	case "binary varying":
		return KindVarBinary, true
	case "double precision":
		return KindFloat, true
	case "rowversion":
		return KindRowVersion, true
	}
	for k := KindBit; k < kindCount; k++ {
		if kindNames[k] == key {
			return k, true
		}
	}
	return 0, false
}

func parseLength(t Type, params []int) (Type, error) {
	t.Length = 1
	if len(params) == 0 {
		return t, nil
	}
	limit := 8000
	if t.Kind.IsUnicode() {
		limit = 4000
	}
	n := params[0]
	fixed := t.Kind == KindChar || t.Kind == KindNChar || t.Kind == KindBinary
	if len(params) > 1 || n == Max && fixed || n != Max && (n < 1 || n > limit) {
		return t, &TypeParamError{Name: t.Kind.String(), Value: n}
	}
	t.Length = n
	return t, nil
}

func parseDecimal(t Type, params []int) (Type, error) {
	t.Precision = 18
	if len(params) == 0 {
		return t, nil
	}
	if len(params) > 2 || params[0] < 1 || params[0] > MaxPrecision {
		return t, &TypeParamError{Name: "decimal", Value: params[0]}
	}
	t.Precision = uint8(params[0])
	if len(params) == 2 {
		if params[1] < 0 || params[1] > params[0] {
			return t, &TypeParamError{Name: "decimal", Value: params[1]}
		}
		t.Scale = uint8(params[1])
	}
	return t, nil
}

func parseScale(t Type, params []int) (Type, error) {
	t.Scale = 7
	if len(params) == 0 {
		return t, nil
	}
	if len(params) > 1 || params[0] < 0 || params[0] > 7 {
		return t, &TypeParamError{Name: t.Kind.String(), Value: params[0]}
	}
	t.Scale = uint8(params[0])
	return t, nil
}
