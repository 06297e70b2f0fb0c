package zone

import (
	"slices"
	"sync"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Tolerance is how far the commit times of neighbours may go back in normal operation. More is the clock being set back.
const Tolerance = time.Minute

// Clock converts the commit times of one database. It is safe for concurrent use.
//
// A reading that the clock shows twice belongs to the second showing if a commit before it, in LSN order, lies more than
// a minute after the first one would: either the commit at which the mapping steps back ([Clock.Settle]) or a commit
// whose time was established before ([Clock.Remember]). Both depend on earlier commits only, so a replay agrees. What
// stays open is a commit in the second showing with no commit in almost the whole first one; it is taken for the first.
type Clock struct {
	zone Zone

	mu      sync.Mutex
	second  map[time.Time]mssqlcdc.LSN // by Repeat.At: from this LSN on, readings are of the second showing
	anchors []anchor                   // near a repetition only; ordered by LSN
}

type anchor struct {
	lsn mssqlcdc.LSN
	utc time.Time
}

// maxAnchors bounds what a clock remembers; the newest are kept.
const maxAnchors = 64

// NewClock makes a clock of the zone.
func NewClock(z Zone) *Clock {
	return &Clock{zone: z, second: map[time.Time]mssqlcdc.LSN{}}
}

// Zone is the clock's zone.
func (c *Clock) Zone() Zone { return c.zone }

// Unsettled lists the repetitions that meet the readings and whose step back is not known yet.
func (c *Clock) Unsettled(from, to time.Time) []Repeat {
	repeats := c.zone.Repeats(from, to)
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(repeats, func(r Repeat) bool {
		_, known := c.second[r.At]
		return known
	})
}

// Settle says at which LSN the mapping steps back within a repetition: the first commit, in LSN order, whose reading lies
// in it and more than [Tolerance] before its predecessor's.
func (c *Clock) Settle(r Repeat, lsn mssqlcdc.LSN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(r, lsn)
}

func (c *Clock) settle(r Repeat, lsn mssqlcdc.LSN) {
	if known, ok := c.second[r.At]; !ok || lsn.Less(known) {
		c.second[r.At] = lsn
	}
}

// Remember adds a commit time that is established. Only those near a repetition matter and are kept.
func (c *Clock) Remember(lsn mssqlcdc.LSN, utc time.Time) {
	if lsn.IsZero() || utc.IsZero() {
		return
	}
	wall := c.zone.Wall(utc)
	if len(c.zone.Repeats(wall.Add(-2*time.Hour), wall.Add(2*time.Hour))) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, found := slices.BinarySearchFunc(c.anchors, lsn, func(a anchor, l mssqlcdc.LSN) int { return a.lsn.Compare(l) })
	if found {
		return // the first word stands: it is the one that was written down
	}
	c.anchors = slices.Insert(c.anchors, i, anchor{lsn, utc.UTC()})
	if len(c.anchors) > maxAnchors {
		c.anchors = slices.Delete(c.anchors, 0, 1)
	}
}

// UTC converts the commit time of an LSN.
func (c *Clock) UTC(lsn mssqlcdc.LSN, wall time.Time) time.Time {
	instants := c.zone.Instants(wall)
	if len(instants) == 1 {
		return instants[0].UTC()
	}
	return c.choose(lsn, wall, instants[0].UTC(), instants[1].UTC())
}

func (c *Clock) choose(lsn mssqlcdc.LSN, wall, first, second time.Time) time.Time {
	repeats := c.zone.Repeats(wall, wall)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range repeats {
		if from, known := c.second[r.At]; known && !lsn.Less(from) {
			return second
		}
	}
	i, found := slices.BinarySearchFunc(c.anchors, lsn, func(a anchor, l mssqlcdc.LSN) int { return a.lsn.Compare(l) })
	if found && (c.anchors[i].utc.Equal(first) || c.anchors[i].utc.Equal(second)) {
		return c.anchors[i].utc
	}
	if i > 0 && c.anchors[i-1].utc.After(first.Add(Tolerance)) {
		// What follows in LSN order is of the second showing, too.
		for _, r := range repeats {
			c.settle(r, lsn)
		}
		return second
	}
	return first
}

// Converter converts many commit times, most of them near each other, quickly. It is not safe for concurrent use.
type Converter struct {
	clock    *Clock
	from, to int64 // readings in microseconds between which offset holds alone: from ≤ reading < to
	offset   int64 // microseconds
}

// Converter makes a converter of the clock.
func (c *Clock) Converter() *Converter { return &Converter{clock: c} }

// UTC converts a commit time given in microseconds since 1970 by the server's clock.
func (v *Converter) UTC(lsn mssqlcdc.LSN, wall int64) int64 {
	if wall >= v.from && wall < v.to {
		return wall - v.offset
	}
	reading := time.UnixMicro(wall).UTC()
	utc := v.clock.UTC(lsn, reading)
	v.widen(reading, utc)
	return utc.UnixMicro()
}

// margin keeps the quick path away from changes of the clock: no zone moved its clock by a day.
const margin = 25 * time.Hour

// widen finds the readings around this one that the same offset holds for beyond doubt.
func (v *Converter) widen(reading, utc time.Time) {
	v.from, v.to = 0, 0
	start, end := utc.In(v.clock.zone.loc).ZoneBounds()
	from, to := reading.AddDate(-50, 0, 0), reading.AddDate(50, 0, 0)
	if !start.IsZero() && start.Add(margin).After(from) {
		from = start.Add(margin)
	}
	if !end.IsZero() && end.Add(-margin).Before(to) {
		to = end.Add(-margin)
	}
	if reading.Before(from) || !reading.Before(to) {
		return
	}
	v.from, v.to = from.UnixMicro(), to.UnixMicro()
	v.offset = reading.Sub(utc).Microseconds()
}
