// Package output is the delta_lake output: record batches of the mssql_cdc input
// into Delta Lake tables, each change exactly once, with a facts table beside
// them; and ordinary rows from any other input.
//
// It is thin. What it decides is what a message is, which table it goes to, what
// is done again after an error, and in which order the things after a commit
// happen. The work is in package bronze (windows of changes), package facts (the
// facts table), package rows (ordinary rows) and, below those, package delta. None
// of them knows Benthos.
//
// Importing the package registers the output with the global environment; use
// [Register] for one of your own.
package output
