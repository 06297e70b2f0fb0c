package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

func orderColumns() []sourceColumn {
	return []sourceColumn{
		{"order_id", "bigint"}, {"customer_id", "int"}, {"status", "varchar(20)"}, {"currency", "char(3)"}, {"total", "decimal(18,2)"},
		{"ordered_at", "datetime2(7)"}, {"updated_at", "datetime2(3)"}, {"note", "nvarchar(200)"}, {"is_gift", "bit"}, {"discount", "money"},
	}
}

func lineColumns() []sourceColumn {
	return []sourceColumn{
		{"order_id", "bigint"}, {"line_no", "int"}, {"sku", "varchar(40)"}, {"quantity", "int"}, {"price", "decimal(12,4)"}, {"comment", "nvarchar(max)"},
	}
}

// However the stream is cut into windows and parts, and wherever it is interrupted and
// cut in another way: bronze holds the rows of the change tables, whole and in their
// order.
func TestAnyCutGivesTheSameRows(t *testing.T) {
	t.Parallel()
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for range seeds {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			sim := newSimulator(t)
			orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: int64(seed >> 1)})
			require.NoError(t, err)
			l := &lab{sim: sim, orders: orders, dir: t.TempDir()}
			for range 4 {
				l.write(t, 10+rng.IntN(60))
				where, err := l.crash(t.Context(), l.config(t, cutAtRandom(t, rng)), fmt.Sprintf("%s=%d", killAt, 1+rng.IntN(80)))
				require.NoError(t, err)
				t.Logf("killed %s", where)
			}
			require.NoError(t, l.sim.Idle(t.Context())) // see crashAndRecover
			where, err := l.crash(t.Context(), l.config(t, cutAtRandom(t, rng)))
			require.NoError(t, err)
			require.Empty(t, where)
			l.requireSameRows(t, "orders", orderColumns())
			l.requireSameRows(t, "order_lines", lineColumns())
			for _, name := range crashTables() {
				l.requireTiles(t, name, l.begin(t, name))
			}
		})
	}
}

// cutAtRandom is crashYAML with limits from a row to everything.
func cutAtRandom(t *testing.T, rng *rand.Rand) string {
	t.Helper()
	limit := func(most int) int {
		switch rng.IntN(4) {
		case 0:
			return 0 // the default or none
		case 1:
			return 1 + rng.IntN(3)
		}
		return 1 + rng.IntN(most)
	}
	limits := fmt.Sprintf("max_commits_per_window: %d\n    max_rows_per_window: %d\n    max_bytes_per_window: %d\n    max_rows_per_part: %d\n    max_bytes_per_part: %d\n    max_parallel_reads: %d\n    checkpoint_limit: %d",
		limit(20), limit(100), limit(20_000), limit(40), 1+rng.IntN(20_000), 1+rng.IntN(4), 1+rng.IntN(20))
	t.Logf("%s", limits)
	return with(t, crashYAML, "max_commits_per_window: 5\n    max_rows_per_part: 6", limits)
}
