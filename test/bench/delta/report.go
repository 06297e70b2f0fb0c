package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// report is everything that was measured.
type report struct {
	results []result
	lines   []reportLine
}

// reportLine is a case with what each engine took.
type reportLine struct {
	c            benchCase
	ours, theirs *result
}

func (r *report) add(c benchCase, ours, theirs *result) {
	for _, one := range []*result{ours, theirs} {
		if one != nil {
			r.results = append(r.results, *one)
		}
	}
	r.lines = append(r.lines, reportLine{c, ours, theirs})
}

// MarshalJSON is the line of --json.
func (r report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Cases []result `json:"cases"`
	}{r.results})
}

// table is the report for people.
func (r report) table() string {
	var b strings.Builder
	b.WriteString("Medians. CPU and wall are of the timed region; of one operation in the commit cases. above: memory above the live input. ours/peer (ratio).\n\n")
	fmt.Fprintf(&b, "%-18s %-24s %-24s %-22s %-22s %s\n", "case", "CPU", "wall", "above, MB", "bytes, MB", "bar")
	for _, l := range r.lines {
		fmt.Fprintf(&b, "%-18s %-24s %-24s %-22s %-22s %s\n", l.c.name,
			l.pair(seconds, func(m measure) float64 { return m.CPUSeconds }),
			l.pair(seconds, func(m measure) float64 { return m.WallSeconds }),
			l.pair(plain, func(m measure) float64 { return m.AboveInputMB }),
			l.pair(plain, func(m measure) float64 { return float64(m.Bytes) / 1e6 }),
			strings.Join(l.judge(), "; "))
	}
	b.WriteString("\n")
	for _, l := range r.lines {
		fmt.Fprintf(&b, "%-18s %s\n", l.c.name, l.c.about)
	}
	return b.String()
}

func seconds(v float64) string {
	if v < 0.1 {
		return fmt.Sprintf("%.2f ms", v*1000)
	}
	return fmt.Sprintf("%.2f s", v)
}

func plain(v float64) string { return fmt.Sprintf("%.1f", v) }

// pair is a figure of both engines with their ratio.
func (l reportLine) pair(format func(float64) string, of func(measure) float64) string {
	text := format(of(l.ours.measure))
	if l.theirs == nil {
		return text
	}
	text += " / " + format(of(l.theirs.measure))
	if theirs := of(l.theirs.measure); theirs > 0 {
		text += fmt.Sprintf(" (%.2f)", of(l.ours.measure)/theirs)
	}
	return text
}

// judge says of each bar whether it is met.
func (l reportLine) judge() []string {
	var out []string
	say := func(what string, have, want float64) {
		if want == 0 {
			return
		}
		verdict := "met"
		if have > want {
			verdict = "MISSED"
		}
		out = append(out, fmt.Sprintf("%s <= %g: %s", what, want, verdict))
	}
	bar, ours := l.c.bar, l.ours.measure
	if l.theirs != nil {
		theirs := l.theirs.measure
		say("CPU ratio", ours.CPUSeconds/theirs.CPUSeconds, bar.cpuRatio)
		say("wall ratio", ours.WallSeconds/theirs.WallSeconds, bar.wallRatio)
		say("bytes ratio", float64(ours.Bytes)/float64(max(1, theirs.Bytes)), bar.bytesRatio)
	}
	say("MB above input", ours.AboveInputMB, bar.aboveInputMB)
	say("ms", ours.WallSeconds*1000, bar.milliseconds)
	return out
}
