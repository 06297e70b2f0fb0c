package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// ChunkRequest asks for the rows of a source table whose keys lie in [From, To).
type ChunkRequest struct {
	Layout Layout
	Key    SnapshotKey

	From, To Bound // open: from the first row, NULL keys included; to the last

	// Stamp must have been recorded before the chunk is read. Every row gets its LSN and time; it is also copied into the metrics.
	Stamp Head

	Isolation SnapshotIsolation

	// LockTimeout bounds how long the read waits for a lock. Zero means that of [Config], negative waits without limit.
	LockTimeout time.Duration

	Limits Limits // of the parts; those of windows and Ranges do not count

	// Helpers are the places of connections that read the chunk beside its own, as many as fit, shared with the other chunks that
	// are read at the same time. Nil is none.
	Helpers chan struct{}
}

// ReadChunk reads the rows of a chunk from the source table, part by part and in key order. A record is laid out as that of
// the stream: Stamp's LSN and time, no seqval, operation 0, no command id, the captured columns. A captured column that
// the source table no longer has is NULL, as it is in the change table. The window of a part is empty and ends at Stamp.
//
// It yields at least one part; exactly the last has Last set. After an error nothing follows, and all parts before it must be
// discarded. Breaking off ends the statement and gives the connection back.
//
// The chunk holds every row that was in its range when Stamp was recorded, as of then or later. What changed after Stamp is
// in the stream after it, whether or not the chunk shows it already.
func (c *Client) ReadChunk(ctx context.Context, request ChunkRequest) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		r, err := c.newChunkReading(request)
		if err == nil {
			err = r.run(ctx, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			instance := request.Layout.Instance
			yield(Part{}, fmt.Errorf("reading a chunk of table %s: %w", instance.Table, c.explainSource(ctx, instance, err)))
		}
	}
}

// chunkReading is one chunk being read.
type chunkReading struct {
	client  *Client
	request ChunkRequest
	limits  Limits
	key     []keyColumn
	within  keyRange
	columns []fetch.Column // what the statements give: the captured columns
	schema  *arrow.Schema  // the same
	stamped stamped
	metrics mssqlcdc.WindowMetrics
	waited  int64 // the session's waits before the read
	helped  int64 // the waits of other sessions
	parts   withheld
}

func (c *Client) newChunkReading(request ChunkRequest) (*chunkReading, error) {
	if request.Stamp.LSN.IsZero() {
		return nil, errors.New("a chunk needs the max_lsn that was seen before it is read")
	}
	key, err := request.Key.compile()
	if err != nil {
		return nil, err
	}
	within := keyRange{columns: key, lower: edge{bound: request.From, inclusive: true, param: "f"}, upper: edge{bound: request.To, param: "t"}}
	for _, e := range []edge{within.lower, within.upper} {
		if err := e.check(len(key)); err != nil {
			return nil, err
		}
	}
	layout := request.Layout
	r := &chunkReading{
		client: c, request: request, limits: request.Limits.withDefaults(), key: key, within: within,
		columns: make([]fetch.Column, len(layout.fields)),
		schema:  arrow.NewSchema(layout.Schema().Fields()[mssqlcdc.FirstCaptured:], nil),
		stamped: stamped{schema: layout.Schema(), head: request.Stamp},
		metrics: mssqlcdc.WindowMetrics{
			StartedAt: time.Now().UTC(), SourceMaxLSN: request.Stamp.LSN,
			SourceMaxTime: request.Stamp.Time, SourceSeenTime: request.Stamp.SeenTime,
		},
	}
	for i, f := range layout.fields {
		r.columns[i] = f.column
	}
	return r, nil
}

// run reads the chunk in one session and yields its parts.
func (r *chunkReading) run(ctx context.Context, yield func(Part, error) bool) error {
	var expressions []string
	err := r.client.inSession(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		expressions, err = r.prepare(ctx, conn)
		return err
	}, func(ctx context.Context, conn *sql.Conn) error {
		err := r.client.under(ctx, conn, r.settings(), func() error {
			if r.splits() {
				return r.inRanges(ctx, conn, expressions, yield)
			}
			return r.read(ctx, conn, expressions, yield)
		})
		if err != nil {
			return err
		}
		r.client.subchunks.whole(r.instance())
		return r.addWaits(ctx, conn)
	})
	if err != nil {
		return err
	}
	return r.finish(yield)
}

func (r *chunkReading) instance() string { return r.request.Layout.Instance.Name }

// splits tells whether the chunk is read in sub-ranges: by several connections, or after a read in one piece failed.
func (r *chunkReading) splits() bool {
	return len(r.key) > 0 && (cap(r.request.Helpers) > 0 || r.client.subchunks.small(r.instance()))
}

// settings are those of the sessions that read the chunk.
func (r *chunkReading) settings() tableSettings {
	s := tableSettings{isolation: r.request.Isolation, lockTimeout: r.request.LockTimeout}
	if s.lockTimeout == r.client.config.LockTimeout {
		s.lockTimeout = 0 // every session has it
	}
	return s
}

// prepare asks which of the captured columns the source table still has, by their ids: a dropped name can come back. It
// returns what to select. A table that is not visible has none, and the read will say why.
func (r *chunkReading) prepare(ctx context.Context, conn *sql.Conn) ([]string, error) {
	statement := "SELECT column_id, name"
	if r.client.waits {
		statement += ", " + waitColumn + " AS waits"
	}
	statement += " FROM sys.columns WHERE object_id = OBJECT_ID(@object)"
	var rows []record
	begin := time.Now()
	err := r.client.within(ctx, conn, func(ctx context.Context) (err error) {
		rows, err = query(ctx, conn, statement, sql.Named("object", r.request.Layout.Instance.Table.Quoted()))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the columns of the source table: %w", err)
	}
	r.metrics.RTT = float64(time.Since(begin).Microseconds()) / 1000
	names := map[int64]string{}
	for _, row := range rows {
		id, _ := row.number("column_id")
		names[id] = row.text("name")
		r.waited, _ = row.number("waits")
	}
	expressions := make([]string, len(r.request.Layout.fields))
	for i, f := range r.request.Layout.fields {
		expressions[i] = f.expression
		if len(rows) > 0 && names[f.id] != f.column.Name {
			expressions[i] = "NULL"
		}
	}
	return expressions, nil
}

// read reads the chunk on one connection.
func (r *chunkReading) read(ctx context.Context, conn *sql.Conn, expressions []string, yield func(Part, error) bool) error {
	begin := time.Now()
	var away time.Duration // the consumer's time is not the source's
	defer func() { r.metrics.ReadSeconds = (time.Since(begin) - away).Seconds() }()
	err := r.each(ctx, conn, expressions, r.within, func(batch fetch.Batch) error {
		left := time.Now()
		defer func() { away += time.Since(left) }()
		return r.accept(batch, yield)
	})
	if err != nil && !errors.Is(err, errStopped) && ctx.Err() == nil {
		r.client.subchunks.failed(r.instance(), r.client.subchunks.of(r.instance(), r.limits.PartRows))
	}
	return err
}

// each runs one statement per piece of a range. Their rows follow each other in key order, so that nothing is sorted that
// an index has sorted. An error of use ends it.
func (r *chunkReading) each(ctx context.Context, conn *sql.Conn, expressions []string, within keyRange, use func(fetch.Batch) error) error {
	statement := fetch.Statement{
		Args: within.args(), Columns: r.columns, Schema: r.schema, MaxRows: r.limits.PartRows, MaxBytes: r.limits.PartBytes,
	}
	for _, piece := range within.pieces() {
		statement.Text = chunkStatement(r.request.Layout.Instance.Table.Quoted(), expressions, r.key, piece)
		for batch, err := range r.client.fetcher.Fetch(ctx, conn, statement) {
			if err != nil {
				return err
			}
			if err := use(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunkStatement reads the rows of a piece. Its text depends on the table, its columns and the shape of the piece only. FAST
// keeps the server to a plan that follows an index: without it, rows of an index beside the clustered one can look cheaper to
// find by scanning the table for each chunk, and to sort.
func chunkStatement(table string, expressions []string, key []keyColumn, piece string) string {
	text := fmt.Sprintf("SELECT %s\nFROM %s AS c%s", strings.Join(expressions, ", "), table, where(piece))
	if len(key) == 0 {
		return text
	}
	_, order := pickLists(key, "")
	return text + "\nORDER BY " + order + "\nOPTION (FAST 1000)"
}

// accept takes the next rows.
func (r *chunkReading) accept(batch fetch.Batch, yield func(Part, error) bool) error {
	r.metrics.ReadBytes += batch.Bytes
	return r.parts.put(Part{Record: r.stamped.record(batch.Record), Window: r.window()}, yield)
}

// window is that of every part: empty, at the stamp.
func (r *chunkReading) window() mssqlcdc.Window {
	stamp := r.request.Stamp
	return mssqlcdc.Window{Start: stamp.LSN, End: stamp.LSN, EndTime: stamp.Time}
}

// addWaits asks for the session's waits since it was asked first.
func (r *chunkReading) addWaits(ctx context.Context, conn *sql.Conn) error {
	if !r.client.waits {
		return nil
	}
	waits, err := r.client.ownWaits(ctx, conn)
	if err == nil {
		r.metrics.NetworkWait = new(max(waits-r.waited, 0) + r.helped)
	}
	return err
}

// finish yields the last part, with the metrics.
func (r *chunkReading) finish(yield func(Part, error) bool) error {
	last := r.parts.last(r.stamped.schema)
	last.Window, last.Last, last.Metrics, last.Warnings = r.window(), true, r.metrics, r.client.notices.take()
	return r.parts.release(yield)
}
