package builtin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/builtin"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestEveryZoneExists(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "W. Europe Standard Time", "Central European Standard Time", "Pacific Standard Time", "India Standard Time", "Lord Howe Standard Time", "Asia/Tokyo"} {
		_, ok := builtin.LoadZone(name)
		require.True(t, ok, name)
	}
	for _, name := range []string{"", "nosuch", "W. Europe"} {
		_, ok := builtin.LoadZone(name)
		require.False(t, ok, name)
	}
	for _, iana := range []string{"Europe/Berlin", "America/New_York", "UTC"} {
		win, ok := builtin.WindowsZone(iana)
		require.True(t, ok)
		back, ok := builtin.IANAZone(win)
		require.True(t, ok)
		require.Equal(t, iana, back)
	}
}

// TestAtTimeZone: an instant stays one when it moves; a wall clock gets an offset that the zone
// has then.
func TestAtTimeZone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"W. Europe Standard Time", "Lord Howe Standard Time", "Newfoundland Standard Time", "UTC", "Samoa Standard Time"}).Draw(t, "zone")
		loc, ok := builtin.LoadZone(zone)
		require.True(t, ok)
		unix := rapid.Int64Range(946_684_800, 2_000_000_000).Draw(t, "unix")
		at := time.Unix(unix, 0)
		v, err := builtin.AtTimeZone(sqltype.FromTimeOffset(at.UTC()), zone)
		require.NoError(t, err)
		require.True(t, v.GoTime(time.UTC).Equal(at))
		_, off := at.In(loc).Zone()
		require.Equal(t, int16(off/60), v.Offset())
		wall, err := builtin.AtTimeZone(sqltype.FromTime(at.In(loc)), zone)
		require.NoError(t, err)
		diff := wall.GoTime(time.UTC).Sub(at) // zero, or the width of an hour that repeats
		require.True(t, diff == 0 || diff == time.Hour || diff == 30*time.Minute, "%s %s", at.In(loc), diff)
	})
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	bin, _ := sqltype.LookupCollation("Latin1_General_BIN2")
	for _, c := range []struct {
		pattern, text string
		escape        rune
		coll          *sqltype.Collation
		want          bool
	}{
		{"a%", "ABC", 0, nil, true}, {"a%", "ABC", 0, bin, false}, {"%b%", "abc", 0, nil, true}, {"_b_", "abc", 0, nil, true}, {"_b", "abc", 0, nil, false},
		{"", "", 0, nil, true}, {"%", "", 0, nil, true}, {"[a-c]x", "bx", 0, nil, true}, {"[^a-c]x", "bx", 0, nil, false}, {"[]]", "]", 0, nil, true},
		{"[%]", "%", 0, nil, true}, {"[%]", "x", 0, nil, false}, {"!%", "%", '!', nil, true}, {"!%", "x", '!', nil, false}, {"[a", "[a", 0, nil, true},
		{"__$%", "_$$x", 0, nil, true}, {"SQL Server Agent (%", "SQL Server Agent (MSSQLSERVER)", 0, nil, true}, {"%é", "cafÉ", 0, nil, true}, {"[a-]", "-", 0, nil, true},
		{"%a%b%c%", "xxaxxbxxcxx", 0, nil, true}, {"%a%b%c", "xxaxxbxxcxx", 0, nil, false},
	} {
		p := builtin.CompilePattern(c.pattern, c.escape, c.coll)
		require.Equal(t, c.want, p.Match(c.text), "%q like %q", c.text, c.pattern)
	}
}

// FuzzPattern: matching ends, and a text without special characters matches itself.
func FuzzPattern(f *testing.F) {
	f.Add("%a%b", "xaxb")
	f.Add("[^", "[^")
	f.Add("[a-z]_%", "q")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 500 {
			return
		}
		builtin.CompilePattern(pattern, 0, nil).Match(text)
		builtin.CompilePattern(pattern, '!', nil).Match(text)
		escaped := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_", "[", "![").Replace(text)
		require.True(t, builtin.CompilePattern(escaped, '!', nil).Match(text), "%q", text)
		require.True(t, builtin.CompilePattern("%"+escaped+"%", '!', nil).Match("x"+text+"y"), "%q", text)
	})
}

func TestSplitName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"t": {"t"}, "s.t": {"s", "t"}, "[s].[t]": {"s", "t"}, "[a.b].c": {"a.b", "c"}, `"x""y"`: {`x"y`}, "d..t": {"d", "", "t"}, "[a]]b]": {"a]b"}, "a.b.c.d": {"a", "b", "c", "d"},
	} {
		got, ok := builtin.SplitName(in)
		require.True(t, ok, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", ".", "a.", "[a", "a.b.c.d.e", "[a]b"} {
		_, ok := builtin.SplitName(in)
		require.False(t, ok, in)
	}
}

// call runs a function the way the evaluator does, without converting arguments.
func call(t *testing.T, name string, args ...sqltype.Value) (sqltype.Value, error) {
	t.Helper()
	fn, ok := builtin.Lookup(name)
	require.True(t, ok, name)
	return fn.Eval(&builtin.Env{DateFirst: 7, Now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}, args)
}

func TestLookupIsClosed(t *testing.T) {
	t.Parallel()
	_, ok := builtin.Lookup("nosuch")
	require.False(t, ok)
	fn, ok := builtin.Lookup("substring")
	require.True(t, ok)
	require.Equal(t, "SUBSTRING", fn.Name)
	require.Equal(t, builtin.Int, fn.ArgClass(2))
	require.Equal(t, builtin.Int, fn.ArgClass(9))
}

func TestEdges(t *testing.T) {
	t.Parallel()
	b := sqltype.BigInt
	text := sqltype.NVarChar
	v, err := call(t, "SUBSTRING", text("abc"), b(-1), b(3))
	require.NoError(t, err)
	require.Equal(t, "a", v.Str(), "a start before the text eats into the length")
	v, err = call(t, "SUBSTRING", text("a😀b"), b(2), b(2))
	require.NoError(t, err)
	require.Equal(t, "😀", v.Str())
	v, err = call(t, "SUBSTRING", text("abc"), b(1), b(1<<62))
	require.NoError(t, err)
	require.Equal(t, "abc", v.Str())
	v, err = call(t, "REPLICATE", text("x"), b(-1))
	require.NoError(t, err)
	require.True(t, v.IsNull())
	_, err = call(t, "LEFT", text("x"), b(-1))
	require.True(t, sqlerr.IsNumber(err, 536))
	v, err = call(t, "STUFF", text("abc"), b(9), b(1), text("x"))
	require.NoError(t, err)
	require.True(t, v.IsNull())
	_, err = call(t, "SQRT", sqltype.Float(-1))
	require.True(t, sqlerr.IsNumber(err, 3623))
	_, err = call(t, "ABS", b(-1<<63))
	require.True(t, sqlerr.IsNumber(err, 8115))
	_, err = call(t, "SWITCHOFFSET", sqltype.DateTimeOffset(0, 0, 0, 7), text("5:30"))
	require.True(t, sqlerr.IsNumber(err, 9812))
	_, err = call(t, "DATEADD", text("month"), b(1<<40), sqltype.Date(5))
	require.True(t, sqlerr.IsNumber(err, 8115))
	_, err = call(t, "DATEFROMPARTS", b(2023), b(2), b(29))
	require.True(t, sqlerr.IsNumber(err, 289))
	for in, want := range map[int64]string{150: "200", -150: "-200", 149: "100"} {
		v, err = call(t, "ROUND", b(in), b(-2))
		require.NoError(t, err)
		require.Equal(t, want, v.String())
	}
}

// TestDateAddAndDiffAgree: adding n days, hours or months and counting them again gives n.
func TestDateAddAndDiffAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"day", "hour", "minute", "second", "month", "year", "week", "ms"}).Draw(t, "part")
		n := rapid.Int64Range(-1000, 1000).Draw(t, "n")
		d := sqltype.DateTime2(int32(rapid.IntRange(500_000, 900_000).Draw(t, "days")), rapid.Int64Range(0, sqltype.TicksPerDay-1).Draw(t, "ticks"), 7)
		add, _ := builtin.Lookup("DATEADD")
		diff, _ := builtin.Lookup("DATEDIFF_BIG")
		env := &builtin.Env{DateFirst: 7}
		later, err := add.Eval(env, []sqltype.Value{sqltype.VarChar(part), sqltype.BigInt(n), d})
		require.NoError(t, err)
		got, err := diff.Eval(env, []sqltype.Value{sqltype.VarChar(part), d, later})
		require.NoError(t, err)
		require.Equal(t, n, got.Int64())
	})
}
