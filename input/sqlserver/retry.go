package sqlserver

import (
	"context"
	"math/rand/v2"
	"time"
)

// retryPolicy repeats what a transient error stopped.
type retryPolicy struct {
	attempts int           // in all
	base     time.Duration // the longest first wait; it doubles
}

// The default is three more attempts within about two seconds. Longer outages are the caller's business.
const (
	retryAttempts = 4
	retryBase     = 300 * time.Millisecond
)

// do calls f until it returns no transient error or the attempts are used up. The first attempt is 0.
func (p retryPolicy) do(ctx context.Context, f func(attempt int) error) error {
	wait := p.base
	for attempt := 0; ; attempt++ {
		err := f(attempt)
		if err == nil || Classify(err) != Transient || attempt+1 >= p.attempts {
			return err
		}
		// Half to all of the wait: streams that broke together do not come back together.
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return withCause(ctx, err)
		}
		wait *= 2
	}
}
