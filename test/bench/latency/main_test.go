package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// What a change waits for beside the next poll is counted, not timed: a poll without
// changes is one statement, a change a few, and neither facts nor verdict have a commit
// for each window.
func TestWhatAChangeCosts(t *testing.T) {
	t.Parallel()
	sim, err := sqlserversim.Start(sqlserversim.WithCaptureInterval(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	o := options{changes: 20, poll: 20 * time.Millisecond, format: "record_batch", dir: t.TempDir()}
	var quiet []string
	o.after = func() {
		time.Sleep(100 * time.Millisecond) // what follows the last change
		sim.ResetStatements()
		time.Sleep(10 * o.poll)
		quiet = sim.Statements()
	}
	r, err := o.measure(t.Context(), sim)
	require.NoError(t, err)
	require.Equal(t, 20, r.Changes)
	require.NotEmpty(t, quiet)
	require.LessOrEqual(t, len(quiet), 11)
	for _, statement := range quiet {
		require.Contains(t, statement, "sys.fn_cdc_get_max_lsn()")
	}
	ofChange := 0
	for _, statement := range r.statements {
		if !strings.Contains(statement, "sys.fn_cdc_get_max_lsn()") && !strings.Contains(statement, "INSERT") {
			ofChange++
		}
	}
	require.LessOrEqual(t, ofChange, 20*6+5, "six statements of a change, and what happens beside it now and then")
	for table, most := range map[string]int{"facts": 5, "control": 5} {
		commits, err := filepath.Glob(filepath.Join(o.dir, table, "_delta_log", "*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, commits, table)
		require.LessOrEqual(t, len(commits), most, table)
	}
}
