// Package fault wraps a store so that tests can make it fail, lose answers, or
// run something in the middle of an operation. It is for tests only.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// ErrInjected is in the chain of every error this package makes up.
var ErrInjected = errors.New("injected fault")

// Op names an operation of store.Store.
type Op string

// The operations. Close is the one of a Writer, Read the one of an Object.
const (
	Get         Op = "get"
	Open        Op = "open"
	Read        Op = "read"
	Put         Op = "put"
	PutIfAbsent Op = "put-if-absent"
	Create      Op = "create"
	Close       Op = "close"
	List        Op = "list"
	Delete      Op = "delete"
)

// Call is one operation. For Delete, Path is the first of the paths.
type Call struct {
	Op   Op
	Path string
	// N counts the calls with this Op on this Path from 1.
	N int
}

// String is the call as one word pair.
func (c Call) String() string { return string(c.Op) + " " + c.Path }

// Fault is what happens to a call. The zero Fault lets it pass.
type Fault struct {
	// Run, if not nil, is called before the operation.
	Run func(ctx context.Context)
	// Before is returned instead of doing the operation.
	Before error
	// After is returned after the operation succeeded: a lost answer.
	After error
	// Late, with Before, keeps a Put or PutIfAbsent and does it when Land is
	// called: a request that was still on its way when the client gave up.
	Late bool
}

// Store is the wrapper.
type Store struct {
	inner  store.Store
	decide func(Call) Fault

	mu    sync.Mutex
	count map[Call]int
	calls []Call
	late  []func(context.Context) error
}

var _ store.Store = (*Store)(nil)

// Wrap returns a store that asks decide before each call. decide may be called
// concurrently; nil lets everything pass.
func Wrap(inner store.Store, decide func(Call) Fault) *Store {
	if decide == nil {
		decide = func(Call) Fault { return Fault{} }
	}
	return &Store{inner: inner, decide: decide, count: map[Call]int{}}
}

// Random decides by chance: with probability rate a call fails before it is
// done, or, half the time, after. The same seed gives the same sequence as long
// as the calls come in the same order.
func Random(seed uint64, rate float64) func(Call) Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(c Call) Fault {
		mu.Lock()
		defer mu.Unlock()
		if rng.Float64() >= rate {
			return Fault{}
		}
		err := fmt.Errorf("%w: %s", ErrInjected, c)
		if rng.IntN(2) == 0 {
			return Fault{Before: err}
		}
		return Fault{After: err}
	}
}

// Calls returns the calls made so far whose path contains part, in order.
func (s *Store) Calls(part string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if strings.Contains(c.Path, part) {
			out = append(out, c)
		}
	}
	return out
}

// Reset forgets the calls made so far.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.count = nil, map[Call]int{}
}

// Land does the writes that were kept as late, in order.
func (s *Store) Land(ctx context.Context) error {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	var errs []error
	for _, write := range late {
		errs = append(errs, write(ctx))
	}
	return errors.Join(errs...)
}

// do runs one operation under its fault.
func (s *Store) do(ctx context.Context, op Op, path string, run func(context.Context) error) error {
	s.mu.Lock()
	key := Call{Op: op, Path: path}
	s.count[key]++
	call := Call{Op: op, Path: path, N: s.count[key]}
	s.calls = append(s.calls, call)
	s.mu.Unlock()

	f := s.decide(call)
	if f.Run != nil {
		f.Run(ctx)
	}
	if f.Before != nil {
		if f.Late {
			s.mu.Lock()
			s.late = append(s.late, run)
			s.mu.Unlock()
		}
		return f.Before
	}
	if err := run(ctx); err != nil {
		return err
	}
	return f.After
}

// URL implements store.Store.
func (s *Store) URL() string { return s.inner.URL() }

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, path string) (data []byte, err error) {
	err = s.do(ctx, Get, path, func(ctx context.Context) (err error) {
		data, err = s.inner.Get(ctx, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	return s.do(ctx, Put, path, func(ctx context.Context) error { return s.inner.Put(ctx, path, data) })
}

// PutIfAbsent implements store.Store.
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return s.do(ctx, PutIfAbsent, path, func(ctx context.Context) error { return s.inner.PutIfAbsent(ctx, path, data) })
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, paths ...string) error {
	if len(paths) == 0 {
		return nil
	}
	return s.do(ctx, Delete, paths[0], func(ctx context.Context) error { return s.inner.Delete(ctx, paths...) })
}

// List implements store.Store. A fault shows at the start of the listing.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		err := s.do(ctx, List, prefix, func(context.Context) error { return nil })
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		s.inner.List(ctx, prefix, startAfter)(yield)
	}
}

// Open implements store.Store.
func (s *Store) Open(ctx context.Context, path string) (store.Object, error) {
	var obj store.Object
	err := s.do(ctx, Open, path, func(ctx context.Context) (err error) {
		obj, err = s.inner.Open(ctx, path)
		return err
	})
	if err != nil {
		if obj != nil {
			err = errors.Join(err, obj.Close())
		}
		return nil, err
	}
	return &object{Object: obj, ctx: ctx, store: s, path: path}, nil
}

type object struct {
	store.Object
	ctx   context.Context // covers every later read, as Open says
	store *Store
	path  string
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	eof := false
	err = o.store.do(o.ctx, Read, o.path, func(context.Context) (err error) {
		n, err = o.Object.ReadAt(p, off)
		if errors.Is(err, io.EOF) {
			eof, err = true, nil
		}
		return err
	})
	if err == nil && eof {
		err = io.EOF
	}
	return n, err
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, path string) (store.Writer, error) {
	var w store.Writer
	err := s.do(ctx, Create, path, func(ctx context.Context) (err error) {
		w, err = s.inner.Create(ctx, path)
		return err
	})
	if err != nil {
		if w != nil {
			err = errors.Join(err, w.Abort())
		}
		return nil, err
	}
	return &writer{Writer: w, ctx: ctx, store: s, path: path}, nil
}

type writer struct {
	store.Writer
	ctx   context.Context // covers the writing up to Close, as Create says
	store *Store
	path  string
	done  bool
}

// Close implements store.Writer. A fault before it gives the object up.
func (w *writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	ran := false
	err := w.store.do(w.ctx, Close, w.path, func(context.Context) error {
		ran = true
		return w.Writer.Close()
	})
	if !ran {
		err = errors.Join(err, w.Writer.Abort())
	}
	return err
}

// Abort implements store.Writer.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return w.Writer.Abort()
}
