package sqlserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// TestSimNames is N-01, N-03 and N-08: names that need quoting, in every place.
func TestSimNames(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i, nasty := range []string{"product_catalog", "order details", "a]b", "x#$.-'\"é表[%", "SELECT"} {
		t.Run(nasty, func(t *testing.T) {
			table := mssqlcdc.TableID{Schema: "s" + fmt.Sprint(i) + " " + nasty, Name: nasty}
			instance := "ci " + nasty
			if strings.Contains(nasty, "]") || strings.Contains(nasty, "'") {
				instance = fmt.Sprintf("ci%d]%s", i, strings.ReplaceAll(nasty, "'", "''"))
			}
			l.exec("CREATE SCHEMA "+mssqlcdc.QuoteName(table.Schema),
				fmt.Sprintf("CREATE TABLE %s (%s int NOT NULL PRIMARY KEY, [plain] int NULL)", table.Quoted(), mssqlcdc.QuoteName("k "+nasty)))
			l.track(table, "@capture_instance = N'"+instance+"'")
			l.exec(fmt.Sprintf("INSERT %s VALUES (1, 2)", table.Quoted()))
			l.capture()
			client := l.client()
			name := strings.ReplaceAll(instance, "''", "'")
			layout := l.layout(client, name)
			require.Equal(t, table, layout.Instance.Table)
			require.Equal(t, []string{"k " + nasty}, layout.Instance.KeyColumns)
			require.True(t, layout.Columns[0].Key)
			require.True(t, layout.HasCommandID)
			require.NoError(t, client.CheckPermissions(t.Context(), layout.Instance))
			parts, err := l.parts(client, layout, l.start(client, name), sqlserver.Limits{})
			require.NoError(t, err)
			require.Equal(t, [][]string{{"1", "2"}}, values(parts, mssqlcdc.FirstCaptured))
			moved, err := client.Moved(t.Context(), []sqlserver.Cursor{{Instance: layout.Instance, After: l.start(client, name)}}, parts[len(parts)-1].Window.End)
			require.NoError(t, err)
			require.True(t, moved[0].Moved)
			require.NoError(t, moved[0].Err)
		})
	}
}

// TestSimColumns is E-04, E-06 and E-14: a captured subset, a dropped column, a computed column, an alias type, types that
// cannot be read.
func TestSimColumns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.six (id int NOT NULL PRIMARY KEY, a int, b int, c int, d int, e int)",
		"CREATE TABLE dbo.computed (id int NOT NULL PRIMARY KEY, a int, twice AS (a * 2), stored AS (a * 3) PERSISTED)",
		"CREATE TABLE dbo.variant (id int NOT NULL PRIMARY KEY, v sql_variant)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "six"}, "@captured_column_list = N'[id], [a], [c], [e]'")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "computed"})
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "variant"})
	l.exec("INSERT dbo.six VALUES (1, 2, 3, 4, 5, 6)", "INSERT dbo.computed (id, a) VALUES (1, 2)", "INSERT dbo.variant VALUES (1, N'text')")
	l.capture()
	client := l.client()

	layout := l.layout(client, "dbo_six")
	parts, err := l.parts(client, layout, l.start(client, "dbo_six"), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"1", "2", "4", "6"}}, values(parts, mssqlcdc.FirstCaptured))
	layout = l.layout(client, "dbo_six", sqlserver.ColumnOptions{Exclude: []string{"a"}, Types: map[string]string{"e": "string"}})
	parts, err = l.parts(client, layout, l.start(client, "dbo_six"), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"1", "4", "6"}}, values(parts, mssqlcdc.FirstCaptured))

	layout = l.layout(client, "dbo_computed")
	require.Equal(t, []sqlserver.LeftOut{{Name: "twice", Reason: "computed"}, {Name: "stored", Reason: "computed"}}, layout.LeftOut)

	_, err = client.Columns(t.Context(), l.instance(client, "dbo_variant"), sqlserver.ColumnOptions{})
	require.ErrorContains(t, err, "values of type sql_variant cannot be read")
	layout = l.layout(client, "dbo_variant", sqlserver.ColumnOptions{Types: map[string]string{"v": "string"}})
	parts, err = l.parts(client, layout, l.start(client, "dbo_variant"), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"1", "text"}}, values(parts, mssqlcdc.FirstCaptured))

	// A dropped column stays listed and reads as NULL.
	l.exec("ALTER TABLE dbo.six DROP COLUMN c", "INSERT dbo.six (id, a, b, d, e) VALUES (2, 2, 3, 5, 6)")
	l.capture()
	layout = l.layout(client, "dbo_six")
	parts, err = l.parts(client, layout, l.start(client, "dbo_six"), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"2", "2", "NULL", "6"}, values(parts, mssqlcdc.FirstCaptured)[1])
}

// TestSimDDL reads the history of schema changes (E-18).
func TestSimDDL(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, a int)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	l.exec("INSERT dbo.t VALUES (1, 1)")
	l.capture()
	client := l.client()
	before, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	l.exec("ALTER TABLE dbo.t ADD b int NULL", "INSERT dbo.t (id, a) VALUES (2, 1)", "ALTER TABLE dbo.t ALTER COLUMN a bigint", "INSERT dbo.t (id, a) VALUES (3, 1)")
	l.capture()
	after, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	instance := l.instance(client, "dbo_t")
	ddl, err := client.DDL(t.Context(), instance, before.LSN, after.LSN)
	require.NoError(t, err)
	require.Len(t, ddl, 2)
	require.Contains(t, ddl[0].Command, "ADD b int")
	require.False(t, ddl[0].TypeChanged)
	require.Contains(t, ddl[1].Command, "ALTER COLUMN a bigint")
	require.True(t, ddl[1].TypeChanged)
	require.True(t, ddl[0].LSN.Less(ddl[1].LSN))
	require.False(t, ddl[0].CommitTime.IsZero())
	none, err := client.DDL(t.Context(), instance, after.LSN, after.LSN)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Equal(t, "bigint", l.layout(client, "dbo_t").Columns[1].SourceType)
}

// TestSimTwoInstances is R-11 and E-16 as far as this package goes: each instance has its own low watermark and its own
// changes, and the newer one is told by its date.
func TestSimTwoInstances(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)", "CREATE TABLE dbo.u (id int NOT NULL PRIMARY KEY)")
	table := mssqlcdc.TableID{Schema: "dbo", Name: "t"}
	l.track(table, "@capture_instance = N'z_old'")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "u"})
	l.exec("INSERT dbo.t VALUES (1)", "INSERT dbo.u VALUES (1)")
	l.capture()
	l.track(table, "@capture_instance = N'a_new'")
	l.exec("INSERT dbo.t VALUES (2)")
	l.capture()
	client := l.client()
	all, err := client.Instances(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, "z_old", all[0].Name)
	require.Equal(t, "a_new", all[1].Name)
	require.True(t, all[0].StartLSN.Less(all[1].StartLSN))

	older, newer := l.layout(client, "z_old"), l.layout(client, "a_new")
	parts, err := l.parts(client, older, l.start(client, "z_old"), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"1"}, {"2"}}, values(parts, mssqlcdc.FirstCaptured))
	fresh, err := l.parts(client, newer, l.start(client, "a_new"), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"2"}}, values(fresh, mssqlcdc.FirstCaptured))
	require.Equal(t, lines(parts)[1][:3], lines(fresh)[0][:3], "the same change has the same position in both, but for the command id")

	// Clean-up of one table does not concern the other.
	start := l.start(client, "z_old")
	require.NoError(t, l.sim.CleanupBelow(t.Context(), "z_old", mssqlcdcLSN(fresh[0].Window.End)))
	_, err = l.parts(client, older, start, sqlserver.Limits{})
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(err), "%v", err)
	_, err = l.parts(client, l.layout(client, "dbo_u"), l.start(client, "dbo_u"), sqlserver.Limits{})
	require.NoError(t, err)
}

// TestSimPermissions is A-01 and seed's table of grants: what is missing is named with its GRANT.
func TestSimPermissions(t *testing.T) {
	t.Parallel()
	l := newLab(t, sqlserversim.WithLogin("reader", "", false))
	l.exec("CREATE USER reader FOR LOGIN reader", "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, a int)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	l.exec("INSERT dbo.t VALUES (1, 1)")
	l.capture()
	client := l.client("reader")
	_, err := client.Instances(t.Context())
	require.ErrorIs(t, err, sqlserver.ErrNoInstances)
	require.Equal(t, sqlserver.Permission, sqlserver.Classify(err))
	require.ErrorContains(t, err, "GRANT SELECT ON <schema>.<table> TO [reader]")
	_, err = client.MaxLSN(t.Context())
	require.NoError(t, err, "max_lsn needs no grant")

	denied := func(err error, grant string) {
		t.Helper()
		var permission *sqlserver.PermissionError
		require.ErrorAs(t, err, &permission)
		require.Equal(t, grant, permission.Grant)
	}
	// Only the source table: everything plans, the change table is denied.
	l.exec("GRANT SELECT ON dbo.t TO reader")
	instance := l.instance(client, "dbo_t")
	denied(client.CheckPermissions(t.Context(), instance), "GRANT SELECT ON cdc.[dbo_t_CT] TO [reader]")
	_, err = client.Columns(t.Context(), instance, sqlserver.ColumnOptions{})
	denied(err, "GRANT SELECT ON cdc.[dbo_t_CT] TO [reader]")
	moved, err := client.Moved(t.Context(), []sqlserver.Cursor{{Instance: instance, After: instance.StartLSN}}, instance.StartLSN.Next())
	require.NoError(t, err)
	denied(moved[0].Err, "GRANT SELECT ON cdc.[dbo_t_CT] TO [reader]")

	l.exec("GRANT SELECT ON cdc.dbo_t_CT TO reader")
	require.NoError(t, client.CheckPermissions(t.Context(), instance))
	layout, err := client.Columns(t.Context(), instance, sqlserver.ColumnOptions{})
	require.NoError(t, err)
	parts, err := l.parts(client, layout, instance.StartLSN.Prev(), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"1", "1"}}, values(parts, mssqlcdc.FirstCaptured))

	// Only the change table: nothing is listed.
	l.exec("REVOKE SELECT ON dbo.t FROM reader")
	denied(client.CheckPermissions(t.Context(), instance), "GRANT SELECT ON [dbo].[t] TO [reader]")
	_, err = l.parts(client, layout, instance.StartLSN.Prev(), sqlserver.Limits{})
	denied(err, "GRANT SELECT ON [dbo].[t] TO [reader]")

	// The grant is lost while the stream runs.
	l.exec("GRANT SELECT ON dbo.t TO reader", "REVOKE SELECT ON cdc.dbo_t_CT FROM reader")
	_, err = l.parts(client, layout, instance.StartLSN.Prev(), sqlserver.Limits{})
	denied(err, "GRANT SELECT ON cdc.[dbo_t_CT] TO [reader]")
}

// TestSimGone is E-12 and R-14: an instance, or CDC as a whole, disappears.
func TestSimGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)", "CREATE TABLE dbo.u (id int NOT NULL PRIMARY KEY)")
	table := mssqlcdc.TableID{Schema: "dbo", Name: "t"}
	l.track(table)
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "u"})
	l.exec("INSERT dbo.t VALUES (1)", "INSERT dbo.u VALUES (1)")
	l.capture()
	client := l.client()
	layout, start := l.layout(client, "dbo_t"), l.start(client, "dbo_t")
	l.exec("EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'dbo_t'")
	_, err := l.parts(client, layout, start, sqlserver.Limits{})
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(err), "%v", err)
	moved, err := client.Moved(t.Context(), []sqlserver.Cursor{{Instance: layout.Instance, After: start}, {Instance: l.instance(client, "dbo_u"), After: l.start(client, "dbo_u")}}, start.Next())
	require.NoError(t, err)
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(moved[0].Err), "%v", moved[0].Err)
	require.NoError(t, moved[1].Err)

	// Enabled again under the same name, its history is gone and its low watermark says so.
	l.track(table)
	l.exec("INSERT dbo.t VALUES (2)")
	l.capture()
	_, err = l.parts(client, layout, start, sqlserver.Limits{})
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(err), "%v", err)

	l.exec("EXEC sys.sp_cdc_disable_db")
	_, err = client.MaxLSN(t.Context())
	require.ErrorIs(t, err, sqlserver.ErrCDCDisabled)
	_, err = client.Instances(t.Context())
	require.ErrorIs(t, err, sqlserver.ErrCDCDisabled)
}

// TestSimFresh is what a new database looks like: nothing captured, then an instance that capture has not reached.
func TestSimFresh(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	client := l.client()
	_, err := client.Instances(t.Context())
	require.ErrorIs(t, err, sqlserver.ErrNoInstances)
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	require.True(t, head.LSN.IsZero())

	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	instance := l.instance(client, "dbo_t")
	require.False(t, instance.StartLSN.IsZero())
	require.ErrorIs(t, client.Diagnose(t.Context(), instance), sqlserver.ErrNotYetCaptured)
	require.NoError(t, client.CheckPermissions(t.Context(), instance))
	require.ErrorIs(t, client.Diagnose(t.Context(), mssqlcdc.CaptureInstance{Name: "dbo_x", Table: instance.Table}), sqlserver.ErrUnknownInstance)
	l.exec("INSERT dbo.t VALUES (1)")
	l.capture()
	require.NoError(t, client.Diagnose(t.Context(), instance))
	require.NoError(t, client.CheckRetention(t.Context(), sqlserver.Cursor{Instance: instance, After: instance.StartLSN.Prev()}))
}

// TestSimVersions opens and reads each version of the server.
func TestSimVersions(t *testing.T) {
	t.Parallel()
	for _, year := range []int{2016, 2017, 2019, 2022, 2025} {
		t.Run(fmt.Sprint(year), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, sqlserversim.WithVersion(year))
			l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
			l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
			l.exec("INSERT dbo.t VALUES (1)")
			l.capture()
			client := l.client()
			require.Equal(t, map[int]int{2016: 13, 2017: 14, 2019: 15, 2022: 16, 2025: 17}[year], client.Server().Major)
			require.Equal(t, year < 2022, client.Server().FixedOffset)
			parts, err := l.parts(client, l.layout(client, "dbo_t"), l.start(client, "dbo_t"), sqlserver.Limits{})
			require.NoError(t, err)
			require.Len(t, values(parts, 0), 1)
			require.Empty(t, l.sim.Refused())
		})
	}
}

func TestSimUnknownDatabase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := sqlserver.Open(t.Context(), sqlserver.Config{ConnectionString: l.sim.DSNFor("sa", "nowhere")})
	require.ErrorIs(t, err, sqlserver.ErrUnknownDatabase)
	require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err))
	require.NotContains(t, err.Error(), sqlserversim.DefaultPassword)
}
