package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// clock adds up the timed regions of a case.
type clock struct {
	wall, cpu        time.Duration
	regions          []time.Duration
	begun            time.Time
	cpuBefore        time.Duration
	residentMB       float64
	profile          *os.File
	profileRequested string
}

// newClock is called when the input is in memory.
func newClock(profile string) *clock {
	runtime.GC()
	// The peak counts from here on; where that cannot be asked for, it is the process's.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return &clock{residentMB: statusMB("VmRSS"), profileRequested: profile}
}

func (c *clock) start() {
	if c.profileRequested != "" && c.profile == nil {
		if f, err := os.Create(c.profileRequested); err == nil && pprof.StartCPUProfile(f) == nil {
			c.profile = f
		}
	}
	c.cpuBefore, c.begun = cpuTime(), time.Now()
}

func (c *clock) stop() {
	took := time.Since(c.begun)
	c.wall += took
	c.cpu += cpuTime() - c.cpuBefore
	c.regions = append(c.regions, took)
}

// total reports the sum of the regions.
func (c *clock) total(m *measure) {
	c.memory(m)
	m.WallSeconds, m.CPUSeconds = c.wall.Seconds(), c.cpu.Seconds()
}

// each reports one operation: median of the wall time, mean of the processor time.
func (c *clock) each(m *measure) {
	c.memory(m)
	slices.Sort(c.regions)
	m.Operations = len(c.regions)
	m.WallSeconds, m.CPUSeconds = c.regions[m.Operations/2].Seconds(), c.cpu.Seconds()/float64(m.Operations)
}

func (c *clock) memory(m *measure) {
	m.AboveInputMB = statusMB("VmHWM") - c.residentMB
	if c.profile != nil {
		pprof.StopCPUProfile()
		_ = c.profile.Close() // a profile is a help, not a result
	}
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
			kib, _ := strconv.ParseFloat(string(fields[1]), 64)
			return kib * 1024 / 1e6
		}
	}
	return 0
}

// input is a batch in memory that is not the Go heap's, so that the collector's target does not grow with the input:
// what a case needs beyond it can be seen.
type input struct {
	rec arrow.RecordBatch
	mem []byte
}

func loadBatch(path string) (input, error) {
	f, err := os.Open(path)
	if err != nil {
		return input{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return input{}, err
	}
	mem, err := syscall.Mmap(-1, 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return input{}, fmt.Errorf("taking memory for %s: %w", path, err)
	}
	if _, err := f.ReadAt(mem, 0); err != nil {
		return input{}, errors.Join(err, syscall.Munmap(mem))
	}
	r, err := ipc.NewMappedFileReader(mem)
	if err != nil {
		return input{}, fmt.Errorf("reading %s: %w", path, err)
	}
	rec, err := r.RecordBatchAt(0)
	if err != nil {
		return input{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return input{rec: rec, mem: mem}, nil
}

// free gives the memory back; the batch must not be used any more.
func (in input) free() error { return syscall.Munmap(in.mem) }
