package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// The engines.
const (
	engineOurs = "delta-go"
	enginePeer = "deltalake"
)

// measure is what a child prints: the timed region only.
type measure struct {
	Rows int `json:"rows"`
	// WallSeconds and CPUSeconds are of the whole region, or, if Operations is set, of one operation: the median and the mean.
	WallSeconds float64 `json:"wall_seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	Operations  int     `json:"operations,omitempty"`
	// AboveInputMB is the peak of resident memory above what was resident when the clock started.
	AboveInputMB float64 `json:"above_input_mb"`
	// Bytes are those of the data files written, or of the checkpoint.
	Bytes int64 `json:"bytes"`
	// Answer is what the case found: rows, files or versions. It must be the same for both engines.
	Answer int64 `json:"answer"`
}

// result is a line of the report: a case of one engine, medians over its runs.
type result struct {
	Case   string `json:"case"`
	Engine string `json:"engine"`
	measure
	PeakRSSMB float64 `json:"peak_rss_mb"`
}

// measure prepares the inputs and runs the cases, the engines in turns.
func (o options) measure(ctx context.Context) (report, error) {
	python := ""
	if o.peers {
		if python = findPython(); python == "" {
			fmt.Fprintln(os.Stderr, "delta: no .interop/bin/python with deltalake here: our side alone (test/interop/setup.sh installs it)")
		}
	}
	if _, err := o.self(ctx, rolePrepare, ""); err != nil {
		return report{}, fmt.Errorf("preparing the inputs: %w", err)
	}
	var r report
	for _, c := range o.chosen() {
		fmt.Fprintln(os.Stderr, "delta:", c.name)
		var ours, theirs []result
		for range o.runs {
			one, err := o.self(ctx, roleCase, c.name)
			if err != nil {
				return r, fmt.Errorf("running case %s: %w", c.name, err)
			}
			ours = append(ours, one)
			if python == "" || c.peer == nil {
				continue
			}
			one, err = o.peer(ctx, python, c)
			if err != nil {
				return r, fmt.Errorf("running case %s with deltalake: %w", c.name, err)
			}
			theirs = append(theirs, one)
			if one.Answer != ours[0].Answer {
				return r, fmt.Errorf("case %s: ours found %d, deltalake %d", c.name, ours[0].Answer, one.Answer)
			}
		}
		r.add(c, median(c.name, engineOurs, ours), median(c.name, enginePeer, theirs))
	}
	return r, nil
}

// self runs this program again in a role.
func (o options) self(ctx context.Context, role, name string) (result, error) {
	program, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	return child(exec.CommandContext(ctx, program, "-role", role, "-case", name, "-dir", o.dir, "-shm", o.shm,
		"-rows", fmt.Sprint(o.rows), "-only", o.only, "-cpuprofile", o.profile))
}

// peer runs a case with deltalake.
func (o options) peer(ctx context.Context, python string, c benchCase) (result, error) {
	dir := o.dir
	if c.inMemory {
		dir = o.shm
	}
	args := append([]string{filepath.Join("test", "bench", "delta", "testdata", "peers.py"), dir}, c.peer...)
	return child(exec.CommandContext(ctx, python, args...))
}

// child runs a process and reads the measure that it prints.
func child(cmd *exec.Cmd) (result, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return result{}, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r.measure); err != nil {
		return result{}, fmt.Errorf("reading what the child measured: %w", err)
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.PeakRSSMB = float64(usage.Maxrss) * 1024 / 1e6 // Linux counts in KiB
	}
	return r, nil
}

// median takes each figure's own median; nil if there are no runs.
func median(name, engine string, runs []result) *result {
	if len(runs) == 0 {
		return nil
	}
	middle := func(of func(result) float64) float64 {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = of(r)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	m := runs[0]
	m.Case, m.Engine = name, engine
	m.WallSeconds = middle(func(r result) float64 { return r.WallSeconds })
	m.CPUSeconds = middle(func(r result) float64 { return r.CPUSeconds })
	m.AboveInputMB = middle(func(r result) float64 { return r.AboveInputMB })
	m.PeakRSSMB = middle(func(r result) float64 { return r.PeakRSSMB })
	m.Bytes = int64(middle(func(r result) float64 { return float64(r.Bytes) }))
	return &m
}

// findPython is the interpreter that has deltalake, "" if there is none.
func findPython() string {
	python, err := filepath.Abs(filepath.Join(".interop", "bin", "python"))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(python); err != nil {
		return ""
	}
	var failed *exec.ExitError
	if err := exec.Command(python, "-c", "import deltalake, pyarrow").Run(); errors.As(err, &failed) || err != nil {
		return ""
	}
	return python
}
