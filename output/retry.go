package output

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
)

// maxPause is the longest pause between two attempts, in first pauses.
const maxPause = 100

// retry does something until it works, until the error is not one that passes, or
// until the stream ends: after the run state says so it is tried once more.
func (o *deltaOutput) retry(ctx context.Context, table, what string, decide func(error) bronze.Decision, do func() error) error {
	last := false
	for attempt := 0; ; attempt++ {
		err := do()
		if err == nil {
			return nil
		}
		if last || ctx.Err() != nil || decide(err) != bronze.Retry {
			return err
		}
		o.metrics.retries.Incr(1, table)
		if attempt&(attempt-1) == 0 { // the 1st, 2nd, 3rd, 5th, 9th …
			o.log.With("table", table, "attempt", attempt+1, "error", err).Warnf("%s failed and is tried again", what)
		}
		if !o.pause(ctx, attempt) {
			last = true
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// pause waits before an attempt, and tells whether another may follow after that
// one.
func (o *deltaOutput) pause(ctx context.Context, attempt int) (more bool) {
	longest := o.opts.retryAfter * time.Duration(min(maxPause, 1<<min(attempt, 10)))
	timer := time.NewTimer(longest/2 + rand.N(longest/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-o.stopping():
		return false
	}
}

// maxRefusals is how often in a row one part may be refused because what comes
// before it is missing, until that is taken for lasting.
const maxRefusals = 3

// refusals tells a refused part that will come again in order from one that never
// will.
//
// Windows that were in flight behind a failed one are refused too, and then come
// again with it. What is lasting is a gap that is there from the first window on,
// which means that the table is not the one that the resume position belongs to;
// and a part that is sent again as it is, by somebody who does not go back to the
// begin of its window, as a broker does.
type refusals struct {
	accepted bool // a part was written since the table was opened
	place    place
	attempt  int64
	part     int
	count    int
}

// lasting takes the outcome for a part, nil for success, and tells whether it must
// be taken for good.
func (r *refusals) lasting(env mssqlcdc.Envelope, err error) bool {
	var gap *bronze.GapError
	var order *bronze.OrderError
	var chunkGap *bronze.ChunkGapError
	isGap, isOrder := errors.As(err, &gap) || errors.As(err, &chunkGap), errors.As(err, &order)
	if !isGap && !isOrder {
		*r = refusals{accepted: r.accepted || err == nil}
		return false
	}
	if r.behind(env) {
		return false // it waits for the one that is counted
	}
	same := r.count > 0 && r.place == placeOf(env) && r.part == env.Part && (isGap || r.attempt == env.Attempt)
	if !same {
		*r = refusals{accepted: r.accepted, place: placeOf(env), attempt: env.Attempt, part: env.Part}
	}
	r.count++
	return r.count >= maxRefusals && (isOrder || !r.accepted)
}

// behind tells whether a part comes after the refused one that is counted.
func (r *refusals) behind(env mssqlcdc.Envelope) bool {
	at := placeOf(env)
	switch {
	case r.count == 0 || (at.chunk < 0) != (r.place.chunk < 0):
		return false
	case at == r.place:
		return r.part < env.Part
	}
	return r.place.from.Less(at.from) || r.place.from == at.from && r.place.chunk < at.chunk
}

// place is a window, or a chunk of a snapshot, whenever it is read.
type place struct {
	from  mssqlcdc.LSN // start of the window, or the snapshot
	chunk int64        // -1 of a window
}

func placeOf(env mssqlcdc.Envelope) place {
	if env.Chunk != nil {
		return place{from: env.Chunk.Snapshot, chunk: env.Chunk.Number}
	}
	return place{from: env.Window.Start, chunk: -1}
}
