package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// abortTime is how long a Writer whose context has ended may take to remove what it
// has sent.
const abortTime = 15 * time.Second

// Create implements store.Store. Up to one part is kept in memory and written by
// Close; from then on one part is sent while the next one fills. What a program
// that is killed has sent stays in the service, which can be told to delete
// unfinished uploads after some days.
func (s *Store) Create(ctx context.Context, path string) (store.Writer, error) {
	key, err := s.key(path)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, s: s, path: path, key: key}, nil
}

// writer is an object being written.
type writer struct {
	ctx  context.Context // covers the writing up to Close, as Create says
	s    *Store
	path string
	key  string

	buf    []byte // at most one part
	spare  []byte // the buffer of the part handed over last
	upload Upload // nil while there is only one part
	mark   string
	parts  int        // handed over
	flight chan error // the outcome of the part being sent; nil if none is

	err  error // the first error of a part
	done bool
}

// Write implements store.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("writing %s: %w", w.path, os.ErrClosed)
	}
	n := 0
	for n < len(p) {
		if err := errors.Join(w.err, w.ctx.Err()); err != nil {
			return n, fmt.Errorf("writing %s: %w", w.path, err)
		}
		room := w.s.o.PartBytes - len(w.buf)
		if room == 0 {
			// The buffer is handed over only when more comes: the last part must not
			// be empty.
			if w.err = w.send(); w.err != nil {
				return n, fmt.Errorf("writing %s: %w", w.path, w.err)
			}
			continue
		}
		chunk := p[n:min(len(p), n+room)]
		w.buf = append(w.buf, chunk...)
		n += len(chunk)
	}
	return n, nil
}

// send hands the full buffer over to a goroutine, after the one before.
func (w *writer) send() error {
	if err := w.wait(); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	data, n := w.buf, w.parts
	w.buf, w.spare = w.spare[:0], data
	w.parts++
	flight := make(chan error, 1)
	w.flight = flight
	go func() { flight <- w.part(n, data, false) }()
	return nil
}

// start begins the upload if there is none.
func (w *writer) start() error {
	if w.upload != nil {
		return nil
	}
	w.mark = w.s.o.NewID()
	return w.s.retry(w.ctx, func(ctx context.Context) (err error) {
		w.upload, err = w.s.b.Upload(ctx, w.key, w.mark)
		return err
	})
}

func (w *writer) part(n int, data []byte, last bool) error {
	return w.s.retry(w.ctx, func(ctx context.Context) error { return w.upload.Part(ctx, n, data, last) })
}

// wait waits for the part being sent, if one is.
func (w *writer) wait() error {
	if w.flight == nil {
		return nil
	}
	err := <-w.flight
	w.flight = nil
	return err
}

// Close implements store.Writer.
func (w *writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	err := errors.Join(w.err, w.wait(), w.ctx.Err())
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		err = errors.Join(err, w.remove())
	}
	w.buf, w.spare = nil, nil
	return explain("completing", w.path, err)
}

func (w *writer) finish() error {
	if w.upload == nil {
		return w.s.retry(w.ctx, func(ctx context.Context) error { return w.s.b.Put(ctx, w.key, w.buf, PutOptions{}) })
	}
	if err := w.part(w.parts, w.buf, true); err != nil {
		return err
	}
	return w.complete()
}

// complete makes the object. An upload that is gone after an answer was lost has
// been completed: then the object has its mark.
func (w *writer) complete() error {
	open := false
	return w.s.retry(w.ctx, func(ctx context.Context) error {
		err := w.upload.Complete(ctx)
		if err == nil {
			return nil
		}
		if open && effectOf(err) == none {
			if mark, markErr := w.s.b.Mark(ctx, w.key); markErr == nil && mark == w.mark {
				return nil
			}
		}
		open = open || effectOf(err) == unknown
		return err
	})
}

// Abort implements store.Writer.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	_ = w.wait() // whether the part arrived or not, it is removed
	err := w.remove()
	w.buf, w.spare = nil, nil
	return explain("giving up", w.path, err)
}

// remove removes what was sent. The writer's context may have ended.
func (w *writer) remove() error {
	if w.upload == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTime)
	defer cancel()
	err := w.s.retry(ctx, func(ctx context.Context) error { return w.upload.Abort(ctx) })
	var response *ResponseError
	if errors.As(err, &response) && response.Kind == Absent {
		return nil
	}
	return err
}
