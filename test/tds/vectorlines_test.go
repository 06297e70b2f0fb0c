package tds_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// provePrelogin parses a PRELOGIN of either direction and writes it again.
func provePrelogin(t *testing.T, v vector) {
	options, err := tds.ParsePrelogin(v.payload)
	require.NoError(t, err)
	var lines []string
	names := []string{"VERSION", "ENCRYPTION", "INSTOPT", "THREADID", "MARS", "TRACEID", "FEDAUTHREQUIRED", "NONCEOPT"}
	for _, o := range options {
		text := hex.EncodeToString(o.Data)
		switch {
		case o.Token == tds.PreloginVersion:
			text = fmt.Sprintf("%d.%d.%d sub %d", o.Data[0], o.Data[1], binary.BigEndian.Uint16(o.Data[2:]), binary.BigEndian.Uint16(o.Data[4:]))
		case text == "":
			text = "(empty)"
		}
		lines = append(lines, names[o.Token]+" "+text)
	}
	require.Equal(t, v.lines, lines)
	require.Equal(t, hex.Dump(v.payload), hex.Dump(tds.AppendPrelogin(nil, options)))
}

// TestPreloginAnswersOfManyBuilds makes the answer of 62 builds from 2000 to 2017: the start of it, as far as the source has
// it.
func TestPreloginAnswersOfManyBuilds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(sharedDir(t, "SHARED_DATA", "data"), "tds", "prelogin-answers-nmap.tsv")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	require.GreaterOrEqual(t, len(rows), 62)
	for _, row := range rows {
		fields := strings.Split(row, "\t")
		var major, minor, build int
		_, err := fmt.Sscanf(fields[0], "%d.%d.%d", &major, &minor, &build)
		require.NoError(t, err)
		payload := tds.AppendPrelogin(nil, []tds.PreloginOption{
			{Token: tds.PreloginVersion, Data: []byte{byte(major), byte(minor), byte(build >> 8), byte(build), 0, 0}},
			{Token: tds.PreloginEncryption, Data: []byte{0}},
			{Token: tds.PreloginInstance, Data: []byte{0}},
			{Token: tds.PreloginThreadID},
		})
		packet := append([]byte{4, 1, 0, byte(8 + len(payload)), 0, 0, 1, 0}, payload...)
		require.Len(t, packet, 37)
		require.Equal(t, fields[3], hex.EncodeToString(packet[:33]), fields[0])
	}
}

// loginLines prints a LOGIN7 as tdscheck does.
func loginLines(l *tds.Login) []string {
	lines := []string{fmt.Sprintf("tds %08x packet size %d flags %s", uint32(l.Version), l.PacketSize, spaced(l.Options[:]))}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+" '"+value+"'")
		}
	}
	add("host", l.Host)
	add("user", l.User)
	add("app", l.App)
	add("server", l.Server)
	if l.Features != nil {
		var words []string
		for _, f := range l.Features {
			words = append(words, fmt.Sprintf("0x%02x(%d bytes)", f.ID, len(f.Data)))
		}
		lines = append(lines, "features "+strings.Join(words, " "))
	}
	add("lib", l.Library)
	add("lang", l.Language)
	add("db", l.Database)
	return lines
}

// spaced prints bytes with blanks between.
func spaced(b []byte) string { return strings.TrimSpace(fmt.Sprintf("% x", b)) }

// proveRequest parses a request and compares it with what the other decoder said.
func proveRequest(t *testing.T, kind string, v vector) {
	version := tds.Version74
	if kind == vRequest71 {
		version = tds.Version71
	}
	req, err := tds.ParseRequest(tds.PacketType(v.header[0]), v.payload, version)
	require.NoError(t, err)
	var lines []string
	if version.Wide() {
		h := binary.LittleEndian.AppendUint64(nil, req.Headers.Transaction)
		h = binary.LittleEndian.AppendUint32(h, req.Headers.Outstanding)
		lines = append(lines, "header type 2 "+hex.EncodeToString(h))
	}
	switch body := req.Body.(type) {
	case *tds.SQLBatch:
		lines = append(lines, "SQL "+literal(body.Text))
	case *tds.RPC:
		lines = append(lines, rpcLines(body)...)
	case *tds.Invalid:
		lines = append(lines, invalidLines(t, v, body)...)
	}
	if len(v.lines) == 0 {
		proveLongRPC(t, req.Body.(*tds.RPC)) // the other decoder did not print it
		return
	}
	require.Equal(t, v.lines, lines)
}

// proveLongRPC looks at the request of two packets.
func proveLongRPC(t *testing.T, r *tds.RPC) {
	require.Len(t, r.Calls, 1)
	require.Equal(t, "p_SaveExample", r.Calls[0].Name())
	p := r.Calls[0].Params[0]
	require.Equal(t, "@LongParam", p.Name)
	require.Equal(t, "nvarchar(max)", p.Type.String())
	require.Len(t, []rune(p.Value.(string)), 0x2004/2)
	require.True(t, strings.HasPrefix(p.Value.(string), "Studenckie Koło Przewodników Turystycznych"), p.Value)
}

// rpcLines prints an RPC as tdscheck's fuller sibling did in the comments.
func rpcLines(r *tds.RPC) []string {
	var lines []string
	for i, c := range r.Calls {
		if i > 0 {
			lines = append(lines, "batch flag 0xff")
		}
		name := c.Proc
		if c.ID != 0 {
			name = fmt.Sprintf("procedure id %d", c.ID)
		}
		lines = append(lines, fmt.Sprintf("RPC %s option flags 0x%04x", name, c.Options))
		for _, p := range c.Params {
			status := 0
			if p.Output {
				status |= 1
			}
			if p.Default {
				status |= 2
			}
			lines = append(lines, fmt.Sprintf("parameter '%s' status %d %s = %s", p.Name, status, typeName(&p.Type), showValue(&p)))
		}
	}
	return lines
}

// showValue prints a parameter as the comments do, where the wire's own bytes are shown.
func showValue(p *tds.Param) string {
	switch v := p.Value.(type) {
	case nil:
		return "NULL"
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int64:
		return fmt.Sprint(v)
	case string:
		text := []rune(literal(v))
		return string(text[:min(60, len(text))])
	case []byte:
		return "0x" + hex.EncodeToString(v)
	case tds.UUID:
		return "0x" + hex.EncodeToString([]byte{v[3], v[2], v[1], v[0], v[5], v[4], v[7], v[6]}) + hex.EncodeToString(v[8:])
	case tds.DateTime:
		b := binary.LittleEndian.AppendUint32(nil, uint32(v.Days))
		return "0x" + hex.EncodeToString(binary.LittleEndian.AppendUint32(b, v.Ticks))
	default:
		return fmt.Sprintf("%T", v)
	}
}

// invalidLines checks the two requests that are refused by name, and prints them as the comments do.
func invalidLines(t *testing.T, v vector, body *tds.Invalid) []string {
	unsupported, ok := errors.AsType[*tds.UnsupportedError](body.Err)
	require.True(t, ok, body.Err)
	if body.Type == tds.PacketTransaction {
		require.Equal(t, "transaction request 22", unsupported.What)
		return []string{"TM request 22 rest (none)"}
	}
	require.Equal(t, "table-valued parameter dbo.tvptype", unsupported.What)
	at := bytes.IndexByte(v.payload, 0xF3)
	return []string{"RPC foo option flags 0x0000", "TVP parameter, rest " + hex.EncodeToString(v.payload[at:])}
}
