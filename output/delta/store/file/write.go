package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// The steps of writing an object, in order. After stepLinked the object is
// visible, after stepDone it is durable.
const (
	stepWritten  = "written"  // the temporary file is complete and synced
	stepLinked   = "linked"   // the final name exists
	stepUnlinked = "unlinked" // the temporary name is gone
	stepDone     = "done"     // the directory is synced
)

// bufferSize is how much a writer of Create collects before it calls the system.
const bufferSize = 256 << 10

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	w, err := s.create(ctx, path, len(data))
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// PutIfAbsent implements store.Store with link(2).
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	name, err := s.full(path)
	if err != nil {
		return store.NotDone(err)
	}
	if err := ctx.Err(); err != nil {
		return store.NotDone(err)
	}
	tmp, err := s.writeTemp(filepath.Dir(name), data)
	if err != nil {
		return store.NotDone(fmt.Errorf("writing %s: %w", path, err))
	}
	linkErr := os.Link(tmp, name)
	if linkErr == nil {
		linkErr = s.at(stepLinked)
	}
	// The object is there or not, whatever becomes of the temporary name; List
	// hides it and RemoveTemp collects it. So a failure here is no failure.
	_ = os.Remove(tmp)
	switch {
	case errors.Is(linkErr, fs.ErrExist):
		return fmt.Errorf("creating %s: %w", path, store.ErrExists)
	case linkErr != nil:
		return fmt.Errorf("creating %s (the file system must support hard links): %w", path, linkErr)
	}
	if err := s.at(stepUnlinked); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("syncing directory of %s: %w", path, err)
	}
	return s.at(stepDone)
}

// writeTemp writes and syncs a temporary file and returns its name. On an error
// nothing is left.
func (s *Store) writeTemp(dir string, data []byte) (string, error) {
	f, err := temp(dir)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.at(stepWritten)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, path string) (store.Writer, error) {
	w, err := s.create(ctx, path, bufferSize)
	if err != nil {
		return nil, err // and not a writer that is nil in an interface that is not
	}
	return w, nil
}

func (s *Store) create(ctx context.Context, path string, buffer int) (*writer, error) {
	name, err := s.full(path)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := temp(filepath.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	return &writer{ctx: ctx, store: s, path: path, name: name, file: f, buf: bufio.NewWriterSize(f, buffer)}, nil
}

// writer writes a temporary file and renames it on Close.
type writer struct {
	ctx   context.Context // bounds the writer's whole life, as Create says
	store *Store
	path  string
	name  string
	file  *os.File
	buf   *bufio.Writer
	done  bool
}

// Write implements store.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("writing %s: %w", w.path, os.ErrClosed)
	}
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.buf.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing %s: %w", w.path, err)
	}
	return n, nil
}

// Close implements store.Writer.
func (w *writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	if err := w.complete(); err != nil {
		// Before the rename the temporary file is left, after it nothing is.
		return errors.Join(fmt.Errorf("completing %s: %w", w.path, err), ignoreAbsent(os.Remove(w.file.Name())))
	}
	return nil
}

func (w *writer) complete() error {
	err := w.ctx.Err()
	if err == nil {
		err = w.buf.Flush()
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return err
	}
	if err := w.store.at(stepWritten); err != nil {
		return err
	}
	if err := os.Rename(w.file.Name(), w.name); err != nil {
		return err
	}
	if err := w.store.at(stepLinked); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(w.name)); err != nil {
		return err
	}
	return w.store.at(stepDone)
}

// Abort implements store.Writer.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return errors.Join(w.file.Close(), ignoreAbsent(os.Remove(w.file.Name())))
}
