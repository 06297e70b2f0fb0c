package tds

import (
	"context"
	"sync"
)

// running keeps account of the requests that have been read and not answered, so that an attention meets the right one: the
// oldest. The reader adds and the session's goroutine takes away.
type running struct {
	mu   sync.Mutex
	jobs []*job
}

// job is a message on its way to the session.
type job struct {
	msg    message
	err    error // the reader's last word
	ctx    context.Context
	cancel context.CancelCauseFunc
	asked  bool // an attention came while the request ran
}

// add notes a request.
func (r *running) add(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, j)
}

// attention cancels the oldest request; false means that there is none.
func (r *running) attention() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.jobs) == 0 {
		return false
	}
	j := r.jobs[0]
	j.asked = true
	j.cancel(ErrAttention)
	return true
}

// done takes the oldest request away and reports whether an attention came for it. Later ones count as idle.
func (r *running) done() (attention bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.jobs) == 0 {
		return false
	}
	j := r.jobs[0]
	r.jobs = r.jobs[1:]
	j.cancel(nil)
	return j.asked
}

// stopAll cancels every request.
func (r *running) stopAll(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		j.cancel(cause)
	}
}
