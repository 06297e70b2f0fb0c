package clients

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// cdcPyspark is what testdata/cdc_pyspark_client.py prints.
type cdcPyspark struct {
	Clock                      []any
	MinLSN                     string `json:"min_lsn"`
	MaxLSN                     string `json:"max_lsn"`
	Around                     []string
	Third                      string
	CommitTime                 string `json:"commit_time"`
	AtTime                     string `json:"at_time"`
	Splits                     [][]any
	Source                     []any
	Columns, Computed, Present []string
	Captured                   string
	Instances, DDL             [][]string
	Estimate                   int
	Range, Top                 []string
	Tiles, Buckets, Changes    [][]*string
	Ping                       int
	Wait                       *int64
	Unknown                    struct{ Error, Message string }
	Chunks                     [][][][]string
}

// cdcPysparkOptions are the options of its four ways to a server.
func cdcPysparkOptions(t *testing.T, sim *sqlserversim.Server, stack string) (options, env string) {
	t.Helper()
	host, port := hostPort(t, sim)
	o := map[string]string{"user": "sa", "password": sqlserversim.DefaultPassword, "backend": "mssql-python"}
	server := fmt.Sprintf("Server=%s,%s;Database=%s;", host, port, sqlserversim.DefaultDatabase)
	o["connectionString"] = server + "Encrypt=yes;TrustServerCertificate=yes;"
	switch stack {
	case "mssql-python":
	case "its Rust driver":
		env = "MSSQL_PYTHON_NATIVE_PROVIDER=mssql-odbc"
	case "arrow-odbc over FreeTDS":
		o["backend"], o["connectionString"] = "arrow-odbc", "Driver=FreeTDS;"+server
	case "arrow-odbc over msodbcsql":
		found, err := filepath.Glob(filepath.Join(installed(t, "clients"), msodbcsql))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		o["backend"], o["connectionString"] = "arrow-odbc", "Driver="+found[0]+";"+o["connectionString"]
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	return string(text), env
}

func runCDCPyspark(t *testing.T, sim *sqlserversim.Server, stack, instance string) cdcPyspark {
	t.Helper()
	options, env := cdcPysparkOptions(t, sim, stack)
	cmd := exec.CommandContext(t.Context(), installed(t, "clients/bin/python"), "testdata/cdc_pyspark_client.py", options, instance, "7")
	cmd.Env = append(cmd.Environ(), env)
	out, err := output(cmd)
	require.NoError(t, err)
	var doc cdcPyspark
	require.NoError(t, json.Unmarshal(out, &doc), "%.500s", out)
	return doc
}

// The client layer of mssql-cdc-pyspark plans and reads as it does of SQL Server: positions, times in UTC, ranges that split, every change
// in commit order, chunks that tile the table, whatever driver is below it and whatever the server's clock shows.
func TestCDCPyspark(t *testing.T) {
	t.Parallel()
	vienna, err := time.LoadLocation("Europe/Vienna")
	require.NoError(t, err)
	for _, stack := range []string{"mssql-python", "its Rust driver", "arrow-odbc over FreeTDS", "arrow-odbc over msodbcsql"} {
		for _, version := range []int{2019, 2022} {
			t.Run(fmt.Sprintf("%s, %d", stack, version), func(t *testing.T) {
				t.Parallel()
				installed(t, "clients/bin/python")
				// The hour that comes twice lies in the middle of what is written.
				clock := engine.NewManualClock(time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC))
				sim := startSimulator(t, sqlserversim.WithVersion(version), sqlserversim.WithClock(clock),
					sqlserversim.WithTimeZone("W. Europe Standard Time", vienna))
				orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 3})
				require.NoError(t, err)
				execute(t, sim, "ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
				for range 60 {
					clock.Advance(2 * time.Minute)
					require.NoError(t, orders.Step(t.Context()))
				}
				execute(t, sim, "ALTER TABLE dbo.order_lines ADD later int NULL")
				require.NoError(t, orders.Run(t.Context(), 5))
				capture(t, sim)
				for _, table := range []string{"orders", "order_lines"} {
					requireCDCPyspark(t, sim, runCDCPyspark(t, sim, stack, "dbo_"+table), table, version >= 2022)
				}
				require.Empty(t, sim.Refused())
			})
		}
	}
}

func requireCDCPyspark(t *testing.T, sim *sqlserversim.Server, got cdcPyspark, table string, namesZone bool) {
	t.Helper()
	ct := "cdc.[dbo_" + table + "_CT]"
	one := func(sql string) string { return query(t, sim, sql)[0][0] }
	keys := strings.Split(map[string]string{"orders": "order_id", "order_lines": "order_id,line_no"}[table], ",")
	require.Equal(t, one("SELECT sys.fn_cdc_get_max_lsn()"), got.MaxLSN)
	require.Equal(t, one("SELECT sys.fn_cdc_get_min_lsn('dbo_"+table+"')"), got.MinLSN)
	require.Equal(t, []string{got.MinLSN, one("SELECT sys.fn_cdc_increment_lsn(sys.fn_cdc_get_max_lsn())")}, got.Around)
	require.Equal(t, one("SELECT MAX(start_lsn) FROM (SELECT TOP (3) start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn > "+got.MinLSN+" ORDER BY start_lsn) x"), got.Third)
	require.Equal(t, got.MaxLSN, got.AtTime)
	wantClock := []any{nil, float64(60)} // winter has come by the end
	if namesZone {
		wantClock = []any{"W. Europe Standard Time", nil}
	}
	require.Equal(t, wantClock, got.Clock)

	require.Equal(t, []any{"dbo", table, toAny(keys), one("SELECT start_lsn FROM cdc.change_tables WHERE capture_instance = 'dbo_" + table + "'")}, got.Source)
	var names []string
	columns := columnsOf(t, sim, "cdc.dbo_"+table+"_CT")
	for _, c := range columns {
		names = append(names, c.name)
	}
	require.Equal(t, names, got.Columns)
	require.Empty(t, got.Computed)
	require.Equal(t, names, got.Present)
	require.Equal(t, len(names), strings.Count(got.Captured, "`")/2, got.Captured)
	require.Len(t, got.Instances, 1)
	if table == "order_lines" {
		require.Len(t, got.DDL, 1)
		require.Contains(t, got.DDL[0][1], "ADD later int NULL")
	} else {
		require.Empty(t, got.DDL)
	}
	require.Equal(t, one("SELECT COUNT(*) FROM dbo."+table), fmt.Sprint(got.Estimate))
	require.Equal(t, one("SELECT MAX(order_id) FROM dbo."+table), got.Range[1])
	require.Equal(t, got.Range[1], got.Top[0])
	require.Len(t, got.Tiles, 2)
	require.Len(t, got.Buckets, len(query(t, sim, "SELECT order_id / 10 FROM dbo."+table+" GROUP BY order_id / 10")))
	require.Equal(t, 3, got.Ping)
	require.NotEmpty(t, got.Unknown.Error)

	texts := []string{"CONVERT(varchar(22), c.__$start_lsn, 1)", "CONVERT(varchar(22), c.__$seqval, 1)", "c.__$operation", "c.__$command_id"}
	for _, c := range columns {
		texts = append(texts, c.asText())
	}
	want := query(t, sim, "SELECT "+strings.Join(texts, ", ")+" FROM "+ct+" c ORDER BY c.__$start_lsn, c.__$command_id, c.__$seqval, c.__$operation")
	require.Len(t, got.Changes, len(want))
	split := 0
	for _, s := range got.Splits {
		split += int(s[2].(float64))
	}
	require.Len(t, got.Splits, 4)
	require.Equal(t, len(want), split)
	last := ""
	for i, row := range got.Changes {
		require.Equal(t, want[i][:4], []string{*row[0], *row[1], *row[2], *row[3]})
		if namesZone { // with a fixed offset the hour that comes twice is not told apart
			require.GreaterOrEqual(t, *row[4], last, "commit times in UTC never go back, the server's clock does")
		}
		last = *row[4]
		for j, c := range columns {
			text := "NULL"
			if row[5+j] != nil {
				text = *row[5+j]
			}
			c.requireSame(t, sixDigits(c, want[i][4+j]), text, "change row "+*row[0])
		}
	}
	require.NotEmpty(t, got.CommitTime)
	at := query(t, sim, "SELECT "+strings.Join(keys, ", ")+" FROM dbo."+table+" ORDER BY "+strings.Join(keys, ", "))
	for i, chunks := range got.Chunks {
		require.Greater(t, len(chunks), 2)
		require.Equal(t, at, slices.Concat(chunks...), "isolation %d", i)
	}
}

func toAny(texts []string) []any {
	out := make([]any, len(texts))
	for i, s := range texts {
		out[i] = s
	}
	return out
}
