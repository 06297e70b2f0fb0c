package zone_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

func lsn(n int) mssqlcdc.LSN {
	var l mssqlcdc.LSN
	binary.BigEndian.PutUint32(l[4:], uint32(n))
	return l
}

// commit is one entry of the mapping: when it happened, and what the server wrote.
type commit struct {
	lsn  mssqlcdc.LSN
	utc  time.Time
	wall time.Time
}

// history makes commits at the given distances, as a server of the zone writes them.
func history(z zone.Zone, start time.Time, distances []time.Duration) []commit {
	var commits []commit
	instant := start
	for i, distance := range distances {
		instant = instant.Add(distance)
		commits = append(commits, commit{lsn(10 + 10*i), instant, z.Wall(instant)})
	}
	return commits
}

// settle does what the client does: finds the first step back in the mapping.
func settle(c *zone.Clock, commits []commit) {
	if len(commits) == 0 {
		return
	}
	for _, r := range c.Unsettled(commits[0].wall.AddDate(0, 0, -1), commits[len(commits)-1].wall.AddDate(0, 0, 1)) {
		var before *commit
		for _, one := range commits {
			if one.wall.Before(r.From) || !one.wall.Before(r.To) {
				continue
			}
			if before != nil && before.wall.Sub(one.wall) > zone.Tolerance {
				c.Settle(r, one.lsn)
				break
			}
			before = &one
		}
	}
}

// dense draws commits over six hours around a change of the clock, never further apart than the server's idle entries.
func dense(t *rapid.T, z zone.Zone) []commit {
	year := rapid.IntRange(2000, 2018).Draw(t, "year")
	repeats := z.Repeats(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC))
	start := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
	if len(repeats) > 0 {
		start = repeats[0].At.Add(-3 * time.Hour)
	}
	n := rapid.IntRange(80, 120).Draw(t, "commits")
	distances := make([]time.Duration, n)
	for i := range distances {
		distances[i] = time.Duration(rapid.Int64Range(0, 5*60).Draw(t, "seconds")) * time.Second
	}
	return history(z, start, distances)
}

// TestClockReadsBackEveryCommit is the promise: with commits at least every five minutes, every time is what it was.
func TestClockReadsBackEveryCommit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := parse(t, rapid.SampledFrom(zones()).Draw(t, "zone"))
		commits := dense(t, z)
		c := zone.NewClock(z)
		settle(c, commits)
		converter := c.Converter()
		for _, one := range commits {
			got := c.UTC(one.lsn, one.wall)
			if !got.Equal(one.utc) {
				t.Fatalf("%s: %s is %s, want %s", z, one.wall, got, one.utc)
			}
			if quick := converter.UTC(one.lsn, one.wall.UnixMicro()); quick != one.utc.UnixMicro() {
				t.Fatalf("%s: converter: %s is %s, want %s", z, one.wall, time.UnixMicro(quick).UTC(), one.utc)
			}
		}
	})
}

// TestClockWithAnchorNeedsNoMapping is the case of clean-up: the commits before the resume position are gone.
func TestClockWithAnchorNeedsNoMapping(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := parse(t, rapid.SampledFrom(zones()).Draw(t, "zone"))
		commits := dense(t, z)
		from := rapid.IntRange(0, len(commits)-1).Draw(t, "resume at")
		c := zone.NewClock(z)
		settle(c, commits[from+1:])
		c.Remember(commits[from].lsn, commits[from].utc)
		for i, one := range commits[from:] {
			got := c.UTC(one.lsn, one.wall)
			// As the client does for each window end.
			c.Remember(one.lsn, got)
			if !got.Equal(one.utc) {
				t.Fatalf("%s: commit %d after the resume position: %s is %s, want %s", z, i, one.wall, got, one.utc)
			}
		}
	})
}

// TestClockIsStableUnderReplay asks again in another order, with more known.
func TestClockIsStableUnderReplay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := parse(t, rapid.SampledFrom(zones()).Draw(t, "zone"))
		commits := dense(t, z)
		first := zone.NewClock(z)
		var given []time.Time
		for i, one := range commits {
			settle(first, commits[:i+1]) // the mapping as it was then
			given = append(given, first.UTC(one.lsn, one.wall))
			first.Remember(one.lsn, given[i])
		}
		again := zone.NewClock(z)
		settle(again, commits)
		for i := len(commits) - 1; i >= 0; i-- {
			if got := again.UTC(commits[i].lsn, commits[i].wall); !got.Equal(given[i]) {
				t.Fatalf("%s: commit %d was %s, is %s in the replay", z, i, given[i], got)
			}
		}
	})
}

func TestClockTakesSmallStepsBackAsNoise(t *testing.T) {
	t.Parallel()
	c := zone.NewClock(parse(t, "Europe/Berlin"))
	c.Remember(lsn(1), at(t, "2025-10-26 00:30:30"))
	require.Equal(t, at(t, "2025-10-26 00:30:00"), c.UTC(lsn(2), at(t, "2025-10-26 02:30:00")), "half a minute back is a clock being adjusted")
	require.Equal(t, at(t, "2025-10-26 01:29:00"), c.UTC(lsn(2), at(t, "2025-10-26 02:29:00")), "a minute and a half back is the second showing")
}

func TestClockRemembersTheAnchorItself(t *testing.T) {
	t.Parallel()
	c := zone.NewClock(parse(t, "Europe/Berlin"))
	c.Remember(lsn(5), at(t, "2025-10-26 01:30:00"))
	require.Equal(t, at(t, "2025-10-26 01:30:00"), c.UTC(lsn(5), at(t, "2025-10-26 02:30:00")))
	require.Equal(t, at(t, "2025-10-26 00:30:00"), c.UTC(lsn(4), at(t, "2025-10-26 02:30:00")), "an earlier commit is not moved by a later one")
	c.Remember(lsn(5), at(t, "2025-10-26 00:30:00"))
	require.Equal(t, at(t, "2025-10-26 01:30:00"), c.UTC(lsn(5), at(t, "2025-10-26 02:30:00")), "the first word stands")
}

func TestClockUnsettled(t *testing.T) {
	t.Parallel()
	c := zone.NewClock(parse(t, "Europe/Berlin"))
	from, to := at(t, "2025-01-01 00:00:00"), at(t, "2025-12-31 00:00:00")
	repeats := c.Unsettled(from, to)
	require.Len(t, repeats, 1)
	c.Settle(repeats[0], lsn(7))
	require.Empty(t, c.Unsettled(from, to))
	require.Equal(t, at(t, "2025-10-26 01:30:00"), c.UTC(lsn(7), at(t, "2025-10-26 02:30:00")))
	require.Equal(t, at(t, "2025-10-26 00:30:00"), c.UTC(lsn(6), at(t, "2025-10-26 02:30:00")))
}

func BenchmarkConverter(b *testing.B) {
	z, err := zone.Parse("Europe/Berlin")
	require.NoError(b, err)
	converter := zone.NewClock(z).Converter()
	wall := time.Date(2025, 7, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	l := lsn(1)
	for b.Loop() {
		wall += 3333
		converter.UTC(l, wall)
	}
}
