package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const manyTables = 200

// asked counts the statements that came in since they were forgotten, those that begin a
// poll apart.
func (l *lab) asked() (polls, others int) {
	for _, text := range l.sim.Statements() {
		if strings.Contains(text, "fn_cdc_get_max_lsn()") {
			polls++
		} else {
			others++
		}
	}
	return polls, others
}

// Two hundred tables go through one input: at most two statements a poll while none of
// them changes, whether or not the database commits, a handful more for each that
// does, and memory that does not depend on their number.
func TestManyTables(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	l := &lab{sim: sim, dir: t.TempDir()}
	l.exec(t, "EXEC sys.sp_cdc_enable_db")
	for i := range manyTables {
		l.exec(t, fmt.Sprintf("CREATE TABLE dbo.many_%d (id int NOT NULL PRIMARY KEY, note nvarchar(50))", i))
		l.exec(t, fmt.Sprintf("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'many_%d', @role_name = NULL", i))
		l.exec(t, fmt.Sprintf("INSERT dbo.many_%d VALUES (%d, N'one')", i, i))
	}
	l.exec(t, "CREATE TABLE dbo.elsewhere (id int NOT NULL PRIMARY KEY)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'elsewhere', @role_name = NULL")
	require.NoError(t, sim.Capture(t.Context()))
	yaml := with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.many_*", "run: available_now", "poll_interval: 50ms\n    idle_interval: 1h")
	cmd, out := l.start(t, yaml)
	rows := func() int {
		found, err := filepath.Glob(filepath.Join(l.dir, "lake", "many_*", "*.parquet"))
		require.NoError(t, err)
		return len(found)
	}
	eventually(t, "the first rows of every table", out, func() bool { return rows() >= manyTables })

	// Nothing is committed: max_lsn is asked for and nothing else.
	quiet := func() bool { // until windows are done with
		sim.ResetStatements()
		time.Sleep(300 * time.Millisecond)
		polls, others := l.asked()
		return polls > 2 && others == 0
	}
	eventually(t, "a quiet database to cost one statement a poll", out, quiet)

	// Another table's commits: which tables moved is one question more.
	sim.ResetStatements()
	for i := range 10 {
		l.exec(t, fmt.Sprintf("INSERT dbo.elsewhere VALUES (%d)", i))
		require.NoError(t, sim.Capture(t.Context()))
		time.Sleep(60 * time.Millisecond)
	}
	polls, others := l.asked()
	t.Logf("another table changes: %d polls, %d other statements", polls, others)
	require.Positive(t, others)
	require.LessOrEqual(t, others, polls+2, "at most one beside each poll, and now and then how capture is doing")

	// One of them changes: what a window costs.
	sim.ResetStatements()
	l.exec(t, "INSERT dbo.many_7 VALUES (1000, N'two')")
	require.NoError(t, sim.Capture(t.Context()))
	eventually(t, "the change", out, func() bool { return rows() > manyTables })
	time.Sleep(200 * time.Millisecond)
	polls, others = l.asked()
	t.Logf("one table changes: %d polls, %d other statements", polls, others)
	require.LessOrEqual(t, others, 8, "which tables moved, instances, DDL, the read between its guards; now and then how capture is doing")

	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "%s", out)
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024 // Linux counts in KiB
	t.Logf("peak resident memory %d MB", peak/1_000_000)
	require.Less(t, peak, int64(mostMemory), "200 tables")
	require.Empty(t, sim.Refused())
}
