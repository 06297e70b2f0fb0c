// Package mssqlcdc is the vocabulary of rpconnect-mssqlcdc: the values that its
// three plugins (the mssql_cdc input, the delta_lake output and the finalize
// processor) and the libraries below them exchange. It imports the standard
// library and arrow-go only.
//
// Glossary. One word means one thing in code, configuration, metrics, logs and
// documents.
//
//   - LSN: a log sequence number of SQL Server, 10 bytes. The commit LSN
//     (__$start_lsn) is shared by all rows of a transaction.
//   - Position: where one change stands in the order of all changes.
//   - Capture instance: what sys.sp_cdc_enable_table makes; its rows lie in a
//     change table, cdc.<instance>_CT.
//   - Window: a closed interval of commit LSNs of one table, cut on a commit
//     boundary. It is read as one or more parts.
//   - Record batch: the message body that carries one part.
//   - Resume position: where the input continues after a restart.
//     ("Checkpoint" alone always means a checkpoint of a Delta log.)
//   - Batch id: the sequence number that the output gives a committed window.
//   - Fact: one row that says what a window was, or an event of the stream.
//   - Verdict: finalized_until, the time before which no further commit of the
//     source can arrive in the table.
//   - Generation: counts the snapshots that a stream was started anew from.
package mssqlcdc
