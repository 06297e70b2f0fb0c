package engine_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// lab is the vocabulary of these tests: one database under a manual clock, statements in a line each.
type lab struct {
	t     testing.TB
	clock *engine.ManualClock
	srv   *engine.Server
	db    *engine.Database
}

var labStart = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func newLab(t testing.TB, change ...func(*engine.Options)) *lab {
	t.Helper()
	l := &lab{t: t, clock: engine.NewManualClock(labStart)}
	opts := engine.Options{Seed: 7, Clock: l.clock}
	for _, c := range change {
		c(&opts)
	}
	l.srv = engine.NewServer(opts)
	t.Cleanup(l.srv.Close)
	var err error
	l.db, err = l.srv.CreateDatabase("lab")
	require.NoError(t, err)
	return l
}

// captured is a lab with CDC on and dbo.orders(id int primary key, note nvarchar(50), qty int) captured.
func captured(t testing.TB, change ...func(*engine.Options)) (*lab, *engine.Table) {
	l := newLab(t, change...)
	require.NoError(t, l.db.EnableCDC())
	orders := l.create(ordersSpec("orders"))
	l.enable("orders")
	return l, orders
}

func ordersSpec(name string) engine.TableSpec {
	return engine.TableSpec{
		Schema: "dbo", Name: name,
		Columns: []engine.ColumnSpec{
			{Name: "id", Type: intType},
			{Name: "note", Type: sqltype.NVarCharType(50), Nullable: true},
			{Name: "qty", Type: intType, Nullable: true},
		},
		Indexes: []engine.IndexSpec{{Name: "PK_" + name, Columns: []string{"id"}, PrimaryKey: true, Clustered: true}},
	}
}

var intType = sqltype.TypeOf(sqltype.KindInt)

func (l *lab) create(spec engine.TableSpec) *engine.Table {
	l.t.Helper()
	var table *engine.Table
	l.do(func(tx *engine.Tx) error {
		var err error
		table, err = tx.CreateTable(l.ctx(), spec)
		return err
	})
	return table
}

func (l *lab) ctx() context.Context { return l.t.Context() }

func (l *lab) enable(table string, change ...func(*engine.EnableTableSpec)) *engine.Instance {
	l.t.Helper()
	spec := engine.EnableTableSpec{Schema: "dbo", Table: table}
	for _, c := range change {
		c(&spec)
	}
	res, err := l.db.EnableTable(l.ctx(), spec)
	require.NoError(l.t, err)
	return res.Instance
}

func as(instance string) func(*engine.EnableTableSpec) {
	return func(s *engine.EnableTableSpec) { s.CaptureInstance = instance }
}

// do commits f as one transaction and gives its commit LSN.
func (l *lab) do(f func(tx *engine.Tx) error) engine.LSN {
	l.t.Helper()
	tx := l.db.Begin(engine.TxOptions{})
	defer tx.Rollback()
	require.NoError(l.t, f(tx))
	info, err := tx.Commit()
	require.NoError(l.t, err)
	return info.LSN
}

// row makes a row from Go values: nil, int, string.
func row(values ...any) sqltype.Row {
	out := make(sqltype.Row, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case int:
			out[i] = sqltype.Int(int32(v))
		case string:
			out[i] = sqltype.NVarChar(v)
		case sqltype.Value:
			out[i] = v
		default:
			panic(fmt.Sprintf("row: %T", v))
		}
	}
	return out
}

func insert(ctx context.Context, tx *engine.Tx, t *engine.Table, rows ...sqltype.Row) error {
	_, err := tx.InsertRows(ctx, t, engine.InsertSpec{}, rows...)
	return err
}

func (l *lab) insert(t *engine.Table, rows ...sqltype.Row) engine.LSN {
	l.t.Helper()
	return l.do(func(tx *engine.Tx) error { return insert(l.ctx(), tx, t, rows...) })
}

// set is an update of one column: where match says so, to what value says.
func set(column int, match func(sqltype.Row) bool, value func(sqltype.Row) sqltype.Value) engine.UpdateSpec {
	return engine.UpdateSpec{Set: []int{column}, Change: func(old sqltype.Row) (sqltype.Row, bool, error) {
		if !match(old) {
			return nil, false, nil
		}
		return sqltype.Row{value(old)}, true, nil
	}}
}

func idIn(ids ...int) func(sqltype.Row) bool {
	return func(r sqltype.Row) bool { return slices.Contains(ids, int(r[0].Int64())) }
}

func everything(sqltype.Row) bool { return true }

func to(v any) func(sqltype.Row) sqltype.Value {
	return func(sqltype.Row) sqltype.Value { return row(v)[0] }
}

func (l *lab) update(t *engine.Table, spec engine.UpdateSpec) engine.LSN {
	l.t.Helper()
	return l.do(func(tx *engine.Tx) error { _, err := tx.Update(l.ctx(), t, spec); return err })
}

func (l *lab) delete(t *engine.Table, match func(sqltype.Row) bool) engine.LSN {
	l.t.Helper()
	return l.do(func(tx *engine.Tx) error {
		_, err := tx.Delete(l.ctx(), t, engine.DeleteSpec{Match: func(r sqltype.Row) (bool, error) { return match(r), nil }})
		return err
	})
}

func (l *lab) rows(t *engine.Table) []string {
	l.t.Helper()
	var out []string
	l.do(func(tx *engine.Tx) error {
		for r, err := range tx.Scan(l.ctx(), t, engine.ScanSpec{}) {
			if err != nil {
				return err
			}
			out = append(out, text(r))
		}
		return nil
	})
	return out
}

func text(r sqltype.Row) string {
	s := ""
	for i, v := range r {
		if i > 0 {
			s += "|"
		}
		s += v.String()
	}
	return s
}

func (l *lab) scan() engine.ScanResult {
	l.t.Helper()
	res, err := l.db.Scan(l.ctx(), engine.ScanLimits{})
	require.NoError(l.t, err)
	return res
}

// change is a change row as tests look at it.
type change struct {
	start, seq engine.LSN
	op         int
	mask       string
	command    int
	values     string
	row        sqltype.Row
}

// changes reads a whole change table.
func (l *lab) changes(instance string) []change {
	l.t.Helper()
	view := l.db.CDC()
	i, ok := view.Instance(instance)
	require.True(l.t, ok, "no instance %s", instance)
	return readAll(view, i)
}

func readAll(view *engine.View, i *engine.Instance) []change {
	var out []change
	for r := range view.ScanChanges(i, engine.ChangeScan{}).All() {
		out = append(out, changeOf(r))
	}
	return out
}

func changeOf(r sqltype.Row) change {
	n := len(r)
	return change{
		start: lsnOf(r[0]), seq: lsnOf(r[2]), op: int(r[3].Int64()), mask: r[4].String(), command: int(r[n-1].Int64()),
		values: text(r[5 : n-1]), row: slices.Clone(r[5 : n-1]),
	}
}

func lsnOf(v sqltype.Value) engine.LSN { return engine.LSNFromBytes([]byte(v.Str())) }

// brief is operation and values of each row.
func brief(cs []change) []string {
	var out []string
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%d %s", c.op, c.values))
	}
	return out
}

func briefRows(rows iter.Seq[sqltype.Row], op, first int) []string {
	var out []string
	for r := range rows {
		out = append(out, fmt.Sprintf("%d %s", r[op].Int64(), text(r[first:])))
	}
	return out
}

func (l *lab) max() engine.LSN {
	l.t.Helper()
	lsn, ok := l.db.CDC().MaxLSN()
	require.True(l.t, ok, "max LSN is NULL")
	return lsn
}

func requireNumber(t testing.TB, number int32, err error) {
	t.Helper()
	require.Equal(t, number, engine.Number(err), "error is %v", err)
}

func contextWithCancel(l *lab) (context.Context, context.CancelFunc) {
	return context.WithCancel(l.ctx())
}
