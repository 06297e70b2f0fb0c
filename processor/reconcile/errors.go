package reconcile

import (
	"errors"
	"fmt"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// ErrNoPosition says that the table does not tell up to which commit it holds the changes.
var ErrNoPosition = errors.New("the table has no position to compare from")

// NoKeyError says that there is nothing to join the rows on.
type NoKeyError struct {
	Table mssqlcdc.TableID
}

// Error says how to go on.
func (e *NoKeyError) Error() string {
	return fmt.Sprintf("table %s has no primary key and no unique index that CDC knows: name columns that tell its rows apart (keys), or give the table a unique index and a new capture instance", e.Table)
}

// ColumnError says that a column cannot be compared, and what to configure.
type ColumnError struct {
	Column string
	Reason string
	Cure   string
}

// Error is one line with the cure.
func (e *ColumnError) Error() string {
	return fmt.Sprintf("column %s: %s; %s", mssqlcdc.QuoteName(e.Column), e.Reason, e.Cure)
}

// TargetError says that a Delta table is not of the kind that it was said to be.
type TargetError struct {
	Target  string
	Missing []string // columns that a table of the kind has
	Cure    string
}

// Error names the columns.
func (e *TargetError) Error() string {
	return fmt.Sprintf("table %s has no column %s; %s", e.Target, strings.Join(e.Missing, ", "), e.Cure)
}

// OpenSnapshotError says that rows of the table are still to come, so that nothing can be said of it as a whole.
type OpenSnapshotError struct {
	Target   string
	Snapshot mssqlcdc.LSN // zero if it is not known which
	Reason   string
}

// Error says what to wait for.
func (e *OpenSnapshotError) Error() string {
	text := "table " + e.Target + ": a snapshot of it is not complete"
	if !e.Snapshot.IsZero() {
		text = fmt.Sprintf("table %s: snapshot %s of it is not complete", e.Target, e.Snapshot)
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text + "; let the pipeline finish it, then compare"
}

// CaptureBehindError says that keys differ and that capture did not come far enough to tell whether these are changes that are on their
// way.
type CaptureBehindError struct {
	Keys   int64
	MaxLSN mssqlcdc.LSN
}

// Error says what to check.
func (e *CaptureBehindError) Error() string {
	return fmt.Sprintf("%d keys differ, and capture (at %s) has not reached the time of the read, so they may be changes that are on their way: check that the capture job runs, or wait longer; on a quiet database capture moves about every five minutes",
		e.Keys, e.MaxLSN)
}
