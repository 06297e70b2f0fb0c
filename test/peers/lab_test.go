// Package peers holds the cases that the bug reports of comparable products teach.
// README.md lists them with the test that guards each; a test here keeps that list
// true. The cases run through the real parts: the simulator over TDS, the client,
// the plugins in a Benthos stream, tables on disk.
package peers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// lab is a simulator with CDC enabled, which captures when told to and not before
// (K1), so that a test decides what is captured and when.
type lab struct {
	sim   *sqlserversim.Server
	clock *engine.ManualClock // of the simulator, nil for the machine's
}

func newLab(t testing.TB, options ...sqlserversim.Option) *lab {
	t.Helper()
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	l := &lab{sim: sim}
	l.exec(t, "EXEC sys.sp_cdc_enable_db")
	return l
}

// newClockedLab is a lab whose server's clock stands at a time until a test moves it.
func newClockedLab(t testing.TB, at time.Time, options ...sqlserversim.Option) *lab {
	t.Helper()
	clock := engine.NewManualClock(at)
	l := newLab(t, append(options, sqlserversim.WithClock(clock))...)
	l.clock = clock
	return l
}

// exec runs batches as sa.
func (l *lab) exec(t testing.TB, batches ...string) {
	t.Helper()
	for _, batch := range batches {
		require.NoError(t, l.sim.Exec(t.Context(), batch), "%.200s", batch)
	}
}

func (l *lab) query(t testing.TB, text string) [][]string {
	t.Helper()
	answer, err := l.sim.Query(t.Context(), text)
	require.NoError(t, err, text)
	return answer.Strings()
}

// capture moves everything that was committed into the change tables.
func (l *lab) capture(t testing.TB) {
	t.Helper()
	require.NoError(t, l.sim.Capture(t.Context()))
}

// table makes a table in schema dbo and enables CDC for it.
func (l *lab) table(t testing.TB, name, columns string, more ...string) {
	t.Helper()
	l.exec(t, fmt.Sprintf("CREATE TABLE %s (%s)", mssqlcdc.TableID{Schema: "dbo", Name: name}.Quoted(), columns))
	l.track(t, mssqlcdc.TableID{Schema: "dbo", Name: name}, more...)
}

// track enables CDC for a table.
func (l *lab) track(t testing.TB, table mssqlcdc.TableID, more ...string) {
	t.Helper()
	text := fmt.Sprintf("EXEC sys.sp_cdc_enable_table @source_schema = %s, @source_name = %s, @role_name = NULL", literal(table.Schema), literal(table.Name))
	l.exec(t, strings.Join(append([]string{text}, more...), ", "))
}

func literal(s string) string { return "N'" + strings.ReplaceAll(s, "'", "''") + "'" }

// changeTable is the name of an instance's change table.
func changeTable(instance string) string { return "cdc." + mssqlcdc.QuoteName(instance+"_CT") }

// changes are the rows of a change table in their order, as the server tells them in
// T-SQL (K8): the position, then columns as text.
func (l *lab) changes(t testing.TB, instance string, columns ...string) []string {
	t.Helper()
	selected := []string{"CONVERT(varchar(22), __$start_lsn, 1)", "__$command_id", "CONVERT(varchar(22), __$seqval, 1)", "__$operation"}
	for _, c := range columns {
		selected = append(selected, "CONVERT(nvarchar(max), "+mssqlcdc.QuoteName(c)+")")
	}
	var lines []string
	for _, row := range l.query(t, "SELECT "+strings.Join(selected, ", ")+" FROM "+changeTable(instance)+" ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation") {
		lines = append(lines, strings.Join(row, "|"))
	}
	return lines
}

// cleanBelow cleans an instance's change table up below an LSN of the mapping (K3).
func (l *lab) cleanBelow(t testing.TB, instance string, mark mssqlcdc.LSN) {
	t.Helper()
	require.NoError(t, l.sim.CleanupBelow(t.Context(), instance, engine.LSN(mark)))
}

// commits are the LSNs in a change table, oldest first.
func (l *lab) commits(t testing.TB, instance string) []mssqlcdc.LSN {
	t.Helper()
	var all []mssqlcdc.LSN
	for _, row := range l.query(t, "SELECT DISTINCT CONVERT(varchar(22), __$start_lsn, 1) AS l FROM "+changeTable(instance)+" ORDER BY l") {
		lsn, err := mssqlcdc.ParseLSN(row[0])
		require.NoError(t, err)
		all = append(all, lsn)
	}
	return all
}

// client opens a client of the default database, with changes to its configuration.
func (l *lab) client(t testing.TB, change ...func(*sqlserver.Config)) *sqlserver.Client {
	t.Helper()
	config := sqlserver.Config{ConnectionString: l.sim.DSN()}
	for _, c := range change {
		c(&config)
	}
	client, err := sqlserver.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// read reads all changes of an instance in one window, captured columns as text.
func read(t testing.TB, c *sqlserver.Client, instance string, options sqlserver.ColumnOptions) [][]string {
	t.Helper()
	all, err := c.Instances(t.Context())
	require.NoError(t, err)
	found, err := sqlserver.FindInstance(all, instance)
	require.NoError(t, err)
	layout, err := c.Columns(t.Context(), found, options)
	require.NoError(t, err)
	low, err := c.MinLSN(t.Context(), instance)
	require.NoError(t, err)
	head, err := c.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := c.Plan(t.Context(), layout, low.Prev(), head.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	var rows [][]string
	for part, err := range c.Read(t.Context(), sqlserver.ReadRequest{Layout: layout, Plan: plan, Head: head}) {
		require.NoError(t, err)
		for i := range int(part.Record.NumRows()) {
			var row []string
			for _, column := range part.Record.Columns()[mssqlcdc.FirstCaptured:] {
				row = append(row, text(column, i))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// text is a value of a record as text, times with all their digits.
func text(column arrow.Array, i int) string {
	if column.IsNull(i) {
		return "NULL"
	}
	switch a := column.(type) {
	case *array.Timestamp:
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC().Format(stampLayout)
	case *array.Decimal128:
		return mssqlcdc.FormatDecimal(a.Value(i), a.DataType().(*arrow.Decimal128Type).Scale)
	case *array.Binary:
		return fmt.Sprintf("0x%X", a.Value(i))
	}
	return column.ValueStr(i)
}

const stampLayout = "2006-01-02 15:04:05.000000"

// values are the rows "(i, …)" of an INSERT, one for each i.
func values(from, to int, row func(i int) string) string {
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, "("+row(i)+")")
	}
	return strings.Join(rows, ", ")
}
