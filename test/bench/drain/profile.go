package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"sync"
	"time"
)

// startProfile begins the profiles of the client; the function that it returns writes them.
func (o options) startProfile() (stop func() error, err error) {
	if o.profile == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(o.profile, 0o755); err != nil {
		return nil, err
	}
	cpu, err := os.Create(filepath.Join(o.profile, "cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watch heapWatch
	watch.group.Go(func() { watch.run(ctx) })
	return func() error {
		pprof.StopCPUProfile()
		cancel()
		watch.group.Wait()
		allocs, err := os.Create(filepath.Join(o.profile, "allocs.pprof"))
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close(), watch.write(o.profile))
	}, nil
}

// heapWatch keeps the heap profile of the collection that left the most alive, and says
// what the process was made of then.
type heapWatch struct {
	group   sync.WaitGroup
	most    uint64
	profile bytes.Buffer
	memory  string
	err     error
}

// run looks after each collection.
func (w *heapWatch) run(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	var seen uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		cycle, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
		if cycle == seen {
			continue
		}
		if seen = cycle; live > w.most {
			w.most = live
			w.profile.Reset()
			w.err = pprof.Lookup("heap").WriteTo(&w.profile, 0)
			w.memory = memoryText(live)
		}
	}
}

// memoryText says what the runtime has of the system, in 10^6 bytes.
func memoryText(live uint64) string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("alive after the collection %.1f MB; heap in use %.1f, kept idle %.1f; stacks %.1f; the collector's own %.1f; other of the runtime %.1f\n",
		mb(live), mb(m.HeapInuse), mb(m.HeapIdle-m.HeapReleased), mb(m.StackInuse), mb(m.GCSys), mb(m.OtherSys+m.BuckHashSys+m.MSpanSys+m.MCacheSys))
}

func mb(n uint64) float64 { return float64(n) / 1e6 }

func (w *heapWatch) write(dir string) error {
	return errors.Join(w.err,
		os.WriteFile(filepath.Join(dir, "heap.pprof"), w.profile.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "memory.txt"), []byte(w.memory), 0o644))
}
