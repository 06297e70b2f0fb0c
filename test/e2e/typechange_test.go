package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// typeLab is a source with a column that changes its type, of which every value that the
// narrow type takes was written before, and some that only the wide one takes after.
type typeLab struct {
	*lab
	id   int
	want map[int64]int64
}

func newTypeLab(t *testing.T) *typeLab {
	t.Helper()
	l := &typeLab{lab: newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), want: map[int64]int64{}}
	l.exec(t, "CREATE TABLE dbo.goods (id int NOT NULL PRIMARY KEY, qty int NULL)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @supports_net_changes = 0")
	l.insert(t, 7, 2147483640)
	return l
}

func (l *typeLab) insert(t *testing.T, rows int, first int64) {
	t.Helper()
	for i := range rows {
		l.id++
		l.clock.Advance(25 * time.Second)
		l.want[int64(l.id)] = first + int64(i)
		l.exec(t, fmt.Sprintf("INSERT dbo.goods (id, qty) VALUES (%d, %d)", l.id, first+int64(i)))
	}
	require.NoError(t, l.sim.Capture(t.Context()))
}

// alter changes the type while the pipeline is away: SQL Server changes the instance that
// there is, too. Then a second instance takes over.
func (l *typeLab) alter(t *testing.T) {
	t.Helper()
	l.exec(t, "ALTER TABLE dbo.goods ALTER COLUMN qty bigint NULL")
	l.insert(t, 4, 5_000_000_000)
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @capture_instance = N'goods_v2', @supports_net_changes = 0")
	l.insert(t, 6, -5_000_000_000)
}

func (l *typeLab) yaml(t *testing.T, policy string) string {
	t.Helper()
	yaml := with(t, crashYAML, "dbo.orders, dbo.order_lines", "dbo.goods", "max_commits_per_window: 5", "max_commits_per_window: 3")
	if policy == "" {
		return yaml
	}
	return with(t, yaml, "  delta_lake:\n", "  delta_lake:\n    on_type_change: "+policy+"\n")
}

// crashes runs the pipeline, killed again and again, to its end.
func (l *typeLab) crashes(t *testing.T, yaml string) {
	t.Helper()
	config := l.config(t, yaml)
	for runs := 0; ; runs++ {
		where, err := l.crash(t.Context(), config, fmt.Sprintf("%s=%d", killAt, 19))
		require.NoError(t, err)
		if where == "" {
			return
		}
		require.Less(t, runs, 40, "no progress")
	}
}

// typeEvents are the events of changes of types in the facts.
func (l *typeLab) typeEvents(t *testing.T) []map[string]string {
	t.Helper()
	var events []map[string]string
	for _, row := range l.rows(t, "_facts") {
		detail, _ := row["detail"].(string)
		var event map[string]string
		if row["event"] == string(mssqlcdc.EventSchemaChange) && json.Unmarshal([]byte(detail), &event) == nil {
			require.Equal(t, "./lake/goods", row["target"])
			events = append(events, event)
		}
	}
	return events
}

// requireValues checks that every row is there once, with its value in one of the columns.
func (l *typeLab) requireValues(t *testing.T, columns ...string) {
	t.Helper()
	got := map[int64]int64{}
	for _, row := range l.rows(t, "goods") {
		id := row["id"].(int64)
		_, twice := got[id]
		require.False(t, twice, "row %d", id)
		for _, column := range columns {
			if v, ok := row[column].(int64); ok {
				_, two := got[id]
				require.False(t, two, "row %d has two values", id)
				got[id] = v
			}
		}
	}
	require.Equal(t, l.want, got)
}

// By default a changed type ends the run: with the column, both types and the ways out, and
// with everything before it in the table. With one of the ways out the same table goes on.
func TestATypeChangeEndsTheRun(t *testing.T) {
	t.Parallel()
	l := newTypeLab(t)
	l.run(t, l.yaml(t, ""))
	l.requireValues(t, "qty")
	l.alter(t)
	for _, yaml := range []string{l.yaml(t, ""), l.yaml(t, "fail")} {
		out := l.fail(t, yaml)
		last := lastLine(out)
		for _, part := range []string{"./lake/goods", "column qty: have long, want integer", "on_type_change", "widen", "new_column"} {
			require.Contains(t, last, part, "%s", out)
		}
	}
	require.Len(t, l.rows(t, "goods"), 7)
	require.Empty(t, l.typeEvents(t))
	l.run(t, l.yaml(t, "widen"))
	l.requireValues(t, "qty")
}

func TestATypeChangeWidensTheColumn(t *testing.T) {
	t.Parallel()
	l := newTypeLab(t)
	l.crashes(t, l.yaml(t, "widen"))
	require.NotContains(t, l.table(t, "lake", "goods").Snapshot().Protocol().ReaderFeatures, delta.FeatureTypeWidening, "only when it is needed")
	l.alter(t)
	l.crashes(t, l.yaml(t, "widen"))
	l.insert(t, 2, 9_000_000_000)
	l.run(t, l.yaml(t, "fail")) // what happened has happened
	l.requireValues(t, "qty")
	s := l.table(t, "lake", "goods").Snapshot()
	f, _ := s.Schema().Field("qty")
	changes, err := f.TypeChanges()
	require.NoError(t, err)
	require.Equal(t, []schema.TypeChange{{From: schema.Integer, To: schema.Long}}, changes)
	require.Contains(t, s.Protocol().ReaderFeatures, delta.FeatureTypeWidening)
	events := l.typeEvents(t)
	require.Len(t, events, 1, "%v", events)
	require.Equal(t, map[string]string{"column": "qty", "from": "integer", "to": "long", "text": "column qty was widened from integer to long"}, events[0])
}

func TestATypeChangeGoesOnInANewColumn(t *testing.T) {
	t.Parallel()
	l := newTypeLab(t)
	l.crashes(t, l.yaml(t, "new_column"))
	l.alter(t)
	l.crashes(t, l.yaml(t, "new_column"))
	l.insert(t, 2, 9_000_000_000)
	l.run(t, l.yaml(t, "fail")) // the table says where values go
	l.requireValues(t, "qty", "qty__long")
	for _, row := range l.rows(t, "goods") {
		require.Equal(t, row["id"].(int64) <= 7, row["qty__long"] == nil, "%v", row)
		require.Equal(t, row["id"].(int64) > 7, row["qty"] == nil, "%v", row)
	}
	require.NotContains(t, l.table(t, "lake", "goods").Snapshot().Protocol().ReaderFeatures, delta.FeatureTypeWidening)
	events := l.typeEvents(t)
	require.Len(t, events, 1, "%v", events)
	require.Equal(t, "qty__long", events[0]["new_column"])
}

// A table whose columns have names that need column mapping is made with it.
func TestOddColumnNames(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.exec(t, "CREATE TABLE dbo.goods ([item id] int NOT NULL PRIMARY KEY, [price (EUR)] decimal(10,2) NULL, [a=b;c] varchar(10) NULL)")
	l.exec(t, "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'goods', @role_name = NULL, @supports_net_changes = 0")
	l.exec(t, "INSERT dbo.goods VALUES (1, 1.50, 'x'), (2, NULL, 'y')")
	require.NoError(t, l.sim.Capture(t.Context()))
	yaml := with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.goods")
	out := l.fail(t, with(t, yaml, "  delta_lake:\n", "  delta_lake:\n    column_mapping: none\n"))
	require.Contains(t, lastLine(out), `"item id"`)
	l.run(t, with(t, yaml, "  delta_lake:\n", "  delta_lake:\n    partition_by: [ \"date(_commit_ts)\" ]\n"))
	l.exec(t, "INSERT dbo.goods VALUES (3, 3.50, NULL)")
	require.NoError(t, l.sim.Capture(t.Context()))
	l.run(t, yaml)
	require.Equal(t, schema.MapByName, l.table(t, "lake", "goods").Snapshot().Mapping())
	got := map[int64]string{}
	for _, row := range l.rows(t, "goods") {
		got[row["item id"].(int64)] = fmt.Sprint(row["price (EUR)"], " ", row["a=b;c"])
	}
	require.Equal(t, map[int64]string{1: "1.50 x", 2: "<nil> y", 3: "3.50 <nil>"}, got)
}
