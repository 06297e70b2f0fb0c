package maintain_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// foreignTables loads published tables of other engines, by their names.
func foreignTables(t *testing.T) map[string]*mem.Store {
	t.Helper()
	dir := os.Getenv("SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "delta")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no tables of other engines (set SHARED_DATA): %v", err)
	}
	tables := map[string]*mem.Store{}
	put := func(name string, data []byte) {
		root, rest, ok := strings.Cut(name, "/_delta_log/")
		if ok && tables[root] == nil {
			tables[root] = mem.New()
		}
		if ok && !strings.HasPrefix(rest, "._") {
			require.NoError(t, tables[root].Put(t.Context(), "_delta_log/"+rest, data))
		}
	}
	files := readForeign(t, dir)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		put(name, files[name])
	}
	for name, data := range files {
		for root, st := range tables {
			if rest, ok := strings.CutPrefix(name, root+"/"); ok && !strings.HasPrefix(rest, "_delta_log/") {
				require.NoError(t, st.Put(t.Context(), rest, data))
			}
		}
	}
	return tables
}

// readForeign reads all files below a folder, and those in its archives.
func readForeign(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "300k-add-files") {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if base, ok := strings.CutSuffix(rel, ".tar.zst"); ok {
			untar(t, data, base, files)
		} else {
			files[rel] = data
		}
		return nil
	}))
	return files
}

func untar(t *testing.T, archive []byte, base string, files map[string][]byte) {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(r)
			require.NoError(t, err)
			files[path.Join(base, h.Name)] = data
		}
	}
}

// contents reads the rows of a table in any order; false if it cannot be read, or is
// so large that this takes long.
func contents(t *testing.T, table *delta.Table) ([]string, bool) {
	t.Helper()
	out := []string{}
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		if err != nil || len(out) > 20_000 {
			return nil, false
		}
		text, err := rec.MarshalJSON()
		require.NoError(t, err)
		out = append(out, strings.Split(strings.Trim(string(text), "[]\n"), "\n,")...)
	}
	slices.Sort(out)
	return out, true
}

// Tables of other engines hold the same rows after everything that this package can
// do to them. What it must not write to stays as it is.
func TestTablesOfOtherEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	tables := foreignTables(t)
	var kept, refused, unreadable []string
	vectors := int64(0)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		st := tables[name]
		table, err := delta.Open(t.Context(), st, delta.Options{CheckpointInterval: -1})
		if err != nil {
			unreadable = append(unreadable, name)
			continue
		}
		want, ok := contents(t, table)
		if !ok {
			unreadable = append(unreadable, name) // data files are missing, for example
			continue
		}
		before := paths(t, st, "")
		optimized, err := maintain.Optimize(t.Context(), table, maintain.OptimizeOptions{})
		var feature *delta.FeatureError
		if errors.As(err, &feature) {
			require.Equal(t, before, paths(t, st, ""), name)
			refused = append(refused, name+": "+feature.Name)
			continue
		}
		require.NoError(t, err, name)
		vectors += optimized.VectorsRemoved
		again := func(after string) {
			fresh, err := delta.Open(t.Context(), st, delta.Options{CheckpointInterval: -1})
			require.NoError(t, err, "%s after %s", name, after)
			have, ok := contents(t, fresh)
			require.True(t, ok, "%s after %s", name, after)
			require.Equal(t, want, have, "%s after %s", name, after)
		}
		again("optimize")
		require.NoError(t, table.Checkpoint(t.Context()), name)
		time.Sleep(2 * time.Millisecond) // all files are older than now
		_, err = maintain.Vacuum(t.Context(), table, maintain.VacuumOptions{Retention: new(time.Duration(0)), Force: true})
		require.NoError(t, err, name)
		again("vacuum")
		_, err = maintain.CleanLog(t.Context(), table, maintain.LogOptions{})
		require.NoError(t, err, name)
		again("clean-up")
		kept = append(kept, name)
	}
	slices.Sort(refused)
	slices.Sort(unreadable)
	t.Logf("%d tables kept their rows, %d deletion vectors went", len(kept), vectors)
	t.Logf("%d are not written to: %q", len(refused), refused)
	t.Logf("%d cannot be read: %q", len(unreadable), unreadable)
	require.Greater(t, len(kept), 100)
	require.Greater(t, vectors, int64(5))
}
