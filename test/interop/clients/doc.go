// Package clients has unmodified foreign clients talk to the simulator: what they read must be what T-SQL says is there, and what they
// stream must be the change tables' own history. So a fault that the simulator and the reader of this project share is found by somebody
// else. test/interop/setup.sh --clients installs them; the tests of what is not installed are skipped and say so.
//
//   - debezium/ is Debezium's SQL Server connector in its embedded engine;
//   - testdata/ has one small program for each TDS client, which runs a query and prints the rows as lines of JSON: a value is null or text,
//     a float the hex digits of its double, a binary 0x and hex; and the client layer of mssql-cdc-pyspark;
//   - rivet and ingestr are run as they are.
package clients
