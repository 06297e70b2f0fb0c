package clients

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

const setup = "run test/interop/setup.sh --clients"

// installed gives the path of something in .interop. Without it the test is skipped.
func installed(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join("../../../.interop", path))
	require.NoError(t, err)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("skipped: no .interop/%s, %s", path, setup)
	}
	return full
}

// inPath gives the path of a program of the system. Without it the test is skipped.
func inPath(t *testing.T, program string) string {
	t.Helper()
	full, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("skipped: no %s, %s", program, setup)
	}
	return full
}

// startSimulator runs a simulator that captures on demand.
func startSimulator(t *testing.T, opts ...sqlserversim.Option) *sqlserversim.Server {
	t.Helper()
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithCaptureInterval(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, sim.Close())
		if t.Failed() {
			t.Logf("statements that the simulator refused: %q", sim.Refused())
		}
	})
	return sim
}

func hostPort(t *testing.T, sim *sqlserversim.Server) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(sim.Addr())
	require.NoError(t, err)
	return host, port
}

// output runs a child and gives its standard output and the error of its end; standard error comes with the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = &childError{err: err, stderr: tail(errs.String(), 4000), stdout: tail(string(out), 2000)}
	}
	return out, err
}

// childError is the end of a child with the last that it said.
type childError struct {
	err            error
	stderr, stdout string
}

func (e *childError) Error() string { return e.err.Error() + "\n" + e.stderr + "\n" + e.stdout }

func (e *childError) Unwrap() error { return e.err }

func tail(text string, n int) string {
	return text[max(0, len(text)-n):]
}

// query gives rows as text, NULL as "NULL".
func query(t *testing.T, sim *sqlserversim.Server, sql string) [][]string {
	t.Helper()
	res, err := sim.Query(t.Context(), sql)
	require.NoError(t, err, sql)
	return res.Strings()
}

// capture has everything committed so far captured.
func capture(t *testing.T, sim *sqlserversim.Server) {
	t.Helper()
	require.NoError(t, sim.Capture(t.Context()))
}

// execute runs batches in process.
func execute(t *testing.T, sim *sqlserversim.Server, batches ...string) {
	t.Helper()
	for _, b := range batches {
		require.NoError(t, sim.Exec(t.Context(), b), b)
	}
}
