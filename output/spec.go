package output

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// The fields. Where Redpanda Connect's iceberg output has the same thing, it has
// the same name.
const (
	doFieldPath              = "path"
	doFieldAppID             = "app_id"
	doFieldFactsPath         = "facts_path"
	doFieldFactsInterval     = "facts_interval"
	doFieldIdleFactsInterval = "idle_facts_interval"
	doFieldAfterCommit       = "after_commit"
	doFieldAdopt             = "adopt"
	doFieldDelivery          = "delivery"
	doFieldBatchKey          = "batch_key"
	doFieldSchema            = "schema"
	doFieldName              = "name"
	doFieldType              = "type"
	doFieldNullable          = "nullable"
	doFieldComment           = "comment"
	doFieldSchemaEvolution   = "schema_evolution"
	doFieldEnabled           = "enabled"
	doFieldOnTypeChange      = "on_type_change"
	doFieldColumnMapping     = "column_mapping"
	doFieldPartitionBy       = "partition_by"
	doFieldTableComment      = "table_comment"
	doFieldColumnComments    = "column_comments"
	doFieldTableProperties   = "table_properties"
	doFieldParquet           = "parquet"
	doFieldCompression       = "compression"
	doFieldEncodings         = "encodings"
	doFieldRowGroupRows      = "row_group_rows"
	doFieldRowGroupBytes     = "row_group_bytes"
	doFieldTargetFileBytes   = "target_file_bytes"
	doFieldCommitTimeout     = "commit_timeout"
	doFieldMaxOpenTables     = "max_open_tables"
	doFieldBatching          = "batching"
	doFieldMaxInFlight       = "max_in_flight"
)

// Values of enumerations.
const (
	deliveryExactlyOnce = "exactly_once"
	deliveryAtLeastOnce = "at_least_once"

	adoptRefuse = "refuse"
	adoptFacts  = "facts"
)

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Beta().
		Version("0.1.0").
		Categories("Services").
		Summary("Writes change data of SQL Server into Delta Lake tables, each change exactly once, and rows of any other input too.").
		Description(description).
		Fields(targetFields()...).
		Fields(factsFields()...).
		Fields(rowFields()...).
		Fields(tableFields()...).
		Field(storage.Field()).
		Fields(engineFields()...).
		LintRule(lintTogether).
		Example("One table with facts and a verdict", "Changes of one table, the facts beside it, and the time up to which the table is complete.", exampleOne).
		Example("Many tables", "One output routes every table of the input to a folder of its own. They share the facts table and the verdicts.", exampleMany).
		Example("Columns that change their type", "A column that outgrows its type is widened in the table; the facts say when. Readers must know type widening then: Spark 4 and DuckDB do, for delta-rs and Polars take `new_column`.", exampleTypes).
		Example("Rows of another input", "Any JSON becomes a table. The schema is inferred, and new columns are added as they come.", exampleRows).
		Example("Rows exactly once", "With a number that rises from batch to batch, a batch that is sent again is recognised.", exampleKeyed)
}

func targetFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewInterpolatedStringField(doFieldPath).
			Description("Where the table is, made if it is not there: " + storage.PathHelp + ". With interpolation the output is a router: every value is a table of its own, and the functions see the metadata `table` and `database_schema` of the input.").
			Example("/data/lake/orders").
			Example("s3://lake/orders").
			Example(`/data/lake/${! @database_schema }/${! @table }`),
		service.NewInterpolatedStringField(doFieldAppID).
			Description("The name of this writer, for the life of the table; required for record batches and for `batch_key`. The table's log remembers under it how far the table is. Two pipelines must not write one table under one name: the second commit stops one of them. Changing it makes a table with rows look like somebody else's (see `adopt`). One name may serve many tables.").
			Default("").
			Example("orders-pipeline"),
		service.NewStringField(doFieldAdopt).
			Description("What to do with a table that has rows and no position of this `app_id`: `refuse` it; take it over at the LSN up to which it holds every change; or take it over at the end that `facts` record, as a table of mssql-cdc-pyspark has them. Only the first start looks at it.").
			Default(adoptRefuse).
			LintRule(lintAdopt).
			Example("0x0000002A000001F80003").
			Advanced(),
		service.NewProcessorListField(doFieldAfterCommit).
			Description("Processors that run on a message whose window was committed, or was in the table already; the place for `finalize` and `apply_changes`, in this order. They run one by one. The first error on a message ends the chain and fails the write, and the window, sent again, is skipped and runs them again. What they make of the message is dropped.").
			Default([]any{}).
			Example([]any{map[string]any{"finalize": map[string]any{"control_path": "/data/lake/control", "granularity": "hour"}}}),
	}
}

func factsFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringField(doFieldFactsPath).
			Description("The folder or URI of the facts table, one row per window and per event (see Facts). Empty writes none. Many outputs and pipelines can share one.").
			Default("").
			Example("/data/lake/facts"),
		service.NewDurationField(doFieldFactsInterval).
			Description("How often collected facts are written. Each time is a commit of the facts table. Events are written before their window is acknowledged, and everything is when the output closes.").
			Default("10s").
			Advanced(),
		service.NewDurationField(doFieldIdleFactsInterval).
			Description("A table without changes gets a facts row at most this often.").
			Default("5m").
			Advanced(),
	}
}

func rowFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringAnnotatedEnumField(doFieldDelivery, map[string]string{
			deliveryExactlyOnce: "Changes of `mssql_cdc` must come as record batches (`format: record_batch`), which are written exactly once. Its `format: rows` is refused.",
			deliveryAtLeastOnce: "Changes in `format: rows` are taken like any other rows: a restart can double them. Their identity is (`lsn`, `seqval`, `operation`).",
		}).
			Description("What is promised for changes of `mssql_cdc`. Rows of other inputs are written at least once in either case, or exactly once with `batch_key`.").
			Default(deliveryExactlyOnce),
		service.NewInterpolatedStringField(doFieldBatchKey).
			Description("For ordinary rows: a whole number that rises from batch to batch, such as an offset. Messages in a row with the same number are one commit, which the table remembers under `app_id`; a batch with that number or a lower one is skipped when it comes again.").
			Optional().
			Advanced().
			Example("${! @kafka_offset }"),
		service.NewObjectListField(doFieldSchema,
			service.NewStringField(doFieldName).Description("Name of the column."),
			service.NewStringField(doFieldType).Description("`string`, `long`, `integer`, `short`, `byte`, `float`, `double`, `boolean`, `binary`, `date`, `timestamp`, `timestamp_ntz` or `decimal(p,s)`.").
				Example("decimal(18,2)"),
			service.NewBoolField(doFieldNullable).Description("Whether the column may be null.").Default(true),
			service.NewStringField(doFieldComment).Description("A comment on the column.").Default(""),
		).
			Description("For ordinary rows: the columns. Empty infers them: whole numbers are `long`, others `double`, timestamps `timestamp`, bytes `binary`, and objects and lists are stored as text of JSON. The schema of record batches comes with them.").
			Default([]any{}),
		service.NewObjectField(doFieldSchemaEvolution,
			service.NewBoolField(doFieldEnabled).
				Description("Whether columns that the table does not have are added to it, at the end and nullable. If not, rows with such columns are refused.").
				Default(true),
		).Description("What happens when rows bring other columns than the table has."),
		service.NewStringAnnotatedEnumField(doFieldOnTypeChange, map[string]string{
			string(target.Fail):      "The run ends with an error that names the column, both types and what can be done.",
			string(target.Widen):     "The table's column takes the wider type where Delta can do that without writing files anew: `byte` to `short` to `integer` to `long`, those but `long` to `double`, `float` to `double`, whole numbers to a `decimal` with room for them, a `decimal` to one with as many digits or more on both sides of the point, `date` to `timestamp_ntz`. The table then has the feature `typeWidening`: Spark 4 and DuckDB read it, delta-rs and Polars do not. Any other change ends the run.",
			string(target.NewColumn): "The values go to a new column with the name of the old one, two underscores and the type, such as `amount__decimal_18_2` or `note__string` (and a number if there is such a column), and the old one is NULL from then on. The new column's metadata say where its values come from (`rpconnect.source_column`), so that every later run goes on like that. If the type changes again, the values go to the newest of these columns that takes them.",
		}).
			Description("What happens when a column's type has changed such that the table's column does not take its values. Values that do fit, such as those of an `integer` in a `long`, are converted and change nothing. Each change is an event `schema_change` in the facts. It applies to record batches and to rows with a declared `schema`; rows with an inferred one are stored in the types that the table has.").
			Default(string(target.Fail)),
		service.NewStringAnnotatedEnumField(doFieldColumnMapping, map[string]string{
			string(target.MapAuto):   "A new table has column mapping if one of its columns needs it. A table that exists is not changed: a new column with such a name is refused.",
			string(target.MapNone):   "Such names are refused.",
			string(target.MapByName): "Every new table has column mapping, and a table that exists gets it with the first column that needs it.",
		}).
			Description("Delta allows a space and any of `,;{}()=`, tab and line feed in the name of a column only in tables with column mapping (`delta.columnMapping.mode` is `name`), whose files have other names inside. Spark and delta-rs read these; Polars does not, pyarrow readers of delta-rs see NULL only, and DuckDB sees NULL in their partition columns. Tables that have it keep it.").
			Default(string(target.MapAuto)).
			Advanced(),
	}
}

func tableFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringListField(doFieldPartitionBy).
			Description("Columns to partition new tables by, in their order. `date(_commit_ts)` stands for the date of the commit time, which becomes the column `_commit_date`. Tables that exist keep theirs.").
			Default([]any{}).
			Example([]any{"date(_commit_ts)"}).
			Advanced(),
		service.NewStringField(doFieldTableComment).
			Description("A comment for new tables.").
			Default("").
			Advanced(),
		service.NewStringMapField(doFieldColumnComments).
			Description("Comments on columns of new tables, and on columns that are added, by name. Metadata columns have one, and captured columns their type in SQL Server.").
			Default(map[string]any{}).
			Example(map[string]any{"customer_id": "Key of dbo.customers"}).
			Advanced(),
		service.NewStringMapField(doFieldTableProperties).
			Description("Properties of new tables, `delta.` ones and your own.").
			Default(map[string]any{}).
			Example(map[string]any{"delta.checkpointInterval": "50"}).
			Advanced(),
		service.NewObjectField(doFieldParquet,
			service.NewStringEnumField(doFieldCompression, "", "zstd", "snappy", "uncompressed").
				Description("Compression of data pages. Empty takes the table property `delta.parquet.compression.codec`, and `zstd` if there is none.").
				Default(""),
			service.NewStringAnnotatedEnumField(doFieldEncodings, map[string]string{
				"plain":   "Plain and dictionary encoding, which every reader knows.",
				"compact": "Delta encodings for numbers, times and text too: smaller files, for readers of Parquet 2 (Spark 3.3, DuckDB, delta-rs).",
			}).
				Description("Encodings of data pages.").
				Default("plain"),
			service.NewIntField(doFieldRowGroupRows).
				Description("Rows after which a row group ends.").
				Default(131072),
			service.NewIntField(doFieldRowGroupBytes).
				Description("Bytes in memory after which a row group ends, if that is sooner. This bounds the memory of a table that is being written.").
				Default(16<<20),
			service.NewIntField(doFieldTargetFileBytes).
				Description("Bytes after which a file ends. A commit has one file at least, per partition.").
				Default(128<<20),
		).Description("How data files are written.").Advanced(),
	}
}

func engineFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewDurationField(doFieldCommitTimeout).
			Description("How long one attempt to commit may take, lost races included. After it the output pauses and tries again.").
			Default("2m").
			Advanced(),
		service.NewIntField(doFieldMaxOpenTables).
			Description("How many tables a router keeps open. The one least recently written to is closed for another, unless a window of it is being staged.").
			Default(64).
			Advanced(),
		service.NewIntField(doFieldMaxInFlight).
			Description("Always 1: changes are written in order. Overlap comes from the input reading ahead and from encoding in the background.").
			Default(1).
			LintRule(`root = if this != 1 { [ "max_in_flight must be 1: the order of changes needs it" ] }`).
			Advanced(),
		service.NewBatchPolicyField(doFieldBatching),
	}
}

// The lint rules see the config as it is written, without defaults.
const (
	lintAdopt = `root = if this.type() != "string" || !this.re_match("^(refuse|facts|(0[xX])?[0-9a-fA-F]{1,20})$") { [ "want refuse, facts, or an LSN such as \"0x0000002A000001F80003\" in quotes" ] }`

	lintTogether = `root = [
  if this.batching.count.or(0) > 1 && this.batching.period.or("") == "" { "batching.count without batching.period never writes the last messages of an input that ends: set a period" },
  if this.batching.check.or("") != "" && this.batching.period.or("") == "" { "batching.check without batching.period never writes the last messages of an input that ends: set a period" },
  if this.batching.byte_size.or(0) > 0 { "batching.byte_size writes every message as JSON only to weigh it: use batching.count and batching.period" },
  if this.exists("batch_key") && this.app_id.or("") == "" { "batch_key needs app_id, which names the writer that the keys belong to" },
  if this.on_type_change.or("fail") != "fail" && !this.schema_evolution.enabled.or(true) { "on_type_change changes the table, and schema_evolution.enabled is false: allow it, or set on_type_change to fail" },
  if this.adopt.or("") == "facts" && this.facts_path.or("") == "" { "adopt: facts needs facts_path, the facts table of the pipeline that is taken over" },
]`
)
