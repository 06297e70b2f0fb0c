package tds_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// TestRecordedConversations reads conversations of go-mssqldb and pymssql with a server by other hands (Babelfish): its answers
// through the strict decoder, which proves the decoder on an encoder that is not ours, and the clients' requests through
// the request parsers. What the server answered is also written again, which proves the writer on every type.
func TestRecordedConversations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(sharedDir(t, "SHARED_DATA", "data"), "babelfish", "observed", "*.tds"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			requests, tokens, again := readConversation(t, path)
			require.Greater(t, requests, 10)
			require.Greater(t, tokens, 30)
			require.Greater(t, again, 5)
		})
	}
}

// recorded is one message of a recording.
type recorded struct {
	typ, status byte
	payload     []byte
	server      bool
}

// messages joins the packets of a recording, a packet a line: connection, C or S, header, body.
func messages(t *testing.T, path string) []recorded {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var list []recorded
	open := map[string]*recorded{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(f) < 3 || strings.Contains(line, "left out") {
			continue
		}
		header, err := hex.DecodeString(f[2])
		require.NoError(t, err)
		var body []byte
		if len(f) > 3 {
			body, err = hex.DecodeString(f[3])
			require.NoError(t, err)
		}
		key := f[0] + f[1]
		m := open[key]
		if m == nil {
			m = &recorded{typ: header[0], status: header[1], server: f[1] == "S"}
			open[key] = m
		}
		m.payload = append(m.payload, body...)
		if header[1]&1 != 0 {
			list = append(list, *m)
			delete(open, key)
		}
	}
	return list
}

// readConversation counts requests parsed, tokens decoded, and answers that the writer made again byte for byte.
func readConversation(t *testing.T, path string) (requests, tokens, again int) {
	for _, m := range messages(t, path) {
		switch {
		case m.server && bytes.HasPrefix(m.payload, []byte{0, 0, 0x1F}): // PRELOGIN
		case m.server:
			list, err := decodeTokens(m.payload, false, false)
			require.NoError(t, err, hex.EncodeToString(m.payload[:min(len(m.payload), 200)]))
			tokens += len(list)
			if rewritable(list) {
				require.Equal(t, hex.Dump(m.payload), hex.Dump(writeTokens(t, list)))
				again++
			}
		case m.typ == byte(tds.PacketPrelogin) || m.typ == byte(tds.PacketLogin7) || m.typ == byte(tds.PacketAttention):
		default:
			req, err := tds.ParseRequest(tds.PacketType(m.typ), m.payload, tds.Version74)
			require.NoError(t, err)
			if invalid, ok := req.Body.(*tds.Invalid); ok {
				require.NoError(t, invalid.Err)
			}
			requests++
		}
	}
	return requests, tokens, again
}

// rewritable reports whether all tokens are ones the writer has, and end in one that ends an answer. The strict decoder keeps a
// sql_variant as bytes; and that server sends a time of 24 hours, which the writer refuses.
func rewritable(list []token) bool {
	for _, t := range list {
		if t.write == nil || t.env == 7 || t.env == 4 || strings.Contains(t.line, "sql_variant") {
			return false
		}
		if slices.ContainsFunc(t.values, func(v tds.Value) bool { return v == tds.Time(tds.TicksPerDay) }) {
			return false
		}
	}
	return len(list) > 0 && strings.HasPrefix(list[len(list)-1].name, "DONE")
}
