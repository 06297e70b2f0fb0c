// Package store is the contract between the Delta library and the place where a
// table's objects live: a local directory, memory, or an object store.
//
// The contract is small on purpose. A Delta table needs exactly one operation
// that is not plain reading and writing: creating an object only if it is not
// there yet. A commit to a Delta table is one such create, so everything the
// library promises about concurrent writers rests on PutIfAbsent.
//
// Package storetest holds the suite every implementation must pass.
package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

var (
	// ErrNotFound reports that an object does not exist. Get and Open return it
	// only when the store itself said so; a network or permission failure is
	// never reported as absence, because absence of the next commit means "this
	// is the newest version".
	ErrNotFound = errors.New("object not found")

	// ErrExists is returned by PutIfAbsent when the object certainly existed
	// before the call. The existing object may still be the caller's own, written
	// by an earlier attempt whose answer was lost: whoever cares reads it back.
	ErrExists = errors.New("object already exists")

	// ErrNotDone may be in the chain of an error of PutIfAbsent: the call
	// certainly had no effect and never will have. See NotDone.
	ErrNotDone = errors.New("nothing was written")
)

// NotDone marks the error of a call that certainly had no effect. The text is
// that of err.
func NotDone(err error) error { return notDone{err} }

type notDone struct{ error }

func (n notDone) Unwrap() []error { return []error{ErrNotDone, n.error} }

// Info describes one listed object.
type Info struct {
	// Path is the object's path relative to the store's root, with slashes.
	Path string
	// Size is the object's length in bytes.
	Size int64
	// ModTime is when the object was written, by the store's own clock.
	ModTime time.Time
}

// Writer is a new object being written. Nobody sees the object before Close
// returned nil. Exactly one of Close and Abort ends it; calls after that return
// nil and do nothing. A Writer is used from one goroutine at a time.
type Writer interface {
	io.Writer

	// Close completes the object. On nil it is whole, durable and visible under
	// its path. On an error it may or may not exist; if it exists it is whole.
	Close() error

	// Abort gives the object up and removes what was written of it.
	Abort() error
}

// Object is an existing object opened for reading. Reads may run concurrently.
type Object interface {
	io.ReaderAt
	io.Closer

	// Size is the object's length in bytes.
	Size() int64
}

// Store is a tree of objects below one root. Paths are relative to that root,
// use slashes, are not percent-encoded, and have no empty, "." or ".." segment.
// All methods may be called concurrently, also by several processes on the same
// root.
type Store interface {
	// URL names the root in messages. It never contains credentials.
	URL() string

	// Get reads a whole object. ErrNotFound if there is none.
	Get(ctx context.Context, path string) ([]byte, error)

	// Open opens an object for random reads. ErrNotFound if there is none. The
	// context covers the opening and every later read.
	Open(ctx context.Context, path string) (Object, error)

	// Put writes an object, replacing any that is there. Readers see the old or
	// the new content, never a mixture. Durable when it returns nil.
	Put(ctx context.Context, path string, data []byte) error

	// PutIfAbsent writes an object only if none exists, as one atomic step: of
	// any number of concurrent calls on one path at most one returns nil, and
	// readers see nothing or the whole object. Durable when it returns nil.
	//
	// ErrExists means that an object certainly existed, ErrNotDone that nothing
	// was written. Any other error leaves the outcome unknown: the object may be
	// there, may appear later, or never.
	PutIfAbsent(ctx context.Context, path string, data []byte) error

	// Create starts a new object, replacing any on Close. The context covers
	// the writing up to and including Close.
	Create(ctx context.Context, path string) (Writer, error)

	// List yields the objects whose path begins with prefix and sorts after
	// startAfter, in byte order of their paths, at any depth. Objects that are
	// still being written are not listed. An absent prefix is an empty list. On
	// an error the sequence yields it once and ends.
	List(ctx context.Context, prefix, startAfter string) iter.Seq2[Info, error]

	// Delete removes objects. One that is not there is not an error. On an error
	// some of the objects may be gone.
	Delete(ctx context.Context, paths ...string) error
}
