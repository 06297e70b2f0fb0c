package sqlserversim

import (
	"context"
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// cdcDatabases are the user databases with CDC.
func (s *Server) cdcDatabases() []*database {
	var out []*database
	for _, db := range s.databases() {
		if !db.system && db.cdc().Enabled() {
			out = append(out, db)
		}
	}
	return out
}

// Capture reads the log of every database with CDC to its end, now: afterwards everything committed before the call is in the
// change tables. It waits for a scan that is going on.
func (s *Server) Capture(ctx context.Context) error {
	for _, db := range s.cdcDatabases() {
		for {
			res, err := db.eng.Scan(ctx, engine.ScanLimits{Wait: true})
			if err != nil {
				return fmt.Errorf("capturing database %s: %w", db.name, clientError(err, 0))
			}
			if res.Exhausted {
				break
			}
		}
	}
	return nil
}

// Idle captures what is in the log and adds an idle entry to the LSN time mapping of every database with CDC, as the capture job
// does about every five minutes of quiet.
func (s *Server) Idle(ctx context.Context) error {
	for _, db := range s.cdcDatabases() {
		if _, err := db.eng.Idle(ctx); err != nil {
			return fmt.Errorf("adding an idle entry in database %s: %w", db.name, clientError(err, 0))
		}
	}
	return nil
}

// Cleanup runs the clean-up job of every database with CDC: rows older than the retention go, by the mapping's times.
func (s *Server) Cleanup(ctx context.Context) error {
	for _, db := range s.cdcDatabases() {
		if _, err := db.eng.Cleanup(ctx); err != nil {
			return fmt.Errorf("cleaning up database %s: %w", db.name, clientError(err, 0))
		}
	}
	return nil
}

// CleanupBelow raises an instance's low watermark to a mark, which must be in the mapping, and deletes below it: what
// sys.sp_cdc_cleanup_change_table does. The zero LSN means max_lsn: everything but the newest commit goes. The database is the
// default one.
func (s *Server) CleanupBelow(ctx context.Context, instance string, mark engine.LSN) error {
	return cleanupBelow(ctx, s.DefaultDB(), instance, mark)
}

func cleanupBelow(ctx context.Context, db *engine.Database, instance string, mark engine.LSN) error {
	if mark.IsZero() {
		mark, _ = db.CDC().MaxLSN()
	}
	if _, err := db.CleanupChangeTable(ctx, instance, &mark, 0); err != nil {
		return fmt.Errorf("cleaning up %s below %s: %w", instance, mark, clientError(err, 0))
	}
	return nil
}

// StopCapture stops the capture job of a database, as sys.sp_cdc_stop_job does; StartCapture starts it again.
func (s *Server) StopCapture(database string) { s.DB(database).StopCapture() }

// StartCapture starts the capture job of a database. With WithCaptureInterval(0) there is none to start.
func (s *Server) StartCapture(database string) {
	if s.cfg.captureInterval > 0 {
		s.DB(database).StartCapture()
	}
}
