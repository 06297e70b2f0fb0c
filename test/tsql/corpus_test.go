package tsql_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/parse"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// entry is one batch of the corpus.
type entry struct {
	text      string
	params    []parse.Parameter
	values    map[string]string // literals of parameters that have one
	parseOnly bool
}

// corpus reads testdata/corpus.sql.
func corpus(t *testing.T) []entry {
	t.Helper()
	b, err := os.ReadFile("testdata/corpus.sql")
	require.NoError(t, err)
	var list []entry
	for part := range strings.SplitSeq(string(b), "\nGO\n") {
		e := entry{values: make(map[string]string)}
		var lines []string
		for line := range strings.SplitSeq(part, "\n") {
			switch {
			case line == "--parse-only":
				e.parseOnly = true
			case strings.HasPrefix(line, "--params: "):
				for p := range strings.SplitSeq(strings.TrimPrefix(line, "--params: "), ", ") {
					def, value, ok := strings.Cut(p, " = ")
					if ok {
						e.values[strings.Fields(def)[0]] = value
					}
					params, err := parse.Parameters(def)
					require.NoError(t, err, def)
					e.params = append(e.params, params...)
				}
			default:
				lines = append(lines, line)
			}
		}
		e.text = strings.Join(lines, "\n")
		list = append(list, e)
	}
	return list
}

func (e *entry) names() []string {
	names := make([]string, len(e.params))
	for i, p := range e.params {
		names[i] = p.Name
	}
	return names
}

func TestCorpusParsesAndPrints(t *testing.T) {
	t.Parallel()
	list := corpus(t)
	require.Greater(t, len(list), 100)
	for _, e := range list {
		b, err := parse.Batch(e.text, parse.Options{Variables: e.names()})
		require.NoError(t, err, e.text)
		require.NotEmpty(t, b.Statements, e.text)
		printed := ast.PrintBatch(b)
		again, err := parse.Batch(printed, parse.Options{Variables: e.names()})
		require.NoError(t, err, "%s\nprinted as\n%s", e.text, printed)
		require.Equal(t, printed, ast.PrintBatch(again), e.text)
	}
}

// arguments gives the parameters of an entry their values.
func (e *entry) arguments(t *testing.T) []*tsql.Argument {
	args := make([]*tsql.Argument, len(e.params))
	for i, p := range e.params {
		args[i] = &tsql.Argument{Name: p.Name, Type: p.Type}
		v := e.values[p.Name]
		var val sqltype.Value
		switch {
		case v == "", v == "NULL":
			continue
		case strings.HasPrefix(v, "0x"):
			var err error
			val, err = sqltype.Convert(sqltype.VarChar(v), p.Type, 1)
			require.NoError(t, err)
		default:
			val = sqltype.VarChar(strings.Trim(v, "'"))
		}
		args[i].Value = val
	}
	return args
}

func TestCorpusRuns(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	setup, err := os.ReadFile("testdata/catalogue.sql")
	require.NoError(t, err)
	s := tsql.NewSession(h)
	sink := &textSink{}
	require.NoError(t, s.Run(t.Context(), string(setup), nil, sink))
	require.NotContains(t, sink.b.String(), "Msg")
	for _, e := range corpus(t) {
		if e.parseOnly {
			continue
		}
		sink := &textSink{}
		require.NoError(t, s.Run(t.Context(), e.text, e.arguments(t), sink), e.text)
		require.NotRegexp(t, "Level 1[1-9]", sink.b.String(), e.text)
		require.NotContains(t, sink.b.String(), "not asked for", e.text)
	}
}
