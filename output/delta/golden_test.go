package delta_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// goldenTable loads a table into memory: name is golden/x, tables/x, or
// tables/x/sub for one of several tables in a folder.
func goldenTable(t *testing.T, name string) store.Store {
	t.Helper()
	path := filepath.Join(sharedData(t), filepath.FromSlash(name))
	var files map[string][]byte
	if archive, err := os.ReadFile(path + ".tar.zst"); err == nil {
		files = untar(t, archive)
	} else {
		files = readTree(t, path)
	}
	st := mem.New()
	for path, content := range files {
		require.NoError(t, st.Put(t.Context(), path, content))
	}
	return st
}

// untar returns the files of an archive by their path below the table's root.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	defer z.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		files[strings.TrimPrefix(h.Name, "./")] = content
	}
	return belowRoot(files)
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
	return belowRoot(files)
}

// belowRoot cuts the folders above the table: everything above _delta_log, or
// above the folder named delta that has none.
func belowRoot(files map[string][]byte) map[string][]byte {
	root, found := "", false
	for path := range files {
		if before, _, ok := strings.Cut(path, "_delta_log/"); ok && (!found || len(before) < len(root)) {
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

// Tables that must be refused, and what the message must name.
func TestGoldenRefusals(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"golden/deltalog-invalid-protocol-version":                              "minReaderVersion 99",
		"golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": "no metaData",
		"golden/deltalog-state-reconstruction-from-checkpoint-missing-protocol": "no protocol",
		"golden/deltalog-state-reconstruction-without-metadata":                 "no metaData",
		"golden/deltalog-state-reconstruction-without-protocol":                 "no protocol",
		"golden/data-reader-absolute-paths-escaped-chars":                       "no metaData",
		"golden/no-delta-log-folder":                                            "not a Delta table",
		"golden/versions-not-contiguous":                                        "1 is missing before 2",
		"golden/deltalog-commit-info":                                           "no schemaString",
		"golden/update-deleted-directory":                                       "no schemaString",
		"tables/crc-malformed":                                                  "not a Delta table",
		"tables/table-with-geo":                                                 "geospatial",
		"tables/unshredded-variant":                                             "variantType",
		"tables/type-widening":                                                  "typeWidening",
		"golden/table-with-columnmapping-mode-id":                               "columnMapping",
		"golden/table-with-columnmapping-mode-name":                             "columnMapping",
		"golden/data-reader-timestamp_ntz-id-mode":                              "columnMapping",
		"golden/dv-with-columnmapping":                                          "columnMapping",
		"tables/cdf-column-mapping-name-mode-3-7":                               "columnMapping",
		"tables/partition_cm/id":                                                "columnMapping",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := delta.Open(t.Context(), goldenTable(t, name), delta.Options{})
			require.ErrorContains(t, err, message)
		})
	}
}

func TestGoldenWriteRefusals(t *testing.T) {
	t.Parallel()
	for name, feature := range map[string]string{
		"tables/crc-full": "rowTracking",
		"tables/partitioned_with_materialize_feature": "materializePartitionColumns",
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
