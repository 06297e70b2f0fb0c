package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func TestAllChangesFilters_D_M22(t *testing.T) {
	l, orders := captured(t)
	from := l.insert(orders, row(1, "a", 1))
	end := l.update(orders, set(1, everything, to("b")))
	l.scan()
	view := l.db.CDC()
	i, _ := view.Instance("dbo_orders")
	var names []string
	for _, c := range i.AllChangesColumns() {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "id", "note", "qty"}, names,
		"neither __$end_lsn nor __$command_id")
	for filter, want := range map[string][]string{
		"all":               {"2 1|a|1", "4 1|b|1"},
		"  ALL  ":           {"2 1|a|1", "4 1|b|1"},
		"All Update Old":    {"2 1|a|1", "3 1|a|1", "4 1|b|1"},
		" all update old  ": {"2 1|a|1", "3 1|a|1", "4 1|b|1"},
	} {
		cur, err := view.AllChanges("DBO_orders", &from, &end, filter, nil)
		require.NoError(t, err)
		require.Equal(t, want, briefRows(cur.All(), 2, 4), filter)
	}
	cur, err := view.AllChanges("dbo_orders", &end, &end, "all", []int{0, 5})
	require.NoError(t, err)
	require.True(t, cur.Next())
	require.Equal(t, end, lsnOf(cur.Row()[0]))
	require.Equal(t, "b", cur.Row()[5].Str())
	require.True(t, cur.Row()[4].IsNull(), "a column that is not wanted is not made")
	require.False(t, cur.Next())
}

func TestWindowErrors313_D_M25(t *testing.T) {
	l, orders := captured(t)
	_, err := l.db.CDC().AllChanges("dbo_orders", &engine.LSN{}, &engine.LSN{}, "all", nil)
	requireNumber(t, engine.ErrFunctionRange, err) // max LSN is NULL
	a := l.insert(orders, row(1, "a", 1))
	b := l.insert(orders, row(2, "a", 1))
	l.scan()
	view := l.db.CDC()
	low, _, _ := view.MinLSN("dbo_orders")
	top, _ := view.MaxLSN()
	below, above := low.Decrement(), top.Increment()
	want := &engine.Error{Number: 313, Args: []any{"cdc.fn_cdc_get_all_changes_ ... "}}
	for name, c := range map[string]struct {
		from, to *engine.LSN
		filter   string
	}{
		"from is NULL":                 {nil, &b, "all"},
		"to is NULL":                   {&a, nil, "all"},
		"from below min LSN":           {&below, &b, "all"},
		"to above max LSN":             {&a, &above, "all"},
		"from above max LSN (no news)": {&above, &top, "all"},
		"from above to":                {&b, &a, "all"},
		"unknown filter":               {&a, &b, "all with mask"},
		"empty filter":                 {&a, &b, ""},
	} {
		_, err := view.AllChanges("dbo_orders", c.from, c.to, c.filter, nil)
		require.Equal(t, want, err, name)
	}
	_, err = view.AllChanges("dbo_orders", &low, &top, "all", nil)
	require.NoError(t, err)
	_, err = view.AllChanges("nobody", &low, &top, "all", nil)
	requireNumber(t, engine.ErrInvalidObject, err)
	_, err = view.NetChanges("dbo_orders", &below, &top, "all", nil)
	require.Equal(t, &engine.Error{Number: 313, Args: []any{"cdc.fn_cdc_get_net_changes_ ... "}}, err)
	i, _ := view.Instance("dbo_orders")
	require.Empty(t, readRange(view, i, b, a), "on the table an inverted range is empty [M22]")
	require.Len(t, readRange(view, i, engine.LSN{}, engine.LSNFromBytes([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))), 2,
		"and any bounds are accepted [M25]")
}

func readRange(v *engine.View, i *engine.Instance, from, to engine.LSN) (out []change) {
	for r := range v.ScanChanges(i, engine.LSNRange(from, to, nil)).All() {
		out = append(out, changeOf(r))
	}
	return out
}

func TestNetChanges_D_M25(t *testing.T) {
	type step func(l *lab, orders *engine.Table)
	ins := func(l *lab, o *engine.Table) { l.insert(o, row(1, "a", 1)) }
	upd := func(l *lab, o *engine.Table) { l.update(o, set(1, idIn(1), to("b"))) }
	del := func(l *lab, o *engine.Table) { l.delete(o, idIn(1)) }
	key := func(l *lab, o *engine.Table) { l.update(o, set(0, idIn(1), to(2))) }
	for _, c := range []struct {
		name          string
		before, steps []step
		all, merge    []string
	}{
		{"insert", nil, []step{ins}, []string{"2 1|a|1"}, []string{"5 1|a|1"}},
		{"insert, update", nil, []step{ins, upd}, []string{"2 1|b|1"}, []string{"5 1|b|1"}},
		{"insert, delete", nil, []step{ins, del}, nil, nil},
		{"update", []step{ins}, []step{upd}, []string{"4 1|b|1"}, []string{"5 1|b|1"}},
		{"delete", []step{ins}, []step{del}, []string{"1 1|a|1"}, []string{"1 1|a|1"}},
		{"delete, insert", []step{ins}, []step{del, ins}, []string{"4 1|a|1"}, []string{"5 1|a|1"}},
		{"update, delete", []step{ins}, []step{upd, del}, []string{"1 1|b|1"}, []string{"1 1|b|1"}},
		{"insert, delete, insert", nil, []step{ins, del, ins}, []string{"2 1|a|1"}, []string{"5 1|a|1"}},
		{"key change", []step{ins}, []step{key}, []string{"1 1|a|1", "2 2|a|1"}, []string{"1 1|a|1", "5 2|a|1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, orders := captured(t)
			for _, s := range c.before {
				s(l, orders)
			}
			_, err := l.db.Idle(l.ctx())
			require.NoError(t, err)
			from := l.max().Increment()
			for _, s := range c.steps {
				s(l, orders)
			}
			l.scan()
			top := l.max()
			for filter, want := range map[string][]string{"all": c.all, "ALL WITH MERGE ": c.merge} {
				net, err := l.db.CDC().NetChanges("dbo_orders", &from, &top, filter, nil)
				require.NoError(t, err)
				require.Equal(t, want, briefRows(net.All(), 1, 3), filter)
			}
		})
	}
}

func TestNetChangesMask_D(t *testing.T) {
	l, orders := captured(t)
	l.insert(orders, row(1, "a", 1))
	l.scan()
	from := l.max().Increment()
	l.update(orders, set(1, everything, to("b")))
	l.update(orders, set(2, everything, to(9)))
	l.scan()
	top := l.max()
	for filter, want := range map[string]string{"all": "NULL", "all with mask": "0x06"} {
		net, err := l.db.CDC().NetChanges("dbo_orders", &from, &top, filter, nil)
		require.NoError(t, err)
		require.True(t, net.Next())
		require.Equal(t, want, net.Row()[2].String())
		require.Equal(t, top, lsnOf(net.Row()[0]), "the LSN of the last change")
	}
}

func TestNetChangesOnlyWhereSupported_M25(t *testing.T) {
	no := false
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	orders := l.create(ordersSpec("orders"))
	l.enable("orders", func(s *engine.EnableTableSpec) { s.NetChanges = &no })
	lsn := l.insert(orders, row(1, "a", 1))
	l.scan()
	_, err := l.db.CDC().NetChanges("dbo_orders", &lsn, &lsn, "all", nil)
	requireNumber(t, engine.ErrInvalidObject, err)
}

func TestNetChangesKeysFollowTheCollation_K(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.db.EnableCDC())
	names := l.create(engine.TableSpec{
		Schema: "dbo", Name: "names",
		Columns: []engine.ColumnSpec{{Name: "name", Type: sqltype.VarCharType(20)}, {Name: "n", Type: intType}},
		Indexes: []engine.IndexSpec{{Columns: []string{"name"}, PrimaryKey: true, Clustered: true}},
	})
	l.enable("names")
	l.scan()
	from := l.insert(names, sqltype.Row{sqltype.VarChar("Ann"), sqltype.Int(1)})
	l.delete(names, everything)
	l.insert(names, sqltype.Row{sqltype.VarChar("ANN"), sqltype.Int(2)})
	l.scan()
	top := l.max()
	net, err := l.db.CDC().NetChanges("dbo_names", &from, &top, "all", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"2 ANN|2"}, briefRows(net.All(), 1, 3))
}
