package delta_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// goldenCase is a line of testdata/cases.txt.
type goldenCase struct {
	name    string
	want    string // rows, refused or log
	rows    int
	digest  string
	judges  string
	message string
}

func goldenCases(t *testing.T) []goldenCase {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases.txt"))
	require.NoError(t, err)
	var out []goldenCase
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := goldenCase{}
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		c.name, c.want = fields[0], fields[1]
		switch c.want {
		case "rows":
			_, err := fmt.Sscan(fields[2], &c.rows, &c.digest, &c.judges)
			require.NoError(t, err, line)
		case "refused":
			c.message = fields[2]
		default:
			require.Equal(t, "log", c.want, line)
		}
		out = append(out, c)
	}
	return out
}

// otherZone are columns whose published rows were read in a session zone other than UTC:
// their partition values are times without a zone.
func otherZone(name string) []string {
	if name == "golden/data-reader-partition-values" {
		return []string{"as_timestamp"}
	}
	return nil
}

// Every published table gives the rows that its publisher wrote beside it and that other
// engines read from it, or is refused by the name of what is wrong with it. The test logs
// the table of all cases.
func TestGoldenCases(t *testing.T) {
	t.Parallel()
	sharedData(t)
	cases := goldenCases(t)
	results := map[string]string{}
	var mu sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				result := "WRONG"
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					results[c.name] = result
				}()
				result = c.judge(t)
			})
		}
	})
	count := map[string]int{}
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(results)) {
		fmt.Fprintf(&table, "%-75s %s\n", name, results[name])
		kind, _, _ := strings.Cut(results[name], " ")
		count[kind]++
	}
	t.Logf("%v\n%s", count, table.String())
}

// judge reads the case's table and says what became of it.
func (c goldenCase) judge(t *testing.T) string {
	files := goldenFiles(t, c.name)
	st := mem.New()
	for path, content := range files.table {
		require.NoError(t, st.Put(t.Context(), path, content))
	}
	table, err := delta.Open(t.Context(), st, delta.Options{})
	if c.want == "refused" {
		require.ErrorContains(t, err, c.message)
		return "refused by name: " + c.message
	}
	require.NoError(t, err)
	if c.want == "log" {
		return "log only (its data files are not published)"
	}
	lines := readCanonical(t, table, nil)
	require.Len(t, lines, c.rows)
	require.Equal(t, c.digest, canonicalDigest(lines), "digest of the rows")
	result := fmt.Sprintf("read %d rows as %s", c.rows, c.judges)
	if len(files.expected) > 0 {
		columns := table.Snapshot().Schema().Without(otherZone(c.name))
		if len(otherZone(c.name)) > 0 {
			lines = readCanonical(t, table, columns)
		}
		want := expectedRows(t, columns, files.expected)
		require.Equal(t, canonicalDigest(want), canonicalDigest(lines), "digest of expected/")
		result += " and expected/"
	}
	return result
}

// readCanonical are the rows of a table's snapshot; columns nil is all.
func readCanonical(t *testing.T, table *delta.Table, columns *schema.Struct) []string {
	t.Helper()
	var names []string
	if columns != nil {
		for _, f := range columns.Fields {
			names = append(names, f.Name)
		}
	}
	var lines []string
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: names}) {
		require.NoError(t, err)
		lines = canonicalRows(lines, rec)
	}
	return lines
}

// expectedRows are the rows of plain Parquet files with the columns of a table.
func expectedRows(t *testing.T, table *schema.Struct, files map[string][]byte) []string {
	t.Helper()
	st := mem.New()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".parquet") || strings.HasPrefix(path.Base(name), ".") {
			continue
		}
		require.NoError(t, st.Put(t.Context(), name, files[name]))
		for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: name}, nil) {
			require.NoError(t, err)
			lines = canonicalRows(lines, rec)
		}
	}
	return lines
}

// The cases that the suites of Delta and its kernels ask of a reader are all in
// testdata/cases.txt, but those whose tables are not published as data.
func TestGoldenCasesAreComplete(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range goldenCases(t) {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(c.name, "golden/"), "tables/"))
	}
	for _, pattern := range []string{
		"log-replay-special-characters", "log-replay-special-characters-a", "log-replay-special-characters-b", "log-replay-dv-key-cases",
		"log-replay-latest-metadata-protocol", "snapshot-*", "time-travel-*", "checkpoint", "multi-part-checkpoint", "only-checkpoint-files",
		"corrupted-last-checkpoint-kernel", "with_checkpoint_no_last_checkpoint", "v2-checkpoint-*", "v2-checkpoints-*", "v1-*-struct-stats-only",
		"v2-*-struct-stats-only", "compacted-log-files-table", "canonicalized-paths-*", "delete-re-add-same-file-*", "deltalog-getChanges",
		"deltalog-commit-info", "app-txn-*", "crc-full", "crc-malformed",
		"deltalog-invalid-protocol-version", "deltalog-state-reconstruction-from-checkpoint-missing-metadata",
		"deltalog-state-reconstruction-from-checkpoint-missing-protocol", "deltalog-state-reconstruction-without-metadata",
		"deltalog-state-reconstruction-without-protocol", "no-delta-log-folder", "versions-not-contiguous",
		"data-reader-*", "parquet-all-types*", "*decimal*", "kernel-timestamp-*", "dv-*", "table-with-dv-*", "with-short-dv",
		"timestamp-truncation-stats", "data-skipping-*", "table-with-columnmapping-mode-*", "type-widening", "void-column",
	} {
		require.True(t, slices.ContainsFunc(names, func(name string) bool {
			ok, err := path.Match(pattern, name)
			return err == nil && ok
		}), pattern)
	}
}
