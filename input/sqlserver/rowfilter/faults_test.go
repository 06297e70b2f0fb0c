package rowfilter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// mixed is a rowset whose rows have values of several forms.
func mixed() []encoding {
	var chosen []encoding
	for _, e := range encodings() {
		switch e.name {
		case "bit", "decimal(18,2)", "datetime2(7)", "nvarchar(200)", "varbinary(max)", "int not null as kind 3", "text":
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// faulty answers with rows and breaks after n of them.
func faulty(n int, f tds.Fault) answer {
	rows := rowset(5, n, mixed()...)
	return func(ctx context.Context, w *tds.Writer) error {
		if err := rows(ctx, w); err != nil {
			return err
		}
		return w.Inject(f)
	}
}

// TestFaults breaks answers in every way after some rows: both readers fail, have the same records until then, and a connection
// that can be used is one whose answer was read to its end.
func TestFaults(t *testing.T) {
	t.Parallel()
	deadlock := &tds.ServerError{Number: 1205, Class: 13, State: 51, Text: "Transaction was deadlocked."}
	fatal := &tds.ServerError{Number: 596, Class: 21, State: 1, Text: "Cannot continue the execution because the session is in the kill state."}
	cases := map[string]struct {
		fault tds.Fault
		kept  bool // the connection
	}{
		"an error":            {tds.Fault{Action: tds.FailAnswer, Message: deadlock}, true},
		"an error that kills": {tds.Fault{Action: tds.FailAnswer, Message: fatal}, false},
		"closed":              {tds.Fault{Action: tds.CloseConn}, false},
		"closed in a packet":  {tds.Fault{Action: tds.CloseConn, Partial: true}, false},
		"reset":               {tds.Fault{Action: tds.ResetConn}, false},
		"ended without DONE":  {tds.Fault{Action: tds.EndAnswer}, false},
		"an unknown token":    {tds.Fault{Action: tds.BadToken}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, tds.Config{})
			plain, filter := h.open(t, false), h.open(t, true)
			statement := wants(3, 1<<20, asked(mixed())...)
			for _, n := range []int{0, 1, 2, 3, 4, 9, 200, 1000} {
				h.says(faulty(n, c.fault))
				want, got := read(t.Context(), plain, statement), read(t.Context(), filter, statement)
				require.Error(t, want.err)
				require.Error(t, got.err)
				// What reaches the consumer before the fault is provisional; both give whole records in order.
				least := min(len(want.batches), len(got.batches))
				requireRecords(t, outcome{batches: want.batches[:least]}, outcome{batches: got.batches[:least]})
				var server mssql.Error
				if c.kept {
					require.ErrorAs(t, got.err, &server)
					require.EqualValues(t, 1205, server.Number)
					require.LessOrEqual(t, len(got.batches), n/3)
				}
				var stream *rowfilter.StreamError
				if errors.As(got.err, &stream) {
					require.Equal(t, "SELECT rows", stream.Statement)
					require.NotContains(t, got.err.Error(), "Sup3rSecret")
				}
				if !c.kept {
					// The driver notices at the next statement only that the server closed after a fatal error.
					var one int
					_ = filter.QueryRowContext(t.Context(), "SELECT 1").Scan(&one)
				}
				ping(t, t.Context(), filter)
			}
		})
	}
}

// TestAnswerCutAnywhere ends the connection after so many bytes: never is a cut answer taken for a whole one.
func TestAnswerCutAnywhere(t *testing.T) {
	t.Parallel()
	h := newHost(t, tds.Config{})
	var wire *limitedConn
	h.dialed = limitReads(&wire)
	h.says(rowset(9, 7, mixed()...))
	statement := wants(2, 1<<20, asked(mixed())...)
	db := h.open(t, true)
	whole := read(t.Context(), db, statement)
	require.NoError(t, whole.err)
	cuts := 0
	for cut := int64(1); ; cut += 1 + cut/200 {
		ping(t, t.Context(), db)
		wire.limit(cut)
		got := read(t.Context(), db, statement)
		if got.err == nil {
			requireRecords(t, whole, got)
			break
		}
		requireRecords(t, outcome{batches: whole.batches[:len(got.batches)]}, got)
		cuts++
	}
	require.Greater(t, cuts, 300)
}

// TestErrorBeforeRows reads an answer without a rowset.
func TestErrorBeforeRows(t *testing.T) {
	t.Parallel()
	h := newHost(t, tds.Config{})
	filter := h.open(t, true)
	h.says(func(context.Context, *tds.Writer) error {
		return &tds.ServerError{Number: 208, Class: 16, State: 1, Text: "Invalid object name."}
	})
	statement := wants(3, 1<<20, fetch.Column{Kind: fetch.Int32})
	got := read(t.Context(), filter, statement)
	var server mssql.Error
	require.ErrorAs(t, got.err, &server)
	require.EqualValues(t, 208, server.Number)
	require.Empty(t, got.choice.Reader)
	ping(t, t.Context(), filter)
}

// TestShapesAreLeftToTheDriver covers results that are not what the statement promises.
func TestShapesAreLeftToTheDriver(t *testing.T) {
	t.Parallel()
	h := newHost(t, tds.Config{})
	plain, filter := h.open(t, false), h.open(t, true)
	number := encodings()[slot("int as kind 3")]
	cases := map[string]struct {
		answer    answer
		statement fetch.Statement
		fails     string
	}{
		"two columns for one": {rowset(1, 5, number, number), wants(3, 1<<20, number.want), "the result has 2 columns, want 1"},
		"no rowset at all":    {func(context.Context, *tds.Writer) error { return nil }, wants(3, 1<<20, number.want), "the result has 0 columns, want 1"},
		"a number for text":   {rowset(1, 5, number), wants(3, 1<<20, fetch.Column{Kind: fetch.GUID}), `column "c0": a value`},
		"a second rowset": {func(ctx context.Context, w *tds.Writer) error {
			if err := rowset(1, 5, number)(ctx, w); err != nil {
				return err
			}
			w.Done(tds.Done{Status: tds.DoneCount, Count: 5})
			return rowset(2, 5, number)(ctx, w)
		}, wants(3, 1<<20, number.want), ""},
	}
	for name, c := range cases {
		h.says(c.answer)
		want, got := read(t.Context(), plain, c.statement), read(t.Context(), filter, c.statement)
		if c.fails == "" {
			require.NoError(t, want.err, name)
			require.NoError(t, got.err, name)
			requireRecords(t, want, got)
		} else {
			require.ErrorContains(t, want.err, c.fails, name)
			require.ErrorContains(t, got.err, c.fails, name)
		}
		ping(t, t.Context(), filter)
	}
}

func slot(name string) int {
	for i, e := range encodings() {
		if e.name == name {
			return i
		}
	}
	panic("no encoding " + name)
}

// TestTooManyDigits reads a decimal that is longer than its type: an error of the column, without the value.
func TestTooManyDigits(t *testing.T) {
	t.Parallel()
	h := newHost(t, tds.Config{})
	plain, filter := h.open(t, false), h.open(t, true)
	h.says(func(_ context.Context, w *tds.Writer) error {
		w.Columns([]tds.Column{{Name: "c", Type: tds.TypeDecimal(5, 2), Flags: tds.FlagsNullableOfTable}})
		return w.RawRow([]byte{0xD1, 5, 1, 0x40, 0x42, 0x0F, 0}) // 1,000,000
	})
	statement := wants(3, 1<<20, fetch.Column{Kind: fetch.Decimal, Precision: 5, Scale: 2})
	for _, got := range []outcome{read(t.Context(), plain, statement), read(t.Context(), filter, statement)} {
		var value *fetch.ValueError
		require.ErrorAs(t, got.err, &value)
		require.Equal(t, fetch.ValueError{Column: "c0", Reason: "more digits than the declared precision"}, *value)
		require.NotContains(t, got.err.Error(), "10000")
	}
	ping(t, t.Context(), filter)
}

// endless writes rows until it is stopped.
func endless(h *host, stopped chan<- error) answer {
	return func(_ context.Context, w *tds.Writer) error {
		w.Columns([]tds.Column{{Name: "c", Type: tds.TypeInt(4), Flags: tds.FlagsNullableOfTable}})
		for n := range int64(1 << 40) {
			if err := w.WriteRow(n & 0xFFFF); err != nil {
				stopped <- err
				return err
			}
		}
		return nil
	}
}

// TestStopping ends a statement early: by the context, by a consumer that stops, and by one that does not take anything. The
// server sees an attention, and the connection goes on.
func TestStopping(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"context while rows flow", "consumer stops", "context while the consumer is busy", "deadline while the server hangs"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			stopped := make(chan error, 1)
			h := newHost(t, tds.Config{})
			h.says(endless(h, stopped))
			if way == "deadline while the server hangs" {
				rows := rowset(1, 50, encodings()[slot("int as kind 3")])
				h.says(func(ctx context.Context, w *tds.Writer) error {
					if err := rows(ctx, w); err != nil {
						return err
					}
					if err := w.Flush(); err != nil {
						return err
					}
					<-ctx.Done()
					stopped <- context.Cause(ctx)
					return nil
				})
			}
			db := h.open(t, true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if way == "deadline while the server hangs" {
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			begun := time.Now()
			n := 0
			for _, err = range (rowfilter.Fetcher{}).Fetch(ctx, conn, wants(1000, 1<<20, fetch.Column{Kind: fetch.Int32})) {
				if n++; n == 5 {
					begun = time.Now()
					if way == "consumer stops" {
						break
					}
					cancel()
					if way == "context while the consumer is busy" {
						require.ErrorIs(t, <-stopped, tds.ErrAttention) // while nobody takes records
					}
				}
				if err != nil {
					break
				}
			}
			if way != "consumer stops" {
				require.ErrorIs(t, err, ctx.Err())
				require.Error(t, ctx.Err())
			}
			require.NoError(t, conn.Close())
			if way != "context while the consumer is busy" {
				require.ErrorIs(t, <-stopped, tds.ErrAttention)
			}
			require.Less(t, time.Since(begun), 4*time.Second, "the driver gives up after 5 s")
			h.says(rowset(1, 10, encodings()[slot("int as kind 3")]))
			got := read(t.Context(), db, wants(1000, 1<<20, fetch.Column{Kind: fetch.Int32}))
			require.NoError(t, got.err)
			require.EqualValues(t, 10, got.rows())
			require.Equal(t, 1, db.Stats().OpenConnections)
		})
	}
}

// TestMessagesBetweenRows sends what may stand between and after rows.
func TestMessagesBetweenRows(t *testing.T) {
	t.Parallel()
	h := newHost(t, tds.Config{})
	filter := h.open(t, true)
	h.says(func(_ context.Context, w *tds.Writer) error {
		w.Columns([]tds.Column{{Name: "c", Type: tds.TypeInt(4), Flags: tds.FlagsNullableOfTable}})
		w.Order(1)
		for n := range int64(500) {
			if err := w.WriteRow(n); err != nil {
				return err
			}
			if n%100 == 50 {
				w.Message(&tds.ServerError{Number: 8153, Class: 10, State: 1, Text: fmt.Sprintf("Warning %d: %01000d", n, n)})
			}
		}
		w.Done(tds.Done{Status: tds.DoneCount, Count: 500})
		w.ReturnStatus(0)
		w.ReturnValue(tds.ReturnValue{Name: "@p", Type: tds.TypeNVarChar(10, tds.CollationDefault()), Value: "ä"})
		w.DoneProc(tds.Done{})
		return nil
	})
	for range 3 {
		got := read(t.Context(), filter, wants(64, 1<<20, fetch.Column{Kind: fetch.Int32}))
		require.NoError(t, got.err)
		require.EqualValues(t, 500, got.rows())
		require.Equal(t, "filter", got.choice.Reader)
		ping(t, t.Context(), filter)
	}
}
