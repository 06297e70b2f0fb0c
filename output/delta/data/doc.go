// Package data is the part of a Delta table outside its log: it writes Arrow record
// batches to Parquet files and tells, for each file, what the log's add action must
// say about it; and it reads such files, also those of other writers, back to Arrow.
//
// # Writing
//
// A [Writer] takes batches and cuts them into files, one at a time, or one at a time
// per partition. Files are complete and durable in the store when [Writer.Close] or
// [Writer.Flush] returns them, and not before; until they are named by a commit they are
// nothing. The working set of a Writer is small and does not depend on how much goes
// through it: values are encoded when they come, pages are compressed when they are full,
// and a row group is written when it has RowGroupRows rows or RowGroupBytes bytes.
//
// The files are what every Delta reader takes: data pages of version 1, zstd, plain or
// dictionary encoding, decimals of up to 18 digits as integers, timestamps in
// microseconds, no Arrow schema, no key-value metadata.
//
// Pages are encoded here and not by the Parquet library's own writer, which takes about
// twice the processor time and twenty times the allocations for the same rows
// (BenchmarkWriter against BenchmarkLibraryWriter): values are copied once from Arrow
// memory into the page, a column of few values or of long runs becomes a dictionary whose
// every value is looked at once, and bounds come from the same pass. The library writes
// the page headers and the footer, and it reads.
//
// Values of a type that fits into the table's are converted to it: a table may have been
// widened since their source was read. Under column mapping a file has the physical names
// and the field ids of its columns, and so have statistics, partition values and folders.
//
// # Statistics
//
// Statistics are exact or absent: for every row of the file and every column in
// minValues and maxValues, min <= value <= max in the order of Delta (NaN above all,
// strings by their bytes). Strings are cut to 32 characters and timestamps to
// milliseconds, always outwards, but for the last millisecond of the year 9999, which is
// written with all its digits.
//
// # Reading
//
// [ReadFile] streams the rows of one file in the shape of the table: columns that the
// file does not have are NULL, types that a column was widened from are converted,
// partition values are put in, the rows of a deletion vector are left out, and under column
// mapping columns are found by their physical names or field ids, at any depth.
//
// Files may be of any writer: INT96 timestamps, decimals as integers or byte arrays of
// fixed or other length, lists and maps in their old encodings. One limit: an INT96
// timestamp inside of a list, map or struct is read only within the years 1678 to 2261;
// outside of them the file is an error.
package data
