package processor

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

const (
	fieldBronze        = "bronze"
	fieldTarget        = "target"
	fieldBronzeTable   = "bronze_table"
	fieldKeys          = "keys"
	fieldMode          = "mode"
	fieldDeletes       = "deletes"
	fieldMergeStrategy = "merge_strategy"
	fieldColumns       = "columns"
	fieldExclude       = "exclude"
	fieldRename        = "rename"
	fieldFactsPath     = "facts_path"
	fieldEvery         = "every"
	fieldEveryCommits  = "every_commits"
	fieldTempDir       = "temp_dir"
	fieldProperties    = "properties"

	metaAppliedLSN  = "applied_lsn"
	metaAppliedRows = "applied_rows"
)

func applyChangesSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Beta().
		Categories("Utility").
		Summary("Builds the current table, or its whole history, from a table of changes.").
		Description(`
It reads the bronze table that a `+"`delta_lake`"+` output writes and merges what is new into a Delta table of its own. It never looks at the messages, so a call that is missed, comes twice or is cut off changes nothing
but when rows come: how far the table is lies in its own log, in the commit of the rows.

In the `+"`after_commit`"+` list of a `+"`delta_lake`"+` output, behind `+"`finalize`"+`, it works beside the stream: a failure of it is a log line and a metric and is tried again; the bronze table goes on. At the end of the stream it applies what
is left. In a pipeline of its own each message is one call, which it waits for: put a `+"`generate`"+` input in front, for example. The message gets the metadata `+"`applied_lsn`, `applied_rows` and `finalized_until`"+`.

### Keys

A row is told apart by the columns of the unique index that change data capture uses; the bronze table knows them. Other columns can be named with `+"`keys`"+`; NULL is a value of them like any other. A key column that changes its type
is an error: the table must be built anew.

### Current

The table is the source table as of the last commit applied, with `+"`_start_lsn` and `_commit_ts`"+` of each row's last change. Rows of a snapshot are applied chunk by chunk as they come; when the snapshot is complete, rows that are older than it
are deleted, since every key that it has got a newer one.

### History

Each image of each row has `+"`_valid_from`"+` and `+"`_valid_to`"+` (commit times in UTC, the end not included) and `+"`_is_current`"+`. Joins on commit LSNs are exact: an image was valid from `+"`_start_lsn`"+` up to `+"`_end_lsn`"+`. Images of a snapshot begin at the snapshot's LSN; where
the first change after it shows that they were another, they are corrected. Values of types that change data capture leaves out of images before an update ((max), text, image, xml) are taken from the image after it.

### Verdict

With `+"`control_path`"+` the table has a row of its own in the control table: `+"`finalized_until`"+` follows that of bronze once everything is applied. It stands still while a snapshot is open. Lost changes stay in the table until a snapshot replaces its rows,
so a gap lasts until then. `+"`rpconnect-mssqlcdc is-final --table …`"+` asks for it.

### Metrics

`+"`apply_changes_rows_total`, `apply_changes_merges_total`, `apply_changes_failures_total`, `apply_changes_latency_ns` and `apply_changes_finalized_until_seconds`"+`, by table.
`).
		Fields(
			service.NewInterpolatedStringField(fieldBronze).Description("Where the table of changes is: "+storage.PathHelp+". The same text as the output's `path`.").Example("./lake/orders").Example(`./lake/${! @table }`),
			service.NewInterpolatedStringField(fieldTarget).Description("Where the table to build is; it is made if there is none.").Example("./lake/silver/orders").Example(`./lake/silver/${! @table }`),
			service.NewStringAnnotatedEnumField(fieldMode, map[string]string{
				string(silver.Current): "The latest image of each key.",
				string(silver.History): "Every image of each key with the time it was valid (SCD type 2).",
			}).Description("What the table holds.").Default(string(silver.Current)),
			service.NewStringListField(fieldKeys).Description("Columns that tell rows apart. Empty: those of the source's unique index.").Default([]any{}).Example([]string{"order_id"}),
			service.NewStringAnnotatedEnumField(fieldDeletes, map[string]string{
				string(silver.Hard): "The row goes.",
				string(silver.Soft): "It stays, with `_deleted`. Values of the types text and image are NULL then.",
			}).Description("What becomes of the row of a deleted key, with mode current.").Default(string(silver.Hard)),
			service.NewStringAnnotatedEnumField(fieldMergeStrategy, map[string]string{
				"copy_on_write":    "Files that lose rows are written anew. Every reader takes the result.",
				"deletion_vectors": "Rows are marked as deleted, and only new ones are written. Less work in large tables; readers must know the table feature deletionVectors, and it cannot be taken back.",
			}).Description("How rows leave the files that hold them.").Default("copy_on_write"),
			service.NewObjectField(fieldColumns,
				service.NewStringListField(fieldExclude).Description("Columns to leave out.").Default([]any{}),
				service.NewStringMapField(fieldRename).Description("Other names for columns, by their names in the bronze table.").Default(map[string]any{}).Example(map[string]any{"cust_no": "customer_number"}),
			).Description("Which columns the table has.").Advanced(),
			service.NewStringField(fieldControlPath).Description("Where the control table is, for the table's verdict; the same as that of `finalize`. Empty: no verdict.").Default("").Example("./lake/_control"),
			service.NewInterpolatedStringField(fieldTable).Description("The name of the table's row in the control table.").Default(`silver.${! @database_schema }.${! @table }`),
			service.NewInterpolatedStringField(fieldBronzeTable).Description("The name of bronze's row in the control table, which is the field `table` of `finalize`.").
				Default(`${! @database_schema }.${! @table }`).Advanced(),
			service.NewStringField(fieldFactsPath).Description("Where the facts table is. Needed only for tables of mssql-cdc-pyspark, whose complete snapshots the bronze table does not know.").Default("").Advanced(),
			service.NewDurationField(fieldEvery).Description("How often the table is brought up to date at most, in `after_commit`.").Default("10s"),
			service.NewIntField(fieldEveryCommits).Description("Commits of bronze after which it is brought up to date, if that is sooner; 0: the time alone decides.").Default(0).Advanced(),
			service.NewStringMapField(fieldProperties).Description("Table properties, when the table is made.").Default(map[string]any{}).Advanced(),
			service.NewStringField(fieldTempDir).Description("A folder for batches that do not fit into memory. Empty: the system's.").Default("").Advanced(),
			storage.Field(),
		).
		Example("The current table beside its changes", "The verdict of the table follows that of its changes.", `
output:
  delta_lake:
    path: ./lake/orders
    app_id: orders
    after_commit:
      - finalize: { control_path: ./lake/_control, granularity: minute }
      - apply_changes:
          bronze: ./lake/orders
          target: ./lake/silver/orders
          control_path: ./lake/_control
`).
		Example("Once an hour, in a process of its own", "", `
input:
  generate:
    interval: 1h
    mapping: root = {}
pipeline:
  processors:
    - apply_changes:
        bronze: s3://lake/orders
        target: s3://lake/history/orders
        mode: history
        control_path: s3://lake/_control
        table: history.dbo.orders
        bronze_table: dbo.orders
output:
  drop: {}
`)
}
