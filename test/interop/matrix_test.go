package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// matrixEngines are the columns of the matrix, ours first, and the packages they need.
func matrixEngines() (names []string, modules map[string]string) {
	return []string{"ours", "datafusion", "pyarrow", "polars", "duckdb"},
		map[string]string{"datafusion": "deltalake", "pyarrow": "deltalake", "polars": "polars", "duckdb": "duckdb"}
}

// published is a table that others published, by what output/delta/testdata/cases.txt says of it.
type published struct {
	name   string // as golden/x or tables/x/y
	want   string // rows, refused or log
	digest string // of rows
	text   string // of a refusal
	path   string // where its _delta_log lies
}

// answer is what an engine made of a table.
type answer struct {
	Table  string
	Rows   int
	Digest string
	Error  string
}

// Every engine and our reader over all published tables: we read what any of the engines reads, and refuse the rest by name. With -v
// the matrix is printed: = is the right rows, W other rows, E a refusal, r read where we refuse to.
func TestGoldenMatrix(t *testing.T) {
	t.Parallel()
	python := interopPython(t, "pyarrow")
	cases := unpackGolden(t, python)
	engines, modules := matrixEngines()
	columns := make([]map[string]answer, len(engines))
	var wg sync.WaitGroup
	for i, engine := range engines {
		if i == 0 {
			columns[i] = ownAnswers(t, python, cases)
			continue
		}
		interopPython(t, modules[engine])
		wg.Go(func() { columns[i] = askAll(t, python, engine, cases) })
	}
	wg.Wait()

	var out strings.Builder
	fmt.Fprintf(&out, "%-70s %s\n", "table", strings.Join(engines, " "))
	groups := map[string][]string{}
	for _, c := range cases {
		ours := columns[0][c.path]
		require.Equal(t, c.verdict(ours, ours), c.due(), "%s: ours %+v", c.name, ours)
		marks := make([]string, len(engines))
		for i := range engines {
			marks[i] = c.verdict(columns[i][c.path], ours)
		}
		if marks[0] == "E" {
			require.ErrorContains(t, errors.New(ours.Error), c.text, c.name)
			// Variants are the one thing that an engine reads and the gate does not allow.
			if c.name != "tables/unshredded-variant" {
				require.NotContains(t, marks[1:], "r", "%s is read by others", c.name)
			}
		}
		groups[strings.Join(marks, " ")] = append(groups[strings.Join(marks, " ")], c.name)
		fmt.Fprintf(&out, "%-70s %s   %s\n", c.name, strings.Join(marks, " "), cut(ours.Error))
	}
	out.WriteByte('\n')
	for _, marks := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&out, "%s  %d tables\n", marks, len(groups[marks]))
	}
	t.Logf("\n%s", out.String())
}

// verdict is the mark of an answer.
func (c published) verdict(a, ours answer) string {
	right := c.digest
	if strings.HasPrefix(ours.Digest, "many ") {
		right = ours.Digest // output/delta compares its rows with the digest
	}
	switch {
	case a.Error != "":
		return "E"
	case c.want != "rows":
		return "r"
	case a.Digest != right:
		return "W"
	}
	return "="
}

// due is the mark that ours must have.
func (c published) due() string {
	switch c.want {
	case "refused", "log": // the files of the latter are not there to be read
		return "E"
	}
	return "="
}

// unpackGolden unpacks the published tables and finds those of cases.txt, and no others, among them.
func unpackGolden(t *testing.T, python string) []published {
	t.Helper()
	source := os.Getenv("SHARED_DATA")
	if source == "" {
		source = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(source, "delta", "golden")); err != nil {
		t.Skipf("skipped: no tables of other engines at %s (set SHARED_DATA)", source)
	}
	root := t.TempDir()
	for _, kind := range []string{"golden", "tables"} {
		out, err := exec.CommandContext(t.Context(), python, "testdata/matrix.py", "unpack", filepath.Join(source, "delta", kind), filepath.Join(root, kind)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	logs := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "_delta_log" {
			logs[filepath.Dir(path)] = true
		}
		return err
	}))
	text, err := os.ReadFile("../../output/delta/testdata/cases.txt")
	require.NoError(t, err)
	var cases []published
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		c := published{name: fields[0], want: fields[1]}
		switch c.want {
		case "rows":
			c.digest = fields[3]
		case "refused":
			c.text = strings.Join(fields[2:], " ")
		}
		c.path = placeOf(t, root, c.name, logs)
		delete(logs, c.path)
		cases = append(cases, c)
	}
	require.Empty(t, logs, "tables without a line in cases.txt")
	return cases
}

// placeOf finds the folder of a table.
func placeOf(t *testing.T, root, name string, logs map[string]bool) string {
	t.Helper()
	below, sub := filepath.Join(root, name), ""
	if _, err := os.Stat(below); err != nil { // one of several tables in an archive
		below, sub = filepath.Join(root, path.Dir(name)), path.Base(name)
	}
	found := ""
	for dir := range logs {
		if strings.HasPrefix(dir, below+string(filepath.Separator)) || dir == below {
			if (sub == "" || filepath.Base(dir) == sub) && (found == "" || len(dir) < len(found)) {
				found = dir
			}
		}
	}
	if found == "" { // a folder without a log
		matches, err := filepath.Glob(filepath.Join(below, "*", "delta"))
		require.NoError(t, err)
		require.Len(t, matches, 1, name)
		return matches[0]
	}
	return found
}

// askAll lets an engine read the tables. The process may die at one: that is its answer for it, and the rest is asked again.
func askAll(t *testing.T, python, engine string, cases []published) map[string]answer {
	all := map[string]answer{}
	for left := cases; len(left) > 0; left = left[1:] {
		paths := make([]string, len(left))
		for i, c := range left {
			paths[i] = c.path
		}
		in, err := json.Marshal(paths)
		if err != nil {
			t.Error(err)
			return all
		}
		cmd := exec.CommandContext(t.Context(), python, "testdata/matrix.py", "read", engine)
		cmd.Stdin = bytes.NewReader(in)
		cmd.Env = append(os.Environ(), "TZ=UTC")
		out, err := cmd.Output()
		for line := range bytes.Lines(out) {
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				t.Errorf("%s said %q: %v", engine, line, err)
				return all
			}
			all[a.Table] = a
		}
		left = slices.DeleteFunc(slices.Clone(left), func(c published) bool { _, ok := all[c.path]; return ok })
		if len(left) == 0 {
			return all
		}
		all[left[0].path] = answer{Table: left[0].path, Error: fmt.Sprintf("the process died: %v", err)}
	}
	return all
}

// ownAnswers are those of our reader: its rows go through the same digest as those of others.
func ownAnswers(t *testing.T, python string, cases []published) map[string]answer {
	t.Helper()
	refused := map[string]answer{}
	var readable []published
	for _, c := range cases {
		if err := exportRows(t, c.path); err != nil {
			refused[c.path] = answer{Table: c.path, Error: err.Error()}
			continue
		}
		readable = append(readable, c)
	}
	all := askAll(t, python, "arrow", readable)
	maps.Copy(all, refused)
	return all
}

// exportRows reads a table and writes its rows to an Arrow file beside it.
func exportRows(t *testing.T, dir string) error {
	st, err := file.New(dir)
	if err != nil {
		return err
	}
	table, err := delta.Open(t.Context(), st, delta.Options{})
	if err != nil {
		return err
	}
	f, err := os.Create(dir + ".arrow")
	if err != nil {
		return err
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(table.Snapshot().Schema().Arrow()))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		if err == nil {
			err = w.Write(rec)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Close(), f.Close())
}
