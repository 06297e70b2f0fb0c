// Package bronze writes windows of change rows into a Delta table, each exactly
// once, whatever is sent again and however it is cut the second time.
//
// # What a commit holds
//
// A window is one Delta commit, however many parts it came in. Beside the files
// it carries
//
//   - a fenced transaction of the application id, whose version is the batch id:
//     one more than the last one in the log. A second writer with the same
//     application id loses its next commit and stops;
//   - the position: the commit LSN of the window's end, in two transactions
//     <app_id>#lsn.hi and <app_id>#lsn.lo (see [mssqlcdc.LSN.Parts]), which are
//     only read and never compared;
//   - with the last chunk of a snapshot, that the table has the snapshot whole
//     ([mssqlcdc.TxnSnapshotHi]);
//   - the window's [mssqlcdc.Fact] and its events as JSON in userMetadata, from
//     which rows of the facts table are rebuilt after a crash.
//
// The log of the table is thus the only truth about what was written. Transactions
// survive checkpoints and log clean-up and need no table feature. The property
// [mssqlcdc.PropKeyColumns] names the columns of the source's unique index.
//
// # What happens to a window
//
// One that ends at or below the position is skipped. One that reaches over it is
// trimmed row by row, by commit LSN: windows are cut on commit boundaries, so a
// commit is in the table whole or not at all. One whose predecessor with rows
// (PrevDataLSN) lies above the position is refused: it would be committed over a
// gap. One without rows commits nothing.
//
// Parts before the last are staged: they are encoded on a goroutine into files
// that no commit names. Part 0 of a window discards what is staged, so a window
// that was given up half-way starts anew there.
//
// # Columns
//
// Captured columns are added to the table as they come. A type that the table's column
// does not take is dealt with by package target (OnTypeChange), and leaves an event
// schema_change whose detail is JSON: column, from, to, text and, where there is one,
// new_column. The metadata columns never change their types.
//
// # Use
//
// [Open] reads the position. [Table.Write] takes the parts in order, from one
// goroutine; after an error, [Decide] says what to do with the same part. Nothing
// here logs or retries.
package bronze
