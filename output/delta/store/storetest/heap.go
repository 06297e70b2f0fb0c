package storetest

import (
	"context"
	"runtime"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// HeapSampler is a store that looks at the heap while files are written: every
// 512 KiB of one. It is used from one goroutine at a time.
type HeapSampler struct {
	store.Store
	Peak uint64 // bytes
}

// Create creates a file whose writes are watched.
func (s *HeapSampler) Create(ctx context.Context, path string) (store.Writer, error) {
	w, err := s.Store.Create(ctx, path)
	return &sampledWriter{Writer: w, s: s}, err
}

type sampledWriter struct {
	store.Writer
	s       *HeapSampler
	written int
}

func (w *sampledWriter) Write(p []byte) (int, error) {
	if w.written += len(p); w.written >= 512<<10 {
		w.written = 0
		w.s.Peak = max(w.s.Peak, LiveHeap())
	}
	return w.Writer.Write(p)
}

// LiveHeap is how many bytes are in use after a collection.
func LiveHeap() uint64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
