package e2e

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fanOutYAML writes each table to two places.
const fanOutYAML = `
input:
  mssql_cdc:
    connection_string: "${MSSQL_DSN}"
    tables: [ dbo.orders, dbo.order_lines ]
    run: available_now
    format: record_batch
    max_commits_per_window: 5
    max_rows_per_part: 7
    checkpoint_cache: position
output:
  broker:
    pattern: fan_out
    outputs:
      - delta_lake:
          path: ./lake/left/${! @table }
          app_id: left-${! @table }
          facts_path: ./lake/_facts
      - delta_lake:
          path: ./lake/right/${! @table }
          app_id: right-${! @table }
          facts_path: ./lake/_facts
          after_commit:
            - finalize: { control_path: ./lake/_control, granularity: minute }
cache_resources:
  - label: position
    atomic_file: { directory: ./position }
http: { enabled: false }
`

// Two tables for each source table: both are complete once, also when the process
// dies while only one of them has a window.
func TestFanOut(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	l := newLab(t)
	continuous := with(t, fanOutYAML, "run: available_now", "run: continuous")
	sides := []string{"left", "right"}
	for range 4 {
		l.write(t, 40)
		before := l.commits(t, "right/orders")
		cmd, out := l.start(t, continuous)
		target := before + 2 + rng.IntN(5)
		side := sides[rng.IntN(2)]
		eventually(t, "commits", out, func() bool { return l.commits(t, side+"/orders") >= target })
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		require.Error(t, cmd.Wait())
	}
	require.NoError(t, l.sim.Idle(t.Context())) // see crashAndRecover
	l.run(t, fanOutYAML)
	for _, name := range []string{"orders", "order_lines"} {
		for _, side := range sides {
			require.Empty(t, difference(l.captured(t, "dbo_"+name), l.bronze(t, side+"/"+name)), "%s of %s", name, side)
			l.requireTilesOf(t, "./lake/"+side+"/"+name, name, l.begin(t, name))
		}
	}
}
