// Package scalar is single values of a table's simple types: read from their text in the log
// (partition values, statistics) and compared in the order that Delta has for the type.
package scalar

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Value is a value of a [schema.Primitive] or [schema.Decimal] that is not NULL. Which field
// holds it depends on the type.
type Value struct {
	// Int holds integers of all widths, booleans (0 and 1), dates (days since the epoch)
	// and timestamps (microseconds since the epoch, or of a wall clock).
	Int int64
	// Float holds float and double.
	Float float64
	// Text holds string and binary.
	Text string
	// Decimal holds a decimal's digits as a whole number, without the point.
	Decimal decimal128.Num
}

// Parse reads a value from its text in the log ("Partition Value Serialization" in
// PROTOCOL.md, and what statistics and other writers have in the same place): integers and
// floats in decimal, decimals in plain or scientific notation, true and false, YYYY-MM-DD,
// timestamps as [ParseTimestamp] reads them. A value that the type cannot hold exactly is an
// error.
func Parse(t schema.Type, text string) (Value, error) {
	v, err := parse(t, text)
	if err != nil {
		return Value{}, fmt.Errorf("%q is no %s: %w", text, t, err)
	}
	return v, nil
}

func parse(t schema.Type, text string) (Value, error) {
	switch t {
	case schema.String, schema.Binary:
		return Value{Text: text}, nil
	case schema.Boolean:
		b, err := strconv.ParseBool(text)
		if b {
			return Value{Int: 1}, err
		}
		return Value{}, err
	case schema.Byte:
		return parseInt(text, 8)
	case schema.Short:
		return parseInt(text, 16)
	case schema.Integer:
		return parseInt(text, 32)
	case schema.Long:
		return parseInt(text, 64)
	case schema.Float:
		f, err := strconv.ParseFloat(text, 32)
		return Value{Float: f}, reason(err)
	case schema.Double:
		f, err := strconv.ParseFloat(text, 64)
		return Value{Float: f}, reason(err)
	case schema.Date:
		at, err := time.Parse(time.DateOnly, text)
		return Value{Int: floorDiv(at.Unix(), 86400)}, err
	case schema.Timestamp, schema.TimestampNTZ:
		at, _, err := ParseTimestamp(text)
		return Value{Int: at.UnixMicro()}, err
	}
	if d, ok := t.(schema.Decimal); ok {
		n, err := parseDecimal(text, d)
		return Value{Decimal: n}, err
	}
	return Value{}, errors.New("the type has no single values")
}

func parseInt(text string, bits int) (Value, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	return Value{Int: n}, reason(err)
}

// reason is the cause of a number error: the text is in our own message.
func reason(err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) {
		return number.Err
	}
	return err
}

// ParseTimestamp reads a timestamp: RFC 3339, or "YYYY-MM-DD HH:MM:SS" with or without a
// fraction, a T in place of the space, or the date alone. zoned tells whether the text says
// which instant it is; without a zone it is read as UTC.
func ParseTimestamp(text string) (at time.Time, zoned bool, err error) {
	if at, err = time.Parse(time.RFC3339Nano, text); err == nil {
		return at, true, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", time.DateOnly} {
		if other, otherErr := time.Parse(layout, text); otherErr == nil { // takes a fraction too
			return other, false, nil
		}
	}
	return time.Time{}, false, err
}

// maxExponent and maxText bound the notation of decimals: 38 digits need no more.
const (
	maxExponent = 99
	maxText     = 128
)

// parseDecimal reads a decimal, exactly.
func parseDecimal(text string, t schema.Decimal) (decimal128.Num, error) {
	if len(text) > maxText {
		return decimal128.Num{}, errors.New("not a number")
	}
	number, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return decimal128.Num{}, errors.New("not a number")
		}
		number = text[:i]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	if strings.ContainsAny(fraction, "+-") || strings.ContainsAny(number, "_") {
		return decimal128.Num{}, errors.New("not a number")
	}
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return decimal128.Num{}, errors.New("not a number")
	}
	if shift := t.Scale + exponent - len(fraction); shift >= 0 {
		n.Mul(n, power(shift))
	} else if _, rest := n.QuoRem(n, power(-shift), new(big.Int)); rest.Sign() != 0 {
		return decimal128.Num{}, fmt.Errorf("more than %d digits behind the point", t.Scale)
	}
	if n.CmpAbs(power(t.Precision)) >= 0 {
		return decimal128.Num{}, fmt.Errorf("more than %d digits", t.Precision)
	}
	return decimal128.FromBigInt(n), nil
}

func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// Compare orders two values of a type: negative if a is before b. Strings and binary are
// ordered by their bytes, NaN is equal to itself and above all numbers, and -0 is 0.
func Compare(t schema.Type, a, b Value) int {
	switch t {
	case schema.String, schema.Binary:
		return bytes.Compare([]byte(a.Text), []byte(b.Text))
	case schema.Float, schema.Double:
		return compareFloats(a.Float, b.Float)
	}
	if _, ok := t.(schema.Decimal); ok {
		return a.Decimal.Cmp(b.Decimal)
	}
	return cmp.Compare(a.Int, b.Int)
}

func compareFloats(a, b float64) int {
	switch {
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	case math.IsNaN(b):
		return -1
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
