package sqlserver_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// cannedTable is the server of canned whose source table has the rows, without the metadata columns.
type cannedTable struct {
	*canned

	mu       sync.Mutex
	declared map[string]map[string]bool // statement → declarations of its parameters
}

// Login implements tds.Handler.
func (c *cannedTable) Login(context.Context, *tds.Conn, *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	return &tds.LoginAnswer{}, c, nil
}

// Handle implements tds.Session.
func (c *cannedTable) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	statement, _ := readRequest(req)
	if rpc, ok := req.Body.(*tds.RPC); ok {
		c.mu.Lock()
		if c.declared[statement] == nil {
			c.declared[statement] = map[string]bool{}
		}
		c.declared[statement][fmt.Sprint(rpc.Calls[0].Params[1].Value)] = true
		c.mu.Unlock()
	}
	switch {
	case contains(statement, "FROM sys.columns WHERE object_id = OBJECT_ID(@object)") && contains(statement, "AS waits"):
		var rows [][]any
		for i, name := range []string{"id", "a", "b", "code", "amount", "note", "at", "flag"} {
			rows = append(rows, []any{i + 1, name, 0})
		}
		return rowset(w, []string{"column_id", "name", "waits"}, rows...)
	case contains(statement, "AS exact"):
		return rowset(w, []string{"v0", "v1", "exact"}, []any{"4711", "x", 1})
	case contains(statement, "FROM [dbo].[t] AS c"):
		w.Columns(c.columns)
		for _, row := range c.rows {
			for range 1000 {
				if err := w.RawRow(row); err != nil {
					return err
				}
			}
		}
		w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: benchRows})
		return nil
	}
	return c.canned.Handle(ctx, req, w)
}

func newCannedTable(t testing.TB) *cannedTable {
	c := &cannedTable{canned: newCanned(t), declared: map[string]map[string]bool{}}
	c.columns = c.columns[5:]
	at := time.Date(2025, 7, 1, 12, 0, 0, 123456700, time.UTC)
	row := []byte{0xD1}
	for k, v := range []any{int64(1 << 40), int64(4711), int64(1), "some code of a thing", tds.NewDecimal(123456789, 4), strings.Repeat("x", 18), at, true} {
		var err error
		row, err = tds.AppendValue(row, &c.columns[k].Type, v)
		require.NoError(t, err)
	}
	for i := range c.rows {
		c.rows[i] = row
	}
	return c
}

// serve opens a client over a loopback socket.
func (c *cannedTable) serve(t testing.TB) *sqlserver.Client {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tds.NewServer(tds.Config{}, c).Serve(ctx, listener) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	client, err := sqlserver.Open(t.Context(), sqlserver.Config{
		ConnectionString: "sqlserver://sa:Sup3rSecret@" + listener.Addr().String() + "?encrypt=disable&packet+size=16383",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// TestStatementsOfChunksAreConstant lets the server compile a statement once per shape: neither the text nor the declarations
// of the parameters depend on the values.
func TestStatementsOfChunksAreConstant(t *testing.T) {
	t.Parallel()
	c := newCannedTable(t)
	c.rows = c.rows[:1]
	client := c.serve(t)
	l := layout(t, t.Context(), client, "t")
	key := sqlserver.SnapshotKey{Columns: []sqlserver.KeyColumn{{Name: "id", Type: "bigint"}, {Name: "code", Type: "varchar(40) COLLATE Latin1_General_CI_AS"}}}
	clear(c.declared)
	texts := []string{"", "a", strings.Repeat("long", 2000), "ü", "4711"}
	for i, number := range []string{"1", "-9223372036854775808", "12345"} {
		for k := range texts {
			other := number + "0"
			from, to := sqlserver.Bound{&number, &texts[k]}, sqlserver.Bound{&other, &texts[(k+i)%len(texts)]}
			for _, err := range client.ReadChunk(t.Context(), sqlserver.ChunkRequest{Layout: l, Key: key, From: from, To: to, Stamp: sqlserver.Head{LSN: lsn(5)}}) {
				require.NoError(t, err)
			}
			next, err := client.NextBound(t.Context(), l, key, from, to, int64(1000+i))
			require.NoError(t, err)
			require.Len(t, next, 2)
		}
	}
	statements := 0
	for statement, declarations := range c.declared {
		if !contains(statement, "FROM [dbo].[t] AS c") {
			continue
		}
		statements++
		require.Len(t, declarations, 1, statement)
		for declaration := range declarations {
			require.NotContains(t, strings.ReplaceAll(strings.ReplaceAll(declaration, "nvarchar(max)", ""), "bigint", ""), "(", declaration)
		}
	}
	// Three pieces of a chunk, the last row of a chunk, and the first row after it.
	require.Equal(t, 5, statements)
}

// BenchmarkReadChunk is BenchmarkRead for the rows of the source table.
func BenchmarkReadChunk(b *testing.B) {
	c := newCannedTable(b)
	client := c.serve(b)
	l := layout(b, b.Context(), client, "t")
	request := sqlserver.ChunkRequest{Layout: l, Stamp: sqlserver.Head{LSN: lsn(5), Time: begin()}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := int64(0)
	for b.Loop() {
		for part, err := range client.ReadChunk(b.Context(), request) {
			require.NoError(b, err)
			rows += part.Record.NumRows()
		}
	}
	runtime.ReadMemStats(&after)
	require.EqualValues(b, benchRows*b.N, rows)
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(rows), "allocs/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(rows), "B/row")
}
