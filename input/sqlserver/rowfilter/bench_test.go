package rowfilter_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// narrowRows is a change table of 13 columns and about 150 bytes a row.
func narrowRows(rows int) (answer, fetch.Statement) {
	text := tds.CollationDefault()
	kinds := []fetch.Kind{
		fetch.LSN, fetch.LSN, fetch.Int32, fetch.Int32, fetch.Timestamp, fetch.Int64, fetch.Int32, fetch.Text, fetch.Text, fetch.Decimal,
		fetch.Timestamp, fetch.Timestamp, fetch.Text,
	}
	types := []tds.TypeInfo{
		tds.TypeBinary(10), tds.TypeBinary(10), tds.TypeFixed(tds.IDInt4), tds.TypeInt(4), tds.TypeDateTime(8), tds.TypeInt(8), tds.TypeInt(4), tds.TypeVarChar(20, text),
		tds.TypeChar(3, text), tds.TypeDecimal(18, 2), tds.TypeDateTime2(7), tds.TypeDateTime2(7), tds.TypeNVarChar(200, text),
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 123456700, time.UTC)
	values := []tds.Value{
		[]byte("0123456789"), []byte("0123456789"), int64(2), int64(1), at, int64(1 << 40), int64(4711), "SKU-00000042", "EUR", tds.NewDecimal(123456, 2), at, at,
		strings.Repeat("x", 18),
	}
	columns := make([]fetch.Column, len(kinds))
	meta := make([]tds.Column, len(kinds))
	for i, k := range kinds {
		columns[i] = fetch.Column{Kind: k}
		if k == fetch.Decimal {
			columns[i].Precision, columns[i].Scale = 18, 2
		}
		meta[i] = tds.Column{Type: types[i], Flags: tds.FlagsNullableOfTable}
	}
	write := func(_ context.Context, w *tds.Writer) error {
		w.Columns(meta)
		for range rows {
			if err := w.WriteRow(values...); err != nil {
				return err
			}
		}
		return nil
	}
	return write, wants(16384, 2<<20, columns...)
}

// BenchmarkNarrow decodes narrow rows out of memory. CPU time is that of the process, since other work makes wall time useless.
func BenchmarkNarrow(b *testing.B) {
	const rows = 100_000
	write, statement := narrowRows(rows)
	recording := recorded(b, tds.Config{}, write)
	b.SetBytes(int64(len(recording)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := cpuTime(b)
	for b.Loop() {
		conn := rowfilter.Over(quiet{}, &source{b: recording, piece: func() int { return 1 << 20 }})
		reading := conn.Arm(statement)
		_, err := conn.Write([]byte{1, 1, 0, 8, 0, 0, 1, 0})
		require.NoError(b, err)
		got := make(chan int64)
		go func() {
			n := int64(0)
			for batch := range reading.Batches() {
				if n += batch.Record.NumRows(); n > rows-statement.MaxRows {
					break
				}
			}
			got <- n
		}()
		p := make([]byte, 4096)
		for err == nil {
			_, err = conn.Read(p)
		}
		require.ErrorIs(b, err, io.EOF)
		n := <-got
		for _, batch := range reading.Take() {
			n += batch.Record.NumRows()
		}
		require.EqualValues(b, rows, n)
	}
	total := float64(rows) * float64(b.N)
	b.ReportMetric(float64(cpuTime(b)-begin)/total, "cpu-ns/row")
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/total, "allocs/row")
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
