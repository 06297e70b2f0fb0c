package peers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// events are the details of one kind of event in the facts table.
func (p *pipeline) events(t testing.TB, kind mssqlcdc.Event) []map[string]any {
	t.Helper()
	table := p.open(t, "facts")
	require.NotNil(t, table)
	var found []map[string]any
	for record, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		for row := range mssqlcdc.Rows(record, 0) {
			if row["event"] != string(kind) {
				continue
			}
			fact := map[string]any{}
			for name, value := range row {
				fact[name] = value
			}
			found = append(found, fact)
		}
	}
	return found
}

func id(name string) mssqlcdc.TableID { return mssqlcdc.TableID{Schema: "dbo", Name: name} }

// E-02, E-16, E-18: a column is added, rows are written before and after the second
// instance. What came in between has NULL, and the facts say from where to where: the
// statement with its LSN, and the switch. No row is lost or doubled at the switch, which
// lies inside one run.
func TestColumnAddedBeforeItsInstance(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.insert(t, "t", 0, 3)
	p := l.pipeline(t, "dbo.t").facts()
	p.run(t)
	l.exec(t, "ALTER TABLE dbo.t ADD v int NULL")
	l.exec(t, "INSERT dbo.t VALUES (10, 10), (11, 11)")
	l.capture(t)
	l.track(t, id("t"), "@capture_instance = N'dbo_t_v2'")
	l.exec(t, "INSERT dbo.t VALUES (20, 20), (21, 21)", "UPDATE dbo.t SET v = 99 WHERE id = 10")
	l.capture(t)
	p.run(t)
	require.Equal(t, []string{"0", "1", "2", "10", "11", "20", "21", "10", "10"}, p.column(t, "t", "id"))
	require.Equal(t, []string{"NULL", "NULL", "NULL", "NULL", "NULL", "20", "21", "10", "99"}, p.column(t, "t", "v"))

	ddl := p.events(t, mssqlcdc.EventSchemaChange)
	require.Len(t, ddl, 1)
	require.Contains(t, ddl[0]["detail"], "ADD v int")
	switches := p.events(t, mssqlcdc.EventSwitched)
	require.Len(t, switches, 1)
	var detail map[string]any
	require.NoError(t, json.Unmarshal([]byte(switches[0]["detail"].(string)), &detail))
	require.Equal(t, "dbo_t", detail["old"])
	require.Equal(t, "dbo_t_v2", detail["new"])
	require.Less(t, ddl[0]["end_lsn"], detail["start_lsn"], "the statement is where NULL begins, the switch where it ends")
}

// E-03, A-06: somebody makes a second instance of a table that the login may not read. The
// run says what to grant before it reads past that instance's start, or reads the one that
// it is told to and leaves the other one alone. Granted, it goes on without a loss.
func TestAnInstanceThatTheLoginMayNotRead(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named %v", named), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, sqlserversim.WithLogin("reader", "", false))
			l.table(t, "t", "id int NOT NULL PRIMARY KEY")
			l.exec(t, "CREATE USER reader FOR LOGIN reader", "GRANT SELECT ON dbo.t TO reader", "GRANT SELECT ON cdc.dbo_t_CT TO reader", "INSERT dbo.t VALUES (1)")
			l.capture(t)
			p := l.pipeline(t, "dbo.t")
			p.dsn = l.sim.DSN("reader")
			if named {
				p.with("table_overrides: [ { table: dbo.t, capture_instance: dbo_t } ]")
			}
			p.run(t)
			l.track(t, id("t"), "@capture_instance = N'theirs'")
			l.exec(t, "INSERT dbo.t VALUES (2), (3)")
			l.capture(t)
			if !named {
				err := p.fail(t)
				require.ErrorContains(t, err, "GRANT SELECT ON cdc.[theirs_CT] TO [reader]")
				l.exec(t, "GRANT SELECT ON cdc.theirs_CT TO reader")
			}
			p.run(t)
			require.Equal(t, []string{"1", "2", "3"}, p.column(t, "t", "id"))
		})
	}
}

// E-04: an instance that captures some columns, others left out by configuration: values
// stay with their names.
func TestColumnsAreMappedByName(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "a int NOT NULL PRIMARY KEY, b int NULL, c int NULL, d int NULL, e int NULL, f int NULL", "@captured_column_list = N'a, c, e, f'")
	l.exec(t, "INSERT dbo.t VALUES (1, 2, 3, 4, 5, 6)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t").snapshot().with("table_overrides: [ { table: dbo.t, exclude_columns: [ e ] } ]")
	p.run(t)
	l.exec(t, "INSERT dbo.t VALUES (10, 20, 30, 40, 50, 60)")
	l.capture(t)
	p.run(t)
	l.requireCurrent(t, p, "t", "a", "c", "f")
	for _, name := range []string{"b", "d", "e"} {
		require.Negative(t, p.open(t, "lake", "t").Snapshot().Schema().Index(name), "column %s", name)
	}
}

// E-06: a column is dropped while the old instance is read: it is NULL from then on, for
// rows of a snapshot, too.
func TestDroppedColumnIsNull(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, gone int NULL, v int NULL")
	l.exec(t, "INSERT dbo.t VALUES (1, 1, 1)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	l.exec(t, "ALTER TABLE dbo.t DROP COLUMN gone", "INSERT dbo.t VALUES (2, 2)")
	l.capture(t)
	p.run(t)
	require.Equal(t, []string{"1", "NULL"}, p.column(t, "t", "gone"))
	require.Equal(t, []string{"1", "2"}, p.column(t, "t", "v"))
	late := l.pipeline(t, "dbo.t").snapshot()
	late.run(t)
	require.Equal(t, []string{"NULL", "NULL"}, late.column(t, "t", "gone"))
	require.ElementsMatch(t, []string{"1", "2"}, late.column(t, "t", "v"))
}

// E-07: a type that grows in the source. Where Delta has one type for both the value comes
// whole; where not, the run stops with the column's name, and nothing of its window is in
// the table.
func TestTypesThatGrow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, small, large, refused string }{
		"longer text":     {"varchar(5) NULL", "varchar(50) NULL", "'abc'", "'abcdefghij'", ""},
		"wider character": {"varchar(5) NULL", "nvarchar(50) NULL", "'abc'", "N'αβγ'", ""},
		"int to bigint":   {"int NULL", "bigint NULL", "1", "9223372036854775807", "long"},
		"more digits":     {"decimal(5,2) NULL", "decimal(20,2) NULL", "1.25", "123456789012.50", "decimal(20,2)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.table(t, "t", "id int NOT NULL PRIMARY KEY, v "+c.from)
			l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (1, %s)", c.small))
			l.capture(t)
			p := l.pipeline(t, "dbo.t")
			p.run(t)
			before := p.bronze(t, "t", "id", "v")
			l.exec(t, "ALTER TABLE dbo.t ALTER COLUMN v "+c.to, fmt.Sprintf("INSERT dbo.t VALUES (2, %s)", c.large))
			l.capture(t)
			l.capture(t)
			if c.refused == "" {
				p.run(t)
				l.requireSame(t, p, "t", "id", "v")
				return
			}
			for range 2 {
				err := p.fail(t)
				require.ErrorContains(t, err, "column v")
				require.ErrorContains(t, err, c.refused)
				require.Equal(t, before, p.bronze(t, "t", "id", "v"))
			}
		})
	}
}

// E-08: a column that allowed no NULL allows it now, and the other way round: Delta allows
// it from the start, as change rows may lack any value.
func TestNullability(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"NULL", "NOT NULL"}, {"NOT NULL", "NULL"}} {
		l := newLab(t)
		l.table(t, "t", "id int NOT NULL PRIMARY KEY, v int "+order[0])
		l.exec(t, "INSERT dbo.t VALUES (1, 1)")
		l.capture(t)
		p := l.pipeline(t, "dbo.t").snapshot()
		p.run(t)
		l.exec(t, "ALTER TABLE dbo.t ALTER COLUMN v int "+order[1], "INSERT dbo.t VALUES (2, 2)")
		if order[1] == "NULL" {
			l.exec(t, "INSERT dbo.t VALUES (3, NULL)")
		}
		l.capture(t)
		p.run(t)
		l.requireCurrent(t, p, "t", "id", "v")
		for _, f := range p.open(t, "lake", "t").Snapshot().Schema().Fields {
			require.True(t, f.Nullable || strings.HasPrefix(f.Name, "_"), "column %s", f.Name)
		}
	}
}

// E-09: a table that comes under the pattern of a running input later, and one that the
// configuration names later, are read from their beginning, whole where snapshots are on.
func TestTablesThatComeLater(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.twenty(t)
	p := l.pipeline(t, "dbo.t").snapshot()
	p.run(t)
	l.table(t, "later", "id int NOT NULL PRIMARY KEY, v int NULL")
	l.exec(t, "INSERT dbo.later VALUES (1, 1), (2, 2)")
	l.capture(t)
	p.tables = []string{"dbo.t", "dbo.later"}
	p.run(t)
	l.requireCurrent(t, p, "later", "id", "v")

	p.tables = []string{"dbo.*"}
	p.with("tables_refresh_interval: 50ms")
	r := p.begin(t, "continuous")
	l.table(t, "latest", "id int NOT NULL PRIMARY KEY, v int NULL")
	l.exec(t, "INSERT dbo.latest VALUES (3, 3), (4, 4)", "INSERT dbo.t VALUES (50, N'x')")
	l.capture(t)
	r.eventually(t, "the table made while it runs", func() bool { return p.open(t, "lake", "latest") != nil && len(p.bronze(t, "latest")) >= 2 })
	require.NoError(t, r.stop(t))
	p.run(t)
	l.requireCurrent(t, p, "latest", "id", "v")
	l.requireCurrent(t, p, "t", "id", "v")
}

// E-11: the instance is made again under another name with the same columns, the two
// overlap, and the old one is dropped: the old one is read to the end and nothing again.
func TestInstanceMadeAgainWithTheSameColumns(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.insert(t, "t", 0, 3)
	p := l.pipeline(t, "dbo.t")
	p.run(t)
	l.insert(t, "t", 3, 5)
	l.track(t, id("t"), "@capture_instance = N'dbo_t_2'")
	l.insert(t, "t", 5, 8)
	p.run(t)
	l.exec(t, "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
	l.insert(t, "t", 8, 9)
	p.run(t)
	require.Equal(t, strings.Fields("0 1 2 3 4 5 6 7 8"), p.column(t, "t", "id"))
}

// E-12: a tool drops the instance and makes it again with changes unread between. That is
// a loss, and never goes on as if nothing were.
func TestDisabledAndEnabledWithChangesBetween(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"fail", "resnapshot"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, march())
			l.table(t, "t", "id int NOT NULL PRIMARY KEY")
			l.insert(t, "t", 0, 3)
			p := l.pipeline(t, "dbo.t").with("on_data_loss: " + policy)
			p.run(t)
			before := p.bronze(t, "t", "id")
			l.insert(t, "t", 3, 5)
			l.exec(t, "DELETE dbo.t WHERE id = 0")
			l.capture(t)
			l.exec(t, "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
			l.track(t, id("t"))
			l.insert(t, "t", 5, 7)
			if policy == "fail" {
				require.ErrorContains(t, p.fail(t), "created again")
				require.Equal(t, before, p.bronze(t, "t", "id"))
				return
			}
			p.run(t)
			l.requireCurrent(t, p, "t", "id")
		})
	}
}

// E-14: computed columns, persisted or not, are in neither the changes nor the snapshot,
// and where one is part of the key the table is read all the same.
func TestComputedColumnsAreLeftOut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, a int NOT NULL, twice AS (a * 2), thrice AS (a * 3) PERSISTED")
	l.exec(t, "INSERT dbo.t (id, a) VALUES (1, 10), (2, 20)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t").snapshot()
	p.run(t)
	l.exec(t, "UPDATE dbo.t SET a = 30 WHERE id = 2")
	l.capture(t)
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "a")
	for _, name := range []string{"twice", "thrice"} {
		require.Negative(t, p.open(t, "lake", "t").Snapshot().Schema().Index(name), "column %s", name)
	}
}

// E-15: the answers about one table come from before and after a change of it.
func TestAnswersThatDisagree(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, v int NULL")
	l.exec(t, "INSERT dbo.t VALUES (1, 1)")
	l.capture(t)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			for _, batch := range []string{fmt.Sprintf("ALTER TABLE dbo.t ADD c%d int NULL", i), fmt.Sprintf("EXEC sys.sp_cdc_enable_table N'dbo', N't', N'i%d', @role_name = NULL", i),
				fmt.Sprintf("EXEC sys.sp_cdc_disable_table N'dbo', N't', N'i%d'", i), fmt.Sprintf("ALTER TABLE dbo.t DROP COLUMN c%d", i)} {
				if err := l.sim.Exec(t.Context(), batch); err != nil {
					done <- fmt.Errorf("%s: %w", batch, err)
					return
				}
			}
		}
	}()
	c := l.client(t)
	for range 40 {
		all, err := c.Instances(t.Context())
		require.NoError(t, err)
		for _, instance := range all {
			layout, err := c.Columns(t.Context(), instance, sqlserver.ColumnOptions{})
			if err != nil {
				require.ErrorContains(t, err, instance.Name)
				continue
			}
			require.Equal(t, "id", layout.Columns[0].Name)
		}
	}
	close(stop)
	require.NoError(t, <-done)
}
