// Package reconcile proves that a Delta table holds what its source table holds: it reads both, joins them on the key, and
// tells what is missing, too much, doubled or different from what has only not arrived yet.
//
// # What is compared
//
// A table of kind [Bronze] is compared by the latest image of each key: of the rows of its newest snapshot and the changes
// after that, the last in the order of [mssqlcdc.Position]; a delete, or the row before an update, says that the key is gone. A table
// of kind [Current] has one row per key already.
//
// # How
//
// The source is read once, in key order, in buckets whose bounds the server decides. Rows of both sides are brought into one
// canonical form here, in Go: no order, equality or hash of one engine is compared with one of another. So it works for keys of every
// type and collation, for composite keys and for keys that only one side has. A row becomes a digest of its key and one of its values,
// 128 bits of SHA-256 each; the digests are partitioned by the key's, spilled to a file when there are many, and joined partition by
// partition. Memory does not grow with the tables.
//
// # The canonical form
//
//   - A value is equal only to the same value: text byte by byte, with its letter case and its trailing spaces; binary byte by byte.
//     Both sides hold what the server stored, so no collation has a say.
//   - Integers of all widths are equal by value, and to decimals; decimals of different scales by value.
//   - real and float by their bits, but -0 is 0. A real in a column of type double is the double that it widens to.
//   - Times are cut to microseconds, a datetimeoffset is its instant, a date in a timestamp column is its midnight. time, xml and
//     uniqueidentifier are the texts that the reader gives.
//   - NULL equals NULL, in keys too.
//
// Two keys of the source that differ only below the microsecond are one key here, which is told (KEY_NOT_UNIQUE) and not guessed about.
//
// # In flight or wrong
//
// The table holds every change up to its position P, which is asked for before anything is read. A key that differs is wrong only if
// CDC has no change of it after P, up to an H that lies above everything that the read of the source can have seen: capture has
// passed the server's clock after the read. Keys with such a change are in flight. They are looked at again once the table has passed
// their change: it must then hold the image that the change table has of them. So a lagging stream and a source under load are never
// reported as wrong, and a key that was lost in between is.
//
// Nothing is written but the report, in one commit at the end, and nothing is left where a run is killed.
package reconcile
