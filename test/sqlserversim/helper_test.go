package sqlserversim_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// start runs a simulator that captures on demand only.
func start(t testing.TB, opts ...sqlserversim.Option) *sqlserversim.Server {
	t.Helper()
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithCaptureInterval(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	return sim
}

// connect opens a pool with go-mssqldb.
func connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlserver", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// exec runs batches in process, as sa.
func exec(t testing.TB, sim *sqlserversim.Server, batches ...string) {
	t.Helper()
	for _, b := range batches {
		require.NoError(t, sim.Exec(t.Context(), b), b)
	}
}

// rows runs a query over the socket and gives its rowsets as text: columns by "|", NULL as NULL, binary as 0x….
func rows(t testing.TB, db queryer, query string, args ...any) []string {
	t.Helper()
	out, err := tryRows(t.Context(), db, query, args...)
	require.NoError(t, err, query)
	return out
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func tryRows(ctx context.Context, db queryer, query string, args ...any) ([]string, error) {
	r, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []string
	for {
		cols, err := r.Columns()
		if err != nil {
			return out, err
		}
		for r.Next() {
			values := make([]any, len(cols))
			ptrs := make([]any, len(cols))
			for i := range values {
				ptrs[i] = &values[i]
			}
			if err := r.Scan(ptrs...); err != nil {
				return out, err
			}
			texts := make([]string, len(cols))
			for i, v := range values {
				texts[i] = text(v)
			}
			out = append(out, strings.Join(texts, "|"))
		}
		if err := r.Err(); err != nil {
			return out, err
		}
		if !r.NextResultSet() {
			return out, r.Err()
		}
	}
}

func text(v any) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		if isDecimal(x) {
			return string(x)
		}
		return "0x" + strings.ToUpper(hex.EncodeToString(x))
	case time.Time:
		return x.Format("2006-01-02 15:04:05.999999999")
	}
	return fmt.Sprint(v)
}

// isDecimal tells the driver's decimals, which are bytes of text, from binary.
func isDecimal(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// sqlError finds the server's error.
func sqlError(t testing.TB, err error) mssql.Error {
	t.Helper()
	var e mssql.Error
	require.True(t, errors.As(err, &e), "want an error of SQL Server, got %T: %v", err, err)
	return e
}

// tracked makes dbo.orders (id, name, amount) with CDC and captures the enable.
func tracked(t testing.TB, sim *sqlserversim.Server) {
	t.Helper()
	exec(t, sim,
		"CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(50) NULL, amount decimal(10,2) NULL)",
		"EXEC sys.sp_cdc_enable_db",
		"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', @role_name = NULL, @supports_net_changes = 1")
	require.NoError(t, sim.Capture(t.Context()))
}

// capture reads the log to its end.
func capture(t testing.TB, sim *sqlserversim.Server) {
	t.Helper()
	require.NoError(t, sim.Capture(t.Context()))
}

// How long, and how often, a test looks for what another goroutine does.
const (
	wait = 10 * time.Second
	tick = 10 * time.Millisecond
)
