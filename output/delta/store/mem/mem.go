// Package mem keeps a Delta table in memory: for tests, examples and trial runs.
package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Store is a store.Store in memory. It ends with the process.
type Store struct {
	url string

	mu      sync.RWMutex
	objects map[string]entry
}

// entry is an object; its data is never changed.
type entry struct {
	data []byte
	time time.Time
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return newAt("mem://")
}

func newAt(url string) *Store {
	return &Store{url: url, objects: map[string]entry{}}
}

// Provider opens mem: URIs. Opening one URI twice through one Provider gives the
// same store.
func Provider() store.Provider {
	var mu sync.Mutex
	stores := map[string]*Store{}
	return store.Provider{
		Schemes: []string{"mem"},
		Open: func(_ context.Context, uri string) (store.Store, error) {
			mu.Lock()
			defer mu.Unlock()
			uri = strings.TrimRight(uri, "/")
			s, ok := stores[uri]
			if !ok {
				s = newAt(uri)
				stores[uri] = s
			}
			return s, nil
		},
	}
}

// URL implements store.Store.
func (s *Store) URL() string { return s.url }

func (s *Store) find(ctx context.Context, path string) (entry, error) {
	if err := store.CheckPath(path); err != nil {
		return entry{}, err
	}
	if err := ctx.Err(); err != nil {
		return entry{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.objects[path]
	if !ok {
		return entry{}, fmt.Errorf("reading %s: %w", path, store.ErrNotFound)
	}
	return e, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, path string) ([]byte, error) {
	e, err := s.find(ctx, path)
	return slices.Clone(e.data), err
}

// Open implements store.Store.
func (s *Store) Open(ctx context.Context, path string) (store.Object, error) {
	e, err := s.find(ctx, path)
	if err != nil {
		return nil, err
	}
	return object{bytes.NewReader(e.data)}, nil
}

type object struct{ *bytes.Reader }

func (object) Close() error { return nil }

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	return s.put(ctx, path, data, true)
}

// PutIfAbsent implements store.Store.
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return s.put(ctx, path, data, false)
}

func (s *Store) put(ctx context.Context, path string, data []byte, replace bool) error {
	if err := store.CheckPath(path); err != nil {
		return store.NotDone(err)
	}
	if err := ctx.Err(); err != nil {
		return store.NotDone(err)
	}
	e := entry{data: slices.Clone(data), time: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[path]; ok && !replace {
		return fmt.Errorf("creating %s: %w", path, store.ErrExists)
	}
	s.objects[path] = e
	return nil
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, path string) (store.Writer, error) {
	if err := store.CheckPath(path); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, store: s, path: path}, nil
}

type writer struct {
	ctx   context.Context // bounds the writer's whole life, as Create says
	store *Store
	path  string
	buf   bytes.Buffer
	done  bool
}

// Write implements store.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("writing %s: %w", w.path, io.ErrClosedPipe)
	}
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.buf.Write(p)
}

// Close implements store.Writer.
func (w *writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	return w.store.Put(w.ctx, w.path, w.buf.Bytes())
}

// Abort implements store.Writer.
func (w *writer) Abort() error {
	w.done = true
	w.buf = bytes.Buffer{}
	return nil
}

// List implements store.Store. It shows the objects as they were at its start.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		s.mu.RLock()
		objects := maps.Clone(s.objects)
		s.mu.RUnlock()
		for _, path := range slices.Sorted(maps.Keys(objects)) {
			if err := ctx.Err(); err != nil {
				yield(store.Info{}, err)
				return
			}
			if !strings.HasPrefix(path, prefix) || path <= startAfter {
				continue
			}
			e := objects[path]
			if !yield(store.Info{Path: path, Size: int64(len(e.data)), ModTime: e.time}, nil) {
				return
			}
		}
	}
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := errors.Join(ctx.Err(), store.CheckPath(path)); err != nil {
			errs = append(errs, err)
			continue
		}
		s.mu.Lock()
		delete(s.objects, path)
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}
