package mssqlcdc

import (
	"errors"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// exactDecimal reads [+-]digits[.digits] into an unscaled number of the given
// scale.
func exactDecimal(text string, scale int32) (decimal128.Num, error) {
	if n, ok := shortDecimal(text, int(scale)); ok {
		return decimal128.FromI64(n), nil
	}
	digits := strings.TrimSpace(text)
	negative := strings.HasPrefix(digits, "-")
	digits = strings.TrimPrefix(strings.TrimPrefix(digits, "-"), "+")
	whole, fraction, _ := strings.Cut(digits, ".")
	fraction = strings.TrimRight(fraction, "0")
	if whole == "" && fraction == "" && !strings.Contains(digits, "0") {
		return decimal128.Num{}, errors.New("not a decimal number")
	}
	if int32(len(fraction)) > scale {
		return decimal128.Num{}, errors.New("more digits after the point than the scale holds")
	}
	unscaled := whole + fraction + strings.Repeat("0", int(scale)-len(fraction))
	for _, r := range unscaled {
		if r < '0' || r > '9' {
			return decimal128.Num{}, errors.New("not a decimal number")
		}
	}
	unscaled = strings.TrimLeft(unscaled, "0")
	if len(unscaled) > 38 {
		return decimal128.Num{}, errors.New("more than 38 digits")
	}
	number, ok := new(big.Int).SetString("0"+unscaled, 10)
	if !ok {
		return decimal128.Num{}, errors.New("not a decimal number")
	}
	if negative {
		number.Neg(number)
	}
	return decimal128.FromBigInt(number), nil
}

// shortDecimal is exactDecimal of a text whose number fits into 64 bits for certain. Not
// ok is not an error: such a text is looked at in full.
func shortDecimal(text string, scale int) (int64, bool) {
	const most = 18 // digits
	digits := strings.TrimPrefix(text, "-")
	n, count, after := int64(0), 0, -1 // after counts the digits after the point
	for i := range len(digits) {
		switch c := digits[i]; {
		case c >= '0' && c <= '9':
			n = n*10 + int64(c-'0')
			count++
			if after >= 0 {
				after++
			}
		case c == '.' && after < 0:
			after = 0
		default:
			return 0, false
		}
		if count > most {
			return 0, false
		}
	}
	missing := scale - max(after, 0)
	if count == 0 || missing < 0 || count+missing > most {
		return 0, false
	}
	for range missing {
		n *= 10
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}
