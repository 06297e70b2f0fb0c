package simulate_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/simulate"
)

func start(t *testing.T, cfg simulate.Config) *simulate.Simulation {
	t.Helper()
	s, err := simulate.Start(t.Context(), cfg)
	require.NoError(t, err)
	return s
}

// everything is what a reader of CDC sees, positions and times included; the ids of transactions, which readers use up too, are not.
func everything(t *testing.T, sim *sqlserversim.Server) [][]string {
	t.Helper()
	var all [][]string
	res, err := sim.Query(t.Context(), "SELECT capture_instance, start_lsn, create_date FROM cdc.change_tables ORDER BY capture_instance")
	require.NoError(t, err)
	instances := res.Strings()
	all = append(all, instances...)
	for _, instance := range instances {
		res, err := sim.Query(t.Context(), "SELECT * FROM cdc.["+instance[0]+"_CT] ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation")
		require.NoError(t, err)
		all = append(all, res.Strings()...)
	}
	res, err = sim.Query(t.Context(), "SELECT start_lsn, tran_begin_time, tran_end_time FROM cdc.lsn_time_mapping ORDER BY start_lsn")
	require.NoError(t, err)
	return append(all, res.Strings()...)
}

// run lets a simulation run until it has made n steps more.
func run(t *testing.T, s *simulate.Simulation, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	db, err := sql.Open("sqlserver", s.Server.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	count := func() (rows int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM cdc.lsn_time_mapping").Scan(&rows))
		return rows
	}
	begin := count()
	require.Eventually(t, func() bool { return count() >= begin+n }, 20*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

// A simulation that is stopped, cut in the middle of a line of its file, and resumed, is the same server, and goes on.
func TestResume(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state.jsonl")
	cfg := simulate.Config{
		Seed: 7, Workloads: simulate.Names(), WarmUp: 5, Every: 5 * time.Millisecond, CaptureInterval: 7 * time.Millisecond, HugeRows: 2000, State: state,
		Script: "CREATE TABLE dbo.mine (id int PRIMARY KEY)\nGO\nINSERT dbo.mine VALUES (1), (2)\ngo\n",
	}
	s := start(t, cfg)
	run(t, s, 60)
	want, steps := everything(t, s.Server), s.Steps
	require.NoError(t, s.Close())
	require.Greater(t, steps, 5)

	file, err := os.OpenFile(state, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"at":"2026-`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	again := start(t, simulate.Config{State: state, Every: 5 * time.Millisecond, CaptureInterval: 7 * time.Millisecond}) // the rest is in the file
	require.Equal(t, want, everything(t, again.Server))
	require.Equal(t, steps, again.Steps)
	res, err := again.Server.Query(t.Context(), "SELECT COUNT(*) FROM dbo.mine")
	require.NoError(t, err)
	require.Equal(t, [][]string{{"2"}}, res.Strings())
	run(t, again, 20)
	want, steps = everything(t, again.Server), again.Steps
	require.NoError(t, again.Close())

	third := start(t, simulate.Config{State: state})
	require.Equal(t, want, everything(t, third.Server))
	require.Equal(t, steps, third.Steps)
	require.NoError(t, third.Close())
}

// What a client writes is not in the file: that is noticed.
func TestResumeAfterClientsWrote(t *testing.T) {
	t.Parallel()
	cfg := simulate.Config{Workloads: []string{"key_moves"}, WarmUp: 3, Every: 5 * time.Millisecond, CaptureInterval: 5 * time.Millisecond, State: filepath.Join(t.TempDir(), "state")}
	s := start(t, cfg)
	require.NoError(t, s.Server.Exec(t.Context(), "INSERT dbo.key_moves VALUES (-77, 'mine', NULL)"))
	run(t, s, 5)
	require.NoError(t, s.Close())
	_, err := simulate.Start(t.Context(), cfg)
	require.ErrorIs(t, err, simulate.ErrDiverged)
	require.ErrorContains(t, err, "take another file")
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	require.NoError(t, start(t, simulate.Config{Seed: 3, Workloads: []string{"types"}, State: state}).Close())
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("{}\n"), 0o600))
	for name, c := range map[string]struct {
		cfg  simulate.Config
		says string
	}{
		"an unknown workload":    {simulate.Config{Workloads: []string{"nosuch"}}, `there is no workload "nosuch", only orders, types, `},
		"another seed":           {simulate.Config{Seed: 4, State: state}, "asked for seed 4, the file has 3; leave that out, or take another file"},
		"other workloads":        {simulate.Config{Workloads: []string{"orders"}, State: state}, "asked for workloads [orders], the file has [types]"},
		"another script":         {simulate.Config{Script: "SELECT 1", State: state}, "asked for another script"},
		"another file":           {simulate.Config{State: broken}, "it does not begin as one of version 1"},
		"a script with an error": {simulate.Config{Script: "SELECT 1\nGO\nSELEC 1"}, "running batch 2 of the script: Msg "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := simulate.Start(t.Context(), c.cfg)
			require.ErrorContains(t, err, c.says)
			require.False(t, strings.Contains(err.Error(), "failed to"))
		})
	}
}
