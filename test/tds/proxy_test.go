package tds_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// proxyTo runs a proxy in front of a server.
func proxyTo(t *testing.T, s *server) *tds.Proxy {
	t.Helper()
	p, err := tds.NewProxy(tds.DialTo(s.addr.String()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.Zero(t, p.Open())
	})
	return p
}

func TestProxy(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	start := func(t *testing.T) *tds.Proxy {
		return proxyTo(t, serve(t, tds.Config{}, &script{handle: numbers(rows)}))
	}
	t.Run("forwards, in pieces", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		p.Chunk(1000)
		n, err := readAll(t.Context(), t, openAt(t, p.Addr().String()))
		require.NoError(t, err)
		require.Equal(t, int64(rows), n)
		require.Equal(t, 1, p.Total())
	})
	for name, how := range map[string]tds.Action{"cut": tds.CloseConn, "cut by reset": tds.ResetConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			p.CutAfter(50_000, how)
			db := openAt(t, p.Addr().String())
			n, err := readAll(t.Context(), t, db)
			require.Error(t, err)
			require.Less(t, n, int64(rows))
			p.Restore()
			n, err = readAll(t.Context(), t, db)
			require.NoError(t, err)
			require.Equal(t, int64(rows), n)
		})
	}
	t.Run("cuts what is open", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		db := openAt(t, p.Addr().String())
		require.NoError(t, db.PingContext(t.Context()))
		require.Equal(t, 1, p.Open())
		p.CutAll(tds.ResetConn)
		require.Eventually(t, func() bool { return p.Open() == 0 }, 5*time.Second, time.Millisecond)
	})
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		p.Refuse()
		require.Error(t, openAt(t, p.Addr().String(), "dial timeout", "2").PingContext(t.Context()))
	})
	t.Run("black hole", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		db := openAt(t, p.Addr().String())
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		p.BlackHole()
		answered := make(chan error, 1)
		go func() { _, err := conn.ExecContext(context.WithoutCancel(t.Context()), "SELECT 1"); answered <- err }()
		select {
		case err := <-answered:
			require.Fail(t, "answered through a black hole", err)
		case <-time.After(50 * time.Millisecond):
		}
		p.Restore()
		require.NoError(t, <-answered)
		require.NoError(t, conn.Close())
	})
	t.Run("half open", func(t *testing.T) {
		t.Parallel()
		s := serve(t, tds.Config{}, &script{handle: numbers(rows)})
		p := proxyTo(t, s)
		conn, err := net.Dial("tcp", p.Addr().String())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return p.Open() == 1 }, 5*time.Second, time.Millisecond)
		p.HalfOpen()
		for range 3 {
			_, err := conn.Write([]byte("is anybody there"))
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			_, err = conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "no answer, and no end either")
		}
		n, err := readAll(t.Context(), t, openAt(t, p.Addr().String()))
		require.NoError(t, err, "new connections live")
		require.Equal(t, int64(rows), n)
		require.NoError(t, conn.Close())
	})
	t.Run("plan", func(t *testing.T) {
		t.Parallel()
		const seed = 42
		p := start(t)
		plan := tds.RandomPlan(seed, 100_000)
		p.Plan(plan)
		complete, broken := 0, 0
		for try := 1; complete < 8; try++ {
			fate := plan(try)
			require.Equal(t, fate, plan(try), "seed %d, connection %d", seed, try)
			n, err := readAll(t.Context(), t, openAt(t, p.Addr().String(), "dial timeout", "2", "disableRetry", "true"))
			whole := !fate.Refuse && fate.CutAfter == 0
			require.Equal(t, whole, err == nil, "seed %d, connection %d, %+v: %v", seed, try, fate, err)
			require.Equal(t, try, p.Total(), "seed %d", seed)
			if whole {
				require.Equal(t, int64(rows), n)
				complete++
			} else {
				broken++
			}
		}
		require.Greater(t, broken, 8, "seed %d", seed)
	})
	t.Run("delays", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		p.Delay(20 * time.Millisecond)
		begun := time.Now()
		require.NoError(t, openAt(t, p.Addr().String()).PingContext(t.Context()))
		require.Greater(t, time.Since(begun), 80*time.Millisecond, "PRELOGIN and LOGIN7, there and back")
	})
	t.Run("server that is not there", func(t *testing.T) {
		t.Parallel()
		p, err := tds.NewProxy(tds.DialTo("127.0.0.1:1"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		require.Error(t, openAt(t, p.Addr().String(), "dial timeout", "2").PingContext(t.Context()))
		cancel()
		require.NoError(t, <-done)
	})
}
