package output

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/facts"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

const (
	// closeTimeout bounds Close, whose context has no end of its own.
	closeTimeout = 30 * time.Second

	// maxPendingFacts is how many facts rows may wait; then writes wait for them.
	maxPendingFacts = 5000
)

// deltaOutput is the output. WriteBatch runs on one goroutine (max_in_flight 1);
// another writes the facts.
type deltaOutput struct {
	cfg     config
	opts    options
	res     *service.Resources
	log     *service.Logger
	metrics *metrics

	mu        sync.Mutex // one of Connect, WriteBatch and Close
	connected bool
	closed    bool
	tables    *router
	facts     *facts.Writer // nil without facts_path

	failures map[string]bool // texts of the fatal errors so far

	stopFlusher context.CancelFunc
	flusher     sync.WaitGroup
}

func newOutput(cfg config, res *service.Resources, opts options) *deltaOutput {
	if opts.stores == nil {
		opts.stores = cfg.stores
	}
	o := &deltaOutput{cfg: cfg, opts: opts, res: res, log: res.Logger(), metrics: newMetrics(res.Metrics()), failures: map[string]bool{}}
	o.tables = newRouter(cfg.maxOpenTables, o.openTable)
	return o
}

// Connect opens the facts table, and the data table where the config alone tells
// which that is, so that facts missing after a crash are written without waiting
// for the next change.
func (o *deltaOutput) Connect(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.connected {
		return nil
	}
	err := o.connect(ctx)
	if err != nil && bronze.Decide(err) == bronze.Stop {
		return o.fatal(err)
	}
	o.connected = err == nil
	return err
}

func (o *deltaOutput) connect(ctx context.Context) error {
	if o.cfg.factsPath != "" && o.facts == nil {
		if err := o.openFacts(ctx); err != nil {
			return err
		}
	}
	path, pathIsStatic := o.cfg.path.Static()
	if !pathIsStatic {
		return nil
	}
	st, err := o.opts.stores.Open(ctx, path)
	if err == nil {
		err = store.Probe(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if appID, ok := o.cfg.appID.Static(); ok && appID != "" && o.facts != nil && o.cfg.batchKey == nil {
		_, err := o.tables.changes(ctx, path, appID)
		return err
	}
	return nil
}

func (o *deltaOutput) openFacts(ctx context.Context) error {
	st, err := o.opts.stores.Open(ctx, o.cfg.factsPath)
	if err != nil {
		return fmt.Errorf("facts_path: %w", err)
	}
	o.facts, err = facts.Open(ctx, st, facts.Config{
		Table:        target.Spec{Name: o.cfg.factsPath, Delta: o.deltaOptions("facts"), Upkeep: storage.Upkeep(o.log, "facts")},
		IdleInterval: o.cfg.idleInterval,
		Now:          o.opts.now,
	})
	if err != nil {
		return fmt.Errorf("facts_path: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stopFlusher = stop
	o.flusher.Go(func() { o.flushFacts(life) })
	return nil
}

func (o *deltaOutput) deltaOptions(table string) delta.Options {
	return delta.Options{
		Now:           o.opts.now,
		Engine:        "rpconnect-mssqlcdc",
		CommitTimeout: o.cfg.commitTimeout,
		OnCheckpoint: func(r delta.CheckpointResult) {
			if r.Err != nil {
				o.log.With("table", table, "error", r.Err).Warn("Writing a checkpoint of a table failed; commits go on and it is tried again")
			}
		},
	}
}

// WriteBatch writes the messages in their order. After a failed message the later
// ones of its table fail too, and those of other tables go on.
func (o *deltaOutput) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errors.New("the delta_lake output is closed")
	}
	jobs, failed := o.sort(batch)
	for _, j := range jobs {
		if err := failed.before(j); err != nil {
			failed.add(j, err)
			continue
		}
		var err error
		if j.record != nil {
			err = o.writeRecord(ctx, j)
		} else {
			err = o.writeRows(ctx, j)
		}
		if err != nil {
			failed.add(j, err)
		}
	}
	return failed.error(batch)
}

// Close writes the facts that wait, gives up what is staged, and closes the
// after_commit processors, which nobody else does.
func (o *deltaOutput) Close(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if o.stopFlusher != nil {
		o.stopFlusher()
		o.flusher.Wait()
	}
	errs := []error{o.tables.close(ctx)}
	if o.facts != nil {
		// Rows that cannot be written now are written by the next start.
		err := o.retry(ctx, "facts", "Writing facts", bronze.Decide, func() error { return o.flush(ctx) })
		errs = append(errs, err, o.facts.Close(ctx))
	}
	for _, p := range o.cfg.afterCommit {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}

// runState is the state of the run, nil in a program that has none.
func (o *deltaOutput) runState() *mssqlcdc.RunState {
	v, ok := o.res.GetGeneric(mssqlcdc.RunStateKey(o.res.StreamID()))
	if !ok {
		return nil
	}
	state, _ := v.(*mssqlcdc.RunState)
	return state
}

// stopping is closed when the stream is to end; nil, which blocks for ever, where
// nobody says so.
func (o *deltaOutput) stopping() <-chan struct{} {
	if state := o.runState(); state != nil {
		return state.Stopping()
	}
	return nil
}

// fatal ends the run over an error that nothing here can make pass, and returns
// it. Where no run state is, it is the write's error alone, again and again.
func (o *deltaOutput) fatal(err error) error {
	return o.fail(err, func(state *mssqlcdc.RunState, err error) { state.Fail(err) })
}

// fatalFor is fatal for one table of the source: the input decides whether the
// others go on.
func (o *deltaOutput) fatalFor(table mssqlcdc.TableID, err error) error {
	return o.fail(err, func(state *mssqlcdc.RunState, err error) { state.FailTable(table, err) })
}

func (o *deltaOutput) fail(err error, tell func(*mssqlcdc.RunState, error)) error {
	if o.failures[err.Error()] {
		return err // said before: somebody goes on trying
	}
	o.failures[err.Error()] = true
	o.log.With("error", err).Error("The output cannot go on")
	if state := o.runState(); state != nil {
		tell(state, fmt.Errorf("delta_lake: %w", err))
	}
	return err
}
