// Package interop lets engines and clients that others made judge what we write and what the simulator says. setup.sh
// installs them; without them the tests are skipped.
package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// pipelineYAML writes many small commits of many small parts. %[1]s is the folder, %[2]s more processors after each commit and fields of the
// output, in which %[1]s is the folder, too.
const pipelineYAML = `
input:
  mssql_cdc:
    connection_string: "${MSSQL_DSN}"
    tables: [ dbo.* ]
    run: available_now
    format: record_batch
    max_commits_per_window: 5
    max_rows_per_part: 7
    checkpoint_cache: position
output:
  delta_lake:
    path: %[1]s/${! @table }
    app_id: interop-${! @table }
    facts_path: %[1]s/_facts
    after_commit:
      - finalize: { control_path: %[1]s/_control, granularity: minute }
%[2]s
cache_resources:
  - label: position
    atomic_file: { directory: %[1]s/_position }
http: { enabled: false }
logger: { level: WARN }
`

// lake is what the program wrote from a simulator.
type lake struct {
	sim *sqlserversim.Server
	dir string
}

func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "rpconnect-mssqlcdc")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/rpconnect-mssqlcdc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// newLake runs the program twice on the orders workload and one of every type, so that the second run carries tables on.
func newLake(t *testing.T, program, output string) *lake {
	t.Helper()
	clock := engine.NewManualClock(time.Date(2026, 3, 1, 23, 50, 0, 0, time.UTC)) // the next date comes in the first run
	sim := startSimulator(t, sqlserversim.WithClock(clock))
	orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 11})
	require.NoError(t, err)
	_, err = workload.WriteTypes(t.Context(), sim)
	require.NoError(t, err)
	l := &lake{sim: sim, dir: t.TempDir()}
	config := filepath.Join(l.dir, "pipeline.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, pipelineYAML, l.dir, strings.ReplaceAll(output, "%[1]s", l.dir)), 0o600))
	for range 2 {
		for range 60 {
			clock.Advance(20 * time.Second)
			require.NoError(t, orders.Step(t.Context()))
		}
		require.NoError(t, sim.Capture(t.Context()))
		cmd := exec.CommandContext(t.Context(), program, "-c", config)
		cmd.Env = append(os.Environ(), "MSSQL_DSN="+sim.DSN())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return l
}

func (l *lake) path(table string) string { return filepath.Join(l.dir, table) }

// own is what our reader reads.
func (l *lake) own(t *testing.T, table string) rows {
	t.Helper()
	st, err := file.New(l.path(table))
	require.NoError(t, err)
	opened, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close(t.Context())) }()
	s := opened.Snapshot()
	if table == "orders" {
		require.Greater(t, s.NumFiles(), int64(10), "too few files for a test of statistics")
	}
	var r rows
	r.Count, err = s.NumRecords(t.Context())
	require.NoError(t, err)
	for rec, err := range opened.Read(t.Context(), s, delta.ReadOptions{}) {
		require.NoError(t, err)
		r.Columns = nil
		columns := make([][]*string, rec.NumCols())
		for i := range columns {
			r.Columns = append(r.Columns, rec.ColumnName(i))
			columns[i] = canonical(t, rec.Column(i))
		}
		for n := range int(rec.NumRows()) {
			row := make([]*string, len(columns))
			for i := range columns {
				row[i] = columns[i][n]
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

// condition is a filter: column, operator, kind of the value, value.
type condition [4]string

// request is a table for testdata/read_tables.py.
type request struct {
	Path  string      `json:"path"`
	Where []condition `json:"where,omitempty"`
}

// read asks a foreign engine.
func read[R any](t *testing.T, python, engine string, requests ...R) []rows {
	t.Helper()
	body, err := json.Marshal(requests)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), python, "testdata/read_tables.py", engine)
	cmd.Stdin = bytes.NewReader(body)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.String())
	var got []rows
	require.NoError(t, json.Unmarshal(out, &got))
	require.Len(t, got, len(requests))
	return got
}

// change is a change table and the declared types of its captured columns.
type change struct {
	table, instance string
	columns         []workload.TypeColumn
}

// changes are those of the workloads.
func (l *lake) changes(t *testing.T) []change {
	t.Helper()
	list := []change{{"all_types", "dbo_all_types", nil}, {"orders", "dbo_orders", nil}, {"order_lines", "dbo_order_lines", nil}}
	for i, c := range list {
		// A computed column is captured as NULL and not part of bronze.
		res, err := l.sim.Query(t.Context(), "EXEC sys.sp_cdc_get_captured_columns '"+c.instance+"'")
		require.NoError(t, err)
		at := map[string]int{}
		for j, col := range res.Columns {
			at[col.Name] = j
		}
		for _, row := range res.Strings() {
			if name := row[at["column_name"]]; name != "c_computed" {
				list[i].columns = append(list[i].columns, workload.TypeColumn{Name: name, Type: row[at["data_type"]]})
			}
		}
		require.NotEmpty(t, list[i].columns)
	}
	return list
}

// source is what T-SQL says of a change table, in the form of bronze.
func (l *lake) source(t *testing.T, c change) rows {
	t.Helper()
	r := rows{Columns: []string{"_capture_instance", "_start_lsn", "_seqval", "_operation", "_command_id", "_commit_ts"}}
	types := []string{"text", "text", "text", "int", "int", "datetime"}
	items := []string{"'" + c.instance + "'", "CONVERT(varchar(22), c.__$start_lsn, 1)", "CONVERT(varchar(22), c.__$seqval, 1)", "c.__$operation", "c.__$command_id",
		"CONVERT(varchar(50), m.tran_end_time, 121)"}
	for _, col := range c.columns {
		r.Columns, types, items = append(r.Columns, col.Name), append(types, col.Type), append(items, tsqlText(col))
	}
	res, err := l.sim.Query(t.Context(), "SELECT "+strings.Join(items, ", ")+" FROM cdc."+c.instance+"_CT c JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.__$start_lsn")
	require.NoError(t, err)
	for _, texts := range res.Strings() {
		row := make([]*string, len(texts))
		for i, text := range texts {
			if text == "NULL" {
				continue
			}
			value := canonicalSource(t, types[i], text)
			row[i] = &value
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// engines are those of testdata/read_tables.py but Spark, and the packages they need.
func engines() map[string]string {
	return map[string]string{"datafusion": "deltalake", "pyarrow": "deltalake", "polars": "polars", "duckdb": "duckdb"}
}

// outputs are fields of the output that make the two kinds of lake.
func outputs() map[string]string {
	return map[string]string{
		"default": "",
		"compact": "    partition_by: [ date(_commit_ts) ]\n    parquet: { compression: snappy, encodings: compact }\n    table_properties: { delta.checkpointInterval: \"3\" }",
	}
}

// Every engine reads bronze, facts and control to the same values as our reader, bronze to those of the change tables, and finds the same
// rows through the statistics of the files.
func TestEnginesReadTheTables(t *testing.T) {
	t.Parallel()
	interopPython(t, "pyarrow")
	program := buildProgram(t)
	for name, output := range outputs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLake(t, program, output)
			l.requireSource(t)
			for engine, module := range engines() {
				t.Run(engine, func(t *testing.T) { requireSame(t, interopPython(t, module), engine, l.tables(t)) })
			}
		})
	}
}

// Spark, in one session, since a session takes long to start.
func TestSparkReadsTheTables(t *testing.T) {
	t.Parallel()
	python := interopPython(t, "pyspark")
	all := notNullTable(t)
	program := buildProgram(t)
	for _, output := range outputs() {
		all = append(all, newLake(t, program, output).tables(t)...)
	}
	requireSame(t, python, "spark", all)
}

// requireSource compares what we read of bronze with the change tables, and facts and control with their numbers of rows and last LSNs.
func (l *lake) requireSource(t *testing.T) {
	t.Helper()
	facts, control := l.own(t, "_facts"), l.own(t, "_control")
	written := map[string]int{}
	for _, row := range facts.pick(t, "capture_instance", "rows", "event") {
		if row[2] == "" {
			n, err := strconv.Atoi(row[1])
			require.NoError(t, err)
			written[row[0]] += n
		}
	}
	changes := l.changes(t)
	require.Len(t, control.Rows, len(changes))
	for _, c := range changes {
		want, got := l.source(t, c), l.own(t, c.table)
		require.Greater(t, len(want.Rows), 10, c.table)
		require.Empty(t, difference(t, want, got, want.Columns), c.table)
		require.Equal(t, int64(len(want.Rows)), got.Count, "the statistics of %s", c.table)
		require.Equal(t, len(want.Rows), written[c.instance], "the facts of %s", c.table)
		last := slices.MaxFunc(want.pick(t, "_start_lsn"), slices.Compare[[]string])
		for _, row := range control.pick(t, "table_name", "end_lsn") {
			if strings.HasSuffix(row[0], c.table) {
				require.GreaterOrEqual(t, row[1], last[0], "the position of %s", c.table)
				last = nil
			}
		}
		require.Nil(t, last, "%s is not in control", c.table)
	}
}

// pick gives some columns of every row, NULL as "".
func (r rows) pick(t *testing.T, columns ...string) [][]string {
	t.Helper()
	out := make([][]string, len(r.Rows))
	for i, name := range columns {
		at := slices.Index(r.Columns, name)
		require.GreaterOrEqual(t, at, 0, "no column %s among %v", name, r.Columns)
		for n, row := range r.Rows {
			out[n] = append(out[n], "")
			if row[at] != nil {
				out[n][i] = *row[at]
			}
		}
	}
	return out
}

// readTable is what an engine is to read, and what must come.
type readTable struct {
	name string
	request
	want rows
}

// tables are all tables whole, and the rows of orders that hold a condition.
func (l *lake) tables(t *testing.T) []readTable {
	t.Helper()
	var list []readTable
	for _, table := range []string{"all_types", "orders", "order_lines", "_facts", "_control"} {
		list = append(list, readTable{table, request{Path: l.path(table)}, l.own(t, table)})
	}
	for _, f := range filters(t, list[1].want) {
		list = append(list, readTable{fmt.Sprint("orders where ", f.where), request{Path: l.path("orders"), Where: f.where}, f.rows})
	}
	return list
}

func requireSame(t *testing.T, python, engine string, tables []readTable) {
	t.Helper()
	requests := make([]request, len(tables))
	for i, table := range tables {
		requests[i] = table.request
	}
	for i, got := range read(t, python, engine, requests...) {
		want, name := tables[i].want, tables[i].name
		require.NotEmpty(t, want.Rows)
		require.ElementsMatch(t, want.Columns, got.Columns, name)
		require.Empty(t, difference(t, want, got, want.Columns), name)
		require.Equal(t, want.Count, got.Count, name)
	}
}

// filter is a condition and the rows that hold it.
type filter struct {
	where []condition
	rows  rows
}

// filters are conditions that the statistics of files answer for most of them.
func filters(t *testing.T, all rows) []filter {
	t.Helper()
	lsn, commit := slices.Index(all.Columns, "_start_lsn"), slices.Index(all.Columns, "_commit_ts")
	sorted := slices.SortedFunc(slices.Values(all.Rows), func(a, b []*string) int { return strings.Compare(*a[lsn], *b[lsn]) })
	low, middle := sorted[len(sorted)/4], sorted[len(sorted)/2]
	micros := func(row []*string) int64 {
		n, err := strconv.ParseInt(strings.TrimPrefix(*row[commit], "t:"), 10, 64)
		require.NoError(t, err)
		return n
	}
	keep := func(where []condition, hold func([]*string) bool) filter {
		r := rows{Columns: all.Columns}
		for _, row := range all.Rows {
			if hold(row) {
				r.Rows = append(r.Rows, row)
			}
		}
		r.Count = int64(len(r.Rows))
		require.Less(t, len(r.Rows), len(all.Rows))
		return filter{where, r}
	}
	return []filter{
		keep([]condition{{"_start_lsn", ">", "text", *low[lsn]}, {"_start_lsn", "<=", "text", *middle[lsn]}},
			func(row []*string) bool { return *row[lsn] > *low[lsn] && *row[lsn] <= *middle[lsn] }),
		keep([]condition{{"_commit_ts", ">=", "time", microText(micros(middle))}},
			func(row []*string) bool { return micros(row) >= micros(middle) }),
	}
}
