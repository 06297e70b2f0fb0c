package sqltype

import (
	"math"
	"strings"
)

// Compare orders two values of one family (numbers with numbers, text with
// text, and so on): -1, 0 or 1. NULL is below everything, as in ORDER BY; the three-valued
// logic of comparisons is the caller's. Values of different families are
// ordered by their kind's precedence, as sql_variant does.
//
// Text is compared under c with trailing blanks ignored. Binary values are
// compared as unsigned bytes, the shorter one padded with zero bytes.
func Compare(a, b Value, c *Collation) int {
	if a.kind == KindNull || b.kind == KindNull {
		return boolInt(b.kind == KindNull) - boolInt(a.kind == KindNull)
	}
	fa, fb := a.kind.family(), b.kind.family()
	if fa != fb {
		return cmpInt(int64(a.kind.Precedence()), int64(b.kind.Precedence()))
	}
	switch fa {
	case familyBinary:
		return CompareBytes(a.s, b.s)
	case familyText:
		return c.CompareText(a.s, b.s)
	case familyNumber:
		return compareNumbers(a, b)
	case familyTemporal:
		return compareTemporal(a, b)
	}
	return compareUUID(a, b)
}

// The families of comparable kinds.
const (
	familyNumber = iota
	familyTemporal
	familyText
	familyBinary
	familyUUID
)

func (k Kind) family() int {
	switch {
	case k.IsNumeric():
		return familyNumber
	case k.IsTemporal():
		return familyTemporal
	case k.IsText():
		return familyText
	case k.IsBinary():
		return familyBinary
	}
	return familyUUID
}

// CompareBytes compares two byte strings, the shorter one padded with zeros.
func CompareBytes(a, b string) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	if strings.Trim(a[n:], "\x00") != "" {
		return 1
	}
	if strings.Trim(b[n:], "\x00") != "" {
		return -1
	}
	return 0
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func compareNumbers(a, b Value) int {
	if a.kind.IsInteger() && b.kind.IsInteger() || a.kind.IsMoney() && b.kind.IsMoney() {
		return cmpInt(a.a, b.a)
	}
	if a.kind.IsFloat() || b.kind.IsFloat() {
		x, y := a.AsFloat(), b.AsFloat()
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return a.AsNumber().Cmp(b.AsNumber())
}

// AsFloat gives any number as a float.
func (v Value) AsFloat() float64 {
	switch {
	case v.kind.IsFloat():
		return math.Float64frombits(uint64(v.a))
	case v.kind == KindDecimal:
		return v.Number().Float64()
	case v.kind.IsMoney():
		return float64(v.a) / 10_000
	}
	return float64(v.a)
}

// AsNumber gives any exact number as a Number.
func (v Value) AsNumber() Number {
	switch {
	case v.kind == KindDecimal:
		return v.Number()
	case v.kind.IsMoney():
		n := NumberFromInt64(v.a)
		n.Scale = 4
		return n
	}
	return NumberFromInt64(v.a)
}

func compareTemporal(a, b Value) int {
	if a.kind == b.kind {
		if c := cmpInt(a.a, b.a); c != 0 {
			return c
		}
		return cmpInt(a.b, b.b)
	}
	da, ta := a.dayTicks()
	db, tb := b.dayTicks()
	if c := cmpInt(da, db); c != 0 {
		return c
	}
	return cmpInt(ta, tb)
}

// compareUUID compares by byte groups from the last to the first, the order of
// uniqueidentifier.
func compareUUID(a, b Value) int {
	x, y := a.UUID(), b.UUID()
	for _, i := range [16]int{10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0} {
		if x[i] != y[i] {
			return cmpInt(int64(x[i]), int64(y[i]))
		}
	}
	return 0
}
