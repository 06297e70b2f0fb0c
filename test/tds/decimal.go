package tds

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// MaxPrecision is the largest number of digits of a decimal.
const MaxPrecision = 38

// Decimal is an exact number of up to 38 digits: the magnitude Hi×2^64+Lo, divided by 10^Scale, negated if Negative. A
// negative zero is kept as it is: SQL Server does not store one, but a wire can carry it.
type Decimal struct {
	Hi, Lo   uint64
	Scale    uint8
	Negative bool
}

// errPrecision is the reason for refusing numbers that no decimal can hold.
var errPrecision = errors.New("more than 38 digits")

// NewDecimal gives unscaled × 10^-scale.
func NewDecimal(unscaled int64, scale uint8) Decimal {
	if unscaled < 0 {
		return Decimal{Lo: uint64(-unscaled), Scale: scale, Negative: true}
	}
	return Decimal{Lo: uint64(unscaled), Scale: scale}
}

// ParseDecimal reads digits with an optional sign and point; the scale is the number of digits after the point.
func ParseDecimal(s string) (Decimal, error) {
	var d Decimal
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole+fraction == "" {
		return d, fmt.Errorf("parsing decimal %q: no digits", s)
	}
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return d, fmt.Errorf("parsing decimal %q: %q is no digit", s, c)
		}
		var over bool
		if d.Hi, d.Lo, over = mulAdd(d.Hi, d.Lo, 10, uint64(c-'0')); over || tooBig(d.Hi, d.Lo) {
			return Decimal{}, fmt.Errorf("parsing decimal %q: %w", s, errPrecision)
		}
	}
	if len(fraction) > MaxPrecision {
		return Decimal{}, fmt.Errorf("parsing decimal %q: %w after the point", s, errPrecision)
	}
	d.Scale, d.Negative = uint8(len(fraction)), negative
	return d, nil
}

// DecimalFromBig gives unscaled × 10^-scale.
func DecimalFromBig(unscaled *big.Int, scale uint8) (Decimal, error) {
	var d Decimal
	m := new(big.Int).Abs(unscaled)
	if m.BitLen() > 127 {
		return d, fmt.Errorf("converting %s: %w", unscaled, errPrecision)
	}
	d.Lo = new(big.Int).And(m, new(big.Int).SetUint64(^uint64(0))).Uint64()
	d.Hi = new(big.Int).Rsh(m, 64).Uint64()
	if tooBig(d.Hi, d.Lo) {
		return Decimal{}, fmt.Errorf("converting %s: %w", unscaled, errPrecision)
	}
	d.Scale, d.Negative = scale, unscaled.Sign() < 0
	return d, nil
}

// Big gives the signed number without its scale.
func (d Decimal) Big() *big.Int {
	n := new(big.Int).SetUint64(d.Hi)
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(d.Lo))
	if d.Negative {
		n.Neg(n)
	}
	return n
}

// Rescale gives the same number with another scale. Digits that would be lost are an error unless they are zeros, and so
// is a result of more than 38 digits.
func (d Decimal) Rescale(scale uint8) (Decimal, error) {
	out := d
	for ; out.Scale < scale; out.Scale++ {
		var over bool
		if out.Hi, out.Lo, over = mulAdd(out.Hi, out.Lo, 10, 0); over || tooBig(out.Hi, out.Lo) {
			return d, fmt.Errorf("giving %s a scale of %d: %w", d, scale, errPrecision)
		}
	}
	for ; out.Scale > scale; out.Scale-- {
		hi := out.Hi / 10
		lo, rest := bits.Div64(out.Hi%10, out.Lo, 10)
		if rest != 0 {
			return d, fmt.Errorf("giving %s a scale of %d: digits would be lost", d, scale)
		}
		out.Hi, out.Lo = hi, lo
	}
	return out, nil
}

// String gives all digits of the fraction, as SQL Server converts a decimal to text.
func (d Decimal) String() string {
	digits := strconv.FormatUint(d.Lo, 10)
	if d.Hi != 0 {
		digits = new(big.Int).Abs(d.Big()).String()
	}
	if n := int(d.Scale); n > 0 {
		if len(digits) <= n {
			digits = strings.Repeat("0", n-len(digits)+1) + digits
		}
		digits = digits[:len(digits)-n] + "." + digits[len(digits)-n:]
	}
	if d.Negative {
		return "-" + digits
	}
	return digits
}

// mulAdd gives (hi,lo)×by + add and whether it passed 128 bits.
func mulAdd(hi, lo, by, add uint64) (uint64, uint64, bool) {
	over, h := bits.Mul64(hi, by)
	carryHi, l := bits.Mul64(lo, by)
	h, c1 := bits.Add64(h, carryHi, 0)
	l, c2 := bits.Add64(l, add, 0)
	h, c3 := bits.Add64(h, 0, c2)
	return h, l, over != 0 || c1 != 0 || c3 != 0
}

// tooBig reports whether the magnitude has more than 38 digits, that is 10^38 = 0x4B3B4CA85A86C47A_098A224000000000 or more.
func tooBig(hi, lo uint64) bool {
	const limitHi, limitLo = 0x4B3B4CA85A86C47A, 0x098A224000000000
	return hi > limitHi || hi == limitHi && lo >= limitLo
}

// Money is a money or smallmoney value in units of a ten-thousandth.
type Money int64

// String gives the number with four digits after the point.
func (m Money) String() string { return m.Decimal().String() }

// Decimal gives the same number as a decimal of scale 4.
func (m Money) Decimal() Decimal { return NewDecimal(int64(m), 4) }
