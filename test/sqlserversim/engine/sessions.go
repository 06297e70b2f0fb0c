package engine

import (
	"slices"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// ScanSession is a row of sys.dm_cdc_log_scan_sessions, except session 0, which the layer above sums up. Times are on the
// server's wall clock. An empty scan adds to EmptyScanCount of the newest row instead of making one [D].
type ScanSession struct {
	SessionID          int32
	StartTime, EndTime time.Time
	Duration           time.Duration
	Phase              string // "Done"
	ErrorCount         int32
	StartLSN, EndLSN   LSN
	CurrentLSN         LSN
	TranCount          int64
	LastCommitLSN      LSN
	LastCommitTime     time.Time
	LogRecordCount     int64
	SchemaChangeCount  int64
	CommandCount       int64
	FirstBeginCDCLSN   LSN
	LastCommitCDCLSN   LSN
	LastCommitCDCTime  time.Time
	Latency            time.Duration
	EmptyScanCount     int64
	FailedSessions     int64
}

// CaptureError is a row of sys.dm_cdc_errors.
type CaptureError struct {
	SessionID     int32
	EntryTime     time.Time
	Number        int32
	Message       string
	Err           error
	StartLSN      LSN
	BeginLSN      LSN
	SequenceValue LSN
}

const keptSessions = 32

// ScanSessions lists the newest scan sessions, oldest first. They are gone after a fail-over.
func (db *Database) ScanSessions() []ScanSession {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.captured.sessions)
}

// CaptureErrors lists the newest errors of the capture process, oldest first.
func (db *Database) CaptureErrors() []CaptureError {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.captured.errors)
}

// InjectCaptureError makes the next count scans fail with err: nothing becomes visible, the log stays, and the error is listed.
func (db *Database) InjectCaptureError(err error, count int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for range count {
		db.captured.inject = append(db.captured.inject, err)
	}
}

func (db *Database) injected() error {
	if len(db.captured.inject) == 0 {
		return nil
	}
	err := db.captured.inject[0]
	db.captured.inject = db.captured.inject[1:]
	return err
}

// noteError lists a failed scan; db.mu is held.
func (db *Database) noteError(err error, batch []*logTx) {
	s := &db.captured
	e := CaptureError{SessionID: s.sessionNo, EntryTime: db.server.Now(), Number: numberOf(err), Message: err.Error(), Err: err}
	if len(batch) > 0 {
		e.BeginLSN, e.StartLSN = batch[0].begin.lsn(), batch[0].commit.lsn()
	}
	s.errors = append(s.errors, e)
	s.errors = s.errors[max(0, len(s.errors)-keptSessions):]
	if n := len(s.sessions); n > 0 {
		s.sessions[n-1].FailedSessions++
	}
}

func numberOf(err error) int32 {
	if n := Number(err); n != 0 {
		return n
	}
	if e := sqlerr.Of(err); e != nil {
		return e.Number
	}
	return 22859
}

func (db *Database) noteEmptyScan(at time.Time) {
	s := &db.captured
	if len(s.sessions) == 0 {
		s.sessionNo++
		s.sessions = append(s.sessions, ScanSession{SessionID: s.sessionNo, StartTime: at, EndTime: at, Phase: "Done"})
	}
	s.sessions[len(s.sessions)-1].EmptyScanCount++
}

// noteScan lists a scan that read something; db.mu is held.
func (db *Database) noteScan(started time.Time, c *capture, batch []*logTx) {
	s := &db.captured
	now := db.server.Now()
	s.sessionNo++
	first, last := batch[0], batch[len(batch)-1]
	row := ScanSession{
		SessionID: s.sessionNo, StartTime: started, EndTime: now, Duration: now.Sub(started), Phase: "Done",
		StartLSN: first.commit.lsn(), EndLSN: last.commit.lsn(), CurrentLSN: last.commit.lsn(),
		LastCommitLSN: last.commit.lsn(), LastCommitTime: last.endTime,
		TranCount: int64(c.transactions), CommandCount: int64(c.commands), SchemaChangeCount: int64(len(c.ddl)),
	}
	for _, tx := range batch {
		row.LogRecordCount += int64(len(tx.records))
		if tx.marker {
			continue
		}
		if row.FirstBeginCDCLSN.IsZero() {
			row.FirstBeginCDCLSN = tx.begin.lsn()
		}
		row.LastCommitCDCLSN, row.LastCommitCDCTime = tx.commit.lsn(), tx.endTime
		row.Latency = now.Sub(tx.endTime)
	}
	s.sessions = append(s.sessions, row)
	s.sessions = s.sessions[max(0, len(s.sessions)-keptSessions):]
}

// convertColumn converts a value to the type of a column; a text that is too long is 2628 [D].
func convertColumn(v sqltype.Value, typ sqltype.Type, table, column string) (sqltype.Value, error) {
	out, err := sqltype.Store(v, typ)
	if err == nil {
		return out, nil
	}
	if sqlerr.IsNumber(err, 8152) {
		return sqltype.Value{}, fail(ErrTruncated, table, column, v.String())
	}
	return sqltype.Value{}, err
}

// sinceMinute is the part of a time below its minute.
func sinceMinute(t time.Time) time.Duration {
	return time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}
