package maintain

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// listing goes through a table's folder for files that may go.
type listing struct {
	partitionColumns []string
	cutoff           time.Time
	needed           *protection

	candidates []store.Info
	dirs       map[string]bool
	// roots are folders with a log of their own, with a slash at the end.
	roots map[string]bool
	// sums are the side files with checksums that Hadoop writes on local disks.
	sums map[string]store.Info
}

func newListing(partitionColumns []string, cutoff time.Time, needed *protection) *listing {
	return &listing{
		partitionColumns: partitionColumns, cutoff: cutoff, needed: needed,
		dirs: map[string]bool{"": true}, roots: map[string]bool{}, sums: map[string]store.Info{},
	}
}

// afterLog sorts after everything in the log.
const afterLog = replay.LogDir + "\U0010FFFF"

// read lists the whole folder, but for the log.
func (l *listing) read(ctx context.Context, st store.Store) error {
	startAfter, again := "", true
	for again {
		again = false
		for info, err := range st.List(ctx, "", startAfter) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(info.Path, replay.LogDir) {
				startAfter, again = afterLog, true
				break
			}
			l.take(info)
		}
	}
	return ctx.Err()
}

func (l *listing) take(info store.Info) {
	if root, _, ok := strings.Cut(info.Path, "/"+replay.LogDir); ok {
		l.roots[root+"/"] = true
		return
	}
	dir, name := path.Split(info.Path)
	if of, ok := strings.CutSuffix(name, ".crc"); ok && strings.HasPrefix(of, ".") {
		l.sums[dir+of[1:]] = info
		return
	}
	if isHidden(info.Path, l.partitionColumns) {
		return
	}
	l.dirs[dir] = true
	if info.ModTime.Before(l.cutoff) && !l.needed.needs(info.Path) {
		l.candidates = append(l.candidates, info)
	}
}

// found are the files that may go, each with its side file.
func (l *listing) found() []store.Info {
	var out []store.Info
	for _, f := range l.candidates {
		if l.isNested(f.Path) {
			continue
		}
		out = append(out, f)
		if sum, ok := l.sums[f.Path]; ok {
			out = append(out, sum)
		}
	}
	return out
}

func (l *listing) isNested(path string) bool {
	for root := range l.roots {
		if strings.HasPrefix(path, root) {
			return true
		}
	}
	return false
}

func (l *listing) directories() int64 {
	n := int64(0)
	for dir := range l.dirs {
		if !l.isNested(dir) {
			n++
		}
	}
	return n
}

func (l *listing) nested() []string { return slices.Sorted(maps.Keys(l.roots)) }
