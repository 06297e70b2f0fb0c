package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// Read reads the rows of a window, part by part. It yields at least one part; exactly the last has Last set. After an
// error nothing follows, and all parts before it must be discarded. Breaking off ends the statements and gives the
// connections back.
//
// With more than one range, sub-ranges are read ahead on connections of their own and yielded in order; what is ahead is
// bounded by a few parts each.
func (c *Client) Read(ctx context.Context, request ReadRequest) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		r, err := c.newReading(request)
		if err == nil {
			err = r.run(ctx, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			// Explaining asks the server, so it waits until the connections are given back.
			yield(Part{}, fmt.Errorf("reading change table %s, window %s: %w",
				changeTable(request.Layout.Instance.Name), request.Plan.Window, c.explainRead(ctx, request, err)))
		}
	}
}

// errStopped says that the consumer wants no more. It never leaves the package.
var errStopped = errors.New("the consumer stopped")

// reading is one window being read.
type reading struct {
	client   *Client
	request  ReadRequest
	limits   Limits
	shape    readShape
	schema   *arrow.Schema
	tracker  *tracker
	metrics  mssqlcdc.WindowMetrics
	pace     *pace
	parts    withheld
	cut      bool // a limit ended the window before its planned end
	warnings []string
}

func (c *Client) newReading(request ReadRequest) (*reading, error) {
	window := request.Plan.Window
	if err := window.Validate(); err != nil {
		return nil, err
	}
	if window.IsEmpty() || len(request.Plan.Ranges) == 0 {
		return nil, errors.New("the window is empty: there is nothing to read")
	}
	if !request.Head.LSN.IsZero() && request.Head.LSN.Less(window.End) {
		return nil, fmt.Errorf("the window ends after max_lsn %s as seen before: rows could still appear in it", request.Head.LSN)
	}
	layout, limits := request.Layout, request.Limits.withDefaults()
	limits.Ranges = min(limits.Ranges, c.config.MaxConnections)
	r := &reading{
		client: c, request: request, limits: limits,
		shape: layout.shape(), schema: layout.Schema(), pace: c.pace.of(layout.Instance.Name),
		metrics: mssqlcdc.WindowMetrics{
			StartedAt: time.Now().UTC(), SourceMaxLSN: request.Head.LSN,
			SourceMaxTime: request.Head.Time, SourceSeenTime: request.Head.SeenTime,
		},
	}
	r.tracker = &tracker{
		limits: limits, window: window, withCommand: layout.HasCommandID, schema: r.schema,
		converter: c.clock.Load().Converter(),
	}
	return r, nil
}

// run reads the window and yields its parts.
func (r *reading) run(ctx context.Context, yield func(Part, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if r.limits.Ranges > 1 && r.pace.expectsBacklog() {
		err = r.inRanges(ctx, yield)
	} else {
		err = r.inOne(ctx, yield)
	}
	if err != nil {
		return err
	}
	long := r.tracker.bytes >= r.limits.PartBytes*queueParts || r.tracker.rows >= r.limits.PartRows*queueParts
	r.pace.windowEnded(r.cut || long)
	return r.finish(ctx, yield)
}

// inOne reads the window with one statement, the guards before and after it in the same session.
func (r *reading) inOne(ctx context.Context, yield func(Part, error) bool) error {
	return r.session(ctx, func(ctx context.Context, conn *sql.Conn) error {
		window := r.request.Plan.Window
		begin := time.Now()
		var away time.Duration // the consumer's time is not the source's
		err := r.each(ctx, conn, window.From(), window.End, func(batch fetch.Batch) error {
			left := time.Now()
			defer func() { away += time.Since(left) }()
			return r.accept(batch, yield)
		})
		r.metrics.ReadSeconds += (time.Since(begin) - away).Seconds()
		if errors.Is(err, errCut) {
			return nil
		}
		return err
	})
}

// errCut says that a limit ended the window. It never leaves the package.
var errCut = errors.New("a limit ended the window")

// each runs the statement for a closed range and hands out its batches. An error of use ends it.
func (r *reading) each(ctx context.Context, conn *sql.Conn, from, to mssqlcdc.LSN, use func(fetch.Batch) error) error {
	for batch, err := range r.client.fetcher.Fetch(ctx, conn, r.shape.statement(from, to, r.limits)) {
		if err != nil {
			return err
		}
		if err := use(batch); err != nil {
			return err
		}
	}
	return nil
}

// accept takes the next rows of the window. The part before them is not the last, so it is yielded; they wait.
func (r *reading) accept(batch fetch.Batch, yield func(Part, error) bool) error {
	record, cut, err := r.tracker.take(batch)
	if err != nil {
		return err
	}
	r.cut = cut
	if record.NumRows() > 0 {
		if err := r.parts.put(Part{Record: record, Window: r.request.Plan.Window}, yield); err != nil {
			return err
		}
	}
	if cut {
		return errCut
	}
	return nil
}

// withheld is the part that waits to be told whether it is the last.
type withheld struct {
	part  *Part
	count int
}

// put numbers a part and keeps it. The one before it is not the last, so it is yielded.
func (w *withheld) put(part Part, yield func(Part, error) bool) error {
	if err := w.release(yield); err != nil {
		return err
	}
	part.Index = w.count
	w.count++
	w.part = &part
	return nil
}

// last is the part that waits, or one without rows where there was none.
func (w *withheld) last(schema *arrow.Schema) *Part {
	if w.part == nil {
		w.part = &Part{Record: emptyRecord(schema), Index: w.count}
	}
	return w.part
}

// release yields the part that waits.
func (w *withheld) release(yield func(Part, error) bool) error {
	if w.part == nil {
		return nil
	}
	part := *w.part
	w.part = nil
	if !yield(part, nil) {
		return errStopped
	}
	return nil
}

// finish yields the last part, with the exact end and the metrics.
func (r *reading) finish(ctx context.Context, yield func(Part, error) bool) error {
	window := r.request.Plan.Window
	if r.cut {
		window.End, window.EndTime = r.tracker.last, time.UnixMicro(r.tracker.lastTime).UTC()
		if r.tracker.lastTimeless {
			window.EndTime = time.Time{}
		}
	}
	if !window.EndTime.IsZero() {
		r.client.Remember(window.End, window.EndTime)
	}
	r.metrics.Commits, r.metrics.ReadBytes = r.tracker.commits, r.tracker.bytes
	last := r.parts.last(r.schema)
	last.Window, last.Last, last.Metrics = window, true, r.metrics
	last.Warnings = append(r.warnings, r.client.notices.take()...)
	return r.parts.release(yield)
}

// Idle makes the one part without rows of a window that [Client.Moved] ruled out, from what it found. The window's
// EndTime must be set by the caller, usually to that of the head.
func (c *Client) Idle(layout Layout, window mssqlcdc.Window, movement Movement, head Head) Part {
	return Part{
		Record: emptyRecord(layout.Schema()), Window: window, Last: true,
		Metrics: mssqlcdc.WindowMetrics{
			StartedAt: time.Now().UTC(), MinLSN: movement.MinLSN, MinLSNTime: movement.MinLSNTime,
			SourceMaxLSN: head.LSN, SourceMaxTime: head.Time, SourceSeenTime: head.SeenTime,
		},
	}
}
