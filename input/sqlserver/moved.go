package sqlserver

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// movedChunk is how many instances one question names: two parameters less than that many positions, far from the 2,100
// that a statement may have, and from the 256 tables that a statement may name.
const movedChunk = 250

// Moved finds out which of the tables have rows after their position and up to upto: one round trip for 250 tables. After
// that, in the same round trip, it compares the low watermark of each with its position, so that a table without rows is
// known to have had none and not to have lost them. The answer is in the order of the cursors; an error of one table is
// in its Movement. The statement's text depends on the list of instances only.
func (c *Client) Moved(ctx context.Context, cursors []Cursor, upto mssqlcdc.LSN) ([]Movement, error) {
	movements := make([]Movement, 0, len(cursors))
	for chunk := range slices.Chunk(cursors, movedChunk) {
		found, err := c.movedHalves(ctx, chunk, upto)
		if err != nil {
			return nil, fmt.Errorf("asking which tables have changes: %w", err)
		}
		movements = append(movements, found...)
	}
	return movements, nil
}

// movedHalves asks for one half after the other where one table's error fails the statement of all.
func (c *Client) movedHalves(ctx context.Context, cursors []Cursor, upto mssqlcdc.LSN) ([]Movement, error) {
	found, err := c.movedChunk(ctx, cursors, upto)
	switch class := Classify(err); {
	case err == nil || class == Transient || class == Canceled:
		return found, err
	case len(cursors) == 1:
		return []Movement{{Cursor: cursors[0], Err: c.explainMoved(ctx, cursors[0], err)}}, nil
	}
	half := len(cursors) / 2
	found, err = c.movedHalves(ctx, cursors[:half], upto)
	if err != nil {
		return nil, err
	}
	rest, err := c.movedHalves(ctx, cursors[half:], upto)
	return append(found, rest...), err
}

// explainMoved is explain for a table that was being read: one that is gone is data loss.
func (c *Client) explainMoved(ctx context.Context, cursor Cursor, err error) error {
	if !serverNumber(err, 208) {
		return c.explain(ctx, cursor.Instance, err)
	}
	return &DataLossError{
		Instance: cursor.Instance.Name, Table: cursor.Instance.Table, From: cursor.After.Next(),
		Reason: "its change table is gone (dropped, or CDC was disabled)",
	}
}

func (c *Client) movedChunk(ctx context.Context, cursors []Cursor, upto mssqlcdc.LSN) ([]Movement, error) {
	statement, args := movedStatement(cursors, upto)
	var moved, lows []record
	err := c.ask(ctx, "comparing positions", func(ctx context.Context, conn *sql.Conn) (err error) {
		moved, lows, err = queryTwo(ctx, conn, statement, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(moved) > len(cursors) || len(lows) != len(cursors) {
		return nil, fmt.Errorf("comparing positions: %d and %d answers for %d tables", len(moved), len(lows), len(cursors))
	}
	movements := make([]Movement, len(cursors))
	for i, cursor := range cursors {
		movements[i].Cursor = cursor
		if err := c.fillMovement(ctx, &movements[i], rowOf(moved, i), rowOf(lows, i)); err != nil {
			return nil, err
		}
	}
	return movements, nil
}

func (c *Client) fillMovement(ctx context.Context, m *Movement, moved, low record) error {
	m.Moved = moved != nil
	var err error
	if m.MinLSN, err = low.lsn("lsn"); err != nil {
		return err
	}
	if wall, ok := low.wall("wall"); ok {
		m.MinLSNTime = c.clock.Load().UTC(m.MinLSN, wall)
	}
	err = c.guard(ctx, m.Cursor, m.MinLSN, m.MinLSNTime, false)
	if class := Classify(err); class == Canceled || class == Transient && !m.MinLSN.IsZero() {
		return err
	}
	m.Err = err
	return nil
}

// rowOf finds the answer for the i-th table: rows of a UNION ALL come in any order.
func rowOf(rows []record, i int) record {
	for _, row := range rows {
		if n, ok := row.number("i"); ok && n == int64(i) {
			return row
		}
	}
	return nil
}

// movedStatement asks two questions in one batch, the low watermarks last: clean-up raises them before it deletes. It is as
// short as it can be, since it goes over the wire with every poll.
func movedStatement(cursors []Cursor, upto mssqlcdc.LSN) (string, []any) {
	var moved, lows []string
	args := []any{lsnArg("u", upto)}
	for i, cursor := range cursors {
		name := fmt.Sprintf("a%d", i)
		args = append(args, lsnArg(name, cursor.After))
		moved = append(moved, fmt.Sprintf("SELECT %d AS i WHERE EXISTS (SELECT 1 FROM %s WHERE [__$start_lsn] > @%s AND [__$start_lsn] <= @u)",
			i, changeTable(cursor.Instance.Name), name))
		lows = append(lows, fmt.Sprintf("(%d, %s)", i, literal(cursor.Instance.Name)))
	}
	return strings.Join(moved, "\nUNION ALL ") + ";\n" + fmt.Sprintf(
		"SELECT x.i, x.lsn, (SELECT TOP (1) tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn >= x.lsn ORDER BY start_lsn) AS wall\nFROM (SELECT v.i, sys.fn_cdc_get_min_lsn(v.ci) AS lsn FROM (VALUES %s) AS v(i, ci)) AS x",
		strings.Join(lows, ", ")), args
}

// queryTwo runs a batch of two SELECT statements.
func queryTwo(ctx context.Context, conn *sql.Conn, statement string, args []any) (first, second []record, err error) {
	rows, err := conn.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if closing := rows.Close(); err == nil {
			err = closing
		}
	}()
	if first, err = readRows(rows); err != nil {
		return nil, nil, err
	}
	if !rows.NextResultSet() {
		if err := rows.Err(); err != nil {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("the second result is missing")
	}
	second, err = readRows(rows)
	return first, second, err
}
