package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/simulate"
)

// The command prints a DSN that works, makes what the script says, and after a stop goes on from its file.
func TestSimulate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	first := simulate.Config{Script: "CREATE TABLE dbo.mine (id int PRIMARY KEY)\nGO\nINSERT dbo.mine VALUES (1), (2), (3)\n", Workloads: []string{"orders", "key_moves"}, WarmUp: 10}
	for run, cfg := range []simulate.Config{first, {}} {
		cfg.State, cfg.Every, cfg.CaptureInterval = state, 5*time.Millisecond, 5*time.Millisecond
		dsn, stop := startSimulate(t, cfg)
		db, err := sql.Open("sqlserver", dsn)
		require.NoError(t, err)
		var mine, changes int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dbo.mine").Scan(&mine))
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM cdc.dbo_key_moves_CT").Scan(&changes))
		require.Equal(t, 3, mine, "run %d", run)
		require.Positive(t, changes, "run %d", run)
		require.NoError(t, db.Close())
		require.NoError(t, stop())
	}
	for says, args := range map[string][]string{
		"asked for seed 9, the file has 1": {"--state", state, "--seed", "9"},
		`there is no workload "none"`:      {"--workload", "none,"},
		"reading the script: ":             {"--script", filepath.Join(dir, "nosuch")},
	} {
		code, _, stderr := runCommand(t, simulateCommand, append([]string{"simulate"}, args...)...)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, says)
	}
}

// printed is what a command has printed so far.
type printed struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write keeps a piece.
func (w *printed) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// String is all of it.
func (w *printed) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// startSimulate runs the command and waits for its DSN; stop ends it as Ctrl-C does.
func startSimulate(t *testing.T, cfg simulate.Config) (dsn string, stop func() error) {
	t.Helper()
	out := &printed{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runSimulation(ctx, cfg, out) }()
	export := regexp.MustCompile(`export MSSQL_DSN='([^']+)'`)
	require.Eventually(t, func() bool { return export.MatchString(out.String()) || len(done) > 0 }, 20*time.Second, 5*time.Millisecond)
	found := export.FindStringSubmatch(out.String())
	if found == nil {
		require.FailNow(t, "no DSN", "%v: %s", <-done, out)
	}
	return found[1], func() error { cancel(); return <-done }
}
