package input

import (
	"github.com/redpanda-data/benthos/v4/public/service"
)

// Fields of the input. Names that other CDC inputs of Redpanda Connect have are
// spelled as there.
const (
	fieldConnectionString = "connection_string"
	fieldUser             = "user"
	fieldPassword         = "password"
	fieldEntra            = "entra"
	fieldTables           = "tables"
	fieldTableOverrides   = "table_overrides"
	fieldStartFrom        = "start_from"
	fieldRun              = "run"
	fieldFormat           = "format"
	fieldPollInterval     = "poll_interval"
	fieldIdleInterval     = "idle_interval"
	fieldTablesInterval   = "tables_refresh_interval"
	fieldCheckpointCache  = "checkpoint_cache"
	fieldCheckpointKey    = "checkpoint_cache_key"
	fieldCheckpointLimit  = "checkpoint_limit"
	fieldRequireCommit    = "require_commit"
	fieldOnTableError     = "on_table_error"
	fieldTimeZone         = "source_time_zone"
	fieldMaxCommits       = "max_commits_per_window"
	fieldMaxRows          = "max_rows_per_window"
	fieldMaxBytes         = "max_bytes_per_window"
	fieldPartRows         = "max_rows_per_part"
	fieldPartBytes        = "max_bytes_per_part"
	fieldParallelReads    = "max_parallel_reads"
	fieldIncludePosition  = "include_position"
	fieldIncludeMarkers   = "include_markers"
	fieldConnectTimeout   = "connect_timeout"
	fieldReadTimeout      = "read_timeout"
	fieldLockTimeout      = "lock_timeout"
	fieldReader           = "reader"

	fieldStreamSnapshot    = "stream_snapshot"
	fieldSnapshotChunkRows = "snapshot_chunk_rows"
	fieldSnapshotIsolation = "snapshot_isolation"
	fieldSnapshotOnSwitch  = "snapshot_on_switch"
	fieldSnapshotMode      = "snapshot_mode"

	fieldSnapshotParallelism = "snapshot_parallelism"
	fieldSnapshotMinHeadroom = "snapshot_min_headroom"

	fieldOnDataLoss         = "on_data_loss"
	fieldResnapshotInterval = "resnapshot_interval"

	overrideTable    = "table"
	overrideInstance = "capture_instance"
	overrideInclude  = "columns"
	overrideExclude  = "exclude_columns"
	overrideTypes    = "column_types"
	overrideKeys     = "key_columns"
	overrideStart    = "start_from"

	overrideSnapshotKeys = "snapshot_keys"
)

// Values of the enumerations.
const (
	formatRows        = "rows"
	formatRecordBatch = "record_batch"
	runContinuous     = "continuous"
	runAvailableNow   = "available_now"
	runSnapshotOnly   = "snapshot_only"
	onErrorStop       = "stop"
	onErrorIsolate    = "isolate"

	snapshotChunked = "chunked"
	snapshotWhole   = "whole"

	isolationReadCommitted = "read_committed"
	isolationSnapshot      = "snapshot"

	lossFail       = "fail"
	lossSkip       = "skip"
	lossResnapshot = "resnapshot"
)

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Stable().
		Categories("Services").
		Summary("Streams changes of SQL Server tables from Change Data Capture, in commit order, with a resume position that only acknowledged changes move.").
		Description(specDescription).
		Fields(connectionFields()...).
		Fields(tableFields()...).
		Fields(runFields()...).
		Fields(snapshotFields()...).
		Fields(positionFields()...).
		Fields(windowFields()...).
		Fields(rowFields()...).
		Field(service.NewAutoRetryNacksToggleField().Description("Format `rows` only: whether messages that the output rejects are sent again one by one, in order, with one batch in flight. With `false`, and always with format `record_batch`, the input goes back to the last acknowledged position instead and sends everything after it again.")).
		Field(service.NewExtractTracingSpanMappingField()).
		Example("Into Delta Lake, exactly once", "Record batches keep the rows in columns up to the Parquet file.", `
input:
  mssql_cdc:
    connection_string: "${MSSQL_DSN}"
    tables: [ dbo.orders ]
    format: record_batch
    checkpoint_cache: position

output:
  delta_lake:
    path: ./lake/orders
    app_id: orders

cache_resources:
  - label: position
    atomic_file:
      directory: ./state
`).
		Example("Rows through a mapping", "One message per row, for any processor and any output.", `
input:
  mssql_cdc:
    connection_string: "${MSSQL_DSN}"
    tables: [ dbo.* ]
    run: available_now
    checkpoint_cache: position

pipeline:
  processors:
    - mapping: |
        root = this
        root.operation = @operation

output:
  stdout: {}

cache_resources:
  - label: position
    atomic_file:
      directory: ./state
`)
}

const specDescription = `
Reads the change tables of capture instances that already exist; it creates nothing in the source and writes nothing to it.
Enable CDC with the scripts in the folder sql.

### Order and delivery

Changes of a table arrive in the order of commit LSN, command id, seqval and operation. The stream advances in windows: closed
intervals of commit LSNs that end on a commit boundary. The resume position of a table moves over a window when all its messages
were acknowledged, and never past one that was not. After a rejected message everything from the last acknowledged window on is sent again, in order.
This is at least once. Into the ` + "`delta_lake`" + ` output, with format ` + "`record_batch`" + `, it is exactly once.

Keep ` + "`pipeline.threads: 1`" + ` and one message in flight at the output: more of either reorders batches. Both are the defaults of rpconnect-mssqlcdc.
A ` + "`buffer`" + ` acknowledges before anything was written: do not put one behind this input.

### Format rows

The body is the row with its captured columns: booleans, integers, floats, text, times and bytes; decimals and money as exact text; date, time
and uniqueidentifier as text. An update is two messages, ` + "`update_before`" + ` and ` + "`update_after`" + `. Metadata:

- ` + "`operation`" + `: delete, insert, update_before or update_after
- ` + "`table`" + `, ` + "`database_schema`" + `, ` + "`capture_instance`" + `
- ` + "`lsn`" + `: the commit LSN, 0x and 20 hex digits; ` + "`transaction_id`" + ` is the same
- ` + "`commit_ts_ms`" + ` and ` + "`source_ts_ms`" + `: the commit time in milliseconds, UTC
- ` + "`seqval`" + `, ` + "`command_id`" + `: with ` + "`lsn`" + ` and ` + "`operation`" + ` the identity of the row; see ` + "`include_position`" + `
- ` + "`schema`" + `: the columns with their types

### Format record_batch

The body of a message is one part of a window as an Arrow record. Processors that look into the body see null: wrap row logic in ` + "`each_row`" + `. Messages
of a window without rows carry the position of a quiet table, so that its verdict moves.

### Permissions

SELECT on the captured columns of the source table, membership in the gating role if there is one, and SELECT on the change table (cdc.<capture instance>_CT).
An error names the GRANT that is missing.

### Snapshots

With ` + "`stream_snapshot`" + ` a table without a resume position is read whole, in chunks of its key, beside the changes from the moment it began. Rows of a chunk have operation ` + "`read`" + ` and the LSN at which they were read, so the row of a key
with the highest LSN is the right one whatever changed meanwhile. A chunk is whole or not there; a restart goes on with the chunk at hand. Until the snapshot is complete the resume position holds keys of the table; they are in no
log, fact or metric. Chunks leave in order; ` + "`snapshot_parallelism`" + ` connections read them ahead. Tables that are opened together share the LSN at which their snapshots begin. The verdict stands still until
the chunks and the changes up to max_lsn after the last of them are delivered. ` + "`run: snapshot_only`" + ` ends there; ` + "`snapshot_mode: whole`" + ` reads a table at one moment.

### Newer capture instances

A table with a second capture instance is read from that one from its start LSN on. The columns that it captures more appear then.

### Data loss

CDC clean-up deletes changes by age whether or not they were read. Before and after every read the input compares its position with the low
watermark of the capture instance. A position that was purged, a capture instance that was dropped or created again, or a database that was restored ends the run (or the table, see
` + "`on_table_error`" + `) with an error that says what is lost, unless ` + "`on_data_loss`" + ` goes on from there.

### Metrics

` + "`mssql_cdc_rows_total`, `mssql_cdc_windows_total`, `mssql_cdc_read_bytes_total`, `mssql_cdc_ingestion_lag_seconds`, `mssql_cdc_retention_headroom_hours`" + ` and
` + "`mssql_cdc_table_failed`, `mssql_cdc_snapshot_rows_total`, `mssql_cdc_snapshot_chunks_total`, `mssql_cdc_snapshot_paused`" + ` by table; ` + "`mssql_cdc_polls_total`, `mssql_cdc_capture_lag_seconds`, `mssql_cdc_rewinds_total`" + `; ` + "`mssql_cdc_errors_total`" + ` by class; ` + "`mssql_cdc_reads_total`" + ` by reader and reason. The capture lag is the age of the
newest commit that capture has processed: it grows when the capture job stands still, which otherwise looks like a quiet source. A login that may see the state of the database (optional: VIEW DATABASE
STATE, from 2022 on VIEW DATABASE PERFORMANCE STATE) also publishes ` + "`mssql_cdc_capture_errors`, `mssql_cdc_capture_scan_errors`, `mssql_cdc_capture_latency_seconds`, `mssql_cdc_capture_scan_age_seconds`" + `.
`

func connectionFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringField(fieldConnectionString).Secret().
			Description("How to reach the database: a URL (`sqlserver://user:password@host:1433?database=db`), an ADO string (`Server=host,1433;Database=db;User Id=…;Password=…`) or an ODBC string (`DRIVER=…;SERVER=…;UID=…;PWD={a;b}}c}`). The connection is encrypted and the certificate verified unless the string asks otherwise. Quote the variable that holds it.").
			Example("${MSSQL_DSN}").
			Example("sqlserver://reader:${PASSWORD}@db.example.com:1433?database=shop"),
		service.NewStringField(fieldUser).Description("The login, if it is not in the connection string.").Default("").Advanced(),
		service.NewStringField(fieldPassword).Description("The password, if it is not in the connection string. Quote the variable that holds it: an unquoted password of digits only is not a text.").Secret().Default("").Advanced(),
		entraField(),
		service.NewStringField(fieldTimeZone).Default("auto").
			Description("The zone of the server's clock, by which commit times become UTC. `auto` asks the server, which knows its zone from SQL Server 2022 on and on Azure; before, it tells today's offset only, which is wrong for commits on the other side of a change of the clock: set a Windows zone name such as `W. Europe Standard Time` there. `UTC` and offsets such as `+05:30` work, too."),
		service.NewDurationField(fieldConnectTimeout).Description("How long one login may take.").Default("30s").Advanced(),
		service.NewDurationField(fieldReadTimeout).Description("How long the server may be silent while rows are read.").Default("5m").Advanced(),
		service.NewDurationField(fieldLockTimeout).Description("How long a statement waits for a lock of somebody else.").Default("30s").Advanced(),
		service.NewStringEnumField(fieldReader, "auto", "driver").Description("Who decodes rows. auto takes them off the wire beside the driver, at a fraction of the CPU, and leaves to the driver what it does not decode; driver leaves all to the driver. The metric mssql_cdc_reads_total says which it was and why.").Default("auto").Advanced(),
	}
}

func tableFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringListField(fieldTables).
			Description("The tables, as `schema.name`. `*` stands for any characters, `?` for one, also in the schema; names are compared ignoring case unless two tables differ in case only. An entry that begins with `!` takes tables out. Tables that appear while the input runs are picked up after `tables_refresh_interval`. An entry without a star must match.").
			Example([]string{"dbo.orders"}).Example([]string{"sales.*", "!sales.audit_*"}),
		service.NewObjectListField(fieldTableOverrides,
			service.NewStringField(overrideTable).Description("Which tables: a pattern as in `tables`. The first entry that matches counts."),
			service.NewStringField(overrideInstance).Description("The capture instance to read, and to stay with. By default the oldest that covers the start, and from the start of a newer one on that one.").Default(""),
			service.NewStringListField(overrideInclude).Description("Only these captured columns.").Default([]any{}),
			service.NewStringListField(overrideExclude).Description("Not these captured columns.").Default([]any{}),
			service.NewStringMapField(overrideTypes).Description("Column to SQL Server type: what to convert the column to, on the server. This is the way to read types that are refused, such as `sql_variant`: `nvarchar(max)`.").Default(map[string]any{}),
			service.NewStringListField(overrideKeys).Description("The columns that identify a row, where the capture instance has no unique index.").Default([]any{}),
			service.NewStringListField(overrideSnapshotKeys).Description("The columns that a snapshot is cut into chunks on, unique or not, where the table has no unique index or another one serves better. Without either the table is one chunk.").Default([]any{}),
			service.NewStringField(overrideStart).Description("As the field of the same name above.").Default(""),
		).Description("Settings that differ for some tables.").Default([]any{}).Advanced(),
		service.NewDurationField(fieldTablesInterval).Description("How often the list of tables is looked up again.").Default("1m").Advanced(),
	}
}

func runFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringField(fieldStartFrom).Default("earliest").
			Description("Where a table without a resume position starts: `earliest` (all that CDC still holds), `latest` (only what commits from now on), an LSN that counts as already processed (`0x0000002D00000A480003`), or a time (RFC 3339, `2026-11-30T12:00:00Z`). Tables that appear while the input runs start at `earliest`."),
		service.NewStringAnnotatedEnumField(fieldRun, map[string]string{
			runContinuous:   "Run until stopped.",
			runAvailableNow: "Read everything that is captured at the start, wait until it is acknowledged, and end. Where a snapshot is open, it is completed, with the changes that were captured until then.",
			runSnapshotOnly: "As with `stream_snapshot`, but end when every table was read whole, with the changes that were captured until then. Later runs of another kind go on from there. A table that has a resume position and no open snapshot is left as it is.",
		}).Description("When to end.").Default(runContinuous),
		service.NewStringAnnotatedEnumField(fieldFormat, map[string]string{
			formatRows:        "One message per row, for any processor and output.",
			formatRecordBatch: "One message per part of a window, for the `delta_lake` output.",
		}).Description("What a message is.").Default(formatRows),
		service.NewDurationField(fieldPollInterval).Default("1s").
			Description("The pause after a poll that found nothing new. It decides the latency, and how often a table with a trickle of changes gets a commit. A poll that finds nothing is one short statement; `100ms` is a fair choice where latency counts: a change is then in a Delta commit some milliseconds after the next poll."),
		service.NewDurationField(fieldIdleInterval).Default("5s").
			Description("How often, at most, the position of a table without changes moves on while the rest of the database commits.").Advanced(),
		service.NewStringAnnotatedEnumField(fieldOnTableError, map[string]string{
			onErrorStop:    "End the run.",
			onErrorIsolate: "Leave this table out from then on, go on with the others, and end as a failure when the run ends. The table's verdict stands still.",
		}).Description("What to do when one table cannot go on: data loss, a schema that does not fit, a missing permission.").Default(onErrorStop),
		service.NewStringAnnotatedEnumField(fieldOnDataLoss, map[string]string{
			lossFail:       "The table cannot go on: see `on_table_error`.",
			lossSkip:       "Go on at the oldest change that is left. The gap becomes an event in the facts, and the verdict is marked by it for good.",
			lossResnapshot: "Read the table whole again as with `stream_snapshot`, beside the changes from then on. The gap becomes an event, the verdict stands still until the snapshot is complete and is marked.",
		}).Description("What to do when the source no longer has changes that were not read yet: clean-up deleted them, or the capture instance was dropped. A database that was restored always fails: its positions belong to another history.").Default(lossFail),
		service.NewDurationField(fieldResnapshotInterval).Default("168h").
			Description("The least time between two snapshots of a table that losses ask for. A table that loses changes faster than it can be read would be read for ever.").Advanced(),
	}
}

func snapshotFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewBoolField(fieldStreamSnapshot).Default(false).
			Description("Whether a table without a resume position is read whole. Its rows come in chunks with operation `read` (0 in Delta) while its changes are streamed from the moment the snapshot was opened; `start_from` is not used. A restart goes on at the chunk where it stopped. The verdict stands still until the snapshot is complete."),
		service.NewBoolField(fieldSnapshotOnSwitch).Default(false).
			Description("Whether a table is read whole again when the stream goes on in a newer capture instance. Without it, rows that did not change since have NULL in the columns that it captures more.").Advanced(),
		service.NewStringAnnotatedEnumField(fieldSnapshotMode, map[string]string{
			snapshotChunked: "In chunks of its key, each as of the moment at which it is read. Resumable, and easy on the source however large the table is.",
			snapshotWhole:   "By one statement, at one moment, under SNAPSHOT isolation, which the database must allow: `ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON`. All rows carry the LSN at which the snapshot was opened; the event of its end has `exact: true` if nothing of the table was committed between that and the moment. It is one commit in Delta Lake, and begins again after a crash; the source keeps row versions for as long as it takes.",
		}).Description("How a table is read whole.").Default(snapshotChunked).Advanced(),
		service.NewIntField(fieldSnapshotParallelism).Default(2).
			Description("How many connections read source tables for snapshots: ranges of one chunk at once, and the beginning of the next chunk while one is handed out. Chunks leave in order, of one table after the other.").Advanced().
			LintRule(`root = if this < 1 || this > 64 { [ "must lie in 1 to 64" ] }`),
		service.NewDurationField(fieldSnapshotMinHeadroom).Default("0s").
			Description("While CDC clean-up is closer than this behind the changes of a table that were read, its snapshot pauses until they are all read. 0 is never.").Advanced(),
		service.NewIntField(fieldSnapshotChunkRows).Default(250_000).
			Description("About how many rows a chunk has. A chunk is one commit in Delta Lake.").Advanced().
			LintRule(`root = if this < 1 { [ "must be at least 1" ] }`),
		service.NewStringAnnotatedEnumField(fieldSnapshotIsolation, map[string]string{
			isolationReadCommitted: "Each chunk waits for the locks of writers, for up to `lock_timeout`. Needs nothing in the database.",
			isolationSnapshot:      "Chunks read row versions and wait for nobody. The database must allow it: `ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON`.",
		}).Description("How chunks are read. Either way they are exact together with the changes.").Default(isolationReadCommitted).Advanced(),
	}
}

func positionFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringField(fieldCheckpointCache).
			Description("A cache resource for the resume positions. Use `atomic_file`, or any cache that keeps what it was given.").Example("position"),
		service.NewStringField(fieldCheckpointKey).Default(Name).
			Description("Prefix of the keys in that cache. Two inputs must not share cache and key."),
		service.NewIntField(fieldCheckpointLimit).Default(1024).
			Description("How many messages may be on their way without acknowledgement. One part goes out whatever its size.").Advanced().
			LintRule(`root = if this < 1 { [ "must be at least 1" ] }`),
		service.NewBoolField(fieldRequireCommit).Default(true).
			Description("Format `record_batch` only: an acknowledgement counts only if a `delta_lake` output has marked the batch. Without a mark a processor has dropped the batch or a buffer has acknowledged early; the run then ends as a failure. Set it to `false` for other outputs.").Advanced(),
	}
}

func windowFields() []*service.ConfigField {
	positive := `root = if this < 0 { [ "must not be negative" ] }`
	return []*service.ConfigField{
		service.NewIntField(fieldMaxCommits).Description("At most so many commits of a table in one window; 0 is no limit.").Default(0).Advanced().LintRule(positive),
		service.NewIntField(fieldMaxRows).Description("A window ends at the commit that reaches so many rows; 0 is no limit. A window is one commit in Delta Lake.").Default(1_000_000).Advanced().LintRule(positive),
		service.NewIntField(fieldMaxBytes).Description("A window ends at the commit that reaches so many bytes; 0 is no limit.").Default(256 << 20).Advanced().LintRule(positive),
		service.NewIntField(fieldPartRows).Description("Rows in one part, which is one message of format `record_batch` or one batch of messages of format `rows`. 0 chooses 16384 or 4096.").Default(0).Advanced().LintRule(positive),
		service.NewIntField(fieldPartBytes).Description("Bytes in one part. Together with `max_parallel_reads` this bounds the memory: about 14 parts are on their way at a time.").Default(1 << 20).Advanced().LintRule(`root = if this < 1 { [ "must be at least 1" ] }`),
		service.NewIntField(fieldParallelReads).Description("How many statements read change tables at once: several tables, or several ranges of one big window.").Default(2).Advanced().LintRule(`root = if this < 1 || this > 64 { [ "must lie in 1 to 64" ] }`),
	}
}

func rowFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewBoolField(fieldIncludePosition).Description("Format `rows` only: whether messages carry `seqval` and `command_id`. They cost about 1 µs a row and make the row's identity.").Default(true).Advanced(),
		service.NewBoolField(fieldIncludeMarkers).Description("Format `rows` only: whether the end of every window is a message of its own, with an empty object as body and metadata `marker: window_end`.").Default(false).Advanced(),
	}
}
