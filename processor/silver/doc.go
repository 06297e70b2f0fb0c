// Package silver builds the current table of a source, or its whole history, from its
// bronze table, which holds every change and the rows of snapshots.
//
// # One call
//
// [Applier.Apply] pins a version of bronze, finds what is new in it, brings that into the
// table by merges, and moves the table's verdict. It depends on nothing but the two tables.
// How far the table is lies in transactions of its own log, in the commit of the last rows
// that it speaks of: the highest commit LSN applied, the newest snapshot that is complete,
// the one that is open and its last chunk, and the version of bronze. Every merge carries
// the next number of one sequence, so that of two calls that began on the same version one
// stops ([ErrOvertaken]) before it changes anything that the other has changed.
//
// A row of bronze is new if it is a change above the LSN applied, or of a snapshot, or a
// chunk of it, above the newest seen. Which files may have such rows is read from the
// commits since the version applied last, or told by statistics where the log does not
// have them any more.
//
// What is new is split by the hash of the key into slices that fit into memory, through
// files in a temporary folder where there are several, and merged slice by slice. A call
// that is cut off leaves some slices applied and progress where it was; the next one
// applies them again, up to the end, with the same result.
//
// # Current
//
// Of each key the newest row counts: by commit LSN, command, seqval and operation. A delete,
// and an image before an update without the one after it, which is an update that moved the
// row to another key, deletes its key. A row in the table gives way only to one with a higher
// commit LSN.
//
// What is read of bronze is always an end of it: all rows from the lowest new commit LSN on,
// not only the new ones. Rows of a snapshot come late: the deletion of a key may have been
// applied before the chunk comes that still has it, and deletions leave no trace.
//
// # Rebuild points
//
// A snapshot that is complete and newer than the last such one is a rebuild point: whatever
// the table has that is older than its S is deleted. That needs no list of the snapshot's
// keys: each of them has got a row at or above S, by the snapshot itself, whose rows are
// stamped at or above it, or by a change after it. So it holds for keys of every type and
// order, composite ones and those without an index.
//
// Complete is a chunked snapshot when bronze's log says so ([mssqlcdc.TxnSnapshotHi], in the
// commit of the last chunk), or, for tables of mssql-cdc-pyspark, when the facts table has
// its bootstrap or resnapshot event. A snapshot whose rows have no chunk was written by one
// commit and is complete by being there, whether an event followed or not: its rows are the
// source at S, and what bronze has after S applies on top of them. A switch of capture
// instances, a generation or a new resume position are no rebuild points of their own.
//
// # History
//
// Each image is one row. See timeline for how images of snapshots and changes go together;
// the table itself, not bronze, says what was valid before the new rows, so only these are
// read, and, the first time that rows of a snapshot show, the changes after its S once more:
// what they made of the table was made without knowing of it.
//
// # Verdict
//
// The table's row in the control table follows that of bronze, which is read before the
// version is pinned: rows are committed before the verdict that speaks of them. It is held
// while a snapshot is open. A gap in bronze lasts in the table until a complete snapshot
// whose first row was read after it; until then no period after its begin is final without
// a mark. A row that knows more than the table was written for a table that is gone, and
// begins anew.
//
// # Limits
//
// All rows of one key in one call are in memory together in mode history. Rows that a
// filter took out of bronze are not in the table. Where images before updates are filtered
// out, an image of a snapshot that was read late is not corrected.
package silver
