package tds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// sock is the bare socket: it gives back bytes that were looked at, and shapes what is written.
type sock struct {
	net.Conn
	ahead []byte                // read already, to be read again
	shape atomic.Pointer[Shape] // nil: as it comes
	done  <-chan struct{}
}

// setShape changes how later writes are cut and slowed.
func (s *sock) setShape(shape Shape) {
	if shape == (Shape{}) {
		s.shape.Store(nil)
		return
	}
	s.shape.Store(&shape)
}

// peek looks at the first byte of the connection.
func (s *sock) peek() (byte, error) {
	var b [1]byte
	if _, err := io.ReadFull(s.Conn, b[:]); err != nil {
		return 0, err
	}
	s.ahead = append(s.ahead, b[0])
	return b[0], nil
}

// Read reads.
func (s *sock) Read(b []byte) (int, error) {
	if len(s.ahead) > 0 {
		n := copy(b, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}

// Write writes b, in pieces if the shape says so.
func (s *sock) Write(b []byte) (int, error) {
	shape := s.shape.Load()
	if shape == nil {
		return s.Conn.Write(b)
	}
	piece := shape.Split
	if piece <= 0 {
		piece = max(1, len(b))
	}
	written := 0
	for len(b) > 0 {
		if !s.wait(shape.Pause) {
			return written, ErrClosed
		}
		n, err := s.Conn.Write(b[:min(piece, len(b))])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

// wait pauses before a piece; false means that the connection is over.
func (s *sock) wait(pause time.Duration) bool {
	if pause <= 0 {
		return true
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// tlsCarrier stands between TLS and the socket. During the handshake it wraps TLS records in PRELOGIN packets, both ways;
// after it they pass unwrapped (MS-TDS 2.2.6.5, and 3.2.5.2 "SSL negotiation").
type tlsCarrier struct {
	*sock
	wrapped bool
	rest    []byte // of the last packet's payload
	// single keeps reads from passing the end of a TLS record, so that nothing of the clear text that follows a
	// login-only TLS session is swallowed.
	single bool
	head   []byte // of the record header, to be handed out
	left   int    // bytes of the record not handed out
}

// errCarrier is the reason for giving a handshake up.
var errCarrier = errors.New("TLS handshake outside PRELOGIN packets")

// Read reads TLS records.
func (t *tlsCarrier) Read(b []byte) (int, error) {
	switch {
	case t.wrapped:
		return t.readWrapped(b)
	case t.single:
		return t.readRecord(b)
	default:
		return t.sock.Read(b)
	}
}

// readWrapped reads from the payloads of PRELOGIN packets.
func (t *tlsCarrier) readWrapped(b []byte) (int, error) {
	for len(t.rest) == 0 {
		p := packetReader{r: t.sock}
		typ, _, n, err := p.readHeader()
		if err != nil {
			return 0, err
		}
		if typ != PacketPrelogin {
			return 0, fmt.Errorf("%w: %s", errCarrier, typ)
		}
		t.rest = make([]byte, n)
		if _, err := io.ReadFull(t.sock, t.rest); err != nil {
			return 0, noEOF(err)
		}
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// readRecord reads at most to the end of the current record.
func (t *tlsCarrier) readRecord(b []byte) (int, error) {
	if len(t.head) == 0 && t.left == 0 {
		head := make([]byte, 5)
		if _, err := io.ReadFull(t.sock, head); err != nil {
			return 0, err
		}
		t.head, t.left = head, int(binary.BigEndian.Uint16(head[3:]))
	}
	if len(t.head) > 0 {
		n := copy(b, t.head)
		t.head = t.head[n:]
		return n, nil
	}
	n, err := t.sock.Read(b[:min(len(b), t.left)])
	t.left -= n
	return n, err
}

// Write writes TLS records.
func (t *tlsCarrier) Write(b []byte) (int, error) {
	if !t.wrapped {
		return t.sock.Write(b)
	}
	if _, err := t.sock.Write(appendMessage(nil, PacketPrelogin, b, DefaultPacketSize, 0)); err != nil {
		return 0, err
	}
	return len(b), nil
}
