// Package file keeps a Delta table in a local directory.
//
// Commits are made with hard links: the content goes to a temporary file, is
// synced, and is then linked to its final name. link(2) fails if the name is
// taken, whoever took it, on every POSIX file system and on NTFS, and it shows
// readers the whole content or nothing. Opening the final name with O_EXCL would
// show readers half a commit; renaming onto it would overwrite a winner's.
//
// Durable means: the file and every directory entry that leads to it from the
// root down were synced.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// tempPrefix begins the names of files that are being written. List hides them.
const tempPrefix = ".tmp-"

// Store is a store.Store on a local directory. The directory is made with the
// first object.
type Store struct {
	root string
	// step is called between the steps of writing an object; tests kill the
	// process or fail there. nil does nothing.
	step func(name string) error
}

var _ store.Store = (*Store)(nil)

// New returns the store at the directory root, which need not exist yet.
func New(root string) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("resolving table path %s: %w", root, err)
	}
	return &Store{root: abs}, nil
}

// Provider opens plain paths and file: URIs.
func Provider() store.Provider {
	return store.Provider{
		Schemes: []string{"", "file"},
		Open: func(_ context.Context, uri string) (store.Store, error) {
			root, err := rootOf(uri)
			if err != nil {
				return nil, err
			}
			return New(root)
		},
	}
}

// rootOf returns the directory that a plain path or a file: URI names.
func rootOf(uri string) (string, error) {
	if store.Scheme(uri) == "" {
		return uri, nil
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "", fmt.Errorf("parsing table URI %q: %w", uri, err)
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("table URI %q names the host %q: write file:///path with three slashes", uri, u.Host)
	}
	if u.Path == "" {
		return "", fmt.Errorf("table URI %q has no absolute path: write file:///path, or a plain path for a relative one", uri)
	}
	return filepath.FromSlash(u.Path), nil
}

// URL returns the directory as a file: URL.
func (s *Store) URL() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(s.root)}).String()
}

// full returns the file name of an object.
func (s *Store) full(path string) (string, error) {
	if err := store.CheckPath(path); err != nil {
		return "", err
	}
	return filepath.Join(s.root, filepath.FromSlash(path)), nil
}

func (s *Store) at(step string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step)
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, path string) ([]byte, error) {
	name, err := s.full(path)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, readError(path, name, err)
	}
	return data, nil
}

// readError turns the absence of a file into store.ErrNotFound. A directory is
// no object.
func readError(path, name string, err error) error {
	if isAbsent(err) {
		return fmt.Errorf("reading %s: %w", path, store.ErrNotFound)
	}
	if info, statErr := os.Stat(name); statErr == nil && info.IsDir() {
		return fmt.Errorf("reading %s: it is a directory: %w", path, store.ErrNotFound)
	}
	return fmt.Errorf("reading %s: %w", path, err)
}

// object is an open file.
type object struct {
	*os.File
	size int64
}

func (o object) Size() int64 { return o.size }

// Open implements store.Store.
func (s *Store) Open(ctx context.Context, path string) (store.Object, error) {
	name, err := s.full(path)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, readError(path, name, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), f.Close())
	}
	if info.IsDir() {
		return nil, errors.Join(fmt.Errorf("reading %s: it is a directory: %w", path, store.ErrNotFound), f.Close())
	}
	return object{File: f, size: info.Size()}, nil
}

// Delete implements store.Store. Directories stay.
func (s *Store) Delete(ctx context.Context, paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		name, err := s.full(path)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil && !isAbsent(err) {
			errs = append(errs, fmt.Errorf("deleting %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// RemoveTemp deletes what crashed writers left behind: temporary files last
// written more than age ago. It returns how many it deleted. A writer that is
// still at work on an older file would lose it, so age is hours, not seconds.
func (s *Store) RemoveTemp(ctx context.Context, age time.Duration) (int, error) {
	limit := time.Now().Add(-age)
	n := 0
	err := filepath.WalkDir(s.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreAbsent(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() || !strings.HasPrefix(d.Name(), tempPrefix) {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.ModTime().After(limit) {
			return ignoreAbsent(err)
		}
		if err := os.Remove(name); err != nil {
			return ignoreAbsent(err)
		}
		n++
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("removing temporary files below %s: %w", s.root, err)
	}
	return n, nil
}

// isAbsent reports whether err says that there is no such file. A path through
// something that is no directory leads to no file either.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func ignoreAbsent(err error) error {
	if isAbsent(err) {
		return nil
	}
	return err
}

// makeDir makes the directory and its parents and syncs the parent of each new
// one, so that the entry survives a power cut.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("making directory %s: a file of that name is there", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the entries of a directory durable. Windows cannot sync a
// directory and does not need it: NTFS logs its entries.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// temp creates a temporary file in dir, which it makes if need be. The mode is
// the umask's choice, as for any file: other programs read tables too.
func temp(dir string) (*os.File, error) {
	name := filepath.Join(dir, tempPrefix+uuid.NewString())
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
}
