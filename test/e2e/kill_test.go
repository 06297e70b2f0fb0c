package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// crashYAML is small windows in several parts; facts are written meanwhile, too.
const crashYAML = `
input:
  mssql_cdc:
    connection_string: "${MSSQL_DSN}"
    tables: [ dbo.orders, dbo.order_lines ]
    run: available_now
    format: record_batch
    max_commits_per_window: 5
    max_rows_per_part: 6
    checkpoint_cache: position
pipeline: { threads: 1 }
output:
  delta_lake:
    path: ./lake/${! @table }
    app_id: crash-${! @table }
    facts_path: ./lake/_facts
    facts_interval: 20ms
    after_commit:
      - finalize: { control_path: ./lake/_control, granularity: minute }
cache_resources:
  - label: position
    atomic_file: { directory: ./position }
http: { enabled: false }
metrics: { none: {} }
logger: { level: WARN }
`

// tables of the crash tests.
func crashTables() []string { return []string{"orders", "order_lines"} }

// crashLab has resume positions from before the first commit, so that all of it can
// become final, and then commits of two tables, 25 s apart, so that the verdict moves
// with nearly every window.
func crashLab(t *testing.T) *lab {
	t.Helper()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), sqlserversim.WithoutTLS())
	require.NoError(t, l.sim.Idle(t.Context()))
	where, err := l.crash(t.Context(), l.config(t, crashYAML))
	require.NoError(t, err)
	require.Empty(t, where)
	l.writeEvery(t, 25*time.Second, 16)
	return l
}

// begun is the lab in a new folder, with the resume positions of the old one.
func (l *lab) begun(t *testing.T) *lab {
	t.Helper()
	other := l.elsewhere(t.TempDir())
	require.NoError(t, os.CopyFS(filepath.Join(other.dir, "position"), os.DirFS(filepath.Join(l.dir, "position"))))
	return other
}

// crash runs the configuration as a child with a point to die at. It tells where the
// child died, or "" if it came to its end.
func (l *lab) crash(ctx context.Context, config string, env ...string) (where string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd, out := l.process(ctx, self, config)
	cmd.Env = append(append(cmd.Env, childRole+"="+rolePipeline), env...)
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && ctx.Err() == nil {
		return strings.TrimPrefix(lastLine(out.String()), "killed "), nil
	}
	if err != nil {
		return "", fmt.Errorf("%w:\n%s", err, out)
	}
	return "", nil
}

// requireSound checks what must hold at any moment: no resume position and no verdict
// is ahead of the data, and no row is there twice.
func (l *lab) requireSound(t *testing.T) {
	t.Helper()
	for _, name := range crashTables() {
		for id, n := range l.bronze(t, name) {
			require.Equal(t, 1, n, "row %s of %s", id, name)
		}
		l.requireVerdictHolds(t, name)
		state := l.position(t, name)
		if state.DataLSN.IsZero() {
			continue
		}
		table := l.table(t, "lake", name)
		require.NotNil(t, table, "the resume position of %s is %s and there is no table", name, state.DataLSN)
		at, ok, err := bronze.Position(table.Snapshot(), "crash-"+name)
		require.NoError(t, err)
		require.True(t, ok && !at.Less(state.DataLSN), "the resume position of %s is %s, the table is at %s", name, state.DataLSN, at)
	}
}

// position is the resume position of a table; it must be there.
func (l *lab) position(t *testing.T, name string) checkpoint.State {
	t.Helper()
	cache, err := checkpoint.NewAtomicFile(filepath.Join(l.dir, "position"))
	require.NoError(t, err)
	positions := checkpoint.NewStore(func(_ context.Context, fn func(checkpoint.Cache)) error {
		fn(cache)
		return nil
	}, "mssql_cdc")
	state, stored, err := positions.Load(t.Context(), mssqlcdc.TableID{Schema: "dbo", Name: name})
	require.NoError(t, err)
	require.True(t, stored)
	return state
}

// requireComplete checks what must hold after a run that came to its end.
func (l *lab) requireComplete(t *testing.T, starts map[string]string) {
	t.Helper()
	l.requireOnce(t, crashTables()...)
	until := l.newestTime(t).Truncate(time.Minute)
	verdicts := l.verdicts(t)
	for _, name := range crashTables() {
		l.requireTiles(t, name, starts[name])
		require.Equal(t, until, verdicts["dbo."+name].FinalizedUntil, "verdict of %s", name)
		l.requireVerdictHolds(t, name)
	}
}

// The process dies at each point before and after everything that it changes: data
// files, commits, Delta checkpoints and deletions of bronze and facts, the verdict,
// the resume positions. The next run completes everything, once.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	l := crashLab(t)
	stride := int64(1)
	if testing.Short() {
		stride = 9
	}
	seed := time.Now().UnixNano()
	first := rand.New(rand.NewPCG(uint64(seed), 0)).Int64N(stride)
	t.Logf("every %d. point from %d on (seed %d)", stride, first+1, seed)
	var next, completed atomic.Int64
	next.Store(first + 1 - stride)
	yaml := with(t, crashYAML, "facts_interval: 20ms", "facts_interval: 20ms\n    table_properties: { delta.checkpointInterval: \"2\" }")
	names := pointNames{}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for completed.Load() == 0 && !t.Failed() {
				n := next.Add(stride)
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					where := l.begun(t).crashAndRecover(t, yaml, fmt.Sprintf("%s=%d", killAt, n))
					if where == "" {
						completed.Store(n)
					}
					names.add(where)
				})
			}
		})
	}
	workers.Wait()
	require.Greater(t, completed.Load(), int64(60), "the points are in place")
	for _, kind := range []string{
		"before put-if-absent", "after put-if-absent", "before completing", "after completing", "before put of _delta_log/_last_checkpoint",
		"after put of _delta_log/_last_checkpoint", "before storing", "after storing", "in _control",
	} {
		require.True(t, testing.Short() || names.has(kind), "no process was killed %s", kind)
	}
	t.Logf("%d points", completed.Load()-1)
}

// crashAndRecover runs with a point to die at, checks, runs to the end, and checks.
func (l *lab) crashAndRecover(t *testing.T, yaml, env string) (where string) {
	config, starts := l.config(t, yaml), map[string]string{}
	for _, name := range crashTables() {
		starts[name] = l.position(t, name).LSN.String()
	}
	where, err := l.crash(t.Context(), config, env)
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			t.Logf("the process was killed %s", where)
		}
	}()
	l.requireSound(t)
	if where != "" {
		// The facts of a table are made again with its next window; one that was acknowledged
		// up to the end has none without this.
		require.NoError(t, l.sim.Idle(t.Context()))
		again, err := l.crash(t.Context(), config)
		require.NoError(t, err)
		require.Empty(t, again)
	}
	l.requireComplete(t, starts)
	return where
}

// pointNames collects where processes were killed.
type pointNames struct {
	mu   sync.Mutex
	seen []string
}

func (p *pointNames) add(where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, where)
}

func (p *pointNames) has(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, where := range p.seen {
		if strings.Contains(where, what) {
			return true
		}
	}
	return false
}

// The process dies after so and so many points again and again, until a run gets to its
// end: recovery from a recovery that was cut off.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	l := crashLab(t)
	for _, points := range []int{9, 14, 23} {
		t.Run(fmt.Sprint(points), func(t *testing.T) {
			t.Parallel()
			l := l.begun(t)
			config, starts := l.config(t, crashYAML), map[string]string{}
			for _, name := range crashTables() {
				starts[name] = l.position(t, name).LSN.String()
			}
			begin := time.Now()
			for runs := 1; ; runs++ {
				where, err := l.crash(t.Context(), config, fmt.Sprintf("%s=%d", killAt, points))
				require.NoError(t, err)
				l.requireSound(t)
				if where == "" {
					t.Logf("%d runs", runs)
					break
				}
				require.Less(t, time.Since(begin), time.Minute, "no progress after %d runs; killed last %s", runs, where)
			}
			require.NoError(t, l.sim.Idle(t.Context()))
			where, err := l.crash(t.Context(), config)
			require.NoError(t, err)
			require.Empty(t, where)
			l.requireComplete(t, starts)
		})
	}
}
