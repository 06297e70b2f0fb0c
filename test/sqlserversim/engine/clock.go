package engine

import (
	"sync"
	"time"
)

// Clock tells the time. Implementations must be safe for concurrent use. The capture job's waiting does not go through it:
// that uses package time, so it is virtual in a testing/synctest bubble.
type Clock interface {
	Now() time.Time
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// ManualClock is a clock that only moves when told to, also backwards.
type ManualClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewManualClock makes a clock that stands at t.
func NewManualClock(t time.Time) *ManualClock { return &ManualClock{now: t} }

// Now is the time that was set last.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set makes the clock stand at t; an earlier t is a clock step back.
func (c *ManualClock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// Advance moves the clock by d, which may be negative, and returns the new time.
func (c *ManualClock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}
