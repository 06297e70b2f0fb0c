package e2e

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
)

// continuousYAML is boundedYAML without an end.
func continuousYAML(t *testing.T) string {
	t.Helper()
	return with(t, boundedYAML, "run: available_now", "run: continuous", "checkpoint_cache:", "poll_interval: 50ms\n    checkpoint_cache:")
}

// stop asks a process to stop, and it must do so well.
func stop(t *testing.T, cmd *exec.Cmd, out *output) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "%s", out)
}

// commits counts the files of a table's log.
func (l *lab) commits(t *testing.T, name string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "lake", name, "_delta_log", "*.json"))
	require.NoError(t, err)
	return len(files)
}

// requireAcknowledged checks that the resume position of each table stands where the
// table does.
func (l *lab) requireAcknowledged(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		table := l.table(t, "lake", name)
		if table == nil {
			require.True(t, l.position(t, name).DataLSN.IsZero(), "there is no table %s", name)
			continue
		}
		at, _, err := bronze.Position(table.Snapshot(), "e2e-"+name)
		require.NoError(t, err)
		require.Equal(t, at, l.position(t, name).DataLSN, "the resume position of %s and the position of the table", name)
	}
}

// requireNoOrphans checks that no data file lies in a table's folder without a commit
// that names it.
func (l *lab) requireNoOrphans(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(l.dir, "lake", name, "*"))
		require.NoError(t, err)
		table := l.table(t, "lake", name)
		if table == nil {
			require.Empty(t, files)
			continue
		}
		require.Len(t, files, int(table.Snapshot().NumFiles())+1, "the files of the newest version and the log: %v", files)
	}
}

// requireNothingTwice checks in the facts that no window came that the table had.
func (l *lab) requireNothingTwice(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, others := l.facts(t, "./lake/"+name)
		for _, f := range others {
			require.Empty(t, f.Event, "a window of %s was read twice: %+v", name, f)
		}
	}
}

// A stream that is asked to stop at any moment ends well: what it has committed is
// acknowledged, what it has staged is gone, and the next run reads nothing twice.
func TestStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	l := newLab(t)
	config := with(t, continuousYAML(t), "max_commits_per_window: 5", "max_commits_per_window: 3", "max_rows_per_part: 7", "max_rows_per_part: 1")
	names := []string{"orders", "order_lines"}
	for range 6 {
		l.write(t, 40)
		before := l.commits(t, "orders")
		target := before + 1 + rng.IntN(4)
		cmd, out := l.start(t, config)
		eventually(t, "commits", out, func() bool { return l.commits(t, "orders") >= target })
		stop(t, cmd, out)
		l.requireAcknowledged(t, names...)
		l.requireNoOrphans(t, names...)
	}
	l.run(t, boundedYAML)
	l.requireOnce(t, names...)
	l.requireNothingTwice(t, names...)
}

// slowYAML stays for a while in each write, after the data and before the verdict.
func slowYAML(t *testing.T, pause string) string {
	t.Helper()
	return with(t, continuousYAML(t), "      - finalize:", "      - sleep: { duration: "+pause+" }\n      - finalize:")
}

// The first signal lets the write in progress come to its end.
func TestStopDuringAWrite(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 40)
	cmd, out := l.start(t, slowYAML(t, "700ms"))
	eventually(t, "the first commit", out, func() bool { return l.commits(t, "orders")+l.commits(t, "order_lines") > 1 })
	stop(t, cmd, out)
	l.requireAcknowledged(t, "orders", "order_lines")
	l.run(t, boundedYAML)
	l.requireOnce(t, "orders", "order_lines")
	l.requireNothingTwice(t, "orders", "order_lines")
}

// A second signal during a write ends the process at once, with an exit code that
// says so; the next run loses and doubles nothing.
func TestSecondSignalDuringAWrite(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 40)
			cmd, out := l.start(t, slowYAML(t, "10m"))
			eventually(t, "the first commit", out, func() bool { return l.commits(t, "orders")+l.commits(t, "order_lines") > 1 })
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			select {
			case err := <-ended:
				require.Fail(t, "one signal ended it in the middle of a write", "%v\n%s", err, out)
			case <-time.After(500 * time.Millisecond):
			}
			require.NoError(t, cmd.Process.Signal(signal))
			select {
			case err := <-ended:
				var exit *exec.ExitError
				require.True(t, errors.As(err, &exit), "exit code 0 is a lie:\n%s", out)
				require.Equal(t, 130, exit.ExitCode(), "%s", out)
				require.Contains(t, lastLine(out.String()), "second signal")
			case <-time.After(10 * time.Second):
				require.NoError(t, cmd.Process.Kill())
				require.Fail(t, "the second signal did not end it", "%s", out)
			}
			l.run(t, boundedYAML)
			l.requireOnce(t, "orders", "order_lines")
		})
	}
}
