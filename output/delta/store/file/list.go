package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// List implements store.Store. A directory is read whole, so a listing costs as
// much as the directory has entries, whatever startAfter is.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		dir := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			dir = prefix[:i]
			if err := store.CheckPath(dir); err != nil {
				yield(store.Info{}, fmt.Errorf("listing %q: %w", prefix, err))
				return
			}
		}
		l := lister{ctx: ctx, root: s.root, prefix: prefix, startAfter: startAfter, yield: yield}
		if err := l.walk(dir); err != nil && !errors.Is(err, errStop) {
			yield(store.Info{}, fmt.Errorf("listing %q: %w", prefix, err))
		}
	}
}

// errStop ends a walk whose consumer has had enough.
var errStop = errors.New("stop")

type lister struct {
	ctx                context.Context
	root               string
	prefix, startAfter string
	yield              func(store.Info, error) bool
}

// walk lists one directory, given by its path below the root, and those in it.
func (l *lister) walk(dir string) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(l.root, filepath.FromSlash(dir)))
	if err != nil {
		return ignoreAbsent(err)
	}
	// The order of whole paths is that of the names with a directory's name
	// ending in a slash: "a.b" comes before "a/b", which comes before "aa".
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, entry := range entries {
		path := entry.Name()
		if dir != "" {
			path = dir + "/" + path
		}
		if err := l.visit(path, entry); err != nil {
			return err
		}
	}
	return nil
}

func sortName(entry os.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

func (l *lister) visit(path string, entry os.DirEntry) error {
	if entry.IsDir() {
		below := path + "/"
		overlaps := strings.HasPrefix(below, l.prefix) || strings.HasPrefix(l.prefix, below)
		// All paths in the directory sort before startAfter if the directory
		// itself does and startAfter does not lie in it.
		passed := below < l.startAfter && !strings.HasPrefix(l.startAfter, below)
		if !overlaps || passed {
			return nil
		}
		return l.walk(path)
	}
	if strings.HasPrefix(entry.Name(), tempPrefix) || !strings.HasPrefix(path, l.prefix) || path <= l.startAfter {
		return nil
	}
	info, err := entry.Info()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		info, err = os.Stat(filepath.Join(l.root, filepath.FromSlash(path)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since the directory was read
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if !l.yield(store.Info{Path: path, Size: info.Size(), ModTime: info.ModTime()}, nil) {
		return errStop
	}
	return nil
}
