package target

import (
	"context"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// marking is a store for data files whose errors can be told from those about the
// rows.
type marking struct{ store.Store }

// storeFault is an error of the store. It reads like that error.
type storeFault struct{ err error }

func (e *storeFault) Error() string { return e.err.Error() }
func (e *storeFault) Unwrap() error { return e.err }

func mark(err error) error {
	if err == nil {
		return nil
	}
	return &storeFault{err}
}

// Create implements data.Store.
func (s marking) Create(ctx context.Context, path string) (store.Writer, error) {
	w, err := s.Store.Create(ctx, path)
	if err != nil {
		return nil, mark(err)
	}
	return markingWriter{w}, nil
}

type markingWriter struct{ w store.Writer }

func (m markingWriter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	return n, mark(err)
}

func (m markingWriter) Close() error { return mark(m.w.Close()) }
func (m markingWriter) Abort() error { return mark(m.w.Abort()) }
