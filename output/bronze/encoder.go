package bronze

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// piece is the rows of a part on their way into files.
type piece struct {
	records  []arrow.RecordBatch
	instance string
	chunk    *mssqlcdc.Chunk // of snapshot rows
	fit      *target.Fitted  // into the table as it is once the window is committed
}

// encoder writes the pieces of one window to files: at once, or, after start, on a
// goroutine with a bounded queue.
type encoder struct {
	ctx     context.Context // the table's life: files outlive the write that began them
	target  *target.Target
	convert *converter
	batchID int64

	writer *target.Writer
	fit    *target.Fitted // of the writer
	adds   []action.Add

	queue  chan piece
	failed chan struct{} // closed when err is set
	done   chan struct{} // closed when the goroutine has ended
	err    error
	ended  bool // queue is closed
}

func newEncoder(ctx context.Context, t *target.Target, c *converter, batchID int64) *encoder {
	return &encoder{ctx: ctx, target: t, convert: c, batchID: batchID}
}

// start moves the encoding to a goroutine. The queue holds depth pieces beside the
// one that is being encoded.
func (e *encoder) start(depth int) {
	e.queue, e.failed, e.done = make(chan piece, depth), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(e.done)
		for p := range e.queue {
			if e.err != nil {
				continue // drain, so that nobody waits
			}
			if err := e.encode(p); err != nil {
				e.err = err
				close(e.failed)
			}
		}
	}()
}

// put takes a piece. Errors of pieces before it may show here. After that of the
// context the piece was not taken and the encoder goes on.
func (e *encoder) put(ctx context.Context, p piece) error {
	if e.queue == nil {
		if e.err == nil {
			e.err = e.encode(p)
		}
		return e.err
	}
	if err := e.failure(); err != nil {
		return err
	}
	select {
	case e.queue <- p:
		return nil
	case <-e.failed:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *encoder) encode(p piece) error {
	if e.writer != nil && e.fit != p.fit && !schema.Equal(e.fit.Schema, p.fit.Schema) {
		if err := e.closeFiles(); err != nil {
			return err
		}
	}
	if e.writer == nil {
		w, err := e.target.NewWriter(e.ctx, p.fit)
		if err != nil {
			return err
		}
		e.writer, e.fit = w, p.fit
	}
	for _, rows := range p.records {
		record, err := e.convert.convert(rows, p.instance, e.batchID, p.chunk)
		if err != nil {
			return &BatchError{Reason: err.Error()}
		}
		record = p.fit.Rename(record)
		err = e.writer.Write(record)
		record.Release()
		if err != nil {
			return fmt.Errorf("writing rows to data files: %w", err)
		}
	}
	return nil
}

// failure is the error that the encoder cannot go on from, nil if there is none
// yet.
func (e *encoder) failure() error {
	if e.queue == nil {
		return e.err
	}
	select {
	case <-e.failed:
		return e.err
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

func (e *encoder) closeFiles() error {
	w := e.writer
	e.writer = nil
	adds, err := w.Close()
	e.adds = append(e.adds, adds...)
	if err != nil {
		return errors.Join(fmt.Errorf("finishing data files: %w", err), w.Abort())
	}
	return nil
}

// finish waits until everything is in complete files and returns them. After the
// context's error it can be called again.
func (e *encoder) finish(ctx context.Context) ([]action.Add, error) {
	if e.queue != nil {
		e.end()
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if e.err == nil && e.writer != nil {
		e.err = e.closeFiles()
	}
	e.convert.rest()
	return e.adds, e.err
}

// abandon stops the encoder and returns the finished files, which nobody needs any
// more.
func (e *encoder) abandon() ([]action.Add, error) {
	if e.queue != nil {
		e.end()
		<-e.done
	}
	var err error
	if e.writer != nil {
		err = e.writer.Abort()
		e.writer = nil
	}
	adds := e.adds
	e.adds = nil
	e.convert.rest()
	return adds, err
}

func (e *encoder) end() {
	if !e.ended {
		e.ended = true
		close(e.queue)
	}
}
