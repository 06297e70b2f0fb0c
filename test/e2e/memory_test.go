package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

const (
	hugeRows = 2_000_000

	// mostMemory is what a run may take in bytes, whatever comes: the goal is 150 MB, and
	// the machine's page size, its number of processors and the collector's moment play
	// a part.
	mostMemory = 300_000_000
)

// runSimulator serves one transaction of hugeRows rows until its standard input closes,
// and prints how to connect.
func runSimulator() error {
	sim, err := sqlserversim.Start(sqlserversim.WithCaptureInterval(0))
	if err != nil {
		return err
	}
	truth, err := workload.Backlog(context.Background(), sim, workload.Narrow, hugeRows, hugeRows)
	if err != nil {
		return err
	}
	if truth.Transactions != 1 {
		return fmt.Errorf("%d transactions, want one", truth.Transactions)
	}
	fmt.Println(sim.DSN())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return sim.Close()
}

// A transaction of two million rows goes through in bounded memory, and is one commit.
func TestHugeTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute and a gigabyte for the simulator")
	}
	t.Parallel()
	// The simulator has a process of its own, so that its memory is its own.
	self, err := os.Executable()
	require.NoError(t, err)
	sim := exec.CommandContext(t.Context(), self)
	sim.Env = append(os.Environ(), childRole+"="+roleSimulator)
	sim.Stderr = os.Stderr
	stdin, err := sim.StdinPipe()
	require.NoError(t, err)
	stdout, err := sim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, sim.Start())
	line := make([]byte, 1<<10)
	n, err := stdout.Read(line)
	require.NoError(t, err)

	l := &lab{dir: t.TempDir()}
	config := l.config(t, strings.NewReplacer("dbo.orders, dbo.order_lines", "dbo.backlog_narrow", "    max_commits_per_window: 5\n    max_rows_per_part: 7\n", "").Replace(boundedYAML))
	cmd := exec.CommandContext(t.Context(), program, "-c", config)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "MSSQL_DSN="+strings.TrimSpace(string(line[:n])))
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Run(), "%s", out)
	require.NoError(t, stdin.Close())
	require.NoError(t, sim.Wait())

	table := l.table(t, "lake", "backlog_narrow")
	require.NotNil(t, table)
	withData := 0
	for commit, err := range table.Commits(t.Context(), 0) {
		require.NoError(t, err)
		if commit.Adds > 0 {
			withData++
		}
	}
	require.Equal(t, 1, withData, "commits with data")
	rows, err := table.Snapshot().NumRecords(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(hugeRows), rows)
	requireIDs(t, table)
	files, err := filepath.Glob(filepath.Join(l.dir, "lake", "backlog_narrow", "*.parquet"))
	require.NoError(t, err)
	require.Len(t, files, int(table.Snapshot().NumFiles()), "no file is left over")

	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024 // Linux counts in KiB
	t.Logf("peak resident memory %d MB", peak/1_000_000)
	require.Less(t, peak, int64(mostMemory))
}

// requireIDs checks that the rows are 1 to hugeRows, each once.
func requireIDs(t *testing.T, table *delta.Table) {
	t.Helper()
	seen := make([]bool, hugeRows+1)
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: []string{"id"}}) {
		require.NoError(t, err)
		for _, id := range int64s(rec) {
			require.False(t, seen[id], "row %d comes twice", id)
			seen[id] = true
		}
	}
	for id := 1; id <= hugeRows; id++ {
		if !seen[id] {
			require.Fail(t, "a row is missing", "%d", id)
		}
	}
}

func int64s(rec arrow.RecordBatch) []int64 { return rec.Column(0).(*array.Int64).Int64Values() }
