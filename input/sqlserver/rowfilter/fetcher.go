package rowfilter

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// Choice says who decoded the rows of a statement, and why the driver did if it was the driver.
type Choice struct {
	Reader string // "filter" or "driver"
	Reason Reason // empty for the filter
	Detail string // for people; empty for the filter
}

// Filtered is a connection of the driver whose socket is a [Conn].
type Filtered interface {
	// RowFilter is the connection's socket; nil if it has no filter.
	RowFilter() *Conn
}

// Fetcher fetches rows beside the driver, and through it where the filter does not want them. It is safe for concurrent use on
// different connections.
type Fetcher struct {
	// Chosen, when set, is told about each statement once it is known who reads it. It is called by many goroutines at once.
	Chosen func(Choice)
}

// Fetch implements [fetch.Fetcher].
func (f Fetcher) Fetch(ctx context.Context, conn *sql.Conn, statement fetch.Statement) iter.Seq2[fetch.Batch, error] {
	return func(yield func(fetch.Batch, error) bool) {
		stopped := false
		emit := func(b fetch.Batch) bool {
			stopped = !yield(b, nil)
			return !stopped
		}
		err := conn.Raw(func(c any) error {
			err := f.fetch(ctx, c, statement, emit)
			if err != nil && stopped {
				// The statement could not be ended in good order, and the consumer hears no more: the pool must not get this
				// connection back.
				return driver.ErrBadConn
			}
			return err
		})
		if err != nil && !stopped {
			yield(fetch.Batch{}, err)
		}
	}
}

func (f Fetcher) chosen(c Choice) {
	if f.Chosen != nil {
		f.Chosen(c)
	}
}

func (f Fetcher) fetch(ctx context.Context, c any, statement fetch.Statement, emit func(fetch.Batch) bool) error {
	var socket *Conn
	if filtered, ok := c.(Filtered); ok {
		socket = filtered.RowFilter()
	}
	if socket == nil {
		f.chosen(Choice{Reader: "driver", Reason: NoFilter, Detail: "the connection has no filter"})
		return fetch.Query(ctx, c, statement, func(rows driver.Rows) error {
			_, err := fetch.Drain(rows, statement, emit)
			return err
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newReading(statement)
	socket.arm(r)
	err := fetch.Query(ctx, c, statement, func(rows driver.Rows) error {
		if refused := r.refusal(); refused != nil {
			f.chosen(Choice{Reader: "driver", Reason: refused.Reason, Detail: refused.Detail})
			_, err := fetch.Drain(rows, statement, emit)
			return err
		}
		f.chosen(Choice{Reader: "filter"})
		return take(cancel, rows, r, emit)
	})
	inOrder := socket.disarm(r)
	if cause := r.failure(); cause != nil {
		return explain(ctx, cause, err)
	}
	if err == nil && !inOrder {
		return errors.New("the driver left the answer before its end")
	}
	return err
}

// explain puts what the filter saw in front of what the driver made of it.
func explain(ctx context.Context, cause, err error) error {
	var value *fetch.ValueError
	if err == nil || errors.As(cause, &value) || errors.Is(err, cause) {
		return cause
	}
	if ctx.Err() != nil {
		return err // the end of the context closed the socket
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// take hands out the batches of a filtered rowset while the driver waits for its end.
func take(cancel context.CancelFunc, rows driver.Rows, r *reading, emit func(fetch.Batch) bool) error {
	if got, want := len(rows.Columns()), len(r.statement.Columns); got != want {
		return fmt.Errorf("the result has %d columns, want %d", got, want)
	}
	ended := make(chan error, 1)
	go func() {
		// The driver sees no row. It may be in a wait that only the end of the context or of the answer ends.
		ended <- rows.Next(make([]driver.Value, len(r.statement.Columns)))
	}()
	for {
		select {
		case batch := <-r.batches:
			if emit(batch) {
				continue
			}
			return stop(cancel, r, ended)
		case err := <-ended:
			return finish(err, r, emit)
		}
	}
}

// stop ends a statement whose rows nobody wants any more. An error says that it did not end in good order.
func stop(cancel context.CancelFunc, r *reading, ended <-chan error) error {
	r.discard()
	cancel()
	switch err := <-ended; {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
		return nil
	default:
		return err
	}
}

// finish hands out what is left after the end of the rowset.
func finish(err error, r *reading, emit func(fetch.Batch) bool) error {
	switch {
	case err == nil:
		return errors.New("a row went past the filter to the driver")
	case !errors.Is(err, io.EOF):
		return err
	}
	for {
		select {
		case batch := <-r.batches:
			if !emit(batch) {
				return nil
			}
			continue
		default:
		}
		break
	}
	if batch, ok := r.rest(); ok {
		emit(batch)
	}
	return nil
}
