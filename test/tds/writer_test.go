package tds_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// answerOf gives the tokens that a handler's answer becomes.
func answerOf(t *testing.T, handle func(ctx context.Context, w *tds.Writer) error) []string {
	t.Helper()
	c := dialRaw(t, tds.Config{}, &script{handle: func(ctx context.Context, _ *tds.Request, w *tds.Writer) error { return handle(ctx, w) }})
	c.login(loginWords{})
	c.batch(1, "go")
	return c.tokens()
}

const doneLine = "DONE status 0x0000 cmd 0x0000 count 0"

func TestTokens(t *testing.T) {
	t.Parallel()
	typ := tds.TypeInt(4)
	for _, tc := range []struct {
		name   string
		handle func(ctx context.Context, w *tds.Writer) error
		want   []string
	}{
		{"nothing", func(context.Context, *tds.Writer) error { return nil }, []string{doneLine}},
		{"statements: each Done but the last has the more bit", func(_ context.Context, w *tds.Writer) error {
			w.Done(tds.Done{Command: tds.CommandSetIsolation})
			w.Done(tds.Done{Status: tds.DoneCount | tds.DoneInTran, Command: tds.CommandInsert, Count: 1 << 40})
			return nil
		}, []string{"DONE status 0x0001 cmd 0x00f9 count 0", "DONE status 0x0014 cmd 0x00c3 count 1099511627776"}},
		{"procedure", func(_ context.Context, w *tds.Writer) error {
			w.Columns([]tds.Column{{Name: "n", Type: typ}})
			w.Order(1)
			if err := w.WriteRow(7); err != nil {
				return err
			}
			w.DoneInProc(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: 1})
			w.ReturnStatus(-6)
			w.ReturnValue(tds.ReturnValue{Ordinal: 1, Name: "@h", Type: typ, Value: 3})
			w.ReturnValue(tds.ReturnValue{Function: true, Type: tds.TypeNVarChar(5, tds.CollationDefault()), Value: nil})
			w.DoneProc(tds.Done{Command: tds.CommandExecute})
			return nil
		}, []string{
			"COLMETADATA n intn4 flags 0x0000", "ORDER 0100", "ROW 7", "DONEINPROC status 0x0011 cmd 0x00c1 count 1", "RETURNSTATUS -6",
			"RETURNVALUE ordinal 1 name '@h' status 1 intn4 = 3", "RETURNVALUE ordinal 0 name '' status 2 nvarchar(5) = NULL",
			"DONEPROC status 0x0000 cmd 0x00e0 count 0",
		}},
		{"nothing ends in DONEINPROC", func(_ context.Context, w *tds.Writer) error {
			w.DoneInProc(tds.Done{Status: tds.DoneCount, Command: tds.CommandInsert, Count: 1})
			return nil
		}, []string{"DONEINPROC status 0x0011 cmd 0x00c3 count 1", doneLine}},
		{"messages by class", func(_ context.Context, w *tds.Writer) error {
			w.Message(&tds.ServerError{Number: 50000, Class: 10, State: 1, Text: "printed", Proc: "p", Line: 3})
			w.Message(&tds.ServerError{Number: 208, Class: 16, State: 1, Text: "Invalid object name 't'.", Server: "OTHER", Line: 1})
			w.Done(tds.Done{Status: tds.DoneError})
			return nil
		}, []string{
			"INFO 50000 state 1 class 10 'printed' server 'SIM' proc 'p' line 3",
			"ERROR 208 state 1 class 16 'Invalid object name 't'.' server 'OTHER' proc '' line 1",
			"DONE status 0x0002 cmd 0x0000 count 0",
		}},
		{"error returned", func(_ context.Context, w *tds.Writer) error {
			w.Columns([]tds.Column{{Name: "n", Type: typ}})
			w.Row().Int(1) // a row that is not ended
			return &tds.ServerError{Number: 8134, Class: 16, State: 1, Text: "Divide by zero error encountered.", Line: 1}
		}, []string{"COLMETADATA n intn4 flags 0x0000", "ERROR 8134 state 1 class 16 'Divide by zero error encountered.' server 'SIM' proc '' line 1", "DONE status 0x0002 cmd 0x0000 count 0"}},
		{"environment", func(_ context.Context, w *tds.Writer) error {
			w.UseDatabase("b", "a")
			w.EnvLanguage("Deutsch", "us_english")
			w.EnvBegin(0x1122)
			w.EnvCommit(0x1122)
			w.EnvRollback(0x1122)
			w.EnvTranEnded(0x1122)
			w.EnvPacketSize(8000, 4096)
			w.EnvCollation(tds.CollationDefault())
			w.EnvMirror("m")
			w.EnvRouting(tds.Routing{Host: "h", Port: 1})
			w.NoColumns()
			return nil
		}, []string{
			"ENVCHANGE 1 'b' <- 'a'", "INFO 5701 state 2 class 0 'Changed database context to 'b'.' server 'SIM' proc '' line 1",
			"ENVCHANGE 2 'Deutsch' <- 'us_english'", "ENVCHANGE 8 2211000000000000 <- -", "ENVCHANGE 9 - <- 2211000000000000",
			"ENVCHANGE 10 - <- 2211000000000000", "ENVCHANGE 17 - <- 2211000000000000", "ENVCHANGE 4 '8000' <- '4096'",
			"ENVCHANGE 7 0904d00034 <- -", "ENVCHANGE 13 'm' <- ''", "ENVCHANGE 20 proto 0 port 1 host 'h' old -", "COLMETADATA none", doneLine,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, answerOf(t, tc.handle))
		})
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	lines := answerOf(t, func(_ context.Context, w *tds.Writer) error {
		w.Message(&tds.ServerError{Number: 50000, Class: 1, Text: strings.Repeat("\U0001F600", 40_000), Server: strings.Repeat("s", 300), Proc: strings.Repeat("日", 300)})
		w.Columns([]tds.Column{{Name: strings.Repeat("n", 300), Type: tds.TypeInt(4)}})
		return nil
	})
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], strings.Repeat("\U0001F600", 15_000)+"'")
	require.Contains(t, lines[0], "'"+strings.Repeat("s", 255)+"'")
	require.Contains(t, lines[1], " "+strings.Repeat("n", 255)+" ")
}

func TestRowsThatAreRefused(t *testing.T) {
	t.Parallel()
	columns := []tds.Column{
		{Name: "n", Type: tds.TypeFixed(tds.IDInt4)},
		{Name: "d", Type: tds.TypeDecimal(9, 2)},
		{Name: "s", Type: tds.TypeVarChar(3, tds.CollationDefault())},
	}
	for _, tc := range []struct {
		name string
		row  func(r *tds.Row)
		err  string
	}{
		{"too few", func(r *tds.Row) { r.Int(1) }, "number of values differs from the number of columns: 1 of 3"},
		{"too many", func(r *tds.Row) { r.Int(1); r.Null(); r.Null(); r.Null() }, "4 of 3"},
		{"NULL in NOT NULL", func(r *tds.Row) { r.Null(); r.Null(); r.Null() }, "writing column 1, n int: NULL in a type that cannot hold it"},
		{"another kind", func(r *tds.Row) { r.Int(1); r.Int(2); r.Null() }, "writing column 2, d decimal(9,2): a value of another type"},
		{"decimal too large", func(r *tds.Row) { r.Int(1); r.Decimal(false, 0, 1<<32); r.Null() }, "out of range"},
		{"text too long", func(r *tds.Row) { r.Int(1); r.Null(); r.String("four") }, "writing column 3, s varchar(3): longer than declared"},
		{"value that does not fit", func(r *tds.Row) { r.Value(int64(1) << 40); r.Null(); r.Null() }, "out of range"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var refused error
			lines := answerOf(t, func(_ context.Context, w *tds.Writer) error {
				w.Columns(columns)
				if err := w.WriteRow(1, nil, "a"); err != nil {
					return err
				}
				row := w.Row()
				tc.row(row)
				refused = row.End()
				return w.WriteRow(2, tds.NewDecimal(5, 2), nil) // the answer goes on without it
			})
			require.ErrorContains(t, refused, tc.err)
			require.Equal(t, []string{"NBCROW bitmap 02 1, NULL, 'a'", "NBCROW bitmap 04 2, 0x0105000000, NULL"}, lines[1:3])
		})
	}
	t.Run("End without Row, Row after the end", func(t *testing.T) {
		t.Parallel()
		lines := answerOf(t, func(_ context.Context, w *tds.Writer) error {
			w.Columns(columns)
			row := w.Row()
			require.Error(t, row.End())
			require.Error(t, row.End(), "ended twice")
			require.NoError(t, w.EndMessage())
			require.Error(t, w.WriteRow(1, nil, nil))
			w.Done(tds.Done{})
			return w.Err()
		})
		require.Len(t, lines, 1)
	})
	t.Run("return value", func(t *testing.T) {
		t.Parallel()
		c := dialRaw(t, tds.Config{}, &script{handle: func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
			w.ReturnValue(tds.ReturnValue{Name: "@x", Type: tds.TypeInt(1), Value: 300})
			return w.Err()
		}})
		c.login(loginWords{})
		c.batch(1, "go")
		require.ErrorContains(t, <-c.end, "writing return value @x: encoding int as tinyint: out of range")
	})
}

func TestManyNullsInBitmap(t *testing.T) {
	t.Parallel()
	const n = 1024
	columns := make([]tds.Column, n)
	for i := range columns {
		columns[i] = tds.Column{Name: strings.Repeat("]", 128), Type: tds.TypeInt(2)}
	}
	var want []string
	lines := answerOf(t, func(_ context.Context, w *tds.Writer) error {
		w.Columns(columns)
		row := w.Row()
		for i := range n {
			if i%3 == 1 {
				row.Null()
				want = append(want, "NULL")
			} else {
				row.Int(int64(i))
				want = append(want, strings.TrimSpace(strings.Join([]string{itoa(i)}, "")))
			}
		}
		return row.End()
	})
	_, values, _ := strings.Cut(strings.TrimPrefix(lines[1], "NBCROW bitmap "), " ")
	require.Equal(t, strings.Join(want, ", "), values)
}

// itoa is short for a number as text.
func itoa(n int) string { return tds.NewDecimal(int64(n), 0).String() }

func TestFlushSendsWhatIsThere(t *testing.T) {
	t.Parallel()
	flushed, goOn := make(chan error, 1), make(chan struct{})
	c := dialRaw(t, tds.Config{}, &script{handle: func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
		w.Message(&tds.ServerError{Number: 50000, Class: 0, Text: "now"})
		w.Done(tds.Done{})
		flushed <- w.Flush()
		<-goOn
		return w.Flush()
	}})
	c.login(loginWords{})
	c.batch(1, "go")
	status, payload, err := c.packet()
	require.NoError(t, err)
	require.Zero(t, status)
	require.NoError(t, <-flushed)
	close(goOn)
	list, err := decodeTokens(append(payload, c.answer()...), false, false)
	require.NoError(t, err)
	require.Equal(t, []string{"INFO 50000 state 0 class 0 'now' server 'SIM' proc '' line 0", doneLine}, linesOf(list))
}

func TestResetIsAcknowledged(t *testing.T) {
	t.Parallel()
	var got []tds.Reset
	c := dialRaw(t, tds.Config{}, &script{handle: func(_ context.Context, req *tds.Request, _ *tds.Writer) error {
		got = append(got, req.Reset)
		return nil
	}})
	c.login(loginWords{})
	for _, status := range []byte{0x01, 0x09, 0x11} {
		c.batch(status, "go")
		lines := c.tokens()
		if status == 1 {
			require.Equal(t, []string{doneLine}, lines)
		} else {
			require.Equal(t, []string{"ENVCHANGE 18 - <- -", doneLine}, lines)
		}
	}
	require.Equal(t, []tds.Reset{tds.ResetNone, tds.ResetConnection, tds.ResetKeepTransaction}, got)
}

func TestClass20ClosesTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, tds.Config{}, &script{handle: func(_ context.Context, req *tds.Request, w *tds.Writer) error {
		return &tds.ServerError{Number: 40501, Class: 20, State: 1, Text: "busy"}
	}})
	_, err := s.open(t).ExecContext(t.Context(), "SELECT 1")
	e, ok := errors.AsType[mssql.Error](err)
	require.True(t, ok, err)
	require.Equal(t, int32(40501), e.Number)
	require.Eventually(t, func() bool { _, n := s.lastEnd(); return n == 1 }, waitFor, tick)
	end, _ := s.lastEnd()
	require.ErrorIs(t, end, tds.ErrClosed)
}

func TestHandlerErrorEndsTheConnection(t *testing.T) {
	t.Parallel()
	broken := errors.New("engine is broken")
	c := dialRaw(t, tds.Config{}, &script{handle: func(context.Context, *tds.Request, *tds.Writer) error { return broken }})
	c.login(loginWords{})
	c.batch(1, "go")
	require.ErrorIs(t, <-c.end, broken)
}

func TestRequestLimit(t *testing.T) {
	t.Parallel()
	c := dialRaw(t, tds.Config{MaxRequest: 1000}, &script{handle: selectOne})
	c.login(loginWords{})
	go c.batch(1, strings.Repeat("x", 2000))
	require.ErrorContains(t, <-c.end, "message is longer than the limit of 1000 bytes")
}

// TestTDSCheck runs what the server sends through a checker of other hands.
func TestTDSCheck(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(sharedDir(t, "SHARED_TOOLS", "tools"), "tdscheck", "tdscheck.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed, so the foreign checker cannot run")
	}
	for _, size := range []uint32{512, 4096, 32767} {
		c := dialRaw(t, tds.Config{}, &script{handle: func(ctx context.Context, req *tds.Request, w *tds.Writer) error {
			w.UseDatabase("b", "a")
			if err := typesRowset(typeCases())(ctx, req, w); err != nil {
				return err
			}
			w.ReturnStatus(0)
			w.ReturnValue(tds.ReturnValue{Type: tds.TypeInt(4), Value: 1})
			w.DoneProc(tds.Done{Command: tds.CommandExecute})
			return nil
		}})
		c.send(0x12, 1, tds.AppendPrelogin(nil, []tds.PreloginOption{{Token: tds.PreloginEncryption, Data: []byte{2}}}))
		c.answer()
		c.login(loginWords{packetSize: size, features: []byte{0x0A, 0, 0, 0, 0, 0xFF}})
		c.batch(9, "SELECT types")
		c.answer()
		c.send(6, 1, nil)
		c.answer()
		cmd := exec.CommandContext(t.Context(), python, tool, "--server-prelogin")
		cmd.Stdin = strings.NewReader(string(c.log))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		for _, want := range []string{"VERSION 16.0.4265", "LOGINACK", "FEATUREEXTACK 0x0a:01", "ENVCHANGE 18", "sql_variant", "NBCROW", "RETURNVALUE", "status 0x0020"} {
			require.Contains(t, string(out), want)
		}
	}
}
