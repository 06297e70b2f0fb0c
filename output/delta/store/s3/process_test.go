package s3_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	envEndpoint = "S3_STORE_TEST_ENDPOINT"
	envProcess  = "S3_STORE_TEST_PROCESS"

	processes  = 3
	goroutines = 4
	versions   = 40
)

// Goroutines of several processes race for the same versions: each has one winner,
// whose content is there.
func TestProcesses(t *testing.T) {
	t.Parallel()
	race(t, server(t))
}

func race(t *testing.T, endpoint string) {
	t.Helper()
	outputs := make([]string, processes)
	errs := make([]error, processes)
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildThatRaces$", "-test.v")
			cmd.Env = append(os.Environ(), envEndpoint+"="+endpoint, fmt.Sprint(envProcess, "=", p))
			out, err := cmd.CombinedOutput()
			outputs[p], errs[p] = string(out), err
		})
	}
	wg.Wait()
	winner := map[string]string{}
	for p, out := range outputs {
		require.NoError(t, errs[p], out)
		for line := range strings.Lines(out) {
			words := strings.Fields(line)
			if len(words) != 3 || words[0] != "won" {
				continue
			}
			_, twice := winner[words[1]]
			require.False(t, twice, "%s has two winners", words[1])
			winner[words[1]] = words[2]
		}
	}
	require.Len(t, winner, versions)
	st := open(t, config(endpoint), "s3://"+bucket+"/race")
	for path, name := range winner {
		got, err := st.Get(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, name, string(got))
	}
}

// TestChildThatRaces prints the versions that it won.
func TestChildThatRaces(t *testing.T) {
	endpoint := os.Getenv(envEndpoint)
	if endpoint == "" {
		t.Skip("only as a child of TestProcesses")
	}
	errs := make(chan error, goroutines)
	for g := range goroutines {
		st := open(t, config(endpoint), "s3://"+bucket+"/race")
		name := fmt.Sprint(os.Getenv(envProcess), "-", g)
		go func() {
			for v := range versions {
				path := fmt.Sprintf("_delta_log/%020d.json", v)
				switch err := st.PutIfAbsent(t.Context(), path, []byte(name)); {
				case err == nil:
					fmt.Printf("won %s %s\n", path, name)
				case !errors.Is(err, store.ErrExists):
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range goroutines {
		require.NoError(t, <-errs)
	}
}
