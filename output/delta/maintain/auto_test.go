package maintain_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

// log collects what Auto did.
type log struct {
	mu   sync.Mutex
	done []maintain.Done
}

func (l *log) add(d maintain.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, d)
}

func (l *log) tasks() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for _, d := range l.done {
		task := d.Task()
		if d.Err != nil {
			task += " failed"
		}
		out = append(out, task)
	}
	return out
}

// keep opens the table with an upkeep, without the checkpoint of closing.
func (l *lake) keep(t *testing.T, a maintain.Auto, interval int) *delta.Table {
	t.Helper()
	o := l.options()
	o.CheckpointInterval, o.Upkeep = interval, a.Upkeep
	table, err := delta.Open(t.Context(), l.st, o)
	require.NoError(t, err)
	closeAtEnd(t, table)
	return table
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, 60*time.Second, time.Millisecond, what)
}

func TestAutoCompacts(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	var done log
	l.table = l.keep(t, maintain.Auto{MinFiles: 10, Done: done.add}, -1)
	l.appendMany(t, 0, 9)
	require.Empty(t, done.tasks())
	l.appendMany(t, 9, 1)
	wait(t, "ten files are one", func() bool { return l.table.Snapshot().NumFiles() == 1 })
	c := commitOf(t, l.st, l.table.Snapshot().Version())
	require.Equal(t, "OPTIMIZE", c.Info.Operation)
	require.Equal(t, "true", c.Info.OperationParameters["auto"])
	l.appendMany(t, 10, 9)
	wait(t, "ten files again", func() bool { return l.table.Snapshot().NumFiles() == 10 })
	l.appendMany(t, 19, 1)
	wait(t, "and one again", func() bool { return len(done.tasks()) == 2 })
	require.NoError(t, l.table.Close(t.Context()))
	require.Equal(t, []string{"compaction", "compaction"}, done.tasks())
	require.ElementsMatch(t, rows(0, 20), read(t, l.table, l.table.Snapshot()))

	// A handle that finds many files begins with its first commit.
	l = newLake(t, delta.Spec{})
	l.appendMany(t, 0, 30)
	l.table = l.keep(t, maintain.Auto{MinFiles: 10}, -1)
	l.appendMany(t, 30, 1)
	wait(t, "few files", func() bool { return l.table.Snapshot().NumFiles() < 3 })
}

func TestAutoBySwitches(t *testing.T) {
	t.Parallel()
	const compact, clean, vacuum = delta.PropAutoCompact, delta.PropLogCleanup, maintain.PropAutoVacuum
	for name, c := range map[string]struct {
		auto       maintain.Auto
		properties map[string]string
		want       []string
	}{
		"by default":          {want: []string{"log clean-up", "compaction"}},
		"nothing":             {auto: maintain.Auto{NoCompact: true, NoCleanLog: true}, want: []string{}},
		"all":                 {auto: maintain.Auto{Vacuum: true}, want: []string{"log clean-up", "compaction", "vacuum"}},
		"vacuum by property":  {properties: map[string]string{vacuum: "true", compact: "false"}, want: []string{"log clean-up", "vacuum"}},
		"no vacuum":           {auto: maintain.Auto{Vacuum: true}, properties: map[string]string{vacuum: "false", clean: "false"}, want: []string{"compaction"}},
		"compact by property": {auto: maintain.Auto{NoCompact: true, NoCleanLog: true}, properties: map[string]string{compact: "auto"}, want: []string{"compaction"}},
		"clean by property":   {auto: maintain.Auto{NoCompact: true, NoCleanLog: true}, properties: map[string]string{clean: "TRUE"}, want: []string{"log clean-up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			properties := map[string]string{delta.PropLogRetention: "interval 2 days", delta.PropDeletedFileRetention: "interval 1 days"}
			for k, v := range c.properties {
				properties[k] = v
			}
			l := newLake(t, delta.Spec{Properties: properties})
			l.appendMany(t, 0, 12)
			remove(t, l.table, files(t, l.table.Snapshot())[0])
			require.NoError(t, l.table.Checkpoint(t.Context()))
			l.clock.advance(5 * day)
			var done log
			c.auto.MinFiles, c.auto.Done = 10, done.add
			table := l.keep(t, c.auto, -1)
			l.table = table
			l.appendMany(t, 12, 1)
			wait(t, "all is done", func() bool { return len(done.tasks()) >= len(c.want) })
			l.appendMany(t, 13, 3)
			require.NoError(t, table.Close(t.Context()))
			require.Equal(t, c.want, done.tasks(), "each once")
			for _, d := range done.done {
				require.NoError(t, d.Err)
			}
			fresh := l.open(t, l.st)
			require.ElementsMatch(t, rows(1, 16), read(t, fresh, fresh.Snapshot()))
		})
	}
}

// What a table remembers of its vacuum spares the next process another within a day.
func TestAutoDaily(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropDeletedFileRetention: "interval 1 hours"}})
	for i := range 6 { // every 8 hours
		table := l.keep(t, maintain.Auto{Vacuum: true}, -1)
		adds := appendRows(t, table, fmt.Sprintf(`[{"a":%d}]`, i))
		require.NoError(t, table.Checkpoint(t.Context()))
		remove(t, table, adds...)
		wait(t, "upkeep", func() bool {
			begun := table.Snapshot().Version()
			time.Sleep(10 * time.Millisecond)
			return table.Snapshot().Version() == begun
		})
		require.NoError(t, table.Close(t.Context()))
		l.clock.advance(8 * time.Hour)
	}
	starts := 0
	for c, err := range l.open(t, l.st).Commits(t.Context(), 0) {
		require.NoError(t, err)
		if c.Info.Operation == "VACUUM START" {
			starts++
		}
	}
	require.Equal(t, 2, starts)
}

func TestAutoFloor(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{Properties: map[string]string{delta.PropLogRetention: "interval 1 days"}})
	l.appendMany(t, 0, 5)
	require.NoError(t, l.table.Checkpoint(t.Context()))
	l.clock.advance(9 * day)
	var done log
	asked := make(chan int64, 1)
	table := l.keep(t, maintain.Auto{Done: done.add, Floor: func(_ context.Context, _ *delta.Table, below int64) (int64, error) {
		asked <- below
		return 2, nil
	}}, -1)
	appendRows(t, table, `[{"a":1}]`)
	require.EqualValues(t, 5, <-asked)
	require.NoError(t, table.Close(t.Context()))
	require.Empty(t, done.tasks())
	require.Len(t, paths(t, l.st, "_delta_log/0"), 7+1)
}

// Closing a table stops the work; what was written of it is gone.
func TestAutoStops(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 20)
	begun := make(chan struct{})
	writing := false
	st := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op != fault.Open || !writing {
			return fault.Fault{}
		}
		writing = false
		return fault.Fault{Run: func(ctx context.Context) {
			close(begun)
			<-ctx.Done()
		}}
	})
	var done log
	o := l.options()
	o.Upkeep = maintain.Auto{MinFiles: 10, Done: done.add}.Upkeep
	table, err := delta.Open(t.Context(), st, o)
	require.NoError(t, err)
	writing = true
	appendRows(t, table, `[{"a":20,"b":"row 20"}]`)
	<-begun
	appendRows(t, table, `[{"a":21,"b":"row 21"}]`)
	require.NoError(t, table.Close(t.Context()))
	require.Empty(t, done.tasks(), "being stopped is no failure")
	fresh := l.open(t, l.st)
	require.Equal(t, rows(0, 22), read(t, fresh, fresh.Snapshot()))
	require.Len(t, paths(t, l.st, "part-"), 22)
	// A closed table still commits, and nothing more happens behind its back.
	appendRows(t, table, `[{"a":22,"b":"row 22"}]`)
	require.Len(t, paths(t, l.st, "part-"), 23)
}

// A failure is told, and not repeated with every commit.
func TestAutoFails(t *testing.T) {
	t.Parallel()
	l := newLake(t, delta.Spec{})
	l.appendMany(t, 0, 20)
	broken := fault.Wrap(l.st, func(c fault.Call) fault.Fault {
		if c.Op == fault.Open && c.Path[:4] == "part" {
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	var done log
	o := l.options()
	o.Upkeep = maintain.Auto{MinFiles: 10, Done: done.add}.Upkeep
	table, err := delta.Open(t.Context(), broken, o)
	require.NoError(t, err)
	for i := range 9 {
		appendRows(t, table, fmt.Sprintf(`[{"a":%d}]`, i))
	}
	wait(t, "the failure", func() bool { return len(done.tasks()) > 0 })
	require.NoError(t, table.Close(t.Context()))
	require.Equal(t, []string{"compaction failed"}, done.tasks())
	require.ErrorIs(t, done.done[0].Err, fault.ErrInjected)
}
