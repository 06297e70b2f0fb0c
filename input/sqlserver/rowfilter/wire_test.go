package rowfilter_test

import (
	"bytes"
	"io"
	"net"
	"sync"
)

// limitedConn is a socket that ends after some bytes, and that remembers what was written.
type limitedConn struct {
	net.Conn

	mu      sync.Mutex
	limited bool
	left    int64
	wrote   bytes.Buffer
	read    bytes.Buffer
}

func limitReads(last **limitedConn) func(net.Conn) net.Conn {
	return func(c net.Conn) net.Conn {
		*last = &limitedConn{Conn: c}
		return *last
	}
}

func (c *limitedConn) limit(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited, c.left = true, n
}

func (c *limitedConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	limited, left := c.limited, c.left
	c.mu.Unlock()
	if limited && left == 0 {
		return 0, io.EOF
	}
	if limited {
		p = p[:min(int64(len(p)), left)]
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read.Write(p[:n])
	if c.limited {
		c.left -= int64(min(n, int(c.left)))
	}
	return n, err
}

func (c *limitedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.wrote.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *limitedConn) written() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.wrote.Bytes())
}

// received gives what was read since it was called last.
func (c *limitedConn) received() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := bytes.Clone(c.read.Bytes())
	c.read.Reset()
	return b
}
