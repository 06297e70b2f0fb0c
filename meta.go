package mssqlcdc

// Keys of the metadata of messages. The names without prefix are those of the
// other CDC inputs of Redpanda Connect.
const (
	// MetaFormat is on every message of the input: FormatRows or
	// FormatRecordBatch. A sink recognises by it a message whose body was
	// replaced on the way.
	MetaFormat = "mssql_cdc_format"

	MetaOperation       = "operation"       // Operation.String
	MetaTable           = "table"           // name without schema
	MetaSchemaName      = "database_schema" // schema of the table
	MetaLSN             = "lsn"             // commit LSN (rows), end of the window (record batches)
	MetaCommitMS        = "commit_ts_ms"    // commit time, milliseconds since 1970 UTC
	MetaSourceMS        = "source_ts_ms"    // the same: SQL Server records no other time of a change
	MetaTransactionID   = "transaction_id"  // the commit LSN: it is unique per transaction
	MetaSchema          = "schema"          // common schema of the row
	MetaCaptureInstance = "capture_instance"
	MetaSeqVal          = "seqval"
	MetaCommandID       = "command_id"
	MetaRows            = "rows" // rows of a record batch
	MetaMarker          = "marker"
)

// Values of MetaFormat.
const (
	FormatRows        = "rows"
	FormatRecordBatch = "record_batch"
)
