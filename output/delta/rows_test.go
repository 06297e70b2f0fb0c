package delta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// batch makes rows from JSON.
func batch(t testing.TB, s *schema.Struct, rows string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s.Arrow(), strings.NewReader(rows))
	require.NoError(t, err)
	return rec
}

// write writes rows to files of a table without committing them.
func write(t testing.TB, table *delta.Table, rows string) []action.Add {
	t.Helper()
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(batch(t, table.Snapshot().Schema(), rows)))
	adds, err := w.Close()
	require.NoError(t, err)
	return adds
}

// read returns the rows of a snapshot as JSON lines, sorted.
func read(t testing.TB, table *delta.Table, s *delta.Snapshot, columns ...string) []string {
	t.Helper()
	out := []string{}
	for rec, err := range table.Read(t.Context(), s, delta.ReadOptions{Columns: columns}) {
		require.NoError(t, err)
		text, err := rec.MarshalJSON()
		require.NoError(t, err)
		var line string
		for line = range strings.SplitSeq(strings.Trim(string(text), "[]\n"), "\n,") {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

func TestRowsThereAndBack(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	adds := write(t, table, `[{"a":1,"b":"x"},{"a":2,"b":null}]`)
	require.Len(t, adds, 1)
	require.Empty(t, read(t, table, table.Snapshot()), "nothing counts before its commit")
	commit(t, table, delta.Change{BlindAppend: true, Add: adds})
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"a":3,"b":"y"}]`)})

	fresh := open(t, st, delta.Options{})
	s := fresh.Snapshot()
	require.Equal(t, []string{`{"a":1,"b":"x"}`, `{"a":2,"b":null}`, `{"a":3,"b":"y"}`}, read(t, fresh, s))
	require.Equal(t, []string{`{"b":"x"}`, `{"b":"y"}`, `{"b":null}`}, read(t, fresh, s, "b"))
	n, err := s.NumRecords(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	old, err := fresh.At(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, read(t, fresh, old), 2)

	// A new column: old files read as null.
	m := s.Metadata()
	merged, changed, err := schema.Merge(s.Schema(), columns(t, "C"))
	require.NoError(t, err)
	require.True(t, changed)
	m.SchemaString = merged.JSON()
	commit(t, fresh, delta.Change{Operation: delta.OpAddColumns, ReadVersion: s.Version(), Metadata: &m})
	commit(t, fresh, delta.Change{BlindAppend: true, Add: write(t, fresh, `[{"a":4,"b":"z","C":5}]`)})
	require.Equal(t, []string{`{"C":5,"a":4}`, `{"C":null,"a":1}`, `{"C":null,"a":2}`, `{"C":null,"a":3}`}, sortedLines(read(t, fresh, fresh.Snapshot(), "C", "a")))
}

// sortedLines orders the keys within lines, whatever the order of columns was.
func sortedLines(lines []string) []string {
	var out []string
	for _, line := range lines {
		parts := strings.Split(strings.Trim(line, "{}"), ",")
		slices.Sort(parts)
		out = append(out, "{"+strings.Join(parts, ",")+"}")
	}
	slices.Sort(out)
	return out
}

// Values that need escaping in a directory name, in the log, or both (delta-rs
// 2716, 4352).
func TestPartitionedRows(t *testing.T) {
	t.Parallel()
	st := mem.New()
	s := columns(t, "a", "p string")
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: s, PartitionBy: []string{"p"}}, delta.Options{})
	require.NoError(t, err)
	values := []string{`"a b"`, `"a%20b"`, `"ü"`, `"a/b"`, `"a:b"`, `"x+y"`, `"a=b"`, `"#?"`, `null`}
	want := []string{}
	for round := range 2 {
		for i, v := range values {
			row := fmt.Sprintf(`{"a":%d,"p":%s}`, 10*round+i, v)
			want = append(want, row)
			commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, "["+row+"]")})
		}
	}
	slices.Sort(want)
	require.NoError(t, table.Checkpoint(t.Context()))
	fresh := open(t, st, delta.Options{})
	require.Equal(t, want, read(t, fresh, fresh.Snapshot()))
	dirs := map[string]bool{}
	for info, err := range st.List(t.Context(), "p=", "") {
		require.NoError(t, err)
		dirs[strings.Split(info.Path, "/")[0]] = true
	}
	require.Len(t, dirs, len(values), "one directory per value: %v", sortedKeys(dirs))
}

func TestStagedFiles(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	adds := append(write(t, table, `[{"a":1,"b":"x"}]`), write(t, table, `[{"a":2,"b":"y"}]`)...)
	missing, err := table.MissingFiles(t.Context(), adds)
	require.NoError(t, err)
	require.Empty(t, missing)
	plain, err := action.DecodePath(adds[1].Path)
	require.NoError(t, err)
	require.NoError(t, st.Delete(t.Context(), plain))
	missing, err = table.MissingFiles(t.Context(), adds)
	require.NoError(t, err)
	require.Equal(t, []string{plain}, missing)

	require.NoError(t, table.Discard(t.Context(), adds))
	for info, err := range st.List(t.Context(), "part", "") {
		require.NoError(t, err)
		t.Fatalf("%s is still there", info.Path)
	}
}

func TestWriterFollowsTheTable(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table, err := delta.Create(t.Context(), st, delta.Spec{
		Schema: columns(t, "a", "b"),
		Properties: map[string]string{
			delta.PropCompression:               "SNAPPY",
			data.PropertyNumIndexedCols:         "1",
			"delta.parquet.something.we.ignore": "x",
		},
	}, delta.Options{})
	require.NoError(t, err)
	adds := write(t, table, `[{"a":1,"b":2}]`)
	require.Contains(t, adds[0].Path, "snappy")
	require.JSONEq(t, `{"numRecords":1,"minValues":{"a":1},"maxValues":{"a":1},"nullCount":{"a":0}}`, stripTight(adds[0].Stats))
}

// stripTight drops a claim of the statistics that the writer may make or not.
func stripTight(stats string) string {
	return strings.Replace(strings.Replace(stats, `,"tightBounds":true`, "", 1), `"tightBounds":true,`, "", 1)
}

func TestFilesOutsideOfTheTable(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	c := adding("x")
	c.Add[0].Path = "s3://elsewhere/x"
	commit(t, table, c)
	var err error
	for _, err = range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
	}
	require.ErrorContains(t, err, "outside of table")
	_, err = table.MissingFiles(t.Context(), c.Add)
	require.ErrorContains(t, err, "outside of table")

	// A path that leads out of the root never reaches the disk.
	c = adding("y")
	c.Add[0].Path = "../../etc/passwd"
	commit(t, table, c)
	_, err = table.MissingFiles(t.Context(), c.Add)
	require.ErrorContains(t, err, "below the table's root")
}
