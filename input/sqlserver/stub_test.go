package sqlserver_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// stub is a server of a few tables that knows our statements by what is characteristic of them, and no SQL. It stands for
// what the simulator does not let a test do exactly: histories of any shape, a look at every statement, a fault at one of
// them.
type stub struct {
	mu            sync.Mutex
	version       string
	updateability string // READ_ONLY, or anything else
	zone          string
	offset        int64 // minutes
	mapping       []entry
	tables        map[string]*stubTable
	statements    []string
	logins        int

	// before is called for each statement; an error is the answer.
	before func(statement string, args map[string]any) error
	// row is called after the n-th row of a change read was written.
	row func(n int, last mssqlcdc.LSN) error

	hooks  tds.Hooks
	server *tds.Server
}

// entry is a row of cdc.lsn_time_mapping.
type entry struct {
	lsn  mssqlcdc.LSN
	wall time.Time
}

// change is a row of a change table with the columns id and note.
type change struct {
	pos  mssqlcdc.Position
	id   int64
	note any // string or nil
}

type stubTable struct {
	rows   []change
	min    mssqlcdc.LSN
	oldOne bool // no __$command_id
}

// lsn makes LSNs that are far enough from each other to tell apart.
func lsn(n int) mssqlcdc.LSN {
	var l mssqlcdc.LSN
	binary.BigEndian.PutUint64(l[1:], uint64(n)<<12)
	return l
}

func newStub() *stub {
	return &stub{version: "16.0.4135.4", zone: "UTC", tables: map[string]*stubTable{}}
}

// start serves the stub for the length of the test and opens a client.
func (s *stub) start(t testing.TB, change ...func(*sqlserver.Config)) *sqlserver.Client {
	t.Helper()
	client, err := s.open(t, change...)
	require.NoError(t, err)
	return client
}

func (s *stub) open(t testing.TB, change ...func(*sqlserver.Config)) (*sqlserver.Client, error) {
	t.Helper()
	if s.server == nil {
		s.server = tds.NewServer(tds.Config{Hooks: s.hooks}, s)
	}
	config := sqlserver.Config{
		ConnectionString: "sqlserver://sa:Sup3rSecret@127.0.0.1?database=lab&encrypt=disable",
		Dialer:           s,
		Reader:           os.Getenv("TEST_READER"), // all of the suite with the other reader: TEST_READER=driver
	}
	for _, c := range change {
		c(&config)
	}
	client, err := sqlserver.Open(t.Context(), config)
	if client != nil {
		t.Cleanup(func() { require.NoError(t, client.Close()) })
	}
	return client, err
}

// DialContext implements the client's Dialer over a pipe in memory.
func (s *stub) DialContext(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _ = s.server.ServeConn(context.Background(), server) }() // ends with the client's side
	return client, nil
}

// Login implements tds.Handler.
func (s *stub) Login(context.Context, *tds.Conn, *tds.Login) (*tds.LoginAnswer, tds.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins++
	return &tds.LoginAnswer{}, s, nil
}

// Close implements tds.Session.
func (s *stub) Close() error { return nil }

// Handle implements tds.Session.
func (s *stub) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	statement, args := readRequest(req)
	s.mu.Lock()
	s.statements = append(s.statements, statement)
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(statement, args); err != nil {
			return err
		}
	}
	return s.answer(ctx, statement, args, w)
}

func readRequest(req *tds.Request) (string, map[string]any) {
	switch body := req.Body.(type) {
	case *tds.SQLBatch:
		return body.Text, nil
	case *tds.RPC:
		args := map[string]any{}
		for _, p := range body.Calls[0].Params[2:] {
			args[strings.TrimPrefix(p.Name, "@")] = p.Value
		}
		return body.Calls[0].Params[0].Value.(string), args
	}
	return "", nil
}

func lsnOf(v any) mssqlcdc.LSN {
	l, err := mssqlcdc.LSNFromBytes(v.([]byte))
	if err != nil {
		panic(err)
	}
	return l
}

func (s *stub) answer(ctx context.Context, statement string, args map[string]any, w *tds.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := func(part string) bool { return strings.Contains(statement, part) }
	switch {
	case has("SET LOCK_TIMEOUT"):
		return nil
	case has("@@SERVERNAME"):
		return rowset(w, []string{"name", "db", "login", "version", "edition", "updateability"}, []any{"STUB", "lab", "reader", s.version, 3, s.updateability})
	case has("CURRENT_TIMEZONE_ID"):
		return rowset(w, []string{"zone"}, []any{s.zone})
	case has("fn_cdc_get_max_lsn"):
		return s.answerHead(w, has("TZOFFSET"))
	case has("TZOFFSET"):
		return rowset(w, []string{"minutes"}, []any{s.offset})
	case has("DECLARE @low"):
		return s.answerLow(w, args["ci"].(string), true)
	case has("UNION ALL") || has("EXISTS (SELECT 1"):
		return s.answerMoved(statement, args, w)
	case has("fn_cdc_get_min_lsn"):
		return s.answerLow(w, args["ci"].(string), false)
	case has("dm_exec_session_wait_stats"):
		return rowset(w, []string{"waits"}, []any{7})
	case has("LAG(tran_end_time)"):
		return s.answerStepBack(args, w)
	case has("COUNT(*) AS n"):
		return s.answerBound(args, w)
	case has("FROM cdc.lsn_time_mapping WHERE start_lsn"):
		return s.answerTime(has("<= @l"), lsnOf(args["l"]), w)
	case has("LEFT JOIN cdc.lsn_time_mapping"):
		s.mu.Unlock()
		defer s.mu.Lock()
		return s.answerRead(ctx, statement, args, w)
	case has("sp_cdc_get_captured_columns"):
		return rowset(w, []string{"column_name", "column_id", "data_type", "character_maximum_length", "column_ordinal"},
			[]any{"id", 1, "bigint", nil, 1}, []any{"note", 2, "nvarchar", 100, 2})
	case has("FROM sys.columns"):
		return s.answerColumns(args["object"].(string), w)
	case has("sp_cdc_help_change_data_capture"):
		return s.answerHelp(w)
	case has("SELECT 1"):
		return rowset(w, []string{"one"}, []any{1})
	case has("is_cdc_enabled"):
		return rowset(w, []string{"change_table", "may_read", "enabled"}, []any{nil, 1, true})
	}
	return &tds.ServerError{Number: 102, Class: 15, State: 1, Text: "the stub does not know: " + statement}
}

// rowset writes one row, whose Go types decide the columns' types.
func rowset(w *tds.Writer, names []string, rows ...[]any) error {
	columns := make([]tds.Column, len(names))
	for i, name := range names {
		columns[i] = tds.Column{Name: name, Flags: tds.FlagNullable, Type: tds.TypeNVarChar(200, tds.CollationDefault())}
		for _, row := range rows {
			switch v := row[i].(type) {
			case int, int64:
				columns[i].Type = tds.TypeInt(8)
			case bool:
				columns[i].Type = tds.TypeBit()
			case time.Time:
				columns[i].Type = tds.TypeDateTime(8)
			case mssqlcdc.LSN:
				columns[i].Type = tds.TypeBinary(10)
				row[i] = v[:]
			}
		}
	}
	w.Columns(columns)
	for _, row := range rows {
		if err := w.WriteRow(row...); err != nil {
			return err
		}
	}
	w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: uint64(len(rows))})
	return nil
}

func (s *stub) head() entry {
	if len(s.mapping) == 0 {
		return entry{}
	}
	return s.mapping[len(s.mapping)-1]
}

func (s *stub) answerHead(w *tds.Writer, offset bool) error {
	names, row := []string{"lsn", "wall"}, []any{nil, nil}
	if h := s.head(); !h.lsn.IsZero() {
		row = []any{h.lsn, h.wall}
	}
	if offset {
		names, row = append(names, "minutes"), append(row, s.offset)
	}
	return rowset(w, names, row)
}

func (s *stub) answerLow(w *tds.Writer, instance string, waits bool) error {
	var low mssqlcdc.LSN
	if table := s.tables[instance]; table != nil {
		low = table.min
	}
	if !waits {
		return rowset(w, []string{"lsn"}, []any{low})
	}
	return rowset(w, []string{"lsn", "wall", "waits"}, []any{low, s.timeFrom(low), 7})
}

// timeFrom is the time of the first commit at or after an LSN.
func (s *stub) timeFrom(l mssqlcdc.LSN) any {
	for _, e := range s.mapping {
		if !e.lsn.Less(l) {
			return e.wall
		}
	}
	return nil
}

func (s *stub) answerMoved(statement string, args map[string]any, w *tds.Writer) error {
	var moved, lows [][]any
	names := regexp.MustCompile(`cdc\.\[(\w+)_CT\]`).FindAllStringSubmatch(statement, -1)
	for i, name := range names {
		table := s.tables[name[1]]
		if table == nil {
			return &tds.ServerError{Number: 208, Class: 16, State: 1, Text: "Invalid object name"}
		}
		after, upto := lsnOf(args["a"+itoa(i)]), lsnOf(args["u"])
		found := slices.ContainsFunc(table.rows, func(c change) bool {
			return after.Less(c.pos.StartLSN) && !upto.Less(c.pos.StartLSN)
		})
		if found {
			moved = append(moved, []any{i})
		}
		lows = append(lows, []any{i, table.min, s.timeFrom(table.min)})
	}
	slices.Reverse(moved) // no order was asked for
	if err := rowset(w, []string{"i"}, moved...); err != nil {
		return err
	}
	return rowset(w, []string{"i", "lsn", "wall"}, lows...)
}

func itoa(n int) string { return string(rune('0' + n)) }

func (s *stub) answerStepBack(args map[string]any, w *tds.Writer) error {
	from, to := wallArg(args["from"]), wallArg(args["to"])
	var before *entry
	for _, e := range s.mapping {
		if e.wall.Before(from) || !e.wall.Before(to) {
			continue
		}
		if before != nil && before.wall.Sub(e.wall) > time.Minute {
			return rowset(w, []string{"lsn"}, []any{e.lsn})
		}
		before = &e
	}
	w.Columns([]tds.Column{{Name: "lsn", Type: tds.TypeBinary(10), Flags: tds.FlagNullable}})
	return nil
}

func wallArg(v any) time.Time {
	parsed, err := time.Parse("2006-01-02T15:04:05", v.(string))
	if err != nil {
		panic(err)
	}
	return parsed
}

func (s *stub) answerBound(args map[string]any, w *tds.Writer) error {
	from, to, limit := lsnOf(args["from"]), lsnOf(args["to"]), args["n"].(int64)
	var bound any
	n := int64(0)
	for _, e := range s.mapping {
		if !e.lsn.Less(from) && !to.Less(e.lsn) && n < limit {
			n++
			bound = e.lsn
		}
	}
	return rowset(w, []string{"lsn", "n"}, []any{bound, n})
}

func (s *stub) answerTime(atOrBefore bool, l mssqlcdc.LSN, w *tds.Writer) error {
	for _, e := range slices.Backward(s.mapping) {
		if e.lsn == l || atOrBefore && e.lsn.Less(l) {
			return rowset(w, []string{"lsn", "wall"}, []any{e.lsn, e.wall})
		}
	}
	w.Columns([]tds.Column{{Name: "lsn", Type: tds.TypeBinary(10)}, {Name: "wall", Type: tds.TypeDateTime(8)}})
	return nil
}

func (s *stub) answerHelp(w *tds.Writer) error {
	var rows [][]any
	for name, table := range s.tables {
		rows = append(rows, []any{"dbo", name, name, table.min, "pk", "[id]"})
	}
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[2].(string), b[2].(string)) })
	return rowset(w, []string{"source_schema", "source_table", "capture_instance", "start_lsn", "index_name", "index_column_list"}, rows...)
}

func (s *stub) answerColumns(object string, w *tds.Writer) error {
	rows := [][]any{{1, "id", false}, {2, "note", false}}
	if m := regexp.MustCompile(`cdc\.\[(\w+)_CT\]`).FindStringSubmatch(object); m != nil && !s.tables[m[1]].oldOne {
		rows = append(rows, []any{8, "__$command_id", false})
	}
	return rowset(w, []string{"column_id", "name", "is_computed"}, rows...)
}

func (s *stub) answerRead(ctx context.Context, statement string, args map[string]any, w *tds.Writer) error {
	s.mu.Lock()
	table := s.tables[regexp.MustCompile(`FROM cdc\.\[(\w+)_CT\]`).FindStringSubmatch(statement)[1]]
	var rows []change
	if table != nil {
		rows = slices.Clone(table.rows)
	}
	mapping, hook := slices.Clone(s.mapping), s.row
	s.mu.Unlock()
	if table == nil {
		return &tds.ServerError{Number: 208, Class: 16, State: 1, Text: "Invalid object name"}
	}
	binary10, text := tds.TypeBinary(10), tds.TypeNVarChar(100, tds.CollationDefault())
	columns := []tds.Column{{Type: binary10}, {Type: binary10}, {Type: tds.TypeInt(4)}}
	if !table.oldOne {
		columns = append(columns, tds.Column{Type: tds.TypeInt(4), Flags: tds.FlagNullable})
	}
	columns = append(columns, tds.Column{Type: tds.TypeDateTime(8), Flags: tds.FlagNullable},
		tds.Column{Type: tds.TypeInt(8), Flags: tds.FlagNullable}, tds.Column{Type: text, Flags: tds.FlagNullable})
	w.Columns(columns)
	from, to := lsnOf(args["from"]), lsnOf(args["to"])
	n := 0
	for _, c := range rows {
		if c.pos.StartLSN.Less(from) || to.Less(c.pos.StartLSN) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		values := []any{c.pos.StartLSN[:], c.pos.SeqVal[:], int64(c.pos.Operation)}
		if !table.oldOne {
			values = append(values, int64(c.pos.CommandID))
		}
		if err := w.WriteRow(append(values, wallOf(mapping, c.pos.StartLSN), c.id, c.note)...); err != nil {
			return err
		}
		if n++; hook != nil {
			if err := hook(n, c.pos.StartLSN); err != nil {
				return err
			}
		}
	}
	w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: uint64(n)})
	return nil
}

func wallOf(mapping []entry, l mssqlcdc.LSN) any {
	i, found := slices.BinarySearchFunc(mapping, l, func(e entry, l mssqlcdc.LSN) int { return e.lsn.Compare(l) })
	if !found {
		return nil
	}
	return mapping[i].wall
}
