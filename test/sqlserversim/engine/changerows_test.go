package engine_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestChangeTableColumnsAndOrder_D_M25(t *testing.T) {
	l, _ := captured(t)
	i, _ := l.db.CDC().Instance("dbo_orders")
	var names []string
	for _, c := range i.ChangeColumns() {
		names = append(names, c.Name+" "+c.Type.String())
	}
	require.Equal(t, []string{
		"__$start_lsn binary(10)", "__$end_lsn binary(10)", "__$seqval binary(10)", "__$operation int",
		"__$update_mask varbinary(128)", "id int", "note nvarchar(50)", "qty int", "__$command_id int",
	}, names)
	require.Equal(t, []int{0, 8, 2, 3}, i.ChangeOrder())
}

func TestMultiStatementTransaction_M22(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(9, "old", 1))
	l.do(func(tx *engine.Tx) error {
		require.NoError(t, insert(l.ctx(), tx, orders, row(1, "a", 1)))
		for _, v := range []string{"b", "c"} {
			_, err := tx.Update(l.ctx(), orders, set(1, idIn(1), to(v)))
			require.NoError(t, err)
		}
		_, err := tx.Delete(l.ctx(), orders, engine.DeleteSpec{Match: func(r sqltype.Row) (bool, error) { return idIn(9)(r), nil }})
		return err
	})
	l.scan()
	got := l.changes("dbo_orders")[1:]
	require.Equal(t, []string{"2 1|a|1", "3 1|a|1", "4 1|b|1", "3 1|b|1", "4 1|c|1", "1 9|old|1"}, brief(got))
	require.Equal(t, []int{1, 2, 2, 3, 3, 4}, commands(got))
	for i, c := range got {
		require.Equal(t, got[0].start, c.start, "one commit LSN")
		require.True(t, c.seq.Less(c.start), "a row's LSN is below its commit's [M25]")
		if c.op == 4 {
			require.Equal(t, got[i-1].seq, c.seq, "3 and 4 share the seqval [M25]")
		}
	}
}

func commands(cs []change) (out []int) {
	for _, c := range cs {
		out = append(out, c.command)
	}
	return out
}

func TestUpdateMask_M25(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.update(orders, set(2, everything, to(5)))
	l.delete(orders, everything)
	l.scan()
	var masks []string
	for _, c := range l.changes("dbo_orders") {
		masks = append(masks, c.mask)
	}
	require.Equal(t, []string{"0x07", "0x04", "0x04", "0x07"}, masks)
}

func TestUpdateMaskOfNineColumns_K(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	spec := engine.TableSpec{Schema: "dbo", Name: "wide"}
	values := sqltype.Row{}
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		spec.Columns = append(spec.Columns, engine.ColumnSpec{Name: n, Type: intType})
		values = append(values, sqltype.Int(1))
	}
	wide := l.create(spec)
	l.enable("wide")
	l.insert(wide, values)
	l.update(wide, set(8, everything, to(2)))
	l.update(wide, set(0, everything, to(2)))
	l.scan()
	got := l.changes("dbo_wide")
	require.Equal(t, "0x01FF", got[0].mask, "all nine bits, the first column's lowest")
	require.Equal(t, "0x0100", got[1].mask)
	require.Equal(t, "0x0001", got[3].mask)
}

func TestKeyUpdateOfOneRowIsDeleteThenInsertWithOneSeqval_RDS2017(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(4, "a", 1))
	l.update(orders, set(0, idIn(4), to(2)))
	l.scan()
	got := l.changes("dbo_orders")[1:]
	require.Equal(t, []string{"1 4|a|1", "2 2|a|1"}, brief(got))
	require.Equal(t, got[0].seq, got[1].seq)
	require.Less(t, got[0].command, got[1].command)
	require.Equal(t, "0x07", got[0].mask)
	require.Equal(t, "0x07", got[1].mask)
}

func TestDeferredUpdateOverUniqueIndex_O01(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	spec := ordersSpec("orders")
	spec.Indexes = append(spec.Indexes, engine.IndexSpec{Name: "UQ_note", Columns: []string{"note"}, Unique: true, Constraint: true})
	orders := l.create(spec)
	l.enable("orders")
	l.insert(orders, row(1, "r1", 1), row(2, "r2", 1), row(3, "r3", 1))
	l.update(orders, set(1, everything, func(r sqltype.Row) sqltype.Value { return sqltype.NVarChar(r[1].Str() + "_v2") }))
	l.scan()
	got := l.changes("dbo_orders")[3:]
	require.Equal(t, []string{"1 1|r1|1", "1 2|r2|1", "1 3|r3|1", "2 1|r1_v2|1", "2 2|r2_v2|1", "2 3|r3_v2|1"}, brief(got))
	for i := range 3 {
		require.Equal(t, got[i].seq, got[i+3].seq, "a row's delete and insert share a seqval")
		require.Less(t, got[i].command, got[i+3].command, "but not a command id")
	}
}

func TestOverlappingKeyShift_O13(t *testing.T) {
	l, orders := captured(t)
	for range 2 {
		for i := range 5 {
			if len(l.rows(orders)) < 5 {
				l.insert(orders, row(i+1, "x", i))
			}
		}
		l.update(orders, set(0, everything, func(r sqltype.Row) sqltype.Value { return sqltype.Int(int32(r[0].Int64()) + 1) }))
	}
	l.scan()
	got := l.changes("dbo_orders")[5:]
	var ops []int
	for _, c := range got {
		ops = append(ops, c.op)
	}
	require.Equal(t, []int{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, ops)
	require.Equal(t, []string{"3|x|0", "4|x|1", "5|x|2", "6|x|3", "7|x|4"}, l.rows(orders))
	require.Equal(t, l.rows(orders), replay(t, l.changes("dbo_orders")), "replay by position gives the table")
}

// replay applies change rows in their order to a map by the first column.
func replay(t testing.TB, cs []change) []string {
	t.Helper()
	state := map[int64]string{}
	var keys []int64
	for _, c := range cs {
		key := c.row[0].Int64()
		_, there := state[key]
		switch c.op {
		case 1, 3:
			require.True(t, there, "row %d is not there for %d %s", key, c.op, c.values)
			delete(state, key)
		default:
			require.False(t, there, "row %d is there already for %d %s", key, c.op, c.values)
			state[key] = c.values
		}
	}
	for k := range state {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out []string
	for _, k := range keys {
		out = append(out, state[k])
	}
	return out
}

func TestTraceFlag8207TurnsSingletonsBack_K(t *testing.T) {
	l, orders := captured(t, func(o *engine.Options) { o.TraceFlag8207 = true })
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	l.update(orders, set(0, idIn(1), to(7)))
	l.update(orders, set(0, everything, func(r sqltype.Row) sqltype.Value { return sqltype.Int(int32(r[0].Int64()) + 1) }))
	l.scan()
	got := l.changes("dbo_orders")[2:]
	require.Equal(t, []string{"3 1|a|1", "4 7|a|1", "1 2|b|1", "1 7|a|1", "2 3|b|1", "2 8|a|1"}, brief(got))
}

func TestUpdateToTheSameValueWritesNoRow_M22(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.update(orders, set(1, everything, to("a")))
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 1)
}

func TestUpdateOfUncapturedColumnWritesNoRow_M22(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	orders := l.create(ordersSpec("orders"))
	l.enable("orders", func(s *engine.EnableTableSpec) { s.Columns = []string{"note", "ID"} })
	l.enable("orders", as("all_of_it"))
	l.insert(orders, row(1, "a", 1))
	l.update(orders, set(2, everything, to(2)))
	l.scan()
	require.Equal(t, []string{"2 1|a"}, brief(l.changes("dbo_orders")), "captured columns are in the table's order")
	require.Equal(t, []string{"2 1|a|1", "3 1|a|1", "4 1|a|2"}, brief(l.changes("all_of_it")))
}

func TestTwoInstancesNumberCommandsTogether_M22(t *testing.T) {
	l, orders := captured(t)
	l.enable("orders", as("second"))
	l.do(func(tx *engine.Tx) error {
		require.NoError(t, insert(l.ctx(), tx, orders, row(1, "a", 1)))
		if _, err := tx.Update(l.ctx(), orders, set(1, idIn(1), to("b"))); err != nil {
			return err
		}
		_, err := tx.Delete(l.ctx(), orders, engine.DeleteSpec{})
		return err
	})
	l.scan()
	first, second := l.changes("dbo_orders"), l.changes("second")
	require.Equal(t, []int{1, 3, 3, 5}, commands(first))
	require.Equal(t, []int{2, 4, 4, 6}, commands(second))
	for i := range first {
		require.Equal(t, first[i].start, second[i].start)
		require.Equal(t, first[i].seq, second[i].seq)
	}
}

func TestLargeColumns_D_M25(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	docs := l.create(engine.TableSpec{
		Schema: "dbo", Name: "docs",
		Columns: []engine.ColumnSpec{
			{Name: "id", Type: intType},
			{Name: "body", Type: sqltype.NVarCharType(sqltype.Max), Nullable: true},
			{Name: "old", Type: sqltype.TypeOf(sqltype.KindNText), Nullable: true},
			{Name: "n", Type: intType},
		},
		Indexes: []engine.IndexSpec{{Columns: []string{"id"}, PrimaryKey: true, Clustered: true}},
	})
	l.enable("docs")
	ntext := func(s string) sqltype.Value { return sqltype.Text(sqltype.KindNText, s) }
	l.insert(docs, row(1, "body", ntext("old"), 1))
	l.update(docs, set(3, everything, to(2)))
	l.update(docs, set(1, everything, to("new body")))
	l.update(docs, set(2, everything, to(ntext("newer"))))
	l.delete(docs, everything)
	l.scan()
	require.Equal(t, []string{
		"2 1|body|old|1",
		"3 1|NULL|NULL|1", "4 1|body|old|2", // not changed: NULL before, present after
		"3 1|body|NULL|2", "4 1|new body|old|2", // changed: recorded on both sides
		"3 1|NULL|NULL|2", "4 1|new body|newer|2", // ntext is never in 3
		"1 1|new body|NULL|2", // a delete has (max) values, no ntext
	}, brief(l.changes("dbo_docs")))
	require.Equal(t, "0x02", l.changes("dbo_docs")[3].mask, "the mask tells not recorded from NULL")
}

func TestLargeValueLimit7139_D(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	docs := l.create(engine.TableSpec{
		Schema: "dbo", Name: "docs",
		Columns: []engine.ColumnSpec{{Name: "id", Type: intType}, {Name: "body", Type: sqltype.NVarCharType(sqltype.Max), Nullable: true}},
	})
	long := string(make([]byte, 40_000)) // 80,000 bytes as nvarchar
	l.insert(docs, row(1, long))
	l.enable("docs")
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, docs, row(2, long)) })
	requireNumber(t, engine.ErrLOBTooLong, err)
	l.update(docs, set(0, idIn(1), to(3))) // the large value itself is not written
	l.srv.SetMaxTextReplSize(-1)
	l.insert(docs, row(2, long))
}

func TestComputedIdentityRowVersion_D(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	things := l.create(engine.TableSpec{
		Schema: "dbo", Name: "things",
		Columns: []engine.ColumnSpec{
			{Name: "id", Type: sqltype.TypeOf(sqltype.KindBigInt), Identity: &engine.Identity{Seed: 10, Increment: 5}},
			{Name: "n", Type: intType},
			{Name: "twice", Type: intType, Nullable: true, Computed: func(r sqltype.Row) (sqltype.Value, error) {
				return sqltype.Int(int32(2 * r[1].Int64())), nil
			}},
			{Name: "rv", Type: sqltype.TypeOf(sqltype.KindRowVersion)},
		},
		Indexes: []engine.IndexSpec{{Columns: []string{"id"}, PrimaryKey: true, Clustered: true}},
	})
	i := l.enable("things")
	require.Equal(t, "binary(8)", i.Columns[3].Type.String())
	require.True(t, i.Columns[2].IsComputed)
	l.insert(things, row(1), row(2))
	l.update(things, set(1, func(r sqltype.Row) bool { return r[0].Int64() == 10 }, to(7)))
	require.Equal(t, []string{"10|7|14|0x00000000000007D3", "15|2|4|0x00000000000007D2"}, l.rows(things))
	l.scan()
	require.Equal(t, []string{
		"2 10|1|NULL|0x00000000000007D1", "2 15|2|NULL|0x00000000000007D2",
		"3 10|1|NULL|0x00000000000007D1", "4 10|7|NULL|0x00000000000007D3",
	}, brief(l.changes("dbo_things")))
	require.Equal(t, sqltype.KindBinary, l.changes("dbo_things")[0].row[3].Kind())
	require.Equal(t, "0x0A", l.changes("dbo_things")[2].mask)
}

func TestRolledBackTransactionLeavesNothing_D(t *testing.T) {
	l, orders := captured(t)
	tx := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), tx, orders, row(1, "a", 1)))
	tx.Rollback()
	tx = l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), tx, orders, row(2, "b", 1)))
	mark := tx.Mark()
	require.NoError(t, insert(l.ctx(), tx, orders, row(3, "c", 1)))
	require.NoError(t, tx.RollbackTo(mark))
	_, err := tx.Commit()
	require.NoError(t, err)
	l.scan()
	require.Equal(t, []string{"2 2|b|1"}, brief(l.changes("dbo_orders")))
	require.Equal(t, []string{"2|b|1"}, l.rows(orders))
}

func TestFailedStatementLeavesNothing_K(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(5, "x", 1))
	l.do(func(tx *engine.Tx) error {
		err := insert(l.ctx(), tx, orders, row(1, "a", 1), row(5, "dup", 1))
		requireNumber(t, engine.ErrDuplicateKey, err)
		return insert(l.ctx(), tx, orders, row(2, "b", 1))
	})
	l.scan()
	require.Equal(t, []string{"2 5|x|1", "2 2|b|1"}, brief(l.changes("dbo_orders")))
}

func TestLongTransactionSortsByCommit_M22(t *testing.T) {
	l, orders := captured(t)
	long := l.db.Begin(engine.TxOptions{})
	require.NoError(t, insert(l.ctx(), long, orders, row(100, "long", 1)))
	var shorts []engine.LSN
	for i := range 5 {
		shorts = append(shorts, l.insert(orders, row(i, "short", 1)))
		l.scan()
		require.Len(t, l.changes("dbo_orders"), i+1)
	}
	info, err := long.Commit()
	require.NoError(t, err)
	l.scan()
	got := l.changes("dbo_orders")
	require.Equal(t, "2 100|long|1", brief(got)[5])
	require.Equal(t, info.LSN, got[5].start)
	for _, s := range shorts {
		require.True(t, s.Less(info.LSN))
		require.True(t, got[5].seq.Less(s), "a seqval may be below another transaction's commit LSN [M25]")
	}
}
