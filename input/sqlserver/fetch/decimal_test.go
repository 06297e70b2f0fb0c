package fetch

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestDecimalIsExact compares with big integers over every precision and scale.
func TestDecimalIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		precision := rapid.Int32Range(1, 38).Draw(t, "precision")
		scale := rapid.Int32Range(0, precision).Draw(t, "scale")
		digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, "digits")
		digits = digits[:min(len(digits), int(precision))]
		negative := rapid.Bool().Draw(t, "negative")
		want, _ := new(big.Int).SetString(digits, 10)
		if negative {
			want.Neg(want)
		}
		// As the driver writes it: at least one digit before the point, all of the scale after it.
		padded := strings.Repeat("0", max(int(scale)+1-len(digits), 0)) + digits
		text := padded[:len(padded)-int(scale)]
		if scale > 0 {
			text += "." + padded[len(padded)-int(scale):]
		}
		if negative {
			text = "-" + text
		}
		got, err := parseDecimal([]byte(text), precision, scale)
		if err != nil {
			t.Fatalf("%s as decimal(%d,%d): %v", text, precision, scale, err)
		}
		if got.BigInt().Cmp(want) != 0 {
			t.Fatalf("%s as decimal(%d,%d): %s, want %s", text, precision, scale, got.BigInt(), want)
		}
	})
}

func FuzzDecimal(f *testing.F) {
	for _, seed := range []string{"0", "-0.00", "1.5", ".5", "5.", "-", "", "1..2", "+1", "99999999999999999999999999999999999999", "1e5", "000000000000000000000000000000000000000000001"} {
		f.Add([]byte(seed), int32(38), int32(4))
	}
	f.Fuzz(func(t *testing.T, text []byte, precision, scale int32) {
		if precision < 1 || precision > 38 || scale < 0 || scale > precision {
			return
		}
		got, err := parseDecimal(text, precision, scale)
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(string(text))
		require.True(t, ok, "%q was taken for a number", text)
		want.Mul(want, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
		require.True(t, want.IsInt())
		require.Zero(t, want.Num().Cmp(got.BigInt()))
		require.True(t, got.FitsInPrecision(precision))
	})
}
