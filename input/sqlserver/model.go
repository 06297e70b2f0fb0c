package sqlserver

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Server is what the client knows of the server after it opened.
type Server struct {
	Name          string // @@SERVERNAME
	Database      string
	Version       string // "16.0.4135.4"
	Major         int    // 13 is 2016, 14 2017, 15 2019, 16 2022, 17 2025; 0 if the server does not tell
	EngineEdition int    // 5 Azure SQL Database, 8 Managed Instance
	Zone          string // the zone that commit times are converted by: a Windows or IANA name, or an offset
	FixedOffset   bool   // Zone is an offset that is asked anew for each window, because the server knows no zone name: times around a change of the clock are not exact
}

// Head is how far the capture job has come.
type Head struct {
	LSN      mssqlcdc.LSN // max_lsn; zero if capture never wrote to the database
	Time     time.Time    // its commit time in UTC; zero if LSN is
	SeenTime time.Time    // the reader's clock when the answer came
}

// ColumnOptions chooses and retypes captured columns. Names match as the catalogue has them, or else ignoring case if
// that is unique; an unknown name is a [SchemaError].
type ColumnOptions struct {
	Include []string          // only these; empty means all
	Exclude []string          // not these
	Types   map[string]string // column → SQL Server type to convert to, or "string" for nvarchar(max)
}

// Layout says how the change rows of one capture instance are read. It is a value that holds until the DDL of a later
// window (see [Client.DDL]); then ask [Client.Columns] anew.
type Layout struct {
	Instance     mssqlcdc.CaptureInstance
	Columns      []mssqlcdc.Column // what a record holds after the metadata columns
	HasCommandID bool              // false on change tables older than KB 3030352: order within a transaction is then by seqval
	LeftOut      []LeftOut         // captured columns that are not delivered

	fields []field // how each column is selected and decoded
}

// LeftOut is a captured column that is not delivered, with the reason.
type LeftOut struct {
	Name   string
	Reason string // "computed", "excluded"
}

// Schema is the Arrow schema of the layout's records.
func (l Layout) Schema() *arrow.Schema { return mssqlcdc.RecordSchema(l.Columns) }

// Limits bound a window and its parts. Zero means the default; a negative window limit means none.
type Limits struct {
	// A window ends at the first commit boundary at which one of these is reached, so it holds at least one commit
	// and exceeds Rows and Bytes by less than one commit.
	Commits int64 // commits with rows of this table; default none
	Rows    int64 // default 1,000,000
	Bytes   int64 // Arrow bytes; default 256 MiB

	// A part is closed at the row that reaches one of these.
	PartRows  int64 // default 16,384
	PartBytes int64 // default 4 MiB

	// Ranges is how many sub-ranges of one window are read at once, each on its own connection; default 1.
	Ranges int
}

// The defaults of [Limits].
const (
	DefaultWindowRows  = 1_000_000
	DefaultWindowBytes = 256 << 20
	DefaultPartRows    = 16_384
	DefaultPartBytes   = 1 << 20
)

// Plan is what [Client.Plan] decided about the next window of a table.
type Plan struct {
	Window mssqlcdc.Window // End is an upper bound until the last part was read
	Rows   int64           // rows in the window; -1 if they were not counted
	Ranges []Range         // tile the window in LSN order; never empty unless the window is
}

// Range is a closed interval of commit LSNs that one connection reads.
type Range struct {
	From, To mssqlcdc.LSN
	Rows     int64 // -1 if not counted
}

// ReadRequest asks for the rows of one window.
type ReadRequest struct {
	Layout Layout
	Plan   Plan
	Limits Limits
	Head   Head // as last seen; copied into the metrics. Plan.Window.End must not exceed it
}

// Part is a piece of a window: rows as [mssqlcdc.RecordSchema] lays them out. The rows of all parts of a window, one
// after the other, are the window in order of [mssqlcdc.Position]. They are provisional until the part with Last.
type Part struct {
	Record   arrow.RecordBatch
	Window   mssqlcdc.Window // End is exact on the last part, an upper bound before
	Index    int             // 0, 1, 2 …
	Last     bool
	Metrics  mssqlcdc.WindowMetrics // complete on the last part, otherwise zero
	Warnings []string               // on the last part
}

// Cursor is a capture instance with the position up to which it was read.
type Cursor struct {
	Instance mssqlcdc.CaptureInstance
	After    mssqlcdc.LSN
}

// Movement says whether an instance has rows in (After, upto], and how its low watermark stands.
type Movement struct {
	Cursor     Cursor
	Moved      bool
	MinLSN     mssqlcdc.LSN // asked after Moved was found out
	MinLSNTime time.Time    // its commit time in UTC, zero if unknown
	Err        error        // this instance's own error (data loss, permission, gone); the other fields then mean nothing
}

// DDL is one row of the DDL history of a capture instance.
type DDL struct {
	Instance    string
	LSN         mssqlcdc.LSN // of the DDL itself; the mapping of commit times has no entry for it
	Command     string
	TypeChanged bool      // required_column_update: capture altered the change table's column
	ServerTime  time.Time // whole minutes by the server's clock, without a zone
	CommitTime  time.Time // UTC, of the last commit at or before LSN; zero if unknown
}
