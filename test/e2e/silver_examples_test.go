package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// The demo's silver tables are what the source is.
func TestDemoSilver(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), program, "demo", "--silver", "--rows", "600", "--json", "--dir", filepath.Join(t.TempDir(), "d")).Output()
	require.NoError(t, err, "%s", out)
	var result struct {
		Silver map[string]struct {
			SourceRows int64 `json:"source_rows"`
			SilverRows int64 `json:"silver_rows"`
			Reconcile  string
		}
	}
	require.NoError(t, json.Unmarshal(out, &result))
	require.Len(t, result.Silver, 3)
	for table, r := range result.Silver {
		require.Equal(t, "MATCH", r.Reconcile, table)
		require.Positive(t, r.SourceRows, table)
		require.Equal(t, r.SourceRows, r.SilverRows, table)
	}

	text, err := exec.CommandContext(t.Context(), program, "demo", "--silver", "--rows", "600", "--dir", filepath.Join(t.TempDir(), "d")).Output()
	require.NoError(t, err, "%s", text)
	_, shown, found := strings.Cut(string(text), "one row per key")
	require.True(t, found, "%s", text)
	for _, part := range []string{"insert", "update_after", "delete", "no row", "dbo.order_lines"} {
		require.Contains(t, shown, part)
	}
}

// derivedTable is a table that an example builds from bronze.
type derivedTable struct {
	example, path, row string
}

// reconcile compares it with dbo.orders.
func (d derivedTable) reconcile(t *testing.T, l *lab, args ...string) (code int, stdout string) {
	t.Helper()
	code, stdout, stderr := l.exitCode(t, append([]string{
		"reconcile", "--table", "dbo.orders", "--delta", d.path, "--control", "lake/_control", "--target", d.row, "--report", "lake/_reconcile",
	}, args...)...)
	return code, stdout + stderr
}

// exitCode runs the program to its end, whatever that is.
func (l *lab) exitCode(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
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

// runExample runs an example until bronze has the newest change and no snapshot is open, and stops it as a container would be.
func (l *lab) runExample(t *testing.T, example string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../config/examples", example))
	require.NoError(t, err)
	cmd, out := l.command(t.Context(), "-c", path, "-s", "http.enabled=false")
	require.NoError(t, cmd.Start())
	newest := l.query(t, "SELECT MAX(__$start_lsn) FROM "+changeTable("dbo_orders"))[0][0]
	eventually(t, "bronze to have everything", out, func() bool {
		l.clock.Advance(time.Second) // a snapshot is over when capture has passed the time of its last rows
		require.NoError(t, l.sim.Capture(t.Context()))
		require.NoError(t, l.sim.Idle(t.Context()))
		if _, err := os.Stat(filepath.Join(l.dir, "lake", "_control")); err != nil {
			return false
		}
		v := l.verdicts(t)["dbo.orders"]
		return v.EndLSN.String() >= newest && v.HeldBy == ""
	})
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "%s", out)
}

// The examples build what the source is, over a restart, and all commands answer for their tables. A row that is lost
// afterwards is found and named.
func TestSilverExamples(t *testing.T) {
	t.Parallel()
	for _, d := range []derivedTable{
		{"silver.yaml", "lake/silver/orders", "silver.dbo.orders"},
		{"history.yaml", "lake/history/orders", "history.dbo.orders"},
	} {
		t.Run(d.example, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			for _, transactions := range []int{60, 40} {
				l.writeEvery(t, 25*time.Second, transactions)
				require.NoError(t, l.sim.Idle(t.Context()))
				l.runExample(t, d.example)
				code, told := d.reconcile(t, l)
				require.Zero(t, code, told)
				require.True(t, strings.HasPrefix(told, "match: dbo.orders against "+d.row), told)
			}
			l.idle(t)
			l.tick(t)

			// More in the source than in the table is not wrong, and not as it is either.
			l.writeEvery(t, 25*time.Second, 5)
			code, told := d.reconcile(t, l, "--settle", "0")
			require.Zero(t, code, told)
			require.Contains(t, told, "IN_FLIGHT")

			key := l.lose(t, d)
			code, told = d.reconcile(t, l, "--settle", "0")
			require.Equal(t, 1, code, told)
			require.Contains(t, told, "MISSING_TARGET")
			require.Contains(t, told, fmt.Sprintf(`{"order_id":%d}`, key))
			l.requireAnswers(t, d)
		})
	}
}

// tick moves the clock, which capture has to pass before anything is called wrong.
func (l *lab) tick(t *testing.T) {
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
				l.clock.Advance(time.Second)
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
}

// requireAnswers asks status and is-final for a table that reconcile found wrong.
func (l *lab) requireAnswers(t *testing.T, d derivedTable) {
	t.Helper()
	verdicts := l.verdicts(t)
	until := verdicts[d.row].FinalizedUntil
	require.False(t, until.IsZero())
	require.Equal(t, verdicts["dbo.orders"].FinalizedUntil, until)

	code, stdout, stderr := l.exitCode(t, "status", "--control", "lake/_control", "--facts", "lake/_facts", "--report", "lake/_reconcile", "--table", d.row, "--json")
	require.Zero(t, code, stderr)
	var status struct {
		Table          string
		FinalizedUntil time.Time `json:"finalized_until"`
		Reconcile      struct {
			Status   string
			Failures int64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &status), stdout)
	require.Equal(t, d.row, status.Table)
	require.Equal(t, until, status.FinalizedUntil)
	require.Equal(t, "MISMATCH", status.Reconcile.Status)
	require.EqualValues(t, 1, status.Reconcile.Failures)

	for at, want := range map[time.Time]int{until: 0, until.Add(time.Hour): 1} {
		code, _, stderr := l.exitCode(t, "is-final", "--control", "lake/_control", "--table", d.row, "--until", at.Format(time.RFC3339))
		require.Equal(t, want, code, stderr)
	}
}

// lose deletes an order that nobody changed lately from a table, with the Delta library, and gives its key.
func (l *lab) lose(t *testing.T, d derivedTable) (key int64) {
	t.Helper()
	inSource := map[string]bool{}
	for _, row := range l.query(t, "SELECT order_id FROM dbo.orders") {
		inSource[row[0]] = true
	}
	position := l.verdicts(t)[d.row].AppliedLSN.String()
	for _, row := range l.query(t, "SELECT order_id FROM "+changeTable("dbo_orders")+" WHERE __$start_lsn > "+position) {
		delete(inSource, row[0])
	}
	for _, row := range l.rows(t, strings.TrimPrefix(d.path, "lake/"), "order_id") {
		if id := row["order_id"].(int64); inSource[fmt.Sprint(id)] {
			key = max(key, id)
		}
	}
	require.Positive(t, key)
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.Append(key)
	keys := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "order_id", Type: arrow.PrimitiveTypes.Int64}}, nil), []arrow.Array{b.NewArray()}, 1)
	table := l.table(t, d.path)
	mode, _ := table.Snapshot().Property(silver.PropMode)
	require.NotEmpty(t, mode)
	done, err := merge.Run(t.Context(), table, merge.Source{Deletes: []arrow.RecordBatch{keys}}, merge.Options{Keys: []string{"order_id"}})
	require.NoError(t, err)
	require.Positive(t, done.Metrics.RowsDeleted)
	require.NoError(t, table.Close(t.Context()))
	return key
}
