package sqlserversim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// session is one client: its place in the server, its transaction and its options. It is the tds.Session of a connection and
// the tsql.Host of its statements. One goroutine at a time uses it, except for the fields of sessionInfo.
type session struct {
	srv        *Server
	conn       *tds.Conn // nil for sessions in process
	connection int       // number of the connection, from 1
	spid       int
	login      string
	sysadmin   bool
	sql        *tsql.Session
	info       sessionInfo

	db     *database
	home   *database // of the login; a reset goes back there
	user   string    // in db
	rights rights    // in db, as of the statement's start

	// what a reset puts back
	isolation   engine.Isolation
	lockTimeout time.Duration // engine.NoLockTimeout, 0 to fail at once, or more
	language    string
	textSize    int64

	tran      transaction
	statement statementState

	writer   *tds.Writer // of the request being answered
	sink     *wireSink
	text     string           // of the request, for the log of refused statements
	prepared map[int32]string // handle to text, for the log and for faults
	utf8     bool             // the client said at its login that it reads UTF-8
}

// sessionInfo is what sys.dm_exec_sessions shows of a session, read by others.
type sessionInfo struct {
	loginTime          time.Time
	host, program, lib string
	pid                uint32
	originalLogin      string
	database           atomic.Int64
	running            atomic.Bool
	lastStart, lastEnd atomic.Int64 // unix nanoseconds
	rows               atomic.Int64
	isolation          atomic.Int64 // as sys.dm_exec_sessions numbers it
	transactions       atomic.Int64
	killed             atomic.Bool
}

// statementState lasts for one statement.
type statementState struct {
	active bool
	autos  map[*database]*engine.Tx
	views  map[*database]*engine.View
	now    time.Time
}

// newSession makes a session on a database for a login that has been checked.
func (s *Server) newSession(login string, db *database) *session {
	ses := &session{
		srv: s, login: login, sysadmin: s.security.isSysadmin(login), db: db, home: db, language: "us_english",
		lockTimeout: engine.NoLockTimeout, textSize: 4096, prepared: map[int32]string{},
	}
	ses.info.loginTime = s.eng.Now()
	ses.info.originalLogin = login
	ses.user = s.security.userOf(db.name, login)
	ses.info.database.Store(int64(db.id))
	ses.info.isolation.Store(int64(isolationNumber(engine.ReadCommitted)))
	ses.refreshRights()
	ses.sql = tsql.NewSession(ses)
	return ses
}

// refreshRights reads the user's permissions again: they may have changed since the last statement.
func (s *session) refreshRights() { s.rights = s.srv.security.rightsOf(s.db.name, s.login, s.user) }

// rightsIn gives the rights in any database, and false when the login may not enter it.
func (s *session) rightsIn(db *database) (rights, bool) {
	if db == s.db {
		return s.rights, true
	}
	user := s.srv.security.userOf(db.name, s.login)
	if user == "" {
		return rights{}, false
	}
	return s.srv.security.rightsOf(db.name, s.login, user), true
}

// Handle answers one request.
func (s *session) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	s.writer = w
	s.info.running.Store(true)
	s.info.lastStart.Store(s.srv.eng.Now().UnixNano())
	defer func() {
		s.writer, s.sink, s.text = nil, nil, ""
		s.info.running.Store(false)
		s.info.lastEnd.Store(s.srv.eng.Now().UnixNano())
	}()
	switch req.Reset {
	case tds.ResetConnection:
		s.reset(ctx, false)
	case tds.ResetKeepTransaction:
		s.reset(ctx, true)
	}
	err := s.dispatch(ctx, req, w)
	if errors.Is(context.Cause(ctx), tds.ErrAttention) {
		s.srv.log.attentions.Add(1)
		s.endStatement(ctx, tds.ErrAttention)
		return nil
	}
	return err
}

func (s *session) dispatch(ctx context.Context, req *tds.Request, w *tds.Writer) error {
	switch body := req.Body.(type) {
	case *tds.SQLBatch:
		return s.answer(ctx, body.Text, func(sink *wireSink) error {
			return s.sql.Run(ctx, body.Text, nil, sink)
		})
	case *tds.RPC:
		for i := range body.Calls {
			if err := s.call(ctx, &body.Calls[i], i < len(body.Calls)-1); err != nil {
				return err
			}
		}
		return nil
	case *tds.Transaction:
		return s.transactionRequest(ctx, body)
	case *tds.BulkLoad:
		return &tds.ServerError{Number: 4002, Class: 16, State: 1, Text: "The simulator does not take bulk loads.", Line: 1}
	case *tds.Invalid:
		return &tds.ServerError{Number: 4002, Class: 16, State: 1, Text: fmt.Sprintf("The incoming tabular data stream (TDS) protocol stream is incorrect. The simulator says: %v", body.Err), Line: 1}
	}
	return fmt.Errorf("answering a request of type %T: not known", req.Body)
}

// answer logs a statement, arms a fault on it if there is one, runs it and sends what Run could not.
func (s *session) answer(ctx context.Context, text string, run func(*wireSink) error) error {
	s.text = text
	s.srv.log.add(text)
	sink := newWireSink(s, s.writer)
	s.sink = sink
	if !isControl(text) {
		sink.arm(s.srv.faults.match(AtStatement, s.connection, s.login, text))
	}
	err := sink.start(ctx)
	if err == nil {
		err = run(sink)
	}
	if err == nil {
		err = sink.finish(ctx)
	}
	sink.disarm()
	return s.outcome(ctx, err)
}

// outcome turns what ended a request into what package tds wants: nil, a ServerError, or an error that ends the connection.
func (s *session) outcome(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, errFatal) || errors.Is(err, errInjected) || s.writer.Err() != nil {
		return s.writer.Err()
	}
	err = clientError(err, s.spid)
	if e := serverError(err); e != nil {
		s.srv.log.errs.Add(1)
		return e
	}
	return &tds.ServerError{Number: 50000, Class: 16, State: 255, Text: "Simulator: " + err.Error(), Line: 1}
}

// reset puts the session back to what it was after login, as sp_reset_connection does: isolation returns to READ COMMITTED, the
// database to the one of the login.
func (s *session) reset(ctx context.Context, keepTransaction bool) {
	if !keepTransaction && s.tran.count > 0 {
		_ = s.rollbackAll(ctx, true)
	}
	s.isolation = engine.ReadCommitted
	s.info.isolation.Store(int64(isolationNumber(s.isolation)))
	s.lockTimeout = engine.NoLockTimeout
	s.language, s.textSize = "us_english", 4096
	s.prepared = map[int32]string{}
	if s.db != s.home && s.srv.database(s.home.name) == s.home {
		_ = s.Use(ctx, s.home.name) // as after login, with its ENVCHANGE
	}
	s.sql.Reset()
}

// Close ends the session: what is open is rolled back.
func (s *session) Close() error {
	ctx := context.Background()
	s.endStatement(ctx, context.Canceled)
	if s.tran.count > 0 {
		_ = s.rollbackAll(ctx, false)
	}
	s.srv.forget(s)
	return nil
}

// Now is the server's time; it stands still during one statement, as GETDATE() does.
func (s *session) Now() time.Time {
	if s.statement.active {
		return s.statement.now
	}
	return s.srv.eng.Now()
}

// Collation is the current database's.
func (s *session) Collation() string { return s.db.collation }

// view is what CDC holds in a database, the same for a whole statement, and for a whole SNAPSHOT transaction.
func (s *session) view(db *database) *engine.View {
	if s.tran.count > 0 && s.isolation == engine.Snapshot {
		if v, ok := s.tran.views[db]; ok {
			return v
		}
		v := db.cdc()
		s.tran.views[db] = v
		return v
	}
	if !s.statement.active {
		return s.newestView(db)
	}
	v, ok := s.statement.views[db]
	if !ok {
		v = s.newestView(db)
		s.statement.views[db] = v
	}
	return v
}

// newestView shows what the session's own transaction has enabled and disabled, too.
func (s *session) newestView(db *database) *engine.View {
	if tx, ok := s.tran.txs[db]; ok {
		return tx.CDC()
	}
	return db.cdc()
}

// Variable gives the global variables that belong to the server.
func (s *session) Variable(name string) (sqltype.Value, sqltype.Type, bool) {
	text := func(v string, n int) (sqltype.Value, sqltype.Type, bool) {
		return sqltype.NVarChar(v), sqltype.NVarCharType(n), true
	}
	number := func(v int64, k sqltype.Kind) (sqltype.Value, sqltype.Type, bool) {
		return sqltype.Integer(k, v), sqltype.TypeOf(k), true
	}
	switch fold(name) {
	case "@@version":
		return text(s.srv.profile.versionText(), 300)
	case "@@servername":
		return text(s.srv.cfg.serverName, 128)
	case "@@servicename":
		return text("MSSQLSERVER", 128)
	case "@@language":
		return text(s.language, 128)
	case "@@langid":
		return number(0, sqltype.KindSmallInt)
	case "@@spid":
		return number(int64(s.spid), sqltype.KindSmallInt)
	case "@@lock_timeout":
		return number(s.lockTimeoutMillis(), sqltype.KindInt)
	case "@@max_connections":
		return number(32767, sqltype.KindInt)
	case "@@max_precision":
		return number(38, sqltype.KindTinyInt)
	case "@@textsize":
		return number(s.textSize, sqltype.KindInt)
	case "@@microsoftversion":
		return number(int64(s.srv.profile.major)<<24|int64(s.srv.profile.build), sqltype.KindInt)
	case "@@connections":
		return number(s.srv.log.connections.Load(), sqltype.KindInt)
	case "@@dbts":
		return sqltype.VarBinary(binary.BigEndian.AppendUint64(nil, s.db.eng.RowVersion())), sqltype.VarBinaryType(8), true
	case "@@cursor_rows", "@@cpu_busy", "@@io_busy", "@@idle", "@@pack_errors", "@@total_errors":
		return number(0, sqltype.KindInt)
	}
	return sqltype.Null(), sqltype.Type{}, false
}

func (s *session) lockTimeoutMillis() int64 {
	if s.lockTimeout < 0 {
		return -1
	}
	return s.lockTimeout.Milliseconds()
}
