package processor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// calls is what a scheduler did, at which second.
type calls struct {
	t     *testing.T
	begin time.Time
	mu    sync.Mutex
	seen  []string
	fail  int // the next calls fail
}

func (c *calls) call(_ context.Context, d destination, failed int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, d.target+" "+time.Since(c.begin).String())
	if c.fail > 0 {
		c.fail--
		return errors.New("not now")
	}
	return nil
}

// made waits until nothing moves.
func (c *calls) made() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func scheduled(t *testing.T, every time.Duration, commits int, test func(s *scheduler, c *calls)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{t: t, begin: time.Now()}
		s := newScheduler(every, commits, c.call)
		test(s, c)
		s.close(context.Background())
	})
}

func TestSchedulerWaitsBetweenCalls(t *testing.T) {
	t.Parallel()
	scheduled(t, 10*time.Second, 0, func(s *scheduler, c *calls) {
		for range 25 {
			s.note(destination{target: "a"})
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"a 0s", "a 10s", "a 20s"}, c.made())
		time.Sleep(time.Hour)
		require.Len(t, c.made(), 4, "nothing is noted, nothing is called: only what came since 20s")
	})
}

func TestSchedulerCountsCommits(t *testing.T) {
	t.Parallel()
	scheduled(t, time.Hour, 3, func(s *scheduler, c *calls) {
		for range 8 {
			s.note(destination{target: "a"})
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"a 0s", "a 3s", "a 6s"}, c.made())
	})
}

func TestSchedulerTriesAgain(t *testing.T) {
	t.Parallel()
	scheduled(t, 0, 0, func(s *scheduler, c *calls) {
		c.fail = 3
		s.note(destination{target: "a"})
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a 0s", "a 1s", "a 3s", "a 7s"}, c.made())
	})
}

func TestSchedulerAppliesWhatIsLeftWhenItCloses(t *testing.T) {
	t.Parallel()
	var c *calls
	scheduled(t, time.Hour, 0, func(s *scheduler, made *calls) {
		c = made
		s.note(destination{target: "a"})
		time.Sleep(time.Second)
		s.note(destination{target: "a"})
		time.Sleep(time.Second)
	})
	require.Equal(t, []string{"a 0s", "a 2s"}, c.seen)
}

// Closing ends with its context, whatever a call does.
func TestSchedulerCloseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(0, 0, func(ctx context.Context, _ destination, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		s.note(destination{target: "a"})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		s.close(ctx)
		require.Equal(t, 5*time.Second, time.Since(begin))
		s.note(destination{target: "a"}) // nobody listens any more
		newScheduler(0, 0, nil).close(ctx)
	})
}
