// Package target is one Delta table that an output writes to: it opens the
// table or makes it once the schema is known, says whether rows fit and which
// columns they would add, and writes files for rows that may have more columns
// than the table has yet.
//
// It decides nothing about what a commit means. Packages bronze, facts and rows
// build on it.
package target
