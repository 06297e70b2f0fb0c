package delta_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// oneVector is a published table of one file and one vector in a file, and the vector's path.
func oneVector(t *testing.T) (st store.Store, vector string) {
	t.Helper()
	st = goldenTable(t, "tables/table-with-dv-small")
	for info, err := range st.List(t.Context(), "deletion_vector", "") {
		require.NoError(t, err)
		vector = info.Path
	}
	require.NotEmpty(t, vector)
	return st, vector
}

// A vector that is not wholly what it should be makes its file unreadable: neither the rows
// it deletes nor all rows are the table's.
func TestBadDeletionVectors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		vector func([]byte) []byte
		log    func(string) string
		want   string
	}{
		"checksum":    {vector: func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, want: "checksum"},
		"content":     {vector: func(b []byte) []byte { b[20] ^= 1; return b }, want: "checksum"},
		"cut":         {vector: func(b []byte) []byte { return b[:len(b)-2] }, want: "do not fit"},
		"gone":        {vector: func([]byte) []byte { return nil }, want: "not found"},
		"cardinality": {log: func(s string) string { return strings.Replace(s, `"cardinality":2`, `"cardinality":3`, 1) }, want: "it has 2 rows, the log says 3"},
		"size":        {log: func(s string) string { return strings.Replace(s, `"sizeInBytes":36`, `"sizeInBytes":35`, 1) }, want: "the log says 35"},
		"kind":        {log: func(s string) string { return strings.Replace(s, `"storageType":"u"`, `"storageType":"z"`, 1) }, want: `storage type "z" is unknown`},
		"path":        {log: func(s string) string { return strings.Replace(s, `"storageType":"u"`, `"storageType":"p"`, 1) }, want: "not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, vector := oneVector(t)
			if c.vector != nil {
				content, err := st.Get(t.Context(), vector)
				require.NoError(t, err)
				require.NoError(t, st.Delete(t.Context(), vector))
				if content = c.vector(bytes.Clone(content)); content != nil {
					require.NoError(t, st.Put(t.Context(), vector, content))
				}
			}
			if c.log != nil {
				text, err := st.Get(t.Context(), replay.CommitPath(1))
				require.NoError(t, err)
				require.NotEqual(t, string(text), c.log(string(text)))
				require.NoError(t, st.Put(t.Context(), replay.CommitPath(1), []byte(c.log(string(text)))))
			}
			table := open(t, st, delta.Options{})
			reads := 0
			for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
				reads++
				require.Nil(t, rec)
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, "reading data file part-00000-fae5310a")
			}
			require.Equal(t, 1, reads)
			for f, err := range table.Snapshot().Files(t.Context()) {
				require.NoError(t, err)
				for _, err := range table.ReadFile(t.Context(), table.Snapshot(), f, delta.ReadOptions{}) {
					require.ErrorContains(t, err, c.want)
				}
			}
		})
	}
}

// A vector named by an absolute path below the table's root is read, one elsewhere is not.
func TestDeletionVectorByAbsolutePath(t *testing.T) {
	t.Parallel()
	from, vector := oneVector(t)
	dir := filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.Mkdir(dir, 0o777))
	st, err := file.New(dir)
	require.NoError(t, err)
	for info, err := range from.List(t.Context(), "", "") {
		require.NoError(t, err)
		content, err := from.Get(t.Context(), info.Path)
		require.NoError(t, err)
		require.NoError(t, st.Put(t.Context(), info.Path, content))
	}
	text, err := st.Get(t.Context(), replay.CommitPath(1))
	require.NoError(t, err)
	for _, root := range []string{dir, "/elsewhere"} {
		absolute, err := json.Marshal("file:" + action.EncodePath(root) + "/" + vector)
		require.NoError(t, err)
		commit := strings.NewReplacer(`"storageType":"u"`, `"storageType":"p"`, `"vBn[lx{q8@P<9BNH/isA"`, string(absolute)).Replace(string(text))
		require.NoError(t, st.Put(t.Context(), replay.CommitPath(1), []byte(commit)))
		table := open(t, st, delta.Options{})
		if root == dir {
			require.Len(t, read(t, table, table.Snapshot()), 8)
			continue
		}
		for _, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
			require.ErrorContains(t, err, "outside of table")
		}
	}
}

// No engine's statistics or partition values ever cost a row: in every published table, a
// condition that a row fulfils keeps the row's file.
func TestGoldenPruningLosesNoRow(t *testing.T) {
	t.Parallel()
	sharedData(t)
	checked := 0
	for _, c := range goldenCases(t) {
		if c.want != "rows" || strings.HasPrefix(c.name, "golden/parquet-decimal-dictionaries") {
			continue
		}
		table := open(t, goldenTable(t, c.name), delta.Options{})
		s := table.Snapshot()
		for add, err := range s.Files(t.Context()) {
			require.NoError(t, err)
			for rec, err := range table.ReadFile(t.Context(), s, add, delta.ReadOptions{}) {
				require.NoError(t, err)
				for i, f := range s.Schema().Fields {
					if c.name == "tables/parsed-stats" && f.Name == "ts_col" {
						continue // its statistics speak of a column that its files do not have
					}
					for row := range min(int(rec.NumRows()), 20) {
						for _, condition := range fulfilled(f, rec.Column(i), row) {
							n := 0
							for range table.ReadFile(t.Context(), s, add, delta.ReadOptions{Columns: []string{}, Prune: []prune.Condition{condition}}) {
								n++
								break
							}
							require.Equal(t, 1, n, "%s: %v leaves out %s with %s", c.name, condition, add.Path, add.Stats)
							checked++
						}
					}
				}
				break // one batch is enough
			}
		}
	}
	t.Logf("%d conditions kept the file of a row that fulfils them", checked)
	require.Greater(t, checked, 1000)
}

// fulfilled are conditions that a value fulfils.
func fulfilled(f schema.Field, arr arrow.Array, row int) []prune.Condition {
	if arr.IsNull(row) || arr.DataType().ID() == arrow.NULL {
		return []prune.Condition{{Column: f.Name, Op: prune.IsNull}}
	}
	var literal any
	switch a := arr.(type) {
	case *array.String:
		literal = a.Value(row)
	case *array.Float64:
		literal = a.Value(row)
	case *array.Float32:
		literal = float64(a.Value(row))
	case *array.Boolean:
		literal = a.Value(row)
	case *array.Timestamp:
		literal = a.Value(row).ToTime(arrow.Microsecond)
	case *array.Decimal128:
		literal = plainDecimal(a, row)
	case *array.Date32:
		literal = a.Value(row).ToTime().Format("2006-01-02")
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64:
		literal = arr.ValueStr(row)
	default:
		return []prune.Condition{{Column: f.Name, Op: prune.IsNotNull}}
	}
	return []prune.Condition{
		{Column: f.Name, Op: prune.IsNotNull}, {Column: f.Name, Op: prune.Equal, Value: literal},
		{Column: f.Name, Op: prune.LessOrEqual, Value: literal}, {Column: f.Name, Op: prune.GreaterOrEqual, Value: literal},
	}
}

// Files that certainly hold nothing of what is asked for are not opened.
func TestGoldenPruning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table string
		where []prune.Condition
		files int
	}{
		{"golden/data-skipping-partition-and-data-column", []prune.Condition{{Column: "part", Op: prune.Equal, Value: 1}}, 2},
		{"golden/data-skipping-partition-and-data-column", []prune.Condition{{Column: "part", Op: prune.Equal, Value: 1}, {Column: "id", Op: prune.Less, Value: 1}}, 1},
		{"golden/data-skipping-partition-and-data-column", []prune.Condition{{Column: "id", Op: prune.IsNull}}, 0},
		{"golden/data-skipping-change-stats-collected-across-versions", []prune.Condition{{Column: "col1", Op: prune.Greater, Value: 0}}, 1},
		{"golden/data-skipping-change-stats-collected-across-versions", []prune.Condition{{Column: "col2", Op: prune.Greater, Value: 0}}, 2},
		{"golden/data-skipping-basic-stats-all-types", []prune.Condition{{Column: "as_timestamp", Op: prune.Equal, Value: "2000-01-01T08:00:00Z"}}, 1},
		{"golden/data-skipping-basic-stats-all-types", []prune.Condition{{Column: "as_timestamp", Op: prune.Equal, Value: "2000-01-01T00:00:00Z"}}, 0},
		{"golden/data-skipping-basic-stats-all-types-checkpoint", []prune.Condition{{Column: "as_big_decimal", Op: prune.Equal, Value: 1}}, 0},
		{"golden/data-skipping-basic-stats-all-types-columnmapping-name", []prune.Condition{{Column: "as_int", Op: prune.Equal, Value: 1}}, 0},
		{"golden/data-skipping-basic-stats-all-types-columnmapping-id", []prune.Condition{{Column: "as_string", Op: prune.Equal, Value: "0"}}, 1},
		{"golden/dv-with-columnmapping", []prune.Condition{{Column: "part", Op: prune.Equal, Value: 3}}, 2},
		// Its bounds are cut to milliseconds: 2.000999 is in the first file, bound 2.000.
		{"tables/timestamp-truncation-stats", []prune.Condition{{Column: "ts_col", Op: prune.Greater, Value: "1970-01-01T00:00:02.0005Z"}, {Column: "ts_col", Op: prune.Less, Value: "1970-01-01T00:00:02.9Z"}}, 1},
		{"tables/v2-parquet-sidecars-struct-stats-only", []prune.Condition{{Column: "id", Op: prune.Less, Value: -1}}, 0},
	} {
		table := open(t, goldenTable(t, c.table), delta.Options{})
		n := 0
		for _, err := range table.Snapshot().PrunedFiles(t.Context(), c.where) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, c.files, n, fmt.Sprint(c.table, c.where))
	}
	table := open(t, goldenTable(t, "golden/snapshot-data0"), delta.Options{})
	for _, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Prune: []prune.Condition{{Column: "x", Op: prune.IsNull}}}) {
		require.ErrorContains(t, err, "column x is not in the table")
	}
}
