package mssqlcdc_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Short numbers are written and read without big integers; what they become is the same.
func TestDecimalText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "-1", "9", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "99999999999999999999999999999999999999"} {
		unscaled, ok := new(big.Int).SetString(text, 10)
		require.True(t, ok)
		for scale := range int32(39) {
			n := decimal128.FromBigInt(unscaled)
			require.Equal(t, n.ToString(scale), mssqlcdc.FormatDecimal(n, scale), "%s at scale %d", text, scale)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`-?[0-9]{1,38}`).Draw(t, "unscaled")
		scale := rapid.Int32Range(0, 38).Draw(t, "scale")
		unscaled, ok := new(big.Int).SetString(digits, 10)
		require.True(t, ok)
		n := decimal128.FromBigInt(unscaled)
		text := mssqlcdc.FormatDecimal(n, scale)
		require.Equal(t, n.ToString(scale), text)
		for _, form := range []string{text, " " + text + " ", strings.TrimPrefix(text, "0"), text + strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros"))} {
			if !strings.Contains(text, ".") && form != text && !strings.HasPrefix(form, " ") || form == "" {
				continue // another number, or none
			}
			back, err := mssqlcdc.ParseDecimal(form, 38, scale)
			require.NoError(t, err, "%q", form)
			require.Equal(t, n, back, "%q", form)
		}
	})
	for _, text := range []string{"", "-", ".", "-.", "--1", "1.2.3", "1e5", "+-1", "1-", "0x1", "１"} {
		_, err := mssqlcdc.ParseDecimal(text, 18, 2)
		require.Error(t, err, "%q", text)
	}
}
