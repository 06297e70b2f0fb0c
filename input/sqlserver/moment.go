package sqlserver

import (
	"context"
	"database/sql"
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

const (
	allowedStatement = `SELECT snapshot_isolation_state AS allowed FROM sys.databases WHERE name = DB_NAME()`

	clockStatement = `SELECT CONVERT(nvarchar(30), SYSDATETIME(), 126) AS clock`

	// The first commit whose time is later than the server's clock at some moment was written after it, and so has a higher LSN than
	// whatever was committed until then.
	momentStatement = `SELECT TOP (1) start_lsn AS lsn FROM cdc.lsn_time_mapping WHERE start_lsn > @since AND tran_end_time > CONVERT(datetime2, @clock, 126) ORDER BY start_lsn`
)

// CheckSnapshotAllowed tells whether the database allows the isolation level SNAPSHOT; otherwise a *ConfigError with the statement
// that allows it.
func (c *Client) CheckSnapshotAllowed(ctx context.Context) error {
	var row record
	err := c.ask(ctx, "asking whether SNAPSHOT isolation is allowed", func(ctx context.Context, conn *sql.Conn) (err error) {
		row, err = one(ctx, conn, allowedStatement)
		return err
	})
	if err != nil {
		return err
	}
	if allowed, _ := row.number("allowed"); allowed != 1 { // 2 and 3 are on the way to it and back
		return c.notAllowed(false)
	}
	return nil
}

// ServerClock is the reading of the server's clock, as [Client.UnchangedSince] takes it.
func (c *Client) ServerClock(ctx context.Context) (string, error) {
	var row record
	err := c.ask(ctx, "asking for the server's clock", func(ctx context.Context, conn *sql.Conn) (err error) {
		row, err = one(ctx, conn, clockStatement)
		return err
	})
	return row.text("clock"), err
}

// UnchangedSince tells whether the instance's table had no change after an LSN and until the server's clock showed a reading. It is
// not known before capture has come so far.
func (c *Client) UnchangedSince(ctx context.Context, instance mssqlcdc.CaptureInstance, since mssqlcdc.LSN, clock string) (unchanged, known bool, err error) {
	var rows []record
	err = c.ask(ctx, "looking for the first commit after "+clock, func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, momentStatement, lsnArg("since", since), sql.Named("clock", clock))
		return err
	})
	if err != nil || len(rows) == 0 {
		return false, false, err
	}
	upto, err := rows[0].lsn("lsn")
	if err != nil {
		return false, false, err
	}
	movements, err := c.Moved(ctx, []Cursor{{Instance: instance, After: since}}, upto.Prev())
	if err != nil {
		return false, false, err
	}
	m := movements[0]
	return !m.Moved && m.Err == nil, m.Err == nil, nil
}

// CommitsAfter is the n-th commit of the database after an LSN, the last one up to another if there are fewer; zero if there is
// none.
func (c *Client) CommitsAfter(ctx context.Context, after, upto mssqlcdc.LSN, n int64) (mssqlcdc.LSN, error) {
	var bound mssqlcdc.LSN
	err := c.ask(ctx, fmt.Sprintf("looking for the commit %d after %s", n, after), func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, boundStatement, sql.Named("n", n), lsnArg("from", after.Next()), lsnArg("to", upto))
		if err != nil {
			return err
		}
		bound, err = row.lsn("lsn")
		return err
	})
	return bound, err
}
