// Package arch holds the rules of the architecture as tests: who may import whom,
// how large a file may grow, where state and init may be.
package arch

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/mssqlcdc/rpconnect-mssqlcdc"

// source is one Go file of the project.
type source struct {
	path    string // relative to the root, with slashes
	pkg     string // folder of the package, "" for the root
	test    bool
	file    *ast.File
	imports []string
	lines   int
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.mod"))
	return dir
}

func sources(t *testing.T) []source {
	t.Helper()
	base := root(t)
	var all []source
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != base && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		relative, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		s := source{path: relative, pkg: strings.TrimPrefix(filepath.ToSlash(filepath.Dir(relative)), "."), test: strings.HasSuffix(name, "_test.go"), file: file, lines: countLines(t, path)}
		for _, spec := range file.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, target)
		}
		all = append(all, s)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 100, "the walk found the project")
	return all
}

func countLines(t *testing.T, path string) int {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	n := 0
	for scanner.Scan() {
		n++
	}
	require.NoError(t, scanner.Err())
	return n
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// ours is the folder of one of our packages; false for a foreign one.
func ours(path string) (string, bool) {
	if path == module {
		return "", true
	}
	folder, ok := strings.CutPrefix(path, module+"/")
	return folder, ok
}

// Rule 1: the plugin packages never import each other. Libraries below them may be
// used across: output/delta and the config section output/storage by processor,
// input/sqlserver by processor/reconcile and cmd.
func TestPluginsDoNotImportEachOther(t *testing.T) {
	t.Parallel()
	allowed := func(from, to string) bool {
		switch {
		case below(from, "processor"):
			return below(to, "output/delta") || to == "output/storage" || below(from, "processor/reconcile") && below(to, "input/sqlserver")
		}
		return false
	}
	for _, s := range sources(t) {
		for _, plugin := range []string{"input", "output", "processor"} {
			if !below(s.pkg, plugin) {
				continue
			}
			for _, target := range s.imports {
				to, own := ours(target)
				if !own || to == "" || below(to, plugin) || s.test && below(to, "test") {
					continue
				}
				require.True(t, allowed(s.pkg, to), "%s imports %s", s.path, target)
			}
		}
	}
}

// Rule 2: the root package imports the standard library and arrow-go only.
func TestVocabularyImportsArrowOnly(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.pkg != "" || s.test {
			continue
		}
		for _, target := range s.imports {
			standard := !strings.Contains(strings.Split(target, "/")[0], ".")
			require.True(t, standard || strings.HasPrefix(target, "github.com/apache/arrow-go/v18/"), "%s imports %s", s.path, target)
		}
	}
}

// Rule 3: output/delta imports nothing of ours outside itself.
func TestDeltaCanBeLifted(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !below(s.pkg, "output/delta") {
			continue
		}
		for _, target := range s.imports {
			if to, own := ours(target); own {
				require.True(t, below(to, "output/delta"), "%s imports %s", s.path, target)
			}
		}
	}
}

// Rule 4: Benthos is imported by the plugin packages, the resume position, the
// config section of stores and the program; go-mssqldb below input/sqlserver; the
// clients of clouds by the store of each, and Azure's by the login. Tests may use all.
func TestDependenciesStayInTheirLayer(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || below(s.pkg, "test") {
			continue
		}
		for _, target := range s.imports {
			if strings.HasPrefix(target, "github.com/redpanda-data/benthos/") {
				allowed := s.pkg == "input" || s.pkg == "input/checkpoint" || s.pkg == "output" || s.pkg == "output/storage" || s.pkg == "processor" || below(s.pkg, "cmd")
				require.True(t, allowed, "%s imports %s", s.path, target)
			}
			if strings.HasPrefix(target, "github.com/microsoft/go-mssqldb") {
				require.True(t, below(s.pkg, "input/sqlserver"), "%s imports %s", s.path, target)
			}
			for client, packages := range map[string][]string{
				"github.com/aws/": {"output/delta/store/s3"}, "github.com/Azure/": {"output/delta/store/azure", "input/entra"},
				"golang.org/x/oauth2": {"output/delta/store/gcs"}, "cloud.google.com/": nil, "google.golang.org/api": nil,
			} {
				require.False(t, strings.HasPrefix(target, client) && !slices.Contains(packages, s.pkg), "%s imports %s", s.path, target)
			}
		}
	}
}

// Rule 5: nothing outside test imports test, but cmd and tests.
func TestSimulatorStaysInTests(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || below(s.pkg, "test") || below(s.pkg, "cmd") {
			continue
		}
		for _, target := range s.imports {
			to, own := ours(target)
			require.False(t, own && below(to, "test"), "%s imports %s", s.path, target)
		}
	}
}

// What tests are made of stays out of the program: emulators and assertions are
// imported by tests and by packages for them, whose names end in test, and those by
// tests and each other.
func TestTestHelpersStayInTests(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || below(s.pkg, "test") || strings.HasSuffix(s.pkg, "test") {
			continue
		}
		for _, target := range s.imports {
			for _, helper := range []string{"github.com/stretchr/testify", "pgregory.net/rapid", "github.com/johannesboyne/gofakes3", "github.com/fsouza/fake-gcs-server"} {
				require.False(t, strings.HasPrefix(target, helper), "%s imports %s", s.path, target)
			}
			to, own := ours(target)
			require.False(t, own && below(to, "output") && strings.HasSuffix(to, "test"), "%s imports %s", s.path, target)
		}
	}
}

// The simulator and the reader share no code: neither sees the other.
func TestSimulatorAndReaderShareNothing(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		simulator := below(s.pkg, "test/tds") || below(s.pkg, "test/tsql") || below(s.pkg, "test/sqlserversim")
		if !simulator || s.test {
			continue
		}
		for _, target := range s.imports {
			if to, own := ours(target); own {
				require.True(t, below(to, "test/tds") || below(to, "test/tsql") || below(to, "test/sqlserversim"), "%s imports %s", s.path, target)
			}
		}
	}
}

// Rule 6: init only where a plugin is registered, no mutable package variables,
// files under 500 lines, every package documented.
func TestInitOnlyRegisters(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"input/register.go": true, "output/register.go": true, "processor/register.go": true}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				require.True(t, allowed[s.path], "%s has an init function", s.path)
			}
		}
	}
}

func TestNoPackageVariables(t *testing.T) {
	t.Parallel()
	all := sources(t)
	written := assigned(all)
	for _, s := range all {
		if s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				for _, name := range value.Names {
					constant := immutable(name.Name, value) || table(value) && !written[s.pkg+"."+name.Name]
					require.True(t, constant, "%s: package variable %s can change", s.path, name.Name)
				}
			}
		}
	}
}

// immutable accepts sentinels, interface assertions, and what is compiled once.
func immutable(name string, value *ast.ValueSpec) bool {
	if name == "_" || strings.HasPrefix(name, "Err") || strings.HasPrefix(name, "err") {
		return true
	}
	for _, expr := range value.Values {
		call, ok := expr.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != "MustCompile" && f.Sel.Name != "MakeTable" {
			return false
		}
	}
	return len(value.Values) > 0
}

// table accepts an array of fixed size, which Go has no constants for; nothing may
// assign to it. A slice or a map would hand out its insides.
func table(value *ast.ValueSpec) bool {
	for _, expr := range value.Values {
		var typ ast.Expr
		switch e := expr.(type) {
		case *ast.CompositeLit:
			typ = e.Type
		case *ast.CallExpr:
			if f, ok := e.Fun.(*ast.FuncLit); ok && f.Type.Results.NumFields() == 1 {
				typ = f.Type.Results.List[0].Type
			}
		}
		array, ok := typ.(*ast.ArrayType)
		if !ok || array.Len == nil {
			return false
		}
	}
	return len(value.Values) > 0
}

// assigned lists the names that something in their package assigns to or takes the
// address of, as folder.name.
func assigned(all []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range all {
		mark := func(expr ast.Expr) {
			for {
				switch e := expr.(type) {
				case *ast.IndexExpr:
					expr = e.X
					continue
				case *ast.SelectorExpr:
					expr = e.X
					continue
				case *ast.Ident:
					names[s.pkg+"."+e.Name] = true
				}
				return
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if n.Tok != token.DEFINE {
						mark(left)
					}
				}
			case *ast.IncDecStmt:
				mark(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					mark(n.X)
				}
			}
			return true
		})
	}
	return names
}

const maxLines = 500

func TestFilesStaySmall(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		require.Less(t, s.lines, maxLines, "%s has %d lines", s.path, s.lines)
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	packages := map[string]bool{}
	for _, s := range sources(t) {
		if s.test && !below(s.pkg, "test") {
			continue
		}
		packages[s.pkg] = true
		documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
	}
	for pkg := range packages {
		require.True(t, documented[pkg], "package in folder %q has no package comment", pkg)
	}
}
