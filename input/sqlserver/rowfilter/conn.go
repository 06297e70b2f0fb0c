package rowfilter

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// Conn is the socket that the driver is given. It must be made by [New] before the driver's first byte. Like the driver's use of
// a socket, one goroutine may read while another writes.
type Conn struct {
	net.Conn // the socket below; deadlines and Close are its own

	stream io.ReadWriter // the socket, or TLS on it
	secure secure
	filter filter // of the reading goroutine

	armed  atomic.Pointer[reading] // for the next request
	active atomic.Pointer[reading] // whose answer is being read

	request requests // of the writing goroutine
}

// requests follows the packets that the driver writes.
type requests struct {
	header [headerSize]byte
	have   int // bytes of the header
	skip   int // bytes left of the packet
}

// Write passes on what the driver writes, and looks for the request that is armed for and for an attention.
func (c *Conn) Write(p []byte) (int, error) {
	if c.secure.phase != phaseOpen {
		return c.writeLogin(p)
	}
	c.watch(p)
	return c.stream.Write(p)
}

// watch follows the headers of the packets in p.
func (c *Conn) watch(p []byte) {
	if c.armed.Load() == nil && c.active.Load() == nil {
		return
	}
	w := &c.request
	for len(p) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(p))
			w.skip -= n
			p = p[n:]
			continue
		}
		n := copy(w.header[w.have:], p)
		w.have += n
		p = p[n:]
		if w.have < headerSize {
			return
		}
		w.have, w.skip = 0, max(be16(w.header[2:])-headerSize, 0)
		switch w.header[0] {
		case packetAttention:
			if r := c.active.Load(); r != nil {
				r.discard()
			}
		case packetBatch, packetRPC:
			if r := c.armed.Swap(nil); r != nil {
				c.active.Store(r)
			}
		}
	}
}

// Read gives the driver what is its own of an answer.
func (c *Conn) Read(p []byte) (int, error) {
	if c.secure.phase == phaseAnswer {
		if err := c.answered(); err != nil {
			return 0, c.kill(err)
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	f := &c.filter
	for {
		if n := f.copyOut(p); n > 0 {
			return n, nil
		}
		r := c.active.Load()
		if r == nil || r.complete.Load() {
			c.active.CompareAndSwap(r, nil)
			f.reading = nil // what it holds is not needed any more
			if n := f.copyRaw(p); n > 0 {
				return n, nil
			}
			return c.stream.Read(p)
		}
		if r.failure() != nil {
			return 0, r.failure()
		}
		if r != f.reading {
			f.reading = r
			f.start()
		}
		if err := f.step(r, c.stream); err != nil {
			return 0, c.kill(err)
		}
	}
}

// kill closes the socket after an error that leaves the stream in doubt.
func (c *Conn) kill(err error) error {
	return errors.Join(err, c.Close())
}

// arm makes the rows of the next request go to r. The driver must be idle.
func (c *Conn) arm(r *reading) {
	c.request = requests{}
	c.armed.Store(r)
}

// disarm ends a reading. It says whether the connection is where the protocol has it, ready for the next request.
func (c *Conn) disarm(r *reading) bool {
	r.discard()
	if c.armed.CompareAndSwap(r, nil) {
		return true
	}
	return r.complete.Load()
}
