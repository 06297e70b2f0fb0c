package mssqlcdc

import "time"

// FactVersion is the version of [Fact] in a commit's userMetadata. Fields are
// only added. Ledger: 1 is the first.
const FactVersion = 1

// Event names what a facts row records. The empty event is a window; values are
// only ever added.
type Event string

// The events that this release writes.
const (
	EventWindow         Event = ""
	EventDataSkipped    Event = "data_skipped"              // purged changes were skipped
	EventSchemaChange   Event = "schema_change"             // a window read past DDL
	EventSwitched       Event = "capture_instance_switched" // the stream went on in a newer instance
	EventBootstrap      Event = "bootstrap"
	EventResnapshot     Event = "resnapshot"
	EventSnapshotOpen   Event = "snapshot_open"
	EventSnapshotPlan   Event = "snapshot_plan"
	EventSnapshotChunk  Event = "snapshot_chunk"
	EventTableAdopted   Event = "table_adopted"   // a table with rows of another writer was taken over
	EventRowsFiltered   Event = "rows_filtered"   // each_row took rows out of a window
	EventPositionPassed Event = "position_passed" // a window was already in the table and was skipped
)

// Fact is one row of the facts table: what a window of a target was, or an
// event. It is also the userMetadata of the window's data commit, from which a
// row that a crash kept from the facts table is written again. Pointers are nil
// where a value is unknown.
type Fact struct {
	Version           int        `json:"version"`
	AppID             string     `json:"app_id"`
	BatchID           *int64     `json:"batch_id,omitempty"` // nil on windows without a data commit and on events of snapshots
	Rows              int64      `json:"rows"`               // change rows of the window as committed
	MinLSN            LSN        `json:"min_lsn"`            // commit LSNs of its rows
	MaxLSN            LSN        `json:"max_lsn"`
	MinCommitTime     *time.Time `json:"min_commit_ts,omitempty"` // UTC
	MaxCommitTime     *time.Time `json:"max_commit_ts,omitempty"` // UTC
	Deletes           int64      `json:"deletes"`                 // rows of operation 1
	Inserts           int64      `json:"inserts"`                 // rows of operation 2
	Updates           int64      `json:"updates"`                 // rows of operation 4
	StartedAt         *time.Time `json:"started_at,omitempty"`    // when the sink began the window, UTC
	DurationMS        *int64     `json:"duration_ms,omitempty"`   // from StartedAt to the end of the data commit
	SourceRTT         *float64   `json:"source_rtt_ms,omitempty"`
	ReadSeconds       *float64   `json:"read_seconds,omitempty"`
	ReadMB            *float64   `json:"read_mb,omitempty"` // 10^6 bytes
	NetworkWaitMS     *int64     `json:"network_wait_ms,omitempty"`
	RetentionTime     *time.Time `json:"retention_watermark_ts,omitempty"` // commit time of min_lsn after the read
	RetentionHeadroom *float64   `json:"retention_headroom_hours,omitempty"`
	Event             Event      `json:"event,omitempty"`
	LostFrom          *time.Time `json:"lost_from_ts,omitempty"`
	LostTo            *time.Time `json:"lost_to_ts,omitempty"`
	SourceMaxTime     *time.Time `json:"source_max_commit_ts,omitempty"`
	CaptureLag        *float64   `json:"capture_lag_seconds,omitempty"`
	IngestionLag      *float64   `json:"ingestion_lag_seconds,omitempty"`
	EndLSN            LSN        `json:"end_lsn"` // the window's end
	EndCommitTime     *time.Time `json:"end_commit_ts,omitempty"`
	Detail            string     `json:"detail,omitempty"` // text or JSON, by event; never a key value
	Target            string     `json:"target"`           // the bronze table as configured

	// Ours beside the columns of mssql-cdc-pyspark.
	Table           TableID `json:"source_table"`
	CaptureInstance string  `json:"capture_instance"`
	Generation      int     `json:"generation"`
	StartLSN        LSN     `json:"start_lsn"` // resume position that the window continued
	Commits         int64   `json:"commits"`
	Parts           int     `json:"parts"`
	RowsFiltered    int64   `json:"rows_filtered"`
}
