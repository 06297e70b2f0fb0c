package rowfilter

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// handshake carries the records of a TLS handshake inside PRELOGIN packets, and after [handshake.finish] without.
type handshake struct {
	net.Conn

	wrap    bool
	left    int    // bytes left of the packet that is read
	pending []byte // records that wait for the peer's turn
}

// handshakePayload is what a packet holds before its size is negotiated (MS-TDS 2.2.3.1.3).
const handshakePayload = 4096 - headerSize

// Write collects records while they are wrapped: what belongs together leaves in one message.
func (h *handshake) Write(p []byte) (int, error) {
	if !h.wrap {
		return h.Conn.Write(p)
	}
	h.pending = append(h.pending, p...)
	return len(p), nil
}

// Read reads records.
func (h *handshake) Read(p []byte) (int, error) {
	if !h.wrap {
		return h.Conn.Read(p)
	}
	if err := h.flush(); err != nil {
		return 0, err
	}
	for h.left == 0 {
		var header [headerSize]byte
		if _, err := io.ReadFull(h.Conn, header[:]); err != nil {
			return 0, err
		}
		length := be16(header[2:])
		// Older servers answer with the type of a reply.
		if header[0] != packetPrelogin && header[0] != packetReply || length < headerSize {
			return 0, malformed(fmt.Sprintf("a packet of type %d and %d bytes in the TLS handshake", header[0], length))
		}
		h.left = length - headerSize
	}
	n, err := h.Conn.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// flush sends what waits.
func (h *handshake) flush() error {
	for number := byte(1); len(h.pending) > 0; number++ {
		n := min(len(h.pending), handshakePayload)
		packet := make([]byte, headerSize, headerSize+n)
		packet[0], packet[6] = packetPrelogin, number
		if n == len(h.pending) {
			packet[1] = statusLast
		}
		binary.BigEndian.PutUint16(packet[2:], uint16(headerSize+n))
		if _, err := h.Conn.Write(append(packet, h.pending[:n]...)); err != nil {
			return err
		}
		h.pending = h.pending[n:]
	}
	h.pending = nil
	return nil
}

// finish sends the last records and takes the packets away.
func (h *handshake) finish() error {
	if err := h.flush(); err != nil {
		return err
	}
	if h.left > 0 {
		return malformed("bytes after the end of the TLS handshake")
	}
	h.wrap = false
	return nil
}
