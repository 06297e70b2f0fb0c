package sqlserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// rangeOf makes a range of int columns a, b, c…, those in upper case nullable. Values are separated by blanks; - is NULL,
// nothing is open.
func rangeOf(t *testing.T, columns, lower, upper string) keyRange {
	var key SnapshotKey
	for _, name := range columns {
		key.Columns = append(key.Columns, KeyColumn{Name: strings.ToLower(string(name)), Type: "int", Nullable: name < 'a'})
	}
	compiled, err := key.compile()
	require.NoError(t, err)
	side := func(text, param string) edge {
		e := edge{param: param}
		if cut, inclusive := strings.CutSuffix(text, "]"); inclusive {
			text, e.inclusive = cut, true
		}
		for _, value := range strings.Fields(text) {
			if value == "-" {
				e.bound = append(e.bound, nil)
				continue
			}
			e.bound = append(e.bound, &value)
		}
		return e
	}
	return keyRange{columns: compiled, lower: side(lower, "f"), upper: side(upper, "t")}
}

// TestPieces shows the pieces of ranges of every shape. A bound that ends in ] belongs to the range.
func TestPieces(t *testing.T) {
	t.Parallel()
	cases := []struct {
		columns, lower, upper string
		want                  []string
	}{
		{"ab", "", "", []string{""}},
		{"a", "1]", "2", []string{"a >= f0 AND a < t0"}},
		{"a", "1", "2]", []string{"a > f0 AND a <= t0"}},
		{"a", "", "2", []string{"a < t0"}},
		{"A", "", "2", []string{"a IS NULL", "a < t0"}},
		{"A", "-]", "2", []string{"a IS NULL", "a < t0"}},
		{"A", "-", "2", []string{"a IS NOT NULL AND a < t0"}},
		{"A", "-", "", []string{"a IS NOT NULL"}},
		{"A", "-]", "", []string{""}},
		{"A", "", "-", nil},
		{"A", "", "-]", []string{"a IS NULL"}},
		{"a", "1]", "1]", []string{"a = f0"}},
		{"a", "1]", "1", nil},
		{"a", "1", "1]", nil},
		{"A", "-]", "-]", []string{"a IS NULL"}},
		{"ab", "1 2]", "", []string{"a = f0 AND b >= f1", "a > f0"}},
		{"ab", "1 2", "", []string{"a = f0 AND b > f1", "a > f0"}},
		{"ab", "", "1 2", []string{"a < t0", "a = t0 AND b < t1"}},
		{"AB", "", "1 2", []string{"a IS NULL", "a < t0", "a = t0 AND b IS NULL", "a = t0 AND b < t1"}},
		{"AB", "", "- 2", []string{"a IS NULL AND b IS NULL", "a IS NULL AND b < t1"}},
		{"ab", "1 2]", "3 4", []string{
			"a = f0 AND b >= f1 AND (a < t0 OR a = t0 AND (b < t1))",
			"a > f0 AND a < t0",
			"a = t0 AND a > f0 AND b < t1",
		}},
		{"ab", "1 2]", "1 4", []string{"a = f0 AND b >= f1 AND b < t1"}},
		{"AB", "- -]", "- 4", []string{"a IS NULL AND b IS NULL", "a IS NULL AND b < t1"}},
		{"AB", "- 2]", "1 -", []string{
			"a IS NULL AND b >= f1 AND (a IS NULL OR a < t0)",
			"a IS NOT NULL AND a < t0",
		}},
		{"abc", "1 2 3]", "1 5 6", []string{
			"a = f0 AND b = f1 AND c >= f2 AND (b < t1 OR b = t1 AND (c < t2))",
			"a = f0 AND b > f1 AND b < t1",
			"a = f0 AND b = t1 AND b > f1 AND c < t2",
		}},
		{"abc", "1 2 3]", "", []string{"a = f0 AND b = f1 AND c >= f2", "a = f0 AND b > f1", "a > f0"}},
	}
	short := strings.NewReplacer("c.[", "", "]", "", "CAST(@", "", " AS int)", "")
	for _, c := range cases {
		r := rangeOf(t, c.columns, c.lower, c.upper)
		var got []string
		for _, piece := range r.pieces() {
			got = append(got, short.Replace(piece))
		}
		require.Equal(t, c.want, got, "%s from %s to %s", c.columns, c.lower, c.upper)
		for _, arg := range r.args() {
			require.True(t, got == nil || strings.Contains(strings.Join(got, " "), arg.Name) || c.upper == "1 -", "parameter %s of %v", arg.Name, got)
		}
	}
}

// TestIndexThatCannotBeCut falls back to one chunk, and says why.
func TestIndexThatCannotBeCut(t *testing.T) {
	t.Parallel()
	source := sourceTable{
		{id: 1, KeyColumn: KeyColumn{Name: "id", Type: "int"}},
		{id: 2, KeyColumn: KeyColumn{Name: "what"}, declared: sqlType{name: "sql_variant"}},
	}
	key, problem := indexKey(source, []uniqueIndex{{{id: 1}, {id: 2}}}, []string{"id", "what"})
	require.Equal(t, SnapshotKey{}, key)
	require.Contains(t, problem, "in one chunk, since values of column [what] of its unique index (sql_variant)")
	key, problem = indexKey(source, nil, []string{"gone"})
	require.Equal(t, SnapshotKey{}, key)
	require.Contains(t, problem, "column [gone] of its unique index is gone")

	// An index that is not listed is used, but nothing says that it is unique.
	key, problem = indexKey(source, nil, []string{"id"})
	require.Empty(t, problem)
	require.Equal(t, SnapshotKey{Columns: []KeyColumn{{Name: "id", Type: "int"}}}, key)
}

// TestKeyTypes round-trips the types that a snapshot can be cut on, and refuses the others.
func TestKeyTypes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"bit": "CAST(@p AS bit)", "bigint": "CAST(@p AS bigint)", "decimal(38,10)": "CAST(@p AS decimal(38,10))", "money": "CAST(@p AS money)",
		"datetime2(7)": "CONVERT(datetime2(7), @p, 121)", "date": "CONVERT(date, @p, 121)", "time(3)": "CONVERT(time(3), @p, 121)",
		"uniqueidentifier": "CAST(@p AS uniqueidentifier)", "binary(8)": "CONVERT(binary(8), @p, 1)",
		"varchar(10) COLLATE Greek_CI_AS":              "CAST(@p COLLATE Greek_CI_AS AS varchar(10))",
		"nchar(3) COLLATE Latin1_General_100_CI_AS_SC": "CAST(@p COLLATE Latin1_General_100_CI_AS_SC AS nchar(3))",
	} {
		typ, err := parseKeyType(text)
		require.NoError(t, err)
		require.Equal(t, text, typ.String())
		require.Equal(t, want, typ.read("@p"))
	}
	for _, text := range []string{"", "text", "ntext", "image", "xml", "sql_variant", "varchar(10)", "nvarchar(max) COLLATE x", "varbinary(max)", "hierarchyid", "json", "int COLLATE x", "varchar(10) COLLATE a b", "Int", "int "} {
		_, err := parseKeyType(text)
		require.Error(t, err, text)
	}
	rowversion, ok := keyTypeOf(sqlType{name: "timestamp", length: 8}, "")
	require.True(t, ok)
	require.Equal(t, "CONVERT(nvarchar(max), CONVERT(binary(8), x), 1)", rowversion.write("x"))
}

// TestInexactBoundsAreRefused keeps a snapshot from being cut at another place than was meant.
func TestInexactBoundsAreRefused(t *testing.T) {
	t.Parallel()
	key := SnapshotKey{Columns: []KeyColumn{{Name: "a"}, {Name: "b"}}}
	bound, err := boundOf(mssqlcdc.CaptureInstance{}, key, record{"v0": "", "v1": nil, "exact": int64(1)})
	require.NoError(t, err)
	require.Len(t, bound, 2)
	require.Empty(t, *bound[0])
	require.Nil(t, bound[1])
	for _, row := range []record{{"v0": "x", "exact": int64(0)}, {"v0": "x\uFFFD", "exact": int64(1)}, {"v0": "secret"}} {
		_, err := boundOf(mssqlcdc.CaptureInstance{Name: "ci"}, key, row)
		require.Equal(t, Schema, Classify(err))
		require.ErrorContains(t, err, "cut the snapshot on other columns")
		require.NotContains(t, err.Error(), "secret")
	}
}
