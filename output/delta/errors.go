package delta

import (
	"errors"
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

var (
	// ErrNotTable reports that a place holds no Delta table.
	ErrNotTable = replay.ErrNotTable

	// ErrNoVersion reports that a table does not have a version, or no longer.
	ErrNoVersion = replay.ErrNoVersion

	// ErrFenced is matched by every FencedError: another writer uses the
	// caller's application id.
	ErrFenced = errors.New("fenced by another writer")

	// ErrUnknownOutcome is matched by every UnknownOutcomeError: the commit may
	// or may not be in the log.
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")

	// ErrCommitTimeout reports that a commit lost its race again and again until
	// Options.CommitTimeout was over. Nothing was committed.
	ErrCommitTimeout = errors.New("commit timed out")

	// ErrNoStatistics reports that a number was asked for that some data file
	// does not record.
	ErrNoStatistics = errors.New("no statistics")

	// ErrClosed reports the use of a closed table.
	ErrClosed = errors.New("table is closed")
)

// ConflictKind says in which way a concurrent commit made ours impossible.
type ConflictKind string

// The kinds of conflict, by what the other commit did.
const (
	// ConflictProtocol: it changed the protocol so that we may not write any
	// more, or we wanted to change it too.
	ConflictProtocol ConflictKind = "protocol changed"
	// ConflictMetadata: it changed the schema, or we wanted to change the
	// metadata too.
	ConflictMetadata ConflictKind = "metadata changed"
	// ConflictAppend: it added rows that our change should have read.
	ConflictAppend ConflictKind = "concurrent append"
	// ConflictDeleteRead: it deleted rows that our change has read.
	ConflictDeleteRead ConflictKind = "concurrent delete of what was read"
	// ConflictDeleteDelete: it removed a file that our change removes.
	ConflictDeleteDelete ConflictKind = "concurrent delete of the same file"
)

// ConflictError reports that a commit which came first made ours impossible.
// Nothing was committed. The caller refreshes, computes its change again, and
// commits that; Change.Rebase does it in place.
type ConflictError struct {
	Kind ConflictKind
	// Version is the commit that came first.
	Version int64
	// Detail names what collided: a file, a column. It may be empty.
	Detail string
}

func (e *ConflictError) Error() string {
	text := fmt.Sprintf("conflict with version %d of the table: %s", e.Version, e.Kind)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// FencedError reports that a commit carries our application id and is not ours.
// Nothing was committed. errors.Is(err, ErrFenced) is true.
type FencedError struct {
	AppID string
	// Version is the commit of the table where the application id was met, or
	// -1 if the snapshot already had it.
	Version int64
	// Have is the application's version in the table, Want the one of the change.
	Have, Want int64
	// TxnID is the other attempt's id, "" if it is not known.
	TxnID string
	// Own says that the other commit is an earlier attempt of this same Table
	// whose outcome was unknown and which landed after all. No second writer is
	// there; the caller reads its position again and goes on.
	Own bool
}

func (e *FencedError) Error() string {
	switch {
	case e.Own:
		return fmt.Sprintf("an earlier attempt for application id %q has landed as version %d of the table: read the position again", e.AppID, e.Version)
	case e.Version < 0:
		return fmt.Sprintf("application id %q is at version %d in the table, which is not below %d: another writer may be using this id", e.AppID, e.Have, e.Want)
	default:
		return fmt.Sprintf("another writer uses application id %q: it committed version %d of the table (transaction %s)", e.AppID, e.Version, e.TxnID)
	}
}

// Is reports whether target is ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// FeatureError reports that a table needs something this library does not do.
type FeatureError struct {
	// Name is the table feature, or a property or protocol version that stands
	// for it.
	Name string
	// Op is what was asked for: "open", "read", "append", ...
	Op string
	// Why says what is missing.
	Why string
}

func (e *FeatureError) Error() string {
	text := fmt.Sprintf("table feature %q does not allow to %s this table", e.Name, e.Op)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// UnknownOutcomeError reports that the answer to a commit was lost and reading
// it back failed too. The commit may be in the log, may still appear, or never.
// Committing a Change with the same ID again settles it.
// errors.Is(err, ErrUnknownOutcome) is true, and Err is in the chain.
type UnknownOutcomeError struct {
	// ID is the attempt's id; give it to the repeated Change.
	ID string
	// Version is the one the attempt was for.
	Version int64
	Err     error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("outcome of committing version %d (transaction %s) is unknown: %v", e.Version, e.ID, e.Err)
}

// Is reports whether target is ErrUnknownOutcome.
func (e *UnknownOutcomeError) Is(target error) bool { return target == ErrUnknownOutcome }

// Unwrap returns the error of the last probe.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// ChangeError reports that a Change is wrong in itself, whatever the table.
type ChangeError struct {
	Reason string
}

func (e *ChangeError) Error() string { return "invalid change: " + e.Reason }
