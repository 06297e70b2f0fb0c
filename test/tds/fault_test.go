package tds_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// numbers answers with n rows of one int; "SELECT 1" with one.
func numbers(n int64) func(context.Context, *tds.Request, *tds.Writer) error {
	return func(ctx context.Context, req *tds.Request, w *tds.Writer) error {
		if b, ok := req.Body.(*tds.SQLBatch); ok && b.Text == "SELECT 1" {
			return selectOne(ctx, req, w)
		}
		w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(8), Flags: tds.FlagNullable}})
		for i := range n {
			row := w.Row()
			row.Int(i)
			if err := row.End(); err != nil {
				return err
			}
		}
		w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: uint64(n)})
		return nil
	}
}

// readAll reads a rowset of ints and gives how many came, in order, and the error at the end.
func readAll(ctx context.Context, t *testing.T, db *sql.DB) (int64, error) {
	t.Helper()
	rows, err := db.QueryContext(ctx, "SELECT n FROM numbers")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := int64(0)
	for rows.Next() {
		var v int64
		require.NoError(t, rows.Scan(&v))
		require.Equal(t, n, v, "a row is missing or wrong")
		n++
	}
	return n, rows.Err()
}

// atRow injects a fault after a row of the first answer only.
func atRow(k int64, f tds.Fault) tds.Hooks {
	var done atomic.Bool
	return tds.Hooks{Row: func(_ *tds.Conn, n int64) tds.Fault {
		if n == k && done.CompareAndSwap(false, true) {
			return f
		}
		return tds.Fault{}
	}}
}

func TestFaultsAtARow(t *testing.T) {
	t.Parallel()
	const rows, k = 50_000, 10_000
	for _, tc := range []struct {
		name  string
		fault tds.Fault
		rows  int64 // that arrive; -1 for any
		check func(t *testing.T, err error)
	}{
		{"none", tds.Fault{}, rows, func(t *testing.T, err error) { require.NoError(t, err) }},
		{"delay", tds.Fault{Delay: 10 * time.Millisecond}, rows, func(t *testing.T, err error) { require.NoError(t, err) }},
		{"FIN", tds.Fault{Action: tds.CloseConn}, k, func(t *testing.T, err error) { require.ErrorContains(t, err, "EOF") }},
		{"RST", tds.Fault{Action: tds.ResetConn}, -1, func(t *testing.T, err error) {
			require.Regexp(t, "connection reset by peer|EOF", err.Error())
		}},
		{"FIN inside a packet", tds.Fault{Action: tds.CloseConn, Partial: true}, -1, func(t *testing.T, err error) { require.ErrorContains(t, err, "unexpected EOF") }},
		{"end of message without DONE", tds.Fault{Action: tds.EndAnswer}, k, func(t *testing.T, err error) { require.ErrorContains(t, err, "EOF") }},
		{"unknown token", tds.Fault{Action: tds.BadToken}, k, func(t *testing.T, err error) { require.ErrorContains(t, err, "unknown token type") }},
		{"error 1205", tds.Fault{Action: tds.FailAnswer, Message: &tds.ServerError{Number: 1205, Class: 13, State: 45, Text: "deadlock"}}, k, func(t *testing.T, err error) {
			e, ok := errors.AsType[mssql.Error](err)
			require.True(t, ok, err)
			require.Equal(t, int32(1205), e.Number)
			require.Equal(t, uint8(13), e.Class)
			require.Equal(t, "SIM", e.ServerName)
		}},
		{"error 596 ends the connection", tds.Fault{Action: tds.FailAnswer, Message: &tds.ServerError{Number: 596, Class: 21, State: 1, Text: "killed"}}, k, func(t *testing.T, err error) {
			e, ok := errors.AsType[mssql.Error](err)
			require.True(t, ok, err)
			require.Equal(t, uint8(21), e.Class)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tds.Config{Hooks: atRow(k, tc.fault)}, &script{handle: numbers(rows)})
			db := s.open(t)
			n, err := readAll(t.Context(), t, db)
			tc.check(t, err)
			if tc.rows >= 0 {
				require.Equal(t, tc.rows, n)
			}
			var one int
			for range 3 { // a pool may hold the dead connection
				if err = db.QueryRowContext(t.Context(), "SELECT 1").Scan(&one); err == nil {
					break
				}
			}
			require.NoError(t, err, "the server goes on")
		})
	}
}

func TestHang(t *testing.T) {
	t.Parallel()
	resume := make(chan struct{})
	s := serve(t, tds.Config{Hooks: atRow(100, tds.Fault{Action: tds.Hang, Resume: resume})}, &script{handle: numbers(1000)})
	c, err := net.Dial("tcp", s.addr.String())
	require.NoError(t, err)
	raw := &rawClient{t: t, conn: c}
	raw.login(loginWords{})
	raw.batch(1, "SELECT n")
	status, payload, err := raw.packet()
	require.NoError(t, err)
	require.Zero(t, status&1)
	list, err := decodeTokens(payload, false, false)
	require.NoError(t, err)
	require.Len(t, list, 101, "what was written before the hang arrives")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, _, err = raw.packet()
	require.ErrorContains(t, err, "timeout")
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	raw.send(6, 1, nil) // stays unanswered
	close(resume)
	list, err = decodeTokens(append(payload, raw.answer()...), false, false)
	require.NoError(t, err)
	if list[len(list)-1].line != ackLine { // the rest was quicker than the attention
		require.Equal(t, []string{ackLine}, raw.tokens())
	}

	raw2 := dialRaw(t, tds.Config{Hooks: atRow(1, tds.Fault{Action: tds.Hang})}, &script{handle: numbers(10)})
	raw2.login(loginWords{})
	raw2.batch(1, "SELECT n")
	_, _, err = raw2.packet()
	require.NoError(t, err)
	require.NoError(t, raw2.conn.Close())
	require.ErrorIs(t, <-raw2.end, tds.ErrFault, "a hang ends with the client")
}

func TestFaultsBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		hooks tds.Hooks
		err   string
	}{
		{"closed at once", tds.Hooks{Connect: func(*tds.Conn) tds.Fault { return tds.Fault{Action: tds.CloseConn} }}, "EOF|reset"},
		{"reset at once", tds.Hooks{Connect: func(*tds.Conn) tds.Fault { return tds.Fault{Action: tds.ResetConn} }}, "EOF|reset|broken pipe"},
		{"closed after LOGIN7", tds.Hooks{Login: func(*tds.Conn, *tds.Login) tds.Fault { return tds.Fault{Action: tds.CloseConn} }}, "EOF"},
		{"closed at the request", tds.Hooks{Request: func(*tds.Conn, *tds.Request) tds.Fault { return tds.Fault{Action: tds.CloseConn} }}, "EOF"},
		{"refused request", tds.Hooks{Request: func(*tds.Conn, *tds.Request) tds.Fault {
			return tds.Fault{Action: tds.FailAnswer, Message: &tds.ServerError{Number: 40613, Class: 17, Text: "not currently available"}}
		}}, "not currently available"},
		{"third packet cut in half", tds.Hooks{Packet: func(_ *tds.Conn, p tds.Packet) tds.Fault {
			if p.Number == 3 {
				return tds.Fault{Action: tds.CloseConn, Partial: true}
			}
			return tds.Fault{}
		}}, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tds.Config{Hooks: tc.hooks}, &script{handle: numbers(5000)})
			n, err := readAll(t.Context(), t, s.open(t))
			require.Error(t, err)
			require.Regexp(t, tc.err, err.Error())
			require.Less(t, n, int64(5000))
		})
	}
}

// TestEverySplit sends the type rowset in packets of every small size, and in writes of every small size, so that every token is
// cut at every byte.
func TestEverySplit(t *testing.T) {
	t.Parallel()
	cases := shortCases()
	var whole []byte
	for size := 9; size < 9+70; size++ {
		hooks := tds.Hooks{PacketSize: func(*tds.Conn, int64) int { return size }}
		c := dialRaw(t, tds.Config{Hooks: hooks}, &script{handle: typesRowset(cases)})
		c.login(loginWords{})
		c.log = nil
		c.batch(1, "SELECT types")
		payload := c.answer()
		if whole == nil {
			whole = payload
			_, err := decodeTokens(whole, false, false)
			require.NoError(t, err)
		}
		require.Equal(t, whole, payload, "size %d", size)
		require.GreaterOrEqual(t, len(c.log), len(payload)+8*len(payload)/(size-8))
	}
	for _, split := range []int{1, 7, 8, 9, 500} {
		t.Run(fmt.Sprint("split ", split), func(t *testing.T) {
			t.Parallel()
			odd := func(_ *tds.Conn, n int64) int { return 9 + int(n*37%300) }
			hooks := tds.Hooks{Shape: tds.Shape{Split: split}, PacketSize: odd}
			db := serve(t, tds.Config{Hooks: hooks}, &script{handle: typesRowset(cases)}).open(t)
			compareTypes(t, db, cases)
		})
	}
}

// shortCases are the type cases without their long values.
func shortCases() []typeCase {
	var short []typeCase
	for _, c := range typeCases() {
		long := false
		for _, v := range c.values {
			switch v := v.(type) {
			case string:
				long = long || len(v) > 100
			case []byte:
				long = long || len(v) > 100
			}
		}
		if !long {
			short = append(short, c)
		}
	}
	return short
}

func TestTrickleAndPause(t *testing.T) {
	t.Parallel()
	hooks := tds.Hooks{Login: func(c *tds.Conn, _ *tds.Login) tds.Fault {
		c.SetHooks(tds.Hooks{Shape: tds.Shape{Split: 16, Pause: time.Millisecond}})
		return tds.Fault{}
	}}
	db := serve(t, tds.Config{Hooks: hooks}, &script{handle: selectOne}).open(t)
	begun := time.Now()
	require.NoError(t, db.PingContext(t.Context()))
	require.Greater(t, time.Since(begun), 20*time.Millisecond, "the login answer alone is 25 pieces")
}

// TestPLPForms sends (max) values in chunks and with the unknown length.
func TestPLPForms(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 1_000)
	big := strings.Repeat("ä", 5<<20) // 10 MB of UTF-16
	for _, tc := range []struct {
		name  string
		plp   tds.PLP
		value string
	}{
		{"one chunk", tds.PLP{}, text},
		{"unknown", tds.PLP{Unknown: true}, text},
		{"chunks of 1", tds.PLP{Chunk: 1}, text[:300]},
		{"chunks of 7, unknown", tds.PLP{Chunk: 7, Unknown: true}, text},
		{"empty, unknown", tds.PLP{Unknown: true}, ""},
		{"10 MB in 8 kB chunks", tds.PLP{Chunk: 8192}, big},
		{"10 MB in one", tds.PLP{}, big},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := serve(t, tds.Config{}, &script{handle: func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
				w.SetPLP(tc.plp)
				w.Columns([]tds.Column{
					{Name: "w", Type: tds.TypeNVarChar(tds.Max, tds.CollationDefault())},
					{Name: "b", Type: tds.TypeVarBinary(tds.Max)},
				})
				return w.WriteRow(tc.value, []byte(tc.value))
			}}).open(t)
			var wide string
			var raw []byte
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT w, b").Scan(&wide, &raw))
			require.True(t, wide == tc.value && string(raw) == tc.value)
		})
	}
}
