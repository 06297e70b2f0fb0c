package sqltype_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func numberGen() *rapid.Generator[sqltype.Number] {
	return rapid.Custom(func(t *rapid.T) sqltype.Number {
		digits := rapid.StringMatching(`[0-9]{1,37}`).Draw(t, "digits")
		scale := rapid.IntRange(0, len(digits)).Draw(t, "scale")
		s := digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
		if s[0] == '.' {
			s = "0" + s
		}
		if rapid.Bool().Draw(t, "neg") {
			s = "-" + s
		}
		n, err := sqltype.ParseNumber(s)
		require.NoError(t, err, s)
		return n
	})
}

func rat(n sqltype.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic(n.String())
	}
	return r
}

// TestNumbersAgainstRationals checks arithmetic against exact fractions.
func TestNumbersAgainstRationals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := numberGen().Draw(t, "a"), numberGen().Draw(t, "b")
		require.Equal(t, rat(a).Cmp(rat(b)), a.Cmp(b))
		scale := max(a.Scale, b.Scale)
		if sum, err := a.Add(b, scale); err == nil {
			require.Zero(t, rat(sum).Cmp(new(big.Rat).Add(rat(a), rat(b))))
		}
		if diff, err := a.Sub(b, scale); err == nil {
			require.Zero(t, rat(diff).Cmp(new(big.Rat).Sub(rat(a), rat(b))))
		}
		if a.Scale+b.Scale <= 38 {
			if p, err := a.Mul(b, a.Scale+b.Scale); err == nil {
				require.Zero(t, rat(p).Cmp(new(big.Rat).Mul(rat(a), rat(b))))
			}
		}
		if !b.IsZero() {
			if q, err := a.Div(b, 10); err == nil { // the exact quotient differs by less than one unit
				d := new(big.Rat).Sub(rat(q), new(big.Rat).Quo(rat(a), rat(b)))
				require.Negative(t, d.Abs(d).Cmp(big.NewRat(1, 10_000_000_000)))
			}
		}
	})
}

func TestRescaleRoundsHalfAwayFromZero(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := numberGen().Draw(t, "n")
		scale := uint8(rapid.IntRange(0, 38).Draw(t, "scale"))
		r, err := n.Rescale(scale)
		if err != nil {
			require.True(t, sqltype.IsOverflow(err))
			return
		}
		d := new(big.Rat).Sub(rat(r), rat(n))
		half := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Mul(big.NewInt(2), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
		require.LessOrEqual(t, d.Abs(d).Cmp(half), 0, "%s to %s", n, r)
		back, err := sqltype.ParseNumber(r.String())
		require.NoError(t, err)
		require.Zero(t, back.Cmp(r))
	})
	for in, want := range map[string]string{"2.5": "3", "-2.5": "-3", "2.4999": "2", "0.5": "1", "-0.4": "0"} {
		n, err := sqltype.ParseNumber(in)
		require.NoError(t, err)
		r, err := n.Rescale(0)
		require.NoError(t, err)
		require.Equal(t, want, r.String(), in)
	}
}

// TestDecimalResultTypes: the examples of the documentation page "Precision, scale, and length",
// and results that are well known.
func TestDecimalResultTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op   byte
		a, b string
		want string
	}{
		{'+', "decimal(10,2)", "decimal(5,4)", "decimal(13,4)"},
		{'-', "decimal(38,10)", "decimal(38,10)", "decimal(38,10)"},
		{'*', "decimal(10,2)", "decimal(10,2)", "decimal(21,4)"},
		{'/', "decimal(10,2)", "decimal(1,0)", "decimal(14,6)"},
		{'/', "decimal(18,2)", "decimal(18,2)", "decimal(38,20)"},
		{'%', "decimal(10,2)", "decimal(5,4)", "decimal(5,4)"},
		{'*', "decimal(38,20)", "decimal(38,20)", "decimal(38,6)"},
		{'*', "decimal(20,10)", "decimal(20,10)", "decimal(38,17)"},
		{'/', "decimal(38,2)", "decimal(38,2)", "decimal(38,6)"},
		{'+', "decimal(38,0)", "decimal(38,38)", "decimal(38,0)"},
	} {
		require.Equal(t, c.want, sqltype.DecimalOp(c.op, typ(t, c.a), typ(t, c.b)).String(), "%s %c %s", c.a, c.op, c.b)
	}
}

func TestCommonTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"int", "bigint", "bigint"}, {"int", "decimal(5,2)", "decimal(12,2)"}, {"varchar(5)", "nvarchar(3)", "nvarchar(5)"}, {"varchar(5)", "int", "int"},
		{"decimal(5,2)", "float", "float"}, {"datetime", "varchar(10)", "datetime"}, {"binary(3)", "varbinary(2)", "varbinary(3)"}, {"char(3)", "char(5)", "char(5)"},
		{"datetime2(3)", "datetimeoffset(7)", "datetimeoffset(7)"}, {"date", "datetime", "datetime"}, {"varchar(max)", "char(3)", "varchar(max)"},
	} {
		require.Equal(t, c.want, sqltype.Common(typ(t, c.a), typ(t, c.b)).String(), "%s and %s", c.a, c.b)
		require.Equal(t, c.want, sqltype.Common(typ(t, c.b), typ(t, c.a)).String(), "%s and %s", c.b, c.a)
	}
}

// FuzzNumber: a number that parses prints and parses to the same.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "99999999999999999999999999999999999999", "1.", ".5", "+1", "1e5", "", "-", ".", "0.00000000000000000000000000000000000000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := sqltype.ParseNumber(s)
		if err != nil {
			return
		}
		m, err := sqltype.ParseNumber(n.String())
		require.NoError(t, err)
		require.Equal(t, n, m)
	})
}
