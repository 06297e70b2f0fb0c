package interop

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// interopPython is the interpreter that has the foreign packages; without the package named the test is skipped.
func interopPython(t *testing.T, module string) string {
	t.Helper()
	python, err := filepath.Abs("../../.interop/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("skipped: no .interop, run test/interop/setup.sh to install the foreign engines")
	}
	if err := exec.CommandContext(t.Context(), python, "-c", "import "+module).Run(); err != nil {
		t.Skipf("skipped: .interop has no %s, run test/interop/setup.sh again", module)
	}
	return python
}

// startSimulator runs a simulator that speaks TLS as a server does by default and captures on demand.
func startSimulator(t *testing.T, opts ...sqlserversim.Option) *sqlserversim.Server {
	t.Helper()
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithCaptureInterval(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	return sim
}

// step is what the client is to do; see testdata/pymssql_session.py.
type step struct {
	Op     string `json:"op"`
	SQL    string `json:"sql,omitempty"`
	Params any    `json:"params,omitempty"`
	Rows   int    `json:"rows,omitempty"`
	On     bool   `json:"on"`
}

// outcome is what came of it. Values are text, NULL is nil.
type outcome struct {
	Sets []struct {
		Columns []string
		Rows    [][]*string
		Count   int
	}
	Status int
	Out    []*string
	Error  *clientError
}

type clientError struct {
	Number  int
	Message string
	Class   int
	State   int
	Kind    string
}

// client is one connection of pymssql.
type client struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func pymssql(t *testing.T, sim *sqlserversim.Server, encryption ...string) *client {
	t.Helper()
	python := interopPython(t, "pymssql")
	host, port, err := net.SplitHostPort(sim.Addr())
	require.NoError(t, err)
	args := append([]string{"testdata/pymssql_session.py", host, port, "sa", "lab"}, encryption...)
	cmd := exec.Command(python, args...) // ends when its input does
	cmd.Env = append(os.Environ(), "SIM_PASSWORD="+sqlserversim.DefaultPassword)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	return &client{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

// do runs a step.
func (c *client) do(s step) outcome {
	c.t.Helper()
	line, err := json.Marshal(s)
	require.NoError(c.t, err)
	_, err = c.in.Write(append(line, '\n'))
	require.NoError(c.t, err)
	line, err = c.out.ReadBytes('\n')
	require.NoError(c.t, err, "the client ended at %+v", s)
	var out outcome
	require.NoError(c.t, json.Unmarshal(line, &out))
	return out
}

// query gives the rows of a statement's rowsets, one after the other, NULL as "NULL".
func (c *client) query(sql string, params ...any) [][]string {
	c.t.Helper()
	s := step{Op: "query", SQL: sql}
	if len(params) > 0 {
		s.Params = params
	}
	out := c.do(s)
	require.Nil(c.t, out.Error, sql)
	return out.rows()
}

func (o *outcome) rows() [][]string {
	var all [][]string
	for _, set := range o.Sets {
		for _, row := range set.Rows {
			texts := make([]string, len(row))
			for i, v := range row {
				if texts[i] = "NULL"; v != nil {
					texts[i] = *v
				}
			}
			all = append(all, texts)
		}
	}
	return all
}

// fails gives the error of a statement.
func (c *client) fails(sql string) clientError {
	c.t.Helper()
	out := c.do(step{Op: "query", SQL: sql})
	require.NotNil(c.t, out.Error, sql)
	return *out.Error
}
