package clients

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// column is a column of a table with its type's bare name.
type column struct{ name, typ string }

// columnsOf lists the columns of a table, CDC's own left out.
func columnsOf(t *testing.T, sim *sqlserversim.Server, table string) []column {
	t.Helper()
	var out []column
	for _, row := range query(t, sim, `SELECT c.name, y.name FROM sys.columns c JOIN sys.types y ON y.user_type_id = c.user_type_id
		WHERE c.object_id = OBJECT_ID('`+table+`') AND c.name NOT LIKE '[_][_]$%' ORDER BY c.column_id`) {
		out = append(out, column{row[0], row[1]})
	}
	require.NotEmpty(t, out, table)
	return out
}

// asText is the T-SQL expression of a column's value as text, with every digit.
func (c column) asText() string {
	name := "[" + c.name + "]"
	switch c.typ {
	case "binary", "varbinary", "image", "timestamp":
		return "CONVERT(varchar(max), CONVERT(varbinary(max), " + name + "), 1)"
	case "real", "float":
		return "CONVERT(varchar(50), " + name + ", 3)"
	case "money", "smallmoney":
		return "CONVERT(varchar(50), " + name + ", 2)"
	case "date", "datetime", "smalldatetime", "datetime2", "datetimeoffset", "time":
		return "CONVERT(varchar(50), " + name + ", 121)"
	case "char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml":
		return "CONVERT(nvarchar(max), " + name + ")"
	}
	return "CONVERT(varchar(max), " + name + ")"
}

// canonical brings a value's text, T-SQL's or a client's, to one form: numbers by their value, times without zeros at the end, blanks
// between date, time and offset, and binaries in upper-case hex. NULL stays "NULL".
func (c column) canonical(text string) (string, error) {
	if text == "NULL" {
		return text, nil
	}
	switch c.typ {
	case "bit":
		return map[string]string{"true": "1", "false": "0", "1": "1", "0": "0"}[text], nil
	case "real":
		f, err := float(text)
		return fmt.Sprint(float32(f)), err
	case "float":
		f, err := float(text)
		return fmt.Sprint(f), err
	case "tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney":
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return "", fmt.Errorf("reading %q as a number", text)
		}
		return r.RatString(), nil
	case "date", "time", "datetime", "datetime2", "smalldatetime", "datetimeoffset":
		return moment(text, c.typ == "datetimeoffset"), nil
	case "binary", "varbinary", "image", "timestamp":
		return strings.ToUpper(strings.TrimPrefix(text, "0x")), nil
	case "uniqueidentifier":
		return strings.ToUpper(text), nil
	case "xml":
		return strings.TrimPrefix(text, "\ufeff"), nil
	}
	return text, nil
}

// float reads a number, or the sixteen hex digits of a double.
func float(text string) (float64, error) {
	if len(text) == 16 && !strings.ContainsAny(text, ".+-") {
		bits, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return 0, err
		}
		return math.Float64frombits(bits), nil
	}
	return strconv.ParseFloat(text, 64)
}

// moment brings a time to "2006-01-02 15:04:05.9999999 +01:00", with seconds, without a fraction of zero, UTC as +00:00.
func moment(text string, offset bool) string {
	text = strings.Replace(text, "T", " ", 1)
	zone := ""
	switch i := strings.LastIndexAny(text, "+-"); {
	case strings.HasSuffix(text, "Z"):
		text, zone = strings.TrimSuffix(text, "Z"), "+00:00"
	case offset && i > 10:
		text, zone = strings.TrimRight(text[:i], " "), text[i:]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if strings.Count(whole, ":") == 1 {
		whole += ":00"
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		whole += "." + fraction
	}
	if offset {
		whole += " " + zone
	}
	return whole
}

// requireSame compares two texts of a value, shortened where they differ.
func (c column) requireSame(t *testing.T, want, got, what string) {
	t.Helper()
	w, err := c.canonical(want)
	require.NoError(t, err, what)
	g, err := c.canonical(got)
	require.NoError(t, err, what)
	require.Equal(t, w, g, "%s: column %s %s", what, c.name, c.typ)
}
