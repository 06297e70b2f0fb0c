package tds_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

const (
	ackLine   = "DONE status 0x0020 cmd 0x0000 count 0"
	intColumn = "COLMETADATA n intn4 flags 0x0001"
)

// endless writes rows until it is stopped, and tells why it was.
func endless(stopped chan<- error) func(context.Context, *tds.Request, *tds.Writer) error {
	return func(ctx context.Context, req *tds.Request, w *tds.Writer) error {
		if b, ok := req.Body.(*tds.SQLBatch); ok && b.Text == "SELECT 1" {
			return selectOne(ctx, req, w)
		}
		w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(4), Flags: tds.FlagNullable}})
		for n := range int64(1 << 40) {
			row := w.Row()
			row.Int(n & 0xFFFF)
			if err := row.End(); err != nil {
				stopped <- err
				return err
			}
		}
		return nil
	}
}

func TestCancelMidRowset(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 10)
	s := serve(t, tds.Config{}, &script{handle: endless(stopped)})
	db := s.open(t)
	db.SetMaxOpenConns(1)
	for _, way := range []string{"context", "close"} {
		ctx, cancel := context.WithCancel(t.Context())
		rows, err := db.QueryContext(ctx, "SELECT endless")
		require.NoError(t, err)
		for range 1000 {
			require.True(t, rows.Next())
		}
		begun := time.Now()
		if way == "context" {
			cancel()
		}
		require.NoError(t, rows.Close())
		cancel()
		require.ErrorIs(t, <-stopped, tds.ErrAttention, way)
		require.Less(t, time.Since(begun), 3*time.Second, "go-mssqldb waits 5 s for the acknowledgement")
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT 1").Scan(&n), way)
	}
	_, ends := s.lastEnd()
	require.Zero(t, ends, "the connection outlives the attention")
}

func TestCancelWhileTheServerThinks(t *testing.T) {
	t.Parallel()
	thinking := make(chan struct{}, 1)
	s := serve(t, tds.Config{}, &script{handle: func(ctx context.Context, req *tds.Request, w *tds.Writer) error {
		if req.Body.(*tds.SQLBatch).Text == "SELECT 1" {
			return selectOne(ctx, req, w)
		}
		thinking <- struct{}{}
		<-ctx.Done()
		return errors.Join(errors.New("stopped"), context.Cause(ctx))
	}})
	db := s.open(t)
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-thinking; cancel() }()
	_, err := db.ExecContext(ctx, "SELECT think")
	require.ErrorIs(t, err, context.Canceled)
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT 1").Scan(&n))
	_, ends := s.lastEnd()
	require.Zero(t, ends)
}

func TestAttentionOnTheWire(t *testing.T) {
	t.Parallel()
	t.Run("idle, twice", func(t *testing.T) {
		t.Parallel()
		c := dialRaw(t, tds.Config{}, &script{handle: selectOne})
		c.login(loginWords{})
		for range 2 {
			c.send(6, 1, nil)
			require.Equal(t, []string{ackLine}, c.tokens())
		}
		c.batch(1, "go")
		require.Len(t, c.tokens(), 3, "and requests go on")
	})
	t.Run("running: the last token of the answer, the held Done before it with its more bit", func(t *testing.T) {
		t.Parallel()
		ready := make(chan struct{})
		c := dialRaw(t, tds.Config{}, &script{handle: func(ctx context.Context, _ *tds.Request, w *tds.Writer) error {
			w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(4), Flags: tds.FlagNullable}})
			if err := w.WriteRow(1); err != nil {
				return err
			}
			w.Done(tds.Done{Status: tds.DoneCount, Count: 1})
			close(ready)
			<-ctx.Done()
			w.Columns([]tds.Column{{Name: "late", Type: tds.TypeInt(4)}})
			return w.WriteRow(2)
		}})
		c.login(loginWords{})
		c.batch(1, "go")
		<-ready
		c.send(6, 1, nil)
		lines := c.tokens()
		require.Equal(t, []string{intColumn, "ROW 1", "DONE status 0x0011 cmd 0x0000 count 1"}, lines[:3])
		require.Equal(t, ackLine, lines[len(lines)-1])
	})
	t.Run("a row that was begun is dropped", func(t *testing.T) {
		t.Parallel()
		c := dialRaw(t, tds.Config{}, &script{handle: func(ctx context.Context, _ *tds.Request, w *tds.Writer) error {
			w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(4), Flags: tds.FlagNullable}, {Name: "m", Type: tds.TypeInt(4)}})
			row := w.Row()
			row.Int(1)
			<-ctx.Done()
			return nil
		}})
		c.login(loginWords{})
		c.batch(1, "go")
		c.send(6, 1, nil)
		require.Equal(t, []string{intColumn + ", m intn4 flags 0x0000", ackLine}, c.tokens())
	})
	t.Run("between requests that were sent ahead: the first one is meant", func(t *testing.T) {
		t.Parallel()
		c := dialRaw(t, tds.Config{}, &script{handle: func(ctx context.Context, req *tds.Request, w *tds.Writer) error {
			if req.Body.(*tds.SQLBatch).Text == "wait" {
				<-ctx.Done()
			}
			return nil
		}})
		c.login(loginWords{})
		c.batch(1, "wait")
		c.batch(1, "second")
		c.send(6, 1, nil)
		require.Equal(t, []string{ackLine}, c.tokens())
		require.Equal(t, []string{"DONE status 0x0000 cmd 0x0000 count 0"}, c.tokens())
	})
	t.Run("a request given up while it is sent", func(t *testing.T) {
		t.Parallel()
		c := dialRaw(t, tds.Config{}, &script{handle: selectOne})
		c.login(loginWords{})
		c.batch(0, "half a req")
		c.send(1, 3, []byte("uest"))
		require.Equal(t, []string{"DONE status 0x0002 cmd 0x0000 count 0"}, c.tokens(), "no acknowledgement, an error (MS-TDS 2.2.1.7)")
		c.batch(1, "go")
		require.Len(t, c.tokens(), 3)
	})
}

func TestDisconnectEndsTheRequest(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	running := make(chan struct{})
	closed := make(chan struct{})
	c := dialRaw(t, tds.Config{}, &script{
		handle: func(ctx context.Context, _ *tds.Request, _ *tds.Writer) error {
			close(running)
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return ctx.Err()
		},
		closed: func() { close(closed) },
	})
	c.login(loginWords{})
	c.batch(1, "wait")
	<-running
	require.NoError(t, c.conn.Close())
	require.ErrorIs(t, <-stopped, tds.ErrDisconnected)
	<-closed
	require.ErrorIs(t, <-c.end, tds.ErrDisconnected)
}

func TestServerStopEndsRequests(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	running := make(chan struct{})
	s := tds.NewServer(tds.Config{}, &script{handle: func(ctx context.Context, _ *tds.Request, _ *tds.Writer) error {
		close(running)
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	client, end := pipeTo(ctx, t, s)
	client.login(loginWords{})
	client.batch(1, "wait")
	<-running
	require.Len(t, collect(s.Conns()), 1)
	cancel()
	require.ErrorIs(t, <-stopped, context.Canceled)
	require.ErrorIs(t, <-end, context.Canceled)
	require.Empty(t, collect(s.Conns()))
}

func TestKill(t *testing.T) {
	t.Parallel()
	s := serve(t, tds.Config{}, &script{handle: selectOne})
	db := s.open(t)
	db.SetMaxOpenConns(1)
	require.NoError(t, db.PingContext(t.Context()))
	for c := range s.Conns() {
		same, ok := s.Conn(c.SPID())
		require.True(t, ok)
		require.Same(t, c, same)
		require.Equal(t, uint16(51), c.SPID(), "user sessions begin at 51")
		require.NoError(t, c.Close())
	}
	var n int
	err := db.QueryRowContext(t.Context(), "SELECT 1").Scan(&n)
	if err != nil { // the pool may notice before it is used
		require.ErrorContains(t, err, "EOF")
	}
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT 1").Scan(&n))
}
