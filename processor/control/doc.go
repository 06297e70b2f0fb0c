// Package control keeps the control table: a Delta table with one row per target
// that holds the verdict, the time before which the target is complete.
//
// The columns are those of mssql-cdc-pyspark, so that a table of that system
// carries on here, with ours beside them. A verdict never goes back. Each target
// has a data file of its own, so that two writers for two targets never remove the
// same file; where they race for one, the loser reads the winner's row and
// computes again.
//
// A period [a, b) of a target is complete when finalized_until >= b and
// complete_from < a. The verdict says that no further row of the period will
// come. Where rows were lost on the way it says so beside it (gap).
package control
