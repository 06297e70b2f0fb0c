package sqlserver

import (
	"context"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// Windows and chunks are read in sub-ranges at once, and their rows are taken in order.

// pipe is the rows of one sub-range on their way from who reads it to who takes them.
type pipe struct {
	batches  chan fetch.Batch
	complete bool // set before batches is closed: every row went in
}

// drain takes the rows of one sub-range. The error is errWorker if its reader ended early.
func (p *pipe) drain(ctx context.Context, accept func(fetch.Batch) error) error {
	for {
		select {
		case batch, ok := <-p.batches:
			switch {
			case ok:
				if err := accept(batch); err != nil {
					return err
				}
			case p.complete:
				return nil
			default:
				return errWorker
			}
		case <-ctx.Done():
			return errWorker
		}
	}
}

// drainer is a sub-range: it has a pipe.
type drainer interface {
	drain(ctx context.Context, accept func(fetch.Batch) error) error
}

// consume takes the rows of sub-ranges in their order, until that is closed, and gives a
// token back for each.
func consume[S drainer](ctx context.Context, order <-chan S, tokens <-chan struct{}, accept func(fetch.Batch) error) error {
	for {
		select {
		case s, ok := <-order:
			if !ok {
				return nil
			}
			if err := s.drain(ctx, accept); err != nil {
				return err
			}
			<-tokens
		case <-ctx.Done():
			return errWorker
		}
	}
}
