package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// A table gets a column and a second capture instance while the pipeline is killed again
// and again: rows from the new instance's start on have the column, each row is there
// once, and the old instance can go.
func TestSwitchOfCaptureInstance(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.exec(t, "CREATE TABLE dbo.goods (id int NOT NULL PRIMARY KEY, name varchar(20) NOT NULL)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @supports_net_changes = 0")
	id := 0
	insert := func(rows int, columns, values string) {
		for range rows {
			id++
			l.clock.Advance(25 * time.Second)
			l.exec(t, fmt.Sprintf("INSERT dbo.goods (id, name%s) VALUES (%d, 'n%d'%s)", columns, id, id, values))
		}
		require.NoError(t, l.sim.Capture(t.Context()))
	}
	yaml := with(t, crashYAML, "dbo.orders, dbo.order_lines", "dbo.goods", "max_commits_per_window: 5", "max_commits_per_window: 3")
	config := l.config(t, yaml)
	insert(8, "", "")
	l.exec(t, "ALTER TABLE dbo.goods ADD price decimal(10,2) NULL")
	insert(3, ", price", ", 1.50") // what the old instance does not record
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @capture_instance = N'goods_v2', @supports_net_changes = 0")
	insert(8, ", price", ", 2.50")
	for runs := 0; ; runs++ {
		where, err := l.crash(t.Context(), config, fmt.Sprintf("%s=%d", killAt, 22))
		require.NoError(t, err)
		if where == "" {
			break
		}
		require.Less(t, runs, 40, "no progress")
	}
	l.exec(t, "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'goods', @capture_instance = N'dbo_goods'")
	insert(2, ", price", ", 3.50")
	l.run(t, yaml)

	got := map[int64]string{}
	for _, row := range l.rows(t, "goods") {
		_, twice := got[row["id"].(int64)]
		require.False(t, twice, "row %d", row["id"])
		got[row["id"].(int64)] = fmt.Sprint(row[mssqlcdc.ColCaptureInstance], " ", row["price"])
	}
	want := map[int64]string{}
	for n := int64(1); n <= int64(id); n++ {
		switch {
		case n <= 11:
			want[n] = "dbo_goods <nil>"
		case n <= 19:
			want[n] = "goods_v2 2.50"
		default:
			want[n] = "goods_v2 3.50"
		}
	}
	require.Equal(t, want, got)
	_, others := l.facts(t, "./lake/goods")
	events := map[mssqlcdc.Event]int{}
	for _, fact := range others {
		events[mssqlcdc.Event(fact.Event)]++
	}
	require.Equal(t, 1, events[mssqlcdc.EventSwitched], "%v", events)
	require.Equal(t, 1, events[mssqlcdc.EventSchemaChange], "%v", events)
}

// With snapshot_on_switch the values that the old instance did not record come with a
// snapshot.
func TestSnapshotOnSwitch(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(t, "CREATE TABLE dbo.goods (id int NOT NULL PRIMARY KEY, name varchar(20) NOT NULL)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @supports_net_changes = 0")
	l.exec(t, "INSERT dbo.goods VALUES (1, 'a')")
	require.NoError(t, l.sim.Capture(t.Context()))
	yaml := with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.goods", "run: available_now", "run: available_now\n    snapshot_on_switch: true")
	l.run(t, yaml)
	l.exec(t, "ALTER TABLE dbo.goods ADD price decimal(10,2) NULL")
	l.exec(t, "INSERT dbo.goods VALUES (2, 'b', 1.50)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @capture_instance = N'goods_v2', @supports_net_changes = 0")
	l.exec(t, "INSERT dbo.goods VALUES (3, 'c', 2.50)")
	require.NoError(t, l.sim.Capture(t.Context()))
	l.run(t, yaml)
	l.run(t, yaml) // and not again

	changes, snapshot := map[int64]string{}, map[int64]string{}
	for _, row := range l.rows(t, "goods") {
		into := changes
		if row[mssqlcdc.ColOperation] == int64(mssqlcdc.Read) {
			into = snapshot
		}
		_, twice := into[row["id"].(int64)]
		require.False(t, twice, "row %d", row["id"])
		into[row["id"].(int64)] = fmt.Sprint(row["price"])
	}
	require.Equal(t, map[int64]string{1: "<nil>", 2: "<nil>", 3: "2.50"}, changes)
	require.Equal(t, map[int64]string{1: "<nil>", 2: "1.50", 3: "2.50"}, snapshot)
}
