package sqlserver_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// benchRows is how many change rows one operation of the benchmark reads.
const benchRows = 200_000

// canned is a server whose change table has thirteen columns of about 150 bytes a row, encoded before the clock runs.
type canned struct {
	*stub

	columns []tds.Column
	rows    [][]byte // one commit of a thousand rows each
}

// Login implements tds.Handler.
func (c *canned) Login(context.Context, *tds.Conn, *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	return &tds.LoginAnswer{}, c, nil
}

// Handle implements tds.Session.
func (c *canned) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	statement, args := readRequest(req)
	switch {
	case contains(statement, "sp_cdc_get_captured_columns"):
		names := []string{"id", "a", "b", "code", "amount", "note", "at", "flag"}
		types := []string{"bigint", "int", "int", "varchar", "decimal", "nvarchar", "datetime2", "bit"}
		var rows [][]any
		for i, name := range names {
			rows = append(rows, []any{name, i + 1, types[i], 40, 18, 4, 7, i + 1})
		}
		return rowset(w, []string{"column_name", "column_id", "data_type", "character_maximum_length", "numeric_precision", "numeric_scale", "datetime_precision", "column_ordinal"}, rows...)
	case contains(statement, changeRead):
		w.Columns(c.columns)
		from, to := lsnOf(args["from"]), lsnOf(args["to"])
		for i, e := range c.mapping {
			if e.lsn.Less(from) || to.Less(e.lsn) {
				continue
			}
			for range 1000 {
				if err := w.RawRow(c.rows[i]); err != nil {
					return err
				}
			}
		}
		w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: 1})
		return nil
	}
	return c.answer(ctx, statement, args, w)
}

func newCanned(b testing.TB) *canned {
	c := &canned{stub: newStub()}
	c.tables["t"] = &stubTable{min: lsn(1)}
	text := tds.CollationDefault()
	for _, t := range []tds.TypeInfo{
		tds.TypeBinary(10), tds.TypeBinary(10), tds.TypeInt(4), tds.TypeInt(4), tds.TypeDateTime(8),
		tds.TypeInt(8), tds.TypeInt(4), tds.TypeInt(4), tds.TypeVarChar(40, text), tds.TypeDecimal(18, 4), tds.TypeNVarChar(40, text), tds.TypeDateTime2(7), tds.TypeBit(),
	} {
		c.columns = append(c.columns, tds.Column{Type: t, Flags: tds.FlagNullable})
	}
	at := time.Date(2025, 7, 1, 12, 0, 0, 123456700, time.UTC)
	for i := range benchRows / 1000 {
		l := lsn(2 + i)
		c.mapping = append(c.mapping, entry{l, at})
		row := []byte{0xD1}
		for k, v := range []any{
			l[:], l[:], int64(2), int64(1), at, int64(1 << 40), int64(4711), int64(1), "some code of a thing", tds.NewDecimal(123456789, 4), strings.Repeat("x", 18), at, true,
		} {
			var err error
			row, err = tds.AppendValue(row, &c.columns[k].Type, v)
			require.NoError(b, err)
		}
		c.rows = append(c.rows, row)
	}
	return c
}

// BenchmarkRead measures the whole read path over a loopback socket, server included.
func BenchmarkRead(b *testing.B) {
	for name, ranges := range map[string]int{"one range": 1, "two ranges": 2} {
		b.Run(name, func(b *testing.B) {
			c := newCanned(b)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- tds.NewServer(tds.Config{}, c).Serve(ctx, listener) }()
			b.Cleanup(func() { cancel(); require.NoError(b, <-done) })
			client, err := sqlserver.Open(b.Context(), sqlserver.Config{
				ConnectionString: "sqlserver://sa:Sup3rSecret@" + listener.Addr().String() + "?encrypt=disable&packet+size=16383",
			})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, client.Close()) })
			l := layout(b, b.Context(), client, "t")
			head, err := client.MaxLSN(b.Context())
			require.NoError(b, err)
			limits := sqlserver.Limits{Ranges: ranges}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rows := int64(0)
			for b.Loop() {
				plan, err := client.Plan(b.Context(), l, lsn(1), head.LSN, limits)
				require.NoError(b, err)
				for part, err := range client.Read(b.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Limits: limits, Head: head}) {
					require.NoError(b, err)
					rows += part.Record.NumRows()
				}
			}
			runtime.ReadMemStats(&after)
			require.EqualValues(b, benchRows*b.N, rows)
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(rows), "allocs/row")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(rows), "B/row")
		})
	}
}
