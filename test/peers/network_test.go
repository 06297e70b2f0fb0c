package peers

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// network is the way to a server with switches that break it (K4). It needs no sockets,
// so that it works under virtual time.
type network struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu      sync.Mutex
	refuse  bool
	silent  chan struct{} // closed when bytes pass again; nil if they do
	links   map[*cable]bool
	dialled int
}

func newNetwork(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *network {
	return &network{dial: dial, links: map[*cable]bool{}}
}

var errRefused = errors.New("connection refused")

// DialContext is the client's way in.
func (n *network) DialContext(ctx context.Context, name, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled++
	refuse := n.refuse
	n.mu.Unlock()
	if refuse {
		return nil, &net.OpError{Op: "dial", Net: name, Err: errRefused}
	}
	inner, err := n.dial(ctx, name, addr)
	if err != nil {
		return nil, err
	}
	c := &cable{Conn: inner, n: n, closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[c] = true
	return c, nil
}

// cut closes every connection.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.links {
		_ = c.Conn.Close()
		delete(n.links, c)
	}
}

// away refuses connections until the server is back.
func (n *network) away(is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = is
}

// silence swallows what both ends send, without closing anything, until it is over.
func (n *network) silence(is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case is && n.silent == nil:
		n.silent = make(chan struct{})
	case !is && n.silent != nil:
		close(n.silent)
		n.silent = nil
	}
}

func (n *network) isSilent() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent
}

func (n *network) dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dialled
}

// cable is one connection.
type cable struct {
	net.Conn
	n *network

	mu       sync.Mutex
	deadline time.Time // of reads
	closing  sync.Once
	closed   chan struct{}
	lost     bool // something was swallowed: the stream is broken for good
}

func (c *cable) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *cable) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Write takes what is sent into a silence, as a kernel's buffer does.
func (c *cable) Write(p []byte) (int, error) {
	if c.n.isSilent() != nil {
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Read waits in a silence until its deadline. What was swallowed never comes.
func (c *cable) Read(p []byte) (int, error) {
	c.mu.Lock()
	lost, deadline := c.lost, c.deadline
	c.mu.Unlock()
	if !lost {
		return c.Conn.Read(p)
	}
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case <-timeout:
		return 0, os.ErrDeadlineExceeded
	}
}
