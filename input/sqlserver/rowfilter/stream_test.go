package rowfilter_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// source gives recorded bytes in pieces, then the end.
type source struct {
	b     []byte
	piece func() int
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(1, s.piece()))], s.b)
	s.b = s.b[n:]
	return n, nil
}

func (s *source) Write(p []byte) (int, error) { return len(p), nil }

// recorded is the answer of a server to a statement, as bytes.
func recorded(t testing.TB, config tds.Config, a answer) []byte {
	t.Helper()
	h := newHost(t, config)
	var wire *limitedConn
	h.dialed = limitReads(&wire)
	h.says(a)
	db := h.open(t, false)
	ping(t, context.Background(), db)
	wire.received()
	rows, err := db.QueryContext(context.Background(), "SELECT rows")
	require.NoError(t, err)
	for rows.Next() { //nolint:revive // only the bytes count
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return wire.received()
}

// through is what comes out of a filter that recorded bytes go into.
type through struct {
	forwarded []byte // tokens for the driver
	batches   []fetch.Batch
	complete  bool
	refused   *rowfilter.Refusal
	err       error
}

// pass sends an answer through the filter, read in pieces on both sides.
func pass(t testing.TB, answer []byte, statement fetch.Statement, piece func() int) through {
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	conn := rowfilter.Over(near, &source{b: bytes.Clone(answer), piece: piece})
	reading := conn.Arm(statement)
	_, err := conn.Write([]byte{1, 1, 0, 8, 0, 0, 1, 0})
	require.NoError(t, err)
	var out through
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case b := <-reading.Batches():
				out.batches = append(out.batches, b)
			case <-stop:
				return
			}
		}
	}()
	var packets []byte
	p := make([]byte, 700)
	for {
		n, err := conn.Read(p[:max(1, min(len(p), piece()))])
		packets = append(packets, p[:n]...)
		require.LessOrEqual(t, len(packets), 2*len(answer)+4096, "more comes out than went in")
		if err != nil {
			out.err = err
			break
		}
	}
	close(stop)
	<-done
	out.batches = append(out.batches, reading.Take()...)
	out.complete, out.refused = reading.Complete(), reading.Refused()
	out.forwarded = payload(packets)
	return out
}

// payload takes the headers of packets away; what is not whole is left out.
func payload(packets []byte) (tokens []byte) {
	for len(packets) >= 8 {
		n := int(binary.BigEndian.Uint16(packets[2:]))
		if n < 8 || n > len(packets) {
			return tokens
		}
		tokens = append(tokens, packets[8:n]...)
		packets = packets[n:]
	}
	return tokens
}

// TestEverySplit reads an answer in pieces of every size.
func TestEverySplit(t *testing.T) {
	t.Parallel()
	chosen := mixed()
	statement := wants(4, 1<<20, asked(chosen)...)
	answer := recorded(t, tds.Config{PacketSize: 512}, rowset(4, 30, chosen...))
	whole := pass(t, answer, statement, func() int { return 1 << 20 })
	require.ErrorIs(t, whole.err, io.EOF)
	require.True(t, whole.complete)
	require.Nil(t, whole.refused)
	var rows int64
	for _, b := range whole.batches {
		rows += b.Record.NumRows()
	}
	require.EqualValues(t, 30, rows)
	all := payload(answer)
	columns := len(whole.forwarded) - 13
	require.Equal(t, all[:columns], whole.forwarded[:columns], "the column metadata")
	require.Contains(t, []byte{0xD1, 0xD2}, all[columns], "a row follows it")
	require.Equal(t, all[len(all)-13:], whole.forwarded[columns:], "DONE")
	for size := 1; size < 600; size += 1 + size/40 {
		got := pass(t, answer, statement, func() int { return size })
		require.Equal(t, whole.forwarded, got.forwarded)
		require.True(t, got.complete)
		requireRecords(t, outcome{batches: whole.batches}, outcome{batches: got.batches})
	}
}

// TestTornPackets cuts the same tokens into packets of random sizes.
func TestTornPackets(t *testing.T) {
	t.Parallel()
	chosen := mixed()
	statement := wants(4, 1<<20, asked(chosen)...)
	answer := recorded(t, tds.Config{}, rowset(4, 30, chosen...))
	whole := pass(t, answer, statement, func() int { return 1 << 20 })
	tokens := payload(answer)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		var torn []byte
		for rest := tokens; len(rest) > 0; {
			n := min(len(rest), r.IntN(1+[]int{1, 3, 40, 3000}[r.IntN(4)])) // empty packets, too
			if n == 0 && len(rest) == len(tokens) {
				n = 1
			}
			status := byte(0)
			if n == len(rest) {
				status = 1
			}
			torn = append(torn, 4, status, 0, 0, 0, 0, 1, 0)
			binary.BigEndian.PutUint16(torn[len(torn)-6:], uint16(8+n))
			torn = append(torn, rest[:n]...)
			rest = rest[n:]
		}
		got := pass(t, torn, statement, func() int { return 1 + r.IntN(300) })
		require.True(t, got.complete, "seed %d: %v", seed, got.err)
		require.Equal(t, whole.forwarded, got.forwarded, "seed %d", seed)
		requireRecords(t, outcome{batches: whole.batches}, outcome{batches: got.batches})
	}
}

// TestLongValues reads values of several megabytes, between short ones and in chunks of both kinds.
func TestLongValues(t *testing.T) {
	t.Parallel()
	h := newHost(t, tds.Config{})
	plain, filter := h.open(t, false), h.open(t, true)
	text, raw := encodings()[slot("nvarchar(max)")], encodings()[slot("varbinary(max)")]
	for _, plp := range []tds.PLP{{}, {Unknown: true, Chunk: 8000}} {
		h.says(func(_ context.Context, w *tds.Writer) error {
			w.SetPLP(plp)
			w.Columns([]tds.Column{{Name: "a", Type: text.typ, Flags: tds.FlagsNullableOfTable}, {Name: "b", Type: raw.typ, Flags: tds.FlagsNullableOfTable}})
			for _, n := range []int{0, 3_000_000, 1, 500, 1_500_000} {
				if err := w.WriteRow(strings.Repeat("日x", n/2), bytes.Repeat([]byte{7}, n)); err != nil {
					return err
				}
			}
			return w.WriteRow(nil, nil)
		})
		statement := wants(100, 1<<20, text.want, raw.want)
		want, got := read(t.Context(), plain, statement), read(t.Context(), filter, statement)
		require.NoError(t, want.err)
		require.NoError(t, got.err)
		require.Equal(t, "filter", got.choice.Reader)
		requireRecords(t, want, got)
	}
}

// TestRefusedAnswersPassWhole lets answers that the filter does not want through, in pieces of every size.
func TestRefusedAnswersPassWhole(t *testing.T) {
	t.Parallel()
	variant := encodings()[slot("sql_variant of text")]
	statement := wants(4, 1<<20, variant.want)
	answer := recorded(t, tds.Config{PacketSize: 512}, rowset(4, 60, variant))
	for size := 1; size < 600; size += 1 + size/40 {
		got := pass(t, answer, statement, func() int { return size })
		require.Equal(t, payload(answer), got.forwarded, "size %d", size)
		require.Equal(t, rowfilter.WantedType, got.refused.Reason)
		require.Empty(t, got.batches)
	}
}

// TestRecordedAnswers keeps the answers that the fuzz target starts from: -rewrite makes them anew.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	for name, nbc := range map[string]tds.NBCPolicy{"row": tds.NBCNever, "nbcrow": tds.NBCAlways} {
		answer := recorded(t, tds.Config{NBC: nbc, PacketSize: 512}, rowset(7, 8, mixed()...))
		clear(answer[4:6]) // the number of the session
		path := filepath.Join("testdata", name+".bin")
		if *rewrite {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, answer, 0o600))
		}
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		statement := wants(3, 1<<16, asked(mixed())...)
		once := func() int { return 1 << 20 }
		want, got := pass(t, answer, statement, once), pass(t, kept, statement, once)
		requireRecords(t, outcome{batches: want.batches}, outcome{batches: got.batches})
	}
}

var rewrite = flag.Bool("rewrite", false, "make the recorded answers anew")

// quiet is a socket that is only closed.
type quiet struct{ net.Conn }

func (quiet) Close() error { return nil }

// FuzzAnswer sends broken answers through: no panic, no endless loop, bounded output, and rows only where the answer is sound.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"row", "nbcrow"} {
		answer, err := os.ReadFile(filepath.Join("testdata", name+".bin"))
		require.NoError(f, err)
		f.Add(answer, uint8(255))
		f.Add(answer, uint8(3))
	}
	f.Add([]byte{4, 1, 0, 13, 0, 0, 1, 0, 0x81, 1, 0, 0xD1, 0xD1}, uint8(255))
	f.Add([]byte{4, 1, 0, 8, 0, 0, 1, 0}, uint8(1))
	statement := wants(1<<20, 1<<30, asked(mixed())...)
	f.Fuzz(func(t *testing.T, answer []byte, piece uint8) {
		if len(answer) > 1<<14 {
			return
		}
		conn := rowfilter.Over(quiet{}, &source{b: bytes.Clone(answer), piece: func() int { return 8 * int(piece) }})
		reading := conn.Arm(statement)
		_, err := conn.Write([]byte{1, 1, 0, 8, 0, 0, 1, 0})
		require.NoError(t, err)
		p := make([]byte, 700)
		for out := 0; err == nil; {
			var n int
			n, err = conn.Read(p)
			out += n
			require.LessOrEqual(t, out, 2*len(answer)+4096, "more comes out than went in")
		}
		inOrder := conn.Disarm(reading)
		if errors.As(err, new(*rowfilter.StreamError)) {
			require.False(t, inOrder)
			return
		}
		for _, b := range reading.Take() {
			require.LessOrEqual(t, b.Record.NumRows()*2, int64(len(answer)), "a row of these columns has more than two bytes")
			for i := range int(b.Record.NumCols()) {
				column := b.Record.Column(i)
				for k := range column.Len() {
					column.ValueStr(k) // offsets and lengths that do not fit would panic
				}
			}
		}
	})
}

// TestMutatedAnswers is the fuzz target over a sweep of seeds.
func TestMutatedAnswers(t *testing.T) {
	t.Parallel()
	chosen := mixed()
	statement := wants(3, 1<<16, asked(chosen)...)
	original := recorded(t, tds.Config{PacketSize: 512}, rowset(7, 20, chosen...))
	ends := map[bool]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := bytes.Clone(original)
		hot := len(b)
		if seed%2 == 0 {
			hot = min(hot, 300) // headers and metadata
		}
		for range 1 + r.IntN(4) {
			b[r.IntN(hot)] = byte(r.Uint32())
		}
		if seed%7 == 0 {
			b = b[:r.IntN(len(b))]
		}
		got := pass(t, b, statement, func() int { return 1 + r.IntN(2000) })
		require.Error(t, got.err, "seed %d", seed)
		ends[errors.As(got.err, new(*rowfilter.StreamError))]++
	}
	require.Greater(t, ends[true], 100)
	require.Greater(t, ends[false], 100)
}
