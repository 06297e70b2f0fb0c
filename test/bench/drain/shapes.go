package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// The shapes beside those of package workload.
const (
	shapeTinyCommits = "tiny_commits" // narrow rows, each in a transaction of its own
	shapeManyTables  = "many_tables"  // narrow rows in manyTables tables
	shapeLOB         = "lob"          // 16 kB of nvarchar(max) and 8 kB of varbinary(max) a row
)

const manyTables = 50

// defaultRows is the size of a backlog that is not given.
func defaultRows(shape string) int64 {
	switch shape {
	case "wide":
		return 200_000
	case shapeLOB:
		return 10_000
	}
	return 2_000_000
}

const lobDDL = `CREATE TABLE dbo.backlog_lob (id bigint NOT NULL PRIMARY KEY, body nvarchar(max) NULL, raw varbinary(max) NULL);
EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'backlog_lob', @role_name = NULL`

// lobBacklog makes a backlog of rows with long values, every seventh of which is NULL.
func lobBacklog(ctx context.Context, sim *sqlserversim.Server, rows int64, rowsPerTxn int) error {
	if err := sim.Exec(ctx, "IF (SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()) = 0 EXEC sys.sp_cdc_enable_db"); err != nil {
		return fmt.Errorf("making a backlog: %w", err)
	}
	if err := sim.Exec(ctx, lobDDL); err != nil {
		return fmt.Errorf("making a backlog: %w", err)
	}
	var bodies [16]string
	var raws [16][]byte
	for i := range bodies {
		bodies[i] = strings.Repeat(fmt.Sprintf("line %02d of a long text. ", i), 8192/23)
		raws[i] = []byte(strings.Repeat(string(rune('a'+i)), 8192))
	}
	_, err := sim.DefaultDB().BulkCaptured(ctx, engine.BulkSpec{Instance: "dbo_backlog_lob", Rows: rows, RowsPerTxn: rowsPerTxn, Fill: func(n int64, v []sqltype.Value) int {
		v[0], v[1], v[2] = sqltype.BigInt(n+1), sqltype.Null(), sqltype.Null()
		if n%7 != 0 {
			v[1], v[2] = sqltype.NVarChar(bodies[n&15]), sqltype.VarBinary(raws[n&15])
		}
		return 2
	}})
	if err != nil {
		return fmt.Errorf("making a backlog of %d rows: %w", rows, err)
	}
	return nil
}
