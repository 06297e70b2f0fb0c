package fetch

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Driver fetches through the driver's own rows, one driver.Value at a time.
type Driver struct {
	// Started, when set, is called for each statement. It must be safe for concurrent use.
	Started func()
}

// Fetch implements [Fetcher].
func (d Driver) Fetch(ctx context.Context, conn *sql.Conn, statement Statement) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		var stopped bool
		if d.Started != nil {
			d.Started()
		}
		err := conn.Raw(func(c any) error {
			err := Query(ctx, c, statement, func(rows driver.Rows) error {
				var err error
				stopped, err = Drain(rows, statement, func(b Batch) bool { return yield(b, nil) })
				return err
			})
			if err != nil && stopped {
				// The statement could not be ended in good order, and the consumer hears no more: the pool must not get
				// this connection back.
				return driver.ErrBadConn
			}
			return err
		})
		if err != nil && !stopped {
			yield(Batch{}, err)
		}
	}
}

// Query runs the statement on the driver's connection without database/sql in between, which would copy every value once
// more. The rows are those of use until it returns; the statement has then ended, or its connection is bad.
func Query(ctx context.Context, c any, statement Statement, use func(driver.Rows) error) (err error) {
	preparer, ok := c.(driver.ConnPrepareContext)
	if !ok {
		return fmt.Errorf("the driver's connection %T cannot prepare", c)
	}
	prepared, err := preparer.PrepareContext(ctx, statement.Text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prepared.Close()) }()
	queryer, ok := prepared.(driver.StmtQueryContext)
	if !ok {
		return fmt.Errorf("the driver's statement %T cannot query", prepared)
	}
	// The driver ends a statement whose rows are closed early only by its context.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, err := queryer.QueryContext(ctx, named(statement.Args))
	if err != nil {
		return err
	}
	defer func() {
		// Closing a stopped read reports the cancelling, which is no error.
		if closing := rows.Close(); err == nil && closing != nil && ctx.Err() == nil {
			err = closing
		}
	}()
	return use(rows)
}

func named(args []sql.NamedArg) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Name: arg.Name, Ordinal: i + 1, Value: arg.Value}
	}
	return values
}

// Drain packs the driver's rows into batches until they end, or emit says stop.
func Drain(rows driver.Rows, statement Statement, emit func(Batch) bool) (stopped bool, err error) {
	if got, want := len(rows.Columns()), len(statement.Columns); got != want {
		return false, fmt.Errorf("the result has %d columns, want %d", got, want)
	}
	buffers, err := NewBuffers(statement.Schema, statement.Columns)
	if err != nil {
		return false, err
	}
	values := make([]driver.Value, len(statement.Columns))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			if buffers.Rows() > 0 && !emit(buffers.Flush()) {
				return true, nil
			}
			return false, nil
		case err != nil:
			return false, err
		}
		if err := buffers.Append(values); err != nil {
			return false, err
		}
		if buffers.Rows() >= statement.MaxRows || buffers.Bytes() >= statement.MaxBytes {
			if !emit(buffers.Flush()) {
				return true, nil
			}
		}
	}
}
