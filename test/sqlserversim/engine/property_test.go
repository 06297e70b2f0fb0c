package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// tableState is a table as the model has it: rows by id, as text.
type tableState map[int64]string

// commitState is a table after a commit.
type commitState struct {
	lsn  engine.LSN
	rows tableState
}

// modelTx is an open transaction and what it would leave.
type modelTx struct {
	tx    *engine.Tx
	rows  []tableState // per table
	wrote map[int64]bool
	marks []savepoint
}

type savepoint struct {
	mark engine.Mark
	rows []tableState
}

// workload runs random statements against the engine and a model of maps.
type workload struct {
	rt      *rapid.T
	l       *lab
	tables  []*engine.Table
	current []tableState    // committed
	history [][]commitState // per table, by commit
	open    []*modelTx
	seen    map[int32]observation // per instance's object id
}

// observation is what a reader saw of an instance.
type observation struct {
	max  engine.LSN
	rows []change
}

func TestRandomWorkloadsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorkload(t, rt)
		defer w.l.srv.Close()
		rt.Repeat(map[string]func(*rapid.T){
			"burst":    w.burst,
			"burst2":   w.burst,
			"crossing": w.crossing,
			"begin":    w.begin,
			"insert":   w.statement(w.insert),
			"update":   w.statement(w.update),
			"key":      w.statement(w.keyUpdate),
			"delete":   w.statement(w.delete),
			"save":     w.save,
			"back":     w.back,
			"commit":   w.commit,
			"commit2":  w.commit,
			"rollback": w.rollback,
			"scan":     w.scan,
			"scan2":    w.scan,
			"idle":     w.idle,
			"clock":    w.clock,
			"cleanup":  w.cleanup,
			"mark":     w.cleanupTable,
			"enable":   w.enable,
			"disable":  w.disable,
			"":         w.check,
		})
		for len(w.open) > 0 {
			w.commit(rt)
		}
		_, err := w.l.db.Idle(context.Background())
		require.NoError(rt, err)
		w.check(rt)
	})
}

func newWorkload(t *testing.T, rt *rapid.T) *workload {
	seed := rapid.Int64Range(0, 1000).Draw(rt, "seed")
	l := newLab(t, func(o *engine.Options) { o.Seed = seed })
	require.NoError(rt, l.db.EnableCDC())
	w := &workload{rt: rt, l: l, seen: map[int32]observation{}}
	for _, name := range []string{"a", "b"} {
		spec := ordersSpec(name)
		if name == "b" {
			spec.Indexes = append(spec.Indexes, engine.IndexSpec{Name: "UX", Columns: []string{"qty"}, Unique: true})
		}
		w.tables = append(w.tables, l.create(spec))
		w.current = append(w.current, tableState{})
		w.history = append(w.history, []commitState{{}})
		l.enable(name)
	}
	return w
}

func (w *workload) begin(rt *rapid.T) {
	if len(w.open) == 3 {
		rt.Skip("enough transactions")
	}
	m := &modelTx{tx: w.l.db.Begin(engine.TxOptions{FailAtFirstLock: true}), wrote: map[int64]bool{}}
	for range w.tables {
		m.rows = append(m.rows, nil)
	}
	w.open = append(w.open, m)
}

// view is the table as the transaction sees it at a statement's start.
func (w *workload) view(m *modelTx, n int) tableState {
	if m.rows[n] == nil {
		return w.current[n]
	}
	// Own changes over what others have committed since: rows that others hold fail with 1222, so the two never overlap.
	return m.rows[n]
}

// statement picks a transaction and a table; an engine error must leave both sides as they were.
func (w *workload) statement(f func(rt *rapid.T, m *modelTx, n int) (tableState, error)) func(*rapid.T) {
	return func(rt *rapid.T) {
		if len(w.open) == 0 {
			w.begin(rt)
		}
		m := w.open[rapid.IntRange(0, len(w.open)-1).Draw(rt, "tx")]
		n := rapid.IntRange(0, len(w.tables)-1).Draw(rt, "table")
		// One writer per table at a time keeps the model a matter of maps; what happens between writers is in tx_test.go.
		for _, o := range w.open {
			if o != m && o.rows[n] != nil {
				rt.Skip("another transaction writes the table")
			}
		}
		after, err := f(rt, m, n)
		if err != nil {
			require.Contains(rt, []int32{engine.ErrDuplicateKey, engine.ErrDuplicateIndex}, engine.Number(err), "%v", err)
			after = w.view(m, n) // nothing but the lock is left
		}
		m.rows[n] = after
	}
}

// shifted counts the rows that are left when ids move by shift; false when two keys meet.
func shifted(state tableState, ids []int64, shift int64) (int, bool) {
	next := maps.Clone(state)
	for _, id := range ids {
		delete(next, id)
	}
	for _, id := range ids {
		if _, taken := next[id+shift]; taken {
			return 0, false
		}
		next[id+shift] = ""
	}
	return len(next), true
}

func (w *workload) insert(rt *rapid.T, m *modelTx, n int) (tableState, error) {
	count := rapid.IntRange(1, 5).Draw(rt, "rows")
	next := maps.Clone(w.view(m, n))
	var rows []sqltype.Row
	for range count {
		id := rapid.IntRange(0, 40).Draw(rt, "id")
		r := row(id, rapid.SampledFrom([]string{"x", "y", "longer text"}).Draw(rt, "note"), rapid.IntRange(0, 60).Draw(rt, "qty"))
		rows = append(rows, r)
		next[int64(id)] = text(r)
	}
	return next, insert(context.Background(), m.tx, w.tables[n], rows...)
}

// some draws ids of the table, and says how the statement finds them.
func (w *workload) some(rt *rapid.T, state tableState) []int64 {
	var ids []int64
	for id := range state {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	mod := rapid.Int64Range(1, 4).Draw(rt, "mod")
	return slices.DeleteFunc(ids, func(id int64) bool { return id%mod != 0 })
}

func idsIn(ids []int64) func(sqltype.Row) bool {
	return func(r sqltype.Row) bool { return slices.Contains(ids, r[0].Int64()) }
}

func (w *workload) update(rt *rapid.T, m *modelTx, n int) (tableState, error) {
	next := maps.Clone(w.view(m, n))
	ids := w.some(rt, next)
	note := rapid.SampledFrom([]string{"x", "updated", "z"}).Draw(rt, "note")
	spec := set(1, idsIn(ids), to(note))
	spec.Updated = func(_, after sqltype.Row) error {
		next[after[0].Int64()] = text(after)
		return nil
	}
	count, err := m.tx.Update(context.Background(), w.tables[n], spec)
	if err == nil {
		require.EqualValues(rt, len(ids), count)
	}
	return next, err
}

func (w *workload) keyUpdate(rt *rapid.T, m *modelTx, n int) (tableState, error) {
	state := w.view(m, n)
	ids := w.some(rt, state)
	shift := rapid.Int64Range(-3, 3).Draw(rt, "shift")
	column := rapid.SampledFrom([]int{0, 2}).Draw(rt, "column")
	next := maps.Clone(state)
	spec := set(column, idsIn(ids), func(r sqltype.Row) sqltype.Value { return sqltype.Int(int32(r[column].Int64() + shift)) })
	for _, id := range ids {
		delete(next, id)
	}
	spec.Updated = func(_, after sqltype.Row) error {
		next[after[0].Int64()] = text(after)
		return nil
	}
	_, err := m.tx.Update(context.Background(), w.tables[n], spec)
	if err == nil && column == 0 {
		want, ok := shifted(state, ids, shift)
		require.True(rt, ok, "the engine took keys that collide")
		require.Len(rt, next, want)
	}
	return next, err
}

func (w *workload) delete(rt *rapid.T, m *modelTx, n int) (tableState, error) {
	next := maps.Clone(w.view(m, n))
	ids := w.some(rt, next)
	for _, id := range ids {
		delete(next, id)
	}
	match := idsIn(ids)
	count, err := m.tx.Delete(context.Background(), w.tables[n], engine.DeleteSpec{
		Match: func(r sqltype.Row) (bool, error) { return match(r), nil },
	})
	require.EqualValues(rt, len(ids), count)
	return next, err
}

func (w *workload) pick(rt *rapid.T) (*modelTx, int) {
	if len(w.open) == 0 {
		rt.Skip("no open transaction")
	}
	i := rapid.IntRange(0, len(w.open)-1).Draw(rt, "tx")
	return w.open[i], i
}

func (w *workload) save(rt *rapid.T) {
	m, _ := w.pick(rt)
	m.marks = append(m.marks, savepoint{m.tx.Mark(), slices.Clone(m.rows)})
}

func (w *workload) back(rt *rapid.T) {
	m, _ := w.pick(rt)
	if len(m.marks) == 0 {
		rt.Skip("no savepoint")
	}
	s := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	require.NoError(rt, m.tx.RollbackTo(s.mark))
	for n := range m.rows {
		if m.rows[n] != nil && s.rows[n] == nil {
			s.rows[n] = w.current[n] // the lock stays
		}
	}
	m.rows = s.rows
}

func (w *workload) commit(rt *rapid.T) {
	m, i := w.pick(rt)
	w.end(rt, m, i)
}

func (w *workload) end(rt *rapid.T, m *modelTx, i int) {
	w.open = slices.Delete(w.open, i, i+1)
	info, err := m.tx.Commit()
	require.NoError(rt, err)
	for n, rows := range m.rows {
		if rows == nil {
			continue
		}
		w.current[n] = rows
		if info.Logged {
			w.history[n] = append(w.history[n], commitState{info.LSN, rows})
		}
	}
}

func (w *workload) rollback(rt *rapid.T) {
	m, i := w.pick(rt)
	w.open = slices.Delete(w.open, i, i+1)
	m.tx.Rollback()
}

func (w *workload) scan(rt *rapid.T) {
	_, err := w.l.db.Scan(context.Background(), engine.ScanLimits{
		MaxTrans: rapid.IntRange(1, 4).Draw(rt, "maxtrans"), MaxScans: rapid.IntRange(1, 3).Draw(rt, "maxscans"),
	})
	require.NoError(rt, err)
}

// burst is a few small transactions, one after the other, and a scan.
func (w *workload) burst(rt *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(rt, "transactions") {
		n := rapid.IntRange(0, len(w.tables)-1).Draw(rt, "table")
		for _, m := range w.open {
			if m.rows[n] != nil {
				rt.Skip("a writer is open")
			}
		}
		m := &modelTx{tx: w.l.db.Begin(engine.TxOptions{FailAtFirstLock: true}), rows: make([]tableState, len(w.tables))}
		do := rapid.SampledFrom([]func(*rapid.T, *modelTx, int) (tableState, error){w.insert, w.insert, w.update, w.keyUpdate, w.delete}).
			Draw(rt, "do")
		after, err := do(rt, m, n)
		if err != nil {
			m.tx.Rollback()
			continue
		}
		m.rows[n] = after
		w.open = append(w.open, m)
		w.end(rt, m, len(w.open)-1)
		w.l.clock.Advance(time.Hour)
	}
	w.scan(rt)
	w.check(rt)
}

// crossing runs clean-up while a scan has built its rows, or a scan while clean-up is between two steps.
func (w *workload) crossing(rt *rapid.T) {
	defer w.l.db.SetHooks(engine.Hooks{})
	if rapid.Bool().Draw(rt, "cleanup in scan") {
		w.l.db.SetHooks(engine.Hooks{ScanPrepared: func(int) {
			w.l.db.SetHooks(engine.Hooks{})
			w.cleanupTable(rt)
		}})
		w.burst(rt)
		return
	}
	once := func() {
		w.l.db.SetHooks(engine.Hooks{})
		w.scan(rt)
	}
	w.l.db.SetHooks(engine.Hooks{Watermark: func([]string) { once() }, CleanupChunk: func(string, int64) { once() }})
	w.cleanupTable(rt)
}

func (w *workload) idle(rt *rapid.T) {
	_, err := w.l.db.Idle(context.Background())
	require.NoError(rt, err)
}

func (w *workload) clock(rt *rapid.T) {
	w.l.clock.Advance(time.Duration(rapid.Int64Range(-600, 90_000).Draw(rt, "seconds")) * time.Second)
}

func (w *workload) cleanup(rt *rapid.T) {
	_, err := w.l.db.Cleanup(context.Background())
	require.NoError(rt, err)
}

func (w *workload) cleanupTable(rt *rapid.T) {
	view := w.l.db.CDC()
	if len(view.Instances()) == 0 || view.Mapping().Len() == 0 {
		return
	}
	i := rapid.SampledFrom(view.Instances()).Draw(rt, "instance")
	mark := view.Mapping().At(rapid.IntRange(0, view.Mapping().Len()-1).Draw(rt, "entry")).StartLSN
	threshold := rapid.Int64Range(1, 5).Draw(rt, "threshold")
	_, err := w.l.db.CleanupChangeTable(context.Background(), i.Name, &mark, threshold)
	if n := engine.Number(err); err != nil {
		require.Equal(rt, int32(engine.ErrOutsideTimeline), n, "%v", err)
	}
}

// check holds after every step.
func (w *workload) check(rt *rapid.T) {
	view := w.l.db.CDC()
	top, any := view.MaxLSN()
	m := view.Mapping()
	for n := 1; n < m.Len(); n++ {
		require.True(rt, m.At(n-1).StartLSN.Less(m.At(n).StartLSN), "the mapping grows")
	}
	if any {
		require.Equal(rt, top, m.At(m.Len()-1).StartLSN)
	}
	for _, i := range view.Instances() {
		n := slices.IndexFunc(w.tables, func(t *engine.Table) bool { return t.Def().ObjectID == i.SourceObjectID })
		rows := readAll(view, i)
		w.checkRows(rt, view, i, rows, top)
		w.checkObservation(rt, i, rows, top)
		w.checkReplay(rt, n, i, rows, top)
	}
}

func (w *workload) checkRows(rt *rapid.T, view *engine.View, i *engine.Instance, rows []change, top engine.LSN) {
	requireOrdered(rt, rows)
	for _, c := range rows {
		require.False(rt, top.Less(c.start), "a row above max LSN")
		require.False(rt, c.start.Less(i.StartLSN), "clean-up deletes exactly below min LSN")
		_, ok := view.Mapping().Find(c.start)
		require.True(rt, ok, "every commit of a change table is in the mapping")
	}
	if !i.Pending && !top.Less(i.StartLSN) {
		from := i.StartLSN
		cur, err := view.AllChanges(i.Name, &from, &top, "all", []int{2})
		require.NoError(rt, err)
		after := slices.DeleteFunc(slices.Clone(rows), func(c change) bool { return c.op == 3 })
		got := 0
		for cur.Next() {
			require.EqualValues(rt, after[got].op, cur.Row()[2].Int64())
			got++
		}
		require.Equal(rt, len(after), got)
	}
}

// checkObservation: what was seen at or below a max LSN stays exactly so, but for what clean-up takes below min LSN.
func (w *workload) checkObservation(rt *rapid.T, i *engine.Instance, rows []change, top engine.LSN) {
	if last, ok := w.seen[i.ObjectID]; ok {
		keep := func(cs []change) (out []string) {
			for _, c := range cs {
				if !c.start.Less(i.StartLSN) && !last.max.Less(c.start) {
					out = append(out, fmt.Sprint(c.start, c.command, c.seq, c.op, c.mask, c.values))
				}
			}
			return out
		}
		require.Equal(rt, keep(last.rows), keep(rows), "rows at or below an observed max LSN changed")
	}
	w.seen[i.ObjectID] = observation{top, rows}
}

// checkReplay: the rows in the order of their positions turn the table as of min LSN into the table as of max LSN.
func (w *workload) checkReplay(rt *rapid.T, n int, i *engine.Instance, rows []change, top engine.LSN) {
	base, end := tableState{}, tableState{}
	for _, h := range w.history[n] {
		if h.lsn.Less(i.StartLSN) {
			base = h.rows
		}
		if !top.Less(h.lsn) || h.lsn.Less(i.StartLSN) {
			end = h.rows
		}
	}
	state := maps.Clone(base)
	if state == nil {
		state = tableState{}
	}
	for _, c := range rows {
		key := c.row[0].Int64()
		was, there := state[key]
		switch c.op {
		case 1, 3:
			require.True(rt, there)
			require.Equal(rt, was, c.values, "the image of before")
			delete(state, key)
		default:
			require.False(rt, there)
			state[key] = c.values
		}
	}
	require.Equal(rt, maps.Collect(maps.All(end)), maps.Collect(maps.All(state)), "table %d, instance %s", n, i.Name)
}
