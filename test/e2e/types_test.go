package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// Every type comes into bronze with every value: NULL, both ends of its range, and what
// tends to break decoders. The change table is asked in T-SQL; the ends of the ranges
// are also compared with what the workload wrote.
func TestAllTypes(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	l := &lab{sim: sim, dir: t.TempDir()}
	truth, err := workload.WriteTypes(t.Context(), sim)
	require.NoError(t, err)
	require.NoError(t, sim.Capture(t.Context()))
	l.run(t, with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.all_types"))

	columns := []sourceColumn{{"id", "int"}}
	for _, c := range workload.TypeColumns() {
		columns = append(columns, sourceColumn{c.Name, c.Type})
	}
	columns = append(columns, sourceColumn{"c_rowversion", "rowversion"})
	l.requireSameRows(t, "all_types", columns)

	rows := l.lakeRows(t, "all_types", columns)
	require.Len(t, rows, truth.Changes)
	inserted := map[string][]string{} // by id
	for _, row := range rows {
		if strings.HasSuffix(row.Position, "/2") {
			inserted[row.Values[0]] = row.Values
		}
	}
	for i, c := range workload.TypeColumns() {
		column := columns[i+1]
		cast := func(literal string) string {
			answer := l.query(t, "SELECT "+column.expression("CAST("+literal+" AS "+c.Type+")"))
			return column.fromSource(t, answer[0][0])
		}
		require.Equal(t, "NULL", inserted["0"][i+1], "column %s", c.Name)
		require.Equal(t, cast(c.Min), inserted["1"][i+1], "least value of column %s", c.Name)
		require.Equal(t, cast(c.Max), inserted["2"][i+1], "greatest value of column %s", c.Name)
		for n, nasty := range c.Nasty {
			require.Equal(t, cast(nasty), inserted[string(rune('3'+n))][i+1], "column %s, value %s", c.Name, nasty)
		}
	}
}
