package mssqlcdc

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// runStateKey is the key of a stream's RunState among the engine's generic
// resources. It is unexported so that nothing but RunStateKey makes one.
type runStateKey struct{ streamID string }

// RunStateKey is the key under which a stream's *RunState lies among the
// engine's generic resources. The stream id is empty outside streams mode.
func RunStateKey(streamID string) any { return runStateKey{streamID: streamID} }

// RunState carries what the plugins of one stream tell each other and the
// program: that the stream is stopping, what ended it, whether the run reached
// its goal. Only our own binary makes one; its presence tells a plugin that it
// runs there. It is safe for concurrent use.
type RunState struct {
	mu       sync.Mutex
	stopping chan struct{}
	fatal    chan struct{}
	errs     []error
	owners   []TableOwner
}

// TableOwner decides about a table of the source that an output cannot write:
// true is that the table is left out and the stream goes on without it. It is
// called from any goroutine and must not block.
type TableOwner func(TableID, error) bool

// NewRunState makes the state of a stream that runs.
func NewRunState() *RunState {
	return &RunState{
		stopping: make(chan struct{}),
		fatal:    make(chan struct{}),
	}
}

// Stop says that the stream is to stop: retry loops try once more and return.
func (s *RunState) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeOnce(s.stopping)
}

// Stopping is closed once Stop or Fail was called.
func (s *RunState) Stopping() <-chan struct{} { return s.stopping }

// Fail records a condition that the stream cannot go on from, and stops it. The
// program ends with an exit code that is not 0 and prints the errors.
func (s *RunState) Fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
	closeOnce(s.fatal)
	closeOnce(s.stopping)
}

// Report records an error that makes the run a failure but does not end it,
// such as a table that was isolated.
func (s *RunState) Report(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// OwnTables registers who decides when an output cannot write a table.
func (s *RunState) OwnTables(owner TableOwner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners = append(s.owners, owner)
}

// FailTable records a condition that one table cannot go on from. It is Report if
// an owner leaves the table out, and Fail otherwise.
func (s *RunState) FailTable(table TableID, err error) {
	s.mu.Lock()
	owners := slices.Clone(s.owners)
	s.mu.Unlock()
	for _, leaveOut := range owners {
		if leaveOut(table, err) {
			s.Report(fmt.Errorf("table %s was left out: %w", table, err))
			return
		}
	}
	s.Fail(err)
}

// Failed is closed once Fail was called.
func (s *RunState) Failed() <-chan struct{} { return s.fatal }

// Err joins everything that Fail and Report recorded; nil is a good run.
func (s *RunState) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
