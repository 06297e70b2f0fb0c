package input

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// reader is the input as the engine sees it.
type reader struct {
	config  config
	log     *service.Logger
	metrics *metrics
	open    opener
	store   *checkpoint.Store
	state   *mssqlcdc.RunState // nil outside rpconnect-mssqlcdc

	attempts atomic.Int64
	refused  refused
	owning   sync.Once

	mu     sync.Mutex
	source source
	stream *stream
	failed error         // the run cannot go on
	fatal  chan struct{} // closed with failed set
	ctx    context.Context
	cancel context.CancelFunc
}

func newReader(config config, res *service.Resources, open opener) *reader {
	access := func(ctx context.Context, fn func(checkpoint.Cache)) error {
		return res.AccessCache(ctx, config.checkpointCache, func(c service.Cache) { fn(c) })
	}
	config.server.Chosen = newChoices(res).note
	r := &reader{
		config: config, log: res.Logger(), metrics: newMetrics(res.Metrics()), open: open,
		store: checkpoint.NewStore(access, config.checkpointKey),
		fatal: make(chan struct{}),
	}
	if value, ok := res.GetGeneric(mssqlcdc.RunStateKey(res.StreamID())); ok {
		r.state, _ = value.(*mssqlcdc.RunState)
	}
	// Reads go on between calls of the engine; they end at Close.
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Connect opens the database and the tables and starts the stream.
func (r *reader) Connect(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.ending()
	}
	if r.stream != nil {
		return nil
	}
	if err := r.connect(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.metrics.errors.Incr(1, className(sqlserver.Classify(err)))
		if r.retryable(err) {
			return err
		}
		r.failLocked(err)
		return r.ending()
	}
	return nil
}

// retryable tells whether connecting again may help.
func (r *reader) retryable(err error) bool {
	return notReady(err) || sqlserver.Classify(err) == sqlserver.Transient
}

func (r *reader) connect(ctx context.Context) (err error) {
	if r.state != nil && r.config.onTableError == onErrorIsolate {
		r.owning.Do(func() { r.state.OwnTables(r.refused.add) })
	}
	source, err := r.open(ctx, r.config.server)
	if err != nil {
		return fmt.Errorf("connecting to SQL Server: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, source.Close())
		}
	}()
	setup := setup{config: r.config, source: source, store: r.store}
	together := setup
	together.shared = new(sqlserver.Head)
	tables, waiting, err := r.openTables(ctx, together)
	if err != nil {
		return err
	}
	r.source = source
	r.stream = &stream{
		config: r.config, source: source, setup: setup, log: r.log, metrics: r.metrics,
		fatal: r.fail, report: r.report,
		tables: tables, waiting: waiting, flight: newFlight(r.config.checkpointLimit),
		attempts: &r.attempts, nacked: make(chan error, 1), refused: &r.refused, wake: make(chan struct{}, 1), out: make(chan delivery),
	}
	r.stream.start(r.ctx)
	return nil
}

// openTables opens every table that the configuration names; one that cannot be
// opened ends the run or is left out. A continuous run waits for tables that capture
// has not reached yet beside the others.
func (r *reader) openTables(ctx context.Context, setup setup) ([]*table, map[mssqlcdc.TableID]bool, error) {
	all, err := setup.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range r.config.tables.unmatched(all) {
		r.log.Warnf("Field %s: %q matches no table that the login can see", fieldTables, text)
	}
	tables, waiting := []*table(nil), map[mssqlcdc.TableID]bool{}
	var lastErr error
	for _, f := range all {
		t, err := setup.open(ctx, f, r.config.start)
		if err == nil {
			r.refused.own(f.table)
			tables = append(tables, t)
			continue
		}
		lastErr = err
		if notReady(err) && r.config.run == runContinuous {
			r.log.Infof("Waiting for capture: %v", err)
			waiting[f.table] = true
			continue
		}
		if r.config.onTableError != onErrorIsolate || r.retryable(err) || ctx.Err() != nil {
			return nil, nil, fmt.Errorf("opening table %s: %w", f.table, err)
		}
		r.log.Errorf("Table %s is left out: %v", f.table, err)
		r.report(fmt.Errorf("table %s was left out: %w", f.table, err))
	}
	if len(tables)+len(waiting) == 0 {
		return nil, nil, fmt.Errorf("no table could be opened: %w", lastErr)
	}
	return tables, waiting, nil
}

// ReadBatch waits for the next part.
func (r *reader) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	d, err := r.next(ctx)
	return d.messages, d.ack, err
}

// next waits for the next part.
func (r *reader) next(ctx context.Context) (delivery, error) {
	r.mu.Lock()
	stream, failed := r.stream, r.failed
	r.mu.Unlock()
	if failed != nil {
		return delivery{}, r.drained(ctx, stream)
	}
	if stream == nil {
		return delivery{}, service.ErrNotConnected
	}
	select {
	case <-ctx.Done():
		r.stopping()
		return delivery{}, ctx.Err()
	case d, ok := <-stream.out:
		if ok {
			return d, nil
		}
	case <-r.fatal:
		return delivery{}, r.drained(ctx, stream)
	case <-r.othersFatal():
		return delivery{}, r.drained(ctx, stream)
	}
	<-stream.done
	if stream.err == nil {
		return delivery{}, service.ErrEndOfInput
	}
	if r.ctx.Err() != nil {
		return delivery{}, service.ErrNotConnected
	}
	if sqlserver.Classify(stream.err) == sqlserver.Transient {
		return delivery{}, r.disconnect(stream.err)
	}
	r.fail(stream.err)
	return delivery{}, r.drained(ctx, stream)
}

// disconnect gives up the connections after the source was out of reach for a
// while. The engine connects again, and is not ready until that succeeds.
func (r *reader) disconnect(cause error) error {
	r.log.Errorf("Connection to SQL Server lost: %v", cause)
	r.mu.Lock()
	defer r.mu.Unlock()
	source := r.source
	r.stream, r.source = nil, nil
	if source == nil {
		return service.ErrNotConnected
	}
	if err := source.Close(); err != nil {
		r.log.Debugf("Closing a lost connection: %v", err)
	}
	return service.ErrNotConnected
}

// drained stops the stream after a fatal condition and says how the input ends.
func (r *reader) drained(ctx context.Context, s *stream) error {
	if s != nil {
		s.close()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending()
}

// othersFatal is closed when another plugin of the stream ended the run.
func (r *reader) othersFatal() <-chan struct{} {
	if r.state == nil {
		return nil
	}
	return r.state.Failed()
}

// stopping tells the output that the stream ends, so that a write that is being
// tried again gives up after one more attempt.
func (r *reader) stopping() {
	if r.state != nil {
		r.state.Stop()
	}
}

// fail records that the run cannot go on.
func (r *reader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

func (r *reader) failLocked(err error) {
	if r.failed == nil {
		r.failed = err
		close(r.fatal)
		r.log.Errorf("The input cannot go on: %v", err)
	}
	if r.state != nil {
		r.state.Fail(err)
	}
}

func (r *reader) report(err error) {
	if r.state != nil {
		r.state.Report(err)
	}
}

// failedRetry is how often an input that cannot go on says so again in a program
// that does not know our run state.
const failedRetry = 30 * time.Second

// ending is how an input that cannot go on ends: in rpconnect-mssqlcdc as the end
// of the input, since the run state holds the failure; elsewhere it stays
// connected-failing, since an end would look like success.
func (r *reader) ending() error {
	if r.state != nil { // or another plugin's failure, which is in it, too
		return service.ErrEndOfInput
	}
	return service.NewErrBackOff(r.failed, failedRetry)
}

// Close ends the stream and the connections. It is idempotent.
func (r *reader) Close(context.Context) error {
	r.cancel()
	r.mu.Lock()
	stream, source := r.stream, r.source
	r.source = nil
	r.mu.Unlock()
	if stream != nil {
		stream.close()
	}
	if source == nil {
		return nil
	}
	if err := source.Close(); err != nil {
		return fmt.Errorf("closing the connections: %w", err)
	}
	return nil
}

// ConnectionTest opens the database and every table without reading a change.
func (r *reader) ConnectionTest(ctx context.Context) service.ConnectionTestResults {
	source, err := r.open(ctx, r.config.server)
	if err != nil {
		return service.ConnectionTestFailed(fmt.Errorf("connecting to SQL Server: %w", err)).AsList()
	}
	err = r.testTables(ctx, source)
	if err := errors.Join(err, source.Close()); err != nil {
		return service.ConnectionTestFailed(err).AsList()
	}
	return service.ConnectionTestSucceeded().AsList()
}

func (r *reader) testTables(ctx context.Context, source source) error {
	setup := setup{config: r.config, source: source, store: r.store}
	all, err := setup.find(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range all {
		for _, instance := range f.instances {
			_, err := setup.layout(ctx, instance, r.config.overrideFor(f.table))
			if err == nil {
				err = source.CheckPermissions(ctx, instance)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("table %s: %w", f.table, err))
			}
		}
	}
	return errors.Join(errs...)
}
