package fetch

import (
	"errors"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// parseDecimal reads the driver's text of a decimal, [-]digits[.digits], into an unscaled number of the scale. Fewer
// digits after the point than the scale are filled up; more, and more digits than the precision, are an error.
func parseDecimal(text []byte, precision, scale int32) (decimal128.Num, error) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	var hi, lo uint64
	digits, fraction := int32(0), int32(-1) // significant digits; digits after the point, -1 before it
	seen := false
	for _, c := range text {
		if c == '.' && fraction < 0 {
			fraction = 0
			continue
		}
		if c < '0' || c > '9' {
			return decimal128.Num{}, errors.New("not a decimal number")
		}
		seen = true
		if fraction >= 0 {
			fraction++
		}
		if digits > 0 || c != '0' {
			digits++
		}
		if digits > maxDigits {
			return decimal128.Num{}, errors.New("more than 38 digits")
		}
		hi, lo = timesTenPlus(hi, lo, uint64(c-'0'))
	}
	fraction = max(fraction, 0)
	if !seen || fraction > scale {
		return decimal128.Num{}, errors.New("not a decimal number of the declared scale")
	}
	if digits > 0 {
		digits += scale - fraction
	}
	if digits > precision || digits > maxDigits {
		return decimal128.Num{}, errors.New("more digits than the declared precision")
	}
	for ; fraction < scale; fraction++ {
		hi, lo = timesTenPlus(hi, lo, 0)
	}
	n := decimal128.New(int64(hi), lo)
	if negative {
		n = n.Negate()
	}
	return n, nil
}

// maxDigits is the largest precision of a decimal; 10^38 fits into 127 bits.
const maxDigits = 38

func timesTenPlus(hi, lo, digit uint64) (uint64, uint64) {
	carry, low := bits.Mul64(lo, 10)
	low, c := bits.Add64(low, digit, 0)
	return hi*10 + carry + c, low
}
