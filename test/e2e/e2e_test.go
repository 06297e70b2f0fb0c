// Package e2e runs the program itself, as a user would, against the simulator:
// child processes, a real socket, real tables on disk.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// program is the path of the binary, built once.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "rpconnect-mssqlcdc")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/rpconnect-mssqlcdc").CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("building the program: %v\n%s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// lab is a simulator with the orders workload and a folder to run in.
type lab struct {
	sim    *sqlserversim.Server
	orders *workload.Orders
	dir    string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	sim, err := sqlserversim.Start(sqlserversim.WithCaptureInterval(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 3})
	require.NoError(t, err)
	return &lab{sim: sim, orders: orders, dir: t.TempDir()}
}

func (l *lab) write(t *testing.T, transactions int) {
	t.Helper()
	require.NoError(t, l.orders.Run(t.Context(), transactions))
	require.NoError(t, l.sim.Capture(t.Context()))
}

func (l *lab) command(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "MSSQL_DSN="+l.sim.DSN())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

func (l *lab) config(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(l.dir, "pipeline.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	return path
}

// captured lists the identities of a change table, read in process.
func (l *lab) captured(t *testing.T, instance string) map[string]int {
	t.Helper()
	answer, err := l.sim.Query(t.Context(), "SELECT CONVERT(varchar(22), __$start_lsn, 1), CONVERT(varchar(22), __$seqval, 1), __$operation FROM cdc."+mssqlcdc.QuoteName(instance+"_CT"))
	require.NoError(t, err)
	ids := map[string]int{}
	for _, row := range answer.Strings() {
		ids[strings.Join(row, "/")]++
	}
	return ids
}

// bronze lists the identities of a table.
func bronze(t *testing.T, dir string) map[string]int {
	t.Helper()
	st, err := file.New(dir)
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	ids := map[string]int{}
	columns := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: columns}) {
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			ids[fmt.Sprintf("%s/%s/%d", rec.Column(0).(*array.String).Value(i), rec.Column(1).(*array.String).Value(i), rec.Column(2).(*array.Int32).Value(i))]++
		}
	}
	return ids
}

const boundedYAML = `
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
  delta_lake:
    path: ./lake/${! @table }
    app_id: e2e-${! @table }
    facts_path: ./lake/_facts
    after_commit:
      - finalize: { control_path: ./lake/_control, granularity: minute }
cache_resources:
  - label: position
    atomic_file: { directory: ./position }
http: { enabled: false }
`

// The demo is the quick start: it must find nothing missing or doubled.
func TestDemo(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), program, "demo", "--rows", "1000", "--json", "--dir", filepath.Join(t.TempDir(), "d")).Output()
	require.NoError(t, err, "%s", out)
	var result map[string]any
	require.NoError(t, json.Unmarshal(out, &result))
	require.Zero(t, result["missing"])
	require.Zero(t, result["duplicates"])
	require.Equal(t, result["rows_captured"], result["bronze_rows"])
	require.Greater(t, result["rows_captured"], 900.0)
	require.NotEmpty(t, result["finalized_until"])
}

// The program is killed at random moments, again and again, and then left alone:
// every row of the source is in the table once.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLab(t)
	// A continuous run does not end by itself, however fast the machine is.
	config := l.config(t, strings.Replace(boundedYAML, "run: available_now", "run: continuous", 1))
	for range 8 {
		l.write(t, 40)
		cmd, out := l.command(t.Context(), "-c", config)
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(100+rng.IntN(900)) * time.Millisecond) // until the kill
		require.NoError(t, cmd.Process.Kill())
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit, "%s", out)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)
	}
	cmd, out := l.command(t.Context(), "-c", l.config(t, boundedYAML))
	require.NoError(t, cmd.Run(), "%s", out)
	for _, table := range []string{"orders", "order_lines"} {
		require.Equal(t, l.captured(t, "dbo_"+table), bronze(t, filepath.Join(l.dir, "lake", table)))
	}
}

// Every example is run. The bounded ones end by themselves; the others are stopped
// as a container would be.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../config/examples/*.yaml")
	require.NoError(t, err)
	require.Len(t, examples, 5)
	for _, example := range examples {
		t.Run(filepath.Base(example), func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(example)
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			l := newLab(t)
			if _, err := workload.WriteTypes(t.Context(), l.sim); err != nil {
				t.Fatal(err)
			}
			l.write(t, 30)
			lint, out := l.command(t.Context(), "lint", path)
			require.NoError(t, lint.Run(), "%s", out)
			cmd, out := l.command(t.Context(), "-c", path, "-s", "http.enabled=false")
			require.NoError(t, cmd.Start())
			if !strings.Contains(string(text), "available_now") {
				time.Sleep(4 * time.Second) // a while of continuous running
				require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			}
			require.NoError(t, cmd.Wait(), "%s", out)
			if strings.HasPrefix(filepath.Base(example), "orders") {
				require.Equal(t, l.captured(t, "dbo_orders"), bronze(t, filepath.Join(l.dir, "lake", "orders")))
			}
		})
	}
}

// Wrong input: exit code not 0, and a last line that names the cause and the way
// out, without the password.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ change, to, want string }{
		"unknown table":    {"dbo.orders, dbo.order_lines", "dbo.nobody", "nobody"},
		"no table matches": {"dbo.orders, dbo.order_lines", "sales.*", "no table matches"},
		"wrong password":   {"${MSSQL_DSN}", "WRONG", "Login failed"},
		"unknown database": {"${MSSQL_DSN}", "NODB", "nowhere"},
		"unknown option":   {"format: record_batch", "format: columns", "columns"},
		"no cache":         {"checkpoint_cache: position", "checkpoint_cache: elsewhere", "elsewhere"},
		"rows into delta":  {"format: record_batch", "format: rows", "at_least_once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 5)
			to := tc.to
			if to == "WRONG" {
				to = strings.Replace(l.sim.DSN(), "sa:", "sa:x", 1)
			}
			if to == "NODB" {
				to = l.sim.DSNFor("sa", "nowhere")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd, out := l.command(ctx, "-c", l.config(t, strings.Replace(boundedYAML, tc.change, to, 1)))
			require.Error(t, cmd.Run(), "%s", out)
			require.NoError(t, ctx.Err(), "%s", out)
			require.Contains(t, out.String(), tc.want)
			require.NotContains(t, out.String(), sqlserversim.DefaultPassword)
		})
	}
}
