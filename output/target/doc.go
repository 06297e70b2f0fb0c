// Package target is one Delta table that an output writes to: it opens the
// table or makes it once the schema is known, says how rows fit and what they
// would change in it, and writes files for rows that may have more columns, or
// wider ones, than the table has yet.
//
// # Types that change
//
// A column of the rows goes to the newest of the table's columns that hold its
// values and take its type: the one of its name, and those whose metadata
// rpconnect.source_column name it. Where none takes it, [OnTypeChange] says whether
// that is an error, the newest column is widened, or a new column is made, called
// <name>__<type>, with _2, _3 … behind it while there is such a column. All of that is
// decided by the table's schema and the rows' alone, so that a later run, and another
// process, decide alike.
//
// Files are written before the commit that changes the schema. If the table was changed
// in between, [Target.Rebase] says whether they still fit; under column mapping it may
// be that they must be written again.
//
// It decides nothing about what a commit means. Packages bronze, facts and rows
// build on it.
package target
