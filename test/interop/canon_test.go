package interop

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
)

// rows are the rows of a table, each value in the text form of testdata/read_tables.py; nil is NULL.
type rows struct {
	Columns []string
	Rows    [][]*string
	Count   int64

	// Of a foreign engine only: Delta's names of the columns' types; and if they were asked for, [column, condition, rows by the values,
	// rows that the engine finds] and what it tells of the table.
	Types    []string
	Extremes [][4]any
	Info     tableInfo
}

// tableInfo is what an engine tells of a table; zero where it does not.
type tableInfo struct {
	Version     *int64
	History     [][3]any // version, operation, user metadata
	Description string
	Comments    map[string]string
	Apps        []*int64
}

// canonical gives the values of a column that our reader read.
func canonical(t *testing.T, column arrow.Array) []*string {
	t.Helper()
	out := make([]*string, column.Len())
	for i := range out {
		if column.IsValid(i) {
			text := canonicalValue(t, column, i)
			out[i] = &text
		}
	}
	return out
}

func canonicalValue(t *testing.T, column arrow.Array, i int) string {
	t.Helper()
	switch c := column.(type) {
	case *array.Timestamp:
		require.Equal(t, arrow.Microsecond, c.DataType().(*arrow.TimestampType).Unit)
		return fmt.Sprint("t:", int64(c.Value(i)))
	case *array.Date32:
		return fmt.Sprint("d:", int32(c.Value(i)))
	case *array.Boolean:
		return strconv.FormatBool(c.Value(i))
	case *array.Float32:
		return floatBits(float64(c.Value(i)), 32)
	case *array.Float64:
		return floatBits(c.Value(i), 64)
	case *array.Decimal128:
		return c.Value(i).ToString(c.DataType().(*arrow.Decimal128Type).Scale)
	case *array.Int8:
		return fmt.Sprint(c.Value(i))
	case *array.Int16:
		return fmt.Sprint(c.Value(i))
	case *array.Int32:
		return fmt.Sprint(c.Value(i))
	case *array.Int64:
		return fmt.Sprint(c.Value(i))
	case *array.String:
		return strings.Clone(c.Value(i))
	case *array.Binary:
		return "0x" + strings.ToUpper(hex.EncodeToString(c.Value(i)))
	}
	require.Fail(t, "a column of a type that bronze does not have", "%s", column.DataType())
	return ""
}

func floatBits(f float64, bits int) string {
	if bits == 32 {
		return fmt.Sprintf("%08x", math.Float32bits(float32(f)))
	}
	return fmt.Sprintf("%016x", math.Float64bits(f))
}

// canonicalSource gives the form that a value of a SQL Server type must have in bronze, from T-SQL's text of it (tsqlText).
func canonicalSource(t *testing.T, typ, text string) string {
	t.Helper()
	base, _, _ := strings.Cut(typ, "(")
	switch base {
	case "bit":
		return map[string]string{"0": "false", "1": "true"}[text]
	case "real":
		return floatBits(number(t, text), 32)
	case "float":
		return floatBits(number(t, text), 64)
	case "date":
		return fmt.Sprint("d:", parseTime(t, text).Unix()/86_400)
	case "time": // text of nine digits in bronze, since Delta has no such type
		whole, fraction, _ := strings.Cut(text, ".")
		return whole + "." + (fraction + "000000000")[:9]
	case "datetime", "smalldatetime", "datetime2", "datetimeoffset": // microseconds, cut
		return fmt.Sprint("t:", parseTime(t, text).Truncate(time.Microsecond).UnixMicro())
	}
	return text
}

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02", "2006-01-02 15:04:05", "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	require.Fail(t, "no time", "%q", text)
	return time.Time{}
}

// microText is a time in microseconds since 1970 as SQL reads it.
func microText(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05.000000")
}

// difference tells in a line how two sets of rows differ in these columns, "" when they do not.
func difference(t *testing.T, want, got rows, columns []string) string {
	t.Helper()
	count := map[string]int{}
	for _, row := range want.texts(t, columns) {
		count[row]++
	}
	var more []string
	for _, row := range got.texts(t, columns) {
		if count[row]--; count[row] < 0 {
			more = append(more, row)
		}
	}
	var fewer []string
	for _, row := range want.texts(t, columns) {
		if count[row] > 0 {
			count[row]--
			fewer = append(fewer, row)
		}
	}
	if len(more)+len(fewer) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d rows are missing and %d too many", len(fewer), len(more))
	for i, row := range append(fewer[:min(1, len(fewer)):1], more[:min(1, len(more))]...) {
		text += fmt.Sprintf("; one of them: %s", cut(row))
		if i == 1 {
			text += "; they differ in " + firstDifference(columns, fewer[0], more[0])
		}
	}
	return text
}

func cut(text string) string { return text[:min(300, len(text))] }

// firstDifference compares two rows of texts.
func firstDifference(columns []string, a, b string) string {
	left, right := strings.Split(a, "\x1f"), strings.Split(b, "\x1f")
	for i := range min(len(left), len(right), len(columns)) {
		if left[i] != right[i] {
			return fmt.Sprintf("%s: %q, %q", columns[i], cut(left[i]), cut(right[i]))
		}
	}
	return "nothing"
}

// texts are the rows, each as one text of the values of columns.
func (r rows) texts(t *testing.T, columns []string) []string {
	t.Helper()
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = slices.Index(r.Columns, name)
		require.GreaterOrEqual(t, at[i], 0, "no column %s among %v", name, r.Columns)
	}
	out := make([]string, len(r.Rows))
	for n, row := range r.Rows {
		values := make([]string, len(columns))
		for i := range columns {
			values[i] = "NULL"
			if v := row[at[i]]; v != nil {
				values[i] = "=" + *v
			}
		}
		out[n] = strings.Join(values, "\x1f")
	}
	return out
}
