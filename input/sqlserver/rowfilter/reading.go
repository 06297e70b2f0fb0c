package rowfilter

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// reading is one statement whose rows are taken out of its answer. The driver's goroutine that reads the answer uses it through
// [Conn.Read]; whoever runs the statement takes the batches. What both look at is atomic or behind the mutex.
type reading struct {
	statement fetch.Statement
	batches   chan fetch.Batch
	stop      chan struct{} // closed when nobody takes batches any more
	stopOnce  sync.Once
	discards  atomic.Bool // rows are passed over, not decoded
	complete  atomic.Bool // the answer ended where the protocol says, or was handed to the driver

	mu      sync.Mutex
	refused *Refusal
	cause   error

	decoder *decoder // nil before the metadata; then of the reading goroutine until the answer has ended
	offset  int64    // bytes of the answer that are done with, packet headers left out
}

func newReading(statement fetch.Statement) *reading {
	return &reading{statement: statement, batches: make(chan fetch.Batch), stop: make(chan struct{})}
}

// discard lets the rest of the rows pass by.
func (r *reading) discard() {
	r.discards.Store(true)
	r.stopOnce.Do(func() { close(r.stop) })
}

// refuse notes why the rows go to the driver. No row was taken before.
func (r *reading) refuse(why *Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused = why
	}
}

// refusal is why the rows go to the driver; nil if they do not.
func (r *reading) refusal() *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// fail notes what went wrong; the driver turns it into text.
func (r *reading) fail(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == nil {
		r.cause = err
		if value, ok := err.(*fetch.ValueError); !ok {
			r.cause = &StreamError{Statement: statementStart(r.statement.Text), Offset: r.offset, Err: err}
		} else {
			r.cause = value
		}
	}
	return r.cause
}

// failure is what went wrong in the filter; nil if nothing did.
func (r *reading) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

// columns decides about the first rowset.
func (r *reading) columns(wire []wireColumn, s *sizes) *Refusal {
	d, refused := newDecoder(wire, r.statement)
	if refused == nil {
		d.recall(s)
		r.decoder = d
	}
	return refused
}

// row takes the row at the front of b. need is 0 when it was there, else how many bytes are wanted at least.
func (r *reading) row(b []byte) (n, need int, err error) {
	d := r.decoder
	skip := r.discards.Load()
	if skip || len(b) < d.longest {
		if n, need, err = d.length(b); err != nil || need > 0 || skip {
			return n, need, err
		}
	}
	if n, err = d.row(b); err != nil {
		return 0, 0, err
	}
	if d.full() {
		r.emit(d.flush())
	}
	return n, 0, nil
}

// emit hands a record over, or drops it when nobody takes any more.
func (r *reading) emit(batch fetch.Batch) {
	select {
	case r.batches <- batch:
	case <-r.stop:
	}
}

// rest is what is left of a rowset that ended well; false if nothing is. The answer must have ended.
func (r *reading) rest() (fetch.Batch, bool) {
	if r.decoder == nil || r.decoder.rows == 0 {
		return fetch.Batch{}, false
	}
	return r.decoder.flush(), true
}

// String is for messages.
func (r *reading) String() string { return fmt.Sprintf("%q", statementStart(r.statement.Text)) }
