package merge_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// goldenTable loads a table of another engine; the test is skipped where there is none.
func goldenTable(t *testing.T, name string) *mem.Store {
	t.Helper()
	dir := os.Getenv("SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "delta", filepath.FromSlash(name))
	files := map[string][]byte{}
	if archive, err := os.ReadFile(dir + ".tar.zst"); err == nil {
		files = untar(t, archive)
	} else if _, err := os.Stat(dir); err != nil {
		t.Skipf("no tables of other engines (set SHARED_DATA): %v", err)
	} else {
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files[path], err = fs.ReadFile(os.DirFS(dir), path)
			return err
		}))
	}
	root := ""
	for path := range files {
		if at := strings.Index(path, "_delta_log/"); at >= 0 {
			root = path[:at]
		}
	}
	st := mem.New()
	for path, content := range files {
		if rest, ok := strings.CutPrefix(path, root); ok {
			require.NoError(t, st.Put(t.Context(), rest, content))
		}
	}
	return st
}

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
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			files[strings.TrimPrefix(h.Name, "./")] = content
		}
	}
}

// Tables with deletion vectors of other engines: every third row is taken out, every other third
// put back as it was, and a row added, by both strategies.
func TestTablesOfOtherEngines(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"golden/dv-partitioned-with-checkpoint": {"part", "col1"},
		"golden/dv-with-columnmapping":          {"part", "col1"},
		"golden/log-replay-dv-key-cases":        {"id"},
		"tables/table-with-dv-small":            {"value"},
		"tables/with-short-dv":                  {"id"},
	} {
		for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
			t.Run(name+" "+string(strategy), func(t *testing.T) {
				t.Parallel()
				table := open(t, goldenTable(t, name))
				before := table.Snapshot()
				rows := map[string]int{}
				var recs []arrow.RecordBatch
				for rec, err := range table.Read(t.Context(), before, delta.ReadOptions{}) {
					require.NoError(t, err)
					rec.Retain()
					recs = append(recs, rec)
				}
				require.NotEmpty(t, recs)
				var src merge.Source
				n := 0
				for _, rec := range recs {
					for i, line := range linesOf(t, rec) {
						one := rec.NewSlice(int64(i), int64(i+1))
						switch n++; n % 3 {
						case 0:
							src.Deletes = append(src.Deletes, one)
							continue
						case 1:
							src.Upserts = append(src.Upserts, one)
						}
						rows[line]++
					}
				}
				r := run(t, table, src, merge.Options{Keys: keys, Strategy: strategy, EnableDeletionVectors: true})
				require.EqualValues(t, len(src.Upserts), r.Metrics.RowsUpdated)
				require.EqualValues(t, len(src.Deletes), r.Metrics.RowsDeleted)
				require.Equal(t, slices.Sorted(maps.Keys(rows)), rowsOf(t, table))
				records, err := table.Snapshot().NumRecords(t.Context())
				if !errors.Is(err, delta.ErrNoStatistics) {
					require.NoError(t, err)
					require.EqualValues(t, len(rows), records)
				}
			})
		}
	}
}
