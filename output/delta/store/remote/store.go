package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// parallelDeletes is how many objects are deleted at a time.
const parallelDeletes = 8

// Bucket is a Backend with what belongs to it once per program: the choices, and
// the proof that conditional writes work. It is safe for concurrent use.
type Bucket struct {
	b Backend
	o Options

	probing chan struct{} // holds one token; whoever has it may read and set proof
	proof   *proof        // nil while nothing is known
}

// NewBucket makes a bucket of a backend.
func NewBucket(b Backend, o Options) *Bucket {
	if o.Attempts <= 0 {
		o.Attempts = defaultAttempts
	}
	if o.Pause <= 0 {
		o.Pause = defaultPause
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.PartBytes <= 0 {
		o.PartBytes = defaultPart
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	return &Bucket{b: b, o: o, probing: make(chan struct{}, 1)}
}

// Store is a store.Store at a root in a bucket.
type Store struct {
	*Bucket
	url  string
	root string // ends with a slash, or is ""
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Prober = (*Store)(nil)
)

// Store returns the store whose paths lie below root, a key prefix without
// slashes at its ends, or "" for the whole bucket. The URL is for messages.
func (b *Bucket) Store(url, root string) (*Store, error) {
	if root != "" {
		if err := store.CheckPath(root); err != nil {
			return nil, fmt.Errorf("opening store %s: %w", url, err)
		}
		root += "/"
	}
	return &Store{Bucket: b, url: url, root: root}, nil
}

// URL implements store.Store.
func (s *Store) URL() string { return s.url }

func (s *Store) key(path string) (string, error) {
	if err := store.CheckPath(path); err != nil {
		return "", err
	}
	return s.root + path, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, path string) ([]byte, error) {
	key, err := s.key(path)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = s.retry(ctx, func(ctx context.Context) error {
		body, err := s.b.Get(ctx, key, Range{})
		if err != nil {
			return err
		}
		data, err = body.read()
		return err
	})
	return data, explain("reading", path, err)
}

// read reads and closes the body. An answer that is shorter than announced is an
// error.
func (b *Body) read() ([]byte, error) {
	data := make([]byte, b.Len)
	_, err := io.ReadFull(b.Reader, data)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return data, errors.Join(err, b.Reader.Close())
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	key, err := s.key(path)
	if err != nil {
		return err
	}
	err = s.retry(ctx, func(ctx context.Context) error { return s.b.Put(ctx, key, data, PutOptions{}) })
	return explain("writing", path, err)
}

// List implements store.Store. Objects whose names are no paths, such as the
// folder markers of some programs, are left out.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		last := startAfter
		for o, err := range s.objects(ctx, prefix, startAfter) {
			if err != nil {
				yield(store.Info{}, fmt.Errorf("listing %q: %w", prefix, err))
				return
			}
			path := strings.TrimPrefix(o.Key, s.root)
			if path <= startAfter || !strings.HasPrefix(path, prefix) || store.CheckPath(path) != nil {
				continue
			}
			if path <= last {
				yield(store.Info{}, fmt.Errorf("listing %q: the service lists %q after %q, which is not byte order", prefix, path, last))
				return
			}
			last = path
			if !yield(store.Info{Path: path, Size: o.Size, ModTime: o.ModTime}, nil) {
				return
			}
		}
	}
}

// objects yields the objects of all pages. If the service does not sort them, all
// are read before the first is yielded.
func (s *Store) objects(ctx context.Context, prefix, startAfter string) iter.Seq2[Object, error] {
	after := ""
	if startAfter != "" {
		after = s.root + startAfter
	}
	return func(yield func(Object, error) bool) {
		var all []Object
		for token, more := "", true; more; more = token != "" {
			var page Page
			err := s.retry(ctx, func(ctx context.Context) (err error) {
				page, err = s.b.List(ctx, s.root+prefix, after, token)
				return err
			})
			if err != nil {
				yield(Object{}, err)
				return
			}
			token = page.Token
			if s.o.Unordered {
				all = append(all, page.Objects...)
				continue
			}
			for _, o := range page.Objects {
				if !yield(o, nil) {
					return
				}
			}
		}
		slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		if err := store.CheckPath(path); err != nil {
			return err
		}
	}
	errs := make([]error, len(paths))
	var group errgroup.Group
	group.SetLimit(parallelDeletes)
	for i, path := range paths {
		group.Go(func() error {
			errs[i] = s.delete(ctx, path)
			return nil
		})
	}
	return errors.Join(group.Wait(), errors.Join(errs...))
}

func (s *Store) delete(ctx context.Context, path string) error {
	err := s.retry(ctx, func(ctx context.Context) error { return s.b.Delete(ctx, s.root+path) })
	var response *ResponseError
	if errors.As(err, &response) && response.Kind == Absent {
		return nil
	}
	return explain("deleting", path, err)
}
