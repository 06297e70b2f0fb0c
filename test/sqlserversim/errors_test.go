package sqlserversim_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// TestErrors provokes each message over the socket and compares number, class, state and text.
func TestErrors(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("reader", "", false))
	tracked(t, sim)
	exec(t, sim, "CREATE TABLE dbo.heap (v int NULL)", "CREATE TABLE dbo.two (id int PRIMARY KEY, a int NOT NULL, b int NULL, CONSTRAINT uq_b UNIQUE (b))",
		"EXEC sys.sp_cdc_enable_table 'dbo', 'two', @capture_instance = 'two_a', @role_name = NULL",
		"EXEC sys.sp_cdc_enable_table 'dbo', 'two', @capture_instance = 'two_b', @role_name = NULL",
		"CREATE USER reader", "CREATE DATABASE plain", "INSERT dbo.orders VALUES (1, N'a', 1)")
	capture(t, sim)
	db := connect(t, sim.DSN())
	messages := published(t)
	long := strings.Repeat("x", 101)
	for _, tt := range []struct {
		batch        string
		number       int32
		class, state uint8
		args         []any // of the published text; nil with want
		want         string
	}{
		{batch: "SELEC * FROM t", number: 102, class: 15, state: 1, want: "Incorrect syntax near '*'."},
		{batch: "SELEC 1", number: 2812, class: 16, state: 62, args: []any{"SELEC"}},
		{batch: "SELECT * FROM", number: 102, class: 15, state: 1, want: "Incorrect syntax near 'FROM'."},
		{batch: "SELECT nosuch(1)", number: 195, class: 15, state: 10, want: "'nosuch' is not a recognized built-in function name."},
		{batch: "SELECT * FROM dbo.nosuch", number: 208, class: 16, state: 1, want: "Invalid object name 'dbo.nosuch'."},
		{batch: "SELECT nosuch FROM dbo.orders", number: 207, class: 16, state: 1, want: "Invalid column name 'nosuch'."},
		{batch: "SELECT @x", number: 137, class: 15, state: 2, want: "Must declare the scalar variable \"@x\"."},
		{batch: "EXEC nosuch", number: 2812, class: 16, state: 62, args: []any{"nosuch"}},
		{batch: "SELECT 1/0", number: 8134, class: 16, state: 1, want: "Divide by zero error encountered."},
		{batch: "INSERT dbo.orders VALUES (1, N'a', 1)", number: 2627, class: 14, state: 1},
		{batch: "INSERT dbo.two VALUES (1, NULL, 1)", number: 515, class: 16, state: 2,
			want: "Cannot insert the value NULL into column 'a', table 'lab.dbo.two'; column does not allow nulls. INSERT fails."},
		{batch: "TRUNCATE TABLE dbo.orders", number: 4711, class: 16, state: 1, args: []any{"dbo.orders"}},
		{batch: "EXEC sp_rename 'dbo.orders.name', 'title', 'COLUMN'", number: 4928, class: 16, state: 1, args: []any{"name", "REPLICATED"}},
		{batch: "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT * FROM dbo.orders", number: 3952, class: 16, state: 1, args: []any{"lab"}},
		{batch: "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_orders(NULL, NULL, N'all')", number: 313, class: 16, state: 3,
			args: []any{"cdc.fn_cdc_get_all_changes_ ... "}},
		{batch: "SELECT * FROM cdc.fn_cdc_get_all_changes_nosuch(0x00, 0x00, N'all')", number: 208, class: 16, state: 1,
			want: "Invalid object name 'cdc.fn_cdc_get_all_changes_nosuch'."},
		{batch: "USE plain; EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL", number: 22901, class: 16, state: 1, args: []any{"plain"}},
		{batch: "EXEC msdb.sys.sp_cdc_enable_db", number: 22989, class: 16, state: 1, args: []any{"msdb"}},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'orders', @role_name = NULL", number: 22926, class: 16, state: 1, args: []any{"dbo_orders"}},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'heap', @role_name = NULL, @capture_instance = '" + long + "'", number: 22927, class: 16, state: 1, args: []any{long}},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'two', @role_name = NULL", number: 22962, class: 16, state: 1, args: []any{"dbo", "two"}},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'nosuch', @role_name = NULL", number: 22931, class: 16, state: 1, args: []any{"dbo", "nosuch"}},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'heap', @role_name = NULL, @supports_net_changes = 1", number: 22939, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'heap', @role_name = ''", number: 22907, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'heap', @role_name = NULL, @index_name = 'ix'", number: 22928, class: 16, state: 1, args: []any{"ix", "dbo", "heap"}},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'heap', @role_name = NULL, @captured_column_list = 'nosuch'", number: 22942, class: 16, state: 1, args: []any{"dbo", "heap"}},
		{batch: "EXEC sys.sp_cdc_enable_table 'cdc', 'change_tables', @role_name = NULL", number: 22974, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_enable_table 'dbo', 'heap'", number: 201, class: 16, state: 4,
			want: "Procedure or function 'sp_cdc_enable_table' expects parameter '@role_name', which was not supplied."},
		{batch: "EXEC sys.sp_cdc_disable_table 'dbo', 'orders', 'nosuch'", number: 22960, class: 16, state: 1, args: []any{"nosuch", "dbo", "orders"}},
		{batch: "EXEC sys.sp_cdc_help_change_data_capture @source_schema = 'dbo'", number: 22972, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_help_change_data_capture 'dbo', 'heap'", number: 22985, class: 16, state: 1, args: []any{"dbo", "heap"}},
		{batch: "EXEC sys.sp_cdc_get_captured_columns 'nosuch'", number: 22981, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_cleanup_change_table 'dbo_orders', 0x01", number: 22964, class: 16, state: 1, args: []any{"0x01000000000000000000"}},
		{batch: "EXEC sys.sp_cdc_cleanup_change_table 'nosuch', NULL", number: 22920, class: 16, state: 1, args: []any{"nosuch", "lab"}},
		{batch: "EXEC sys.sp_cdc_cleanup_change_table 'dbo_orders', NULL, 0", number: 22850, class: 16, state: 1},
		{batch: "USE plain; EXEC sys.sp_cdc_cleanup_change_table 'x', NULL", number: 22910, class: 16, state: 1, args: []any{"plain"}},
		{batch: "EXEC sys.sp_cdc_change_job @job_type = 'other'", number: 22992, class: 16, state: 1, args: []any{"other"}},
		{batch: "EXEC sys.sp_cdc_change_job @job_type = 'capture', @retention = 1", number: 22995, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_change_job @job_type = 'cleanup', @maxtrans = 1", number: 22996, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_change_job @job_type = 'cleanup', @retention = 0", number: 22994, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_scan @maxtrans = 0", number: 22991, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_scan @maxscans = 0", number: 22970, class: 16, state: 1},
		{batch: "EXEC sys.sp_cdc_scan @pollinginterval = 1", number: 22999, class: 16, state: 1},
		{batch: "ALTER TABLE dbo.two ALTER COLUMN nosuch int", number: 4924, class: 16, state: 1,
			want: "ALTER TABLE ALTER COLUMN failed because column 'nosuch' does not exist in table 'two'."},
		{batch: "DROP TABLE dbo.nosuch", number: 3701, class: 11, state: 5, want: "Cannot drop the table 'dbo.nosuch', because it does not exist or you do not have permission."},
		{batch: "DROP USER cdc", number: 22895, class: 16, state: 1},
	} {
		name := fmt.Sprintf("%d %s", tt.number, tt.batch[:min(40, len(tt.batch))])
		t.Run(name, func(t *testing.T) {
			_, err := tryRows(t.Context(), db, tt.batch)
			e := sqlError(t, err)
			require.Equal(t, tt.number, e.Number, e.Message)
			require.Equal(t, tt.class, e.Class, e.Message)
			require.Equal(t, tt.state, e.State, e.Message)
			if p, ok := messages[tt.number]; ok && tt.want == "" {
				require.Equal(t, p.class, e.Class)
				require.Equal(t, p.format(tt.args), e.Message)
				return
			}
			if tt.want != "" {
				require.Equal(t, tt.want, e.Message)
			}
		})
	}
	_, err := tryRows(t.Context(), db, "INSERT dbo.orders VALUES (1, N'a', 1)")
	require.Regexp(t, `^Violation of PRIMARY KEY constraint 'PK__orders__[0-9A-F]+'\. Cannot insert duplicate key in object 'dbo\.orders'\. The duplicate key value is \(1\)\.$`,
		sqlError(t, err).Message)
	require.NotEmpty(t, sim.Refused())
	require.Contains(t, strings.Join(sim.Refused(), "\n"), "Msg 2812: Could not find stored procedure 'nosuch'.: EXEC nosuch")
}

// publishedMessage is a row of the message list that Microsoft publishes.
type publishedMessage struct {
	class uint8
	text  string
}

// format fills the placeholders in order.
func (p publishedMessage) format(args []any) string {
	n := 0
	return regexp.MustCompile(`%(?:\.\*)?l?s|%d|%I64d|%ld`).ReplaceAllStringFunc(p.text, func(hole string) string {
		if n++; n <= len(args) {
			return fmt.Sprint(args[n-1])
		}
		return hole
	})
}

// published reads the message list of the shared test data; without it the tests compare with texts of their own only.
func published(t *testing.T) map[int32]publishedMessage {
	t.Helper()
	dir := os.Getenv("SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, "cdc", "messages.tsv"))
	if err != nil {
		t.Logf("the published message list is not here (%v): texts are compared with the test's own only", err)
		return nil
	}
	defer f.Close()
	out := map[int32]publishedMessage{}
	for scan := bufio.NewScanner(f); scan.Scan(); {
		parts := strings.Split(scan.Text(), "\t")
		number, err := strconv.ParseInt(parts[0], 10, 32)
		if err != nil || len(parts) < 3 {
			continue
		}
		class, err := strconv.ParseUint(parts[1], 10, 8)
		require.NoError(t, err)
		out[int32(number)] = publishedMessage{uint8(class), parts[2]}
	}
	return out
}

// TestRefused: what is not known is refused, and the session goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	db := connect(t, sim.DSN())
	db.SetMaxOpenConns(1)
	for batch, number := range map[string]int32{
		"CREATE FULLTEXT CATALOG x":                          102,
		"SELECT * FROM sys.dm_os_wait_stats":                 208,
		"EXEC xp_cmdshell 'dir'":                             2812,
		"SELECT sys.fn_nosuch(1)":                            4121,
		"SELECT * FROM dbo.fn_nosuch(1)":                     208,
		"ALTER DATABASE lab SET FLUX_CAPACITOR ON":           102,
		"SELECT * INTO dbo.copy FROM sys.tables":             0,
		"DELETE sys.tables":                                  259,
		"UPDATE cdc.change_tables SET role_name = 'x'":       208,
		"SELECT 1 AS a FOR JSON PATH":                        0,
		"DECLARE c CURSOR FOR SELECT 1":                      0,
		"CREATE TRIGGER x ON dbo.t AFTER INSERT AS SELECT 1": 0,
	} {
		_, err := tryRows(t.Context(), db, batch)
		require.Error(t, err, batch)
		if number != 0 {
			require.Equal(t, number, sqlError(t, err).Number, batch)
		}
		require.Equal(t, []string{"1"}, rows(t, db, "SELECT 1"), "after "+batch)
	}
}
