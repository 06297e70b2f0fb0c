package delta_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// golden compares text with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// columns makes a schema of nullable columns: "name type", the type long if it
// is left out.
func columns(t testing.TB, names ...string) *schema.Struct {
	t.Helper()
	s := &schema.Struct{}
	for _, name := range names {
		field := schema.Field{Name: name, Type: schema.Long, Nullable: true}
		if before, typ, ok := cutSpace(name); ok {
			field.Name, field.Type = before, schema.Primitive(typ)
		}
		s.Fields = append(s.Fields, field)
	}
	require.NoError(t, s.Validate())
	return s
}

func cutSpace(s string) (before, after string, ok bool) {
	for i := range s {
		if s[i] == ' ' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// fixed is a clock that stands still, and ids that count.
func fixed() delta.Options {
	var ids atomic.Int64
	return delta.Options{
		Now:    func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewID:  func() string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", ids.Add(1)) },
		Engine: "test/1",
	}
}

// quick are options for tests that run into time limits.
func quick() delta.Options {
	return delta.Options{CommitTimeout: 300 * time.Millisecond, CheckpointInterval: -1}
}

// create makes a table with the columns a and b.
func create(t testing.TB, st store.Store, o delta.Options) *delta.Table {
	t.Helper()
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: columns(t, "a", "b string")}, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close(context.Background())) })
	return table
}

// open opens a table with a handle of its own.
func open(t testing.TB, st store.Store, o delta.Options) *delta.Table {
	t.Helper()
	table, err := delta.Open(t.Context(), st, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close(context.Background())) })
	return table
}

// add is the add action of a file that nobody will read.
func add(path string, rows int) action.Add {
	return action.Add{
		Path:       action.EncodePath(path),
		Size:       int64(100 + rows),
		DataChange: true,
		Stats:      fmt.Sprintf(`{"numRecords":%d}`, rows),
	}
}

// adding is a blind append of files of one row each.
func adding(paths ...string) delta.Change {
	c := delta.Change{BlindAppend: true}
	for _, p := range paths {
		c.Add = append(c.Add, add(p, 1))
	}
	return c
}

// replacing removes and adds files after having read a snapshot.
func replacing(s *delta.Snapshot, remove, with string) delta.Change {
	return delta.Change{
		ReadVersion: s.Version(),
		Remove:      []action.Remove{add(remove, 1).Remove(0, true)},
		Add:         []action.Add{add(with, 1)},
	}
}

// commit commits and expects that it became the next version.
func commit(t testing.TB, table *delta.Table, c delta.Change) delta.Result {
	t.Helper()
	r, err := table.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, delta.Committed, r.State)
	return r
}

// files are the paths of the live files, sorted.
func files(t testing.TB, s *delta.Snapshot) []string {
	t.Helper()
	out := []string{}
	for add, err := range s.Files(t.Context()) {
		require.NoError(t, err)
		out = append(out, add.Path)
	}
	slices.Sort(out)
	return out
}

// freshFiles are the live files as a new reader sees them.
func freshFiles(t testing.TB, st store.Store) []string {
	t.Helper()
	return files(t, open(t, st, delta.Options{}).Snapshot())
}

// appVersions are the versions of all applications.
func appVersions(s *delta.Snapshot) map[string]int64 {
	out := map[string]int64{}
	for txn := range s.AppVersions() {
		out[txn.AppID] = txn.Version
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// holey is a store whose first listing misses one object.
type holey struct {
	store.Store
	path   string
	hidden int
}

func (h *holey) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range h.Store.List(ctx, prefix, startAfter) {
			if h.hidden == 0 && info.Path == h.path {
				h.hidden++
				continue
			}
			if !yield(info, err) {
				return
			}
		}
	}
}
