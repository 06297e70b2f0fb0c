package sqlserver

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// healthStatement counts the errors of capture since the server started, of which 22859 only says where the others are listed, and takes
// the newest scan of the log; session 0 sums all of them up. How old it is, the server's own clock says.
const healthStatement = `SELECT (SELECT COUNT(*) FROM sys.dm_cdc_errors WHERE error_number <> 22859) AS errors,
s.session_id, s.latency, s.error_count, s.empty_scan_count, DATEDIFF(second, s.end_time, GETDATE()) AS age
FROM (SELECT 1 AS n) AS x LEFT JOIN (SELECT TOP (1) session_id, latency, error_count, empty_scan_count, end_time
FROM sys.dm_cdc_log_scan_sessions WHERE session_id > 0 ORDER BY session_id DESC) AS s ON 1 = 1`

// Health is what the capture job tells about itself.
type Health struct {
	Errors  int64         // errors of capture that the server still lists
	Scanned bool          // there was a scan since the server started; the fields below are of the newest
	Latency time.Duration // between a commit and its capture
	Failed  int64         // errors of this scan
	Empty   int64         // scans in a row that found nothing
	Age     time.Duration // since it ended; scans that find nothing may not move it
}

// Health asks how capture is doing. The login needs VIEW DATABASE STATE (VIEW DATABASE PERFORMANCE STATE from SQL Server 2022 on); without
// it a *PermissionError with the grant.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var row record
	err := c.ask(ctx, "asking how capture is doing", func(ctx context.Context, conn *sql.Conn) (err error) {
		row, err = one(ctx, conn, healthStatement)
		return err
	})
	if err != nil {
		if Classify(err) == Permission {
			err = &PermissionError{Object: "the state of capture (sys.dm_cdc_errors, sys.dm_cdc_log_scan_sessions)", Grant: c.stateGrant(), Err: err}
		}
		return Health{}, err
	}
	var h Health
	h.Errors, _ = row.number("errors")
	if _, h.Scanned = row.number("session_id"); !h.Scanned {
		return h, nil
	}
	latency, _ := row.number("latency")
	age, _ := row.number("age")
	h.Latency, h.Age = time.Duration(latency)*time.Second, time.Duration(age)*time.Second
	h.Failed, _ = row.number("error_count")
	h.Empty, _ = row.number("empty_scan_count")
	return h, nil
}

// stateGrant lets the login see the state of capture.
func (c *Client) stateGrant() string {
	right := "VIEW DATABASE STATE"
	if c.server.Major >= 16 {
		right = "VIEW DATABASE PERFORMANCE STATE"
	}
	return fmt.Sprintf("GRANT %s TO %s", right, mssqlcdc.QuoteName(c.login))
}
