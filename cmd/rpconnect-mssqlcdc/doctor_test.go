package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	sim, err := sqlserversim.Start(sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	code, stdout, _ := runDoctor(t, "--connection-string", sim.DSN())
	require.Equal(t, exitFailure, code)
	require.Contains(t, stdout, "sql/enable_database.sql")

	for _, batch := range []string{
		"EXEC sys.sp_cdc_enable_db", "CREATE TABLE dbo.fine (id int NOT NULL PRIMARY KEY)", "CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY, v sql_variant)",
		"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'fine', @role_name = NULL",
		"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'odd', @role_name = NULL",
		"INSERT dbo.fine VALUES (1)",
	} {
		require.NoError(t, sim.Exec(t.Context(), batch), batch)
	}
	require.NoError(t, sim.Capture(t.Context()))
	code, stdout, _ = runDoctor(t, "--connection-string", sim.DSN())
	require.Equal(t, exitFailure, code, "a pipeline over dbo.odd would fail")
	require.Contains(t, stdout, "column_types")

	code, stdout, _ = runDoctor(t, "--connection-string", sim.DSN(), "--tables", "dbo.*", "--tables", "!dbo.odd", "--json")
	require.Zero(t, code, "%s", stdout)
	objects := map[string]bool{}
	for line := range strings.Lines(stdout) {
		var f sqlserver.Finding
		require.NoError(t, json.Unmarshal([]byte(line), &f))
		objects[f.Object] = true
	}
	require.Equal(t, map[string]bool{"lab": true, "dbo.fine (dbo_fine)": true}, objects)

	code, _, stderr := runDoctor(t, "--connection-string", sim.DSN(), "--tables", "dbo.nobody")
	require.Equal(t, exitUnknown, code)
	require.Contains(t, stderr, "dbo.fine", "what there is")
	code, _, stderr = runDoctor(t, "--connection-string", strings.Replace(sim.DSN(), "sa:", "sa:x", 1))
	require.Equal(t, exitUnknown, code)
	require.Contains(t, stderr, "Login failed")
	require.NotContains(t, stderr, sqlserversim.DefaultPassword)
}

func runDoctor(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runCommand(t, doctorCommand, append([]string{"doctor"}, args...)...)
}
