package sqlserversim

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// meteredConn counts what goes over one connection, numbers it, and knows how long writes to its client took: what a server reports as
// the wait ASYNC_NETWORK_IO.
type meteredConn struct {
	net.Conn
	log    *statementLog
	number int // from 1, in the order of acceptance
	wait   atomic.Int64
	waits  atomic.Int64
	reset  atomic.Bool
	close  sync.Once
	err    error
}

// meteredAddr carries the connection through package tds, which hands out the address only.
type meteredAddr struct {
	net.Addr
	conn *meteredConn
}

// meter wraps a new connection.
func (s *Server) meter(c net.Conn) *meteredConn {
	s.mu.Lock()
	s.accepted++
	n := s.accepted
	s.mu.Unlock()
	s.log.connections.Add(1)
	return &meteredConn{Conn: c, log: s.log, number: n}
}

// meterOf finds the metered connection under one of package tds.
func meterOf(c *tds.Conn) *meteredConn {
	if a, ok := c.RemoteAddr().(meteredAddr); ok {
		return a.conn
	}
	return &meteredConn{}
}

// RemoteAddr is the client's address.
func (c *meteredConn) RemoteAddr() net.Addr { return meteredAddr{c.Conn.RemoteAddr(), c} }

// Read reads.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.log.received.Add(int64(n))
	return n, err
}

// Write writes, and takes the time.
func (c *meteredConn) Write(b []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Write(b)
	c.wait.Add(int64(time.Since(began)))
	c.waits.Add(1)
	c.log.sent.Add(int64(n))
	return n, err
}

// Close closes in good order (FIN, also when something of the client's was not read), or with a reset where one was asked for.
func (c *meteredConn) Close() error {
	c.close.Do(func() {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			if c.reset.Load() {
				_ = tcp.SetLinger(0)
			} else {
				_ = tcp.CloseWrite()
			}
		}
		c.err = c.Conn.Close()
	})
	return c.err
}

// meteredListener wraps what it accepts.
type meteredListener struct {
	net.Listener
	server *Server
}

// Accept accepts.
func (l meteredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.server.meter(c), nil
}
