package tds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Proxy is a TCP proxy that breaks connections: it stands in front of any server, knows nothing of TDS, and works under
// TLS. It forwards unless told otherwise; its switches act on connections that are open and on new ones. All methods may
// be called by many goroutines.
type Proxy struct {
	listener net.Listener
	dial     func(ctx context.Context) (net.Conn, error)

	mu      sync.Mutex
	mode    proxyMode
	links   map[*link]struct{}
	changed chan struct{} // closed and replaced at each change of mode
	total   int
}

// proxyMode is what the switches say.
type proxyMode struct {
	refuse    bool
	blackHole bool
	delay     time.Duration
	cutAfter  int64 // bytes from the server on each new connection; 0 does not cut
	how       Action
	chunk     int // largest piece forwarded at once; 0 for any
	plan      Plan
}

// link is one proxied connection.
type link struct {
	client, server net.Conn
	cutAfter       int64
	how            Action
	delay          time.Duration
	chunk          int
	halfOpen       atomic.Bool
	once           sync.Once
}

// NewProxy listens on a free port of 127.0.0.1 and forwards to what dial gives. Run serves it.
func NewProxy(dial func(ctx context.Context) (net.Conn, error)) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the proxy: %w", err)
	}
	return &Proxy{listener: l, dial: dial, links: map[*link]struct{}{}, changed: make(chan struct{})}, nil
}

// DialTo gives a dial function for [NewProxy] that connects to a TCP address.
func DialTo(address string) func(ctx context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
}

// Addr gives the address to connect to.
func (p *Proxy) Addr() *net.TCPAddr {
	return p.listener.Addr().(*net.TCPAddr) // it listens on TCP
}

// Run takes connections until ctx ends, then closes them and returns nil.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = p.listener.Close() })
	var links sync.WaitGroup
	defer func() {
		stop()
		cancel()
		_ = p.listener.Close()
		p.CutAll(CloseConn)
		links.Wait()
	}()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accepting a connection: %w", err)
		}
		links.Go(func() { p.serve(ctx, client) })
	}
}

// set changes the mode and wakes what waits.
func (p *Proxy) set(change func(m *proxyMode)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.mode)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Restore forwards everything again.
func (p *Proxy) Restore() { p.set(func(m *proxyMode) { *m = proxyMode{} }) }

// Refuse closes new connections as soon as they come.
func (p *Proxy) Refuse() { p.set(func(m *proxyMode) { m.refuse = true }) }

// BlackHole forwards nothing in either direction; connections stay open. What is held back is delivered after Restore.
func (p *Proxy) BlackHole() { p.set(func(m *proxyMode) { m.blackHole = true }) }

// Delay holds every piece back for d, in both directions.
func (p *Proxy) Delay(d time.Duration) { p.set(func(m *proxyMode) { m.delay = d }) }

// Chunk forwards at most n bytes at once, so that packets arrive in pieces.
func (p *Proxy) Chunk(n int) { p.set(func(m *proxyMode) { m.chunk = n }) }

// CutAfter closes each new connection when n bytes have come from the server; how is CloseConn or ResetConn.
func (p *Proxy) CutAfter(n int64, how Action) {
	p.set(func(m *proxyMode) { m.cutAfter, m.how = n, how })
}

// CutAll closes all connections that are open now; how is CloseConn or ResetConn.
func (p *Proxy) CutAll(how Action) {
	p.mu.Lock()
	open := make([]*link, 0, len(p.links))
	for l := range p.links {
		open = append(open, l)
	}
	p.mu.Unlock()
	for _, l := range open {
		l.cut(how)
	}
}

// HalfOpen takes the server away from all connections that are open now, without a word to the client: its side stays open, takes what is
// sent and never answers, as after a power cut or when a firewall has forgotten the connection.
func (p *Proxy) HalfOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.halfOpen.Store(true)
		_ = l.server.Close()
	}
}

// Open gives the number of connections that are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Total gives the number of connections taken so far, refused ones included.
func (p *Proxy) Total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// state gives the mode and a channel that is closed when it changes.
func (p *Proxy) state() (proxyMode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

// serve forwards one connection, both ways, until either side ends.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	p.mu.Lock()
	p.total++
	mode := p.mode
	if mode.plan != nil {
		mode.take(mode.plan(p.total))
	}
	p.mu.Unlock()
	if mode.refuse {
		_ = client.Close()
		return
	}
	server, err := p.dial(ctx)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server, cutAfter: mode.cutAfter, how: mode.how, delay: mode.delay, chunk: mode.chunk}
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { l.cut(CloseConn) })
	defer stop()
	defer cancel()
	var up sync.WaitGroup
	up.Go(func() {
		defer cancel()
		p.pump(ctx, l, l.client, l.server, 0)
		if l.halfOpen.Load() {
			_, _ = io.Copy(io.Discard, l.client) // until the client gives up
		}
	})
	p.pump(ctx, l, l.server, l.client, l.cutAfter)
	if l.halfOpen.Load() {
		<-ctx.Done()
	}
	cancel()
	l.cut(CloseConn)
	up.Wait()
}

// pump forwards from one side to the other. With a limit it cuts the link when so many bytes have passed.
func (p *Proxy) pump(ctx context.Context, l *link, from, to net.Conn, limit int64) {
	buffer := make([]byte, 64<<10)
	passed := int64(0)
	for {
		n, err := from.Read(buffer)
		piece := buffer[:n]
		if limit > 0 && passed+int64(n) >= limit {
			piece = piece[:limit-passed]
		}
		if p.forward(ctx, l, to, piece) != nil {
			return
		}
		if passed += int64(n); limit > 0 && passed >= limit {
			l.cut(l.how)
			return
		}
		if err != nil {
			if errors.Is(err, io.EOF) && !l.halfOpen.Load() {
				closeWrite(to) // the other direction may still have something to say
				if limit == 0 && from == l.client {
					<-ctx.Done()
				}
			} else if errors.Is(err, syscall.ECONNRESET) && from == l.server && !l.halfOpen.Load() {
				l.cut(ResetConn)
			}
			return
		}
	}
}

// forward writes a piece as the mode says.
func (p *Proxy) forward(ctx context.Context, l *link, to net.Conn, b []byte) error {
	for len(b) > 0 {
		mode, changed := p.state()
		if mode.plan != nil {
			mode.delay, mode.chunk = l.delay, l.chunk
		}
		if mode.blackHole {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if mode.delay > 0 {
			timer := time.NewTimer(mode.delay)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
		n := len(b)
		if mode.chunk > 0 {
			n = min(n, mode.chunk)
		}
		if _, err := to.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// closeWrite ends one direction of a TCP connection.
func closeWrite(c net.Conn) {
	if tcp, ok := c.(interface{ CloseWrite() error }); ok {
		_ = tcp.CloseWrite()
	}
}

// cut closes both sides; only the first call counts.
func (l *link) cut(how Action) {
	l.once.Do(func() {
		if tcp, ok := l.client.(*net.TCPConn); ok && how == ResetConn {
			_ = tcp.SetLinger(0)
		}
		_ = l.client.Close()
		_ = l.server.Close()
	})
}
