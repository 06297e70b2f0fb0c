// Package parse turns the text of a batch into the tree of package ast.
//
// The language is the subset of T-SQL that clients of change data capture and
// people at a query tool send; see the corpus in ../testdata/corpus.sql. What is not
// part of it is a syntax error: Msg 102 or 156 (class 15) naming the token, 105 for
// an open quotation mark, 137 for a variable that is not declared. A batch is
// parsed whole before anything runs, so an error in its last line
// refuses it all, as SQL Server does. GO is a word like any other.
//
// Two things parse differently from SQL Server: only the first error is
// reported, and a bare word at the start of a statement is a procedure call
// only in the first statement of the batch.
package parse
