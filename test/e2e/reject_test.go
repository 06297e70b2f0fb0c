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

// A window in the middle is rejected, with others already on their way behind it: they
// keep their order, and nothing is lost or doubled. The message is rejected before the
// output, by an output before delta_lake, or after the data was committed.
func TestRejectedInTheMiddle(t *testing.T) {
	t.Parallel()
	const lake = "\n  delta_lake:"
	for name, change := range map[string]func(n int) []string{
		"by a processor": func(n int) []string {
			return []string{"\noutput:", fmt.Sprintf("\npipeline:\n  processors:\n    - mapping: 'meta seen = if count(\"seen\") == %d { throw(\"not now\") }'\noutput:", n)}
		},
		"by another output": func(n int) []string {
			return []string{lake, fmt.Sprintf("\n  switch:\n    cases:\n      - check: 'count(\"seen\") == %d'\n        output: { reject: not now }\n      - output:%s", n, lake)}
		},
		"after the commit": func(n int) []string {
			return []string{"- finalize:", fmt.Sprintf("- mapping: 'meta seen = if count(\"seen\") == %d { throw(\"not now\") }'\n      - finalize:", n)}
		},
	} {
		for _, n := range []int{1, 3, 6} {
			t.Run(fmt.Sprintf("%s, message %d", name, n), func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.write(t, 40)
				parts := change(n)
				yaml := with(t, boundedYAML, parts...)
				if strings.Contains(parts[1], "switch") {
					yaml = indented(yaml)
				}
				ctx := t.Context()
				cmd, out := l.command(ctx, "-c", l.config(t, yaml))
				require.NoError(t, cmd.Run(), "%s", out)
				require.Contains(t, out.String(), "not now", "nothing was rejected: the test tests nothing")
				l.requireOnce(t, "orders", "order_lines")
				for _, name := range []string{"orders", "order_lines"} {
					l.requireTiles(t, name, l.begin(t, name))
				}
			})
		}
	}
}

// indented moves the fields of delta_lake to where a switch has it.
func indented(yaml string) string {
	head, rest, _ := strings.Cut(yaml, "\n  delta_lake:\n")
	fields, tail, _ := strings.Cut(rest, "cache_resources:")
	return head + "\n          delta_lake:\n        " + strings.ReplaceAll(strings.TrimRight(fields, "\n"), "\n", "\n        ") + "\ncache_resources:" + tail
}

// begin is the position from which a table is read that has no resume position.
func (l *lab) begin(t *testing.T, name string) string {
	t.Helper()
	return l.query(t, "SELECT sys.fn_cdc_decrement_lsn(sys.fn_cdc_get_min_lsn('dbo_"+name+"'))")[0][0]
}

// The log of a table cannot be written for a while. The output tries again until it
// can, in order.
func TestLogOutOfReach(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 30)
	cmd, out := l.start(t, continuousYAML(t))
	eventually(t, "commits", out, func() bool { return l.commits(t, "orders") >= 3 })
	log := filepath.Join(l.dir, "lake", "orders", "_delta_log")
	// The process must not meet the moment between, in which it would make a new folder.
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, os.Rename(log, log+".away"))
	require.NoError(t, os.WriteFile(log, []byte("no folder"), 0o600))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	l.write(t, 60)
	eventually(t, "another attempt", out, func() bool { return strings.Contains(out.String(), "tried again") })
	time.Sleep(300 * time.Millisecond) // more attempts, more windows behind
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, os.Remove(log))
	require.NoError(t, os.Rename(log+".away", log))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	eventually(t, "every row", out, func() bool { return len(l.bronze(t, "orders")) == len(l.captured(t, "dbo_orders")) })
	stop(t, cmd, out)
	l.run(t, boundedYAML)
	l.requireOnce(t, "orders", "order_lines")
	for _, name := range []string{"orders", "order_lines"} {
		l.requireTiles(t, name, l.begin(t, name))
	}
}
