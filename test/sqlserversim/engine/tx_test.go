package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestConstraintErrors_D(t *testing.T) {
	l := newLab(t)
	spec := ordersSpec("orders")
	spec.Columns[1].Nullable = false
	spec.Indexes = append(spec.Indexes,
		engine.IndexSpec{Name: "UQ_note", Columns: []string{"note"}, Unique: true, Constraint: true},
		engine.IndexSpec{Name: "UX_qty", Columns: []string{"qty"}, Unique: true})
	orders := l.create(spec)
	l.insert(orders, row(1, "a", 1))
	for _, c := range []struct {
		name string
		row  sqltype.Row
		want *engine.Error
	}{
		{"primary key", row(1, "b", 2), &engine.Error{Number: 2627, Args: []any{"PRIMARY KEY", "PK_orders", "dbo.orders", "(1)"}}},
		{"unique constraint, other case", row(2, "A", 2),
			&engine.Error{Number: 2627, Args: []any{"UNIQUE KEY", "UQ_note", "dbo.orders", "(A)"}}},
		{"unique index", row(2, "b", 1), &engine.Error{Number: 2601, Args: []any{"dbo.orders", "UX_qty", "(1)"}}},
		{"null", row(2, nil, 2), &engine.Error{Number: 515, Args: []any{"note", "lab.dbo.orders", "INSERT"}}},
	} {
		err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, orders, c.row) })
		require.Equal(t, c.want, err, c.name)
	}
	l.insert(orders, row(2, "b", nil))
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, orders, row(3, "c", nil)) })
	require.Equal(t, &engine.Error{Number: 2601, Args: []any{"dbo.orders", "UX_qty", "(<NULL>)"}}, err, "NULL is a value of a unique index")
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		_, err := tx.Update(l.ctx(), orders, set(1, idIn(1), to(nil)))
		return err
	})
	require.Equal(t, &engine.Error{Number: 515, Args: []any{"note", "lab.dbo.orders", "UPDATE"}}, err)
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		_, err := tx.Update(l.ctx(), orders, set(0, everything, to(5)))
		return err
	})
	requireNumber(t, engine.ErrDuplicateKey, err)
	require.Equal(t, []string{"1|a|1", "2|b|NULL"}, l.rows(orders))
	// Keys may change places, and a key may be taken again in the transaction that gave it up.
	l.update(orders, set(0, everything, func(r sqltype.Row) sqltype.Value { return sqltype.Int(3 - int32(r[0].Int64())) }))
	l.do(func(tx *engine.Tx) error {
		_, err := tx.Delete(l.ctx(), orders, engine.DeleteSpec{})
		require.NoError(t, err)
		return insert(l.ctx(), tx, orders, row(1, "b", 9), row(2, "a", 1))
	})
	require.Equal(t, []string{"1|b|9", "2|a|1"}, l.rows(orders))
}

func TestIdentity_D(t *testing.T) {
	l := newLab(t)
	things := l.create(engine.TableSpec{Schema: "dbo", Name: "things", Columns: []engine.ColumnSpec{
		{Name: "id", Type: intType, Identity: &engine.Identity{Seed: 1, Increment: 2}}, {Name: "n", Type: intType, Nullable: true},
		{Name: "d", Type: intType, Default: func() (sqltype.Value, error) { return sqltype.Int(42), nil }},
	}})
	l.do(func(tx *engine.Tx) error {
		res, err := tx.InsertRows(l.ctx(), things, engine.InsertSpec{Columns: []int{1}}, row(10), row(20))
		require.EqualValues(t, 2, res.Count)
		require.EqualValues(t, 3, res.Identity.Int64())
		return err
	})
	tx := l.db.Begin(engine.TxOptions{})
	_, err := tx.InsertRows(l.ctx(), things, engine.InsertSpec{Columns: []int{1}}, row(0))
	require.NoError(t, err)
	tx.Rollback()
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		_, err := tx.InsertRows(l.ctx(), things, engine.InsertSpec{Columns: []int{0, 1}}, row(100, 1))
		return err
	})
	requireNumber(t, engine.ErrIdentityOff, err)
	l.do(func(tx *engine.Tx) error {
		_, err := tx.InsertRows(l.ctx(), things, engine.InsertSpec{Columns: []int{0, 1}, IdentityInsert: true}, row(100, 30))
		require.NoError(t, err)
		_, err = tx.InsertRows(l.ctx(), things, engine.InsertSpec{Columns: []int{1, 2}}, row(40, 7))
		return err
	})
	require.Equal(t, []string{"1|10|42", "3|20|42", "100|30|42", "102|40|7"}, l.rows(things), "a rollback does not give numbers back")
	err = l.db.Do(l.ctx(), func(tx *engine.Tx) error { _, err := tx.Update(l.ctx(), things, set(0, everything, to(1))); return err })
	requireNumber(t, engine.ErrIdentityUpdate, err)
	last, ok := things.IdentityCurrent()
	require.True(t, ok)
	require.EqualValues(t, 102, last)
}

func TestScanBounds_ours(t *testing.T) {
	l := newLab(t)
	pairs := l.create(engine.TableSpec{Schema: "dbo", Name: "pairs",
		Columns: []engine.ColumnSpec{{Name: "a", Type: intType}, {Name: "b", Type: intType}},
		Indexes: []engine.IndexSpec{{Columns: []string{"a", "b"}, PrimaryKey: true, Clustered: true, Descending: []bool{false, true}}}})
	for a := range 40 {
		for b := range 40 {
			l.insert(pairs, row(a, b))
		}
	}
	read := func(spec engine.ScanSpec) (n int, first, last string) {
		l.do(func(tx *engine.Tx) error {
			for r, err := range tx.Scan(l.ctx(), pairs, spec) {
				require.NoError(t, err)
				if n == 0 {
					first = text(r)
				}
				last = text(r)
				n++
			}
			return nil
		})
		return n, first, last
	}
	at := func(inclusive bool, v ...any) engine.Bound {
		return engine.Bound{Values: row(v...), Inclusive: inclusive}
	}
	for _, c := range []struct {
		name        string
		spec        engine.ScanSpec
		n           int
		first, last string
	}{
		{"all", engine.ScanSpec{}, 1600, "0|39", "39|0"},
		{"reverse", engine.ScanSpec{Reverse: true}, 1600, "39|0", "0|39"},
		{"prefix inclusive", engine.ScanSpec{Lower: at(true, 5), Upper: at(true, 6)}, 80, "5|39", "6|0"},
		{"prefix exclusive", engine.ScanSpec{Lower: at(false, 5), Upper: at(false, 7)}, 40, "6|39", "6|0"},
		{"full key, descending second", engine.ScanSpec{Lower: at(true, 5, 3), Upper: at(false, 6, 38)}, 5, "5|3", "6|39"},
		{"reverse with bounds", engine.ScanSpec{Reverse: true, Lower: at(true, 5), Upper: at(false, 7)}, 80, "6|0", "5|39"},
		{"nothing", engine.ScanSpec{Lower: at(false, 39)}, 0, "", ""},
	} {
		n, first, last := read(c.spec)
		require.Equal(t, c.n, n, c.name)
		require.Equal(t, []string{c.first, c.last}, []string{first, last}, c.name)
	}
}

func TestReadCommittedSeesCommittedOnlyAndWaits_D(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		orders := l.create(ordersSpec("orders"))
		l.insert(orders, row(1, "a", 1), row(2, "b", 1), row(3, "c", 1))
		writer := l.db.Begin(engine.TxOptions{})
		_, err := writer.Update(l.ctx(), orders, set(1, idIn(2), to("new")))
		require.NoError(t, err)
		require.NoError(t, insert(l.ctx(), writer, orders, row(4, "d", 1)))

		reader := l.db.Begin(engine.TxOptions{LockTimeout: 10 * time.Second})
		started := time.Now()
		_, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{})
		requireNumber(t, engine.ErrLockTimeout, err)
		require.Equal(t, 10*time.Second, time.Since(started))
		reader.SetLockTimeout(0)
		_, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{})
		requireNumber(t, engine.ErrLockTimeout, err)
		got, err := readOf(l.ctx(), reader, orders, engine.ScanSpec{Upper: engine.Bound{Values: row(2)}})
		require.NoError(t, err, "a row that nobody has locked")
		require.Equal(t, []string{"1|a|1"}, got)
		got, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{ReadPast: true})
		require.NoError(t, err)
		require.Equal(t, []string{"1|a|1", "3|c|1"}, got)
		dirty := engine.ReadUncommitted
		got, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{Isolation: &dirty})
		require.NoError(t, err)
		require.Equal(t, []string{"1|a|1", "2|new|1", "3|c|1", "4|d|1"}, got)

		reader.SetLockTimeout(engine.NoLockTimeout)
		go func() {
			time.Sleep(time.Minute)
			_, _ = writer.Commit()
		}()
		got, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{})
		require.NoError(t, err)
		require.Equal(t, []string{"1|a|1", "2|new|1", "3|c|1", "4|d|1"}, got)
		reader.Rollback()
	})
}

func readOf(ctx context.Context, tx *engine.Tx, t *engine.Table, spec engine.ScanSpec) ([]string, error) {
	var out []string
	for r, err := range tx.Scan(ctx, t, spec) {
		if err != nil {
			return nil, err
		}
		out = append(out, text(r))
	}
	return out, nil
}

func TestReadCommittedSnapshot_D(t *testing.T) {
	l := newLab(t)
	l.db.SetSettings(engine.Settings{ReadCommittedSnapshot: true})
	orders := l.create(ordersSpec("orders"))
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	writer := l.db.Begin(engine.TxOptions{})
	_, err := writer.Update(l.ctx(), orders, set(1, everything, to("new")))
	require.NoError(t, err)
	_, err = writer.Delete(l.ctx(), orders, engine.DeleteSpec{Match: func(r sqltype.Row) (bool, error) { return idIn(1)(r), nil }})
	require.NoError(t, err)
	require.Equal(t, []string{"1|a|1", "2|b|1"}, l.rows(orders))
	own, err := readOf(l.ctx(), writer, orders, engine.ScanSpec{})
	require.NoError(t, err)
	require.Equal(t, []string{"2|new|1"}, own)
	_, err = writer.Commit()
	require.NoError(t, err)
	require.Equal(t, []string{"2|new|1"}, l.rows(orders))
}

func TestSnapshotIsolation_D(t *testing.T) {
	l := newLab(t)
	orders := l.create(ordersSpec("orders"))
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	snap := func() *engine.Tx { return l.db.Begin(engine.TxOptions{Isolation: engine.Snapshot}) }
	_, err := readOf(l.ctx(), snap(), orders, engine.ScanSpec{})
	requireNumber(t, engine.ErrSnapshotNotAllowed, err)
	l.db.SetSettings(engine.Settings{AllowSnapshot: true})
	reader, writer := snap(), snap()
	for _, tx := range []*engine.Tx{reader, writer} {
		defer tx.Rollback()
	}
	l.insert(orders, row(3, "before the first read", 1))
	_, err = readOf(l.ctx(), writer, orders, engine.ScanSpec{})
	require.NoError(t, err)
	got, err := readOf(l.ctx(), reader, orders, engine.ScanSpec{})
	require.NoError(t, err)
	require.Len(t, got, 3, "versions are those at the first read")
	l.update(orders, set(1, idIn(1), to("new")))
	l.delete(orders, idIn(3))
	_, err = writer.Update(l.ctx(), orders, set(1, idIn(2), to("mine")))
	require.NoError(t, err)
	require.NoError(t, insert(l.ctx(), writer, orders, row(9, "mine", 1)))
	got, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{})
	require.NoError(t, err)
	require.Equal(t, []string{"1|a|1", "2|b|1", "3|before the first read|1"}, got)
	got, err = readOf(l.ctx(), writer, orders, engine.ScanSpec{})
	require.NoError(t, err)
	require.Equal(t, []string{"1|a|1", "2|mine|1", "3|before the first read|1", "9|mine|1"}, got, "and its own changes")
	_, err = writer.Update(l.ctx(), orders, set(1, idIn(1), to("mine")))
	requireNumber(t, engine.ErrSnapshotConflict, err)
	_, err = writer.Commit()
	requireNumber(t, engine.ErrSnapshotConflict, err)
	l.addColumn(orders, engine.ColumnSpec{Name: "x", Type: intType, Nullable: true})
	_, err = readOf(l.ctx(), reader, orders, engine.ScanSpec{})
	requireNumber(t, engine.ErrSnapshotDDL, err)
}

func TestDeadlock1205_D(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		orders := l.create(ordersSpec("orders"))
		l.insert(orders, row(1, "a", 1), row(2, "b", 1))
		one, two := l.db.Begin(engine.TxOptions{}), l.db.Begin(engine.TxOptions{})
		upd := func(tx *engine.Tx, id int) error {
			spec := set(1, idIn(id), to("x"))
			spec.Scan.Lower = engine.Bound{Values: row(id), Inclusive: true}
			spec.Scan.Upper = spec.Scan.Lower
			_, err := tx.Update(l.ctx(), orders, spec)
			return err
		}
		require.NoError(t, upd(one, 1))
		require.NoError(t, upd(two, 2))
		result := make(chan error, 1)
		go func() { result <- upd(one, 2) }()
		synctest.Wait()
		err := upd(two, 1)
		requireNumber(t, engine.ErrDeadlock, err)
		require.NoError(t, <-result, "the other one goes on")
		require.True(t, errors.Is(two.Err(), &engine.Error{Number: engine.ErrDeadlock}))
		_, err = two.Commit()
		requireNumber(t, engine.ErrDeadlock, err)
		_, err = one.Commit()
		require.NoError(t, err)
		require.Equal(t, []string{"1|x|1", "2|x|1"}, l.rows(orders))
	})
}

func TestWritersWaitForEachOtherOnKeys_D(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		orders := l.create(ordersSpec("orders"))
		one, two := l.db.Begin(engine.TxOptions{}), l.db.Begin(engine.TxOptions{})
		require.NoError(t, insert(l.ctx(), one, orders, row(1, "one", 1)))
		result := make(chan error, 1)
		go func() { result <- insert(l.ctx(), two, orders, row(1, "two", 1)) }()
		synctest.Wait()
		require.Empty(t, result)
		one.Rollback()
		require.NoError(t, <-result)
		three := l.db.Begin(engine.TxOptions{})
		go func() { result <- insert(l.ctx(), three, orders, row(1, "three", 1)) }()
		synctest.Wait()
		_, err := two.Commit()
		require.NoError(t, err)
		requireNumber(t, engine.ErrDuplicateKey, <-result)
		three.Rollback()
		require.Equal(t, []string{"1|two|1"}, l.rows(orders))
	})
}

func TestUpdateEvaluatesAgainAfterWaiting_D(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		orders := l.create(ordersSpec("orders"))
		l.insert(orders, row(1, "a", 1))
		add := func(tx *engine.Tx) error {
			_, err := tx.Update(l.ctx(), orders, set(2, idIn(1), func(r sqltype.Row) sqltype.Value {
				return sqltype.Int(int32(r[2].Int64()) + 1)
			}))
			return err
		}
		one := l.db.Begin(engine.TxOptions{})
		require.NoError(t, add(one))
		result := make(chan error, 1)
		go func() { result <- l.db.Do(l.ctx(), add) }()
		synctest.Wait()
		_, err := one.Commit()
		require.NoError(t, err)
		require.NoError(t, <-result)
		require.Equal(t, []string{"1|a|3"}, l.rows(orders), "no lost update")
	})
}

func TestSerializableKeepsWritersOut_D(t *testing.T) {
	l := newLab(t)
	orders := l.create(ordersSpec("orders"))
	reader := l.db.Begin(engine.TxOptions{Isolation: engine.Serializable})
	_, err := readOf(l.ctx(), reader, orders, engine.ScanSpec{})
	require.NoError(t, err)
	writer := l.db.Begin(engine.TxOptions{FailAtFirstLock: true})
	requireNumber(t, engine.ErrLockTimeout, insert(l.ctx(), writer, orders, row(1, "a", 1)))
	_, err = reader.Commit()
	require.NoError(t, err)
	require.NoError(t, insert(l.ctx(), writer, orders, row(1, "a", 1)))
	whole := l.db.Begin(engine.TxOptions{FailAtFirstLock: true})
	_, err = readOf(l.ctx(), whole, orders, engine.ScanSpec{Exclusive: true})
	requireNumber(t, engine.ErrLockTimeout, err)
	writer.Rollback()
	_, err = readOf(l.ctx(), whole, orders, engine.ScanSpec{Exclusive: true})
	require.NoError(t, err)
	third := l.db.Begin(engine.TxOptions{FailAtFirstLock: true})
	_, err = readOf(l.ctx(), third, orders, engine.ScanSpec{})
	requireNumber(t, engine.ErrLockTimeout, err)
}

func TestKillAndCancel_D(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		orders := l.create(ordersSpec("orders"))
		holder := l.db.Begin(engine.TxOptions{})
		require.NoError(t, insert(l.ctx(), holder, orders, row(1, "a", 1)))
		waiter := l.db.Begin(engine.TxOptions{})
		result := make(chan error, 1)
		go func() { result <- insert(l.ctx(), waiter, orders, row(1, "b", 1)) }()
		synctest.Wait()
		waiter.Kill(nil)
		requireNumber(t, engine.ErrSessionKilled, <-result)
		ctx, cancel := context.WithTimeout(l.ctx(), time.Second)
		defer cancel()
		other := l.db.Begin(engine.TxOptions{})
		require.ErrorIs(t, insert(ctx, other, orders, row(1, "c", 1)), context.DeadlineExceeded)
		require.NoError(t, insert(l.ctx(), other, orders, row(2, "c", 1)), "the transaction is open after it")
		holder.Kill(nil)
		require.NoError(t, insert(l.ctx(), other, orders, row(1, "c", 1)))
		_, err := other.Commit()
		require.NoError(t, err)
		other.Rollback()
		_, err = other.Commit()
		requireNumber(t, engine.ErrTransactionEnded, err)
		require.Zero(t, l.db.OpenTransactions())
	})
}

func TestKillInTheMiddleOfAStatement_ours(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	kill := map[string]func(tx *engine.Tx) error{
		"update": func(tx *engine.Tx) error {
			_, err := tx.Update(l.ctx(), orders, set(1, everything, func(r sqltype.Row) sqltype.Value {
				if idIn(2)(r) {
					tx.Kill(nil)
				}
				return sqltype.NVarChar("x")
			}))
			return err
		},
		"delete": func(tx *engine.Tx) error {
			_, err := tx.Delete(l.ctx(), orders, engine.DeleteSpec{Match: func(r sqltype.Row) (bool, error) {
				if idIn(2)(r) {
					tx.Kill(nil)
				}
				return true, nil
			}})
			return err
		},
		"insert": func(tx *engine.Tx) error {
			_, err := tx.Insert(l.ctx(), orders, engine.InsertSpec{}, func(yield func(sqltype.Row, error) bool) {
				if yield(row(3, "c", 1), nil) {
					tx.Kill(nil)
					yield(row(4, "d", 1), nil)
				}
			})
			return err
		},
	}
	for name, statement := range kill {
		tx := l.db.Begin(engine.TxOptions{})
		requireNumber(t, engine.ErrSessionKilled, statement(tx))
		require.Equal(t, []string{"1|a|1", "2|b|1"}, l.rows(orders), name)
		l.update(orders, set(2, everything, to(1))) // nothing is left locked
	}
	l.scan()
	require.Len(t, l.changes("dbo_orders"), 2)
}

func TestUpdateLockOfAScan_D(t *testing.T) {
	l := newLab(t)
	orders := l.create(ordersSpec("orders"))
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	holder := l.db.Begin(engine.TxOptions{})
	_, err := readOf(l.ctx(), holder, orders, engine.ScanSpec{Update: true, Upper: engine.Bound{Values: row(1), Inclusive: true}})
	require.NoError(t, err)
	other := l.db.Begin(engine.TxOptions{FailAtFirstLock: true})
	_, err = readOf(l.ctx(), other, orders, engine.ScanSpec{Update: true})
	requireNumber(t, engine.ErrLockTimeout, err)
	got, err := readOf(l.ctx(), other, orders, engine.ScanSpec{Update: true, ReadPast: true})
	require.NoError(t, err)
	require.Equal(t, []string{"2|b|1"}, got)
}

func TestReadOnlyDatabase3906_D(t *testing.T) {
	l := newLab(t)
	orders := l.create(ordersSpec("orders"))
	l.db.SetSettings(engine.Settings{ReadOnly: true})
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error { return insert(l.ctx(), tx, orders, row(1, "a", 1)) })
	require.Equal(t, &engine.Error{Number: 3906, Args: []any{"lab"}}, err)
}

func TestStatementBoundToAnOldDefinition_ours(t *testing.T) {
	l := newLab(t)
	orders := l.create(ordersSpec("orders"))
	def := orders.Def()
	l.addColumn(orders, engine.ColumnSpec{Name: "x", Type: intType, Nullable: true})
	tx := l.db.Begin(engine.TxOptions{})
	_, err := readOf(l.ctx(), tx, orders, engine.ScanSpec{Def: def})
	require.ErrorIs(t, err, engine.ErrDefinitionChanged)
	_, err = tx.InsertRows(l.ctx(), orders, engine.InsertSpec{Def: def}, row(1, "a", 1))
	require.ErrorIs(t, err, engine.ErrDefinitionChanged)
	_, err = readOf(l.ctx(), tx, orders, engine.ScanSpec{Def: orders.Def()})
	require.NoError(t, err)
}

func TestInsertFromTheSameTable_D(t *testing.T) {
	l := newLab(t)
	orders := l.create(ordersSpec("orders"))
	l.insert(orders, row(1, "a", 1), row(2, "b", 1))
	l.do(func(tx *engine.Tx) error {
		_, err := tx.Insert(l.ctx(), orders, engine.InsertSpec{}, func(yield func(sqltype.Row, error) bool) {
			for r, err := range tx.Scan(l.ctx(), orders, engine.ScanSpec{}) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(row(int(r[0].Int64())+10, "copy", 1), nil) {
					return
				}
			}
		})
		return err
	})
	require.Equal(t, []string{"1|a|1", "2|b|1", "11|copy|1", "12|copy|1"}, l.rows(orders))
}
