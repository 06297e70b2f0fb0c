package delta_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// sharedData is the folder with tables of other engines; the test is skipped
// where it is absent.
func sharedData(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(dir, "delta", "golden")); err != nil {
		t.Skipf("no tables of other engines at %s (set SHARED_DATA): %v", dir, err)
	}
	return filepath.Join(dir, "delta")
}

// goldenData are the files of a published table and of the rows published beside it, by their
// paths below the one and the other.
type goldenData struct {
	table, expected map[string][]byte
}

// goldenFiles loads a table: name is golden/x, tables/x, or x/sub for one of several tables
// in a folder.
func goldenFiles(t *testing.T, name string) goldenData {
	t.Helper()
	dir := sharedData(t)
	files, sub := goldenArchive(t, dir, name), ""
	if files == nil { // one of several tables in an archive
		files, sub = goldenArchive(t, dir, path.Dir(name)), path.Base(name)+"/"
	}
	if files == nil {
		files, sub = readTree(t, filepath.Join(dir, filepath.FromSlash(name))), ""
	}
	return goldenData{table: belowRoot(files, sub), expected: below(files, "expected/")}
}

// goldenArchive are the files of an archive, nil if there is none.
func goldenArchive(t *testing.T, dir, name string) map[string][]byte {
	t.Helper()
	archive, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)+".tar.zst"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	return untar(t, archive)
}

// goldenTable loads a table into memory.
func goldenTable(t *testing.T, name string) store.Store {
	t.Helper()
	st := mem.New()
	for path, content := range goldenFiles(t, name).table {
		require.NoError(t, st.Put(t.Context(), path, content))
	}
	return st
}

// untar returns the files of an archive.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	defer z.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		files[strings.TrimPrefix(h.Name, "./")] = content
	}
}

func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = content
		return err
	}))
	return files
}

// belowRoot cuts the folders above the table: everything above its _delta_log, or above the
// folder named delta if there is none. sub is the table's own folder where there are several.
func belowRoot(files map[string][]byte, sub string) map[string][]byte {
	root, found := "", false
	for path := range files {
		if before, _, ok := strings.Cut(path, "_delta_log/"); ok && strings.HasSuffix(before, sub) && (!found || len(before) < len(root)) {
			root, found = before, true
		}
	}
	if !found {
		for path := range files {
			if before, _, ok := strings.Cut(path, "delta/"); ok {
				root = before + "delta/"
			}
		}
	}
	out := map[string][]byte{}
	for path, content := range files {
		if rel, ok := strings.CutPrefix(path, root); ok {
			out[rel] = content
		}
	}
	return out
}

// below are the files of the folder, wherever it lies.
func below(files map[string][]byte, folder string) map[string][]byte {
	out := map[string][]byte{}
	for path, content := range files {
		if _, rel, ok := strings.Cut(path, folder); ok {
			out[rel] = content
		}
	}
	return out
}

// The tables of testdata/golden.txt, read at the level of the log.
func TestGoldenTables(t *testing.T) {
	t.Parallel()
	sharedData(t)
	list, err := os.ReadFile(filepath.Join("testdata", "golden.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var version, live, rows, commits int64
		_, err := fmt.Sscan(line, &name, &version, &live, &rows, &commits)
		require.NoError(t, err, line)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := open(t, goldenTable(t, name), delta.Options{})
			s := table.Snapshot()
			require.Equal(t, version, s.Version())
			require.Len(t, files(t, s), int(live))
			require.Equal(t, live, s.NumFiles())
			n, err := s.NumRecords(t.Context())
			if rows < 0 {
				require.ErrorIs(t, err, delta.ErrNoStatistics)
			} else {
				require.NoError(t, err)
				require.Equal(t, rows, n)
			}
			for _, err := range table.Commits(t.Context(), 0) {
				require.NoError(t, err)
				commits--
			}
			require.Zero(t, commits, "commits")
		})
	}
}

func TestGoldenWriteRefusals(t *testing.T) {
	t.Parallel()
	for name, feature := range map[string]string{
		"tables/crc-full": "rowTracking",
		"tables/partitioned_with_materialize_feature": "materializePartitionColumns",
		"tables/type-widening":                        "typeWidening-preview",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := open(t, goldenTable(t, name), delta.Options{})
			var refused *delta.FeatureError
			_, err := table.Commit(t.Context(), adding("f"))
			require.ErrorAs(t, err, &refused)
			require.Equal(t, feature, refused.Name)
			_, err = table.NewWriter(t.Context(), data.WriterOptions{})
			require.ErrorAs(t, err, &refused)
			require.ErrorAs(t, table.Checkpoint(t.Context()), &refused)
		})
	}
}

// Every golden table that we may write to keeps its files, rows and
// transactions through an append, a checkpoint of ours, and the loss of all
// commits that the checkpoint covers.
func TestGoldenCheckpoints(t *testing.T) {
	t.Parallel()
	sharedData(t)
	list, err := os.ReadFile(filepath.Join("testdata", "golden.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(line, " ")
		if name == "#" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := goldenTable(t, name)
			table := open(t, st, delta.Options{CheckpointInterval: -1})
			before := table.Snapshot()
			if len(before.PartitionColumns()) > 0 {
				t.Skip("the added file would need values")
			}
			c := adding("ours")
			c.Fenced = &delta.Txn{AppID: "ours", Version: 1}
			if _, err := table.Commit(t.Context(), c); errors.As(err, new(*delta.FeatureError)) {
				t.Skip(err)
			}
			require.NoError(t, table.Checkpoint(t.Context()))
			for v := range before.Version() + 1 {
				require.NoError(t, st.Delete(t.Context(), replay.CommitPath(v), replay.CheckpointPath(v)))
			}
			after := open(t, st, delta.Options{}).Snapshot()
			require.Equal(t, before.Metadata(), after.Metadata())
			require.Equal(t, before.Protocol(), after.Protocol())
			require.Equal(t, before.NumFiles()+1, after.NumFiles())
			require.Equal(t, appVersions(table.Snapshot()), appVersions(after))
			require.Equal(t, adds(t, table.Snapshot()), adds(t, after))
		})
	}
}

// adds are the live files by path, as far as checkpoints keep them.
func adds(t *testing.T, s *delta.Snapshot) map[string]action.Add {
	t.Helper()
	out := map[string]action.Add{}
	for add, err := range s.Files(t.Context()) {
		require.NoError(t, err)
		add.DataChange = false
		if len(add.PartitionValues) == 0 {
			add.PartitionValues = nil
		}
		if len(add.Tags) == 0 {
			add.Tags = nil
		}
		out[add.Path] = add
	}
	return out
}
