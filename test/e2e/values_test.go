package e2e

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// sourceColumn is a captured column with its declared type.
type sourceColumn struct{ Name, Type string }

// changeRow is a change row as text: its position and its values.
type changeRow struct {
	Position string
	Values   []string
}

// baseType is the type without its length.
func (c sourceColumn) baseType() string {
	name, _, _ := strings.Cut(c.Type, "(")
	return name
}

// expression is the T-SQL that makes text of a value of the type without losing
// anything of it.
func (c sourceColumn) expression(value string) string {
	switch c.baseType() {
	case "real", "float":
		return "CONVERT(varchar(40), " + value + ", 3)"
	case "money", "smallmoney":
		return "CONVERT(varchar(40), " + value + ", 2)"
	case "date":
		return "CONVERT(varchar(10), " + value + ", 120)"
	case "time", "datetime", "datetime2", "smalldatetime", "datetimeoffset":
		return "CONVERT(varchar(40), " + value + ", 121)"
	case "binary", "varbinary", "image", "rowversion":
		return "CONVERT(varchar(max), CONVERT(varbinary(max), " + value + "), 1)"
	}
	return "CONVERT(nvarchar(max), " + value + ")"
}

// fromSource is the text of the server in the form of fromLake.
func (c sourceColumn) fromSource(t *testing.T, text string) string {
	t.Helper()
	if text == "NULL" {
		return text
	}
	switch c.baseType() {
	case "real", "float":
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		require.NoError(t, err)
		return c.float(v)
	case "time":
		whole, fraction, _ := strings.Cut(text, ".")
		return whole + "." + (fraction + "000000000")[:9]
	case "datetime", "datetime2", "smalldatetime":
		return c.time(t, "2006-01-02 15:04:05", text)
	case "datetimeoffset":
		return c.time(t, "2006-01-02 15:04:05 -07:00", text)
	}
	return text
}

// time parses a time, in which a fraction may follow the seconds, and cuts it to
// microseconds, which is what Delta Lake has.
func (c sourceColumn) time(t *testing.T, layout, text string) string {
	t.Helper()
	at, err := time.Parse(layout, text)
	require.NoError(t, err)
	return at.UTC().Truncate(time.Microsecond).Format("2006-01-02 15:04:05.000000")
}

func (c sourceColumn) float(v float64) string {
	if c.baseType() == "real" {
		return strconv.FormatFloat(v, 'g', -1, 32)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// fromLake is the text of a value of a Delta table.
func (c sourceColumn) fromLake(t *testing.T, value any) string {
	t.Helper()
	switch v := value.(type) {
	case nil:
		return "NULL"
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return c.float(v)
	case time.Time:
		return v.Format("2006-01-02 15:04:05.000000")
	case []byte:
		return "0x" + strings.ToUpper(hex.EncodeToString(v))
	case string:
		return v
	}
	require.Fail(t, "no text for this type", "%T in column %s", value, c.Name)
	return ""
}

// sourceRows are the rows of a change table in the order of Position.
func (l *lab) sourceRows(t *testing.T, instance string, columns []sourceColumn) []changeRow {
	t.Helper()
	selected := []string{"CONVERT(varchar(22), __$start_lsn, 1)", "__$command_id", "CONVERT(varchar(22), __$seqval, 1)", "__$operation"}
	for _, c := range columns {
		selected = append(selected, c.expression(c.Name))
	}
	text := "SELECT " + strings.Join(selected, ", ") + " FROM " + changeTable(instance) + " ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation"
	var rows []changeRow
	for _, row := range l.query(t, text) {
		r := changeRow{Position: strings.Join(row[:4], "/")}
		for i, c := range columns {
			r.Values = append(r.Values, c.fromSource(t, row[4+i]))
		}
		rows = append(rows, r)
	}
	return rows
}

// lakeRows are the rows of a bronze table as they were written: commit by commit, in
// the order of the commit's file.
func (l *lab) lakeRows(t *testing.T, name string, columns []sourceColumn) []changeRow {
	t.Helper()
	read := l.rows(t, name)
	slices.SortStableFunc(read, func(a, b map[string]any) int {
		return int(a[mssqlcdc.ColBatchID].(int64) - b[mssqlcdc.ColBatchID].(int64))
	})
	var rows []changeRow
	for _, row := range read {
		r := changeRow{Position: fmt.Sprintf("%s/%d/%s/%d", row[mssqlcdc.ColStartLSN], row[mssqlcdc.ColCommandID], row[mssqlcdc.ColSeqVal], row[mssqlcdc.ColOperation])}
		for _, c := range columns {
			value, there := row[c.Name]
			require.True(t, there, "column %s", c.Name)
			r.Values = append(r.Values, c.fromLake(t, value))
		}
		rows = append(rows, r)
	}
	return rows
}

// requireSameRows checks that a bronze table holds the rows of its change table, every
// value of them, in their order.
func (l *lab) requireSameRows(t *testing.T, name string, columns []sourceColumn) {
	t.Helper()
	want, got := l.sourceRows(t, "dbo_"+name, columns), l.lakeRows(t, name, columns)
	require.NotEmpty(t, want)
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i].Position, got[i].Position, "position of row %d of %s", i, name)
		for n, c := range columns {
			require.Equal(t, want[i].Values[n], got[i].Values[n], "column %s %s of row %d (%s) of %s", c.Name, c.Type, i, want[i].Position, name)
		}
	}
	require.Equal(t, len(want), len(got), "rows of %s", name)
}
