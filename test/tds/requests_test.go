package tds_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-sql/civil"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// recorder answers every request with a DONE and keeps it.
type recorder struct {
	requests []*tds.Request
	tran     uint64
}

func (r *recorder) handle(_ context.Context, req *tds.Request, w *tds.Writer) error {
	r.requests = append(r.requests, req)
	switch body := req.Body.(type) {
	case *tds.Transaction:
		switch body.Kind {
		case tds.TransactionBegin:
			r.tran++
			w.EnvBegin(r.tran)
		case tds.TransactionCommit:
			w.EnvCommit(r.tran)
		case tds.TransactionRollback:
			w.EnvRollback(r.tran)
		}
		w.Done(tds.Done{Command: tds.CommandBeginTM})
	case *tds.RPC:
		w.ReturnStatus(0)
		w.DoneProc(tds.Done{Command: tds.CommandExecute})
	case *tds.Invalid:
		return &tds.ServerError{Number: 8009, State: 1, Class: 16, Text: body.Err.Error(), Line: 1}
	case *tds.BulkLoad:
		return &tds.ServerError{Number: 4002, State: 1, Class: 16, Text: "bulk load is not supported", Line: 1}
	default:
		w.Done(tds.Done{})
	}
	return nil
}

func (r *recorder) last() *tds.Request { return r.requests[len(r.requests)-1] }

func TestParametersOfMSSQLDB(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	db := serve(t, tds.Config{}, &script{handle: rec.handle}).open(t)
	uid := mssql.UniqueIdentifier{0x6F, 0x96, 0x19, 0xFF, 0x8B, 0x86, 0xD0, 0x11, 0xB4, 0x2D, 0x00, 0xC0, 0x4F, 0xC9, 0x64, 0xFF}
	east := time.FixedZone("", 2*3600)
	at := time.Date(2024, 3, 4, 5, 6, 7, 123456700, east)
	long := strings.Repeat("長", 5000)
	for _, tc := range []struct {
		name  string
		value any
		typ   string
		want  tds.Value
	}{
		{"nil", nil, "null", nil},
		{"int", int64(-5), "bigint", int64(-5)},
		{"bool", true, "bit", true},
		{"float", 2.5, "float", 2.5},
		{"string", "Straße", "nvarchar(6)", "Straße"},
		{"empty string", "", "nvarchar(max)", ""},
		{"long string", long, "nvarchar(max)", long},
		{"varchar", mssql.VarChar("naive"), "varchar(5)", "naive"},
		{"bytes", []byte{0, 1, 0xFF}, "varbinary(3)", []byte{0, 1, 0xFF}},
		{"empty bytes", []byte{}, "varbinary(max)", []byte{}},
		{"nil bytes", []byte(nil), "varbinary(max)", nil},
		{"long bytes", make([]byte, 9000), "varbinary(max)", make([]byte, 9000)},
		{"time", at, "datetimeoffset(7)", tds.DateTimeOffset{Date: tds.NewDate(2024, 3, 4), Time: tds.NewTime(3, 6, 7, 123456700), Offset: 120}},
		{"datetime", mssql.DateTime1(utc(2024, 3, 4, 5, 6, 7, 3_333_333)), "datetime", tds.DateTimeOf(utc(2024, 3, 4, 5, 6, 7, 3_333_333))},
		{"date", civil.Date{Year: 2024, Month: 3, Day: 4}, "date", tds.NewDate(2024, 3, 4)},
		{"time of day", civil.Time{Hour: 1, Minute: 2, Second: 3, Nanosecond: 400}, "time(7)", tds.NewTime(1, 2, 3, 400)},
		{"datetime2", civil.DateTime{Date: civil.Date{Year: 2024, Month: 3, Day: 4}, Time: civil.Time{Hour: 5}}, "datetime2(7)", tds.DateTime2{Date: tds.NewDate(2024, 3, 4), Time: tds.NewTime(5, 0, 0, 0)}},
		{"uniqueidentifier", uid, "uniqueidentifier", must(tds.ParseUUID("6F9619FF-8B86-D011-B42D-00C04FC964FF"))},
		{"null int", sql.NullInt64{}, "bigint", nil},
		{"null string", sql.NullString{}, "nvarchar(4000)", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := db.ExecContext(t.Context(), "UPDATE t SET c = @p1", tc.value)
			require.NoError(t, err)
			rpc := rec.last().Body.(*tds.RPC)
			require.Len(t, rpc.Calls, 1)
			call := rpc.Calls[0]
			require.Equal(t, tds.ProcExecuteSQL, call.ID)
			require.Equal(t, "sp_executesql", call.Name())
			require.Equal(t, "UPDATE t SET c = @p1", call.Params[0].Value)
			require.Equal(t, "@p1", call.Params[2].Name)
			require.Equal(t, tc.want, call.Params[2].Value)
			require.Equal(t, tc.typ, call.Params[2].Type.String())
			require.Equal(t, uint32(1), rec.last().Headers.Outstanding)
		})
	}
	t.Run("procedure by name, output", func(t *testing.T) {
		var out int64
		_, err := db.ExecContext(t.Context(), "dbo.p", sql.Named("in", "x"), sql.Named("out", sql.Out{Dest: &out}))
		require.NoError(t, err)
		call := rec.last().Body.(*tds.RPC).Calls[0]
		require.Equal(t, "dbo.p", call.Name())
		require.False(t, call.Params[0].Output)
		require.True(t, call.Params[1].Output)
		require.Equal(t, "@out", call.Params[1].Name)
	})
}

func TestTransactionsAndResetsOfMSSQLDB(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	db := serve(t, tds.Config{}, &script{handle: rec.handle}).open(t)
	db.SetMaxOpenConns(1)
	ctx := t.Context()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSnapshot})
	require.NoError(t, err)
	require.Equal(t, &tds.Transaction{Kind: tds.TransactionBegin, Isolation: tds.Snapshot}, rec.last().Body)
	require.Equal(t, tds.ResetConnection, rec.last().Reset, "go-mssqldb resets a connection it takes from the pool, also the first time")
	_, err = tx.ExecContext(ctx, "SELECT inside")
	require.NoError(t, err)
	require.Equal(t, tds.ResetNone, rec.last().Reset)
	require.Equal(t, uint64(1), rec.last().Headers.Transaction, "the descriptor comes back")
	require.NoError(t, tx.Commit())
	require.Equal(t, &tds.Transaction{Kind: tds.TransactionCommit}, rec.last().Body)

	tx, err = db.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, tds.IsolationCurrent, rec.last().Body.(*tds.Transaction).Isolation)
	require.NoError(t, tx.Rollback())
	require.Equal(t, &tds.Transaction{Kind: tds.TransactionRollback}, rec.last().Body)
	_, err = db.ExecContext(ctx, "SELECT last")
	require.NoError(t, err)
	require.Zero(t, rec.last().Headers.Transaction)
}

func TestWhatIsRefusedLeavesTheConnectionUsable(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	s := serve(t, tds.Config{}, &script{handle: rec.handle})
	db := s.open(t)
	db.SetMaxOpenConns(1)
	type row struct{ ID int64 }
	_, err := db.ExecContext(t.Context(), "EXEC p @p1", mssql.TVP{TypeName: "dbo.ids", Value: []row{{1}, {2}}})
	failure, ok := errors.AsType[mssql.Error](err)
	require.True(t, ok, err)
	require.Equal(t, int32(8009), failure.Number)
	invalid := rec.last().Body.(*tds.Invalid)
	unsupported, ok := errors.AsType[*tds.UnsupportedError](invalid.Err)
	require.True(t, ok)
	require.Equal(t, "table-valued parameter dbo.ids is not supported", unsupported.Error())
	require.ErrorContains(t, invalid.Err, "parameter @p1")

	_, err = db.ExecContext(t.Context(), "and again")
	require.NoError(t, err)
	_, ends := s.lastEnd()
	require.Zero(t, ends)
}

func TestSeveralCallsInOneMessage(t *testing.T) {
	t.Parallel()
	// sp_unprepare 1, then a call by name that is not to be run
	payload := append([]byte{4, 0, 0, 0}, 0xFF, 0xFF, 15, 0, 0, 0, 0, 0, 0x26, 4, 4, 1, 0, 0, 0, 0xFE, 1, 0, 'p', 0, 2, 0, 0, 2, 0x26, 2, 0)
	req, err := tds.ParseRequest(tds.PacketRPC, payload, tds.Version74)
	require.NoError(t, err)
	require.Equal(t, &tds.RPC{Calls: []tds.Call{
		{ID: tds.ProcUnprepare, Params: []tds.Param{{Type: tds.TypeInt(4), Value: int64(1)}}},
		{Proc: "p", Options: tds.OptionNoMetadata, Params: []tds.Param{{Default: true, Type: tds.TypeInt(2)}}},
	}}, noExecCleared(t, req.Body.(*tds.RPC)))
}

// noExecCleared checks where the no-exec flag was put and clears it.
func noExecCleared(t *testing.T, r *tds.RPC) *tds.RPC {
	require.True(t, r.Calls[0].NoExec, "the flag stands behind the call it is about")
	r.Calls[0].NoExec = false
	return r
}

func TestParameterForms(t *testing.T) {
	t.Parallel()
	coll := []byte{9, 4, 0xD0, 0, 0x34}
	cat := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	b := func(bytes ...byte) []byte { return bytes }
	for _, tc := range []struct {
		name string
		wire []byte // TYPE_INFO and value
		typ  string
		want tds.Value
		err  string
	}{
		{"ntext", cat(b(0x63, 0xFE, 0xFF, 0xFF, 0x7F), coll, b(4, 0, 0, 0, 'h', 0, 'i', 0)), "ntext", "hi", ""},
		{"ntext NULL", cat(b(0x63, 0xFE, 0xFF, 0xFF, 0x7F), coll, b(0xFF, 0xFF, 0xFF, 0xFF)), "ntext", nil, ""},
		{"text", cat(b(0x23, 0xFE, 0xFF, 0xFF, 0x7F), coll, b(1, 0, 0, 0, 0x80)), "text", "€", ""},
		{"image", b(0x22, 0xFE, 0xFF, 0xFF, 0x7F, 2, 0, 0, 0, 1, 2), "image", []byte{1, 2}, ""},
		{"unknown-length PLP in two chunks", cat(b(0xE7, 0xFF, 0xFF), coll, b(0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 'a', 0, 2, 0, 0, 0, 'b', 0, 0, 0, 0, 0)), "nvarchar(max)", "ab", ""},
		{"PLP NULL", cat(b(0xA5, 0xFF, 0xFF), b(0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)), "varbinary(max)", nil, ""},
		{"PLP empty", cat(b(0xA5, 0xFF, 0xFF), b(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), "varbinary(max)", []byte{}, ""},
		{"PLP whose total is wrong", cat(b(0xA5, 0xFF, 0xFF), b(3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0)), "", nil, "do not add up"},
		{"xml", b(0xF1, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 4, 0, 0, 0, 0xFF, 0xFE, '<', 0, 0, 0, 0, 0), "xml", "\uFEFF<", ""},
		{"CLR type", b(0xF0, 0, 1, 's', 0, 1, 'g', 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0), "s.g", []byte{9}, ""},
		{"sql_variant", b(0x62, 0x49, 0x1F, 0, 0, 6, 0, 0, 0, 0x38, 0, 5, 0, 0, 0), "sql_variant", tds.Variant{Type: tds.TypeFixed(tds.IDInt4), Value: int64(5)}, ""},
		{"decimal, short form", b(0x6A, 17, 38, 2, 5, 0, 7, 0, 0, 0), "decimal(38,2)", tds.NewDecimal(-7, 2), ""},
		{"decimal longer than declared", b(0x6A, 5, 9, 2, 9, 1, 7, 0, 0, 0, 0, 0, 0, 0), "", nil, "a length the type does not have"},
		{"lone surrogate", cat(b(0xE7, 8, 0), coll, b(4, 0, 0x3D, 0xD8, 'x', 0)), "nvarchar(4)", "\xED\xA0\xBDx", ""},
		{"odd UTF-16", cat(b(0xE7, 8, 0), coll, b(3, 0, 'x', 0, 0)), "", nil, "odd number"},
		{"int of three bytes", b(0x26, 3, 3, 1, 2, 3), "", nil, "a size the type does not have"},
		{"date beyond 9999", b(0x28, 3, 0xFF, 0xFF, 0xFF), "", nil, "out of range"},
		{"time of 24 hours", b(0x29, 0, 3, 0x80, 0x51, 0x01), "", nil, "out of range"},
		{"encrypted", nil, "", nil, "encrypted parameter @e is not supported"},
		{"json", b(0xF4), "", nil, "type json is not supported"},
		{"old char", b(0x2F, 3, 1, 'x'), "", nil, "type 0x2F of TDS 4.2 is not supported"},
		{"no type", b(0x99), "", nil, "a type that does not exist"},
		{"cut", b(0x38, 1, 2), "", nil, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status := byte(0)
			if tc.name == "encrypted" {
				status = 8
			}
			payload := cat(b(4, 0, 0, 0, 1, 0, 'p', 0, 0, 0, 2, '@', 0, 'e', 0, status), tc.wire)
			req, err := tds.ParseRequest(tds.PacketRPC, payload, tds.Version74)
			require.NoError(t, err)
			if tc.err != "" {
				require.ErrorContains(t, req.Body.(*tds.Invalid).Err, tc.err)
				return
			}
			p := req.Body.(*tds.RPC).Calls[0].Params[0]
			require.Equal(t, tc.want, p.Value)
			require.Equal(t, tc.typ, p.Type.String())
		})
	}
}

func TestTransactionRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		body []byte
		want tds.Body
	}{
		{"begin", []byte{5, 0, 2, 2, 'a', 0, 'b', 0}, &tds.Transaction{Kind: tds.TransactionBegin, Isolation: tds.ReadCommitted, Name: "ab"}},
		{"commit", []byte{7, 0, 0, 0}, &tds.Transaction{Kind: tds.TransactionCommit}},
		{"commit and begin", []byte{7, 0, 1, 'x', 0, 1, 4, 1, 'y', 0}, &tds.Transaction{Kind: tds.TransactionCommit, Name: "x", Begin: true, Isolation: tds.Serializable, BeginName: "y"}},
		{"rollback", []byte{8, 0, 1, 's', 0, 0}, &tds.Transaction{Kind: tds.TransactionRollback, Name: "s"}},
		{"save", []byte{9, 0, 1, 's', 0}, &tds.Transaction{Kind: tds.TransactionSave, Name: "s"}},
	} {
		req, err := tds.ParseRequest(tds.PacketTransaction, append([]byte{4, 0, 0, 0}, tc.body...), tds.Version74)
		require.NoError(t, err)
		require.Equal(t, tc.want, req.Body, tc.name)
	}
	for name, body := range map[string][]byte{
		"get DTC address is not supported":       {0, 0, 0, 0},
		"propagate transaction is not supported": {1, 0, 0, 0},
		"out of range":                           {5, 0, 9, 0},
		"unexpected EOF":                         {5, 0, 1},
	} {
		req, err := tds.ParseRequest(tds.PacketTransaction, append([]byte{4, 0, 0, 0}, body...), tds.Version74)
		require.NoError(t, err)
		require.ErrorContains(t, req.Body.(*tds.Invalid).Err, name)
	}
}
