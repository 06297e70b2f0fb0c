package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// oneCommand is held while a command runs: the CLI library has flags that all
// commands share.
var oneCommand sync.Mutex

// runDelta runs a command of delta.
func runDelta(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runCommand(t, deltaCommand, append([]string{"delta"}, args...)...)
}

// runCommand runs a command as the program does.
func runCommand(t *testing.T, command func(io.Writer) *cli.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	oneCommand.Lock()
	defer oneCommand.Unlock()
	var out, errOut bytes.Buffer
	app := &cli.App{
		Name: programName, Writer: &out, ErrWriter: &errOut,
		Commands:       []*cli.Command{command(&out)},
		ExitErrHandler: func(*cli.Context, error) {},
	}
	err := app.RunContext(t.Context(), append([]string{programName}, args...))
	code = exitCode(&errOut, 0, err, mssqlcdc.NewRunState())
	return code, out.String(), errOut.String()
}

// ordersTable makes a table on disk with a commit and a file per row.
func ordersTable(t *testing.T, rows int) (path string, table *delta.Table) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "orders")
	st, err := file.New(path)
	require.NoError(t, err)
	s := &schema.Struct{Fields: []schema.Field{
		schema.Field{Name: "id", Type: schema.Long}.WithComment("The key"),
		{Name: "status", Type: schema.String, Nullable: true},
		{Name: "amount", Type: schema.Decimal{Precision: 18, Scale: 2}, Nullable: true},
	}}
	table, err = delta.Create(t.Context(), st, delta.Spec{
		Schema: s, Name: "orders", Comment: "All orders", Properties: map[string]string{"source.table": "dbo.orders"},
	}, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	for i := range rows {
		appendOrder(t, table, i)
	}
	return path, table
}

func appendOrder(t *testing.T, table *delta.Table, i int) {
	t.Helper()
	s := table.Snapshot().Schema().Arrow()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, strings.NewReader(fmt.Sprintf(`[{"id":%d,"status":"NEW","amount":"1.50"}]`, i)))
	require.NoError(t, err)
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	adds, err := w.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{
		Operation: delta.OpStreamingWrite, OperationParameters: map[string]string{"queryId": "orders-pipeline", "epochId": fmt.Sprint(i + 1)},
		Metrics: map[string]int64{"numOutputRows": 1}, Fenced: &delta.Txn{AppID: "orders-pipeline", Version: int64(i + 1)},
		BlindAppend: true, Add: adds, UserMetadata: `{"rows":1}`,
	})
	require.NoError(t, err)
}

// countRows reads the table with a handle of its own.
func countRows(t *testing.T, path string) int64 {
	t.Helper()
	st, err := file.New(path)
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	n := int64(0)
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		n += rec.NumRows()
	}
	return n
}

// ok runs a command that must end well.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := runDelta(t, args...)
	require.Equal(t, exitOK, code, stderr)
	require.Empty(t, stderr)
	return stdout
}

// fields are the fields of JSON output of one line.
func fields(t *testing.T, line string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &out), line)
	return out
}

func TestDeltaInspect(t *testing.T) {
	t.Parallel()
	path, table := ordersTable(t, 60)
	require.NoError(t, table.Checkpoint(t.Context()))
	text := ok(t, "inspect", path)
	require.Contains(t, text, "\nCOLUMN  TYPE           NULL  COMMENT\nid      long           no    The key\n", "aligned")
	text = regexp.MustCompile(" +").ReplaceAllString(text, " ")
	for _, want := range []string{
		"table file://", "comment All orders\n", "version 60 at ", " by STREAMING UPDATE of delta-go\n", "protocol reader 1, writer 2\n",
		" in 60 files, 60 rows\n", "60 below 16 MB\n", "log 61 commits, 1 checkpoint, ", ", from version 0 on, kept for 30 days\n",
		"checkpoint of version 60, 0 commits after it\n", "positions orders-pipeline = 60 20", "properties source.table = dbo.orders\n",
		"amount decimal(18,2) yes\n", "! 60 of 60 files are smaller than 16 MB: optimize packs them\n",
	} {
		require.Contains(t, text, want)
	}
	report := fields(t, ok(t, "inspect", "--json", path))
	require.EqualValues(t, 60, report["version"])
	require.EqualValues(t, 60, report["data"].(map[string]any)["rows"])
	require.Equal(t, "decimal(18,2)", report["columns"].([]any)[2].(map[string]any)["type"])
	require.Equal(t, report, fields(t, ok(t, "inspect", path, "--json")), "flags may follow the path")
}

func TestDeltaHistory(t *testing.T) {
	t.Parallel()
	path, _ := ordersTable(t, 60)
	lines := strings.Split(strings.TrimSpace(ok(t, "history", path, "--limit=3")), "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `^VERSION +TIME +OPERATION +ADDED +REMOVED +ROWS +ENGINE +DETAILS$`, lines[0])
	require.Regexp(t, `^60 +20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ  STREAMING UPDATE  1 +0 +1 +delta-go  queryId=orders-pipeline epochId=60$`, lines[3])
	require.Len(t, strings.Split(strings.TrimSpace(ok(t, "history", path)), "\n"), 51)
	lines = strings.Split(strings.TrimSpace(ok(t, "history", path, "--limit", "0", "--json")), "\n")
	require.Len(t, lines, 61)
	last := fields(t, lines[60])
	require.EqualValues(t, 60, last["version"])
	require.Equal(t, `{"rows":1}`, last["commitInfo"].(map[string]any)["userMetadata"])
	require.Equal(t, "orders-pipeline", last["txn"].([]any)[0].(map[string]any)["appId"])
}

func TestDeltaKeepsATableInShape(t *testing.T) {
	t.Parallel()
	path, _ := ordersTable(t, 20)
	require.Regexp(t, `^Would pack 20 files \(\d+\.\d kB\) into about 1\.\n$`, ok(t, "optimize", path, "--dry-run"))
	require.Regexp(t, `^Packed 20 files \(\d+\.\d kB\) into 1 \(\d+(\.\d k| )B\): version 21, \d+\.\d s\.\n$`, ok(t, "optimize", path))
	require.Equal(t, "Nothing to pack.\n", ok(t, "optimize", path))
	require.EqualValues(t, 20, countRows(t, path))
	done := fields(t, ok(t, "optimize", path, "--json", "--target-size", "1mb"))
	require.EqualValues(t, 0, done["filesRemoved"])

	require.Regexp(t, `^Wrote the checkpoint of version 21, \d+ actions, in \d+\.\d s\.\n$`, ok(t, "checkpoint", path))
	require.Equal(t, "There is a checkpoint of version 21.\n", ok(t, "checkpoint", path))
	require.EqualValues(t, 21, fields(t, ok(t, "checkpoint", path, "--json"))["version"])

	require.Regexp(t, `^Nothing to delete: no checkpoint is that old\. What is younger than .* stays\.\n$`, ok(t, "cleanup", path))
	require.Equal(t, "Would delete 0 files (0 B) that no version of the last 7 days needs.\n", ok(t, "vacuum", path, "--dry-run"))

	// A month later.
	age(t, path, 40*24*time.Hour)
	appendOrder(t, reopen(t, path), 20)
	require.Regexp(t, `^Would delete 21 commits and 0 checkpoints \(.* in 21 files\); the oldest version is 21 then\.\n$`, ok(t, "cleanup", path, "--dry-run"))
	require.EqualValues(t, 21, fields(t, ok(t, "cleanup", path, "--json"))["deleted"])
	require.Contains(t, ok(t, "history", path), "\n21 ")

	code, _, stderr := runDelta(t, "vacuum", path, "--retain", "0s")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "a retention of 0s is shorter than the 168h0m0s")
	require.Len(t, strings.Split(strings.TrimSpace(ok(t, "vacuum", path, "--retain=0s", "--force", "--dry-run", "--list")), "\n"), 21)
	require.Regexp(t, `^Deleted 20 files \(.*\) that no version of the last 0s needs, in .* s\.\n$`, ok(t, "vacuum", path, "--retain=0s", "--force"))
	require.EqualValues(t, 21, countRows(t, path))
	require.Contains(t, ok(t, "history", path), "VACUUM END")
}

// age makes every file older.
func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	n := 0
	require.NoError(t, filepath.WalkDir(path, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		return os.Chtimes(name, at.Add(time.Duration(n)*time.Second), at.Add(time.Duration(n)*time.Second))
	}))
}

func reopen(t *testing.T, path string) *delta.Table {
	t.Helper()
	st, err := file.New(path)
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	return table
}

func TestDeltaErrors(t *testing.T) {
	t.Parallel()
	path, _ := ordersTable(t, 3)
	empty := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no table":          {[]string{"inspect", empty}, exitNoTable, empty + " holds no Delta table"},
		"no folder":         {[]string{"vacuum", filepath.Join(empty, "nothing")}, exitNoTable, "holds no Delta table"},
		"no path":           {[]string{"inspect"}, exitUsage, "which table?"},
		"two paths":         {[]string{"inspect", path, empty}, exitUsage, "one table at a time"},
		"unknown command":   {[]string{"compact", path}, exitUsage, `no command "compact"`},
		"unknown flag":      {[]string{"inspect", "--wide", path}, exitUsage, "wide"},
		"unknown flag last": {[]string{"inspect", path, "--wide"}, exitUsage, "--wide"},
		"flag of another":   {[]string{"inspect", path, "--dry-run"}, exitUsage, "--dry-run"},
		"no value":          {[]string{"history", path, "--limit"}, exitUsage, "--limit"},
		"not a number":      {[]string{"history", path, "--limit", "many"}, exitUsage, "--limit"},
		"not a size":        {[]string{"optimize", path, "--target-size", "big"}, exitUsage, `"big" is no size`},
		"not a duration":    {[]string{"vacuum", path, "--retain", "a week"}, exitUsage, `"a week" is no duration`},
		"unknown store":     {[]string{"inspect", "ftp://host/orders"}, exitFailure, "ftp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := runDelta(t, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 1, strings.Count(strings.TrimSpace(stderr), "\n")+1, "one line: %s", stderr)
		})
	}
}

// A damaged log is named by file and line, whatever one wants of the table.
func TestDeltaOnADamagedLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(text string) string
		want   string
	}{
		"torn":           {func(text string) string { return text[:len(text)-20] }, "00000000000000000002.json, line 3: unexpected end of JSON input"},
		"not JSON":       {func(text string) string { return "x" + text }, "00000000000000000002.json, line 1: invalid character 'x'"},
		"wrong kind":     {func(text string) string { return strings.Replace(text, `"size":`, `"size":"x`, 1) }, "00000000000000000002.json, line 3: "},
		"the same twice": {func(text string) string { return text + text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:] }, "00000000000000000002.json: decoding line 4: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := ordersTable(t, 4)
			commit := filepath.Join(path, "_delta_log", "00000000000000000002.json")
			text, err := os.ReadFile(commit)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(commit, []byte(c.damage(string(text))), 0o666))
			for _, command := range []string{"inspect", "history", "optimize", "checkpoint"} {
				code, _, stderr := runDelta(t, command, path)
				require.Equal(t, exitFailure, code)
				require.Contains(t, stderr, "the table's log is damaged: _delta_log/"+c.want)
			}
		})
	}
	t.Run("a commit is missing", func(t *testing.T) {
		t.Parallel()
		path, _ := ordersTable(t, 4)
		require.NoError(t, os.Remove(filepath.Join(path, "_delta_log", "00000000000000000002.json")))
		code, _, stderr := runDelta(t, "inspect", path)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "2 is missing before 3")
	})
	t.Run("the checkpoint", func(t *testing.T) {
		t.Parallel()
		path, table := ordersTable(t, 4)
		require.NoError(t, table.Checkpoint(t.Context()))
		name := "_delta_log/00000000000000000004.checkpoint.parquet"
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte("PAR1 and nothing else of use PAR1"), 0o666))
		code, _, stderr := runDelta(t, "inspect", path)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, name)
	})
}

func TestHumanNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 1_234_567_890: "1.2 GB", 1 << 62: "4611.7 PB"} {
		require.Equal(t, want, humanBytes(n))
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		require.Equal(t, want, humanCount(n))
	}
	for text, want := range map[string]time.Duration{"36h": 36 * time.Hour, "7d": 168 * time.Hour, "2w": 336 * time.Hour, "interval 1 days": 24 * time.Hour, "0s": 0} {
		got, err := parseRetention(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "7", "d", "1y", "-1d", "999999w", "interval 1 month"} {
		_, err := parseRetention(text)
		require.Error(t, err, text)
	}
}
