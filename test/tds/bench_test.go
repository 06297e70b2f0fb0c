package tds_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// changeColumns are the columns of a change row of 13 columns and 149 bytes: the row by which readers are measured.
func changeColumns() []tds.Column {
	c := tds.CollationDefault()
	list := []tds.TypeInfo{
		tds.TypeBinary(10), tds.TypeBinary(10), tds.TypeFixed(tds.IDInt4), tds.TypeVarBinary(128), tds.TypeInt(4), tds.TypeInt(8),
		tds.TypeInt(4), tds.TypeVarChar(20, c), tds.TypeChar(3, c), tds.TypeDecimal(18, 2), tds.TypeDateTime2(7), tds.TypeDateTime2(7),
		tds.TypeNVarChar(200, c),
	}
	columns := make([]tds.Column, len(list))
	list[9].Size = 9 // values of one size, as the row of 149 bytes has them
	for i, t := range list {
		columns[i] = tds.Column{Name: "c" + itoa(i), Type: t, Flags: tds.FlagsNullableOfTable}
	}
	return columns
}

// changeRows writes n change rows; a quarter has NULL in the last column.
func changeRows(w *tds.Writer, n int) error {
	lsn, seq, mask := []byte("\x00\x00\x00\x2a\x00\x00\x01\x00\x00\x01"), []byte("\x00\x00\x00\x2a\x00\x00\x01\x00\x00\x02"), []byte{0xFF, 0x01}
	day, clock := tds.NewDate(2024, 5, 6), tds.NewTime(7, 8, 9, 123456700)
	w.Columns(changeColumns())
	for i := range n {
		row := w.Row()
		row.Bytes(lsn)
		row.Bytes(seq)
		row.Int(2)
		row.Bytes(mask)
		row.Int(1)
		row.Int(int64(i))
		row.Int(int64(i & 0xFFFF))
		row.String("customer 00")
		row.String("EUR")
		row.Decimal(false, 0, uint64(i)*100)
		row.DateTime2(day, clock)
		row.DateTime2(day, clock+tds.Time(i))
		if i%4 == 0 {
			row.Null()
		} else {
			row.String("note of some letters")
		}
		if err := row.End(); err != nil {
			return err
		}
	}
	w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: uint64(n)})
	return nil
}

// drain is a client that reads and throws away.
func drain(b *testing.B, handle func(w *tds.Writer) error, options ...func(*tds.Config)) {
	b.Helper()
	cfg := tds.Config{}
	for _, o := range options {
		o(&cfg)
	}
	done := make(chan error)
	s := serve(b, cfg, &script{handle: func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
		err := handle(w)
		done <- err
		return err
	}})
	conn, err := net.Dial("tcp", s.addr.String())
	require.NoError(b, err)
	c := &rawClient{t: b, conn: conn}
	c.login(loginWords{packetSize: 32767})
	c.batch(1, "go")
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	require.NoError(b, <-done)
	require.NoError(b, conn.Close())
}

// BenchmarkChangeRow encodes, frames and sends change rows to a client that does nothing. An op is a row.
func BenchmarkChangeRow(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(149)
	drain(b, func(w *tds.Writer) error {
		b.ResetTimer()
		err := changeRows(w, b.N)
		b.StopTimer()
		return err
	})
}

// BenchmarkChangeRowEncoding encodes rows by the Append functions alone.
func BenchmarkChangeRowEncoding(b *testing.B) {
	columns := changeColumns()
	lsn, mask := []byte("\x00\x00\x00\x2a\x00\x00\x01\x00\x00\x01"), []byte{0xFF, 0x01}
	day, clock := tds.NewDate(2024, 5, 6), tds.NewTime(7, 8, 9, 123456700)
	dst := make([]byte, 0, 4096)
	t := func(i int) *tds.TypeInfo { return &columns[i].Type }
	b.ReportAllocs()
	for i := range b.N {
		dst = append(dst[:0], 0xD1)
		dst = tds.AppendBytes(dst, t(0), lsn)
		dst = tds.AppendBytes(dst, t(1), lsn)
		dst = tds.AppendInt(dst, t(2), 2)
		dst = tds.AppendBytes(dst, t(3), mask)
		dst = tds.AppendInt(dst, t(4), 1)
		dst = tds.AppendInt(dst, t(5), int64(i))
		dst = tds.AppendInt(dst, t(6), int64(i))
		dst = tds.AppendString(dst, t(7), "customer 00")
		dst = tds.AppendString(dst, t(8), "EUR")
		dst = tds.AppendDecimal(dst, t(9), false, 0, uint64(i))
		dst = tds.AppendDateTime2(dst, 7, day, clock)
		dst = tds.AppendDateTime2(dst, 7, day, clock)
		dst = tds.AppendString(dst, t(12), "note of some letters")
	}
	b.SetBytes(int64(len(dst)))
}

// TestRowsDoNotAllocate counts allocations of a hundred thousand rows.
func TestRowsDoNotAllocate(t *testing.T) {
	result := testing.Benchmark(func(b *testing.B) {
		drain(b, func(w *tds.Writer) error {
			b.ResetTimer()
			b.ReportAllocs()
			err := changeRows(w, b.N)
			b.StopTimer()
			return err
		})
	})
	require.Zero(t, result.AllocsPerOp(), result.String()+result.MemString())
}
