//go:build unix

package delta_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

const (
	envRoot    = "DELTA_TEST_ROOT"
	envProcess = "DELTA_TEST_PROCESS"
	envSeed    = "DELTA_TEST_SEED"

	processes  = 3
	goroutines = 3
	batches    = 15
)

// Several goroutines in each of several processes commit numbered batches to one
// table on a local disk, with stores that fail and lose answers, and one of the
// processes is killed and started again and again. In the end every batch is in
// the table once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	st, err := file.New(root)
	require.NoError(t, err)
	create(t, st, delta.Options{})

	var wg sync.WaitGroup
	failures := make(chan string, processes)
	for p := range processes {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(p)))
			for life := 0; ; life++ {
				ctx, cancel := context.WithCancel(t.Context())
				if p == 0 && life < 4 { // this one is killed
					time.AfterFunc(time.Duration(50+rng.IntN(250))*time.Millisecond, cancel)
				}
				cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChildThatCommits$")
				cmd.Env = append(os.Environ(), envRoot+"="+root, envProcess+"="+strconv.Itoa(p), envSeed+"="+strconv.FormatUint(rng.Uint64(), 10))
				out, err := cmd.CombinedOutput()
				killed := ctx.Err() != nil
				cancel()
				if err == nil {
					return
				}
				if !killed {
					failures <- fmt.Sprintf("process %d: %v\n%s", p, err, out)
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for f := range failures {
		t.Error(f)
	}

	want := map[string]bool{}
	for p := range processes {
		for g := range goroutines {
			for b := range batches {
				want[fmt.Sprintf("%d-%d-%d", p, g, b+1)] = true
			}
		}
	}
	table := open(t, st, delta.Options{})
	got := files(t, table.Snapshot())
	require.Equal(t, sortedKeys(want), got)
	// Each was committed once: history has no commit twice.
	seen := map[string]bool{}
	for c, err := range table.Commits(t.Context(), 1) {
		require.NoError(t, err)
		require.Len(t, c.Txns, 1)
		key := fmt.Sprint(c.Txns[0].AppID, " ", c.Txns[0].Version)
		require.False(t, seen[key], "batch %s is there twice", key)
		seen[key] = true
	}
	require.Len(t, seen, len(want))
}

func TestChildThatCommits(t *testing.T) {
	root := os.Getenv(envRoot)
	if root == "" {
		t.Skip("only as a child of TestProcesses")
	}
	seed, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	require.NoError(t, err)
	st, err := file.New(root)
	require.NoError(t, err)
	errs := make(chan error, goroutines)
	for g := range goroutines {
		table := openFlaky(t, st, seed+uint64(g), 0.1)
		go func() { errs <- commitBatches(t.Context(), table, fmt.Sprintf("%s-%d", os.Getenv(envProcess), g)) }()
	}
	for range goroutines {
		require.NoError(t, <-errs)
	}
}

// commitBatches goes on where the table says that the application is, until all
// batches are in.
func commitBatches(ctx context.Context, table *delta.Table, app string) error {
	id := "" // of the attempt whose outcome is unknown: it stays the same batch
	for range 100 * batches {
		last, _ := table.Snapshot().AppVersion(app)
		if last >= batches && id == "" {
			return nil
		}
		c := adding(fmt.Sprintf("%s-%d", app, last+1))
		c.Fenced, c.ID = &delta.Txn{AppID: app, Version: last + 1}, id
		_, err := table.Commit(ctx, c)
		var unknown *delta.UnknownOutcomeError
		var fenced *delta.FencedError
		switch {
		case err == nil, errors.As(err, &fenced) && fenced.Own:
			id = ""
		case errors.Is(err, delta.ErrCommitTimeout):
		case errors.As(err, &unknown):
			id = unknown.ID
		case errors.Is(err, fault.ErrInjected):
		default:
			return fmt.Errorf("application %s, batch %d: %w", app, last+1, err)
		}
	}
	return fmt.Errorf("application %s makes no progress", app)
}
