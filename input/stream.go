package input

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// delivery is one batch for the engine with what its acknowledgement does.
type delivery struct {
	messages service.MessageBatch
	ack      service.AckFunc
	again    func() (service.MessageBatch, error) // makes the messages anew
}

// stream reads the tables for as long as the input is connected. One goroutine,
// run, owns it; acknowledgements come from the engine's goroutines.
type stream struct {
	config  config
	source  source
	setup   setup
	log     *service.Logger
	metrics *metrics
	fatal   func(error) // the run cannot go on
	report  func(error) // a table was isolated

	tables     []*table
	target     *mssqlcdc.LSN // where a bounded run ends, once known
	targetTime time.Time     // commit time of target; zero if unknown
	flight     *flight
	attempts   *atomic.Int64 // windows read so far, over all streams of the input
	nacked     chan error    // holds the first nack of an epoch
	refused    *refused      // tables that an output cannot write
	wake       chan struct{} // holds that something new may be done

	blind    bool      // the login may not see how capture is doing
	healthAt time.Time // when it was asked last

	waiting map[mssqlcdc.TableID]bool // tables of the start that capture has not reached yet

	out  chan delivery // closed when nothing follows
	stop context.CancelFunc
	done chan struct{}
	err  error // why out was closed; nil is the end of a bounded run
}

func (s *stream) start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		defer close(s.out)
		s.err = s.run(ctx)
	}()
}

// close ends the stream and waits for its goroutines.
func (s *stream) close() {
	s.stop()
	<-s.done
}

// errNacked ends an epoch: an output rejected a message.
var errNacked = errors.New("a message was rejected")

// run goes from one epoch to the next. An epoch ends at a nack, at the end of a
// bounded run, or at an error that trying again cannot cure.
func (s *stream) run(ctx context.Context) error {
	retry := backoff{first: time.Second, most: time.Minute}
	for {
		before := s.progress()
		err := s.epoch(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if settled := s.settle(ctx); !settled {
			return ctx.Err()
		}
		if nack := s.takeNack(); err == nil {
			err = nack
		}
		if err == nil && slices.ContainsFunc(s.tables, (*table).snapshotDue) {
			continue // what was acknowledged last asks for a snapshot
		}
		if err == nil {
			return s.flush(ctx)
		}
		if !errors.Is(err, errNacked) {
			return err
		}
		if s.progress() != before {
			retry.reset()
		}
		pause := retry.step()
		s.metrics.rewinds.Incr(1)
		s.log.Warnf("Sending again from the last acknowledged position in %s: %v", pause, err)
		for _, t := range s.tables {
			t.rewind()
		}
		if err := s.leaveOutRefused(); err != nil {
			return err
		}
		if !wait(ctx.Done(), pause) {
			return ctx.Err()
		}
	}
}

// progress is the sum of what moved, to tell a nack that repeats from a new one.
func (s *stream) progress() [2]int64 {
	var sum [2]int64
	for _, t := range s.tables {
		hi, lo := t.tracker.acknowledged().LSN.Parts()
		sum[0] += hi
		sum[1] += lo
	}
	return sum
}

// settle waits until everything handed out was acknowledged one way or the
// other.
func (s *stream) settle(ctx context.Context) bool {
	for {
		changed, empty := s.flight.empty()
		if empty {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

func (s *stream) takeNack() error {
	select {
	case err := <-s.nacked:
		return err
	default:
		return nil
	}
}

// flush stores every position once more at the end of a bounded run, so that a
// cache that failed then does not go unnoticed.
func (s *stream) flush(ctx context.Context) error {
	var errs []error
	for _, t := range s.tables {
		if !t.isolated {
			errs = append(errs, s.setup.store.Save(ctx, t.id, t.tracker.acknowledged()))
		}
	}
	return errors.Join(errs...)
}

// epoch runs the scheduler and hands out what the reads give, in order.
func (s *stream) epoch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	most := s.config.parallelReads + s.config.mostChunks()
	reads := make(chan *read, most)
	scheduler := &scheduler{
		stream: s, reads: reads, finished: make(chan *read, most),
		helpers: make(chan struct{}, s.config.snapshotParallelism-1),
	}
	var group sync.WaitGroup
	var scheduleErr error
	group.Go(func() {
		defer close(reads)
		if scheduleErr = scheduler.run(ctx); errors.Is(scheduleErr, errNacked) {
			cancel(scheduleErr)
		}
	})
	var emitErr error
	for r := range reads {
		if emitErr != nil {
			continue // what was started before the cancel
		}
		if emitErr = s.emit(ctx, r); emitErr != nil {
			cancel(emitErr)
		}
	}
	cancel(nil)
	group.Wait()
	scheduler.wait()
	if emitErr != nil {
		return emitErr
	}
	return scheduleErr
}

// emit hands out the parts of one window.
func (s *stream) emit(ctx context.Context, r *read) error {
	t := r.table
	if r.chunk != nil && !r.chunk.inOrder() {
		for range r.parts { // until the read has ended
		}
		return nil
	}
	entry := t.tracker.open(r.window, r.instance, r.chunk.snapshot())
	for part := range r.parts {
		if err := s.handOut(ctx, r, entry, part); err != nil {
			t.tracker.abandon(entry)
			return err
		}
	}
	if r.err != nil { // set before parts was closed
		t.tracker.abandon(entry)
	} else if r.chunk != nil {
		r.chunk.of.handedOut(r.chunk, r.rows)
	}
	return nil
}

// handOut makes the messages of a part and passes them to ReadBatch.
func (s *stream) handOut(ctx context.Context, r *read, entry *pending, part sqlserver.Part) error {
	t := r.table
	envelope, err := r.envelope(s.source.Server(), part)
	if err != nil {
		return err
	}
	messages, err := s.messages(envelope, part)
	if err != nil {
		return err
	}
	rows := part.Record.NumRows()
	if part.Last && r.chunk != nil {
		t.tracker.through(entry, r.chunk.through, r.chunk.clock)
		s.metrics.chunk(t.id, part.Metrics, rows)
	} else if part.Last {
		s.metrics.sent(t.id, part.Window, part.Metrics, r.head)
	}
	s.metrics.rows.Incr(rows, t.id.String())
	if len(messages.batch) == 0 {
		t.tracker.handOut(entry, 0, rows, part.Last, part.Window)
		s.acknowledge(ctx, t, entry, 0)
		return nil
	}
	if err := s.takePlace(ctx, len(messages.batch)); err != nil {
		return err
	}
	t.tracker.handOut(entry, 1, rows, part.Last, part.Window)
	d := delivery{messages: messages.batch, ack: s.ackFunc(t, entry, messages), again: func() (service.MessageBatch, error) {
		made, err := s.messages(envelope, part)
		return made.batch, err
	}}
	select {
	case s.out <- d:
		return nil
	case <-ctx.Done():
		s.flight.done(len(messages.batch))
		return context.Cause(ctx)
	case err := <-s.nacked:
		s.flight.done(len(messages.batch))
		return err
	}
}

// takePlace waits until the messages fit under checkpoint_limit.
func (s *stream) takePlace(ctx context.Context, n int) error {
	for {
		changed, ok := s.flight.tryAdd(n)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-s.nacked:
			return err
		case <-changed:
		}
	}
}

// ackFunc is called by the engine once, from a goroutine of its own.
func (s *stream) ackFunc(t *table, entry *pending, messages built) service.AckFunc {
	var once sync.Once
	return func(ctx context.Context, err error) error {
		once.Do(func() {
			defer s.flight.done(len(messages.batch))
			switch {
			case err != nil:
				s.nack(fmt.Errorf("%w: %w", errNacked, err))
			case s.config.requireCommit && messages.record != nil && !marked(messages.record):
				s.fatal(fmt.Errorf("a message of table %s was acknowledged but no delta_lake output has written it (%s): a processor dropped it or a buffer acknowledged it early. "+
					"Wrap row logic in each_row, remove the buffer, or set require_commit: false for an output other than delta_lake", t.id, messages.record))
			default:
				s.acknowledge(ctx, t, entry, 1)
			}
		})
		return nil
	}
}

func marked(batch *mssqlcdc.RecordBatch) bool {
	for _, mark := range batch.Marks() {
		if mark != mssqlcdc.Unmarked {
			return true
		}
	}
	return false
}

// nack keeps the first of an epoch; the others mean the same.
func (s *stream) nack(err error) {
	select {
	case s.nacked <- err:
	default:
	}
}

// acknowledge moves the table's resume position as far as it goes. A position that
// cannot be stored costs re-reading after a crash and nothing else, so the stream
// goes on and stores the next one.
func (s *stream) acknowledge(ctx context.Context, t *table, entry *pending, messages int) {
	state, moved := t.tracker.ack(entry, messages)
	if !moved {
		return
	}
	if state.Snapshot != nil && state.Snapshot.Complete {
		s.wakeUp()
	}
	if err := s.save(ctx, t); err != nil {
		s.metrics.errors.Incr(1, "resume_position")
		s.log.Errorf("Resume position not stored, the next one will be: %v", err)
	}
}

// wakeUp makes the scheduler look for something to do.
func (s *stream) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is said already
	}
}

// save stores the table's state as it is now. What happens to it happens on several
// goroutines side by side, so an earlier one must never be stored over a later one: it
// may lack the end of a chunk that is read already.
func (s *stream) save(ctx context.Context, t *table) error {
	t.saving.Lock()
	defer t.saving.Unlock()
	return s.setup.store.Save(ctx, t.id, t.tracker.acknowledged())
}
