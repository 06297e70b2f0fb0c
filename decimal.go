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
