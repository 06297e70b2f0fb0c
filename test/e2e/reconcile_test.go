package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// reconcile runs the command on a table of the lab and gives its exit code, with what it printed.
func (l *lab) reconcile(t *testing.T, table string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	args = append([]string{
		"reconcile", "--table", "dbo." + table, "--delta", filepath.Join("lake", table), "--control", "lake/_control", "--facts", "lake/_facts", "--report", "lake/_reconcile",
	}, args...)
	cmd, _ := l.command(t.Context(), args...)
	var out, errs output
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out.String(), errs.String()
	}
	require.NoError(t, err)
	return 0, out.String(), errs.String()
}

// idle lets capture pass the present, again and again.
func (l *lab) idle(t *testing.T) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if err := errors.Join(l.sim.Capture(t.Context()), l.sim.Idle(t.Context())); err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
}

// What the pipeline wrote is what the source has, before and while more comes; a row that is too much is found, shown and reported, and status
// shows it.
func TestReconcile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 60)
	require.NoError(t, l.sim.Idle(t.Context()))
	snapshot := with(t, boundedYAML, "format: record_batch", "format: record_batch\n    stream_snapshot: true\n    snapshot_chunk_rows: 7")
	l.run(t, snapshot)
	require.NoError(t, l.sim.Idle(t.Context()))
	l.run(t, snapshot) // capture has come to a commit after the read
	l.idle(t)
	for _, table := range crashTables() {
		code, stdout, stderr := l.reconcile(t, table, "--bucket-rows", "10")
		require.Zero(t, code, "%s%s", stdout, stderr)
		require.True(t, strings.HasPrefix(stdout, "match: dbo."+table), stdout)
		require.NotContains(t, stdout, "chunks were not checked")
	}

	require.NoError(t, l.orders.Run(t.Context(), 20))
	code, stdout, stderr := l.reconcile(t, "orders", "--settle", "0", "--json")
	require.Zero(t, code, "%s%s", stdout, stderr)
	var result struct {
		Status string
		Counts map[string]int64
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &result))
	require.Equal(t, "IN_FLIGHT", result.Status)
	require.Positive(t, result.Counts["IN_FLIGHT"])

	l.run(t, with(t, boundedYAML, "format: record_batch", "format: record_batch\n    stream_snapshot: true\n    snapshot_chunk_rows: 7"))
	l.double(t, "orders", 987654321)
	code, stdout, stderr = l.reconcile(t, "orders")
	require.Equal(t, 1, code, "%s%s", stdout, stderr)
	require.Contains(t, stdout, "MISSING_SOURCE")
	require.Contains(t, stdout, `{"order_id":987654321}`)
	require.NotContains(t, stderr, "987654321", "no key but in the answer")
	code, stdout, _ = l.reconcile(t, "orders", "--hide-keys")
	require.Equal(t, 1, code)
	require.NotContains(t, stdout, "987654321")
	code, stdout, stderr = l.reconcile(t, "nobody")
	require.Equal(t, 2, code, "%s", stdout)
	require.Contains(t, stderr, "holds no Delta table")

	cmd, out := l.command(t.Context(), "status", "--control", "lake/_control", "--facts", "lake/_facts", "--report", "lake/_reconcile", "--json")
	require.NoError(t, cmd.Run(), "%s", out)
	seen := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var status struct {
			Table     string
			Facts     *struct{ EndLSN string }
			Reconcile *struct{ Status string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &status), line)
		require.NotNil(t, status.Facts, line)
		require.NotNil(t, status.Reconcile, line)
		seen[status.Table] = status.Reconcile.Status
	}
	require.Equal(t, map[string]string{"dbo.orders": "MISMATCH", "dbo.order_lines": "MATCH"}, seen)
	cmd, out = l.command(t.Context(), "status", "--control", "lake/_control", "--table", "dbo.orders")
	require.NoError(t, cmd.Run(), "%s", out)
	require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 2, "%s", out)
	cmd, out = l.command(t.Context(), "status", "--control", "lake/_control", "--table", "dbo.nobody")
	require.Error(t, cmd.Run())
	require.Contains(t, out.String(), "dbo.order_lines", "what there is")
}

// double writes a row of a bronze table once more, under a key that the source does not have.
func (l *lab) double(t *testing.T, table string, key int64) {
	t.Helper()
	opened := l.table(t, "lake", table)
	var row map[string]any
	for _, r := range l.rows(t, table) {
		if r[mssqlcdc.ColOperation] != int64(mssqlcdc.Delete) {
			row = r
		}
	}
	row["order_id"] = key
	as := opened.Snapshot().Schema().Arrow()
	builder, err := mssqlcdc.NewRowBuilder(as, array.NewRecordBuilder(memory.DefaultAllocator, as))
	require.NoError(t, err)
	for i, field := range as.Fields() {
		require.NoError(t, builder.Set(i, row[field.Name]))
	}
	w, err := opened.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(builder.NewRecord()))
	adds, err := w.Close()
	require.NoError(t, err)
	_, err = opened.Commit(t.Context(), delta.Change{Operation: delta.OpWrite, Add: adds, BlindAppend: true})
	require.NoError(t, err)
	require.NoError(t, opened.Close(t.Context()))
}

// A table is compared in memory that does not grow with it: its digests go through a file.
func TestReconcileInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads a table of 100,000 rows")
	}
	t.Parallel()
	sim := newSimulator(t)
	rows, err := workload.Full(t.Context(), sim, 100_000)
	require.NoError(t, err)
	require.NoError(t, sim.Capture(t.Context()))
	require.NoError(t, sim.Idle(t.Context()))
	l := &lab{sim: sim, dir: t.TempDir()}
	l.run(t, strings.NewReplacer("dbo.orders, dbo.order_lines", "dbo.full_narrow", "    max_commits_per_window: 5\n    max_rows_per_part: 7\n", "    stream_snapshot: true\n").Replace(boundedYAML))
	cmd, out := l.command(t.Context(), "reconcile", "--table", "dbo.full_narrow", "--delta", "lake/full_narrow", "--memory-mb", "1", "--bucket-rows", "20000", "--json")
	var answer output
	cmd.Stdout = &answer
	require.NoError(t, cmd.Run(), "%s", out)
	var result struct {
		Status     string
		SourceRows int64   `json:"source_rows"`
		SpilledMB  float64 `json:"spilled_mb"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer.String()), &result))
	require.Equal(t, "MATCH", result.Status)
	require.Equal(t, rows, result.SourceRows)
	require.Positive(t, result.SpilledMB)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("%d rows: peak resident memory %d MB, %s of CPU time, %.1f MB spilled", rows, usage.Maxrss*1024/1_000_000, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), result.SpilledMB)
	require.Less(t, usage.Maxrss*1024, int64(mostMemory))
}
