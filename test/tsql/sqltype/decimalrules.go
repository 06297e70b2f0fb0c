package sqltype

// DecimalOp gives the type of an arithmetic operation on two decimals. Op is + - * / or %
// (documentation page "Precision, scale, and length").
func DecimalOp(op byte, a, b Type) Type {
	p1, s1, p2, s2 := int(a.Precision), int(a.Scale), int(b.Precision), int(b.Scale)
	var p, s int
	switch op {
	case '*':
		p, s = p1+p2+1, s1+s2
	case '/':
		s = max(6, s1+p2+1)
		p = p1 - s1 + s2 + s
	case '%':
		s = max(s1, s2)
		p = min(p1-s1, p2-s2) + s
	default:
		s = max(s1, s2)
		p = s + max(p1-s1, p2-s2) + 1
	}
	if p > MaxPrecision {
		whole := p - s
		switch {
		case op != '*' && op != '/':
			s = min(s, MaxPrecision-max(p1-s1, p2-s2))
		case whole < 32:
			s = min(s, MaxPrecision-whole)
		default:
			s = min(s, 6)
		}
		p = MaxPrecision
	}
	return DecimalType(uint8(p), uint8(s))
}

// AsDecimal gives the decimal type that holds every value of an exact numeric
// type, which is what arithmetic converts it to.
func AsDecimal(t Type) Type {
	switch t.Kind {
	case KindBit:
		return DecimalType(1, 0)
	case KindTinyInt:
		return DecimalType(3, 0)
	case KindSmallInt:
		return DecimalType(5, 0)
	case KindInt:
		return DecimalType(10, 0)
	case KindBigInt:
		return DecimalType(19, 0)
	case KindMoney:
		return DecimalType(19, 4)
	case KindSmallMoney:
		return DecimalType(10, 4)
	}
	return t
}

// IsOverflow tells whether an error of [Number] arithmetic is an overflow.
func IsOverflow(err error) bool { return err == errOverflow }

// IsDivideByZero tells whether an error of [Number] arithmetic is a division by
// zero.
func IsDivideByZero(err error) bool { return err == errDivideZero }

// Common gives the type that two types are brought to in CASE, UNION, COALESCE
// and comparisons: the kind of higher precedence, wide enough for both.
func Common(a, b Type) Type {
	if a.Kind == KindNull {
		return b
	}
	if b.Kind == KindNull {
		return a
	}
	if a.Kind.Precedence() < b.Kind.Precedence() {
		a, b = b, a
	}
	switch a.Kind {
	case KindDecimal:
		return commonDecimal(a, b)
	case KindChar, KindVarChar, KindNChar, KindNVarChar, KindBinary, KindVarBinary:
		a.Length = commonLength(a, b)
		if a.Collation == "" {
			a.Collation = b.Collation
		}
		if a.Length == Max && a.Kind == KindNChar {
			a.Kind = KindNVarChar
		}
	case KindTime, KindDateTime2, KindDateTimeOffset:
		if b.Kind == KindTime || b.Kind == KindDateTime2 || b.Kind == KindDateTimeOffset {
			a.Scale = max(a.Scale, b.Scale)
		} else if b.Kind == KindDateTime {
			a.Scale = max(a.Scale, 3)
		}
	}
	return a
}

func commonDecimal(a, b Type) Type {
	if !b.Kind.IsNumeric() || b.Kind.IsFloat() {
		return a
	}
	b = AsDecimal(b)
	s := max(a.Scale, b.Scale)
	p := s + max(a.Precision-a.Scale, b.Precision-b.Scale)
	if p > MaxPrecision {
		s -= min(s, p-MaxPrecision)
		p = MaxPrecision
	}
	return DecimalType(p, s)
}

// commonLength is the longer of two lengths, where the other may be a number or date that is
// written as text.
func commonLength(a, b Type) int {
	if a.Length == Max || b.Length == Max {
		return Max
	}
	n := b.Length
	if !b.Kind.IsText() && !b.Kind.IsBinary() {
		n = TextWidth(b)
	}
	return max(a.Length, n)
}

// TextWidth is the number of characters that a value of the type needs at most
// when it is written as text.
func TextWidth(t Type) int {
	switch t.Kind {
	case KindBit:
		return 1
	case KindTinyInt:
		return 3
	case KindSmallInt:
		return 6
	case KindInt:
		return 12
	case KindBigInt:
		return 24
	case KindDecimal:
		return int(t.Precision) + 3
	case KindReal, KindFloat, KindMoney, KindSmallMoney:
		return 30
	case KindUniqueIdentifier:
		return 36
	case KindDate, KindTime, KindDateTime2, KindDateTimeOffset, KindDateTime, KindSmallDateTime:
		return 40
	}
	return t.Length
}
