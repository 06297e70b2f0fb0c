package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

const (
	// The function's answer goes through a variable, so that it is evaluated once and the time belongs to it.
	headStatement = `DECLARE @l binary(10) = sys.fn_cdc_get_max_lsn();
SELECT @l AS lsn, (SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = @l) AS wall`
	offsetColumn = `, DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) AS minutes`

	minStatement = `SELECT sys.fn_cdc_get_min_lsn(@ci) AS lsn`

	exactTimeStatement = `SELECT start_lsn AS lsn, tran_end_time AS wall FROM cdc.lsn_time_mapping WHERE start_lsn = @l`
	timeStatement      = `SELECT TOP (1) start_lsn AS lsn, tran_end_time AS wall FROM cdc.lsn_time_mapping WHERE start_lsn <= @l ORDER BY start_lsn DESC`

	lsnForTimeStatement = `SELECT sys.fn_cdc_map_time_to_lsn(N'largest less than', CONVERT(datetime, @t, 126)) AS lsn`

	// The first commit, in LSN order, at which the mapping steps back within a repeated stretch of the wall clock.
	stepBackStatement = `SELECT TOP (1) x.start_lsn AS lsn FROM (
SELECT start_lsn, tran_end_time, LAG(tran_end_time) OVER (ORDER BY start_lsn) AS before FROM cdc.lsn_time_mapping
WHERE tran_end_time >= CONVERT(datetime, @from, 126) AND tran_end_time < CONVERT(datetime, @to, 126)) AS x
WHERE DATEDIFF(second, x.tran_end_time, x.before) > 60 ORDER BY x.start_lsn`

	wallLayout = "2006-01-02T15:04:05"
)

// MaxLSN asks how far capture has come: one round trip. A database that capture never wrote to has the zero Head.
func (c *Client) MaxLSN(ctx context.Context) (Head, error) {
	statement := headStatement
	if c.server.FixedOffset {
		statement += offsetColumn
	}
	var row record
	err := c.ask(ctx, "asking for max_lsn", func(ctx context.Context, conn *sql.Conn) (err error) {
		row, err = one(ctx, conn, statement)
		return err
	})
	if err != nil {
		return Head{}, cdcDisabled(err)
	}
	head := Head{SeenTime: time.Now()}
	if head.LSN, err = row.lsn("lsn"); err != nil {
		return Head{}, fmt.Errorf("asking for max_lsn: %w", err)
	}
	if minutes, ok := row.number("minutes"); ok && c.server.FixedOffset {
		c.newOffset(minutes)
	}
	wall, ok := row.wall("wall")
	if head.LSN.IsZero() || !ok {
		return head, nil
	}
	if err := c.settle(ctx, wall); err != nil {
		return Head{}, err
	}
	clock := c.clock.Load()
	head.Time = clock.UTC(head.LSN, wall)
	clock.Remember(head.LSN, head.Time)
	c.head.Store(&head)
	return head, nil
}

// cdcDisabled names the reason if the objects of CDC do not exist.
func cdcDisabled(err error) error {
	if serverNumber(err, 208) || serverNumber(err, 22901) {
		return fmt.Errorf("%w: %w", ErrCDCDisabled, err)
	}
	return err
}

// MinLSN asks for the low watermark of an instance. Zero is an answer, too: unknown, dropped, not permitted or not yet
// captured; [Client.Diagnose] tells which.
func (c *Client) MinLSN(ctx context.Context, instance string) (mssqlcdc.LSN, error) {
	var low mssqlcdc.LSN
	doing := "asking for min_lsn of " + instance
	err := c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, minStatement, sql.Named("ci", instance))
		if err != nil {
			return err
		}
		low, err = row.lsn("lsn")
		return err
	})
	return low, cdcDisabled(err)
}

// CommitTime looks up the commit time of an LSN in UTC. With exact it must be a commit's own LSN; without, the last
// commit at or before it counts. False: the source has no such entry (any more).
func (c *Client) CommitTime(ctx context.Context, lsn mssqlcdc.LSN, exact bool) (time.Time, bool, error) {
	_, at, ok, err := c.commitAt(ctx, lsn, exact)
	return at, ok, err
}

// commitAt is CommitTime with the LSN of the entry that was found.
func (c *Client) commitAt(ctx context.Context, lsn mssqlcdc.LSN, exact bool) (mssqlcdc.LSN, time.Time, bool, error) {
	statement := timeStatement
	if exact {
		statement = exactTimeStatement
	}
	var rows []record
	doing := fmt.Sprintf("asking for the commit time of %s", lsn)
	err := c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, statement, lsnArg("l", lsn))
		return err
	})
	if err != nil || len(rows) == 0 {
		return mssqlcdc.LSN{}, time.Time{}, false, cdcDisabled(err)
	}
	found, err := rows[0].lsn("lsn")
	if err != nil {
		return mssqlcdc.LSN{}, time.Time{}, false, fmt.Errorf("%s: %w", doing, err)
	}
	wall, ok := rows[0].wall("wall")
	if !ok {
		return mssqlcdc.LSN{}, time.Time{}, false, nil
	}
	if err := c.settle(ctx, wall); err != nil {
		return mssqlcdc.LSN{}, time.Time{}, false, err
	}
	return found, c.clock.Load().UTC(found, wall), true, nil
}

// LSNForTime gives the last commit before a time, erring early by up to a second (by an hour and a second before
// the clock is set back): what comes after it holds the commits of that very time. Zero if there is none.
func (c *Client) LSNForTime(ctx context.Context, utc time.Time) (mssqlcdc.LSN, error) {
	wall := c.clock.Load().Zone().Early(utc)
	if wall.Year() < 1753 || wall.Year() > 9999 {
		return mssqlcdc.LSN{}, fmt.Errorf("looking up the LSN of %s: outside the years 1753 to 9999 of datetime", utc.Format(time.RFC3339))
	}
	var found mssqlcdc.LSN
	doing := "looking up the LSN of " + utc.UTC().Format(time.RFC3339)
	err := c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, lsnForTimeStatement, sql.Named("t", wall.Format(wallLayout)))
		if err != nil {
			return err
		}
		found, err = row.lsn("lsn")
		return err
	})
	return found, cdcDisabled(err)
}

// Remember tells the client the commit time of an LSN from a resume position. It resolves the hour that is repeated when
// the clock is set back, where clean-up took the commits before.
func (c *Client) Remember(lsn mssqlcdc.LSN, utc time.Time) { c.clock.Load().Remember(lsn, utc) }

// settled is how long after a repeated stretch its step back is taken as known: later commits cannot lie in it.
const settled = 10 * time.Minute

// settle makes the clock ready for commit times up to a reading: for each stretch of wall clock in the 400 days before
// that was shown twice, it asks once where the mapping steps back.
func (c *Client) settle(ctx context.Context, upto time.Time) error {
	clock := c.clock.Load()
	for _, repeat := range clock.Unsettled(upto.AddDate(0, 0, -400), upto) {
		lsn, found, err := c.stepBack(ctx, repeat)
		switch {
		case err != nil:
			return err
		case found:
			clock.Settle(repeat, lsn)
		case upto.After(repeat.To.Add(settled)):
			// Over, and nothing in the mapping steps back: from no LSN on is it the second showing.
			clock.Settle(repeat, lastLSN())
		}
	}
	return nil
}

func lastLSN() mssqlcdc.LSN {
	var l mssqlcdc.LSN
	for i := range l {
		l[i] = 0xFF
	}
	return l
}

func (c *Client) stepBack(ctx context.Context, repeat zone.Repeat) (lsn mssqlcdc.LSN, found bool, err error) {
	var rows []record
	err = c.ask(ctx, "looking for the commit at which the server's clock was set back", func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, stepBackStatement,
			sql.Named("from", repeat.From.Format(wallLayout)), sql.Named("to", repeat.To.Format(wallLayout)))
		return err
	})
	if err != nil || len(rows) == 0 {
		return mssqlcdc.LSN{}, false, err
	}
	lsn, err = rows[0].lsn("lsn")
	return lsn, err == nil, err
}

// CheckRetention is the guard: a *DataLossError if changes after the position were cleaned up or the instance is gone.
// Clean-up raises min_lsn before it deletes a row, so a range that passes after it was read was read whole.
func (c *Client) CheckRetention(ctx context.Context, cursor Cursor) error {
	low, err := c.MinLSN(ctx, cursor.Instance.Name)
	if err != nil {
		return err
	}
	return c.guard(ctx, cursor, low, time.Time{}, false)
}

// guard compares a low watermark with a position, and finds out why there is none.
func (c *Client) guard(ctx context.Context, cursor Cursor, low mssqlcdc.LSN, lowTime time.Time, during bool) error {
	if !low.IsZero() {
		return purged(cursor, low, lowTime, during)
	}
	err := c.Diagnose(ctx, cursor.Instance)
	if !errors.Is(err, ErrUnknownInstance) {
		return err
	}
	return &DataLossError{
		Instance: cursor.Instance.Name, Table: cursor.Instance.Table, From: cursor.After.Next(), During: during,
		Reason: "the capture instance is gone (dropped, or CDC was disabled), and its changes with it",
	}
}

// purged compares a low watermark with a position. The comparison is strict: a range that begins at min_lsn is whole.
func purged(cursor Cursor, low mssqlcdc.LSN, lowTime time.Time, during bool) error {
	from := cursor.After.Next()
	if !from.Less(low) {
		return nil
	}
	reason := "CDC clean-up purged them"
	if during {
		reason = "CDC clean-up purged them while they were read"
	}
	return &DataLossError{
		Instance: cursor.Instance.Name, Table: cursor.Instance.Table, From: from,
		MinLSN: low, MinTime: lowTime, During: during, Reason: reason,
	}
}
