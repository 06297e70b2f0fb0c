package delta_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func TestRefreshIsIncremental(t *testing.T) {
	t.Parallel()
	st := mem.New()
	writer := create(t, st, delta.Options{CheckpointInterval: -1})
	seen := fault.Wrap(st, nil)
	reader := open(t, seen, delta.Options{})
	for i, n := range []int{0, 1, 3, 40} {
		for j := range n {
			commit(t, writer, adding(fmt.Sprint("f", i, "-", j)))
		}
		seen.Reset()
		s, err := reader.Refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, writer.Snapshot().Version(), s.Version())
		require.Same(t, s, reader.Snapshot())
		require.Equal(t, files(t, writer.Snapshot()), files(t, s))
		gets := 0
		for _, c := range seen.Calls("_delta_log/0") {
			if c.Op == fault.Get {
				gets++
			}
		}
		require.LessOrEqual(t, gets-int(s.Version())-1, n+1, "each new commit is read once (and all by Files)")
	}
}

// A failing read is not the end of the log.
func TestRefreshReportsFaults(t *testing.T) {
	t.Parallel()
	st := mem.New()
	writer := create(t, st, delta.Options{})
	reader := open(t, fault.Wrap(st, script{"get 2": {Before: errBroken}}.decide), delta.Options{})
	commit(t, writer, adding("f1"))
	commit(t, writer, adding("f2"))
	_, err := reader.Refresh(t.Context())
	require.ErrorIs(t, err, errBroken)
	require.EqualValues(t, 1, reader.Snapshot().Version(), "what could be read counts")
}

// clock is a clock that tests move.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// A writer that slept while others wrote, checkpointed and cleaned the log must
// not take the deleted next version for a free one.
func TestWriterThatSlept(t *testing.T) {
	t.Parallel()
	for name, newer := range map[string]int{"one version": 1, "many versions": 30} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			var c clock
			o := delta.Options{Now: c.now, CheckpointInterval: -1}
			sleeper := create(t, st, o)
			commit(t, sleeper, adding("f1"))
			other := open(t, st, o)
			for i := range newer {
				commit(t, other, adding(fmt.Sprint("g", i)))
			}
			require.NoError(t, other.Checkpoint(t.Context()))
			last := other.Snapshot().Version()
			for v := range last {
				require.NoError(t, st.Delete(t.Context(), replay.CommitPath(v)))
			}
			c.advance(time.Hour)
			r := commit(t, sleeper, adding("f2"))
			require.Equal(t, last+1, r.Version)
			require.Len(t, freshFiles(t, st), newer+2)
		})
	}
}

func TestTableReplaced(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]int{"by a shorter one": 0, "by a longer one": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			var c clock
			o := delta.Options{Now: c.now, CheckpointInterval: -1}
			table := create(t, st, o)
			commit(t, table, adding("f1"))
			for info, err := range st.List(t.Context(), "", "") {
				require.NoError(t, err)
				require.NoError(t, st.Delete(t.Context(), info.Path))
			}
			other := create(t, st, delta.Options{})
			for i := range commits {
				commit(t, other, adding(fmt.Sprint("g", i)))
			}
			c.advance(time.Hour)
			_, err := table.Commit(t.Context(), adding("f2"))
			require.ErrorIs(t, err, delta.ErrTableReplaced)
			_, err = table.Refresh(t.Context())
			require.ErrorIs(t, err, delta.ErrTableReplaced)
		})
	}
}

func TestTimeTravel(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{CheckpointInterval: -1})
	for i := range 12 {
		commit(t, table, adding(fmt.Sprintf("f%02d", i)))
		if i == 5 {
			require.NoError(t, table.Checkpoint(t.Context()))
		}
	}
	for v := range int64(13) {
		s, err := table.At(t.Context(), v)
		require.NoError(t, err)
		require.Equal(t, v, s.Version())
		require.Len(t, files(t, s), int(v))
	}
	for _, v := range []int64{-1, 13, 1000} {
		_, err := table.At(t.Context(), v)
		require.ErrorIs(t, err, delta.ErrNoVersion)
	}
	for v := range int64(4) {
		require.NoError(t, st.Delete(t.Context(), replay.CommitPath(v)))
	}
	for _, v := range []int64{0, 3, 4, 5} {
		_, err := table.At(t.Context(), v)
		require.ErrorIs(t, err, delta.ErrNoVersion, "%d needs what was cleaned", v)
	}
	s, err := table.At(t.Context(), 6)
	require.NoError(t, err)
	require.Len(t, files(t, s), 6)
	// A history that begins later than asked for.
	first := int64(-1)
	for c, err := range table.Commits(t.Context(), 0) {
		require.NoError(t, err)
		if first < 0 {
			first = c.Version
		}
	}
	require.EqualValues(t, 4, first)
}

// A listing may miss a commit that appears behind its back while the next one is
// in it already.
func TestListingWithAHole(t *testing.T) {
	t.Parallel()
	st := mem.New()
	writer := create(t, st, delta.Options{})
	for i := range 3 {
		commit(t, writer, adding(fmt.Sprint("f", i)))
	}
	holes := &holey{Store: st, path: replay.CommitPath(2)}
	require.Len(t, freshFiles(t, holes), 3)
	require.Equal(t, 1, holes.hidden)

	// A hole that stays is an error, never a shorter table.
	require.NoError(t, st.Delete(t.Context(), replay.CommitPath(2)))
	_, err := delta.Open(t.Context(), st, delta.Options{})
	require.ErrorContains(t, err, "2 is missing before 3")
	for _, err = range writer.Commits(t.Context(), 0) {
		if err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "2 is missing before 3")
}

// A snapshot whose segment was cleaned away finds the newer checkpoint.
func TestFilesAfterCleanup(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{CheckpointInterval: -1})
	for i := range 5 {
		commit(t, table, adding(fmt.Sprint("f", i)))
	}
	old := open(t, st, delta.Options{}).Snapshot()
	require.NoError(t, table.Checkpoint(t.Context()))
	for v := range int64(5) {
		require.NoError(t, st.Delete(t.Context(), replay.CommitPath(v)))
	}
	require.Len(t, files(t, old), 5)
	require.NoError(t, st.Delete(t.Context(), replay.CheckpointPath(5)))
	var err error
	for _, err = range old.Files(t.Context()) {
	}
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestOpenIsHonestAboutFaults(t *testing.T) {
	t.Parallel()
	st := mem.New()
	create(t, st, delta.Options{})
	for name, f := range map[string]func(fault.Call) bool{
		"list":   func(c fault.Call) bool { return c.Op == fault.List },
		"commit": func(c fault.Call) bool { return c.Op == fault.Get && strings.HasSuffix(c.Path, ".json") },
	} {
		broken := fault.Wrap(st, func(c fault.Call) fault.Fault {
			if f(c) {
				return fault.Fault{Before: errBroken}
			}
			return fault.Fault{}
		})
		_, err := delta.Open(t.Context(), broken, delta.Options{})
		require.ErrorIs(t, err, errBroken, name)
		require.NotErrorIs(t, err, delta.ErrNotTable, name)
		_, err = delta.Create(t.Context(), broken, delta.Spec{Schema: columns(t, "x")}, delta.Options{})
		require.True(t, errors.Is(err, errBroken), name)
	}
}
