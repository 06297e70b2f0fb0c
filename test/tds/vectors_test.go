package tds_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// vector is a message that somebody else's client or server sent.
type vector struct {
	header  []byte // of the first packet, nil when the source gives tokens only
	payload []byte // of all packets
	raw     []byte // the packets as they are
	lines   []string
}

// readVector reads a .hex file: # comments, among them what another decoder made of the bytes, then hex.
func readVector(t *testing.T, path string) vector {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var v vector
	var digits strings.Builder
	tokensOnly := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			digits.WriteString(strings.ReplaceAll(line, " ", ""))
			continue
		}
		if strings.HasPrefix(comment, "layout: token stream") {
			tokensOnly = true
		}
		if word, _, _ := strings.Cut(comment, ": "); !slices.Contains([]string{"source", "server", "direction", "layout", "checks", "note"}, word) {
			v.lines = append(v.lines, comment)
		}
	}
	v.lines = v.lines[1:] // the title
	v.raw, err = hex.DecodeString(digits.String())
	require.NoError(t, err)
	if v.payload = v.raw; !tokensOnly {
		v.header, v.payload = unpack(t, v.raw)
	}
	return v
}

// unpack joins the payloads of packets that make one message.
func unpack(t *testing.T, raw []byte) (header, payload []byte) {
	t.Helper()
	header = raw[:8]
	for len(raw) > 0 {
		n := int(binary.BigEndian.Uint16(raw[2:]))
		require.LessOrEqual(t, n, len(raw))
		payload = append(payload, raw[8:n]...)
		raw = raw[n:]
	}
	return header, payload
}

// Kinds of vectors, and how each is proven.
const (
	vPrelogin  = "PRELOGIN: parsed, written again to the same bytes"
	vLogin     = "LOGIN7: parsed"
	vRequest   = "request: parsed"
	vRequest71 = "request of TDS 7.1: parsed with that version"
	vBulk      = "bulk load: recognised"
	vSSPI      = "SSPI: recognised"
	vAttention = "attention: recognised"
	vTokens    = "answer: decoded, written by the Writer to the same bytes"
	vAccept    = "login answer: decoded, written by a login to the same bytes"
	vDecode    = "answer: decoded only, because "
)

// vectorKinds lists every vector by name. A new file must be added here.
func vectorKinds() map[string]string {
	const (
		narrow  = vDecode + "it has TDS 7.1 widths, and the server refuses 7.1"
		cek     = vDecode + "it follows an acknowledgement of column encryption, which the server never gives"
		nowhere = vDecode + "it is a token of server cursors, which the server never sends"
		before  = vDecode + "it has the tokens in another order than servers since 2008"
		runs    = vDecode + "Azure ran statements of its own before LOGINACK"
		zeroed  = vDecode + "the source blanks the product version, and 0.0.0 means the default here"
		state   = vDecode + "SESSIONSTATE follows an acknowledgement of session recovery, which the server never gives"
	)
	return map[string]string{
		"azure-pytds-prelogin-response":             vPrelogin,
		"mstds-4-01-prelogin-request":               vPrelogin,
		"mstds-4-02-login7-request":                 vLogin,
		"mstds-4-03-login7-fedauth-request":         vLogin,
		"mstds-4-04-login-response":                 before,
		"mstds-4-05-login-response-fedauth":         vAccept,
		"mstds-4-06-sqlbatch-request":               vRequest,
		"mstds-4-07-sqlbatch-response":              vTokens,
		"mstds-4-08-rpc-request":                    vRequest,
		"mstds-4-09-rpc-response":                   vTokens,
		"mstds-4-10-attention-request":              vAttention,
		"mstds-4-11-sspi-message":                   vSSPI,
		"mstds-4-12-bulk-load":                      vBulk,
		"mstds-4-13-tm-request":                     vRequest,
		"mstds-4-14-tvp-insert":                     vRequest,
		"mstds-4-15-sparse-nbcrow-response":         vTokens,
		"mstds-4-16-login7-sessionrecovery":         vLogin,
		"mstds-4-17-login-response-sessionrecovery": zeroed,
		"mstds-4-18-sessionstate-response":          state,
		"mstds-4-20-login7-azuresqlsupport":         vLogin,
		"mstds-4-21-login-response-azuresqlsupport": runs,
		"ndpi-00-port1111":                          vRequest,
		"ndpi-01-port1111":                          vTokens,
		"ndpi-02-port1111":                          vRequest,
		"ndpi-03-port1111":                          vTokens,
		"ndpi-04-port2222":                          vRequest71,
		"ndpi-05-port2222":                          narrow,
		"ndpi-06-port3333":                          vRequest,
		"ndpi-07-port4444":                          vRequest71,
		"ndpi-08-port5555":                          vRequest,
		"ndpi-09-port5555":                          vTokens,
		"ndpi-10-port5555":                          vRequest,
		"ndpi-11-port5555":                          vTokens,
		"ndpi-12-port5555":                          vRequest,
		"ndpi-13-port5555":                          vTokens,
		"ndpi-14-port5555":                          vRequest,
		"ndpi-15-port5555":                          vTokens,
		"ndpi-17-port5555":                          vRequest,
		"ndpi-18-port5555":                          vTokens,
		"ndpi-20-port5555":                          vRequest,
		"ndpi-21-port5555":                          vTokens,
		"ndpi-23-port5555":                          vRequest,
		"ndpi-24-port5555":                          vTokens,
		"ndpi-25-port6666-two-packets":              vRequest,
		"ndpi-32-port7777":                          vRequest,
		"ndpi-33-port8888":                          vRequest,
		"ndpi-34-port9999":                          vRequest71,
		"ndpi-35-port11111":                         vRequest71,
		"ndpi-36-port22222":                         vRequest71,
		"ndpi-37-port33333":                         vRequest,
		"smp-4-3-first-command":                     vRequest,
		"ss2000-arkime-login-response":              narrow,
		"ss2000-arkime-prelogin-request":            vPrelogin,
		"ss2000-arkime-prelogin-response":           vPrelogin,
		"ss2000-arkime-select-response":             narrow,
		"ss2000-arkime-sqlbatch-request":            vRequest71,
		"ss2008-esf-prelogin-response":              vPrelogin,
		"ss2008-pytds-begin-response":               vTokens,
		"ss2008-pytds-login-response":               vAccept,
		"ss2008-pytds-prelogin-response":            vPrelogin,
		"ss2008-tedious610-prelogin-response":       vPrelogin,
		"ss2012-esf-prelogin-response":              vPrelogin,
		"ss2014-freetds425-prelogin-response":       vPrelogin,
		"ss2017-r2dbc-colinfo":                      nowhere,
		"ss2017-r2dbc-colmetadata-binary-cek":       cek,
		"ss2017-r2dbc-colmetadata-employee-cek":     cek,
		"ss2017-r2dbc-colmetadata-row-cek":          cek,
		"ss2017-r2dbc-colmetadata-varcharmax-cek":   cek,
		"ss2017-r2dbc-error-207":                    vTokens,
		"ss2017-r2dbc-login-response":               vAccept,
		"ss2017-r2dbc-returnvalue":                  vTokens,
		"ss2017-r2dbc-tabname":                      nowhere,
		"ss2019-beats-login-response":               vAccept,
		"ss2019-beats-query-batch":                  vRequest,
		"ss2019-beats-select-text":                  vTokens,
		"ss2019-rust-login-response":                vAccept,
		"ss2022-beats-insert-batch":                 vRequest,
		"ss2022-beats-login-response":               vAccept,
		"ss2022-beats-prelogin-request":             vPrelogin,
		"ss2022-beats-select-datetime":              vTokens,
		"ss2022-beats-select-nbcrow":                vTokens,
		"ss2022-beats-select-text":                  vTokens,
		"ss2022-beats-select-types":                 vTokens,
		"ss2022-jdbc1599-fmtonly-response":          cek,
		"ss2022-tdsdump-login-response":             vAccept,
		"ss2022-tdsdump-select-1":                   vTokens,
		"ss2025-pysqlbridge-login-response":         vAccept,
		"ss2025-pysqlbridge-prelogin-request":       vPrelogin,
		"ss2025-pysqlbridge-prelogin-response":      vPrelogin,
	}
}

// TestVectors proves every message of other people's clients and servers. Some are kept in testdata; all of them are in
// the shared material.
func TestVectors(t *testing.T) {
	kinds := vectorKinds()
	run := func(t *testing.T, dir string) (seen []string) {
		files, err := filepath.Glob(filepath.Join(dir, "*.hex"))
		require.NoError(t, err)
		for _, path := range files {
			name := strings.TrimSuffix(filepath.Base(path), ".hex")
			kind, ok := kinds[name]
			require.True(t, ok, "%s is in no list", name)
			seen = append(seen, name)
			t.Run(name, func(t *testing.T) { prove(t, kind, name, readVector(t, path)) })
		}
		return seen
	}
	t.Run("testdata", func(t *testing.T) { require.NotEmpty(t, run(t, filepath.Join("testdata", "vectors"))) })
	t.Run("shared", func(t *testing.T) {
		dir := filepath.Join(sharedDir(t, "SHARED_DATA", "data"), "tds")
		require.Len(t, run(t, dir), len(kinds), "a vector of the list is missing")
	})
}

// prove runs the proof of a kind.
func prove(t *testing.T, kind, name string, v vector) {
	switch kind {
	case vPrelogin:
		provePrelogin(t, v)
	case vLogin:
		require.Equal(t, byte(tds.PacketLogin7), v.header[0])
		l, err := tds.ParseLogin7(v.payload)
		require.NoError(t, err)
		require.Equal(t, v.lines, loginLines(l))
	case vRequest, vRequest71:
		proveRequest(t, kind, v)
	case vBulk:
		req, err := tds.ParseRequest(tds.PacketType(v.header[0]), v.payload, tds.Version74)
		require.NoError(t, err)
		require.Equal(t, v.payload, req.Body.(*tds.BulkLoad).Data)
		list, err := decodeTokens(v.payload, false, false)
		require.NoError(t, err)
		require.Equal(t, v.lines, linesOf(list))
	case vSSPI, vAttention:
		_, err := tds.ParseRequest(tds.PacketType(v.header[0]), v.payload, tds.Version74)
		require.ErrorContains(t, err, tds.PacketType(v.header[0]).String())
		require.Equal(t, kind == vAttention, len(v.payload) == 0)
	default:
		proveAnswer(t, kind, name, v)
	}
}

// proveAnswer decodes an answer, compares with the other decoder, and has it written again where that is possible.
func proveAnswer(t *testing.T, kind, name string, v vector) {
	narrow := strings.Contains(kind, "7.1 widths")
	list, err := decodeTokens(v.payload, narrow, strings.Contains(kind, "column encryption"))
	require.NoError(t, err)
	if !strings.HasPrefix(name, "ss2017-r2dbc-tabname") { // the other decoder printed the name only
		require.Equal(t, v.lines, linesOf(list))
	}
	var got []byte
	switch {
	case strings.HasPrefix(kind, vDecode):
		return
	case kind == vAccept:
		got = writeLogin(t, list)
	default:
		got = writeTokens(t, list)
	}
	require.Equal(t, hex.Dump(v.payload), hex.Dump(got))
}

// linesOf gives the tokens' lines, of at most 400 characters as the vectors have them.
func linesOf(list []token) []string {
	var lines []string
	for _, t := range list {
		lines = append(lines, t.line[:min(len(t.line), 400)])
	}
	return lines
}

// writeTokens has a session write the tokens and gives the answer's payload.
func writeTokens(t *testing.T, list []token) []byte {
	t.Helper()
	cfg := tds.Config{NBC: tds.NBCNever} // not every server sends it
	if slices.ContainsFunc(list, func(t token) bool { return t.name == "NBCROW" }) {
		cfg.NBC = tds.NBCAuto
	}
	c := dialRaw(t, cfg, &script{handle: func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
		for _, token := range list {
			if token.name == "ROW" && strings.Contains(token.line, "<sparse") {
				w.SetPLP(tds.PLP{Unknown: true}) // as SQL Server sends xml
			}
			if err := token.write(w); err != nil {
				return err
			}
		}
		if last := list[len(list)-1]; !strings.HasPrefix(last.name, "DONE") {
			return w.EndMessage() // the source shows one token
		}
		return nil
	}})
	c.login(loginWords{})
	c.batch(1, "go")
	return c.answer()
}

// writeLogin has a login answered with what the tokens say and gives the answer's payload.
func writeLogin(t *testing.T, list []token) []byte {
	t.Helper()
	cfg := tds.Config{}
	answer := &tds.LoginAnswer{Features: []tds.Feature{}}
	words := loginWords{packetSize: 4096}
	for _, token := range list {
		switch {
		case token.ack != nil:
			cfg.Version, cfg.ProgramName, words.version = token.ack.product, token.ack.program, token.ack.version
		case token.message != nil:
			cfg.ServerName = token.message.Server
		case token.env == 1:
			answer.Database, answer.OldDatabase = token.fresh, token.old
		case token.env == 2:
			answer.Language = token.fresh
		case token.env == 4:
			var size uint32
			_, err := fmt.Sscan(token.fresh, &size)
			require.NoError(t, err)
			words.packetSize = size
		case token.env == 7:
			answer.Collation = tds.Collation([]byte(token.fresh))
		case token.feature != nil:
			answer.Features = token.feature
		}
	}
	c := dialRaw(t, cfg, &script{login: func(*tds.Conn, *tds.Login) (*tds.LoginAnswer, error) { return answer, nil }})
	return c.login(words)
}
