package sqlserver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Sentinels, for callers that branch. Each is wrapped with what was being done.
var (
	// ErrCDCDisabled: CDC is not enabled in the database.
	ErrCDCDisabled = errors.New("change data capture is not enabled in this database: run sql/enable_database.sql, which calls sys.sp_cdc_enable_db")
	// ErrUnknownDatabase: the database does not exist, or the login may not open it.
	ErrUnknownDatabase = errors.New("the database does not exist or the login may not open it")
	// ErrUnknownInstance: no capture instance of that name is visible, and it was never seen.
	ErrUnknownInstance = errors.New("no such capture instance is visible")
	// ErrNoInstances: the login sees no capture instance at all.
	ErrNoInstances = errors.New("no capture instance is visible")
	// ErrNotYetCaptured: the capture job has not processed the enabling of the instance. It passes by itself, on a
	// quiet database after up to five minutes, unless the capture job is stopped.
	ErrNotYetCaptured = errors.New("the capture job has not processed the enabling of this instance yet")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the client is closed")
)

// DataLossError says that changes which should have been read are gone. Delivering what is left would be a silent gap.
type DataLossError struct {
	Instance string
	Table    mssqlcdc.TableID
	From     mssqlcdc.LSN // first LSN that should have been read
	MinLSN   mssqlcdc.LSN // the instance's low watermark now; zero if the instance is gone
	MinTime  time.Time    // its commit time in UTC; zero if unknown
	During   bool         // found after the read: clean-up ran meanwhile, parts of the window must be discarded
	Restored bool         // the database has another history than the position
	Reason   string       // one line: purged, dropped, recreated
}

// Error names the instance, both positions and what to do.
func (e *DataLossError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "changes of capture instance %s from %s on are lost: %s", e.Instance, e.From, e.Reason)
	if !e.MinLSN.IsZero() {
		fmt.Fprintf(&b, ", the oldest that is left is %s", e.MinLSN)
		if !e.MinTime.IsZero() {
			fmt.Fprintf(&b, " (%s)", e.MinTime.Format(time.RFC3339))
		}
	}
	return b.String()
}

// PermissionError says which right the login lacks and what grants it.
type PermissionError struct {
	Object string // what cannot be read
	Grant  string // the T-SQL statement that cures it, for the database owner
	Err    error  // what the server said; may be nil
}

// Error is one line with the grant.
func (e *PermissionError) Error() string {
	return fmt.Sprintf("the login may not read %s; the database owner can run: %s", e.Object, e.Grant)
}

// Unwrap gives the server's error.
func (e *PermissionError) Unwrap() error { return e.Err }

// SchemaError says that a table or a column cannot be read as configured, and what to configure instead.
type SchemaError struct {
	Instance string
	Column   string // empty when the whole instance is meant
	Reason   string
	Cure     string
	Err      error // what the server said; may be nil
}

// Error is one line with the cure.
func (e *SchemaError) Error() string {
	where := "capture instance " + e.Instance
	if e.Column != "" {
		where += ", column " + mssqlcdc.QuoteName(e.Column)
	}
	text := where + ": " + e.Reason
	if e.Cure != "" {
		text += "; " + e.Cure
	}
	return text
}

// Unwrap gives the server's error.
func (e *SchemaError) Unwrap() error { return e.Err }

// ConfigError says that the configuration cannot work. Trying again does not help.
type ConfigError struct {
	Field  string // the field of Config, or the key of the connection string
	Reason string
}

// Error names the field.
func (e *ConfigError) Error() string { return e.Field + ": " + e.Reason }
