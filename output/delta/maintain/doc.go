// Package maintain keeps Delta tables in shape:
//
//   - [Optimize] packs small files into larger ones, and rewrites files of which a
//     deletion vector has deleted much.
//   - [CleanLog] deletes commits and checkpoints that are older than the table
//     wants to keep its history.
//   - [Vacuum] deletes data files that no version within the retention needs.
//   - [Inspect] tells what a table consists of, and which of these it wants.
//   - [Auto] does the first two, and the third where asked to, in the background
//     of a table that is being written to.
//
// None of them changes a row that a reader of the newest version sees, and none
// deletes what the newest version needs. Each can be stopped at any moment and
// started again: what a crash leaves behind is a readable table and, at worst,
// files that nobody names, which a vacuum takes.
//
// Table properties say what a table wants: delta.logRetentionDuration,
// delta.deletedFileRetentionDuration, delta.targetFileSize,
// delta.autoOptimize.autoCompact, delta.enableExpiredLogCleanup.
package maintain
