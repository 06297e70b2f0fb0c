package sqlserversim_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// recorder keeps what the server sends.
type recorder struct {
	mu  sync.Mutex
	got []byte
}

// DialContext makes it the dialer of a driver.
func (r *recorder) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &recordedConn{Conn: c, r: r}, err
}

// take gives what came since the last time.
func (r *recorder) take() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

type recordedConn struct {
	net.Conn
	r *recorder
}

func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.got = append(c.r.got, b[:n]...)
	return n, err
}

// tokens names the tokens of an answer of unnamed, single int columns: what a test of the order of tokens needs and no more.
func tokens(t *testing.T, stream []byte) []string {
	t.Helper()
	var b []byte
	for len(stream) > 0 {
		n := binary.BigEndian.Uint16(stream[2:])
		b, stream = append(b, stream[8:n]...), stream[n:]
	}
	var out []string
	for len(b) > 0 {
		token, rest := b[0], b[1:]
		switch token {
		case 0x81: // one column: count 2, user type 4, flags 2, type
			typ := rest[8]
			rest = rest[9:]
			if typ == 0x26 { // INTN has a length; the fixed 0x38 has none
				rest = rest[1:]
			}
			require.Contains(t, []byte{0x26, 0x38}, typ)
			require.Zero(t, rest[0], "the column has a name")
			rest = rest[1:]
			out = append(out, "COLMETADATA")
		case 0xD1:
			if len(rest) > 4 && rest[0] == 4 {
				rest = rest[1:]
			}
			out = append(out, fmt.Sprint("ROW ", binary.LittleEndian.Uint32(rest)))
			rest = rest[4:]
		case 0x79:
			out = append(out, fmt.Sprint("RETURNSTATUS ", int32(binary.LittleEndian.Uint32(rest))))
			rest = rest[4:]
		case 0xAA, 0xAB, 0xE3:
			name := map[byte]string{0xAA: "ERROR", 0xAB: "INFO", 0xE3: "ENVCHANGE"}[token]
			if token != 0xE3 {
				name += fmt.Sprintf(" %d class %d", binary.LittleEndian.Uint32(rest[2:]), rest[7])
			}
			out = append(out, name)
			rest = rest[2+binary.LittleEndian.Uint16(rest):]
		case 0xFD, 0xFE, 0xFF:
			name := map[byte]string{0xFD: "DONE", 0xFE: "DONEPROC", 0xFF: "DONEINPROC"}[token]
			out = append(out, fmt.Sprintf("%s %#02x %#02x", name, binary.LittleEndian.Uint16(rest), binary.LittleEndian.Uint16(rest[2:])))
			rest = rest[12:]
		default:
			require.FailNow(t, "a token that this test does not know", "%#02x after %v", token, out)
		}
		b = rest
	}
	return out
}

// TestExecTokens: what EXEC looks like on the wire (MS-TDS 2.2.7.7, 2.2.7.8 and 2.2.7.18). A statement of a procedure ends in a
// DONEINPROC, an EXEC of the batch in RETURNSTATUS and DONEPROC, and nothing ever ends in a DONEINPROC.
func TestExecTokens(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	exec(t, sim, "CREATE TABLE dbo.t (a int)",
		"CREATE PROCEDURE dbo.two AS BEGIN INSERT dbo.t VALUES (1); SELECT 5; RETURN 7 END",
		"CREATE PROCEDURE dbo.outside AS BEGIN EXEC dbo.two; SELECT 6 END",
		"CREATE PROCEDURE dbo.bad AS BEGIN SELECT 5; SELECT CAST('x' AS int); SELECT 6 END",
		"CREATE PROCEDURE dbo.quiet AS BEGIN SET NOCOUNT ON; SELECT 5 END")
	rec := &recorder{}
	connector, err := mssql.NewConnector(sim.DSN())
	require.NoError(t, err)
	connector.Dialer = rec
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, rows(t, conn, "SELECT 1")) // the first one after a login resets the session
	two := []string{"DONEINPROC 0x11 0xc3", "COLMETADATA", "ROW 5", "DONEINPROC 0x11 0xc1"}
	with := func(parts ...any) (out []string) {
		for _, p := range parts {
			if list, ok := p.([]string); ok {
				out = append(out, list...)
			} else {
				out = append(out, fmt.Sprint(p))
			}
		}
		return out
	}
	for _, c := range []struct {
		name, text string
		args       []any
		want       []string
	}{
		{"a procedure", "EXEC dbo.two", nil, with(two, "RETURNSTATUS 7", "DONEPROC 0x00 0xe0")},
		{"and a statement", "EXEC dbo.two; SELECT 1", nil, with(two, "RETURNSTATUS 7", "DONEPROC 0x01 0xe0", "COLMETADATA", "ROW 1", "DONE 0x10 0xc1")},
		{"one that calls another", "EXEC dbo.outside", nil,
			with(two, "DONEINPROC 0x01 0xe0", "COLMETADATA", "ROW 6", "DONEINPROC 0x11 0xc1", "RETURNSTATUS 0", "DONEPROC 0x00 0xe0")},
		{"no counts", "EXEC dbo.quiet", nil, with("DONEINPROC 0x01 0x00", "COLMETADATA", "ROW 5", "DONEINPROC 0x01 0xc1", "RETURNSTATUS 0", "DONEPROC 0x00 0xe0")},
		{"a text", "EXEC ('SELECT 5')", nil, with("COLMETADATA", "ROW 5", "DONEINPROC 0x11 0xc1", "RETURNSTATUS 0", "DONEPROC 0x00 0xe0")},
		{"inside IF", "IF 1 = 1 BEGIN EXEC dbo.two END", nil, with(two, "RETURNSTATUS 7", "DONEPROC 0x00 0xe0")},
		{"one that the server has", "EXEC sys.sp_executesql N'SELECT 5'", nil, with("COLMETADATA", "ROW 5", "DONEINPROC 0x11 0xc1", "RETURNSTATUS 0", "DONEPROC 0x00 0xe0")},
		{"one that ends the batch", "EXEC dbo.bad; SELECT 1", nil,
			with("COLMETADATA", "ROW 5", "DONEINPROC 0x11 0xc1", "COLMETADATA", "ERROR 245 class 16", "DONEINPROC 0x03 0xc1", "DONEPROC 0x02 0xe0")},
		{"an error that is caught", "BEGIN TRY EXEC dbo.bad END TRY BEGIN CATCH END CATCH", nil,
			with("COLMETADATA", "ROW 5", "DONEINPROC 0x11 0xc1", "COLMETADATA", "DONEINPROC 0x01 0xc1", "DONE 0x00 0x00")},
		{"one that is not there", "EXEC dbo.nosuch", nil, with("ERROR 2812 class 16", "DONEPROC 0x02 0xe0")},
		{"within an RPC", "EXEC dbo.two SELECT @p1", []any{int32(9)},
			with(two, "DONEINPROC 0x01 0xe0", "COLMETADATA", "ROW 9", "DONEINPROC 0x11 0xc1", "RETURNSTATUS 0", "DONEPROC 0x00 0xe0")},
		{"a message of class 10", "RAISERROR('x', 10, 1) SELECT 1", nil, with("INFO 50000 class 0", "COLMETADATA", "ROW 1", "DONE 0x10 0xc1")},
		{"INSERT EXEC", "INSERT dbo.t EXEC ('SELECT 5')", nil, with("DONE 0x10 0xc3")},
	} {
		rec.take()
		_, _ = tryRows(t.Context(), conn, c.text, c.args...)
		require.Equal(t, c.want, tokens(t, rec.take()), c.name)
	}
	require.Equal(t, []string{"1"}, rows(t, conn, "SELECT 1"), "the driver understood it all")
}
