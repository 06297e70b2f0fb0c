package bronze_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// outages makes a store fail for a while at a time, beginning with a request to
// create a commit that is done, not done, or done much later.
type outages struct {
	mu   sync.Mutex
	rng  *rand.Rand
	rate float64 // of commits that begin one
	left int     // calls that fail still
	late bool    // a request is on its way
}

func (o *outages) decide(c fault.Call) fault.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := fmt.Errorf("%w: %s", fault.ErrInjected, c)
	if o.left > 0 {
		o.left--
		return fault.Fault{Before: err}
	}
	if c.Op != fault.PutIfAbsent || o.rng.Float64() >= o.rate {
		if o.rng.Float64() < o.rate/20 {
			return fault.Fault{Before: err}
		}
		return fault.Fault{}
	}
	o.left = o.rng.IntN(25)
	switch o.rng.IntN(3) {
	case 0:
		return fault.Fault{Before: err}
	case 1:
		return fault.Fault{After: err}
	}
	o.late = true
	return fault.Fault{Before: err, Late: true}
}

// stream plays the part of the input and of everything that goes wrong around the
// table: it cuts windows from the last acknowledged position, differently every
// time, and loses acknowledgements, parts, processes and requests.
type stream struct {
	rt      *rapid.T
	history changetest.History
	store   *fault.Store // what the table uses
	table   *bronze.Table
	acked   changetest.Cursor
	faults  *outages
	// orphans says that requests of a process that has died are on their way, and
	// ghost that such a one has landed: then the living process takes it for
	// another writer, and stops.
	orphans, ghost bool
}

func (s *stream) config() bronze.Config {
	cfg := config()
	cfg.Table.Delta.CommitTimeout = 15 * time.Millisecond
	cfg.Table.Delta.CheckpointInterval = 5
	cfg.QueuedParts = 1
	return cfg
}

// reopen is a crash: the old table is left as it is.
func (s *stream) reopen() {
	s.orphans = s.orphans || s.faults.late
	s.ghost = false
	for {
		table, err := bronze.Open(context.Background(), s.store, s.config())
		if err == nil {
			s.table = table
			return
		}
		require.ErrorIs(s.rt, err, fault.ErrInjected)
	}
}

// cut makes the next window from a position.
func (s *stream) cut(at changetest.Cursor) changetest.Window {
	return s.history.Cut(at, rapid.IntRange(0, 4).Draw(s.rt, "commits"), rapid.IntRange(1, 12).Draw(s.rt, "rows per part"))
}

// write writes a part as the output does.
func (s *stream) write(part *mssqlcdc.RecordBatch) (bronze.Result, error) {
	for range 5 {
		result, err := s.table.Write(context.Background(), part)
		if err == nil {
			return result, nil
		}
		if bronze.Decide(err) != bronze.Retry {
			return result, err
		}
		require.True(s.rt, errors.Is(err, fault.ErrInjected) || errors.Is(err, delta.ErrCommitTimeout), "unexpected error: %v", err)
	}
	return bronze.Result{}, errors.New("given up")
}

// deliver sends the first parts of a window and tells whether it was taken whole.
func (s *stream) deliver(w changetest.Window, parts int) bool {
	for i, part := range w.Parts[:parts] {
		result, err := s.write(part)
		if err != nil {
			s.refused(err)
			return false
		}
		if i == len(w.Parts)-1 {
			require.Contains(s.rt, []mssqlcdc.Mark{mssqlcdc.Committed, mssqlcdc.Skipped}, result.Mark)
			return true
		}
		require.Equal(s.rt, mssqlcdc.Staged, result.Mark)
	}
	return false
}

// refused checks that an error is one that passes. The run ends only over a
// request of a dead process that landed in this one's life.
func (s *stream) refused(err error) {
	if s.ghost && errors.Is(err, delta.ErrFenced) {
		s.reopen()
		return
	}
	require.NotEqual(s.rt, bronze.Stop, bronze.Decide(err), "%v", err)
}

// step does one thing that can happen.
func (s *stream) step() {
	w := s.cut(s.acked)
	switch rapid.SampledFrom([]string{"deliver", "deliver", "deliver", "crash after commit", "crash in window", "nack in window", "behind a nack", "restart", "late"}).Draw(s.rt, "step") {
	case "deliver":
		if s.deliver(w, len(w.Parts)) {
			s.acked = w.After
		}
	case "crash after commit":
		s.deliver(w, len(w.Parts))
		s.reopen()
	case "crash in window":
		s.deliver(w, rapid.IntRange(0, len(w.Parts)-1).Draw(s.rt, "parts"))
		s.reopen()
	case "nack in window":
		s.deliver(w, rapid.IntRange(0, len(w.Parts)-1).Draw(s.rt, "parts"))
	case "behind a nack":
		// The window is lost on the way, and the next one is there before the
		// input hears of it.
		behind := s.history.Cut(w.After, 1, 3)
		if position, _ := s.table.Position(); w.Rows > 0 && position.Less(w.After.DataLSN) {
			_, err := s.write(behind.Parts[0])
			var gap *bronze.GapError
			if position, _ := s.table.Position(); err == nil {
				// A commit that was given up has landed: there is no gap any more.
				require.False(s.rt, position.Less(w.After.DataLSN))
				return
			}
			if !errors.As(err, &gap) {
				s.refused(err) // a fault came first
				return
			}
			require.Equal(s.rt, w.After.DataLSN, gap.Prev)
		}
	case "late":
		// A request that was on its way when its sender gave up arrives.
		err := s.store.Land(context.Background())
		require.True(s.rt, err == nil || errors.Is(err, store.ErrExists), "%v", err)
		s.ghost = s.ghost || s.orphans
		s.orphans, s.faults.late = false, false
	case "restart":
		err := s.table.Close(context.Background())
		require.True(s.rt, err == nil || errors.Is(err, fault.ErrInjected), "%v", err)
		s.reopen()
	}
}

// Whatever happens on the way, the table ends up with every row of the source once.
func TestEveryRowOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 7))
		h := changetest.Random(rng, 1+rng.IntN(12), 1+rng.IntN(10))
		if rng.IntN(2) == 0 {
			h.ExtraFrom = rng.IntN(len(h.Commits))
		}
		for i := range h.Commits {
			for j := range h.Commits[i].Rows {
				if h.ExtraFrom >= 0 && i >= h.ExtraFrom {
					h.Commits[i].Rows[j].Extra = 1 + rng.Int64N(9)
				}
			}
		}
		inner := mem.New()
		rate := []float64{0, 0.2, 0.5}[rng.IntN(3)]
		faults := &outages{rng: rng, rate: rate}
		s := &stream{rt: rt, history: h, faults: faults, store: fault.Wrap(inner, faults.decide)}
		s.reopen()
		for range rapid.IntRange(0, 25).Draw(rt, "steps") {
			s.step()
		}
		faults.mu.Lock()
		faults.rate, faults.left = 0, 0 // the rest goes well
		faults.mu.Unlock()
		s.reopen()
		for s.acked.Next < len(h.Commits) {
			w := h.Cut(s.acked, 3, 7)
			require.True(rt, s.deliver(w, len(w.Parts)))
			s.acked = w.After
		}
		got, err := changetest.ReadBack(context.Background(), inner)
		require.NoError(rt, err)
		require.Empty(rt, changetest.Difference(h.Rows(), got))
	})
}
