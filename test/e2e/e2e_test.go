package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

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
	config := l.config(t, with(t, boundedYAML, "run: available_now", "run: continuous"))
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
	l.run(t, boundedYAML)
	l.requireOnce(t, "orders", "order_lines")
}

// Every example is run. The bounded ones end by themselves; the others are stopped
// as a container would be.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../config/examples/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(examples), 5)
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
				l.requireOnce(t, "orders")
			}
		})
	}
}
