package engine

import (
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Isolation is the isolation level of a transaction.
type Isolation uint8

// The isolation levels. RepeatableRead and Serializable hold a shared lock on each table read, to the transaction's end.
const (
	ReadCommitted Isolation = iota // waits for writers, or reads versions where the database has READ_COMMITTED_SNAPSHOT
	ReadUncommitted
	RepeatableRead
	Serializable
	Snapshot // versions as of the transaction's first read; 3952 unless the database allows it
)

// NoLockTimeout waits for a lock for ever (SET LOCK_TIMEOUT -1, the default).
const NoLockTimeout time.Duration = -1

// TxOptions are the settings of a transaction.
type TxOptions struct {
	Isolation Isolation
	// LockTimeout is how long a statement waits for one lock; the zero value waits for ever, as NoLockTimeout does. To fail
	// at once use FailAtFirstLock.
	LockTimeout     time.Duration
	FailAtFirstLock bool // SET LOCK_TIMEOUT 0, or NOWAIT
}

// Bound limits a scan to one side, on the first len(Values) columns of the scan's order. No values: no limit. A row is
// compared on these columns only: with the key (a, b), the upper bound (5) inclusive lets every row with a = 5 in.
type Bound struct {
	Values    []sqltype.Value
	Inclusive bool
}

// ScanSpec says which rows of a base table are wanted. Bounds are in the order of the clustered key (in a descending key the
// lower bound is the one that comes first in the order); a heap takes none.
type ScanSpec struct {
	Lower, Upper Bound
	Reverse      bool
	// Update is set when the rows will be changed: locked rows are waited for under every isolation level.
	Update bool
	// Isolation overrides the transaction's level for this scan where not nil (NOLOCK and other hints).
	Isolation *Isolation
	// ReadPast skips rows that another transaction has locked.
	ReadPast bool
	// HoldShared keeps a shared lock on the table to the transaction's end (HOLDLOCK, TABLOCK with it).
	HoldShared bool
	// Exclusive takes the whole table for this transaction (TABLOCKX).
	Exclusive bool
	// Def, if not nil, is the definition that the caller has bound to; the scan fails with ErrDefinitionChanged when the table
	// has another by now.
	Def *TableDef
}

// InsertSpec describes an insert.
type InsertSpec struct {
	Def *TableDef // as in ScanSpec
	// Columns are the ordinals of the values in each row; nil means every column that takes values, in order. Columns that
	// are not named get their default, their identity, or NULL. Values have been converted to the column's type.
	Columns []int
	// IdentityInsert allows a value for the identity column (SET IDENTITY_INSERT); without it that is 544.
	IdentityInsert bool
	// Inserted, if not nil, is called with each whole row as stored, after the statement's rows are in.
	Inserted func(sqltype.Row) error
}

// InsertResult is what an insert did.
type InsertResult struct {
	Count    int64
	Identity sqltype.Value // last identity given, NULL without one
}

// UpdateSpec describes an update. Change is called for each row of the scan, outside any lock, and returns the values for the
// columns Set (a slice that it may reuse), or false to leave the row alone. Updated, if not nil, is called after the
// statement's changes with each row before and after.
type UpdateSpec struct {
	Scan    ScanSpec
	Set     []int
	Change  func(old sqltype.Row) (values sqltype.Row, ok bool, err error)
	Updated func(before, after sqltype.Row) error
}

// DeleteSpec describes a delete, like UpdateSpec. A nil Match takes every row.
type DeleteSpec struct {
	Scan    ScanSpec
	Match   func(row sqltype.Row) (bool, error)
	Deleted func(row sqltype.Row) error
}

// Mark is a savepoint in a transaction.
type Mark struct{ undo, log int }

// CaptureJob holds the settings of a database's capture job (msdb.dbo.cdc_jobs).
type CaptureJob struct {
	MaxTrans        int           // transactions a scan takes at most; 500
	MaxScans        int           // scans a cycle makes at most; 10
	Continuous      bool          // kept for sp_cdc_help_jobs; the job here always is
	PollingInterval time.Duration // between cycles; 5 s
}

// CleanupJob holds the settings of a database's clean-up job.
type CleanupJob struct {
	Retention time.Duration // 72 h
	Threshold int64         // rows a delete takes at most; 5,000
}

// DefaultCaptureJob is what sys.sp_cdc_add_job sets [D].
func DefaultCaptureJob() CaptureJob {
	return CaptureJob{MaxTrans: 500, MaxScans: 10, Continuous: true, PollingInterval: 5 * time.Second}
}

// DefaultCleanupJob is what sys.sp_cdc_add_job sets [D].
func DefaultCleanupJob() CleanupJob { return CleanupJob{Retention: 72 * time.Hour, Threshold: 5000} }

// EnableTableSpec holds the parameters of sys.sp_cdc_enable_table.
type EnableTableSpec struct {
	Schema, Table   string
	Role            string // "" is NULL: no gating role
	CaptureInstance string // "" is schema_table
	// NetChanges nil means 1 when the table has a primary key or an index is named, else 0 [D].
	NetChanges *bool
	Index      string   // unique index that names a row; "" is the primary key
	Columns    []string // captured columns in any order; nil means all
	Filegroup  string
	// PartitionSwitch is kept as metadata only; nil means 1.
	PartitionSwitch *bool
}

// EnableResult is what enabling a table did besides.
type EnableResult struct {
	Instance    *Instance
	JobsCreated bool // the database's first table: capture and clean-up job were created
	JobStarted  bool // and the capture job was started
}

// ScanLimits overrides the job's settings for one call; zero fields mean the job's.
type ScanLimits struct {
	MaxTrans, MaxScans int
	SessionID          int  // who scans, for 22903; 0 for the job
	Wait               bool // wait for a running scan to end instead of failing with 22903
}

// ScanResult is what one call of Scan did.
type ScanResult struct {
	Scans        int   // scans that found transactions
	Transactions int   // captured, with rows or not
	Commands     int   // changes written, an update as one
	Rows         int64 // change rows written
	Exhausted    bool  // nothing is left in the log
	Idle         bool  // an idle mapping entry was added
	MaxLSN       LSN   // afterwards; zero for NULL
}

// Hooks let a test stand between two steps. They run without a lock held, on the goroutine that does the step, and may call
// the engine (not the same operation again). Nil hooks are skipped.
type Hooks struct {
	// ScanPrepared runs when a scan has built its rows and nothing of them is visible yet.
	ScanPrepared func(transactions int)
	// ScanPublished runs when a scan's rows and mapping entries have become visible, together.
	ScanPublished func(transactions int)
	// Watermark runs when clean-up has moved start_lsn and every row is still there [D].
	Watermark func(instances []string)
	// CleanupChunk runs after each chunk that clean-up deleted; table is the change table's or the mapping's name.
	CleanupChunk func(table string, deleted int64)
	// ChangeScan runs before a cursor on a change table yields its first row, and after each ChangeScanEvery rows.
	ChangeScan      func(instance string, yielded int64)
	ChangeScanEvery int64
	// LiveScans makes cursors that were opened with a database behind them go on with the newest view after each call of
	// ChangeScan, so that rows purged in between are missed, as under READ COMMITTED on a real server. Without it a
	// cursor keeps the view it started on.
	LiveScans bool
}
