package sqlserversim

import (
	"context"
	"errors"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
)

// transaction is the explicit transaction of a session: one engine transaction in each database it has touched.
type transaction struct {
	count      int // @@TRANCOUNT
	name       string
	descriptor uint64
	doomed     bool
	txs        map[*database]*engine.Tx
	views      map[*database]*engine.View // of a SNAPSHOT transaction
	savepoints []savepoint
	atCommit   []func()
}

// savepoint remembers a mark in every engine transaction that was open.
type savepoint struct {
	name     string
	marks    map[*database]engine.Mark
	atCommit int
}

// Begin starts a transaction, or adds a level to it.
func (s *session) Begin(_ context.Context, name string) error {
	s.tran.count++
	if s.tran.count > 1 {
		return nil
	}
	s.tran = transaction{
		count: 1, name: name, descriptor: s.srv.nextDescriptor(), txs: map[*database]*engine.Tx{},
		views: map[*database]*engine.View{},
	}
	s.info.transactions.Store(1)
	if s.writer != nil {
		s.writer.EnvBegin(s.tran.descriptor)
	}
	return nil
}

// Commit ends a level, and with the last one the transaction.
func (s *session) Commit(ctx context.Context, _ string) error {
	switch {
	case s.tran.count == 0:
		return message(3902)
	case s.tran.doomed:
		return message(3930)
	case s.tran.count > 1:
		s.tran.count--
		return nil
	}
	var failed error
	for _, tx := range s.tran.txs {
		_, err := tx.Commit()
		failed = errors.Join(failed, err)
	}
	descriptor, then := s.tran.descriptor, s.tran.atCommit
	s.tran = transaction{}
	s.info.transactions.Store(0)
	if s.writer != nil {
		s.writer.EnvCommit(descriptor)
	}
	if failed == nil {
		for _, f := range then {
			f()
		}
	}
	return clientError(failed, s.spid)
}

// atCommit does what the engine cannot take back, when the open transaction commits; without one at once.
func (s *session) atCommit(f func()) {
	if s.tran.count == 0 {
		f()
		return
	}
	s.tran.atCommit = append(s.tran.atCommit, f)
}

// Rollback ends the transaction, or goes back to a savepoint.
func (s *session) Rollback(ctx context.Context, name string) error {
	if s.tran.count == 0 {
		return message(3903)
	}
	if name == "" || strings.EqualFold(name, s.tran.name) {
		return s.rollbackAll(ctx, false)
	}
	for i := len(s.tran.savepoints) - 1; i >= 0; i-- {
		p := s.tran.savepoints[i]
		if !strings.EqualFold(p.name, name) {
			continue
		}
		s.tran.savepoints = s.tran.savepoints[:i+1]
		s.tran.atCommit = s.tran.atCommit[:p.atCommit]
		for db, tx := range s.tran.txs {
			mark := p.marks[db] // the zero mark is the transaction's start
			if err := tx.RollbackTo(mark); err != nil {
				return clientError(err, s.spid)
			}
		}
		return nil
	}
	return message(6401, name)
}

// Save sets a savepoint.
func (s *session) Save(_ context.Context, name string) error {
	if s.tran.count == 0 {
		return message(628)
	}
	p := savepoint{name: name, marks: map[*database]engine.Mark{}, atCommit: len(s.tran.atCommit)}
	for db, tx := range s.tran.txs {
		p.marks[db] = tx.Mark()
	}
	s.tran.savepoints = append(s.tran.savepoints, p)
	return nil
}

// TranCount is @@TRANCOUNT.
func (s *session) TranCount() int { return s.tran.count }

// Doom makes the transaction uncommittable.
func (s *session) Doom() {
	if s.tran.count > 0 {
		s.tran.doomed = true
	}
}

// Doomed tells whether it is.
func (s *session) Doomed() bool { return s.tran.doomed }

// rollbackAll rolls everything back. A reset is silent: the client is told nothing of the transaction.
func (s *session) rollbackAll(_ context.Context, silent bool) error {
	for _, tx := range s.tran.txs {
		tx.Rollback()
	}
	descriptor := s.tran.descriptor
	s.tran = transaction{}
	s.info.transactions.Store(0)
	if s.writer != nil && !silent {
		s.writer.EnvRollback(descriptor)
	}
	return nil
}

// StatementStart opens a statement: one point in time, one state of CDC, and a transaction of its own where there is none.
func (s *session) StatementStart(_ context.Context, _ string, _ ast.Statement) error {
	s.openStatement()
	return nil
}

func (s *session) openStatement() {
	s.statement = statementState{
		active: true, now: s.srv.eng.Now(), autos: map[*database]*engine.Tx{}, views: map[*database]*engine.View{},
	}
	s.refreshRights()
}

// StatementEnd closes the statement.
func (s *session) StatementEnd(ctx context.Context, err error) { s.endStatement(ctx, err) }

// endStatement commits the statement's own transactions, or rolls them back after an error. It does nothing when none is open.
func (s *session) endStatement(ctx context.Context, err error) {
	if !s.statement.active {
		return
	}
	autos := s.statement.autos
	s.statement = statementState{}
	for _, tx := range autos {
		if err != nil {
			tx.Rollback()
			continue
		}
		_, _ = tx.Commit()
	}
	s.lost(ctx, err)
}

// lost takes note of errors that end the whole transaction: a deadlock, an update conflict, a killed session.
func (s *session) lost(ctx context.Context, err error) {
	if s.tran.count == 0 || err == nil {
		return
	}
	switch numberOf(err) {
	case engine.ErrDeadlock, engine.ErrSnapshotConflict, engine.ErrSnapshotDDL, engine.ErrSessionKilled:
		_ = s.rollbackAll(ctx, false)
	}
}

// tx is the engine transaction for work in a database: that of the open transaction, else the statement's.
func (s *session) tx(db *database) *engine.Tx {
	if s.tran.count > 0 {
		tx, ok := s.tran.txs[db]
		if !ok {
			tx = db.eng.Begin(s.txOptions())
			s.tran.txs[db] = tx
		}
		tx.SetLockTimeout(s.lockTimeout)
		return tx
	}
	tx, ok := s.statement.autos[db]
	if !ok {
		tx = db.eng.Begin(s.txOptions())
		if s.statement.autos == nil {
			s.statement.autos = map[*database]*engine.Tx{}
		}
		s.statement.autos[db] = tx
	}
	return tx
}

// inTx runs f in the transaction for a database. Outside a statement it commits at once.
func (s *session) inTx(ctx context.Context, db *database, f func(*engine.Tx) error) error {
	if s.statement.active || s.tran.count > 0 {
		err := clientError(f(s.tx(db)), s.spid)
		s.lost(ctx, err)
		return err
	}
	tx := db.eng.Begin(s.txOptions())
	if err := f(tx); err != nil {
		tx.Rollback()
		return clientError(err, s.spid)
	}
	_, err := tx.Commit()
	return clientError(err, s.spid)
}

func (s *session) txOptions() engine.TxOptions {
	return engine.TxOptions{Isolation: s.isolation, LockTimeout: s.lockTimeout, FailAtFirstLock: s.lockTimeout == 0}
}

// transactionRequest answers a transaction manager request.
func (s *session) transactionRequest(ctx context.Context, t *tds.Transaction) error {
	text := strings.ToUpper(t.Kind.String())
	return s.answer(ctx, text, func(*wireSink) error {
		switch t.Kind {
		case tds.TransactionBegin:
			return s.beginRequest(ctx, t.Isolation, t.Name)
		case tds.TransactionCommit, tds.TransactionRollback:
			err := s.endRequest(ctx, t)
			if err == nil && t.Begin {
				err = s.beginRequest(ctx, t.Isolation, t.BeginName)
			}
			return err
		case tds.TransactionSave:
			if err := s.Save(ctx, t.Name); err != nil {
				return err
			}
			s.writer.Done(tds.Done{})
			return nil
		}
		return &tds.ServerError{Number: 3970, Class: 16, State: 2, Line: 1,
			Text: "This operation conflicts with another pending operation on this transaction. The operation failed."}
	})
}

func (s *session) beginRequest(ctx context.Context, level tds.Isolation, name string) error {
	switch level {
	case tds.ReadUncommitted:
		s.isolation = engine.ReadUncommitted
	case tds.ReadCommitted:
		s.isolation = engine.ReadCommitted
	case tds.RepeatableRead:
		s.isolation = engine.RepeatableRead
	case tds.Serializable:
		s.isolation = engine.Serializable
	case tds.Snapshot:
		s.isolation = engine.Snapshot
	}
	s.info.isolation.Store(int64(isolationNumber(s.isolation)))
	if err := s.Begin(ctx, name); err != nil {
		return err
	}
	s.writer.Done(tds.Done{Command: tds.CommandBeginTM})
	return nil
}

func (s *session) endRequest(ctx context.Context, t *tds.Transaction) error {
	if t.Kind == tds.TransactionCommit {
		if err := s.Commit(ctx, t.Name); err != nil {
			return err
		}
		s.writer.Done(tds.Done{Command: tds.CommandCommit})
		return nil
	}
	if err := s.Rollback(ctx, t.Name); err != nil {
		return err
	}
	s.writer.Done(tds.Done{Command: tds.CommandRollback})
	return nil
}
