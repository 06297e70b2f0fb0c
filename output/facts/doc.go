// Package facts writes the facts table: one row per window of every target, and
// one per event, so that a query tells what a pipeline did, how far it is behind,
// and what was lost.
//
// Rows are collected and written together: one Delta commit per [Writer.Flush].
// Beside the rows it carries, for every key (an application and a table) with rows
// of data commits, the highest batch id among them. Rows at or below that
// watermark are never written again, so a row that a crash kept from the table can
// be given again from the log of the data table, and neither a second process nor
// a lost answer doubles it. Events are known by what they say: one that is in the
// table is not written twice.
//
// The columns are those of mssql-cdc-pyspark, in its order, and ours behind them,
// so that its tables are carried on.
package facts
