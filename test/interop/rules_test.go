package interop

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// What writers have got wrong and readers have punished: exact statistics at the least and greatest value of every type, partitions by
// every kind of value with names that must be escaped, and what the log says beside the rows.

// checked is a request with all questions.
type checked struct {
	request
	Extremes bool     `json:"extremes"`
	Apps     []string `json:"apps"`
}

const (
	ruleApp     = "rules"
	description = "table of \"rules\"\nin two lines"
	comment     = "identity, ü"
)

// hardSchema has a column of every type whose statistics can be wrong.
func hardSchema(t *testing.T) *schema.Struct {
	t.Helper()
	s := &schema.Struct{Fields: []schema.Field{schema.Field{Name: "id", Type: schema.Long}.WithComment(comment)}}
	for _, f := range []schema.Field{
		{Name: "small", Type: schema.Decimal{Precision: 9, Scale: 2}},
		{Name: "money", Type: schema.Decimal{Precision: 18, Scale: 2}},
		{Name: "large", Type: schema.Decimal{Precision: 38, Scale: 10}},
		{Name: "at", Type: schema.Timestamp},
		{Name: "local", Type: schema.TimestampNTZ},
		{Name: "day", Type: schema.Date},
		{Name: "real", Type: schema.Float},
		{Name: "wide", Type: schema.Double},
		{Name: "text", Type: schema.String},
		{Name: "flag", Type: schema.Boolean},
	} {
		f.Nullable = true
		s.Fields = append(s.Fields, f)
	}
	require.NoError(t, s.Validate())
	return s
}

// hardRow is row i of hardRows rows, none of which has a value of another's.
func hardRow(t *testing.T, b *array.RecordBuilder, i int) {
	t.Helper()
	number := func(text string, scale int32) decimal128.Num {
		n, err := decimal128.FromString(text, 38, scale)
		require.NoError(t, err)
		return n
	}
	b.Field(0).(*array.Int64Builder).Append(int64(i))
	if i == hardRows-1 { // a row of NULL
		for _, f := range b.Fields()[1:] {
			f.AppendNull()
		}
		return
	}
	instants := []time.Time{
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(2026, 1, 1, 0, 0, 0, 123_456_000, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 123_999_000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	}
	at := arrow.Timestamp(instants[i].UnixMicro())
	b.Field(1).(*array.Decimal128Builder).Append(number([]string{"-9999999.99", "-0.01", "0.00", "0.07", "9999999.99"}[i], 2))
	b.Field(2).(*array.Decimal128Builder).Append(number([]string{"-1234567890123456.78", "-9007199254740993.01", "0.10", "1234567890123456.78", "9999999999999999.99"}[i], 2))
	b.Field(3).(*array.Decimal128Builder).Append(number([]string{"-9999999999999999999999999999.9999999999", "-0.0000000001", "0.0000000001",
		"1234567890123456789012345678.0123456789", "9999999999999999999999999999.9999999999"}[i], 10))
	b.Field(4).(*array.TimestampBuilder).Append(at)
	b.Field(5).(*array.TimestampBuilder).Append(at)
	b.Field(6).(*array.Date32Builder).Append(arrow.Date32FromTime(instants[i]) + arrow.Date32(i%2))
	b.Field(7).(*array.Float32Builder).Append([]float32{-math.MaxFloat32, -1.1, 0.1, 16777217, math.MaxFloat32}[i])
	b.Field(8).(*array.Float64Builder).Append([]float64{-math.MaxFloat64, -1.1, 5e-324, 0.1, math.MaxFloat64}[i])
	b.Field(9).(*array.StringBuilder).Append([]string{"", strings.Repeat("z", 31) + "ü" + strings.Repeat("a", 9), strings.Repeat("\U0010FFFF", 40), "it's \"quoted\" \\ and\nbroken", "ü"}[i])
	b.Field(10).(*array.BooleanBuilder).Append(i%2 == 0)
}

const hardRows = 6

// writeFile appends one row, in a file of its own, so that its values are the bounds of the file.
func writeFile(t *testing.T, table *delta.Table, fill func(*array.RecordBuilder)) {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, table.Snapshot().Schema().Arrow())
	defer b.Release()
	fill(b)
	rec := b.NewRecordBatch()
	defer rec.Release()
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	files, err := w.Close()
	require.NoError(t, err)
	last, _ := table.Snapshot().AppVersion(ruleApp)
	_, err = table.Commit(t.Context(), delta.Change{
		Operation: delta.OpWrite, OperationParameters: map[string]string{"mode": "Append", "partitionBy": `["a"]`},
		Metrics: map[string]int64{"numOutputRows": 1}, Add: files, BlindAppend: true,
		Fenced: &delta.Txn{AppID: ruleApp, Version: last + 1}, UserMetadata: fmt.Sprintf(`{"n":%d,"text":"a \"b\" ü"}`, last),
	})
	require.NoError(t, err)
}

// hardTables are a table of hard values and one with partitions by them.
func hardTables(t *testing.T) (*lake, []string) {
	t.Helper()
	l := &lake{dir: t.TempDir()}
	make := func(name string, spec delta.Spec) *delta.Table {
		st, err := file.New(l.path(name))
		require.NoError(t, err)
		spec.Comment = description
		table, err := delta.Create(t.Context(), st, spec, delta.Options{CheckpointInterval: 4})
		require.NoError(t, err)
		return table
	}
	hard := make("hard", delta.Spec{Schema: hardSchema(t)})
	for i := range hardRows {
		writeFile(t, hard, func(b *array.RecordBuilder) { hardRow(t, b, i) })
	}
	require.NoError(t, hard.Close(t.Context()))

	names := []string{"hard"}
	for _, column := range []string{"small", "large", "at", "local", "day", "flag", "text"} {
		name := "by_" + column
		table := make(name, delta.Spec{Schema: hardSchema(t), PartitionBy: []string{column}})
		for i := range hardRows {
			if column == "text" && i == 0 {
				continue // an empty string is no partition value
			}
			writeFile(t, table, func(b *array.RecordBuilder) { hardRow(t, b, i) })
		}
		require.NoError(t, table.Close(t.Context()))
		names = append(names, name)
	}
	return l, names
}

// Every engine finds every row by its least and greatest values, and tells of the table what we wrote.
func TestEnginesFindExtremes(t *testing.T) {
	t.Parallel()
	interopPython(t, "pyarrow")
	l, names := hardTables(t)
	for engine, module := range engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			python := interopPython(t, module)
			var requests []checked
			for _, name := range names {
				if !unreadable(engine, name) {
					requests = append(requests, checked{request{Path: l.path(name)}, true, []string{ruleApp}})
				}
			}
			for i, got := range read(t, python, engine, requests...) {
				name := filepath.Base(requests[i].Path)
				want := l.own(t, name)
				require.Empty(t, difference(t, want, got, want.Columns), name)
				require.Equal(t, want.Count, got.Count, name)
				requireExtremes(t, engine, name, got)
				l.requireInfo(t, name, got)
			}
		})
	}
}

// unreadable are the tables that an engine cannot read, whoever wrote them.
func unreadable(engine, name string) bool {
	switch engine {
	case "pyarrow":
		return name == "by_small" || name == "by_large" // it misreads negative decimals as partition values
	}
	return false
}

func requireExtremes(t *testing.T, engine, name string, got rows) {
	t.Helper()
	require.Greater(t, len(got.Extremes), 40, name)
	for _, e := range got.Extremes {
		// A missing bound is a comparison with NULL to delta-rs' pyarrow reader, so that it finds no row by a column that has none.
		// Booleans have none, as in the tables of Spark.
		if engine == "pyarrow" && e[0] == "flag" {
			continue
		}
		require.Equal(t, e[2], e[3], "%s where %s %s: %v rows, found %v", name, e[0], e[1], e[2], e[3])
	}
}

// requireInfo compares what an engine tells of a table with our snapshot, as far as it tells.
func (l *lake) requireInfo(t *testing.T, name string, got rows) {
	t.Helper()
	st, err := file.New(l.path(name))
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	s := table.Snapshot()
	for i, column := range got.Columns {
		f := s.Schema().Fields[s.Schema().Index(column)]
		require.Equal(t, f.Type.String(), got.Types[i], "%s: type of %s", name, column)
	}
	for _, version := range got.Info.Apps {
		require.NotNil(t, version, name)
		have, _ := s.AppVersion(ruleApp)
		require.Equal(t, have, *version, name)
	}
	if got.Info.Version == nil {
		return
	}
	require.Equal(t, s.Version(), *got.Info.Version, name)
	require.Equal(t, description, got.Info.Description, name)
	require.Equal(t, comment, got.Info.Comments["id"], name)
	n := 0
	for c, err := range table.Commits(t.Context(), 0) {
		require.NoError(t, err)
		require.Less(t, n, len(got.Info.History), name)
		require.Equal(t, [3]any{float64(c.Version), c.Info.Operation, c.Info.UserMetadata}, got.Info.History[n], name)
		n++
	}
	require.Len(t, got.Info.History, n, name)
}

// The text of our logs: no empty lines, no raw colons in paths, no compactions; and in commitInfo the kinds of values that no engine's
// history stumbles over.
func TestLogText(t *testing.T) {
	t.Parallel()
	l, names := hardTables(t)
	lines := 0
	for _, name := range names {
		logs, err := filepath.Glob(filepath.Join(l.path(name), "_delta_log", "*"))
		require.NoError(t, err)
		for _, log := range logs {
			require.NotContains(t, log, "compacted")
			if filepath.Ext(log) != ".json" {
				continue
			}
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(string(text), "\n"), log)
			for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
				require.NotEmpty(t, strings.TrimSpace(line), log)
				requireLine(t, l.path(name), line)
				lines++
			}
		}
	}
	require.Greater(t, lines, 3*len(names)*(hardRows-1))
}

func requireLine(t *testing.T, dir, line string) {
	t.Helper()
	var action map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &action), line)
	if add, ok := action["add"]; ok {
		path := add["path"].(string)
		require.NotContains(t, path, ":", "a colon in the first segment is the end of a scheme to Spark")
		for column, value := range add["partitionValues"].(map[string]any) { // Hive's folders: Polars reads the values there
			require.Contains(t, path, column+"=", "%v", value)
		}
	}
	info, ok := action["commitInfo"]
	if !ok {
		return
	}
	for field, kinds := range map[string]any{"timestamp": 0.0, "readVersion": 0.0, "isBlindAppend": true, "operation": "", "userMetadata": "", "engineInfo": "", "txnId": ""} {
		if value, ok := info[field]; ok {
			require.IsType(t, kinds, value, "%s in %s of %s", field, line, dir)
		}
	}
	for _, field := range []string{"operationParameters", "operationMetrics"} {
		values, _ := info[field].(map[string]any)
		for name, value := range values {
			require.IsType(t, "", value, "%s.%s", field, name)
		}
	}
}

// What delta-rs appends to our table and the checkpoint that it writes there is read by ours, and by it again after our next commit.
func TestTableIsShared(t *testing.T) {
	t.Parallel()
	python := interopPython(t, "deltalake")
	interopPython(t, "pyarrow")
	l, _ := hardTables(t)
	script := `import os, sys, pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake
table = DeltaTable(sys.argv[1])
rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t WHERE id < 3").read_all()).cast(pa.schema(table.schema().to_arrow()))
write_deltalake(table, rows, mode="append")
DeltaTable(sys.argv[1]).create_checkpoint()
sys.stdout.flush()
os._exit(0)`
	out, err := exec.CommandContext(t.Context(), python, "-c", script, l.path("hard")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	checkpoints, err := filepath.Glob(filepath.Join(l.path("hard"), "_delta_log", "*7.checkpoint.parquet"))
	require.NoError(t, err)
	require.Len(t, checkpoints, 1)

	st, err := file.New(l.path("hard"))
	require.NoError(t, err)
	for v := range int64(7) { // only delta-rs' checkpoint tells of them
		require.NoError(t, st.Delete(t.Context(), fmt.Sprintf("_delta_log/%020d.json", v)))
	}
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	writeFile(t, table, func(b *array.RecordBuilder) { hardRow(t, b, 4) })
	require.NoError(t, table.Close(t.Context()))
	want := l.own(t, "hard")
	require.Len(t, want.Rows, hardRows+3+1)
	got := read(t, python, "datafusion", request{Path: l.path("hard")})[0]
	require.Empty(t, difference(t, want, got, want.Columns))
}
