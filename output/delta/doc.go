// Package delta reads and writes Delta Lake tables in pure Go.
//
// A table is a folder of Parquet files and a log, _delta_log, that says which of
// them count. One file of the log is one version of the table; a commit is the
// creation of the next file, and succeeds only if nobody created it first. The
// rules are those of Delta's PROTOCOL.md; the section names below refer to it.
//
// The pieces:
//
//   - Table is an opened table. It holds the newest Snapshot it has seen and
//     commits Changes. It may be used from many goroutines.
//   - Snapshot is one version of a table, immutable and cheap: it does not hold
//     the list of files, so its size does not grow with the table.
//   - Change is one commit as a value. Commit has four outcomes: committed,
//     already applied, refused with a reason (ConflictError, FencedError,
//     FeatureError), and unknown. An unknown outcome is read back first, so it
//     reaches the caller only when reading back failed too.
//   - Every table feature is honoured or refused by name; see gate.go.
//
// A table can be read at its newest version, at any version that its log still
// reaches (Table.At), and as of a time (Table.AtTime). Table.Read gives the rows,
// with deletion vectors, column mapping and widened types applied;
// ReadOptions.Prune leaves out files by their statistics. Snapshot.Verify compares
// a version with its checksum file.
//
// A schema changes by a Change with new Metadata, which schema.Evolution.Merge makes of the
// table's and the rows': new columns, wider types (feature typeWidening), relaxed
// nullability. Whatever old files could not follow is refused. With column mapping, new
// columns get their physical names and ids here, unless files come along that have them
// already (schema.Mapping.Assign).
//
// The data files are written and read by package data, deletion vectors are read
// by package dv, files are chosen by package prune, schemas are in package schema,
// the log's actions in package action, its files in package replay, and the places
// where tables live behind package store.
//
// This package does not log, and a Table has one goroutine at most: after commits it
// writes checkpoints and does the upkeep, which package maintain brings. Table.Close
// ends it.
package delta
