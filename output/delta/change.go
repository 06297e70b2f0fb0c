package delta

import (
	"context"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// Operation names that other engines know. Any other string is fine.
const (
	OpCreateTable    = "CREATE TABLE"
	OpWrite          = "WRITE"
	OpStreamingWrite = "STREAMING UPDATE"
	OpMerge          = "MERGE"
	OpOptimize       = "OPTIMIZE"
	OpSetProperties  = "SET TBLPROPERTIES"
	OpAddColumns     = "ADD COLUMNS"
)

// Txn is an application's version, as a commit sets it.
type Txn struct {
	// AppID names the application; one per writer and table, never shared.
	AppID string
	// Version is the application's own number.
	Version int64
}

// Change is one commit as a value. It can be compared, logged, and committed
// again. The zero Change commits nothing but a commitInfo.
type Change struct {
	// ID is the attempt's identity, written as commitInfo.txnId; "" makes a new
	// one. Give the ID of an UnknownOutcomeError to find out whether that attempt
	// landed, and to commit it otherwise.
	ID string

	// Operation, OperationParameters and Metrics describe the change in the
	// table's history. Parameters are strings; a list goes in as its JSON text.
	// Metrics are written as text.
	Operation           string
	OperationParameters map[string]string
	Metrics             map[string]int64

	// Fenced is the writer's own sequence. Its version must be above the one in
	// the table, and any other commit with its AppID that comes first, or came
	// since this Table's last one, is a second writer with our identity:
	// FencedError.
	Fenced *Txn
	// Keyed is a batch key of the caller. If the table has this version of the
	// AppID or a higher one, the change is AlreadyApplied.
	Keyed *Txn
	// Marks are watermarks: written, never compared. Their versions may fall.
	Marks []Txn

	// Add and Remove are the files that enter and leave the table.
	// Add.DataChange and Remove.DataChange say whether rows changed: set them
	// true, or false on all of them for a change that only rearranges rows. An
	// empty Add.ModificationTime or Remove.DeletionTimestamp is set to now.
	Add    []action.Add
	Remove []action.Remove

	// Metadata replaces the table's metadata: a new schema, other properties.
	// nil leaves it. The id, the partition columns and the format stay.
	Metadata *action.Metadata
	// Protocol replaces the table's protocol; features are never removed. nil
	// leaves it, except that a Metadata whose schema needs a feature brings the
	// feature along.
	Protocol *action.Protocol

	// UserMetadata is one string for the history.
	UserMetadata string

	// BlindAppend says that the change only adds and did not look at the table's
	// rows, so that no concurrent append or delete can matter to it.
	BlindAppend bool

	// Reads says which of the table's rows the change depends on; nil is all of them, or
	// none if it is a BlindAppend.
	Reads *Reads

	// ReadVersion is the version of the snapshot the change was computed from.
	// Every commit after it is checked for conflicts. It is taken as it stands
	// for any change that is not a plain blind append, also when it is zero.
	ReadVersion int64

	// Rebase computes the change anew from a newer snapshot. With it a conflict
	// is not an error: the result takes the place of the change (its ID is
	// kept, its ReadVersion is set). It may be called several times, and must not
	// commit to the same Table.
	Rebase func(ctx context.Context, s *Snapshot) (Change, error)
}

// Reads is what a change has looked at, so that what other commits did to other rows is no
// conflict. It holds at both isolation levels, and, unlike without it, against blind appends,
// too: a file that may hold rows that the change should have seen is a conflict whoever adds
// it. Files that the change removes need not be named. The functions may be called several
// times.
type Reads struct {
	// Added reports whether it matters that a commit adds a file with rows, judged by the
	// file's partition values and statistics; nil is that it always does.
	Added func(action.Add) bool
	// Removed reports whether it matters that a commit removes a file with its rows; nil is
	// that it always does.
	Removed func(action.Remove) bool
}

func (r *Reads) added(a action.Add) bool { return r == nil || r.Added == nil || r.Added(a) }

func (r *Reads) removed(rm action.Remove) bool { return r == nil || r.Removed == nil || r.Removed(rm) }

// State is how a commit ended.
type State int

const (
	// Committed: the change is in the table, by this call or, where an answer
	// was lost, by the attempt it repeats.
	Committed State = iota + 1
	// AlreadyApplied: the table had the batch key of Change.Keyed before.
	// Nothing was written; the change's files belong to nobody.
	AlreadyApplied
)

// String names the state.
func (s State) String() string {
	switch s {
	case Committed:
		return "committed"
	case AlreadyApplied:
		return "already applied"
	default:
		return "invalid"
	}
}

// Result is the outcome of a commit.
type Result struct {
	// Version is the table's version the change became; for AlreadyApplied a
	// version that includes the batch.
	Version int64
	State   State
	// Races is how many other commits came first, Attempts how many times the
	// store was asked to create a commit.
	Races, Attempts int
	// Took is the time spent in Commit.
	Took time.Duration
}

// Commit is one version of a table as its history shows it.
type Commit struct {
	Version int64
	// Info is the zero value if the commit has none.
	Info action.CommitInfo
	Txns []action.Txn
	// Adds and Removes count the file actions.
	Adds, Removes int
}
