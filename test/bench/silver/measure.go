package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// measure is what a child prints: the timed region, and the peak of resident memory up to its end.
type measure struct {
	WallSeconds float64 `json:"wall_seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	PeakRSSMB   float64 `json:"peak_rss_mb"`
	AboveMB     float64 `json:"above_mb"` // of it, what came on top of what was resident when the clock started
	Changes     int64   `json:"changes"`  // rows that were merged: the latest of each key
	Commits     int     `json:"commits"`
	// Answer is how many rows the table has afterwards, and the sum of their totals. It must be the same for both engines.
	Answer [2]int64 `json:"answer"`
}

// result is a line of the report: a case of one engine, medians over its runs.
type result struct {
	Case   string `json:"case"`
	Engine string `json:"engine"`
	measure
}

type clock struct {
	begun      time.Time
	cpu        time.Duration
	residentMB float64
}

func startClock() clock {
	return clock{time.Now(), cpuTime(), statusMB("VmRSS")}
}

func (c clock) stop() measure {
	peak := statusMB("VmHWM")
	return measure{WallSeconds: time.Since(c.begun).Seconds(), CPUSeconds: (cpuTime() - c.cpu).Seconds(), PeakRSSMB: peak, AboveMB: peak - c.residentMB}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// statusMB is a figure of /proc/self/status in 10^6 bytes, 0 where there is none.
func statusMB(name string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) > 1 && string(fields[0]) == name+":" {
			kib, err := strconv.ParseFloat(string(fields[1]), 64)
			if err != nil {
				return 0
			}
			return kib * 1024 / 1e6
		}
	}
	return 0
}

// measure prepares the tables and runs the cases, the engines in turns.
func (o options) measure(ctx context.Context) (report, error) {
	python := ""
	if o.peers {
		if python = findPython(ctx); python == "" {
			fmt.Fprintln(os.Stderr, "silver: no .interop/bin/python with deltalake here: our side alone (test/interop/setup.sh installs it)")
		}
	}
	fmt.Fprintln(os.Stderr, "silver: making the tables")
	if _, err := o.self(ctx, rolePrepare, ""); err != nil {
		return report{}, fmt.Errorf("preparing the tables: %w", err)
	}
	var r report
	for _, c := range o.chosen() {
		fmt.Fprintln(os.Stderr, "silver:", c.name)
		var ours, theirs []measure
		for range o.runs {
			one, err := o.self(ctx, roleCase, c.name)
			if err != nil {
				return r, fmt.Errorf("running case %s: %w", c.name, err)
			}
			ours = append(ours, one)
			if python == "" || !c.peer {
				continue
			}
			if one, err = o.peer(ctx, python, c); err != nil {
				return r, fmt.Errorf("running case %s with deltalake: %w", c.name, err)
			}
			theirs = append(theirs, one)
			if one.Answer != ours[0].Answer || one.Changes != ours[0].Changes {
				return r, fmt.Errorf("case %s: ours merged %d rows to %v, deltalake %d to %v", c.name, ours[0].Changes, ours[0].Answer, one.Changes, one.Answer)
			}
		}
		r.lines = append(r.lines, line{c, median(c.name, "ours", ours), median(c.name, "deltalake", theirs)})
	}
	return r, nil
}

// self runs this program again in a role.
func (o options) self(ctx context.Context, role, name string) (measure, error) {
	program, err := os.Executable()
	if err != nil {
		return measure{}, err
	}
	return child(exec.CommandContext(ctx, program, "-role", role, "-case", name, "-dir", o.dir, "-only", o.only, "-cpuprofile", o.profile,
		"-rows", fmt.Sprint(o.rows), "-changed", fmt.Sprint(o.changed), "-batch", fmt.Sprint(o.batch)))
}

// peer lets deltalake merge the changes of a case, the rows of bronze after those of the table.
func (o options) peer(ctx context.Context, python string, c benchCase) (measure, error) {
	return child(exec.CommandContext(ctx, python, filepath.Join("test", "bench", "silver", "testdata", "peer.py"), o.dir, c.bronze, fmt.Sprint(tableFiles)))
}

// child runs a process and reads the measure that it prints.
func child(cmd *exec.Cmd) (m measure, err error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return m, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		return m, fmt.Errorf("reading what the child measured: %w", err)
	}
	return m, nil
}

// median takes each figure's own median; nil if there are no runs.
func median(name, engine string, runs []measure) *result {
	if len(runs) == 0 {
		return nil
	}
	middle := func(of func(measure) float64) float64 {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = of(r)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	r := &result{Case: name, Engine: engine, measure: runs[0]}
	r.WallSeconds = middle(func(m measure) float64 { return m.WallSeconds })
	r.CPUSeconds = middle(func(m measure) float64 { return m.CPUSeconds })
	r.PeakRSSMB = middle(func(m measure) float64 { return m.PeakRSSMB })
	r.AboveMB = middle(func(m measure) float64 { return m.AboveMB })
	return r
}

// findPython is the interpreter that has deltalake, "" if there is none.
func findPython(ctx context.Context) string {
	python, err := filepath.Abs(filepath.Join(".interop", "bin", "python"))
	if err != nil {
		return ""
	}
	if err := exec.CommandContext(ctx, python, "-c", "import deltalake, pyarrow").Run(); err != nil {
		return ""
	}
	return python
}
