package sqlserver_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// of is what was found out by a check about an object; its level is "" if nothing was.
func of(findings []sqlserver.Finding, check, object string) sqlserver.Finding {
	at := slices.IndexFunc(findings, func(f sqlserver.Finding) bool { return f.Check == check && f.Object == object })
	if at < 0 {
		return sqlserver.Finding{}
	}
	return findings[at]
}

func TestExamine(t *testing.T) {
	t.Parallel()
	l := newLab(t, sqlserversim.WithLogin("reader", "", false))
	l.exec(
		"CREATE TABLE dbo.fine (id int NOT NULL PRIMARY KEY, a int)", "CREATE TABLE dbo.denied (id int NOT NULL PRIMARY KEY)",
		"CREATE TABLE dbo.odd (id int NOT NULL, v sql_variant)", "CREATE USER reader FOR LOGIN reader")
	for _, name := range []string{"odd", "denied", "fine"} {
		l.track(mssqlcdc.TableID{Schema: "dbo", Name: name})
		l.exec("INSERT dbo.odd (id) VALUES (1)")
		l.capture()
	}
	l.exec("ALTER TABLE dbo.fine ADD later int", "INSERT dbo.fine VALUES (1, 2, 3)",
		"GRANT SELECT ON dbo.fine TO reader; GRANT SELECT ON cdc.dbo_fine_CT TO reader; GRANT SELECT ON dbo.odd TO reader; GRANT SELECT ON cdc.dbo_odd_CT TO reader; GRANT SELECT ON dbo.denied TO reader")
	l.capture()

	owner := l.examine(l.client())
	require.Equal(t, sqlserver.LevelOK, of(owner, "capture", "lab").Level)
	require.Equal(t, sqlserver.LevelOK, of(owner, "retention", "lab").Level)
	require.Contains(t, of(owner, "retention", "lab").Text, "72h")
	require.Equal(t, sqlserver.LevelOK, of(owner, "capture errors", "lab").Level)
	require.Equal(t, sqlserver.LevelOK, of(owner, "permissions", "dbo.denied (dbo_denied)").Level, "sa may read everything")

	found := l.examine(l.client("reader"))
	require.Equal(t, sqlserver.LevelInfo, of(found, "retention", "lab").Level, "a reader need not see it")
	require.Equal(t, sqlserver.LevelInfo, of(found, "capture errors", "lab").Level)
	fine := "dbo.fine (dbo_fine)"
	require.Equal(t, sqlserver.LevelOK, of(found, "permissions", fine).Level)
	require.Equal(t, sqlserver.LevelOK, of(found, "headroom", fine).Level)
	require.Equal(t, "id", of(found, "key", fine).Text)
	later := slices.ContainsFunc(found, func(f sqlserver.Finding) bool {
		return f.Object == fine && f.Level == sqlserver.LevelInfo && f.Check == "columns"
	})
	require.True(t, later, "the column that the instance does not capture")

	denied := of(found, "permissions", "dbo.denied (dbo_denied)")
	require.Equal(t, sqlserver.LevelError, denied.Level)
	require.Equal(t, "GRANT SELECT ON cdc.[dbo_denied_CT] TO [reader]", denied.Fix)
	odd := "dbo.odd (dbo_odd)"
	require.Equal(t, sqlserver.LevelError, of(found, "columns", odd).Level)
	require.Contains(t, of(found, "columns", odd).Text, "sql_variant")
	require.Equal(t, sqlserver.LevelInfo, of(found, "key", odd).Level)

	l.exec("EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 60")
	short := of(l.examine(l.client()), "retention", "lab")
	require.Equal(t, sqlserver.LevelWarning, short.Level)
	require.Contains(t, short.Fix, "sp_cdc_change_job")
}

func (l *lab) examine(c *sqlserver.Client) []sqlserver.Finding {
	l.t.Helper()
	instances, err := c.Instances(l.t.Context())
	require.NoError(l.t, err)
	findings, err := c.Examine(l.t.Context(), instances)
	require.NoError(l.t, err)
	return findings
}

// A database in which capture has never run.
func TestExamineNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	findings, err := l.client().Examine(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, sqlserver.LevelError, of(findings, "capture", "lab").Level, "capture has never run")
}
