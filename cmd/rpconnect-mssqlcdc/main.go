// Command rpconnect-mssqlcdc streams SQL Server Change Data Capture into Delta
// Lake: a Benthos binary with the mssql_cdc input, the delta_lake output and the
// finalize and each_row processors.
//
//	rpconnect-mssqlcdc -c orders.yaml
//
// The stock commands of Benthos work (run, lint, test, list and others), and some
// of our own: demo, simulate, doctor, is-final, status, reconcile, delta.
//
// Exit codes: 0 the run reached its goal, 1 it did not; is-final and others have their own.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) }
