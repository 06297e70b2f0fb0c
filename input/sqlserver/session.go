package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// The guard's statements. The time of the low watermark is that of the first commit at or after it: an instance's first
// low watermark is the LSN of its enabling, which is no commit of the mapping.
const (
	guardStatement = `DECLARE @low binary(10) = sys.fn_cdc_get_min_lsn(@ci);
SELECT @low AS lsn, (SELECT TOP (1) tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn >= @low ORDER BY start_lsn) AS wall`
	guardWaits = ", " + waitColumn + " AS waits"
)

// inSession reads in one session: begin asks what the read needs, then read hands out rows. A connection that turns out to
// be dead before begin has ended is replaced; after that rows may be out.
func (c *Client) inSession(ctx context.Context, begin, read func(context.Context, *sql.Conn) error) error {
	var final error
	err := c.retry.do(ctx, func(attempt int) error {
		if attempt > 0 {
			c.forgetIdle()
		}
		started := false
		err := c.hold(ctx, func(ctx context.Context, conn *sql.Conn) error {
			if err := begin(ctx, conn); err != nil {
				return err
			}
			started = true
			return read(ctx, conn)
		})
		if started {
			final = err
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return final
}

// session reads a window in one session: the low watermark is compared before and after, and the session's own waits are
// measured.
func (r *reading) session(ctx context.Context, read func(context.Context, *sql.Conn) error) error {
	var waited int64
	return r.client.inSession(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		waited, err = r.guard(ctx, conn, false)
		return err
	}, func(ctx context.Context, conn *sql.Conn) error {
		if err := read(ctx, conn); err != nil {
			return err
		}
		after, err := r.guard(ctx, conn, true)
		if err == nil && r.client.waits {
			r.addWait(after - waited)
		}
		return err
	})
}

// guard asks for the low watermark and compares it. It returns the session's waits for the network so far.
func (r *reading) guard(ctx context.Context, conn *sql.Conn, after bool) (waits int64, err error) {
	instance := r.request.Layout.Instance
	statement := guardStatement
	if r.client.waits {
		statement = guardStatement + guardWaits
	}
	var row record
	begin := time.Now()
	err = r.client.within(ctx, conn, func(ctx context.Context) (err error) {
		row, err = one(ctx, conn, statement, sql.Named("ci", instance.Name))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("asking for min_lsn: %w", err)
	}
	if !after {
		r.metrics.RTT = float64(time.Since(begin).Microseconds()) / 1000
	}
	low, err := row.lsn("lsn")
	if err != nil {
		return 0, err
	}
	if wall, ok := row.wall("wall"); ok {
		r.metrics.MinLSNTime = r.client.clock.Load().UTC(low, wall)
	}
	r.metrics.MinLSN = low
	waits, _ = row.number("waits")
	if low.IsZero() {
		return 0, errNoWatermark
	}
	return waits, purged(r.request.cursor(), low, r.metrics.MinLSNTime, after)
}

// errNoWatermark says that min_lsn is zero, which has several reasons. It never leaves the package.
var errNoWatermark = errors.New("the instance has no low watermark")

// cursor is the position that the window continues.
func (r ReadRequest) cursor() Cursor {
	return Cursor{Instance: r.Layout.Instance, After: r.Plan.Window.Start}
}

func (r *reading) addWait(milliseconds int64) {
	total := max(milliseconds, 0)
	if r.metrics.NetworkWait != nil {
		total += *r.metrics.NetworkWait
	}
	r.metrics.NetworkWait = &total
}

// within runs a short question inside a longer call, with the deadline of a question.
func (c *Client) within(ctx context.Context, conn *sql.Conn, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.QueryTimeout, errQueryTimeout)
	defer cancel()
	held, err := unwrap(conn)
	if err != nil {
		return err
	}
	release := watch(ctx, held.socket)
	defer release()
	return withCause(ctx, question(ctx))
}

// explainRead turns the error of a read into one that says what to do. A change table that is gone is data loss: rows
// up to the window's end were promised.
func (c *Client) explainRead(ctx context.Context, request ReadRequest, err error) error {
	if ctx.Err() != nil {
		return withCause(ctx, err)
	}
	instance := request.Layout.Instance
	switch {
	case errors.Is(err, errNoWatermark):
		if err := c.guard(ctx, request.cursor(), mssqlcdc.LSN{}, time.Time{}, false); err != nil {
			return err
		}
		return fmt.Errorf("capture instance %s: %w", instance.Name, ErrNotYetCaptured) // and has by now
	case serverNumber(err, 208):
		return &DataLossError{
			Instance: instance.Name, Table: instance.Table, From: request.Plan.Window.From(), During: true,
			Reason: "its change table is gone (dropped, or CDC was disabled)",
		}
	}
	return c.explain(ctx, instance, err)
}
