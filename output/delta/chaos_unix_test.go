//go:build unix

package delta_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
)

const (
	envChaosPlace   = "DELTA_TEST_CHAOS_PLACE"
	envChaosProcess = "DELTA_TEST_CHAOS_PROCESS"
	envChaosSeed    = "DELTA_TEST_CHAOS_SEED"
	// envChaosSteps is how many steps each writer does: set it for a long run.
	envChaosSteps = "DELTA_TEST_CHAOS_STEPS"

	chaosProcesses = 4
	chaosWriters   = 8 // in each process
	chaosSteps     = 2
	chaosBucket    = "lake"
)

// Four processes with eight writers each append to one table and merge into it, on a local folder and on an S3 server.
// Requests fail, lose their answers, come late or torn, and the processes are killed and started again. What a writer
// does at a step is a function of both, so that the table in the end is a function, too: no row is lost, none is there
// twice.
func TestProcessChaos(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(*testing.T) string{
		"folder": func(t *testing.T) string { return t.TempDir() },
		"s3":     chaosServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runChaos(t, place(t))
		})
	}
}

// chaosServer starts an S3 server in this process.
func chaosServer(t *testing.T) string {
	fake := s3mem.New()
	require.NoError(t, fake.CreateBucket(chaosBucket))
	srv := httptest.NewServer(gofakes3.New(fake).Server())
	t.Cleanup(srv.Close)
	return srv.URL
}

func steps(t *testing.T) int64 {
	text, ok := os.LookupEnv(envChaosSteps)
	if !ok {
		return chaosSteps
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// chaosStore opens a place without faults.
func chaosStore(t *testing.T, place string) store.Store {
	t.Helper()
	if os.IsPathSeparator(place[0]) {
		st, err := file.New(place)
		require.NoError(t, err)
		return st
	}
	st, err := store.NewRegistry(s3.Provider(chaosConfig(place))).Open(t.Context(), "s3://"+chaosBucket+"/tables/chaos")
	require.NoError(t, err)
	return st
}

func chaosConfig(endpoint string) s3.Config {
	return s3.Config{Endpoint: endpoint, AccessKeyID: "id", SecretAccessKey: "secret"}
}

func chaosSchema() *schema.Struct {
	return &schema.Struct{Fields: []schema.Field{
		{Name: "id", Type: schema.Long}, {Name: "v", Type: schema.Long}, {Name: "writer", Type: schema.String, Nullable: true},
	}}
}

func runChaos(t *testing.T, place string) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	st := chaosStore(t, place)
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: chaosSchema(), Properties: map[string]string{"delta.enableDeletionVectors": "true"}}, delta.Options{})
	require.NoError(t, err)
	require.NoError(t, table.Close(t.Context()))

	var wg sync.WaitGroup
	var kills atomic.Int64
	failures := make(chan string, chaosProcesses)
	for p := range chaosProcesses {
		wg.Go(func() {
			if err := liveAndDie(t.Context(), place, p, rand.New(rand.NewPCG(seed, uint64(p))), &kills); err != nil {
				failures <- err.Error()
			}
		})
	}
	wg.Wait()
	close(failures)
	for f := range failures {
		t.Error(f)
	}
	t.Logf("%d processes were killed", kills.Load())
	requireChaosModel(t, st)
}

// liveAndDie runs a process until it has done its work: the first lives end with a kill.
func liveAndDie(ctx context.Context, place string, p int, rng *rand.Rand, kills *atomic.Int64) error {
	lives := 3 - p // of the first two
	for life := 0; ; life++ {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChildInChaos$")
		cmd.Env = append(os.Environ(), envChaosPlace+"="+place, envChaosProcess+"="+strconv.Itoa(p), envChaosSeed+"="+strconv.FormatUint(rng.Uint64(), 10))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			return err
		}
		var killed atomic.Bool
		if life < lives {
			timer := time.AfterFunc(time.Duration(150+rng.IntN(500))*time.Millisecond, func() {
				killed.Store(true)
				if cmd.Process.Kill() != nil { // it had ended by itself
					killed.Store(false)
				}
			})
			defer timer.Stop()
		}
		err := cmd.Wait()
		switch {
		case err == nil:
			return nil
		case !killed.Load():
			return fmt.Errorf("process %d: %w\n%s", p, err, out.Bytes())
		}
		kills.Add(1)
	}
}

// requireChaosModel compares the table with what the writers' steps make it, by every way to read it.
func requireChaosModel(t *testing.T, st store.Store) {
	t.Helper()
	want, last := map[int64]chaosRow{}, steps(t)
	for p := range chaosProcesses {
		for g := range chaosWriters {
			w := chaosWriter{process: p, number: g}
			for step := int64(1); step <= last; step++ {
				w.apply(want, step)
			}
		}
	}
	table := open(t, st, delta.Options{})
	s := table.Snapshot()
	got := map[int64]chaosRow{}
	for rec, err := range table.Read(t.Context(), s, delta.ReadOptions{}) {
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			id := rec.Column(0).(*array.Int64).Value(i)
			_, twice := got[id]
			require.False(t, twice, "row %d is there twice", id)
			got[id] = chaosRow{rec.Column(1).(*array.Int64).Value(i), rec.Column(2).(*array.String).Value(i)}
		}
	}
	require.Empty(t, chaosDifference(want, got))

	committed := map[string]bool{}
	for c, err := range table.Commits(t.Context(), 1) {
		require.NoError(t, err)
		for _, txn := range c.Txns {
			key := fmt.Sprint(txn.AppID, " ", txn.Version)
			require.False(t, committed[key], "step %s is there twice", key)
			committed[key] = true
		}
	}
	require.Len(t, committed, chaosProcesses*chaosWriters*int(last))
	requireReplaysAgree(t, st, s)
}

// requireReplaysAgree reads the log from its commits only, from its checkpoint and the commits after that, and compares
// both with a checksum file made of the former.
func requireReplaysAgree(t *testing.T, st store.Store, s *delta.Snapshot) {
	t.Helper()
	version, ok := s.CheckpointVersion()
	require.True(t, ok, "there is no checkpoint to read from")
	commits, short := mem.New(), mem.New()
	for v := range s.Version() + 1 {
		text, err := st.Get(t.Context(), replay.CommitPath(v))
		require.NoError(t, err)
		require.NoError(t, commits.Put(t.Context(), replay.CommitPath(v), text))
		if v > version {
			require.NoError(t, short.Put(t.Context(), replay.CommitPath(v), text))
		}
	}
	text, err := st.Get(t.Context(), replay.CheckpointPath(version))
	require.NoError(t, err)
	require.NoError(t, short.Put(t.Context(), replay.CheckpointPath(version), text))

	whole, tail := open(t, commits, delta.Options{}).Snapshot(), open(t, short, delta.Options{}).Snapshot()
	require.Equal(t, adds(t, whole), adds(t, tail))
	require.Equal(t, appVersions(whole), appVersions(tail))
	require.Equal(t, whole.NumFiles(), tail.NumFiles())
	require.Equal(t, whole.Metadata(), tail.Metadata())
	var bytes int64
	for _, a := range adds(t, whole) {
		bytes += a.Size
	}
	sum := checksumText(t, whole, whole.NumFiles(), bytes)
	for name, at := range map[string]*delta.Snapshot{"commits": whole, "checkpoint and tail": tail} {
		target := map[string]store.Store{"commits": commits, "checkpoint and tail": short}[name]
		require.NoError(t, target.Put(t.Context(), replay.ChecksumPath(s.Version()), []byte(sum)))
		verified, err := at.Verify(t.Context())
		require.NoError(t, err, name)
		require.True(t, verified, name)
	}
}

// chaosDifference tells the steps whose rows differ.
func chaosDifference(want, got map[int64]chaosRow) []string {
	steps := map[string]bool{}
	for id, row := range want {
		if have, ok := got[id]; !ok || have != row {
			steps[fmt.Sprintf("row %d of step %d of %s: %v", id, row.v, row.writer, have)] = true
		}
	}
	for id, row := range got {
		if _, ok := want[id]; !ok {
			steps[fmt.Sprintf("row %d of step %d of %s is too many", id, row.v, row.writer)] = true
		}
	}
	return sortedKeys(steps)
}
