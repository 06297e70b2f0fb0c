package sqlserversim

import (
	"context"
	"strconv"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
)

// SetOption takes note of the options that belong to the server: isolation, lock timeout, language, text size. The evaluator keeps the
// others, or they change nothing here (ARITHABORT, DEADLOCK_PRIORITY, STATISTICS …).
func (s *session) SetOption(_ context.Context, opt tsql.SetOption) error {
	switch opt.Name {
	case "TRANSACTION ISOLATION LEVEL":
		return s.setIsolation(opt.Value)
	case "LOCK_TIMEOUT":
		ms, err := strconv.ParseInt(opt.Value, 10, 32)
		if err != nil {
			return message(102, opt.Value)
		}
		s.lockTimeout = engine.NoLockTimeout
		if ms >= 0 {
			s.lockTimeout = time.Duration(ms) * time.Millisecond
		}
	case "TEXTSIZE":
		if n, err := strconv.ParseInt(opt.Value, 10, 64); err == nil {
			s.textSize = n
		}
	case "LANGUAGE":
		old := s.language
		s.language = opt.Value
		if s.writer != nil {
			s.writer.EnvLanguage(opt.Value, old)
		}
	}
	return nil
}

// setIsolation changes the level. Inside a transaction that began under another level SNAPSHOT is refused once data is read: 3951.
func (s *session) setIsolation(level string) error {
	was := s.isolation
	switch level {
	case "READ UNCOMMITTED":
		s.isolation = engine.ReadUncommitted
	case "READ COMMITTED":
		s.isolation = engine.ReadCommitted
	case "REPEATABLE READ":
		s.isolation = engine.RepeatableRead
	case "SERIALIZABLE":
		s.isolation = engine.Serializable
	case "SNAPSHOT":
		if s.tran.count > 0 && was != engine.Snapshot {
			return message(3951, s.db.name)
		}
		s.isolation = engine.Snapshot
	}
	s.info.isolation.Store(int64(isolationNumber(s.isolation)))
	for _, tx := range s.tran.txs {
		tx.SetIsolation(s.isolation)
	}
	return nil
}
