package output

const description = `
Takes record batches of the ` + "`mssql_cdc`" + ` input (` + "`format: record_batch`" + `) and writes them as a log of changes: the captured columns, and beside them ` + "`_operation`" + ` (1 delete, 2 insert, 3 and 4 the row before and after an update), ` + "`_start_lsn`" + `, ` + "`_seqval`" + `, ` + "`_command_id`" + `, ` + "`_commit_ts`" + ` (UTC), ` + "`_capture_instance`" + ` and ` + "`_batch_id`" + `. The order of changes is (` + "`_start_lsn`" + `, ` + "`_command_id`" + `, ` + "`_seqval`" + `, ` + "`_operation`" + `).

Objects of any other input become rows of a table too.

== Delivery guarantees

A window of changes is one commit of the table, however large. The commit carries the window's end, so the table itself knows how far it is: a window that comes again is skipped or trimmed, whether the process crashed, the answer of the store was lost, or the input starts from an older position and cuts its windows differently. A window that would leave a gap is refused and names both positions. Two writers under one ` + "`app_id`" + ` find each other out at their next commit.

The input moves its resume position only after the commit. What happens in between, in this order: the data files, the commit of the table, the facts of events, ` + "`after_commit`" + `, and then the acknowledgement.

Errors of the store are retried here, in order, until they pass or the stream stops. What cannot pass (another writer, a column that changed its type (see ` + "`on_type_change`" + `), a table that is behind) ends the run with a message that says what to do.

Ordinary rows are written at least once, or exactly once with ` + "`batch_key`" + `.

== What is refused

A message that failed in a processor; a record batch whose rows a mapping replaced (wrap row processors in ` + "`each_row`" + `, or read ` + "`format: rows`" + `); a list of record batches (` + "`archive`" + `); changes in ` + "`format: rows`" + ` unless ` + "`delivery`" + ` is ` + "`at_least_once`" + `; a table with rows that ` + "`app_id`" + ` did not write (see ` + "`adopt`" + `); a table of another source. Nothing is dropped silently.

== Stores

A path is a folder, a URI an object store: ` + "`s3://`, `gs://`, `abfss://` or `az://`" + `. Commits are conditional writes there, so any number of writers may share a table. What an object store needs to be reached is found in the environment or set in ` + "`storage`" + `. A server of S3's protocol that ignores the condition is found out at the start and refused. Requests that fail are repeated, and a commit whose answer was lost is read back: it is neither lost nor made twice.

== Facts

With ` + "`facts_path`" + ` each window leaves a row: when it was read and written, how many rows of which operation, its range of LSNs and commit times, what reading cost, how far the source's retention is away, and how far the table is behind. Events (changes skipped, DDL, a new capture instance, a table taken over) have rows with ` + "`event`" + ` set. Rows that a crash kept from the table are written at the next start, from the log of the data table. Filter ` + "`event IS NULL`" + ` for statistics of windows.

== Schema

The table is made with the first rows. New columns are added at the end, and older rows have NULL there; dropped ones stay and get NULL. A changed type ends the run, unless ` + "`on_type_change`" + ` widens the column or goes on in a new one. A column whose name has a space or any of ` + "`,;{}()=`" + ` needs ` + "`column_mapping`" + `.

== Performance

Parts of a window are encoded in the background while the next ones are read. One window per table is open at a time, and one row group of it is in memory (` + "`parquet.row_group_bytes`" + `), whatever the size of the window. How often a table gets a commit is decided by the input (` + "`poll_interval`" + ` and its limits of a window), not by batching here. Use ` + "`pipeline.threads: 1`" + `: more of them reorder messages, which is refused and sent again.

== Metrics

` + "`delta_lake_rows_total`, `delta_lake_commits_total`, `delta_lake_commit_latency_ns`, `delta_lake_files_total`, `delta_lake_bytes_total`, `delta_lake_skipped_windows_total`, `delta_lake_trimmed_rows_total`, `delta_lake_retries_total`, `delta_lake_staged_parts`, `delta_lake_position_timestamp_seconds`" + ` (the commit time that the table has reached), each with the label ` + "`table`, and `delta_lake_facts_rows_total`" + `.
`

const exampleOne = `
output:
  delta_lake:
    path: /data/lake/orders
    app_id: orders-pipeline
    facts_path: /data/lake/facts
    after_commit:
      - finalize:
          control_path: /data/lake/control
          granularity: hour
`

const exampleMany = `
output:
  delta_lake:
    path: /data/lake/${! @database_schema }/${! @table }
    app_id: sales-pipeline
    facts_path: /data/lake/facts
    partition_by: [ date(_commit_ts) ]
`

const exampleTypes = `
output:
  delta_lake:
    path: /data/lake/orders
    app_id: orders-pipeline
    facts_path: /data/lake/facts
    on_type_change: widen
`

const exampleRows = `
input:
  generate:
    count: 1000
    interval: ""
    mapping: |
      root.id = counter()
      root.seen_at = now().ts_parse("2006-01-02T15:04:05.999999999Z07:00")
output:
  delta_lake:
    path: /data/lake/events
    batching:
      count: 10000
      period: 5s
`

const exampleKeyed = `
output:
  delta_lake:
    path: /data/lake/clicks
    app_id: clicks-loader
    batch_key: ${! @batch_number }
    schema:
      - { name: id, type: long, nullable: false }
      - { name: amount, type: "decimal(18,2)" }
      - { name: clicked_at, type: timestamp }
`
