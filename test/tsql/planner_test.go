package tsql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
)

// condText makes conditions over columns a, b and c of an alias; other gives columns to compare
// with, if there are any.
func condText(depth int, alias string, other []string) *rapid.Generator[string] {
	operand := rapid.Custom(func(t *rapid.T) string {
		list := []string{"0", "1", "2", "3", "@p", "@q", "@null"}
		return rapid.SampledFrom(append(list, other...)).Draw(t, "operand")
	})
	leaf := rapid.Custom(func(t *rapid.T) string {
		col := alias + "." + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "column")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return fmt.Sprintf("%s BETWEEN %s AND %s", col, operand.Draw(t, "lo"), operand.Draw(t, "hi"))
		case 1:
			return fmt.Sprintf("%s IN (%s, %s)", col, operand.Draw(t, "x"), operand.Draw(t, "y"))
		case 2:
			return col + " IS NOT NULL"
		case 3:
			return fmt.Sprintf("%s %s %s", operand.Draw(t, "x"), rapid.SampledFrom([]string{"=", "<", ">=", "<>"}).Draw(t, "op"), col)
		}
		return fmt.Sprintf("%s %s %s", col, rapid.SampledFrom([]string{"=", "<", "<=", ">", ">=", "<>"}).Draw(t, "op"), operand.Draw(t, "x"))
	})
	if depth == 0 {
		return leaf
	}
	sub := condText(depth-1, alias, other)
	return rapid.OneOf(leaf, rapid.Custom(func(t *rapid.T) string {
		op := rapid.SampledFrom([]string{"AND", "AND", "OR"}).Draw(t, "op")
		return fmt.Sprintf("(%s %s %s)", sub.Draw(t, "l"), op, sub.Draw(t, "r"))
	}), rapid.Custom(func(t *rapid.T) string { return "NOT (" + sub.Draw(t, "x") + ")" }))
}

// TestPlansChangeNothing compares queries over clustered tables, where bounds, seeks and orders
// come into play, with the same queries over heaps, where everything is filtered and
// sorted.
func TestPlansChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := tsql.NewSession(newFakeHost())
		setup := rowsText(t, "x") + rowsText(t, "y")
		run := func(query string) []string {
			sink := &textSink{}
			require.NoError(t, s.Run(t.Context(), "DECLARE @p int = 1, @q int = 2, @null int; "+query, nil, sink), query)
			require.NotContains(t, sink.b.String(), "Msg", query)
			return strings.Split(sink.b.String(), "\n")
		}
		run(setup)
		query := queryText(t)
		clustered := run(query)
		heap := run(strings.NewReplacer(" x ", " xh ", " y ", " yh ").Replace(query))
		if !strings.Contains(query, "ORDER BY") {
			slices.Sort(clustered)
			slices.Sort(heap)
		}
		require.Equal(t, heap, clustered, query)
	})
}

// rowsText makes a clustered table and a heap with the same rows.
func rowsText(t *rapid.T, name string) string {
	text := fmt.Sprintf("CREATE TABLE %s (a int NOT NULL, b int NOT NULL, c int, PRIMARY KEY (a, b)); CREATE TABLE %sh (a int NOT NULL, b int NOT NULL, c int);", name, name)
	seen := make(map[string]bool)
	for range rapid.IntRange(0, 12).Draw(t, "rows "+name) {
		a, b := rapid.IntRange(0, 3).Draw(t, "a"), rapid.IntRange(0, 3).Draw(t, "b")
		c := rapid.SampledFrom([]string{"NULL", "0", "1", "2", "3"}).Draw(t, "c")
		row := fmt.Sprintf("(%d, %d", a, b)
		if seen[row] {
			continue
		}
		seen[row] = true
		text += fmt.Sprintf("INSERT %s VALUES %s, %s); INSERT %sh VALUES %s, %s);", name, row, c, name, row, c)
	}
	return text
}

func queryText(t *rapid.T) string {
	cond := condText(2, "t", nil)
	switch rapid.IntRange(0, 6).Draw(t, "shape") {
	case 0:
		return "SELECT t.a, t.b, t.c FROM x t WHERE " + cond.Draw(t, "where")
	case 1:
		order := rapid.Permutation([]string{"t.a", "t.b", "t.c"}).Draw(t, "order")
		for i := range order {
			if rapid.Bool().Draw(t, "desc") {
				order[i] += " DESC"
			}
		}
		top := rapid.SampledFrom([]string{"", "TOP (1) ", "TOP (3) "}).Draw(t, "top")
		return fmt.Sprintf("SELECT %st.a, t.b, t.c FROM x t WHERE %s ORDER BY %s", top, cond.Draw(t, "where"), strings.Join(order, ", "))
	case 2:
		join := rapid.SampledFrom([]string{"JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"}).Draw(t, "join")
		on := condText(1, "u", []string{"t.a", "t.b", "t.c"}).Draw(t, "on")
		return fmt.Sprintf("SELECT t.a, t.b, u.a, u.b, u.c FROM x t %s y u ON u.a = t.a AND %s WHERE %s", join, on, cond.Draw(t, "where"))
	case 3:
		fn := rapid.SampledFrom([]string{"MIN(t.a)", "MAX(t.a)", "MIN(t.b)", "MAX(t.b)", "COUNT(*), SUM(t.c)", "MAX(t.a), MIN(t.a)"}).Draw(t, "aggregate")
		return fmt.Sprintf("SELECT %s FROM x t WHERE %s", fn, cond.Draw(t, "where"))
	case 4:
		return fmt.Sprintf("SELECT t.a, t.b, (SELECT COUNT(*) FROM y u WHERE %s) n FROM x t WHERE EXISTS (SELECT 1 FROM y u WHERE %s)",
			condText(1, "u", []string{"t.a", "t.b"}).Draw(t, "sub"), condText(1, "u", []string{"t.a", "t.c"}).Draw(t, "exists"))
	case 5:
		return fmt.Sprintf("SELECT q.a, q.b, q.n, q.l FROM (SELECT t.a, t.b, NTILE(3) OVER (ORDER BY t.a, t.b) n, LAG(t.c) OVER (ORDER BY t.a, t.b) l FROM x t WHERE %s) q", cond.Draw(t, "where"))
	}
	return fmt.Sprintf("SELECT t.a, z.a, z.b FROM x t CROSS APPLY (SELECT TOP (2) u.a, u.b FROM y u WHERE %s ORDER BY u.a, u.b) z ORDER BY t.a, t.b, z.a, z.b",
		condText(1, "u", []string{"t.a", "t.b"}).Draw(t, "apply"))
}
