// Package zone turns commit times of SQL Server into UTC. cdc.lsn_time_mapping holds them as readings of the server's
// wall clock, without a zone; LSN order, not they, says what came first.
//
// Three things make the conversion more than a subtraction: the server names its zone by its Windows name; a reading is
// ambiguous in the hour that is repeated when the clock is set back; and an answer once given must be given again when
// the same window is replayed, or a verdict and the rows under it would disagree. [Clock] answers from the zone's rules,
// from the LSN at which the repetition began, and from commit times that were established before.
//
// The zone data is built in, so that the rules are there in a container without any.
package zone

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the rules, where the machine has none
)

// Zone is a set of rules for a wall clock.
type Zone struct {
	name string
	loc  *time.Location
}

// UTC is the zone without rules.
func UTC() Zone { return Zone{name: "UTC", loc: time.UTC} }

// Parse reads a Windows zone name in any case, an IANA name, or an offset such as +05:30.
func Parse(text string) (Zone, error) {
	name := strings.TrimSpace(text)
	if strings.EqualFold(name, "UTC") || strings.EqualFold(name, "Coordinated Universal Time") {
		return UTC(), nil
	}
	if offset, ok := parseOffset(name); ok {
		return Fixed(offset), nil
	}
	iana, known := windowsZone(name)
	if !known {
		iana = name
	}
	// "Local" would be this machine's zone, which says nothing about the server's.
	if iana == "" || strings.EqualFold(iana, "local") {
		return Zone{}, fmt.Errorf("unknown time zone %q: want a Windows name (W. Europe Standard Time), an IANA name (Europe/Berlin) or an offset (+01:00)", text)
	}
	loc, err := time.LoadLocation(iana)
	if err != nil {
		return Zone{}, fmt.Errorf("unknown time zone %q: want a Windows name (W. Europe Standard Time), an IANA name (Europe/Berlin) or an offset (+01:00)", text)
	}
	return Zone{name: name, loc: loc}, nil
}

// Fixed is a zone that is always the same distance ahead of UTC.
func Fixed(offset time.Duration) Zone {
	name := formatOffset(offset)
	return Zone{name: name, loc: time.FixedZone(name, int(offset/time.Second))}
}

// String is the name that the zone was made from.
func (z Zone) String() string { return z.name }

// Wall is what the clock shows at an instant, as a time whose UTC fields are the reading.
func (z Zone) Wall(instant time.Time) time.Time {
	return instant.UTC().Add(z.offsetAt(instant))
}

func (z Zone) offsetAt(instant time.Time) time.Duration {
	_, seconds := instant.In(z.loc).Zone()
	return time.Duration(seconds) * time.Second
}

// Instants gives the instants at which the clock shows a reading, in order. There is one, two where the clock is set back,
// and one where it is set forward over the reading: then the offset before the change counts, as AT TIME ZONE has it.
func (z Zone) Instants(wall time.Time) []time.Time {
	wall = wall.UTC()
	guess := wall.Add(-z.offsetAt(wall))
	start, end := guess.In(z.loc).ZoneBounds()
	var found []time.Time
	if !start.IsZero() {
		if before := wall.Add(-z.offsetAt(start.Add(-time.Nanosecond))); before.Before(start) {
			found = append(found, before)
		}
	}
	here := wall.Add(-z.offsetAt(guess))
	if !here.Before(start) && (end.IsZero() || here.Before(end)) {
		found = append(found, here)
	}
	if !end.IsZero() {
		if after := wall.Add(-z.offsetAt(end)); !after.Before(end) {
			found = append(found, after)
		}
	}
	if len(found) == 0 {
		return []time.Time{z.skipped(wall, guess, start, end)}
	}
	return found
}

// skipped converts a reading that the clock never shows. guess lies in the zone period [start, end), next to the gap.
func (z Zone) skipped(wall, guess, start, end time.Time) time.Time {
	here := wall.Add(-z.offsetAt(guess))
	if !end.IsZero() && !here.Before(end) {
		return here // guess is the period before the gap
	}
	return wall.Add(-z.offsetAt(start.Add(-time.Nanosecond)))
}

// Repeat is a stretch of wall clock that is shown twice.
type Repeat struct {
	At       time.Time // the instant at which the clock is set back, UTC
	From, To time.Time // the readings shown twice: From ≤ reading < To
}

// Repeats lists the repetitions whose readings meet the closed interval of readings, in order.
func (z Zone) Repeats(from, to time.Time) []Repeat {
	var found []Repeat
	instant := from.UTC().Add(-36 * time.Hour) // before the earliest instant that could show from
	for {
		_, end := instant.In(z.loc).ZoneBounds()
		if end.IsZero() || end.UTC().Add(-24*time.Hour).After(to.UTC()) {
			return found
		}
		before, after := z.offsetAt(end.Add(-time.Nanosecond)), z.offsetAt(end)
		if after < before {
			r := Repeat{At: end.UTC(), From: end.UTC().Add(after), To: end.UTC().Add(before)}
			if r.From.Compare(to.UTC()) <= 0 && r.To.After(from.UTC()) {
				found = append(found, r)
			}
		}
		instant = end
	}
}

// Early is the latest reading that the clock surely did not show after the instant, in whole seconds: for asking
// sys.fn_cdc_map_time_to_lsn, which knows readings only, so that the answer errs early in the hour before the clock is
// set back.
func (z Zone) Early(instant time.Time) time.Time {
	wall := z.Wall(instant)
	if later := z.Wall(instant.Add(time.Hour)).Add(-time.Hour); later.Before(wall) {
		wall = later
	}
	return wall.Truncate(time.Second)
}

func parseOffset(text string) (time.Duration, bool) {
	if len(text) != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':' {
		return 0, false
	}
	hours, err1 := strconv.ParseUint(text[1:3], 10, 8)
	minutes, err2 := strconv.ParseUint(text[4:], 10, 8)
	if err1 != nil || err2 != nil || hours > 14 || minutes > 59 {
		return 0, false
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}

func formatOffset(offset time.Duration) string {
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	minutes := int(offset / time.Minute)
	return fmt.Sprintf("%c%02d:%02d", sign, minutes/60, minutes%60)
}
