package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// evolving is a table whose columns come and go, and what its capture instance must hold: columns are matched by column_id, a
// dropped one is NULL, a new one is not captured.
type evolving struct {
	l        *lab
	table    *engine.Table
	captured []int32 // column ids
	rows     map[int]map[int32]int
	want     []string
	ddl      int
	next     int
}

func TestRandomDDLAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t)
		defer l.srv.Close()
		require.NoError(rt, l.db.EnableCDC())
		e := &evolving{l: l, rows: map[int]map[int32]int{}, captured: []int32{1, 2, 3}}
		e.table = l.create(engine.TableSpec{
			Schema: "dbo", Name: "orders",
			Columns: []engine.ColumnSpec{{Name: "id", Type: intType}, {Name: "a", Type: intType, Nullable: true}, {Name: "b", Type: intType, Nullable: true}},
			Indexes: []engine.IndexSpec{{Name: "PK", Columns: []string{"id"}, PrimaryKey: true, Clustered: true}},
		})
		l.enable("orders")
		rt.Repeat(map[string]func(*rapid.T){
			"insert": e.insert, "insert2": e.insert, "update": e.update, "update2": e.update, "delete": e.delete,
			"add": e.add, "drop": e.drop, "alter": e.alter, "alter2": e.alter, "scan": e.scan,
		})
		_, err := l.db.Idle(context.Background())
		require.NoError(rt, err)
		require.Equal(rt, e.want, brief(l.changes("dbo_orders")))
		require.Len(rt, l.db.CDC().DDLHistory(), e.ddl)
	})
}

// image is a row as the change table has it.
func (e *evolving) image(r map[int32]int) string {
	var parts []string
	for _, id := range e.captured {
		v, ok := r[id]
		if !ok {
			parts = append(parts, "NULL")
			continue
		}
		parts = append(parts, fmt.Sprint(v))
	}
	return strings.Join(parts, "|")
}

func (e *evolving) value(i, v int) sqltype.Value {
	return sqltype.Integer(e.table.Def().Columns[i].Type.Kind, int64(v))
}

func (e *evolving) insert(rt *rapid.T) {
	e.next++
	r := sqltype.Row{}
	model := map[int32]int{}
	for i, c := range e.table.Def().Columns {
		v := e.next
		if i > 0 {
			v = rapid.IntRange(0, 9).Draw(rt, "value")
		}
		r = append(r, e.value(i, v))
		model[c.ID] = v
	}
	e.l.insert(e.table, r)
	e.rows[e.next] = model
	e.want = append(e.want, "2 "+e.image(model))
}

// row picks a row that is there.
func (e *evolving) row(rt *rapid.T) int {
	if len(e.rows) == 0 {
		rt.Skip("no rows")
	}
	var ids []int
	for id := range e.rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(rt, "row")
}

// column picks a column that is not the key.
func (e *evolving) column(rt *rapid.T) (int, engine.ColumnDef) {
	cols := e.table.Def().Columns
	if len(cols) == 1 {
		rt.Skip("only the key is left")
	}
	i := rapid.IntRange(1, len(cols)-1).Draw(rt, "column")
	return i, cols[i]
}

func (e *evolving) update(rt *rapid.T) {
	id := e.row(rt)
	i, c := e.column(rt)
	v := rapid.IntRange(0, 9).Draw(rt, "value")
	e.l.update(e.table, set(i, idIn(id), func(sqltype.Row) sqltype.Value { return e.value(i, v) }))
	model := e.rows[id]
	before := e.image(model)
	was, had := model[c.ID]
	model[c.ID] = v
	if slices.Contains(e.captured, c.ID) && (!had || was != v) {
		e.want = append(e.want, "3 "+before, "4 "+e.image(model))
	}
}

func (e *evolving) delete(rt *rapid.T) {
	id := e.row(rt)
	e.l.delete(e.table, idIn(id))
	e.want = append(e.want, "1 "+e.image(e.rows[id]))
	delete(e.rows, id)
}

func (e *evolving) add(rt *rapid.T) {
	if len(e.table.Def().Columns) > 5 {
		rt.Skip("wide enough")
	}
	name := "a" // also the name of a column that was dropped
	if e.table.Def().Ordinal(name) >= 0 {
		e.next++
		name = fmt.Sprint("c", e.next)
	}
	e.l.addColumn(e.table, engine.ColumnSpec{Name: name, Type: intType, Nullable: true})
	e.ddl++
}

func (e *evolving) drop(rt *rapid.T) {
	_, c := e.column(rt)
	e.l.do(func(tx *engine.Tx) error { return tx.DropColumn(context.Background(), e.table, c.Name, "DROP "+c.Name) })
	e.ddl++
	for _, r := range e.rows {
		delete(r, c.ID)
	}
}

func (e *evolving) alter(rt *rapid.T) {
	_, c := e.column(rt)
	kind := sqltype.KindBigInt
	if c.Type.Kind == kind {
		kind = sqltype.KindInt
	}
	e.l.alterColumn(e.table, c.Name, sqltype.TypeOf(kind))
	e.ddl++
}

func (e *evolving) scan(rt *rapid.T) {
	_, err := e.l.db.Scan(context.Background(), engine.ScanLimits{MaxTrans: rapid.IntRange(1, 3).Draw(rt, "maxtrans"), MaxScans: 1})
	require.NoError(rt, err)
	got := brief(e.l.changes("dbo_orders"))
	require.Equal(rt, append([]string(nil), e.want[:len(got)]...), got)
}
