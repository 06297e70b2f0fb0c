// Package input is the mssql_cdc input plugin: SQL Server Change Data Capture as
// Benthos messages, one per row or one per record batch.
//
// It is thin. Package sqlserver reads, package checkpoint keeps the resume
// position; this package decides which table is read next, numbers the parts,
// makes messages of them and moves a table's position when a window was
// acknowledged whole.
//
// # How it runs
//
// Connect opens the client, chooses the tables, loads their resume positions and
// starts a stream, one goroutine that lives until Close. The stream polls
// max_lsn once for all tables, finds out which of them moved, plans a window for
// each of those in turn and lets a few reads run at once. Whatever runs at once,
// the parts of one window leave together and windows leave in the order in
// which they were started, so a sink has one open window at a time.
//
// A window is resolved when all its parts were acknowledged (and, for record
// batches, marked by a sink). A table's resume position moves over resolved
// windows in order only. After a nack the stream lets everything in flight settle,
// goes back to the resume positions and sends again.
//
// # Endings
//
// A condition that trying again cannot cure ends the run, or with
// on_table_error: isolate the table. In rpconnect-mssqlcdc it goes into the
// [mssqlcdc.RunState] and the input ends; the program then exits with a code
// that is not 0. In another program an ended input would look like success: there
// the input stays connected-failing and says why.
package input
