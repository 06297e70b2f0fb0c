// Package tables makes the tables that benchmarks work on.
package tables

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Clone makes a table with the files of another by hard links, in place of what is there:
// no file of a table ever changes. Both are folders of one file system.
func Clone(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		}
		return os.Link(path, filepath.Join(to, rel))
	})
}
