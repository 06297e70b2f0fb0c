package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// report is everything that was measured.
type report struct{ lines []line }

// line is a case with what each engine took; theirs is nil if it was not asked.
type line struct {
	c            benchCase
	ours, theirs *result
}

// MarshalJSON is the line of --json.
func (r report) MarshalJSON() ([]byte, error) {
	type judged struct {
		Case string `json:"case"`
		Bar  string `json:"bar"`
		Met  bool   `json:"met"`
	}
	out := struct {
		Cases []*result `json:"cases"`
		Bars  []judged  `json:"bars"`
	}{Bars: []judged{}}
	for _, l := range r.lines {
		out.Cases = append(out.Cases, l.ours)
		if l.theirs != nil {
			out.Cases = append(out.Cases, l.theirs)
		}
		for _, v := range l.judge() {
			out.Bars = append(out.Bars, judged{l.c.name, v.bar, v.met})
		}
	}
	return json.Marshal(out)
}

// table is the report for people.
func (r report) table() string {
	var b strings.Builder
	b.WriteString("Medians, ours/deltalake (ratio). above: memory above what was resident before.\n\n")
	fmt.Fprintf(&b, "%-12s %-24s %-24s %-24s %-24s %8s  %s\n", "case", "wall, s", "CPU, s", "peak, MB", "above, MB", "commits", "bar")
	for _, l := range r.lines {
		var bars []string
		for _, v := range l.judge() {
			bars = append(bars, v.String())
		}
		fmt.Fprintf(&b, "%-12s %-24s %-24s %-24s %-24s %8d  %s\n", l.c.name,
			l.pair("%.3f", func(m measure) float64 { return m.WallSeconds }),
			l.pair("%.3f", func(m measure) float64 { return m.CPUSeconds }),
			l.pair("%.0f", func(m measure) float64 { return m.PeakRSSMB }),
			l.pair("%.0f", func(m measure) float64 { return m.AboveMB }),
			l.ours.Commits, strings.Join(bars, "; "))
	}
	b.WriteString("\n")
	for _, l := range r.lines {
		fmt.Fprintf(&b, "%-12s %s: %d rows merged, %d in the table\n", l.c.name, l.c.about, l.ours.Changes, l.ours.Answer[0])
	}
	return b.String()
}

// pair is a figure of both engines with their ratio.
func (l line) pair(format string, of func(measure) float64) string {
	text := fmt.Sprintf(format, of(l.ours.measure))
	if l.theirs == nil {
		return text
	}
	theirs := of(l.theirs.measure)
	return fmt.Sprintf("%s / "+format+" (%.2f)", text, theirs, of(l.ours.measure)/max(theirs, 1e-9))
}

// verdict says whether a bar is met.
type verdict struct {
	bar string
	met bool
}

// String is the bar with MISSED if it is.
func (v verdict) String() string {
	if v.met {
		return v.bar + ": met"
	}
	return v.bar + ": MISSED"
}

func (l line) judge() (out []verdict) {
	say := func(what string, have, most float64) {
		if most > 0 {
			out = append(out, verdict{fmt.Sprintf("%s <= %g", what, most), have <= most})
		}
	}
	if l.theirs != nil {
		say("wall ratio", l.ours.WallSeconds/max(l.theirs.WallSeconds, 1e-9), l.c.bar.wallRatio)
	}
	say("peak MB", l.ours.PeakRSSMB, l.c.bar.peakMB)
	return out
}
