//go:build unix

package delta_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remotetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
)

// chaosRow is a row by its id.
type chaosRow struct {
	v      int64
	writer string
}

// chaosWriter is one of the writers: its steps are commits under an application id of its own.
type chaosWriter struct {
	process, number int
}

func (w chaosWriter) app() string { return fmt.Sprintf("writer-%d-%d", w.process, w.number) }

// id is that of a row of the writer's own.
func (w chaosWriter) id(step, i int64) int64 {
	return (int64(w.process*chaosWriters+w.number)*100_000+step)*10 + i
}

// rows are those that the writer appends at an odd step.
func (w chaosWriter) rows(step int64) map[int64]chaosRow {
	out := map[int64]chaosRow{}
	for i := range int64(5) {
		out[w.id(step, i)] = chaosRow{step, w.app()}
	}
	return out
}

// changes are what the writer merges at an even step: rows of its last step, a new one, and one of the rows that all
// writers fight for, of which the highest version must stay.
func (w chaosWriter) changes(step int64) (upserts, deletes map[int64]chaosRow) {
	who := int64(w.process*chaosWriters + w.number)
	upserts = map[int64]chaosRow{
		w.id(step-1, 0): {step, w.app()}, w.id(step-1, 1): {step, w.app()}, w.id(step, 9): {step, w.app()},
		-1 - (who+step)%3: {step*100 + who, w.app()},
	}
	return upserts, map[int64]chaosRow{w.id(step-1, 2): {step, w.app()}}
}

// apply does a step to a model.
func (w chaosWriter) apply(model map[int64]chaosRow, step int64) {
	if step%2 == 1 {
		maps.Copy(model, w.rows(step))
		return
	}
	upserts, deletes := w.changes(step)
	for id, row := range upserts {
		if have, ok := model[id]; !ok || have.v < row.v {
			model[id] = row
		}
	}
	for id := range deletes {
		delete(model, id)
	}
}

// do does a step to the table. id is that of an attempt at it whose outcome is not known, "" for none.
func (w chaosWriter) do(ctx context.Context, table *delta.Table, step int64, id string) error {
	fence := &delta.Txn{AppID: w.app(), Version: step}
	if step%2 == 0 {
		upserts, deletes := w.changes(step)
		src := merge.Source{Upserts: []arrow.RecordBatch{chaosBatch(upserts)}, Deletes: []arrow.RecordBatch{chaosBatch(deletes)}}
		defer src.Upserts[0].Release()
		defer src.Deletes[0].Release()
		strategy := []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors}[w.process%2]
		_, err := merge.Run(ctx, table, src, merge.Options{Keys: []string{"id"}, Versions: []string{"v"}, Strategy: strategy, ID: id, Fenced: fence})
		return err
	}
	out, err := table.NewWriter(ctx, data.WriterOptions{})
	if err != nil {
		return err
	}
	rec := chaosBatch(w.rows(step))
	defer rec.Release()
	if err := out.Write(rec); err != nil {
		return errors.Join(err, out.Abort())
	}
	files, err := out.Close()
	if err != nil {
		return errors.Join(err, out.Abort())
	}
	_, err = table.Commit(ctx, delta.Change{
		ID: id, Operation: delta.OpWrite, Add: files, BlindAppend: true, Fenced: fence,
	})
	return err
}

func chaosBatch(rows map[int64]chaosRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, chaosSchema().Arrow())
	defer b.Release()
	for id, row := range rows {
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.Int64Builder).Append(row.v)
		b.Field(2).(*array.StringBuilder).Append(row.writer)
	}
	return b.NewRecordBatch()
}

// run does the writer's steps from where the table says it is.
func (w chaosWriter) run(ctx context.Context, table *delta.Table, last int64, rng *rand.Rand) error {
	id := "" // of the attempt whose outcome is unknown: it stays the same step
	for range 200 * last {
		done, _ := table.Snapshot().AppVersion(w.app())
		if done >= last && id == "" {
			return nil
		}
		err := w.do(ctx, table, done+1, id)
		var unknown *delta.UnknownOutcomeError
		var fenced *delta.FencedError
		switch {
		case err == nil, errors.As(err, &fenced) && fenced.Own:
			id = ""
		case errors.As(err, &unknown):
			id = unknown.ID
		case errors.Is(err, delta.ErrCommitTimeout), expectedFault(err):
		default:
			return fmt.Errorf("%s, step %d: %w", w.app(), done+1, err)
		}
		if w.number == 0 && rng.IntN(3) == 0 { // the one of each process that keeps the table in shape
			_, err := maintain.Optimize(ctx, table, maintain.OptimizeOptions{MinFiles: 10})
			var conflict *delta.ConflictError
			if err != nil && !expectedFault(err) && !errors.Is(err, maintain.ErrBusy) && !errors.As(err, &conflict) && !errors.Is(err, delta.ErrUnknownOutcome) {
				return fmt.Errorf("%s, optimizing: %w", w.app(), err)
			}
		}
	}
	return fmt.Errorf("%s makes no progress", w.app())
}

// expectedFault reports whether an error is of our making: one of the store's wrapper, of its network, or an answer.
func expectedFault(err error) bool {
	return errors.Is(err, fault.ErrInjected) || errors.Is(err, remotetest.ErrInjected) || errors.Is(err, store.ErrNotDone) || errors.As(err, new(*remote.ResponseError))
}

// flakyStore opens a place through faults: a store that fails before and after operations or is slow for a folder, a
// network that does all that HTTP can do wrong for a server. The folder's begin when armed says so: opening asks for a
// hundred commits and tries none of them twice.
func flakyStore(t *testing.T, place string, seed uint64, armed *atomic.Bool) store.Store {
	t.Helper()
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	if os.IsPathSeparator(place[0]) {
		return fault.Wrap(chaosStore(t, place), func(c fault.Call) fault.Fault {
			if !armed.Load() {
				return fault.Fault{}
			}
			err := fmt.Errorf("%w: %s", fault.ErrInjected, c)
			chance := 1500 // a merge reads much, and a folder's store tries nothing twice
			if c.Op == fault.PutIfAbsent {
				chance = 30
			}
			switch draw(chance) {
			case 0:
				return fault.Fault{Before: err}
			case 1, 2:
				return fault.Fault{After: err}
			case 3:
				return fault.Fault{Run: func(context.Context) { time.Sleep(5 * time.Millisecond) }}
			}
			return fault.Fault{}
		})
	}
	c := chaosConfig(place)
	c.Remote = remote.Options{Pause: time.Millisecond, Timeout: 20 * time.Second}
	c.HTTPClient = &http.Client{Transport: remotetest.NewTransport(func(req *http.Request, _ int) remotetest.Fault {
		return networkFault(req, draw)
	})}
	st, err := store.NewRegistry(s3.Provider(c)).Open(t.Context(), "s3://"+chaosBucket+"/tables/chaos")
	require.NoError(t, err)
	return st
}

func networkFault(req *http.Request, draw func(n int) int) remotetest.Fault {
	switch draw(90) {
	case 0:
		return remotetest.Fault{Err: remotetest.ErrInjected}
	case 1, 2:
		return remotetest.Fault{Err: remotetest.ErrInjected, Done: true} // the answer is lost
	case 3:
		return remotetest.Fault{Status: http.StatusInternalServerError}
	case 4:
		return remotetest.Fault{Status: http.StatusInternalServerError, Done: true}
	case 5:
		return remotetest.Fault{Status: http.StatusServiceUnavailable}
	case 6:
		return remotetest.Fault{Tear: true}
	case 7:
		return remotetest.Fault{Delay: 20 * time.Millisecond}
	case 8:
		if req.Method == http.MethodPut && req.Header.Get("If-None-Match") != "" {
			return remotetest.Fault{Status: http.StatusConflict, Body: `<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>ConditionalRequestConflict</Code><Message>a conflicting operation</Message></Error>`}
		}
	}
	return remotetest.Fault{}
}

func TestChildInChaos(t *testing.T) {
	place := os.Getenv(envChaosPlace)
	if place == "" {
		t.Skip("only as a child of TestProcessChaos")
	}
	process, err := strconv.Atoi(os.Getenv(envChaosProcess))
	require.NoError(t, err)
	seed, err := strconv.ParseUint(os.Getenv(envChaosSeed), 10, 64)
	require.NoError(t, err)
	last := steps(t)
	errs := make(chan error, chaosWriters)
	for g := range chaosWriters {
		armed := new(atomic.Bool)
		st := flakyStore(t, place, seed+uint64(g), armed)
		go func() {
			errs <- inChaos(t.Context(), st, armed, chaosWriter{process, g}, last, rand.New(rand.NewPCG(seed, uint64(g))))
		}()
	}
	for range chaosWriters {
		require.NoError(t, <-errs)
	}
}

// inChaos opens the table, as often as that takes, and runs a writer.
func inChaos(ctx context.Context, st store.Store, armed *atomic.Bool, w chaosWriter, last int64, rng *rand.Rand) error {
	for range 50 {
		table, err := delta.Open(ctx, st, delta.Options{CheckpointInterval: 20, CommitTimeout: 30 * time.Second})
		if err != nil {
			if expectedFault(err) {
				continue
			}
			return fmt.Errorf("%s, opening: %w", w.app(), err)
		}
		armed.Store(true)
		// A failing checkpoint is told to nobody here: it is made again.
		return errors.Join(w.run(ctx, table, last, rng), table.Close(ctx))
	}
	return fmt.Errorf("%s cannot open the table", w.app())
}
