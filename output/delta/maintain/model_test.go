package maintain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// version is one version of the model.
type version struct {
	rows []string // sorted
	at   time.Time
}

// model is what a table must hold, told without a log.
type model struct {
	lake
	history []version
	next    int

	logRetention, fileRetention time.Duration
}

func newModel(t tester, logDays, fileDays int, checkpoints int) *model {
	m := &model{
		lake:         lake{clock: newClock()},
		logRetention: time.Duration(logDays) * day, fileRetention: time.Duration(fileDays) * day,
	}
	m.st = newTimed(m.clock)
	var err error
	m.table, err = delta.Create(t.Context(), m.st, delta.Spec{
		Schema: columns("a", "p string"), PartitionBy: []string{"p"},
		Properties: map[string]string{
			delta.PropLogRetention:         fmt.Sprintf("interval %d days", logDays),
			delta.PropDeletedFileRetention: fmt.Sprintf("interval %d days", fileDays),
		},
	}, m.options())
	require.NoError(t, err)
	m.history = []version{{rows: []string{}, at: m.clock.now()}}
	for range checkpoints {
		for range 3 {
			m.append(t, m.table, 2)
			m.clock.advance(7 * time.Hour)
		}
		require.NoError(t, m.table.Checkpoint(t.Context()))
	}
	return m
}

// clone is a copy that goes its own way.
func (m *model) clone(t tester) *model {
	out := *m
	out.history = slices.Clone(m.history)
	out.clock = &clock{at: m.clock.now()}
	out.st = newTimed(out.clock)
	for _, path := range paths(t, m.st, "") {
		data, err := m.st.Get(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, out.st.Put(t.Context(), path, data))
	}
	out.st.times = maps.Clone(m.st.times)
	out.table = out.fresh(t, out.st)
	return &out
}

func (m *model) latest() version { return m.history[len(m.history)-1] }

// append appends n rows, one of which may be in another partition.
func (m *model) append(t tester, table *delta.Table, n int) {
	adds, now := m.change(n)
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, adds)})
	m.history = append(m.history, version{rows: now, at: m.clock.now()})
}

// change are n new rows, and all rows with them.
func (m *model) change(n int) (fresh string, all []string) {
	var lines []string
	for range n {
		m.next++
		lines = append(lines, fmt.Sprintf(`{"a":%d,"p":"%c"}`, m.next, 'x'+m.next%5/4))
	}
	all = append(slices.Clone(m.latest().rows), lines...)
	slices.Sort(all)
	return "[" + strings.Join(lines, ",") + "]", all
}

// same notes the versions that something made which changes no row.
func (m *model) same(t tester) {
	s := m.fresh(t, m.st).Snapshot()
	for int64(len(m.history)) <= s.Version() {
		m.history = append(m.history, version{rows: m.latest().rows, at: m.clock.now()})
	}
}

// fresh is a new handle of a store.
func (m *model) fresh(t tester, st store.Store) *delta.Table {
	table, err := delta.Open(t.Context(), st, m.options())
	require.NoError(t, err)
	return table
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}

// check compares everything that can be read with the model.
func (m *model) check(t tester) {
	t.Helper()
	table := m.fresh(t, m.st)
	require.EqualValues(t, len(m.history)-1, table.Snapshot().Version())
	require.Equal(t, m.latest().rows, sorted(read(t, table, table.Snapshot())))
	held, err := m.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, m.latest().rows, sorted(read(t, m.table, held)))

	m.checkLog(t)
	now := m.clock.now()
	for v := range m.history {
		if step := len(m.history)/6 + 1; v%step > 0 && v < len(m.history)-2 {
			continue // enough of them
		}
		superseded := now
		if v+1 < len(m.history) {
			superseded = m.history[v+1].at
		}
		s, err := table.At(t.Context(), int64(v))
		if err != nil {
			require.ErrorIs(t, err, delta.ErrNoVersion)
			require.True(t, now.Sub(superseded) >= m.logRetention, "version %d is gone and was the newest %v ago", v, now.Sub(superseded))
			continue
		}
		if now.Sub(superseded) <= m.fileRetention {
			require.Equal(t, m.history[v].rows, sorted(read(t, table, s)), "version %d", v)
		}
	}
}

// checkLog replays the log in two other ways: from its commits alone, as long as it
// has them all, and from the newest checkpoint and what comes after it.
func (m *model) checkLog(t tester) {
	t.Helper()
	newest, last := "", int64(-1)
	whole := false
	for _, path := range paths(t, m.st, "_delta_log/0") {
		if before, ok := strings.CutSuffix(path, ".checkpoint.parquet"); ok {
			newest = before
		}
		whole = whole || path == replay.CommitPath(0)
	}
	for c, err := range m.fresh(t, m.st).Commits(t.Context(), 0) {
		require.NoError(t, err)
		require.True(t, last < 0 || c.Version == last+1, "a hole in the history before %d", c.Version)
		last = c.Version
	}
	compare := func(who string, drop func(path string) bool) {
		table := m.fresh(t, m.without(t, drop))
		require.Equal(t, m.latest().rows, sorted(read(t, table, table.Snapshot())), who)
	}
	if whole {
		compare("commits only", func(path string) bool { return strings.Contains(path, "checkpoint") })
	}
	if newest != "" {
		compare("newest checkpoint", func(path string) bool { return strings.HasPrefix(path, "_delta_log/0") && path <= newest+".checkpoint" })
	}
}

// without is a copy of the store that lacks some objects.
func (m *model) without(t tester, drop func(path string) bool) store.Store {
	out := mem.New()
	for _, path := range paths(t, m.st, "") {
		if drop(path) {
			continue
		}
		data, err := m.st.Get(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, out.Put(t.Context(), path, data))
	}
	return out
}

// work is something to do with a table that may be cut short.
type work struct {
	name string
	do   func(ctx context.Context, table *delta.Table) error
}

// upkeep is all that this package does with a table, and checkpoints.
func upkeep() []work {
	return []work{
		{"optimize", func(ctx context.Context, t *delta.Table) error {
			_, err := maintain.Optimize(ctx, t, maintain.OptimizeOptions{})
			return err
		}},
		{"vacuum", func(ctx context.Context, t *delta.Table) error {
			_, err := maintain.Vacuum(ctx, t, maintain.VacuumOptions{Concurrency: 1})
			return err
		}},
		{"clean log", func(ctx context.Context, t *delta.Table) error {
			_, err := maintain.CleanLog(ctx, t, maintain.LogOptions{})
			return err
		}},
		{"checkpoint", func(ctx context.Context, t *delta.Table) error { return t.Checkpoint(ctx) }},
	}
}

// crash does something in a store that is gone from its nth call on; that call may
// be done still. It tells which that was and whether it was reached.
func (m *model) crash(t tester, w work, n int, done bool) (last fault.Op, reached bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	calls, off := 0, true // while the table is opened
	st := fault.Wrap(m.st, func(c fault.Call) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		if calls++; off || calls < n {
			return fault.Fault{}
		}
		cancel()
		if calls == n {
			last = c.Op
		}
		if calls == n && done {
			return fault.Fault{After: fault.ErrInjected}
		}
		return fault.Fault{Before: fault.ErrInjected}
	})
	o := m.options()
	o.CommitTimeout = 10 * time.Millisecond // the store does not come back
	table, err := delta.Open(t.Context(), single{st}, o)
	require.NoError(t, err)
	off, calls = false, 0
	err = w.do(ctx, table)
	require.True(t, calls >= n || err == nil, "%s: %v", w.name, err)
	return last, calls >= n
}

// Every kind of work is cut short at every call of the store. Nothing that can be
// read is another than before, and doing it again ends it.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for i, w := range upkeep() {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, last call done: %v", w.name, done), func(t *testing.T) {
				t.Parallel()
				begin := newModel(t, 2, 1, 2)
				if w.name == "vacuum" { // something to delete
					require.NoError(t, upkeep()[0].do(t.Context(), begin.table))
					begin.same(t)
				}
				begin.clock.advance(60 * time.Hour)
				begin.append(t, begin.table, 1)
				n := 1
				for ; ; n += crashStep {
					m := begin.clone(t)
					last, crashed := m.crash(t, w, n, done)
					if done && crashed && !slices.Contains([]fault.Op{fault.Put, fault.PutIfAbsent, fault.Close, fault.Delete}, last) {
						continue // then it makes no difference
					}
					m.same(t)
					m.check(t)
					require.NoError(t, upkeep()[i].do(t.Context(), m.table))
					m.same(t)
					m.finish(t)
					if !crashed {
						break
					}
				}
				require.Greater(t, n, 4, "the work has some calls")
			})
		}
	}
}

// finish does everything, and then nothing is left that nobody names.
func (m *model) finish(t tester) {
	t.Helper()
	_, err := maintain.Optimize(t.Context(), m.table, maintain.OptimizeOptions{})
	require.NoError(t, err)
	m.same(t)
	m.clock.advance(10 * day)
	_, err = maintain.Vacuum(t.Context(), m.table, maintain.VacuumOptions{})
	require.NoError(t, err)
	m.same(t)
	require.Equal(t, m.latest().rows, sorted(read(t, m.table, m.table.Snapshot())))
	m.checkLog(t)
	var live []string
	for _, a := range files(t, m.table.Snapshot()) {
		path, err := m.table.StorePath(a.Path)
		require.NoError(t, err)
		live = append(live, path)
	}
	require.Equal(t, sorted(live), paths(t, m.st, "p="))
	require.Len(t, live, 2, "one file for each partition")
}

// Random operations in any order, some of them cut short, through handles that may
// be old: what can be read is always what the model says, and nothing is deleted
// that a version within the retention needs.
func TestRandomUpkeep(t *testing.T) {
	t.Parallel()
	histories := 0
	rapid.Check(t, func(t *rapid.T) {
		if histories++; histories > 25 {
			return // each takes a while
		}
		m := newModel(t, rapid.IntRange(0, 4).Draw(t, "log days"), rapid.IntRange(0, 3).Draw(t, "file days"), 0)
		actions := map[string]func(*rapid.T){
			"append": func(t *rapid.T) { m.append(t, m.table, rapid.IntRange(1, 3).Draw(t, "rows")) },
			"delete": m.deleteFile,
			"reopen": func(t *rapid.T) { m.table = m.fresh(t, m.st) },
			"time": func(t *rapid.T) {
				m.clock.advance(time.Duration(rapid.IntRange(1, 60).Draw(t, "hours")) * time.Hour)
			},
			"crash":  m.crashed,
			"appear": m.appendCrashed,
			"": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "look closely") == 0 {
					m.check(t)
				}
			},
		}
		for _, w := range upkeep() {
			actions[w.name] = func(t *rapid.T) {
				require.NoError(t, w.do(t.Context(), m.table))
				m.same(t)
			}
		}
		t.Repeat(actions)
		m.check(t)
	})
}

func (m *model) deleteFile(t *rapid.T) {
	s, err := m.table.Refresh(t.Context())
	require.NoError(t, err)
	live := files(t, s)
	if len(live) == 0 {
		t.Skip("no file")
	}
	victim := live[rapid.IntRange(0, len(live)-1).Draw(t, "file")]
	gone := map[string]bool{}
	for rec, err := range m.table.ReadFile(t.Context(), s, victim, delta.ReadOptions{}) {
		require.NoError(t, err)
		text, err := rec.MarshalJSON()
		require.NoError(t, err)
		for _, line := range strings.Split(strings.Trim(string(text), "[]\n"), "\n,") {
			gone[line] = true
		}
	}
	remove(t, m.table, victim)
	rows := slices.DeleteFunc(slices.Clone(m.latest().rows), func(line string) bool { return gone[line] })
	m.history = append(m.history, version{rows: rows, at: m.clock.now()})
}

func (m *model) crashed(t *rapid.T) {
	w := rapid.SampledFrom(upkeep()).Draw(t, "work")
	m.crash(t, w, rapid.IntRange(1, 40).Draw(t, "call"), rapid.Bool().Draw(t, "done"))
	m.same(t)
}

// appendCrashed appends, and nobody knows at first whether it came to that.
func (m *model) appendCrashed(t *rapid.T) {
	fresh, all := m.change(2)
	m.crash(t, work{"append", func(ctx context.Context, table *delta.Table) error {
		w, err := table.NewWriter(ctx, maintain.OptimizeOptions{}.Writer)
		if err != nil {
			return err
		}
		rec := batch(t, table.Snapshot().Schema(), fresh)
		if err := w.Write(rec); err != nil {
			return errors.Join(err, w.Abort())
		}
		adds, err := w.Close()
		if err != nil {
			return err
		}
		_, err = table.Commit(ctx, delta.Change{BlindAppend: true, Add: adds})
		return err
	}}, rapid.IntRange(1, 12).Draw(t, "call"), rapid.Bool().Draw(t, "done"))
	if m.fresh(t, m.st).Snapshot().Version() == int64(len(m.history)) {
		m.history = append(m.history, version{rows: all, at: m.clock.now()})
	}
}
