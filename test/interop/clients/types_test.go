package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// tdsClient is a client that runs one query and prints its rows (testdata/).
type tdsClient struct {
	name  string
	modes []string // off: nothing encrypted; login: the login alone; on: everything; strict: TLS before anything else (TDS 8.0)
	leaf  bool     // strict mode compares the server's own certificate instead of checking it against the authority
	cmd   func(t *testing.T, query string) *exec.Cmd
	// loses gives a value as the client shows it, where that is not the value itself; nil when it has no such loss.
	loses func(c column, text string) string
	near  func(c column) bool // columns that it has as doubles
	skip  func(c column) bool // columns that it cannot read
}

func script(name string, args ...string) func(*testing.T, string) *exec.Cmd {
	return func(t *testing.T, query string) *exec.Cmd {
		python := installed(t, "clients/bin/python")
		return exec.CommandContext(t.Context(), python, append(append([]string{"-B", "testdata/" + name}, args...), query)...)
	}
}

func odbc(name, module string) func(*testing.T, string) *exec.Cmd {
	return func(t *testing.T, query string) *exec.Cmd {
		if _, err := os.Stat("/etc/odbcinst.ini"); err != nil {
			t.Skipf("skipped: no ODBC driver manager, %s", setup)
		}
		cmd := script(name)(t, query)
		if module != "" {
			found, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(cmd.Path)), module))
			require.NoError(t, err)
			if len(found) == 0 {
				t.Skipf("skipped: no %s, %s", module, setup)
			}
			cmd.Env = append(cmd.Environ(), "ODBC_DRIVER="+found[0])
		}
		return cmd
	}
}

const msodbcsql = "lib/python*/site-packages/mssql_python_odbc/libs/linux/debian_ubuntu/x86_64/lib/libmsodbcsql-18*.so*"

func tdsClients() []tdsClient {
	every := []string{"off", "login", "on", "strict"}
	classic := []string{"off", "login", "on"}
	return []tdsClient{
		{name: "mssql-jdbc", modes: every, leaf: true, loses: julian, cmd: func(t *testing.T, query string) *exec.Cmd {
			jars, err := filepath.Glob(installed(t, "debezium/lib") + "/mssql-jdbc-*.jar")
			require.NoError(t, err)
			require.Len(t, jars, 1)
			return exec.CommandContext(t.Context(), inPath(t, "java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars[0], "testdata/Jdbc.java", query)
		}},
		{name: "mssql-python", modes: every, leaf: true, cmd: script("mssql_python_client.py"), loses: sixDigits},
		{name: "mssql-python over its Rust driver", modes: every, leaf: true, loses: noEmptyImage, cmd: func(t *testing.T, query string) *exec.Cmd {
			cmd := script("mssql_python_client.py")(t, query)
			cmd.Env = append(cmd.Environ(), "MSSQL_PYTHON_NATIVE_PROVIDER=mssql-odbc")
			return cmd
		}},
		{name: "python-tds", modes: classic, cmd: script("pytds_client.py"), loses: sixDigits},
		{name: "pyodbc over FreeTDS", modes: classic, cmd: odbc("pyodbc_client.py", ""), loses: sixDigitsButOffset},
		{name: "pyodbc over msodbcsql", modes: every, leaf: true, cmd: odbc("pyodbc_client.py", msodbcsql), loses: sixDigitsButOffset},
		{name: "arrow-odbc over FreeTDS", modes: classic, cmd: odbc("arrow_odbc_client.py", ""), skip: beyondBuffer, loses: shortYear},
		{name: "arrow-odbc over msodbcsql", modes: every, leaf: true, cmd: odbc("arrow_odbc_client.py", msodbcsql), skip: beyondNanoseconds},
		{name: "tedious", modes: every, loses: utc, near: decimals, cmd: func(t *testing.T, query string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), inPath(t, "node"), "testdata/tedious_client.js", query)
			cmd.Env = append(cmd.Environ(), "NODE_PATH="+installed(t, "tedious/node_modules"))
			return cmd
		}},
		{name: "tiberius", modes: every, loses: roundedTicks, near: moneys, cmd: func(t *testing.T, query string) *exec.Cmd {
			return exec.CommandContext(t.Context(), installed(t, "tiberius/release/tiberius_client"), query)
		}},
	}
}

// sixDigits: Python's times end at the microsecond.
func sixDigits(c column, text string) string {
	switch c.typ {
	case "time", "datetime2", "datetimeoffset":
		if dot := strings.IndexByte(text, '.'); dot >= 0 {
			end := dot + 1
			for end < len(text) && text[end] >= '0' && text[end] <= '9' {
				end++
			}
			return text[:min(dot+7, end)] + text[end:]
		}
	}
	return text
}

// noEmptyImage: the Rust driver takes an empty image for NULL.
func noEmptyImage(c column, text string) string {
	if c.typ == "image" && text == "0x" {
		return "NULL"
	}
	return sixDigits(c, text)
}

// shortYear: FreeTDS hands datetimeoffset on as text, its year without zeros in front.
func shortYear(c column, text string) string {
	if c.typ == "datetimeoffset" {
		return strings.TrimLeft(text, "0")
	}
	return text
}

func sixDigitsButOffset(c column, text string) string {
	if c.typ == "datetimeoffset" {
		return text
	}
	return sixDigits(c, text)
}

// julian: mssql-jdbc's datetimeoffset goes through Java's calendar, which is Julian before 1582, two days off in the year 1.
func julian(c column, text string) string {
	if rest, found := strings.CutPrefix(text, "0001-01-01 "); found && c.typ == "datetimeoffset" {
		return "0000-12-30 " + rest
	}
	return text
}

// beyondNanoseconds: a 64-bit count of nanoseconds ends in 1677 and 2262.
func beyondNanoseconds(c column) bool { return c.name == "c_datetime2_7" }

// beyondBuffer: FreeTDS writes a zero before the point, which its own length of such a column has no room for.
func beyondBuffer(c column) bool { return beyondNanoseconds(c) || c.name == "c_numeric_5_5" }

// utc: JavaScript's dates have no offset.
func utc(c column, text string) string {
	const layout = "2006-01-02 15:04:05.9999999 -07:00"
	if at, err := time.Parse(layout, text); err == nil && c.typ == "datetimeoffset" {
		return at.UTC().Format(layout)
	}
	return text
}

func decimals(c column) bool { return moneys(c) || c.typ == "decimal" || c.typ == "numeric" }

func moneys(c column) bool { return c.typ == "money" || c.typ == "smallmoney" }

// roundedTicks: tiberius leaves datetime's thirds of 10 ms as they are.
func roundedTicks(c column, text string) string {
	if whole, fraction, found := strings.Cut(text, "."); found && c.typ == "datetime" {
		return whole + map[string]string{"993": ".993333333", "997": ".996666666", "003": ".003333333", "000": ""}[fraction]
	}
	return text
}

// requireNear compares two numbers as doubles.
func requireNear(t *testing.T, want, got, what string) {
	t.Helper()
	if want == "NULL" || got == "NULL" {
		require.Equal(t, want, got, what)
		return
	}
	w, err := float(want)
	require.NoError(t, err, what)
	g, err := float(got)
	require.NoError(t, err, what)
	require.InEpsilon(t, w+1e-300, g+1e-300, 1e-15, what)
}

// Every client reads every value of every type as T-SQL says it is, whatever is encrypted, its own known losses apart.
func TestClientsReadEveryType(t *testing.T) {
	t.Parallel()
	for _, client := range tdsClients() {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range client.modes {
				t.Run(mode, func(t *testing.T) {
					if mode != client.modes[0] && testing.Short() {
						t.Skip("skipped: the first mode alone with -short")
					}
					readTypes(t, client, mode)
				})
			}
		})
	}
}

func readTypes(t *testing.T, client tdsClient, mode string) {
	var opts []sqlserversim.Option
	if mode == "off" {
		opts = append(opts, sqlserversim.WithoutTLS())
	}
	sim := startSimulator(t, opts...)
	_, err := workload.WriteTypes(t.Context(), sim)
	require.NoError(t, err)
	columns := columnsOf(t, sim, "dbo.all_types")
	columns = slices.DeleteFunc(columns, func(c column) bool { return client.skip != nil && client.skip(c) })
	var names, texts []string
	for _, c := range columns {
		names, texts = append(names, "["+c.name+"]"), append(texts, c.asText())
	}
	const encryption = ", (SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID) AS encrypted FROM dbo.all_types ORDER BY id"
	want := query(t, sim, "SELECT "+strings.Join(texts, ", ")+" FROM dbo.all_types ORDER BY id")

	got := client.read(t, sim, mode, "SELECT "+strings.Join(names, ", ")+encryption)
	require.Len(t, got, len(want))
	encrypted := "FALSE"
	if mode == "on" || mode == "strict" {
		encrypted = "TRUE"
	}
	for i, row := range got {
		require.Len(t, row, len(columns)+1)
		require.Equal(t, encrypted, row[len(columns)])
		for j, c := range columns {
			say := want[i][j]
			if say != "NULL" && client.loses != nil {
				say = client.loses(c, say)
			}
			if client.near != nil && client.near(c) {
				requireNear(t, say, row[j], "row "+row[0]+", "+c.name)
				continue
			}
			c.requireSame(t, say, row[j], "row "+row[0])
		}
	}
	require.Empty(t, sim.Refused())
}

// read runs a query in a mode of encryption.
func (c *tdsClient) read(t *testing.T, sim *sqlserversim.Server, mode, sql string) [][]string {
	t.Helper()
	cmd := c.cmd(t, sql)
	host, port := hostPort(t, sim)
	cmd.Env = append(cmd.Environ(), "TDS_HOST="+host, "TDS_PORT="+port, "TDS_USER=sa", "TDS_PASSWORD="+sqlserversim.DefaultPassword,
		"TDS_DATABASE="+sqlserversim.DefaultDatabase, "TDS_ENCRYPT="+mode)
	if mode != "off" {
		pem := sim.CACertPEM()
		if c.leaf && mode == "strict" {
			pem = sim.CertPEM()
		}
		file := filepath.Join(t.TempDir(), "certificate.pem")
		require.NoError(t, os.WriteFile(file, pem, 0o600))
		cmd.Env = append(cmd.Env, "TDS_CA="+file)
	}
	out, err := output(cmd)
	require.NoError(t, err)
	return canonicalRows(t, out)
}

// Every client reads text in the code page of its column's collation, one, two and four bytes a character.
func TestClientsReadEveryCollation(t *testing.T) {
	t.Parallel()
	texts := []struct{ collation, text string }{
		{"SQL_Latin1_General_CP1_CI_AS", "Grüße, 20 €"}, {"Latin1_General_BIN2", "œuvre ÿ"}, {"Latin1_General_100_CI_AS_SC_UTF8", "東京 🏭 Ω é"},
		{"Japanese_CI_AS", "東京タワー ABC"}, {"Chinese_PRC_CI_AS", "北京 abc"}, {"Chinese_Taiwan_Stroke_CI_AS", "臺北"}, {"Korean_Wansung_CI_AS", "서울"},
		{"Cyrillic_General_CI_AS", "Москва"}, {"Greek_CI_AS", "Αθήνα"}, {"Polish_CI_AS", "Łódź"}, {"Turkish_CI_AS", "İstanbul ğ"},
		{"Hebrew_CI_AS", "ירושלים"}, {"Arabic_CI_AS", "القاهرة"}, {"Thai_CI_AS", "กรุงเทพ"}, {"Estonian_CI_AS", "Õžš"},
	}
	for _, client := range tdsClients() {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			sim := startSimulator(t)
			var columns, values, names, want []string
			for i, x := range texts {
				name := fmt.Sprintf("c%02d", i)
				columns = append(columns, name+" varchar(60) COLLATE "+x.collation)
				values, names, want = append(values, "N'"+x.text+"'"), append(names, name), append(want, x.text)
			}
			execute(t, sim, "CREATE TABLE dbo.texts ("+strings.Join(columns, ", ")+")", "INSERT dbo.texts VALUES ("+strings.Join(values, ", ")+")")
			require.Equal(t, [][]string{want}, client.read(t, sim, "on", "SELECT "+strings.Join(names, ", ")+" FROM dbo.texts"))
		})
	}
}

// canonicalRows reads the lines that the scripts print.
func canonicalRows(t *testing.T, out []byte) [][]string {
	t.Helper()
	var rows [][]string
	for line := range bytes.Lines(out) {
		var doc struct{ Row []*string }
		require.NoError(t, json.Unmarshal(line, &doc), "%.300s", line)
		if doc.Row == nil {
			continue
		}
		row := make([]string, len(doc.Row))
		for i, v := range doc.Row {
			if row[i] = "NULL"; v != nil {
				row[i] = *v
			}
		}
		rows = append(rows, row)
	}
	return rows
}
