package sqlserversim_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

const narrowRead = `SELECT __$start_lsn, __$seqval, __$operation, __$update_mask, __$command_id, id, customer, sku, currency, amount, created, updated, note
	FROM cdc.dbo_backlog_narrow_CT WHERE __$start_lsn >= 0x00000000000000000000 AND __$start_lsn <= 0xFFFFFFFFFFFFFFFFFFFF
	ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation`

// joinRead is the same with the commit time from the mapping.
const joinRead = `SELECT c.__$start_lsn, c.__$seqval, c.__$operation, c.__$update_mask, c.__$command_id, c.id, c.customer, c.sku, c.currency, c.amount,
	c.created, c.updated, c.note, m.tran_end_time
	FROM cdc.dbo_backlog_narrow_CT c JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.__$start_lsn
	WHERE c.__$start_lsn BETWEEN 0x00000000000000000000 AND 0xFFFFFFFFFFFFFFFFFFFF
	ORDER BY c.__$start_lsn, c.__$command_id, c.__$seqval, c.__$operation`

// drainer is a connection whose bytes are counted and thrown away behind the first answers: a client that costs nothing.
type drainer struct {
	net.Conn
}

// BenchmarkServe measures what the simulator spends on a change-table read when the client costs next to nothing: the statement goes out
// through go-mssqldb, the answer's bytes are read from the socket and thrown away. It reports rows per second of wall time and CPU per
// row of the whole process.
func BenchmarkServe(b *testing.B) {
	const rowsPerRead = 300_000
	sim, err := sqlserversim.Start(sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0))
	require.NoError(b, err)
	defer sim.Close()
	_, err = workload.Backlog(b.Context(), sim, workload.Narrow, rowsPerRead, 100)
	require.NoError(b, err)
	raw := &drainer{}
	connector, err := mssql.NewConnector(sim.DSN() + "&packet+size=16384")
	require.NoError(b, err)
	connector.Dialer = dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		raw.Conn = c
		return raw, err
	})
	conn, err := connector.Connect(b.Context())
	require.NoError(b, err)
	defer conn.Close()
	for name, query := range map[string]string{"table": narrowRead, "join": joinRead} {
		b.Run(name, func(b *testing.B) {
			before := cpu()
			var bytes int64
			for b.Loop() {
				n, err := raw.drain(query)
				require.NoError(b, err)
				bytes += n
			}
			total := float64(rowsPerRead) * float64(b.N)
			b.ReportMetric(total/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64((cpu()-before).Nanoseconds())/total, "cpu-ns/row")
			b.ReportMetric(float64(bytes)/total, "wire-B/row")
		})
	}
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// drain sends a batch as the driver does and reads packets to the end of the answer.
func (d *drainer) drain(batch string) (int64, error) {
	if _, err := d.Conn.Write(batchPacket(batch)); err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	have, total := 0, int64(0)
	for {
		n, err := d.Conn.Read(buf[have:])
		if err != nil {
			return total, err
		}
		total += int64(n)
		have += n
		at := 0
		for have-at >= 8 {
			size := int(buf[at+2])<<8 | int(buf[at+3])
			if have-at < size {
				break
			}
			if buf[at+1]&1 != 0 {
				return total, nil
			}
			at += size
		}
		have = copy(buf, buf[at:have])
	}
}

// batchPacket is a SQLBatch message in one packet.
func batchPacket(text string) []byte {
	p := []byte{1, 1, 0, 0, 0, 0, 1, 0, 22, 0, 0, 0, 18, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}
	for _, r := range text {
		p = append(p, byte(r), 0)
	}
	p[2], p[3] = byte(len(p)>>8), byte(len(p))
	return p
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDriver is the same read with go-mssqldb decoding every row: the client is the slower side.
func BenchmarkDriver(b *testing.B) {
	const rowsPerRead = 200_000
	for _, tls := range []bool{false, true} {
		name, opts := "clear", []sqlserversim.Option{sqlserversim.WithoutTLS()}
		if tls {
			name, opts = "tls", nil
		}
		b.Run(name, func(b *testing.B) {
			sim, err := sqlserversim.Start(append(opts, sqlserversim.WithCaptureInterval(0))...)
			require.NoError(b, err)
			defer sim.Close()
			_, err = workload.Backlog(b.Context(), sim, workload.Narrow, rowsPerRead, 100)
			require.NoError(b, err)
			db, err := sql.Open("sqlserver", sim.DSN()+"&packet+size=16383")
			require.NoError(b, err)
			defer db.Close()
			for b.Loop() {
				require.Equal(b, rowsPerRead, countRows(b, db, narrowRead))
			}
			b.ReportMetric(float64(rowsPerRead)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// countRows reads through driver.Rows, the cheapest way the driver has.
func countRows(b *testing.B, db *sql.DB, query string) int {
	conn, err := db.Conn(b.Context())
	require.NoError(b, err)
	defer conn.Close()
	n := 0
	require.NoError(b, conn.Raw(func(c any) error {
		stmt, err := c.(driver.ConnPrepareContext).PrepareContext(b.Context(), query)
		if err != nil {
			return err
		}
		defer stmt.Close()
		rows, err := stmt.(driver.StmtQueryContext).QueryContext(b.Context(), nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		dest := make([]driver.Value, len(rows.Columns()))
		for {
			if err := rows.Next(dest); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			n++
		}
	}))
	return n
}
