// Package heap decides how far the heap may grow between two collections.
//
// Record batches are large and short-lived, so the default of the runtime, twice what is
// in use, costs memory and saves little. Where little is in use the same share is so few
// bytes that the collector hardly rests: many small windows, or one message per row, then
// cost more for it than for themselves. So the growth is a share of what is in use, and
// never less than a number of bytes.
package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// mostPercent bounds the growth of a heap that is nearly empty, which is about to fill.
const mostPercent = 400

// Tune sets the growth for the life of the process: percent of what is in use, or least
// bytes if that is more. It is called once.
func Tune(percent int, least int64) {
	debug.SetGCPercent(percent)
	t := &tuner{percent: percent, least: least, set: percent}
	t.afterNext()
}

// tuner belongs to the goroutine of cleanups after Tune.
type tuner struct {
	percent int
	least   int64
	set     int // percent that holds now
}

// afterNext adjusts the growth after the next collection, and each one that follows.
func (t *tuner) afterNext() {
	canary := new([16]byte) // unreachable at once: the next collection finds it
	runtime.AddCleanup(canary, func(t *tuner) {
		if p := t.percentFor(live()); p != t.set {
			debug.SetGCPercent(p)
			t.set = p
		}
		t.afterNext()
	}, t)
}

// percentFor is the growth for so many bytes in use, in steps, since each change stops
// the program for a moment.
func (t *tuner) percentFor(live int64) int {
	const step = 10
	p := int(t.least * 100 / max(live, 1) / step * step)
	return max(t.percent, min(p, mostPercent))
}

// live is what the last collection found in use.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 1 << 40 // not known: the share alone counts
	}
	return int64(sample[0].Value.Uint64())
}
