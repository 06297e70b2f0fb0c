package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Level is how serious a finding is.
type Level string

// The levels.
const (
	LevelOK      Level = "ok"
	LevelInfo    Level = "info"    // worth knowing, or not visible to the login
	LevelWarning Level = "warning" // works, but not as well as it could, or not for long
	LevelError   Level = "error"   // a pipeline over it would fail, now or soon
)

// Finding is the answer to one question about a source.
type Finding struct {
	Level  Level  `json:"level"`
	Check  string `json:"check"`  // what was asked: capture, retention, permissions …
	Object string `json:"object"` // what it is about: the database or a table
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"` // what to run or to configure
}

// What an ordinary login may not see is no fault of the source.
const needsRight = "not visible to this login, and not needed: "

// captureLate is how old the newest commit that capture has processed may be. On a quiet database it adds an entry about
// every five minutes.
const captureLate = 15 * time.Minute

// Examine looks at everything that a pipeline over these capture instances depends on, without more rights than one
// needs. What the login may not see is a finding of level info. Only errors of the connection end it.
func (c *Client) Examine(ctx context.Context, instances []mssqlcdc.CaptureInstance) ([]Finding, error) {
	e := &examination{client: c}
	for _, check := range []func(context.Context) error{e.server, e.capture, e.jobs, e.scans, e.isolation} {
		if err := check(ctx); err != nil {
			return e.findings, err
		}
	}
	for _, instance := range instances {
		if err := e.instance(ctx, instance); err != nil {
			return e.findings, err
		}
	}
	return e.findings, nil
}

// examination collects findings.
type examination struct {
	client   *Client
	findings []Finding
	head     Head
}

func (e *examination) add(level Level, check, object, fix, format string, args ...any) {
	e.findings = append(e.findings, Finding{Level: level, Check: check, Object: object, Fix: fix, Text: fmt.Sprintf(format, args...)})
}

// lost tells whether an error is about the connection, which ends everything.
func lost(err error) bool {
	class := Classify(err)
	return class == Transient && !errors.Is(err, ErrNotYetCaptured) || class == Canceled
}

func (e *examination) server(context.Context) error {
	s := e.client.server
	e.add(LevelOK, "server", s.Database, "", "SQL Server %s (%s), engine edition %d", s.Version, s.Name, s.EngineEdition)
	if s.FixedOffset {
		e.add(LevelWarning, "time zone", s.Database, "set source_time_zone to the Windows name of the server's zone",
			"the server tells only its present offset %s: commit times around a change of its clock are not exact", s.Zone)
		return nil
	}
	e.add(LevelOK, "time zone", s.Database, "", "commit times are converted from %s", s.Zone)
	return nil
}

// capture looks at how far the capture job has come.
func (e *examination) capture(ctx context.Context) error {
	database := e.client.server.Database
	head, err := e.client.MaxLSN(ctx)
	if lost(err) {
		return err
	}
	e.head = head
	fix := "check that SQL Server Agent runs and that the capture job is started: EXEC sys.sp_cdc_start_job @job_type = N'capture'"
	switch {
	case err != nil:
		e.add(LevelError, "capture", database, fix, "max_lsn cannot be read: %v", err)
	case head.LSN.IsZero():
		e.add(LevelError, "capture", database, fix, "capture has never processed a commit")
	default:
		age := head.SeenTime.Sub(head.Time).Round(time.Second)
		level, remedy := LevelOK, ""
		if age > captureLate {
			level, remedy = LevelWarning, fix
		}
		e.add(level, "capture", database, remedy, "the newest commit that capture has processed is %s old (max_lsn %s)", age, head.LSN)
	}
	return nil
}

// jobs asks for the retention, which only the owner of the database may see.
func (e *examination) jobs(ctx context.Context) error {
	database := e.client.server.Database
	var rows []record
	err := e.client.ask(ctx, "asking for the jobs of CDC", func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, "EXEC sys.sp_cdc_help_jobs")
		return err
	})
	if lost(err) {
		return err
	}
	if err != nil {
		e.add(LevelInfo, "retention", database, "", needsRight+"the retention (members of db_owner see it)")
		return nil
	}
	cleanup, capture := false, false
	for _, row := range rows {
		switch row.text("job_type") {
		case "capture":
			capture = true
		case "cleanup":
			cleanup = true
			minutes, _ := row.number("retention")
			e.add(retentionLevel(minutes), "retention", database, retentionFix(minutes), "changes are kept for %s", time.Duration(minutes)*time.Minute)
		}
	}
	if !capture && e.client.server.EngineEdition != editionAzureDatabase {
		e.add(LevelError, "capture job", database, "EXEC sys.sp_cdc_add_job @job_type = N'capture'", "there is no capture job")
	}
	if !cleanup && e.client.server.EngineEdition != editionAzureDatabase {
		e.add(LevelWarning, "cleanup job", database, "EXEC sys.sp_cdc_add_job @job_type = N'cleanup'", "there is no clean-up job: the change tables grow for ever")
	}
	return nil
}

// A pipeline that stands still for a weekend must find its changes on Monday.
const shortRetention = 2 * 24 * 60

func retentionLevel(minutes int64) Level {
	if minutes < shortRetention {
		return LevelWarning
	}
	return LevelOK
}

func retentionFix(minutes int64) string {
	if minutes < shortRetention {
		return "keep them longer than the pipeline may stand still: EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080"
	}
	return ""
}

// scans looks at the newest scan of the log and at the errors of capture.
func (e *examination) scans(ctx context.Context) error {
	database := e.client.server.Database
	var rows []record
	err := e.client.ask(ctx, "asking for the errors of capture", func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, "SELECT TOP (1) entry_time, error_number, error_message FROM sys.dm_cdc_errors WHERE error_number <> 22859 ORDER BY entry_time DESC")
		return err
	})
	switch {
	case lost(err):
		return err
	case err != nil:
		e.add(LevelInfo, "capture errors", database, e.client.stateGrant(), needsRight+"the errors of capture")
	case len(rows) > 0:
		number, _ := rows[0].number("error_number")
		at, _ := rows[0].wall("entry_time")
		e.add(LevelWarning, "capture errors", database, "SELECT * FROM sys.dm_cdc_errors", "the newest is Msg %d at %s (server's clock): %s", number, at.Format(time.DateTime), rows[0].text("error_message"))
	default:
		e.add(LevelOK, "capture errors", database, "", "none since the server started")
	}
	return e.scan(ctx)
}

// Capture follows the log within seconds; a backlog of minutes is a scan that cannot keep up, or one that hangs.
const captureSlow = 5 * time.Minute

// scan looks at the newest scan of the log.
func (e *examination) scan(ctx context.Context) error {
	database := e.client.server.Database
	health, err := e.client.Health(ctx)
	switch {
	case lost(err):
		return err
	case err != nil: // said already
	case !health.Scanned:
		e.add(LevelWarning, "capture scan", database, "EXEC sys.sp_cdc_start_job @job_type = N'capture'", "capture has not scanned the log since the server started")
	case health.Failed > 0:
		e.add(LevelWarning, "capture scan", database, "SELECT * FROM sys.dm_cdc_errors", "the newest scan of the log had %d errors", health.Failed)
	case health.Latency > captureSlow:
		e.add(LevelWarning, "capture scan", database, "EXEC sys.sp_cdc_change_job @job_type = N'capture', @maxtrans = 5000, @maxscans = 100", "capture is %s behind the log", health.Latency)
	default:
		e.add(LevelOK, "capture scan", database, "", "capture is %s behind the log, its newest scan ended %s ago", health.Latency, health.Age)
	}
	return nil
}

func (e *examination) isolation(ctx context.Context) error {
	database := e.client.server.Database
	var row record
	err := e.client.ask(ctx, "asking for isolation options", func(ctx context.Context, conn *sql.Conn) (err error) {
		row, err = one(ctx, conn, "SELECT snapshot_isolation_state AS allowed, is_read_committed_snapshot_on AS rcsi, collation_name AS collation FROM sys.databases WHERE name = DB_NAME()")
		return err
	})
	if lost(err) {
		return err
	}
	if err != nil {
		e.add(LevelInfo, "isolation", database, "", "its options cannot be read: %v", err)
		return nil
	}
	allowed, _ := row.number("allowed")
	rcsi, _ := row.number("rcsi")
	text := "snapshot isolation is off"
	if allowed == 1 {
		text = "snapshot isolation is allowed"
	}
	if rcsi == 1 {
		text += ", READ COMMITTED uses row versions"
	}
	e.add(LevelOK, "isolation", database, "", "%s, collation %s", text, row.text("collation"))
	return nil
}
