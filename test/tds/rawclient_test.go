package tds_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// rawClient speaks to a server over a pipe in bytes, and keeps all the server sends.
type rawClient struct {
	t    testing.TB
	conn net.Conn
	log  []byte // packets of the server
	end  chan error
}

// dialRaw connects to a server of its own.
func dialRaw(t testing.TB, cfg tds.Config, h tds.Handler) *rawClient {
	t.Helper()
	client, srv := net.Pipe()
	c := &rawClient{t: t, conn: client, end: make(chan error, 1)}
	s := tds.NewServer(cfg, h)
	go func() { c.end <- s.ServeConn(context.Background(), srv) }()
	t.Cleanup(func() { _ = client.Close() })
	return c
}

// loginWords are what a raw login says.
type loginWords struct {
	version    tds.Version
	packetSize uint32
	database   string
	features   []byte // the list with its end
}

// login does LOGIN7 without PRELOGIN, as old clients do, and gives the answer's payload.
func (c *rawClient) login(l loginWords) []byte {
	c.t.Helper()
	c.send(0x10, 1, rawLogin7(l))
	return c.answer()
}

// rawLogin7 makes a LOGIN7 payload.
func rawLogin7(l loginWords) []byte {
	if l.version == 0 {
		l.version = tds.Version74
	}
	b := make([]byte, 94)
	binary.LittleEndian.PutUint32(b[4:], uint32(l.version))
	binary.LittleEndian.PutUint32(b[8:], l.packetSize)
	database := utf16.Encode([]rune(l.database))
	binary.LittleEndian.PutUint16(b[68:], 94)
	binary.LittleEndian.PutUint16(b[70:], uint16(len(database)))
	for _, u := range database {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	if l.features != nil {
		b[27] |= 0x10
		binary.LittleEndian.PutUint16(b[56:], uint16(len(b)))
		binary.LittleEndian.PutUint16(b[58:], 4)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(b)+4))
		b = append(b, l.features...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

// send sends one packet.
func (c *rawClient) send(typ, status byte, payload []byte) {
	c.t.Helper()
	require.NoError(c.t, c.write(typ, status, payload))
}

// write is send for other goroutines.
func (c *rawClient) write(typ, status byte, payload []byte) error {
	header := []byte{typ, status, 0, 0, 0, 0, 1, 0}
	binary.BigEndian.PutUint16(header[2:], uint16(len(payload)+8))
	_, err := c.conn.Write(append(header, payload...))
	return err
}

// batch sends a SQL batch.
func (c *rawClient) batch(status byte, text string) {
	c.t.Helper()
	payload := append([]byte{22, 0, 0, 0, 18, 0, 0, 0, 2, 0}, make([]byte, 12)...)
	payload[18] = 1
	for _, u := range utf16.Encode([]rune(text)) {
		payload = binary.LittleEndian.AppendUint16(payload, u)
	}
	c.send(1, status, payload)
}

// packet reads one packet.
func (c *rawClient) packet() (status byte, payload []byte, err error) {
	header := make([]byte, 8)
	if _, err := io.ReadFull(c.conn, header); err != nil {
		return 0, nil, err
	}
	require.Equal(c.t, byte(4), header[0], "packet type")
	n := int(binary.BigEndian.Uint16(header[2:]))
	require.GreaterOrEqual(c.t, n, 8)
	payload = make([]byte, n-8)
	if _, err := io.ReadFull(c.conn, payload); err != nil {
		return 0, nil, err
	}
	c.log = append(append(c.log, header...), payload...)
	return header[1], payload, nil
}

// answer reads one message.
func (c *rawClient) answer() []byte {
	c.t.Helper()
	var all []byte
	for {
		status, payload, err := c.packet()
		if err != nil {
			require.NoError(c.t, errors.Join(err, <-c.end))
		}
		all = append(all, payload...)
		if status&1 != 0 {
			return all
		}
	}
}

// tokens reads one message and decodes it strictly.
func (c *rawClient) tokens() []string {
	c.t.Helper()
	list, err := decodeTokens(c.answer(), false, false)
	require.NoError(c.t, err)
	lines := make([]string, len(list))
	for i, t := range list {
		lines[i] = t.line
	}
	return lines
}

// pipeTo connects a raw client to a server whose connections end with ctx.
func pipeTo(ctx context.Context, t testing.TB, s *tds.Server) (*rawClient, <-chan error) {
	t.Helper()
	client, srv := net.Pipe()
	c := &rawClient{t: t, conn: client, end: make(chan error, 1)}
	go func() { c.end <- s.ServeConn(ctx, srv) }()
	t.Cleanup(func() { _ = client.Close() })
	return c, c.end
}

// collect gives the values of a sequence.
func collect[T any](seq func(func(T) bool)) []T {
	var all []T
	seq(func(v T) bool { all = append(all, v); return true })
	return all
}
