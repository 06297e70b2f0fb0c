package interop

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// tsql runs batches in FreeTDS' tsql over one connection. Rows come one a line with columns by "|"; messages come apart from them.
func tsql(t *testing.T, sim *sqlserversim.Server, encryption string, batches ...string) (rows []string, messages string) {
	t.Helper()
	program, err := exec.LookPath("tsql")
	if err != nil {
		t.Skip("skipped: no tsql, run test/interop/setup.sh as root on Debian or install freetds-bin")
	}
	host, port, err := net.SplitHostPort(sim.Addr())
	require.NoError(t, err)
	conf := filepath.Join(t.TempDir(), "freetds.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[sim]\nhost = "+host+"\nport = "+port+"\nclient charset = UTF-8\n"+encryption), 0o600))
	cmd := exec.CommandContext(t.Context(), program, "-o", "qhf", "-t", "|", "-S", "sim", "-U", "sa", "-P", sqlserversim.DefaultPassword, "-D", "lab")
	cmd.Env = append(os.Environ(), "FREETDSCONF="+conf, "LC_ALL=C.UTF-8")
	cmd.Stdin = strings.NewReader(strings.Join(batches, "\ngo\n") + "\ngo\nexit\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s%s", out.String(), errs.String())
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.TrimSuffix(line, "\n"))
	}
	return rows, errs.String()
}

// A person at tsql: rowsets, messages, errors, a transaction that is rolled back, CDC.
func TestTsqlSession(t *testing.T) {
	t.Parallel()
	for _, encryption := range []string{"", "encryption = require\n", "encryption = off\n"} {
		var opts []sqlserversim.Option
		if strings.Contains(encryption, "off") {
			opts = append(opts, sqlserversim.WithoutTLS())
		}
		sim := startSimulator(t, opts...)
		rows, messages := tsql(t, sim, encryption,
			"SELECT 1 AS a, N'Ω' AS b, NULL AS c\nPRINT 'hello'\nSELECT 'second' AS s",
			"SELECT * FROM dbo.nosuch",
			"BEGIN TRAN; CREATE TABLE dbo.x (i int); INSERT dbo.x VALUES (1), (2); SELECT COUNT(*) FROM dbo.x",
			"ROLLBACK; SELECT OBJECT_ID('dbo.x'), @@TRANCOUNT",
			"CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20)); EXEC sys.sp_cdc_enable_db; EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL",
			"INSERT dbo.t VALUES (1, N'Ωne'); UPDATE dbo.t SET name = N'two'; DELETE dbo.t; EXEC sim.capture",
			"SELECT __$operation, __$update_mask, id, name FROM cdc.fn_cdc_get_all_changes_dbo_t(sys.fn_cdc_get_min_lsn('dbo_t'), sys.fn_cdc_get_max_lsn(), 'all update old') ORDER BY __$start_lsn, __$operation",
			"EXEC dbo.nosuch", "SELECT 'still here'")
		require.Equal(t, []string{"1|Ω|NULL", "second", "2", "NULL|0", "2|03|1|Ωne", "3|02|1|Ωne", "4|02|1|two", "1|03|1|two", "still here"}, rows)
		require.Contains(t, messages, "hello\n")
		require.Contains(t, messages, "Msg 208 (severity 16, state 1) from SIMULATOR Line 1:\n\t\"Invalid object name 'dbo.nosuch'.\"\n")
		require.Contains(t, messages, "Msg 2812 (severity 16, state 62) from SIMULATOR Line 1:\n\t\"Could not find stored procedure 'dbo.nosuch'.\"\n")
	}
}

// tsql shows what T-SQL says of the types that it has a plain text for. Times have a format of its own locale, money two decimals.
func TestTsqlReadsTypes(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t)
	_, err := workload.WriteTypes(t.Context(), sim)
	require.NoError(t, err)
	var columns []workload.TypeColumn
	var batches []string
	for _, c := range workload.TypeColumns() {
		base, _, _ := strings.Cut(c.Type, "(")
		switch base {
		case "date", "time", "datetime", "datetime2", "smalldatetime", "datetimeoffset", "money", "smallmoney":
			continue
		}
		columns = append(columns, c)
		batches = append(batches, "SELECT '"+c.Name+"', id, "+c.Name+", "+tsqlText(c)+" FROM dbo.all_types ORDER BY id")
	}
	rows, messages := tsql(t, sim, "text size = 2147483647\n", batches...)
	require.NotContains(t, messages, "Msg ")
	seen := map[string]int{}
	for _, row := range rows {
		parts := strings.Split(row, "|")
		require.Len(t, parts, 4, row)
		seen[parts[0]]++
		for _, c := range columns {
			if c.Name != parts[0] {
				continue
			}
			got := parts[2]
			if base, _, _ := strings.Cut(c.Type, "("); got != "NULL" && (strings.HasSuffix(base, "binary") || base == "image") {
				got = "0x" + strings.ToUpper(got)
			}
			requireSameValue(t, c.Type, parts[3], got, "%s of id %s", c.Name, parts[1])
		}
	}
	require.Len(t, seen, len(columns))
}
