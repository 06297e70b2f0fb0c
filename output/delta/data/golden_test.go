package data_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// refused are the published tables that need a feature which is not built yet, by that
// feature. A table that leaves this list is read like all others.
var refused = map[string]string{
	"data-reader-timestamp_ntz-id-mode":                      delta.FeatureColumnMapping,
	"data-reader-timestamp_ntz-name-mode":                    delta.FeatureColumnMapping,
	"data-skipping-basic-stats-all-types-columnmapping-id":   delta.FeatureColumnMapping,
	"data-skipping-basic-stats-all-types-columnmapping-name": delta.FeatureColumnMapping,
	"table-with-columnmapping-mode-id":                       delta.FeatureColumnMapping,
	"table-with-columnmapping-mode-name":                     delta.FeatureColumnMapping,
	"dv-with-columnmapping":                                  delta.FeatureColumnMapping,
	"dv-partitioned-with-checkpoint":                         delta.FeatureDeletionVectors,
	"log-replay-dv-key-cases":                                delta.FeatureDeletionVectors,
}

// otherZone are columns whose published values were read in a session zone other than
// UTC: their partition values are times without a zone.
var otherZone = map[string][]string{"data-reader-partition-values": {"as_timestamp"}}

// TestGoldenData reads the tables that other engines wrote and compares their rows with
// those published beside them.
func TestGoldenData(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	archives, err := filepath.Glob(filepath.Join(dir, "delta", "golden", "*.tar.zst"))
	require.NoError(t, err)
	if len(archives) == 0 {
		t.Skipf("no tables of other engines at %s: set SHARED_DATA", dir)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.zst")
		files := untar(t, archive)
		expected := filesBelow(files, name+"/expected/")
		if len(expected) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readGolden(t, name, filesBelow(files, name+"/delta/"), expected)
		})
	}
}

func readGolden(t *testing.T, name string, files, expected map[string][]byte) {
	rows, columns, err := tableRows(t, storeOf(t, files), otherZone[name])
	if feature, ok := refused[name]; ok {
		var featureError *delta.FeatureError
		require.ErrorAs(t, err, &featureError)
		require.Equal(t, feature, featureError.Name)
		return
	}
	require.NoError(t, err)
	want := expectedRows(t, columns, expected)
	slices.SortFunc(want, slices.Compare[[]string])
	slices.SortFunc(rows, slices.Compare[[]string])
	require.Len(t, rows, len(want))
	for i := range want {
		if !slices.Equal(want[i], rows[i]) { // require is slow on a million rows
			require.Equal(t, want[i], rows[i])
		}
	}
}

// tableRows are the rows of a table without the columns left out.
func tableRows(t *testing.T, st store.Store, leftOut []string) (rows [][]string, columns *schema.Struct, err error) {
	table, err := delta.Open(t.Context(), st, delta.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { require.NoError(t, table.Close(t.Context())) }()
	snapshot := table.Snapshot()
	columns = snapshot.Schema().Without(leftOut)
	var names []string
	for _, f := range columns.Fields {
		names = append(names, f.Name)
	}
	for rec, err := range table.Read(t.Context(), snapshot, delta.ReadOptions{Columns: names}) {
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, rowsOf(rec)...)
	}
	return rows, columns, nil
}

// expectedRows are the rows of plain Parquet files with the columns of a table.
func expectedRows(t *testing.T, table *schema.Struct, files map[string][]byte) [][]string {
	st := storeOf(t, files)
	var rows [][]string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(path, ".parquet") && !strings.HasPrefix(filepath.Base(path), ".") {
			rows = append(rows, read(t, st, table, nil, data.File{Path: path})...)
		}
	}
	return rows
}

func storeOf(t *testing.T, files map[string][]byte) store.Store {
	st := mem.New()
	for path, content := range files {
		require.NoError(t, st.Put(t.Context(), path, content))
	}
	return st
}

func filesBelow(files map[string][]byte, prefix string) map[string][]byte {
	out := map[string][]byte{}
	for path, content := range files {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			out[rest] = content
		}
	}
	return out
}

func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	archive, err := os.ReadFile(path)
	require.NoError(t, err)
	z, err := zstd.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	defer z.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		if header.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			files[strings.TrimPrefix(header.Name, "./")] = content
		}
	}
}
