package tsql_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func runText(t *testing.T, s *tsql.Session, text string, args ...*tsql.Argument) string {
	t.Helper()
	sink := &textSink{}
	require.NoError(t, s.Run(t.Context(), text, args, sink), text)
	return sink.b.String()
}

func intArg(name string, n int32) *tsql.Argument {
	return &tsql.Argument{Name: name, Type: sqltype.Type{Kind: sqltype.KindInt}, Value: sqltype.Int(n)}
}

func textArg(name, s string) *tsql.Argument {
	return &tsql.Argument{Name: name, Type: sqltype.NVarCharType(4000), Value: sqltype.NVarChar(s)}
}

func TestParametersAndOutput(t *testing.T) {
	t.Parallel()
	s := tsql.NewSession(newFakeHost())
	out := intArg("@b", 1)
	out.Output = true
	got := runText(t, s, "SET @b = @a + @b; SELECT @b AS b", intArg("@a", 41), out)
	require.Contains(t, got, "42")
	require.Equal(t, int64(42), out.Value.Int64())
}

// TestPreparedStatements: the handles of sp_prepexec, sp_execute and sp_unprepare, with the
// parameter names that clients use.
func TestPreparedStatements(t *testing.T) {
	t.Parallel()
	s := tsql.NewSession(newFakeHost())
	call := func(name string, args ...*tsql.Argument) string {
		sink := &textSink{}
		require.NoError(t, s.Call(t.Context(), ast.Name(name), args, sink))
		return sink.b.String()
	}
	handle := &tsql.Argument{Type: sqltype.Type{Kind: sqltype.KindInt}, Output: true}
	got := call("sp_prepexec", handle, textArg("", "@P1 nvarchar(10) , @P2 int"), textArg("", "SELECT @P1 AS a, @P2 AS b"), textArg("@P1", "x"), intArg("@P2", 5))
	require.Equal(t, "a nvarchar(10) | b int\n'x' | 5\n(1 rows, inside)\nstatus 0\n", got)
	require.Equal(t, int64(1), handle.Value.Int64())
	got = call("sp_execute", intArg("", 1), textArg("", "y"), intArg("", 6))
	require.Contains(t, got, "'y' | 6")
	require.Contains(t, call("sp_unprepare", intArg("", 1)), "status 0")
	require.Contains(t, call("sp_execute", intArg("", 1)), "Msg 8179")
	got = call("sp_executesql", textArg("@statement", "SELECT @x"), textArg("@params", "@x int"), intArg("@x", 7))
	require.Contains(t, got, "7")
	got = call("sp_executesql", textArg("stmt", "SELECT @P1 AS a"), textArg("params", "@P1 nvarchar(4000)"), textArg("@P1", "z"))
	require.Contains(t, got, "'z'")
	require.Contains(t, call("sp_executesql", textArg("", "SELECT 1 AS one"), textArg("", "")), "1")
	require.Contains(t, call("sp_executesql", textArg("", "SELECT 1 AS one")), "1")
	require.Contains(t, call("sp_executesql", textArg("", "SELECT @x"), textArg("", "@x int")), "Msg 8178")
	handle = &tsql.Argument{Type: sqltype.Type{Kind: sqltype.KindInt}, Output: true}
	nullDef := &tsql.Argument{Type: sqltype.NVarCharType(4000)}
	require.Contains(t, call("sp_prepexec", handle, nullDef, textArg("", "SELECT 2 AS two")), "two")
	require.Contains(t, call("nosuch"), "Msg 2812")
	out := intArg("@x", 1)
	out.Output = true
	call("sp_executesql", textArg("", "SET @x += 1"), textArg("", "@x int OUTPUT"), out)
	require.Equal(t, int64(2), out.Value.Int64())
}

func TestNativeProcedures(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	five := sqltype.Int(5)
	h.native["sp_native"] = &tsql.Procedure{
		Name: ast.Name("sys", "sp_native"),
		Params: []tsql.Param{{Name: "@a", Type: sqltype.Type{Kind: sqltype.KindInt}}, {Name: "@b", Type: sqltype.Type{Kind: sqltype.KindInt}, Default: &five, Output: true},
			{Name: "@c", Type: sqltype.SysName(), Default: new(sqltype.Value)}},
		Call: func(_ context.Context, c *tsql.Call) (int32, error) {
			if c.Args[0].Int64() < 0 {
				return 0, sqlerr.New(22960, 16, 1, "negative")
			}
			c.Args[1] = sqltype.Int(int32(c.Args[0].Int64() + c.Args[1].Int64()))
			if err := c.Sink.Columns([]tsql.ResultColumn{{Name: "given", Type: sqltype.Type{Kind: sqltype.KindBit}}}); err != nil {
				return 0, err
			}
			for _, g := range c.Given {
				if err := c.Sink.Row(sqltype.Row{sqltype.Bit(g)}); err != nil {
					return 0, err
				}
			}
			return 7, c.Sink.Done(tsql.Done{Kind: tsql.DoneSelect, Count: 3, HasCount: true})
		},
	}
	s := tsql.NewSession(h)
	got := runText(t, s, "DECLARE @r int, @o int = 10; EXEC @r = sys.sp_native 1, @o OUTPUT; SELECT @r r, @o o, @@ROWCOUNT n")
	require.Contains(t, got, "1\n1\n0\n(3 rows, inside)")
	require.Contains(t, got, "7 | 11 | 3")
	got = runText(t, s, "EXEC lab.sys.sp_native @a = -1; SELECT 'on'")
	require.Contains(t, got, "Msg 22960, Level 16, State 1, Procedure sp_native, Line 1: negative")
	require.Contains(t, got, "'on'")
	require.Contains(t, runText(t, s, "EXEC sp_native"), "Procedure or function 'sp_native' expects parameter '@a'")
	require.Contains(t, runText(t, s, "EXEC sp_native 'x'"), "Msg 8114")
	require.Contains(t, runText(t, s, "EXEC sp_native @a = 1, @a = 2"), "Msg 8143")
	require.Contains(t, runText(t, s, "DECLARE @x sysname; EXEC sp_native 1, 2, @x OUTPUT"), "Msg 8162")
}

func TestImplicitTransactions(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	s := tsql.NewSession(h)
	runText(t, s, "CREATE TABLE t (a int); SET IMPLICIT_TRANSACTIONS ON")
	runText(t, s, "SELECT 1")
	require.Zero(t, h.TranCount(), "no table, no transaction")
	runText(t, s, "SELECT * FROM t")
	require.Equal(t, 1, h.TranCount())
	runText(t, s, "INSERT t VALUES (1); COMMIT; SET IMPLICIT_TRANSACTIONS OFF; INSERT t VALUES (2)")
	require.Zero(t, h.TranCount())
}

func TestDoomedTransactionEndsWithTheBatch(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	s := tsql.NewSession(h)
	got := runText(t, s, "BEGIN TRAN; BEGIN TRY SELECT CAST('x' AS int) END TRY BEGIN CATCH END CATCH; INSERT INTO nosuch VALUES (1); SELECT XACT_STATE()")
	require.Contains(t, got, "Msg 3930")
	require.Contains(t, got, "Msg 3998")
	require.Zero(t, h.TranCount())
}

func TestXactAbortRollsBack(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	s := tsql.NewSession(h)
	got := runText(t, s, "CREATE TABLE t (a int NOT NULL); SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (1); RAISERROR('x', 16, 1); INSERT t VALUES (NULL); SELECT 'no'")
	require.Contains(t, got, "Msg 515")
	require.NotContains(t, got, "'no'")
	require.Zero(t, h.TranCount())
	require.Empty(t, h.tables["dbo.t"].rows)
}

// observer notes what StatementObserver is told.
type observer struct {
	*fakeHost
	seen []string
	fail error
}

func (o *observer) StatementStart(_ context.Context, text string, _ ast.Statement) error {
	o.seen = append(o.seen, text)
	return o.fail
}

func (o *observer) StatementEnd(_ context.Context, err error) {
	if err != nil {
		o.seen = append(o.seen, "failed")
	}
}

func TestStatementsAreObserved(t *testing.T) {
	t.Parallel()
	o := &observer{fakeHost: newFakeHost()}
	s := tsql.NewSession(o)
	runText(t, s, "DECLARE @x int = 1;\n SELECT @x ;IF 1 = 1 SELECT 2\nEXEC('SELECT 3'); SELECT 1/0")
	require.Equal(t, []string{"SELECT @x", "SELECT 2", "SELECT 3", "SELECT 1/0", "failed"}, o.seen)
	o.fail = sqlerr.Deadlock(51)
	require.Contains(t, runText(t, s, "SELECT 1; SELECT 2"), "Msg 1205, Level 13, State 51")
}

// brokenTable fails after some rows.
type brokenTable struct {
	*mappingTable
	after int
	err   error
}

func (b *brokenTable) Scan(ctx context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		n := 0
		for row, err := range b.mappingTable.Scan(ctx, spec) {
			if n == b.after {
				yield(nil, b.err)
				return
			}
			n++
			if !yield(row, err) {
				return
			}
		}
	}
}

type brokenHost struct {
	*fakeHost
	table tsql.Table
}

func (h *brokenHost) Table(context.Context, tsql.TableRequest) (tsql.Table, error) {
	return h.table, nil
}

func TestErrorsInTheMiddleOfARowset(t *testing.T) {
	t.Parallel()
	b := &brokenTable{mappingTable: newMappingTable(10), after: 2, err: sqlerr.LockTimeout()}
	s := tsql.NewSession(&brokenHost{newFakeHost(), b})
	got := runText(t, s, "SELECT start_lsn FROM x; SELECT 1")
	require.Equal(t, 2, strings.Count(got, "\n0x"))
	require.Contains(t, got, "Msg 1222, Level 16, State 51")
	require.Contains(t, got, "\n1\n", "a lock timeout ends its statement only")
	b.err = errors.New("disk gone")
	err := s.Run(t.Context(), "SELECT start_lsn FROM x", nil, &textSink{})
	require.ErrorIs(t, err, b.err)
}

func TestTopStopsTheScan(t *testing.T) {
	t.Parallel()
	b := &brokenTable{mappingTable: newMappingTable(10), after: 3, err: errors.New("read too far")}
	s := tsql.NewSession(&brokenHost{newFakeHost(), b})
	for _, q := range []string{"SELECT TOP (3) start_lsn FROM x", "SELECT TOP (2) start_lsn FROM x ORDER BY start_lsn", "SELECT start_lsn FROM x ORDER BY start_lsn OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY",
		"SELECT 1 WHERE EXISTS (SELECT * FROM x)", "SELECT MIN(start_lsn) FROM x", "SELECT MAX(s) FROM (SELECT TOP (2) start_lsn s FROM x ORDER BY start_lsn) q"} {
		require.NotContains(t, runText(t, s, q), "Msg", q)
	}
	require.Error(t, s.Run(t.Context(), "SELECT TOP (4) start_lsn FROM x", nil, &textSink{}))
}

// failingSink fails at the n-th row.
type failingSink struct {
	textSink
	left int
}

var errSink = errors.New("connection gone")

func (s *failingSink) Row(row sqltype.Row) error {
	if s.left--; s.left < 0 {
		return errSink
	}
	return s.textSink.Row(row)
}

func TestSinkErrorsEndTheBatch(t *testing.T) {
	t.Parallel()
	s := tsql.NewSession(newFakeHost())
	err := s.Run(t.Context(), "BEGIN TRY SELECT n FROM (VALUES (1), (2)) v(n) END TRY BEGIN CATCH SELECT 1 END CATCH", nil, &failingSink{left: 1})
	require.ErrorIs(t, err, errSink)
}

func TestCancelledContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := tsql.NewSession(newFakeHost())
	require.ErrorIs(t, s.Run(ctx, "WHILE 1 = 1 SELECT 1", nil, &textSink{}), context.Canceled)
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Run(ctx, "WHILE 1 = 1 DECLARE @x int", nil, &textSink{}), context.DeadlineExceeded)
	h := &benchHost{newFakeHost(), newChangeTable(1<<40, 1), newMappingTable(1)}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, tsql.NewSession(h).Run(ctx, "SELECT COUNT_BIG(*) FROM cdc.x_CT", nil, &textSink{}), context.DeadlineExceeded)
}

func TestResetForgets(t *testing.T) {
	t.Parallel()
	s := tsql.NewSession(newFakeHost())
	runText(t, s, "SET NOCOUNT ON; CREATE TABLE #t (a int); SELECT 1 UNION SELECT 2")
	s.Reset()
	got := runText(t, s, "SELECT @@ROWCOUNT AS n; SELECT * FROM #t")
	require.Contains(t, got, "0\n(1 rows)")
	require.Contains(t, got, "Invalid object name '#t'")
}

// TestStreamsWithConstantMemory: the change read allocates for the first rows only.
func TestStreamsWithConstantMemory(t *testing.T) {
	h := &benchHost{newFakeHost(), newChangeTable(1000, 1000), newMappingTable(2)}
	s := tsql.NewSession(h)
	measure := func(rows int) float64 {
		h.change.n = rows
		return testing.AllocsPerRun(3, func() {
			sink := &countSink{}
			require.NoError(t, s.Run(t.Context(), changeRead, changeArgs(), sink))
			require.Equal(t, rows, sink.rows)
		})
	}
	h.change.perTx = 1 << 30
	small, large := measure(1000), measure(100_000)
	require.InDelta(t, small, large, 20, "allocations must not grow with the rows")
}

// TestReadAheadSeek: a lookup per transaction needs few scans, and finds what is there whatever
// the order of the keys.
func TestReadAheadSeek(t *testing.T) {
	t.Parallel()
	h := &benchHost{newFakeHost(), newChangeTable(20_000, 2), newMappingTable(10_001)}
	s := tsql.NewSession(h)
	got := runText(t, s, "SELECT COUNT(*) n, COUNT(m.tran_end_time) k FROM cdc.x_CT c LEFT JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn]")
	require.Contains(t, got, "20000 | 20000")
	require.Less(t, h.mapping.scans, 60)
	h.mapping.scans = 0
	got = runText(t, s, `SELECT COUNT(m.start_lsn) FROM (VALUES (0x000000000000000003E8), (0x000000000000000003F2), (0x000000000000000003E8), (0x000000000000000003E9), (0x000000000000000F0000)) v(l)
		LEFT JOIN cdc.lsn_time_mapping m ON m.start_lsn = v.l`)
	require.Contains(t, got, "\n3\n")
}

func TestFirstErrorOfABatchIsItsOwn(t *testing.T) {
	t.Parallel()
	s := tsql.NewSession(newFakeHost())
	got := runText(t, s, "PRINT 'never'\nSELECT 1 FROM")
	require.NotContains(t, got, "never")
	require.Contains(t, got, "Line 2")
	got = runText(t, s, "SELECT 1\n\nSELECT 1/0")
	require.Contains(t, got, "Msg 8134, Level 16, State 1, Line 3")
}
