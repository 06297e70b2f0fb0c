package peers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// restricted is a lab with one captured table and a login that has the rights given, and
// no more; the table's instance has a gating role where one is named.
func restricted(t *testing.T, role string, grants ...string) (*lab, *pipeline) {
	t.Helper()
	l := newLab(t, sqlserversim.WithLogin("reader", "", false))
	l.exec(t, "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v int NULL, secret int NULL)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = "+role)
	l.exec(t, "INSERT dbo.t VALUES (1, 1, 1), (2, 2, 2)")
	l.capture(t)
	l.exec(t, "CREATE USER reader FOR LOGIN reader")
	l.exec(t, grants...)
	p := l.pipeline(t, "dbo.t")
	p.dsn = l.sim.DSN("reader")
	return l, p
}

// without the gating role the procedures of CDC answer with nothing at all. Here that
// is an error with the statement that gives the role, and no quiet run without tables.
func TestWithoutTheGatingRole(t *testing.T) {
	t.Parallel()
	l, p := restricted(t, "N'cdc_reader'", "GRANT SELECT ON dbo.t TO reader")
	require.Empty(t, l.queryAs(t, "reader", "EXEC sys.sp_cdc_help_change_data_capture"), "the server hides the instance")
	err := p.fail(t)
	require.ErrorContains(t, err, "gating role") // which one nobody tells this login
	require.ErrorContains(t, err, "[reader]")
	l.exec(t, "ALTER ROLE cdc_reader ADD MEMBER reader", "GRANT SELECT ON cdc.dbo_t_CT TO reader")
	p.run(t)
	l.requireSame(t, p, "t", "id", "v")
}

func (l *lab) queryAs(t *testing.T, login, text string) [][]string {
	t.Helper()
	answer, err := l.sim.QueryAs(t.Context(), login, text)
	require.NoError(t, err, text)
	return answer.Strings()
}

// the views of server and database state are for the curious: a login without them
// reads everything, and its verdict moves.
func TestWithoutViewDatabaseState(t *testing.T) {
	t.Parallel()
	l, p := restricted(t, "NULL", "GRANT SELECT ON dbo.t TO reader", "GRANT SELECT ON cdc.dbo_t_CT TO reader")
	p.snapshot().facts().run(t)
	l.requireCurrent(t, p, "t", "id", "v")
	require.False(t, p.verdict(t, "t").UpdatedAt.IsZero())
	require.NotContains(t, p.log.String(), "level=WARN")
}

// SELECT on one captured column is denied. The server hides the whole instance then:
// the run says so at its start and not after an hour, and an instance without the column
// is read.
func TestDeniedColumn(t *testing.T) {
	t.Parallel()
	l, p := restricted(t, "NULL", "GRANT SELECT ON dbo.t TO reader", "GRANT SELECT ON cdc.dbo_t_CT TO reader", "DENY SELECT ON dbo.t (secret) TO reader")
	require.ErrorContains(t, p.snapshot().fail(t), "SELECT on the captured columns")
	require.Nil(t, p.open(t, "lake", "t"), "nothing was written")
	l.track(t, id("t"), "@capture_instance = N'public_part'", "@captured_column_list = N'id, v'")
	l.exec(t, "GRANT SELECT ON cdc.public_part_CT TO reader", "INSERT dbo.t VALUES (3, 3, 3)")
	l.capture(t)
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "v")
	require.Negative(t, p.open(t, "lake", "t").Snapshot().Schema().Index("secret"))
}
