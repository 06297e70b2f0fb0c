package sqlserversim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSplitName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"orders": {"orders"}, "dbo.orders": {"dbo", "orders"}, "[a]]b].[c.d]": {"a]b", "c.d"}, `"x""y".z`: {`x"y`, "z"},
		"db..t": {"db", "", "t"}, " [lab] . sys . sp_x ": {"lab", "sys", "sp_x"},
	} {
		got, ok := splitName(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"[a", `"a`, "[a]b", "[a] b"} {
		_, ok := splitName(text)
		require.False(t, ok, text)
	}
}

// TestQuotedNames: what is quoted splits into what it was, as a name and in a column list.
func TestQuotedNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-z\]\[". ,]{1,12}`), 1, 4).Draw(t, "names")
		quoted := make([]string, len(names))
		for i, n := range names {
			quoted[i] = quoteName(n)
		}
		got, ok := splitName(strings.Join(quoted, "."))
		require.True(t, ok)
		require.Equal(t, names, got)
		list, ok := columnList(quoteNames(names))
		require.True(t, ok)
		for i := range names {
			require.Equal(t, strings.TrimSpace(names[i]), list[i])
		}
	})
}

func FuzzSplitName(f *testing.F) {
	for _, s := range []string{"", "a.b.c.d.e", "[", "[]]", "[a].[b", `""""`, "....", "[a]]]."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if parts, ok := splitName(s); ok {
			require.NotEmpty(t, parts)
			_, _ = parseName(s)
		}
		_, _ = columnList(s)
	})
}

// TestMessageTexts: every number that is raised here has a text.
func TestMessageTexts(t *testing.T) {
	t.Parallel()
	for n := int32(22801); n < 23000; n++ {
		if class, text, ok := cdcMessage(n); ok {
			require.NotEmpty(t, text, n)
			require.True(t, class == 10 || class == 16, n)
		}
	}
	e := message(208, "x")
	require.Equal(t, "Invalid object name 'x'.", e.Message)
	require.Contains(t, message(99999).Message, "no text")
	require.Equal(t, "Invalid object name '%v'.", message(208).Message, "missing arguments must not panic")
}
