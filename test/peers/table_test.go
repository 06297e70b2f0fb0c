package peers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// caseIDs are the cases that README.md must have, by kind.
func caseIDs() []string {
	var all []string
	for _, kind := range []struct{ letter, numbers string }{
		{"O", "01 03 04 05 07 08 10 11 13 15 16 17 19 21 22"},
		{"T", "02 03 05 07 08 09 10 12 13 14 16 17 18 19 21 22"},
		{"Z", "01 03 04 05 06 07 10"},
		{"R", "01 04 06 07 08 10 11 12 14 15 16"},
		{"C", "01 02 03 03b 03c 05 07 08 10 11 13 14"},
		{"N", "01 03 04 06 08 09 10"},
		{"L", "01 02 04 05 07 09 11 12 13 14 15 17 18 20 21 22"},
		{"S", "01 03 04 05 06 07 08 10 11 13 15 17 19 20 22 23 24 26 27 28"},
		{"E", "02 03 04 06 07 08 09 11 12 14 15 16 18"},
		{"A", "01 04 05 06 07"},
		{"M", "01 02 04 05 07 08"},
		{"W", "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15"},
		{"P", "01 02 03"},
	} {
		for number := range strings.FieldsSeq(kind.numbers) {
			all = append(all, kind.letter+"-"+number)
		}
	}
	return all
}

// Every row of PREDECESSOR.md names tests that exist, or says why it cannot occur, and none
// of its numbers is missing.
func TestTableOfThePredecessor(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("PREDECESSOR.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (\d+|t\d+|[a-z]{6}) \|([^|]*)\|([^|]*)\|$`)
	packages := map[string]map[string]bool{}
	var have, want []string
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		have = append(have, cells[1])
		tests := namedTests(cells[3])
		require.True(t, len(tests) > 0 || strings.Contains(cells[3], "Cannot occur:"), "%s is guarded by nothing and has no reason", cells[1])
		requireTests(t, packages, cells[1], tests)
	}
	for i := range 59 {
		want = append(want, strconv.Itoa(i+1))
	}
	require.Equal(t, append(want, "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t9", "t10", "parity", "compat"), have)
}

// namedTests are the packages and functions that a cell names.
func namedTests(cell string) [][]string {
	return regexp.MustCompile("`([^`]+)\\.(Test\\w+|Fuzz\\w+)`").FindAllStringSubmatch(cell, -1)
}

// requireTests checks that tests exist that a row names.
func requireTests(t *testing.T, packages map[string]map[string]bool, row string, tests [][]string) {
	t.Helper()
	for _, test := range tests {
		folder, function := test[1], test[2]
		if packages[folder] == nil {
			packages[folder] = testsOf(t, folder)
		}
		require.True(t, packages[folder][function], "%s: package %s has no %s", row, folder, function)
	}
}

// The table of README.md names each case once, every test that it names exists, and every
// test of this package guards one of the cases.
func TestTableOfCases(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`^\| ([A-Z]-\d\d[a-z]?) \|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	packages, cited := map[string]map[string]bool{}, map[string]bool{}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| id ") || strings.HasPrefix(line, "| K") || strings.HasPrefix(line, "| |") {
			continue
		}
		cells := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
		require.NotNil(t, cells, "no row of a case: %s", line)
		ids = append(ids, cells[1])
		tests := namedTests(cells[4])
		require.True(t, len(tests) > 0 || strings.Contains(cells[3]+cells[4], "Cannot occur:"), "%s is guarded by nothing and has no reason", cells[1])
		requireTests(t, packages, cells[1], tests)
		for _, test := range tests {
			cited[test[1]+"."+test[2]] = true
		}
	}
	require.Equal(t, caseIDs(), ids, "each case once, in order")
	predecessor, err := os.ReadFile("PREDECESSOR.md")
	require.NoError(t, err)
	for _, test := range namedTests(string(predecessor)) {
		cited[test[1]+"."+test[2]] = true
	}
	for function := range testsOf(t, "test/peers") {
		require.True(t, cited["test/peers."+function] || strings.HasPrefix(function, "TestTableOf"), "%s guards no case of the table", function)
	}
}

// testsOf are the tests in the folder of a package, from the root of the module, which
// is called mssqlcdc.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	if folder == "mssqlcdc" {
		folder = "."
	}
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "package %s has no tests", folder)
	tests := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && function.Recv == nil && slices.ContainsFunc([]string{"Test", "Fuzz"}, func(p string) bool { return strings.HasPrefix(function.Name.Name, p) }) {
				tests[function.Name.Name] = true
			}
		}
	}
	return tests
}
