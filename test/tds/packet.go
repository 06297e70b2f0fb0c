package tds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// PacketType is the first byte of a packet header (MS-TDS 2.2.3.1.1).
type PacketType uint8

// Packet types.
const (
	PacketBatch       PacketType = 0x01
	PacketRPC         PacketType = 0x03
	PacketTabular     PacketType = 0x04 // everything the server sends
	PacketAttention   PacketType = 0x06
	PacketBulkLoad    PacketType = 0x07
	PacketFedAuth     PacketType = 0x08
	PacketTransaction PacketType = 0x0E
	PacketLogin7      PacketType = 0x10
	PacketSSPI        PacketType = 0x11
	PacketPrelogin    PacketType = 0x12
)

// String names the type as MS-TDS does.
func (t PacketType) String() string {
	switch t {
	case PacketBatch:
		return "SQLBatch"
	case PacketRPC:
		return "RPC"
	case PacketTabular:
		return "tabular result"
	case PacketAttention:
		return "Attention"
	case PacketBulkLoad:
		return "BulkLoad"
	case PacketFedAuth:
		return "federated authentication token"
	case PacketTransaction:
		return "transaction manager request"
	case PacketLogin7:
		return "LOGIN7"
	case PacketSSPI:
		return "SSPI"
	case PacketPrelogin:
		return "PRELOGIN"
	default:
		return fmt.Sprintf("packet type 0x%02X", uint8(t))
	}
}

// known reports whether clients send the type.
func (t PacketType) known() bool {
	switch t {
	case PacketBatch, PacketRPC, PacketAttention, PacketBulkLoad, PacketFedAuth, PacketTransaction, PacketLogin7, PacketSSPI, PacketPrelogin:
		return true
	default:
		return false
	}
}

// Status bits of a packet header (MS-TDS 2.2.3.1.2).
const (
	statusEOM       = 0x01
	statusIgnore    = 0x02
	statusReset     = 0x08
	statusResetKeep = 0x10
)

// Packet sizes in bytes, header included (MS-TDS 2.2.6.4, LOGIN7, PacketSize).
const (
	HeaderSize        = 8
	MinPacketSize     = 512
	DefaultPacketSize = 4096
	MaxPacketSize     = 32767
	MaxTLSPacketSize  = 16383 // above it one packet does not fit a TLS record, and some clients close
)

// message is one whole request: the payloads of its packets joined.
type message struct {
	typ     PacketType
	status  uint8 // of the first packet: reset bits are valid there only
	ignored bool  // the last packet carried the ignore bit
	payload []byte
}

// packetReader joins packets into messages. It is used by one goroutine.
type packetReader struct {
	r      io.Reader
	header [HeaderSize]byte
	limit  int // of a message's payload in bytes
}

// errTooLong ends a connection whose request passes the limit.
var errTooLong = errors.New("message is longer than the limit")

// readHeader reads the next packet header and gives its type, status and payload length. The error is a bare io.EOF when
// the stream ends between packets.
func (p *packetReader) readHeader() (PacketType, uint8, int, error) {
	if n, err := io.ReadFull(p.r, p.header[:]); err != nil {
		if n == 0 && errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF // TLS that ends without a goodbye
		}
		return 0, 0, 0, err
	}
	typ := PacketType(p.header[0])
	if !typ.known() {
		return 0, 0, 0, fmt.Errorf("this is no TDS: %s", typ)
	}
	n := int(binary.BigEndian.Uint16(p.header[2:]))
	if n < HeaderSize {
		return 0, 0, 0, fmt.Errorf("packet header says %d bytes, fewer than the header itself", n)
	}
	return typ, p.header[1], n - HeaderSize, nil
}

// next reads one message. A packet of another type inside a message is an error; the attention, which may not come
// there either, is let through alone.
func (p *packetReader) next() (message, error) {
	var m message
	for first := true; ; first = false {
		typ, status, n, err := p.readHeader()
		if err != nil {
			if !first {
				err = noEOF(err)
			}
			return message{}, err
		}
		if first {
			m.typ, m.status = typ, status
		} else if typ != m.typ {
			return message{}, fmt.Errorf("%s packet inside a %s message", typ, m.typ)
		}
		if len(m.payload)+n > p.limit {
			return message{}, fmt.Errorf("reading %s: %w of %d bytes", m.typ, errTooLong, p.limit)
		}
		at := len(m.payload)
		m.payload = append(m.payload, make([]byte, n)...)
		if _, err := io.ReadFull(p.r, m.payload[at:]); err != nil {
			return message{}, fmt.Errorf("reading a packet of %d bytes: %w", n, noEOF(err))
		}
		if status&statusEOM != 0 {
			m.ignored = status&statusIgnore != 0
			return m, nil
		}
	}
}

// noEOF turns an end of the stream inside a packet into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// putHeader writes a packet header for a packet of size bytes, header included, into b.
func putHeader(b []byte, typ PacketType, status uint8, size int, spid uint16, id uint8) {
	b[0], b[1] = byte(typ), status
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	binary.BigEndian.PutUint16(b[4:], spid)
	b[6], b[7] = id, 0
}

// appendMessage frames a whole message into packets of at most size bytes.
func appendMessage(dst []byte, typ PacketType, payload []byte, size int, spid uint16) []byte {
	for id := uint8(1); ; id++ {
		n := min(len(payload), size-HeaderSize)
		status := uint8(0)
		if n == len(payload) {
			status = statusEOM
		}
		var header [HeaderSize]byte
		putHeader(header[:], typ, status, n+HeaderSize, spid, id)
		dst = append(append(dst, header[:]...), payload[:n]...)
		payload = payload[n:]
		if status == statusEOM {
			return dst
		}
	}
}
