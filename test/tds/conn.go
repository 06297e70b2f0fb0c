package tds

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// Conn is one client's connection. Its methods may be called by the handler's goroutine; SPID, RemoteAddr, Close and
// Reset by any.
type Conn struct {
	cfg  *Config
	sock *sock
	spid uint16

	// gone ends when the connection does: the client went away, this side closed it, or the server stops.
	gone context.Context
	end  context.CancelCauseFunc

	stream     net.Conn // what packets are written to: the socket or TLS
	tls        *tls.Conn
	encrypted  bool // all packets travel in TLS, not the login alone
	strict     bool
	login      *Login
	packetSize int
	nbc        NBCPolicy
	hooks      Hooks
	packets    int64 // sent in answers to requests
	sent       int64 // bytes of them

	closing sync.Once
	running running
}

// newConn prepares a connection.
func newConn(ctx context.Context, nc net.Conn, cfg *Config, spid uint16) *Conn {
	gone, end := context.WithCancelCause(ctx)
	s := &sock{Conn: nc, done: gone.Done()}
	s.setShape(cfg.Hooks.Shape)
	return &Conn{
		cfg: cfg, sock: s, spid: spid, gone: gone, end: end, stream: s,
		packetSize: DefaultPacketSize, nbc: cfg.NBC, hooks: cfg.Hooks,
	}
}

// SPID gives the session id, which stands in the header of every packet.
func (c *Conn) SPID() uint16 { return c.spid }

// Login gives the client's LOGIN7, nil before it was read.
func (c *Conn) Login() *Login { return c.login }

// Version gives the TDS version in use.
func (c *Conn) Version() Version {
	if c.login == nil {
		return 0
	}
	return c.login.Version.granted()
}

// PacketSize gives the size of packets in use.
func (c *Conn) PacketSize() int { return c.packetSize }

// Encrypted reports whether everything travels in TLS.
func (c *Conn) Encrypted() bool { return c.encrypted }

// Strict reports whether the connection began with TLS (TDS 8.0).
func (c *Conn) Strict() bool { return c.strict }

// TLS gives the state of TLS, also of one that carried the login alone; false when there was none.
func (c *Conn) TLS() (tls.ConnectionState, bool) {
	if c.tls == nil {
		return tls.ConnectionState{}, false
	}
	return c.tls.ConnectionState(), true
}

// RemoteAddr gives the client's address.
func (c *Conn) RemoteAddr() net.Addr { return c.sock.RemoteAddr() }

// Close closes the connection at once (FIN), as KILL does. A running request's context ends.
func (c *Conn) Close() error {
	c.hangUp(false)
	return nil
}

// Reset resets the connection (RST), where the network is TCP.
func (c *Conn) Reset() error {
	c.hangUp(true)
	return nil
}

// hangUp closes the bare socket, without a goodbye of TLS. Only the first call counts.
func (c *Conn) hangUp(reset bool) {
	c.closing.Do(func() {
		if tcp, ok := c.sock.Conn.(*net.TCPConn); ok {
			if reset {
				_ = tcp.SetLinger(0)
			} else {
				_ = tcp.CloseWrite() // a FIN even when something of the client's was not read
			}
		}
		_ = c.sock.Conn.Close()
		c.end(ErrClosed)
	})
}

// goodbye closes the connection in the ordinary way, TLS first.
func (c *Conn) goodbye() {
	if c.tls != nil && c.encrypted && c.gone.Err() == nil {
		_ = c.tls.CloseWrite()
	}
	c.hangUp(false)
}
