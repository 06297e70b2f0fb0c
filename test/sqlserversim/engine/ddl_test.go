package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func (l *lab) addColumn(t *engine.Table, c engine.ColumnSpec) engine.LSN {
	l.t.Helper()
	return l.do(func(tx *engine.Tx) error { return tx.AddColumn(l.ctx(), t, c, "ALTER TABLE dbo.orders ADD "+c.Name) })
}

func (l *lab) alterColumn(t *engine.Table, name string, typ sqltype.Type) engine.LSN {
	l.t.Helper()
	return l.do(func(tx *engine.Tx) error {
		return tx.AlterColumn(l.ctx(), t, name, typ, true, "ALTER TABLE dbo.orders ALTER COLUMN "+name+" "+typ.String())
	})
}

func TestAddColumnIsNotCaptured_M22(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.clock.Set(labStart.Add(95 * time.Second))
	commit := l.addColumn(orders, engine.ColumnSpec{Name: "extra", Type: intType, Nullable: true})
	require.Empty(t, l.db.CDC().DDLHistory(), "the history is written by capture")
	l.update(orders, set(3, everything, to(7)))
	l.update(orders, set(2, everything, to(2)))
	l.scan()
	require.Equal(t, []string{"2 1|a|1", "3 1|a|1", "4 1|a|2"}, brief(l.changes("dbo_orders")))
	h := l.db.CDC().DDLHistory()
	require.Len(t, h, 1)
	require.False(t, h[0].RequiredColumnUpdate)
	require.Equal(t, "ALTER TABLE dbo.orders ADD extra", h[0].Command)
	require.Equal(t, labStart.Add(time.Minute), h[0].Time, "whole minutes [M22]")
	require.True(t, h[0].LSN.Less(commit))
	require.True(t, h[0].LSN.Less(l.max()))
	_, mapped := l.db.CDC().Mapping().Find(h[0].LSN)
	require.False(t, mapped, "a ddl_lsn is not in the mapping [M22]")
	_, mapped = l.db.CDC().Mapping().Find(commit)
	require.False(t, mapped)
}

func TestDDLHistoryIsNeverLaterThanMaxLSN_M22(t *testing.T) {
	l, orders := captured(t)
	var ddl []engine.LSN
	for i := range 6 {
		l.insert(orders, append(row(i, "a", 1), make(sqltype.Row, i)...))
		ddl = append(ddl, l.addColumn(orders, engine.ColumnSpec{Name: string(rune('p' + i)), Type: intType, Nullable: true}))
	}
	for l.db.Backlog() > 0 {
		_, err := l.db.Scan(l.ctx(), engine.ScanLimits{MaxTrans: 1, MaxScans: 1})
		require.NoError(t, err)
		view := l.db.CDC()
		top, _ := view.MaxLSN()
		due := 0
		for _, d := range ddl {
			if d.Less(top) {
				due++
			}
		}
		require.GreaterOrEqual(t, len(view.DDLHistory()), due)
	}
}

func TestDropColumnIsNullFromThenOn_M22(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.do(func(tx *engine.Tx) error {
		return tx.DropColumn(l.ctx(), orders, "note", "ALTER TABLE dbo.orders DROP COLUMN note")
	})
	l.update(orders, set(1, everything, to(2)))
	l.insert(orders, row(2, 5))
	l.scan()
	require.Equal(t, []string{"2 1|a|1", "3 1|NULL|1", "4 1|NULL|2", "2 2|NULL|5"}, brief(l.changes("dbo_orders")),
		"a commit before the drop keeps its value though captured after it")
	i, _ := l.db.CDC().Instance("dbo_orders")
	require.Len(t, i.Columns, 3, "still listed as captured")
	require.False(t, l.db.CDC().DDLHistory()[0].RequiredColumnUpdate)
	l.addColumn(orders, engine.ColumnSpec{Name: "note", Type: sqltype.NVarCharType(50), Nullable: true})
	require.EqualValues(t, 4, orders.Def().Columns[2].ID, "a name made again is a new column_id")
	l.insert(orders, row(3, 5, "again"))
	l.scan()
	require.Equal(t, "2 3|NULL|5", brief(l.changes("dbo_orders"))[4], "and is not captured")
}

func TestAlterColumnConvertsTheChangeTableLater_M22_M25(t *testing.T) {
	l, orders := captured(t)
	l.enable("orders", as("narrow"), func(s *engine.EnableTableSpec) { s.Columns = []string{"id", "note"} })
	l.insert(orders, row(1, "a", 1))
	l.scan()
	l.insert(orders, row(2, "b", 2)) // not captured when the column is altered
	l.alterColumn(orders, "qty", sqltype.TypeOf(sqltype.KindBigInt))
	before := l.db.CDC()
	i, _ := before.Instance("dbo_orders")
	require.Equal(t, "int", i.Columns[2].Type.String(), "the capture job alters it, not the statement")
	l.insert(orders, row(3, "c", sqltype.BigInt(1<<40)))
	l.scan()
	i, _ = l.db.CDC().Instance("dbo_orders")
	require.Equal(t, "bigint", i.Columns[2].Type.String())
	got := l.changes("dbo_orders")
	require.Equal(t, []string{"2 1|a|1", "2 2|b|2", "2 3|c|1099511627776"}, brief(got))
	for _, c := range got {
		require.Equal(t, sqltype.KindBigInt, c.row[2].Kind())
	}
	h := l.db.CDC().DDLHistory()
	require.Len(t, h, 2, "a row per instance")
	require.True(t, h[0].RequiredColumnUpdate)
	require.False(t, h[1].RequiredColumnUpdate, "the second instance does not capture the column")
	old, _ := before.Instance("dbo_orders")
	require.Equal(t, sqltype.KindInt, readAll(before, old)[0].row[2].Kind(), "a reader's view keeps its types")
}

func TestAlterColumnOfManyRows_M25(t *testing.T) {
	l, orders := captured(t)
	i, _ := l.db.CDC().Instance("dbo_orders")
	_, err := l.db.BulkCaptured(l.ctx(), engine.BulkSpec{Instance: i.Name, Rows: 40_000, RowsPerTxn: 7, Fill: engine.SampleFill(i.Columns)})
	require.NoError(t, err)
	old := l.changes("dbo_orders")
	l.alterColumn(orders, "note", sqltype.NVarCharType(80))
	l.alterColumn(orders, "qty", sqltype.DecimalType(20, 2))
	l.insert(orders, row(-1, "a", sqltype.Decimal(sqltype.Number{Lo: 5, Scale: 2})))
	l.scan()
	got := l.changes("dbo_orders")
	require.Len(t, got, 40_001)
	for n := range old {
		require.Equal(t, old[n].start, got[n].start)
		require.Equal(t, old[n].row[1], got[n].row[1])
		require.Equal(t, old[n].row[2].IsNull(), got[n].row[2].IsNull())
		if !old[n].row[2].IsNull() {
			require.Equal(t, old[n].row[2].String()+".00", got[n].row[2].String())
		}
	}
}

func TestNarrowingBreaksCapture_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a long note", 1))
	l.scan()
	l.update(orders, set(1, everything, to("short")))
	l.alterColumn(orders, "note", sqltype.NVarCharType(6))
	l.insert(orders, row(2, "next", 1))
	for range 2 {
		_, err := l.db.Scan(l.ctx(), engine.ScanLimits{})
		requireNumber(t, engine.ErrTruncated, err)
	}
	require.Len(t, l.changes("dbo_orders"), 1, "nothing of the scan is visible")
	require.Len(t, l.db.CaptureErrors(), 2)
	require.EqualValues(t, engine.ErrTruncated, l.db.CaptureErrors()[0].Number)
}

func TestAlterColumnFailsOnTheBaseTable_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a long note", 1))
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		return tx.AlterColumn(l.ctx(), orders, "note", sqltype.NVarCharType(3), true, "…")
	})
	requireNumber(t, engine.ErrTruncated, err)
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		return tx.AlterColumn(l.ctx(), orders, "id", sqltype.TypeOf(sqltype.KindBigInt), false, "…")
	})
	requireNumber(t, engine.ErrColumnDependent, err) // altering the key is refused [M22]
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error { return tx.DropColumn(l.ctx(), orders, "id", "…") })
	requireNumber(t, engine.ErrColumnDependent, err)
	require.Equal(t, []string{"1|a long note|1"}, l.rows(orders))
	l.scan()
	require.Empty(t, l.db.CDC().DDLHistory())
}

func TestNullabilityChangeIsHistoryWithoutColumnUpdate_M22(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.do(func(tx *engine.Tx) error { return tx.AlterColumn(l.ctx(), orders, "qty", intType, false, "…") })
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, orders, row(2, "a", nil)) })
	require.Equal(t, &engine.Error{Number: engine.ErrNullNotAllowed, Args: []any{"qty", "lab.dbo.orders", "INSERT"}}, err)
	l.scan()
	require.False(t, l.db.CDC().DDLHistory()[0].RequiredColumnUpdate)
}

func TestRenames_M22_M25(t *testing.T) {
	l, orders := captured(t)
	l.addColumn(orders, engine.ColumnSpec{Name: "extra", Type: intType, Nullable: true})
	rename := func(from, to string) error {
		return l.db.Do(l.ctx(), func(tx *engine.Tx) error { return tx.RenameColumn(l.ctx(), orders, from, to) })
	}
	require.Equal(t, &engine.Error{Number: engine.ErrAlterReplicated, Args: []any{"note", "REPLICATED"}}, rename("NOTE", "n"))
	require.NoError(t, rename("extra", "other"))
	l.do(func(tx *engine.Tx) error { return tx.RenameTable(l.ctx(), orders, "sales") })
	i, _ := l.db.CDC().Instance("dbo_orders")
	require.Equal(t, "dbo.sales", i.SourceName(), "the instance keeps its name and follows the table")
	l.insert(orders, row(1, "a", 1, nil))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Len(t, l.db.CDC().DDLHistory(), 1, "renames are not recorded")
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, tx.RenameTable(l.ctx(), orders, "gone"))
	tx.Rollback()
	i, _ = l.db.CDC().Instance("dbo_orders")
	require.Equal(t, "dbo.sales", i.SourceName())
}

func TestTruncateOfTrackedTable4711_D(t *testing.T) {
	l, orders := captured(t)
	plain := l.create(ordersSpec("plain"))
	l.insert(plain, row(1, "a", 1))
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return tx.Truncate(l.ctx(), orders) })
	requireNumber(t, engine.ErrTruncateTracked, err)
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, tx.Truncate(l.ctx(), plain))
	tx.Rollback()
	require.Len(t, l.rows(plain), 1)
	l.do(func(tx *engine.Tx) error { return tx.Truncate(l.ctx(), plain) })
	require.Empty(t, l.rows(plain))
}

func TestDroppingTheKeyIndex_D(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	spec := ordersSpec("orders")
	spec.Columns[1].Nullable = false
	spec.Indexes = append(spec.Indexes, engine.IndexSpec{Name: "UX_note", Columns: []string{"note"}, Unique: true})
	orders := l.create(spec)
	l.enable("orders")
	l.enable("orders", as("second"), func(s *engine.EnableTableSpec) { s.Index = "ux_note" })
	drop := func(name string) error {
		return l.db.Do(l.ctx(), func(tx *engine.Tx) error { return tx.DropIndex(l.ctx(), orders, name) })
	}
	requireNumber(t, engine.ErrConstraintUsed, drop("PK_orders"))
	requireNumber(t, engine.ErrIndexUsed, drop("UX_note"))
	require.NoError(t, l.db.DisableTable(l.ctx(), "dbo", "orders", "second"))
	require.NoError(t, drop("UX_note"))
}

func TestDDLBeforeAnInstanceIsNotInItsHistory_M22(t *testing.T) {
	l, orders := captured(t)
	l.addColumn(orders, engine.ColumnSpec{Name: "extra", Type: intType, Nullable: true})
	l.alterColumn(orders, "qty", sqltype.TypeOf(sqltype.KindBigInt))
	second := l.enable("orders", as("second"))
	require.Equal(t, "bigint", second.Columns[2].Type.String())
	l.insert(orders, row(1, "a", sqltype.BigInt(1), 4))
	l.scan()
	for _, d := range l.db.CDC().DDLHistory() {
		require.NotEqual(t, second.ObjectID, d.ObjectID)
	}
	require.Len(t, l.db.CDC().DDLHistory(), 2)
	require.Equal(t, []string{"2 1|a|1|4"}, brief(l.changes("second")))
	require.Equal(t, []string{"2 1|a|1"}, brief(l.changes("dbo_orders")))
}

func TestDDLInsideATransactionRollsBack_K(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), tx, orders, row(2, "b", 2)))
	require.NoError(t, tx.AddColumn(l.ctx(), orders, engine.ColumnSpec{Name: "x", Type: intType, Nullable: true}, "…"))
	require.NoError(t, insert(l.ctx(), tx, orders, row(3, "c", 3, 3)))
	require.NoError(t, tx.CreateIndex(l.ctx(), orders, engine.IndexSpec{Name: "UX", Columns: []string{"x"}}))
	tx.Rollback()
	require.Len(t, orders.Def().Columns, 3)
	require.Equal(t, []string{"1|a|1"}, l.rows(orders))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
	require.Empty(t, l.db.CDC().DDLHistory())
}

func TestDDLAndRowsInOneTransaction_K(t *testing.T) {
	l, orders := captured(t)
	l.do(func(tx *engine.Tx) error {
		require.NoError(t, insert(l.ctx(), tx, orders, row(1, "a", 1)))
		require.NoError(t, tx.AlterColumn(l.ctx(), orders, "qty", sqltype.TypeOf(sqltype.KindBigInt), true, "…"))
		return insert(l.ctx(), tx, orders, row(2, "b", sqltype.BigInt(2)))
	})
	require.Equal(t, []string{"1|a|1", "2|b|2"}, l.rows(orders))
	l.scan()
	require.Equal(t, []string{"2 1|a|1", "2 2|b|2"}, brief(l.changes("dbo_orders")))
}

func TestIndexesMoveRows_K(t *testing.T) {
	l := newLab(t)
	heap := l.create(engine.TableSpec{Schema: "dbo", Name: "heap", Columns: []engine.ColumnSpec{
		{Name: "a", Type: intType}, {Name: "b", Type: sqltype.VarCharType(10)}}})
	l.insert(heap, row(3, "c"), row(1, "a"), row(2, "b"))
	require.Equal(t, []string{"3|c", "1|a", "2|b"}, l.rows(heap), "a heap keeps the order of insertion here")
	l.do(func(tx *engine.Tx) error {
		require.NoError(t, insert(l.ctx(), tx, heap, row(0, "z")))
		return tx.CreateIndex(l.ctx(), heap, engine.IndexSpec{Name: "PK", Columns: []string{"a"}, PrimaryKey: true, Clustered: true})
	})
	require.Equal(t, []string{"0|z", "1|a", "2|b", "3|c"}, l.rows(heap))
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, heap, row(2, "x")) })
	requireNumber(t, engine.ErrDuplicateKey, err)
	l.do(func(tx *engine.Tx) error { return tx.DropIndex(l.ctx(), heap, "pk") })
	l.insert(heap, row(2, "dup"))
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		return tx.CreateIndex(l.ctx(), heap, engine.IndexSpec{Name: "UX", Columns: []string{"a"}, Unique: true})
	})
	require.Equal(t, &engine.Error{Number: engine.ErrDuplicateBuild, Args: []any{"dbo.heap", "UX", "(2)"}}, err)
	require.Empty(t, heap.Def().Indexes)
	require.Len(t, l.rows(heap), 5)
}
