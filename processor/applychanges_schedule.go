package processor

import (
	"context"
	"sync"
	"time"
)

// The pause after a failure, doubled with each in a row.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// scheduler makes calls beside the stream: for each destination one at a time, at most
// every so often, and again after a failure. All run on one goroutine, so that the memory
// is that of one call.
type scheduler struct {
	every   time.Duration
	commits int // 0: the time alone decides
	call    func(ctx context.Context, d destination, failedBefore int) error

	life   context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	wake   chan struct{}

	mu      sync.Mutex
	started bool
	closing bool
	due     map[destination]*due
}

// due is a destination that has something to apply, or had.
type due struct {
	commits  int       // noted since the last call began
	earliest time.Time // of the next call; zero: at once
	failures int       // in a row
}

func newScheduler(every time.Duration, commits int, call func(context.Context, destination, int) error) *scheduler {
	s := &scheduler{every: every, commits: commits, call: call, ended: make(chan struct{}), wake: make(chan struct{}, 1), due: map[destination]*due{}}
	s.life, s.cancel = context.WithCancel(context.Background())
	return s
}

// note says that a destination has more to apply. It does not wait.
func (s *scheduler) note(d destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	if s.due[d] == nil {
		s.due[d] = &due{}
	}
	s.due[d].commits++
	if !s.started {
		s.started = true
		go s.run()
	}
	s.poke()
}

func (s *scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *scheduler) run() {
	defer close(s.ended)
	for s.life.Err() == nil {
		d, wait, done := s.next()
		switch {
		case done:
			return
		case wait != 0:
			s.pause(wait)
		default:
			s.do(d)
		}
	}
}

// next is the destination to call now, or how long there is nothing to do, negative for
// until something is noted; done says that nothing will be.
func (s *scheduler) next() (d destination, wait time.Duration, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = -1
	for one, state := range s.due {
		if state.commits == 0 {
			continue
		}
		left := time.Until(state.earliest)
		if left <= 0 || s.closing || s.commits > 0 && state.failures == 0 && state.commits >= s.commits {
			return one, 0, false
		}
		if wait < 0 || left < wait {
			wait = left
		}
	}
	return d, wait, s.closing
}

func (s *scheduler) pause(wait time.Duration) {
	var elapsed <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-s.life.Done():
	case <-s.wake:
	case <-elapsed:
	}
}

func (s *scheduler) do(d destination) {
	s.mu.Lock()
	state := s.due[d]
	noted, failures := state.commits, state.failures
	state.commits = 0
	state.earliest = time.Now().Add(s.every)
	s.mu.Unlock()
	err := s.call(s.life, d, failures)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		state.failures = 0
		return
	}
	if s.closing {
		return // the next start goes on
	}
	state.failures++
	state.commits += noted
	state.earliest = time.Now().Add(min(lastRetry, firstRetry<<min(failures, 10)))
}

// close makes the calls that are due, until the context ends, and ends the goroutine.
func (s *scheduler) close(ctx context.Context) {
	defer s.cancel()
	s.mu.Lock()
	s.closing = true
	started := s.started
	s.poke()
	s.mu.Unlock()
	if !started {
		return
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.cancel()
		<-s.ended
	}
}
