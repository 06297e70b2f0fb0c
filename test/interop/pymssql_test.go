package interop

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// pymssql (DB-Library of FreeTDS) encrypts its login by default, and all it sends and gets when asked to.
func TestPymssqlEncrypts(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	const encrypted = "SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID"
	require.Equal(t, [][]string{{"FALSE"}}, pymssql(t, sim).query(encrypted))
	require.Equal(t, [][]string{{"TRUE"}}, pymssql(t, sim, "require").query(encrypted))
	clear := startSimulator(t, sqlserversim.WithoutTLS())
	require.Equal(t, [][]string{{"FALSE"}}, pymssql(t, clear).query(encrypted))
}

// Every value of every type comes as T-SQL says it is.
func TestPymssqlReadsEveryType(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	_, err := workload.WriteTypes(t.Context(), sim)
	require.NoError(t, err)
	c := pymssql(t, sim)
	columns := append(workload.TypeColumns(), workload.TypeColumn{Name: "c_rowversion", Type: "binary(8)"}, workload.TypeColumn{Name: "c_computed", Type: "int"})
	for _, col := range columns {
		name, says := col.Name, tsqlText(col)
		rows := c.query(fmt.Sprintf("SELECT id, %s, %s FROM dbo.all_types ORDER BY id", name, says))
		require.Greater(t, len(rows), 3)
		for _, row := range rows {
			requireSameValue(t, col.Type, row[2], row[1], "%s of id %s", name, row[0])
		}
	}
}

// tsqlText is the T-SQL expression of a value as text.
func tsqlText(c workload.TypeColumn) string {
	base, _, _ := strings.Cut(c.Type, "(")
	switch base {
	case "binary", "varbinary", "image", "timestamp": // a rowversion's type in the catalogue
		return "CONVERT(varchar(max), CONVERT(varbinary(max), " + c.Name + "), 1)"
	case "real", "float":
		return "CONVERT(varchar(50), " + c.Name + ", 3)" // every digit
	case "money", "smallmoney":
		return "CONVERT(varchar(50), " + c.Name + ", 2)" // four decimals
	case "date", "datetime", "smalldatetime", "datetime2", "datetimeoffset", "time":
		return "CONVERT(varchar(50), " + c.Name + ", 121)"
	case "text", "ntext", "xml":
		return "CONVERT(nvarchar(max), " + c.Name + ")"
	case "char", "varchar", "nchar", "nvarchar":
		return "CONVERT(nvarchar(max), " + c.Name + ")"
	}
	return "CONVERT(varchar(max), " + c.Name + ")"
}

// requireSameValue compares what a client has with T-SQL's text: numbers by value, times to the six digits that Python has.
func requireSameValue(t *testing.T, typ, says, got, format string, args ...any) {
	t.Helper()
	base, _, _ := strings.Cut(typ, "(")
	if says != "NULL" && got != "NULL" {
		switch base {
		case "real":
			says, got = fmt.Sprint(float32(number(t, says))), fmt.Sprint(float32(number(t, got)))
		case "float":
			says, got = fmt.Sprint(number(t, says)), fmt.Sprint(number(t, got))
		case "decimal", "numeric", "money", "smallmoney":
			says, got = rational(t, says), rational(t, got)
		case "datetime2", "datetime", "smalldatetime", "time", "datetimeoffset":
			says, got = sixDigits(says), sixDigits(got)
		case "xml":
			got = strings.TrimPrefix(got, "\ufeff")
		}
	}
	require.Equal(t, says, got, append([]any{format}, args...)...)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return f
}

func rational(t *testing.T, text string) string {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	require.True(t, ok, text)
	return r.RatString()
}

// sixDigits cuts a time's fraction to six digits, drops zeros at its end, and keeps an offset.
func sixDigits(text string) string {
	head, offset := text, ""
	if i := strings.LastIndexAny(text, "+-"); i > 10 {
		head, offset = strings.TrimRight(text[:i], " "), text[i:]
	}
	whole, fraction, _ := strings.Cut(head, ".")
	fraction = strings.TrimRight(fraction[:min(6, len(fraction))], "0")
	if len(whole) == len("2026-01-01 00:00") {
		whole += ":00"
	}
	return whole + "." + fraction + offset
}

// Statements, parameters, transactions and row counts.
func TestPymssqlStatements(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	c := pymssql(t, sim)
	c.query("CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(50), amount decimal(18,2))")
	out := c.do(step{Op: "query", SQL: `INSERT dbo.t VALUES (1, N'Ωne', 1.5), (2, N'two', NULL); SELECT id, name, amount FROM dbo.t ORDER BY id;
		UPDATE dbo.t SET amount = 2 WHERE id = 2; PRINT 'noise'; SELECT COUNT(*) FROM dbo.t; DELETE dbo.t WHERE id = 7`})
	require.Nil(t, out.Error)
	require.Equal(t, [][]string{{"1", "Ωne", "1.50"}, {"2", "two", "NULL"}, {"2"}}, out.rows())
	var columns [][]string
	for _, set := range out.Sets {
		if set.Columns != nil {
			columns = append(columns, set.Columns)
		}
	}
	require.Equal(t, [][]string{{"id", "name", "amount"}, {""}}, columns)
	require.Equal(t, [][]string{{"O'Neill Ω", "42", "NULL", "-1.25"}}, c.query("SELECT %s, %d, %s, %s", "O'Neill Ω", 42, nil, -1.25))

	count := func(sql string) int {
		out := c.do(step{Op: "query", SQL: sql})
		require.Nil(t, out.Error, sql)
		return out.Sets[0].Count
	}
	require.Equal(t, 2, count("INSERT dbo.t SELECT id + 10, name, amount FROM dbo.t"))
	require.Equal(t, 2, count("UPDATE dbo.t SET amount = 0 WHERE id > 10"))
	require.Equal(t, 1, count("DELETE dbo.t WHERE id = 12"))
	require.Equal(t, 2, count(`MERGE dbo.t AS t USING (VALUES (1, N'merged'), (99, N'new')) AS s (id, name) ON t.id = s.id
		WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name);`))
	require.Equal(t, [][]string{{"1", "merged"}, {"2", "two"}, {"11", "Ωne"}, {"99", "new"}}, c.query("SELECT id, name FROM dbo.t ORDER BY id"))

	require.Nil(t, c.do(step{Op: "autocommit"}).Error)
	require.Equal(t, 4, count("DELETE dbo.t"))
	require.Equal(t, [][]string{{"0", "1"}}, c.query("SELECT COUNT(*), @@TRANCOUNT FROM dbo.t"))
	require.Nil(t, c.do(step{Op: "rollback"}).Error)
	require.Equal(t, [][]string{{"4"}}, c.query("SELECT COUNT(*) FROM dbo.t"))
	require.Equal(t, 1, count("DELETE dbo.t WHERE id = 99"))
	require.Nil(t, c.do(step{Op: "commit"}).Error)
	require.Nil(t, c.do(step{Op: "autocommit", On: true}).Error)
	require.Equal(t, [][]string{{"3", "0"}}, c.query("SELECT COUNT(*), @@TRANCOUNT FROM dbo.t"))
	res, err := sim.Query(t.Context(), "SELECT COUNT(*) FROM dbo.t")
	require.NoError(t, err)
	require.Equal(t, int64(3), res.Rows[0][0].Int64())
}

// Procedures: by EXEC in a batch and by RPC, with output parameters and a return status.
func TestPymssqlProcedures(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	c := pymssql(t, sim)
	c.query(`CREATE PROCEDURE dbo.twice @n int, @text nvarchar(20) = N'none', @out int OUTPUT AS
		BEGIN SET @out = 2 * @n; SELECT @text AS t, @n AS n; SELECT 'second'; RETURN 7 END`)
	require.Equal(t, [][]string{{"none", "4"}, {"second"}, {"8", "7"}},
		c.query("DECLARE @o int, @r int; EXEC @r = dbo.twice 4, @out = @o OUTPUT; SELECT @o, @r"))
	out := c.do(step{Op: "call", SQL: "dbo.twice", Params: []any{21, "given", map[string]string{"output": "int"}}})
	require.Nil(t, out.Error)
	require.Equal(t, [][]string{{"given", "21"}, {"second"}}, out.rows())
	// pymssql gives status and output parameters of procedures without rowsets only.
	c.query("CREATE PROCEDURE dbo.seven @n int, @twice int OUTPUT, @text nvarchar(20) OUTPUT AS BEGIN SET @twice = 2 * @n; SET @text = N'Ωut'; RETURN 7 END")
	out = c.do(step{Op: "call", SQL: "dbo.seven", Params: []any{21, map[string]string{"output": "int"}, map[string]string{"output": "text"}}})
	require.Nil(t, out.Error)
	require.Equal(t, 7, out.Status)
	require.Equal(t, []string{"21", "42", "Ωut"}, []string{*out.Out[0], *out.Out[1], *out.Out[2]})
}

// CDC from the outside: enable, write, capture, read by function and from the table.
func TestPymssqlUsesCDC(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	c := pymssql(t, sim)
	c.query("CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(50))")
	c.query("EXEC sys.sp_cdc_enable_db")
	c.query("EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = 't', @role_name = NULL, @supports_net_changes = 1")
	c.query("INSERT dbo.t VALUES (1, N'a'), (2, N'b')")
	c.query("UPDATE dbo.t SET name = N'c' WHERE id = 1; DELETE dbo.t WHERE id = 2")
	require.NoError(t, sim.Capture(t.Context()))
	window := "(sys.fn_cdc_get_min_lsn('dbo_t'), sys.fn_cdc_get_max_lsn(), "
	require.Equal(t, [][]string{{"2", "1", "a", "0x03"}, {"2", "2", "b", "0x03"}, {"3", "1", "a", "0x02"}, {"4", "1", "c", "0x02"}, {"1", "2", "b", "0x03"}},
		c.query("SELECT __$operation, id, name, __$update_mask FROM cdc.fn_cdc_get_all_changes_dbo_t"+window+"N'all update old') ORDER BY __$start_lsn, __$seqval, __$operation"))
	require.Equal(t, [][]string{{"2", "1", "c"}},
		c.query("SELECT __$operation, id, name FROM cdc.fn_cdc_get_net_changes_dbo_t"+window+"N'all')"))
	lsn := c.query("SELECT DISTINCT __$start_lsn, DATALENGTH(__$start_lsn) FROM cdc.dbo_t_CT ORDER BY 1")
	require.Len(t, lsn, 3)
	for _, l := range lsn {
		require.Regexp(t, "^0x[0-9A-F]{20}$", l[0])
		require.Equal(t, "10", l[1])
	}
	e := c.fails("SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_t(0x00, sys.fn_cdc_get_max_lsn(), N'all')")
	require.Equal(t, 313, e.Number)
}

// Errors keep number, severity, state and text; the connection lives on, also after an attention.
func TestPymssqlErrorsAndCancel(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	c := pymssql(t, sim)
	c.query("CREATE TABLE dbo.t (id int PRIMARY KEY)")
	for _, want := range []struct {
		sql                  string
		number, class, state int
		text                 string
	}{
		{"SELECT * FROM dbo.nosuch", 208, 16, 1, "Invalid object name 'dbo.nosuch'."},
		{"SELECT FROM dbo.t", 156, 15, 1, "Incorrect syntax near the keyword 'FROM'."},
		{"SELECT nosuch FROM dbo.t", 207, 16, 1, "Invalid column name 'nosuch'."},
		{"INSERT dbo.t VALUES (1), (1)", 2627, 14, 1, "Violation of PRIMARY KEY constraint"},
		{"SELECT 1 / 0", 8134, 16, 1, "Divide by zero error encountered."},
		{"RAISERROR(N'mine %d', 15, 3, 42)", 50000, 15, 3, "mine 42"},
		{"THROW 51000, N'thrown', 4", 51000, 16, 4, "thrown"},
		{"EXEC dbo.nosuch", 2812, 16, 62, "Could not find stored procedure 'dbo.nosuch'."},
	} {
		e := c.fails(want.sql)
		require.Equal(t, []int{want.number, want.class, want.state}, []int{e.Number, e.Class, e.State}, "%s: %+v", want.sql, e)
		require.Contains(t, e.Message, want.text)
		require.Equal(t, [][]string{{"1"}}, c.query("SELECT 1"))
	}
	before := sim.Counters().Attentions
	out := c.do(step{Op: "cancel", SQL: "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT i FROM n OPTION (MAXRECURSION 0)", Rows: 10})
	require.Nil(t, out.Error)
	require.Len(t, out.rows(), 10)
	require.Equal(t, [][]string{{"2"}}, c.query("SELECT 2"))
	require.Greater(t, sim.Counters().Attentions, before)

	c.query(`EXEC sim.fault 'error', @statement = 'FROM dbo\.t', @number = 1205, @class = 13, @state = 45`)
	e := c.fails("SELECT id FROM dbo.t")
	require.Equal(t, []int{1205, 13, 45}, []int{e.Number, e.Class, e.State})
	require.Equal(t, [][]string{{"3"}}, c.query("SELECT 3"))
}
