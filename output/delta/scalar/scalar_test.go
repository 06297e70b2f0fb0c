package scalar_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func TestParse(t *testing.T) {
	t.Parallel()
	dec := func(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }
	for _, c := range []struct {
		typ  schema.Type
		text string
		want scalar.Value
	}{
		{schema.String, "", scalar.Value{}},
		{schema.String, "a b", scalar.Value{Text: "a b"}},
		{schema.Binary, "\x01\x02", scalar.Value{Text: "\x01\x02"}},
		{schema.Boolean, "true", scalar.Value{Int: 1}},
		{schema.Boolean, "false", scalar.Value{}},
		{schema.Byte, "-128", scalar.Value{Int: -128}},
		{schema.Short, "32767", scalar.Value{Int: 32767}},
		{schema.Integer, "-7", scalar.Value{Int: -7}},
		{schema.Long, "9223372036854775807", scalar.Value{Int: math.MaxInt64}},
		{schema.Float, "1.5", scalar.Value{Float: 1.5}},
		{schema.Double, "-Infinity", scalar.Value{Float: math.Inf(-1)}},
		{schema.Date, "1969-12-31", scalar.Value{Int: -1}},
		{schema.Date, "0001-01-01", scalar.Value{Int: -719162}},
		{schema.Timestamp, "1969-12-31T23:59:59.999999Z", scalar.Value{Int: -1}},
		{schema.Timestamp, "1970-01-01T01:00:00.000+01:00", scalar.Value{}},
		{schema.Timestamp, "1970-01-01 00:00:01", scalar.Value{Int: 1e6}},
		{schema.TimestampNTZ, "1970-01-01 00:00:01.000002", scalar.Value{Int: 1e6 + 2}},
		{schema.TimestampNTZ, "1970-01-01T00:00:01.5", scalar.Value{Int: 1500000}},
		{schema.TimestampNTZ, "1970-01-02", scalar.Value{Int: 86400e6}},
		{dec(5, 2), "-1.5", scalar.Value{Decimal: decimal128.FromI64(-150)}},
		{dec(5, 2), "1.5000", scalar.Value{Decimal: decimal128.FromI64(150)}},
		{dec(5, 2), "-0.01", scalar.Value{Decimal: decimal128.FromI64(-1)}},
		{dec(5, 2), "999.99", scalar.Value{Decimal: decimal128.FromI64(99999)}},
		{dec(38, 18), "0E-18", scalar.Value{}},
		{dec(38, 18), "1E-18", scalar.Value{Decimal: decimal128.FromI64(1)}},
		{dec(10, 0), "1.5e+3", scalar.Value{Decimal: decimal128.FromI64(1500)}},
	} {
		got, err := scalar.Parse(c.typ, c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s %q", c.typ, c.text)
	}
	for _, c := range []struct {
		typ  schema.Type
		text string
	}{
		{schema.Boolean, "yes"}, {schema.Byte, "128"}, {schema.Long, "1.0"}, {schema.Long, ""}, {schema.Double, "x"},
		{schema.Date, "2020-1-1"}, {schema.Timestamp, "yesterday"}, {schema.Void, "x"}, {&schema.Array{Element: schema.Long}, "1"},
		{dec(5, 2), "1.005"}, {dec(5, 2), "1000"}, {dec(5, 2), "1_0"}, {dec(5, 2), "1.-5"}, {dec(5, 2), "."}, {dec(5, 2), ""},
		{dec(5, 2), "1e"}, {dec(5, 2), "1e999999999"}, {dec(5, 2), "-"}, {dec(5, 2), "NaN"},
	} {
		_, err := scalar.Parse(c.typ, c.text)
		require.Error(t, err, "%s %q", c.typ, c.text)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	nan := scalar.Value{Float: math.NaN()}
	require.Zero(t, scalar.Compare(schema.Double, nan, nan))
	require.Positive(t, scalar.Compare(schema.Double, nan, scalar.Value{Float: math.Inf(1)}))
	require.Negative(t, scalar.Compare(schema.Double, scalar.Value{Float: 1}, nan))
	require.Zero(t, scalar.Compare(schema.Double, scalar.Value{Float: math.Copysign(0, -1)}, scalar.Value{}))
	require.Positive(t, scalar.Compare(schema.String, scalar.Value{Text: "é"}, scalar.Value{Text: "z"}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		want := big.NewInt(a).Cmp(big.NewInt(b))
		require.Equal(t, want, scalar.Compare(schema.Long, scalar.Value{Int: a}, scalar.Value{Int: b}))
		require.Equal(t, want, scalar.Compare(schema.Decimal{Precision: 38}, scalar.Value{Decimal: decimal128.FromI64(a)}, scalar.Value{Decimal: decimal128.FromI64(b)}))
	})
}

// A decimal that is read has the digits of the text and fits its type.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1.5", "-0.00", "1E-7", "99999999999999999999999999999999999999", "2026-01-02T03:04:05Z", "+1", "٣"} {
		f.Add(seed, uint8(20), uint8(4))
	}
	f.Fuzz(func(t *testing.T, text string, precision, scale uint8) {
		d := schema.Decimal{Precision: int(precision%38) + 1}
		d.Scale = int(scale) % (d.Precision + 1)
		if v, err := scalar.Parse(d, text); err == nil {
			require.True(t, v.Decimal.FitsInPrecision(int32(d.Precision)))
			want, ok := new(big.Rat).SetString(text)
			require.True(t, ok, text)
			require.Zero(t, want.Cmp(new(big.Rat).SetFrac(v.Decimal.BigInt(), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Scale)), nil))), text)
		}
		for _, typ := range []schema.Type{schema.Long, schema.Double, schema.Date, schema.Timestamp, schema.Boolean} {
			if v, err := scalar.Parse(typ, text); err == nil {
				require.Zero(t, scalar.Compare(typ, v, v))
			}
		}
	})
}
