// Package e2e runs the program itself, as a user would, against the simulator:
// child processes, a real socket, real tables on disk.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// program is the path of the binary, built once.
var program string

// TestMain builds the program. In a process that a test started as a child it is
// that child and nothing else.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
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
	clock  *engine.ManualClock // of the simulator, nil for the machine's
	orders *workload.Orders
	dir    string
}

// newSimulator is a simulator that captures when told to.
func newSimulator(t *testing.T, options ...sqlserversim.Option) *sqlserversim.Server {
	t.Helper()
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithCaptureInterval(0)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	return sim
}

func newLab(t *testing.T, options ...sqlserversim.Option) *lab {
	t.Helper()
	sim := newSimulator(t, options...)
	orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 3})
	require.NoError(t, err)
	return &lab{sim: sim, orders: orders, dir: t.TempDir()}
}

// newClockedLab is a lab whose server's clock stands at a time until a test moves it.
func newClockedLab(t *testing.T, at time.Time, options ...sqlserversim.Option) *lab {
	t.Helper()
	clock := engine.NewManualClock(at)
	l := newLab(t, append(options, sqlserversim.WithClock(clock))...)
	l.clock = clock
	return l
}

// elsewhere is the lab with a folder of its own.
func (l *lab) elsewhere(dir string) *lab {
	other := *l
	other.dir = dir
	return &other
}

func (l *lab) write(t *testing.T, transactions int) {
	t.Helper()
	require.NoError(t, l.orders.Run(t.Context(), transactions))
	require.NoError(t, l.sim.Capture(t.Context()))
}

// writeEvery writes transactions with the clock moving on before each.
func (l *lab) writeEvery(t *testing.T, pause time.Duration, transactions int) {
	t.Helper()
	for range transactions {
		l.clock.Advance(pause)
		require.NoError(t, l.orders.Step(t.Context()))
	}
	require.NoError(t, l.sim.Capture(t.Context()))
}

func (l *lab) exec(t *testing.T, batch string) {
	t.Helper()
	require.NoError(t, l.sim.Exec(t.Context(), batch))
}

func (l *lab) query(t *testing.T, text string) [][]string {
	t.Helper()
	answer, err := l.sim.Query(t.Context(), text)
	require.NoError(t, err)
	return answer.Strings()
}

// command is the program in the lab's folder.
func (l *lab) command(ctx context.Context, args ...string) (*exec.Cmd, *output) {
	return l.process(ctx, program, args...)
}

func (l *lab) process(ctx context.Context, name string, args ...string) (*exec.Cmd, *output) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "MSSQL_DSN="+l.sim.DSN())
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func (l *lab) config(t *testing.T, yaml string) string {
	t.Helper()
	if reader := os.Getenv("TEST_READER"); reader != "" {
		// All of the suite with the other reader: TEST_READER=driver.
		yaml = strings.ReplaceAll(yaml, "  mssql_cdc:\n", "  mssql_cdc:\n    reader: "+reader+"\n")
	}
	file, err := os.CreateTemp(l.dir, "pipeline-*.yaml")
	require.NoError(t, err)
	_, err = file.WriteString(yaml)
	require.NoError(t, errors.Join(err, file.Close()))
	return file.Name()
}

// run runs a configuration that is to end well.
func (l *lab) run(t *testing.T, yaml string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, out := l.command(ctx, "-c", l.config(t, yaml))
	require.NoError(t, cmd.Run(), "%s", out)
}

// fail runs a configuration that is to end badly, and returns what it printed.
func (l *lab) fail(t *testing.T, yaml string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, out := l.command(ctx, "-c", l.config(t, yaml))
	cmd.Env = append(cmd.Env, env...)
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "it hangs:\n%s", out)
	require.Error(t, err, "%s", out)
	return out.String()
}

// start starts a configuration that runs until it is stopped.
func (l *lab) start(t *testing.T, yaml string) (*exec.Cmd, *output) {
	t.Helper()
	cmd, out := l.command(t.Context(), "-c", l.config(t, yaml))
	require.NoError(t, cmd.Start())
	return cmd, out
}

// output collects what a process prints, and can be read while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// lastLine is the last line that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// with replaces parts of a configuration, each of which must be there.
func with(t *testing.T, yaml string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		require.Contains(t, yaml, oldNew[i], "the configuration has no such part")
		yaml = strings.Replace(yaml, oldNew[i], oldNew[i+1], 1)
	}
	return yaml
}

// eventually waits for something that a process does.
func eventually(t *testing.T, what string, out *output, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			require.Fail(t, "waited in vain", "for %s:\n%s", what, out)
		}
		time.Sleep(5 * time.Millisecond) // another process is at work
	}
}

// changeTable is the name of an instance's change table.
func changeTable(instance string) string { return "cdc." + mssqlcdc.QuoteName(instance+"_CT") }

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
