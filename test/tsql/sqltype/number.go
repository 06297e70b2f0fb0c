package sqltype

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// MaxPrecision is the largest precision of a decimal.
const MaxPrecision = 38

// Number is an exact decimal: (-1)^Neg × (Hi·2^64 + Lo) / 10^Scale, with at
// most 38 digits. It is what decimal and numeric hold. Zero is never negative.
type Number struct {
	Neg    bool
	Hi, Lo uint64
	Scale  uint8
}

// Errors of arithmetic; the evaluator turns them into 8115 and 8134.
var (
	errOverflow   = errors.New("arithmetic overflow")
	errDivideZero = errors.New("divide by zero")
)

// NumberFromInt64 is v with scale 0.
func NumberFromInt64(v int64) Number {
	if v < 0 {
		return Number{Neg: true, Lo: uint64(-v)}
	}
	return Number{Lo: uint64(v)}
}

// IsZero tells whether the number is 0, whatever its scale.
func (n Number) IsZero() bool { return n.Hi|n.Lo == 0 }

// pow10 gives 10^n as 128 bits; n is at most 38.
func pow10(n uint8) (hi, lo uint64) {
	if n <= 19 {
		return 0, pow10Low[n]
	}
	return bits.Mul64(pow10Low[19], pow10Low[n-19])
}

var pow10Low = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// Digits counts the decimal digits of the magnitude; 1 for zero.
func (n Number) Digits() uint8 {
	for d := uint8(1); d < MaxPrecision; d++ {
		hi, lo := pow10(d)
		if n.Hi < hi || n.Hi == hi && n.Lo < lo {
			return d
		}
	}
	return MaxPrecision
}

// fits tells whether the magnitude has at most p digits.
func (n Number) fits(p uint8) bool {
	hi, lo := pow10(p)
	return n.Hi < hi || n.Hi == hi && n.Lo < lo
}

// mulSmall multiplies the magnitude by m, or reports overflow past 38 digits.
func (n Number) mulSmall(m uint64) (Number, bool) {
	h1, lo := bits.Mul64(n.Lo, m)
	h2, mid := bits.Mul64(n.Hi, m)
	hi, carry := bits.Add64(h1, mid, 0)
	if h2 != 0 || carry != 0 {
		return n, false
	}
	n.Hi, n.Lo = hi, lo
	return n, n.fits(MaxPrecision)
}

// divSmall divides the magnitude by d and gives the remainder.
func (n Number) divSmall(d uint64) (Number, uint64) {
	hi, r := n.Hi/d, n.Hi%d
	n.Hi = hi
	n.Lo, r = bits.Div64(r, n.Lo, d)
	return n, r
}

// Rescale changes the scale, rounding half away from zero. It fails with an overflow
// when more than 38 digits would be needed.
func (n Number) Rescale(scale uint8) (Number, error) { return n.rescale(scale, true) }

// Truncate changes the scale, dropping digits.
func (n Number) Truncate(scale uint8) (Number, error) { return n.rescale(scale, false) }

func (n Number) rescale(scale uint8, round bool) (Number, error) {
	for n.Scale < scale {
		step := min(scale-n.Scale, 19)
		m, ok := n.mulSmall(pow10Low[step])
		if !ok {
			return n, errOverflow
		}
		n = m
		n.Scale += step
	}
	var last uint64 // the digit just dropped decides the rounding
	for n.Scale > scale {
		step := min(n.Scale-scale, 19)
		if step > 1 && n.Scale-step == scale {
			step-- // keep one digit for the rounding step
		}
		var rem uint64
		n, rem = n.divSmall(pow10Low[step])
		n.Scale -= step
		last = rem
		if step > 1 {
			last = 0
		}
	}
	if round && last >= 5 {
		var carry uint64
		n.Lo, carry = bits.Add64(n.Lo, 1, 0)
		n.Hi += carry
		if !n.fits(MaxPrecision) {
			return n, errOverflow
		}
	}
	if n.IsZero() {
		n.Neg = false
	}
	return n, nil
}

// Fit rounds the number to the scale of a decimal(p, s) and checks the precision.
func (n Number) Fit(precision, scale uint8) (Number, error) {
	r, err := n.Rescale(scale)
	if err != nil {
		return r, err
	}
	if !r.fits(precision) {
		return r, errOverflow
	}
	return r, nil
}

// cmpMagnitude compares magnitudes of one scale.
func (n Number) cmpMagnitude(m Number) int {
	switch {
	case n.Hi != m.Hi:
		return cmpUint64(n.Hi, m.Hi)
	default:
		return cmpUint64(n.Lo, m.Lo)
	}
}

func cmpUint64(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Cmp compares two numbers by value.
func (n Number) Cmp(m Number) int {
	if n.Neg != m.Neg {
		if n.IsZero() && m.IsZero() {
			return 0
		}
		if n.Neg {
			return -1
		}
		return 1
	}
	c := 0
	switch {
	case n.Scale == m.Scale:
		c = n.cmpMagnitude(m)
	default:
		c = n.big(max(n.Scale, m.Scale)).CmpAbs(m.big(max(n.Scale, m.Scale)))
	}
	if n.Neg {
		return -c
	}
	return c
}

// Negate changes the sign.
func (n Number) Negate() Number {
	n.Neg = !n.Neg && !n.IsZero()
	return n
}

// addSame adds numbers of one scale.
func (n Number) addSame(m Number) (Number, error) {
	if n.Neg == m.Neg {
		lo, carry := bits.Add64(n.Lo, m.Lo, 0)
		hi, over := bits.Add64(n.Hi, m.Hi, carry)
		n.Hi, n.Lo = hi, lo
		if over != 0 || !n.fits(MaxPrecision) {
			return n, errOverflow
		}
		return n, nil
	}
	if n.cmpMagnitude(m) < 0 {
		n, m = m, n
	}
	lo, borrow := bits.Sub64(n.Lo, m.Lo, 0)
	n.Hi, _ = bits.Sub64(n.Hi, m.Hi, borrow)
	n.Lo = lo
	if n.IsZero() {
		n.Neg = false
	}
	return n, nil
}

// Add adds exactly when the scales agree, and rounds to the given scale otherwise.
func (n Number) Add(m Number, scale uint8) (Number, error) {
	if n.Scale == m.Scale && n.Scale == scale {
		return n.addSame(m)
	}
	s := max(n.Scale, m.Scale)
	sum := new(big.Int).Add(n.signed(s), m.signed(s))
	return fromBig(sum, s, scale)
}

// Sub subtracts; see Add.
func (n Number) Sub(m Number, scale uint8) (Number, error) { return n.Add(m.Negate(), scale) }

// Mul multiplies and rounds to the given scale.
func (n Number) Mul(m Number, scale uint8) (Number, error) {
	p := new(big.Int).Mul(n.signed(n.Scale), m.signed(m.Scale))
	return fromBig(p, n.Scale+m.Scale, scale)
}

// Div divides; digits behind the given scale are dropped, as SQL Server does.
func (n Number) Div(m Number, scale uint8) (Number, error) {
	if m.IsZero() {
		return n, errDivideZero
	}
	num, den := n.signed(n.Scale), m.signed(m.Scale)
	shift := int(scale) + int(m.Scale) - int(n.Scale)
	if shift >= 0 {
		num.Mul(num, bigPow10(shift))
	} else {
		den.Mul(den, bigPow10(-shift))
	}
	return fromBig(num.Quo(num, den), scale, scale)
}

// Mod is the remainder with the sign of n.
func (n Number) Mod(m Number, scale uint8) (Number, error) {
	if m.IsZero() {
		return n, errDivideZero
	}
	s := max(n.Scale, m.Scale)
	r := new(big.Int).Rem(n.signed(s), m.signed(s))
	return fromBig(r, s, scale)
}

func bigPow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// big gives the magnitude at a larger scale.
func (n Number) big(scale uint8) *big.Int {
	b := new(big.Int).SetUint64(n.Hi)
	b.Lsh(b, 64)
	b.Or(b, new(big.Int).SetUint64(n.Lo))
	if scale > n.Scale {
		b.Mul(b, bigPow10(int(scale-n.Scale)))
	}
	return b
}

func (n Number) signed(scale uint8) *big.Int {
	b := n.big(scale)
	if n.Neg {
		b.Neg(b)
	}
	return b
}

// fromBig makes a number of v / 10^from, rounded to scale digits.
func fromBig(v *big.Int, from, to uint8) (Number, error) {
	neg := v.Sign() < 0
	m := new(big.Int).Abs(v)
	switch {
	case to > from:
		m.Mul(m, bigPow10(int(to-from)))
	case to < from:
		d := bigPow10(int(from - to))
		half := new(big.Int).Rsh(d, 1)
		m.Add(m, half)
		m.Quo(m, d)
	}
	if m.BitLen() > 127 {
		return Number{}, errOverflow
	}
	n := Number{Neg: neg, Lo: new(big.Int).And(m, maxUint64()).Uint64(), Hi: new(big.Int).Rsh(m, 64).Uint64(), Scale: to}
	if n.IsZero() {
		n.Neg = false
	}
	if !n.fits(MaxPrecision) {
		return n, errOverflow
	}
	return n, nil
}

func maxUint64() *big.Int { return new(big.Int).SetUint64(math.MaxUint64) }

// Int64 drops the fraction; ok is false when the rest does not fit.
func (n Number) Int64() (v int64, ok bool) {
	t, err := n.Truncate(0)
	if err != nil || t.Hi != 0 {
		return 0, false
	}
	if t.Neg {
		if t.Lo > 1<<63 {
			return 0, false
		}
		return -int64(t.Lo), true
	}
	if t.Lo > math.MaxInt64 {
		return 0, false
	}
	return int64(t.Lo), true
}

// Float64 is the nearest float.
func (n Number) Float64() float64 {
	f, _ := new(big.Rat).SetFrac(n.signed(n.Scale), bigPow10(int(n.Scale))).Float64()
	return f
}

// ParseNumber reads [sign] digits [. digits]. It fails on more than 38 digits in
// front of the point; digits behind it beyond 38 in all are rounded.
func ParseNumber(s string) (Number, error) {
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg, s = s[0] == '-', s[1:]
	}
	whole, frac, _ := strings.Cut(s, ".")
	if whole == "" && frac == "" {
		return Number{}, errSyntax
	}
	for _, part := range []string{whole, frac} {
		for i := range len(part) {
			if part[i] < '0' || part[i] > '9' {
				return Number{}, errSyntax
			}
		}
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > MaxPrecision {
		return Number{}, errOverflow
	}
	b, ok := new(big.Int).SetString("0"+whole+frac, 10)
	if !ok {
		return Number{}, errSyntax
	}
	if neg {
		b.Neg(b)
	}
	if len(frac) > 200 {
		return Number{}, errOverflow
	}
	return fromBig(b, uint8(len(frac)), uint8(min(len(frac), MaxPrecision-len(whole))))
}

var errSyntax = errors.New("not a number")

// String writes the number with all digits of its scale.
func (n Number) String() string { return string(n.Append(nil)) }

// Append appends the text of the number.
func (n Number) Append(dst []byte) []byte {
	var buf [48]byte
	i := len(buf)
	rest := n
	for k := uint8(0); ; k++ {
		if k == n.Scale && n.Scale > 0 {
			i--
			buf[i] = '.'
		}
		if k > n.Scale && rest.IsZero() {
			break
		}
		var d uint64
		rest, d = rest.divSmall(10)
		i--
		buf[i] = byte('0' + d)
	}
	if n.Neg {
		dst = append(dst, '-')
	}
	return append(dst, buf[i:]...)
}
