package silver_test

import (
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// spilled is what lay in the temporary folder while the table was written.
type spilled struct{ folders, files atomic.Int64 }

// watch makes a configuration look at its temporary folder whenever it writes.
func (s *spilled) watch(t *testing.T, c *silver.Config) {
	c.TempDir = t.TempDir()
	c.Target = fault.Wrap(c.Target, func(call fault.Call) fault.Fault {
		if call.Op == fault.PutIfAbsent {
			folders, _ := filepath.Glob(filepath.Join(c.TempDir, "*"))
			files, _ := filepath.Glob(filepath.Join(c.TempDir, "*", "*"))
			s.folders.Add(int64(len(folders)))
			s.files.Add(int64(len(files)))
		}
		return fault.Fault{}
	})
}

// A late chunk has much read again that was applied before: it is split by key like new rows.
func TestRowsReadAgainAreSplit(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.config.SliceRows = 10
	var records []record
	for id := range int64(60) {
		records = append(records, change(int(id)+2, 1, mssqlcdc.Insert, id, id))
	}
	b.write(70, records...)
	b.applied(nil)
	b.lake.chunk(t.Context(), chunk{snapshot: 1, number: 0, stamp: 1, first: true, rows: []record{read(1, 0, 1, 100, 7), read(1, 0, 1, 5, 1)}})

	var s spilled
	b.applied(func(c *silver.Config) { s.watch(t, c) })
	require.Positive(t, s.folders.Load(), "nothing was spilled")
	amounts := b.amounts()
	require.Len(t, amounts, 61)
	require.EqualValues(t, 5, amounts[5], "the chunk's row is older")
}

// What is spilled has no name, so that a process that is killed leaves nothing.
func TestSpilledRowsHaveNoName(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file keeps its name there")
	}
	b := newBench(t, "id", "part")
	b.config.SliceRows = 2
	b.window(20)
	var s spilled
	var dir string
	b.applied(func(c *silver.Config) {
		s.watch(t, c)
		dir = c.TempDir
	})
	require.Positive(t, s.folders.Load(), "nothing was spilled")
	require.Zero(t, s.files.Load())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
