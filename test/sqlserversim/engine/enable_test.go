package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestEnableTableRules_D(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name   string
		number int32
		args   []any
		spec   engine.EnableTableSpec
	}{
		{"no schema", engine.ErrParameterEmpty, []any{"@source_schema"}, engine.EnableTableSpec{Table: "orders"}},
		{"no table", engine.ErrParameterEmpty, []any{"@source_name"}, engine.EnableTableSpec{Schema: "dbo"}},
		{"cdc schema", engine.ErrCDCSchemaTable, nil, engine.EnableTableSpec{Schema: "CDC", Table: "x"}},
		{"missing table", engine.ErrSourceMissing, []any{"dbo", "nope"}, engine.EnableTableSpec{Schema: "dbo", Table: "nope"}},
		{"name too long", engine.ErrInstanceTooLong, []any{strings.Repeat("x", 101)},
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", CaptureInstance: strings.Repeat("x", 101)}},
		{"name taken, in other case", engine.ErrInstanceTaken, []any{"DBO_TAKEN"},
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", CaptureInstance: "DBO_TAKEN"}},
		{"third instance", engine.ErrTwoInstances, []any{"dbo", "taken"},
			engine.EnableTableSpec{Schema: "dbo", Table: "taken", CaptureInstance: "third"}},
		{"unknown index", engine.ErrIndexUnknown, []any{"IX_no", "dbo", "orders"},
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", Index: "IX_no"}},
		{"index not unique", engine.ErrIndexNotUnique, []any{"IX_note", "dbo", "orders"},
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", Index: "IX_note"}},
		{"index over nullable columns", engine.ErrIndexNullable, []any{"UX_qty", "dbo", "orders"},
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", Index: "UX_qty"}},
		{"net changes without a key", engine.ErrNetChangesNoKey, nil,
			engine.EnableTableSpec{Schema: "dbo", Table: "heap", NetChanges: &yes}},
		{"unknown captured column", engine.ErrCapturedList, []any{"dbo", "orders"},
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", Columns: []string{"id", "nope"}}},
		{"reserved column", engine.ErrReservedColumn, []any{"dbo.reserved"}, engine.EnableTableSpec{Schema: "dbo", Table: "reserved"}},
		{"key not captured", engine.ErrKeyNotCaptured, nil,
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", Columns: []string{"note"}}},
		{"key not captured, no net changes", 0, nil,
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", Columns: []string{"note"}, NetChanges: &no}},
		{"100 characters", 0, nil,
			engine.EnableTableSpec{Schema: "dbo", Table: "orders", CaptureInstance: strings.Repeat("ü", 100)}},
		{"reserved column left out", 0, nil,
			engine.EnableTableSpec{Schema: "dbo", Table: "reserved", Columns: []string{"id"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			require.NoError(t, l.db.EnableCDC())
			spec := ordersSpec("orders")
			spec.Indexes = append(spec.Indexes, engine.IndexSpec{Name: "IX_note", Columns: []string{"note"}},
				engine.IndexSpec{Name: "UX_qty", Columns: []string{"qty"}, Unique: true})
			l.create(spec)
			l.create(ordersSpec("taken"))
			l.create(engine.TableSpec{Schema: "dbo", Name: "heap", Columns: []engine.ColumnSpec{{Name: "a", Type: intType}}})
			l.create(engine.TableSpec{Schema: "dbo", Name: "reserved", Columns: []engine.ColumnSpec{
				{Name: "id", Type: intType}, {Name: "__$seqval", Type: intType}}})
			l.enable("taken")
			l.enable("taken", as("taken2"))
			_, err := l.db.EnableTable(t.Context(), c.spec)
			if c.number == 0 {
				require.NoError(t, err)
				return
			}
			require.Equal(t, &engine.Error{Number: c.number, Args: c.args}, err)
		})
	}
}

func TestEnableAndDisableDatabase_D(t *testing.T) {
	l := newLab(t)
	l.create(ordersSpec("orders"))
	_, err := l.db.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
	requireNumber(t, engine.ErrNotEnabled, err)
	_, err = l.db.Scan(l.ctx(), engine.ScanLimits{})
	requireNumber(t, engine.ErrNotEnabled, err)
	requireNumber(t, engine.ErrNotEnabled, l.db.DisableCDC())
	require.NoError(t, l.db.EnableCDC())
	requireNumber(t, engine.ErrAlreadyEnabled, l.db.EnableCDC())
	_, ok := l.db.Schema("cdc")
	require.True(t, ok)
	l.enable("orders")
	l.scan()
	require.NoError(t, l.db.DisableCDC())
	view := l.db.CDC()
	require.False(t, view.Enabled())
	require.Empty(t, view.Instances())
	require.Zero(t, view.Mapping().Len())
	_, ok = l.db.Schema("cdc")
	require.False(t, ok)
	_, err = l.db.CreateSchema("cdc")
	require.NoError(t, err)
	requireNumber(t, engine.ErrCDCSchemaExists, l.db.EnableCDC())
}

func TestInstanceMetadata_D(t *testing.T) {
	l, orders := captured(t)
	i, ok := l.db.CDC().Instance("dbo_orders")
	require.True(t, ok)
	require.Equal(t, orders.Def().ObjectID, i.SourceObjectID)
	require.NotEqual(t, i.ObjectID, i.SourceObjectID)
	require.Equal(t, "PK_orders", i.IndexName)
	require.True(t, i.SupportsNetChanges, "1 when a key exists [D]")
	require.True(t, i.PartitionSwitch)
	require.Equal(t, labStart, i.CreateDate)
	for n, c := range i.Columns {
		require.Equal(t, i.ObjectID, c.ObjectID, "captured_columns.object_id is the change table's")
		require.EqualValues(t, n+1, c.Ordinal)
		require.Equal(t, orders.Def().Columns[n].ID, c.ColumnID)
	}
	require.Equal(t, []engine.IndexColumn{{ObjectID: i.ObjectID, Name: "id", Ordinal: 1, ColumnID: 1}}, i.IndexColumns)
	no := false
	j := l.enable("orders", as("b"), func(s *engine.EnableTableSpec) { s.NetChanges = &no; s.Role = "reader" })
	require.Equal(t, "PK_orders", j.IndexName, "the key is reported without net changes too [container sample]")
	require.Equal(t, "reader", j.RoleName)
	require.Len(t, l.db.CDC().InstancesOf(orders.Def().ObjectID), 2)
	require.Zero(t, (i.ObjectID-orders.Def().ObjectID)%16_000_057, "object ids step as on a server [M25 samples]")
}

func TestSwitchOfInstancesReadsEveryCommitOnce_M22(t *testing.T) {
	l, orders := captured(t)
	begunBefore := l.db.Begin(engine.TxOptions{})
	for i := range 20 {
		l.insert(orders, row(i, "old", 1))
	}
	second := l.enable("orders", as("new"))
	s := second.StartLSN
	for i := range 20 {
		l.insert(orders, row(100+i, "both", 1))
	}
	require.NoError(t, insert(l.ctx(), begunBefore, orders, row(500, "begun before, written after", 1)))
	_, err := begunBefore.Commit()
	require.NoError(t, err)
	l.scan()
	old, fresh := l.changes("dbo_orders"), l.changes("new")
	require.Len(t, old, 41)
	require.Len(t, fresh, 21)
	for _, c := range old[:20] {
		require.True(t, c.start.Less(s))
	}
	for i, c := range old[20:] {
		require.True(t, s.Less(c.start))
		require.Equal(t, c.start, fresh[i].start)
		require.Equal(t, c.seq, fresh[i].seq)
	}
}

func TestEnableWaitsForOpenWriters_M22(t *testing.T) {
	l, orders := captured(t)
	writer := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), writer, orders, row(1, "a", 1)))
	done := make(chan *engine.Instance, 1)
	go func() {
		res, err := l.db.EnableTable(l.ctx(), engine.EnableTableSpec{Schema: "dbo", Table: "orders", CaptureInstance: "new"})
		if err != nil {
			close(done)
			return
		}
		done <- res.Instance
	}()
	require.Never(t, func() bool { return len(done) > 0 }, 20*time.Millisecond, 5*time.Millisecond)
	require.Len(t, l.db.CDC().Instances(), 1)
	info, err := writer.Commit()
	require.NoError(t, err)
	i := <-done
	require.NotNil(t, i)
	require.True(t, info.LSN.Less(i.StartLSN))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Empty(t, l.changes("new"), "that commit lands only in the old instance")
}

func TestDisableTableTakesEffectAtOnce_M22(t *testing.T) {
	l, orders := captured(t)
	l.enable("orders", as("second"))
	l.insert(orders, row(1, "a", 1))
	l.do(func(tx *engine.Tx) error {
		return tx.AddColumn(l.ctx(), orders, engine.ColumnSpec{Name: "more", Type: intType, Nullable: true}, "ALTER TABLE …")
	})
	l.scan()
	require.Len(t, l.db.CDC().DDLHistory(), 2)
	requireNumber(t, engine.ErrSourceMissing, l.db.DisableTable(l.ctx(), "dbo", "nope", "second"))
	requireNumber(t, engine.ErrInstanceNotEnabled, l.db.DisableTable(l.ctx(), "dbo", "orders", "nope"))
	old := l.db.CDC()
	require.NoError(t, l.db.DisableTable(l.ctx(), "dbo", "orders", "SECOND"))
	_, known, _ := l.db.CDC().MinLSN("second")
	require.False(t, known)
	require.Len(t, l.db.CDC().DDLHistory(), 1, "its DDL history goes with it")
	i, _ := old.Instance("second")
	require.Len(t, readAll(old, i), 1, "whoever reads keeps what he has")
	require.Equal(t, 1, l.db.CDC().Mapping().Len())
	require.NoError(t, l.db.DisableTable(l.ctx(), "dbo", "orders", "all"))
	require.Zero(t, l.db.CDC().Mapping().Len(), "the last one empties the mapping (message 22909)")
	l.insert(orders, row(2, "a", 1, nil))
	require.Zero(t, l.db.Backlog())
}

func TestDropTableRemovesItsInstances_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, tx.DropTable(l.ctx(), orders))
	require.Empty(t, tx.CDC().Instances())
	require.Len(t, l.db.CDC().Instances(), 1, "for all others they are there until the commit")
	tx.Rollback()
	require.Len(t, l.db.CDC().Instances(), 1, "a rollback brings them back")
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
	l.do(func(tx *engine.Tx) error { return tx.DropTable(l.ctx(), orders) })
	require.Empty(t, l.db.CDC().Instances())
	requireNumber(t, engine.ErrSourceMissing, l.db.DisableTable(l.ctx(), "dbo", "orders", "dbo_orders"))
	_, found := l.db.Table("dbo", "orders")
	require.False(t, found)
	l.scan()
}

func TestDisabledInstanceGetsNothingOfTheLog_D(t *testing.T) {
	l, orders := captured(t)
	l.enable("orders", as("second"))
	l.insert(orders, row(1, "a", 1))
	l.db.SetHooks(engine.Hooks{ScanPrepared: func(int) { require.NoError(t, l.db.DisableTable(l.ctx(), "dbo", "orders", "second")) }})
	l.scan()
	l.db.SetHooks(engine.Hooks{})
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Len(t, l.db.CDC().Instances(), 1)
	i := l.enable("orders", as("second"))
	l.scan()
	require.Zero(t, i.Rows(), "nothing from before its own enable")
}

func TestTableWithoutKeyIsCaptured_D(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	heap := l.create(engine.TableSpec{Schema: "dbo", Name: "heap", Columns: []engine.ColumnSpec{
		{Name: "a", Type: intType, Nullable: true}, {Name: "b", Type: sqltype.VarCharType(10), Nullable: true}}})
	i := l.enable("heap")
	require.Empty(t, i.IndexName)
	require.Empty(t, i.IndexColumns)
	require.False(t, i.SupportsNetChanges)
	l.insert(heap, row(1, "x"), row(1, "x"))
	l.update(heap, set(0, everything, to(2)))
	l.scan()
	require.Equal(t, []string{"2 1|x", "2 1|x", "3 1|x", "4 2|x", "3 1|x", "4 2|x"}, brief(l.changes("dbo_heap")))
}
