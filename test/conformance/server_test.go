// Package conformance holds facts about SQL Server's change data capture as cases that
// run against any server: always against the simulator, and against a real one when
// MSSQL_TEST_DSN names it. docs/conformance.md lists them with what each server said.
//
//	MSSQL_TEST_DSN='sqlserver://sa:...@127.0.0.1?encrypt=disable' go test ./test/conformance -v
//
// The login must be sysadmin: each case makes a database of its own, and drops it. Where
// the Agent runs, its capture job is stopped for that database, since a case captures when
// it wants to.
package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// dsnVariable names the server to ask besides the simulator.
const dsnVariable = "MSSQL_TEST_DSN"

// database is a database of a server, made for one case.
type database struct {
	*sql.DB
	dsn  string // of the database
	name string
	real bool // no simulator
}

// servers are those that the cases run against: connection strings by name.
func servers(t *testing.T) map[string]string {
	t.Helper()
	sim, err := sqlserversim.Start(sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	all := map[string]string{"simulator": sim.DSN()}
	if dsn := os.Getenv(dsnVariable); dsn != "" {
		all["server"] = dsn
	}
	return all
}

// inDatabase is a connection string with another database.
func inDatabase(t *testing.T, dsn, name string) string {
	t.Helper()
	parsed, err := url.Parse(dsn)
	require.NoError(t, err, "%s must be a URL", dsnVariable)
	query := parsed.Query()
	query.Set("database", name)
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// newDatabase makes the database of a case, with change data capture enabled.
func newDatabase(t *testing.T, dsn, name string, real bool) *database {
	t.Helper()
	master, err := sql.Open("sqlserver", inDatabase(t, dsn, "master"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, master.Close()) })
	_, err = master.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	d := &database{dsn: inDatabase(t, dsn, name), name: name, real: real}
	d.DB, err = sql.Open("sqlserver", d.dsn)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		ctx := context.WithoutCancel(t.Context())
		if real { // the simulator ends with the test
			_, err := master.ExecContext(ctx, "ALTER DATABASE "+name+" SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
			require.NoError(t, err)
			_, err = master.ExecContext(ctx, "DROP DATABASE "+name)
			require.NoError(t, err)
		}
	})
	d.exec(t, "EXEC sys.sp_cdc_enable_db")
	return d
}

func (d *database) exec(t *testing.T, batches ...string) {
	t.Helper()
	for _, batch := range batches {
		_, err := d.ExecContext(t.Context(), batch)
		require.NoError(t, err, batch)
	}
}

// fails runs a batch that must fail with a message number.
func (d *database) fails(t *testing.T, number int32, batch string) {
	t.Helper()
	rows, err := d.QueryContext(t.Context(), batch)
	if err == nil {
		for rows.Next() {
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	require.Error(t, err, batch)
	var message mssql.Error
	require.ErrorAs(t, err, &message, batch)
	numbers := []int32{message.Number}
	for _, one := range message.All {
		numbers = append(numbers, one.Number)
	}
	require.Contains(t, numbers, number, "%s: %v", batch, err)
}

// query answers rows as text: binary as 0x…, NULL as such.
func (d *database) query(t *testing.T, text string) [][]string {
	t.Helper()
	return ask(t, d.DB, text)
}

type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func ask(t *testing.T, from asker, text string) [][]string {
	t.Helper()
	rows, err := from.QueryContext(t.Context(), text)
	require.NoError(t, err, text)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var all [][]string
	for rows.Next() {
		cells, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		require.NoError(t, rows.Scan(into...))
		row := make([]string, len(columns))
		for i, cell := range cells {
			row[i] = cellText(cell)
		}
		all = append(all, row)
	}
	require.NoError(t, rows.Err(), text)
	return all
}

func cellText(cell any) string {
	switch v := cell.(type) {
	case nil:
		return "NULL"
	case []byte:
		return fmt.Sprintf("0x%X", v)
	case time.Time:
		return v.Format("2006-01-02 15:04:05.9999999")
	}
	return fmt.Sprint(cell)
}

// one is the only value of an answer.
func (d *database) one(t *testing.T, text string) string {
	t.Helper()
	rows := d.query(t, text)
	require.Len(t, rows, 1, text)
	require.Len(t, rows[0], 1, text)
	return rows[0][0]
}

// lines are rows with their columns joined.
func (d *database) lines(t *testing.T, text string) []string {
	t.Helper()
	var all []string
	for _, row := range d.query(t, text) {
		all = append(all, strings.Join(row, " "))
	}
	return all
}

// track enables change data capture for a table of schema dbo, without a gating role.
func (d *database) track(t *testing.T, table string, more ...string) {
	t.Helper()
	d.exec(t, strings.Join(append([]string{"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'" + table + "', @role_name = NULL"}, more...), ", "))
	if d.real { // otherwise there is none that runs
		_, err := d.ExecContext(t.Context(), "EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
		var message mssql.Error
		require.True(t, err == nil || errors.As(err, &message), "%v", err)
	}
}

// capture moves what was committed into the change tables. A scan of the job that is just
// being stopped stands in its way for a while.
func (d *database) capture(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := d.ExecContext(t.Context(), "EXEC sys.sp_cdc_scan")
		if err == nil {
			return
		}
		var message mssql.Error
		require.True(t, errors.As(err, &message) && message.Number == 22903 && time.Now().Before(deadline), "%v", err)
		select {
		case <-time.After(time.Second):
		case <-t.Context().Done():
		}
	}
}

// changes are the rows of a change table in their order: operation, then columns as text.
func (d *database) changes(t *testing.T, instance string, columns ...string) []string {
	t.Helper()
	selected := "__$operation"
	for _, c := range columns {
		selected += ", CONVERT(nvarchar(60), " + c + ")"
	}
	return d.lines(t, "SELECT "+selected+" FROM cdc."+instance+"_CT ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation")
}

// version is the server's, for the report.
func version(t *testing.T, dsn string) string {
	t.Helper()
	db, err := sql.Open("sqlserver", inDatabase(t, dsn, "master"))
	require.NoError(t, err)
	defer db.Close()
	var text string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT CONVERT(nvarchar(60), SERVERPROPERTY('ProductVersion'))").Scan(&text))
	return cmp.Or(text, "unknown")
}
