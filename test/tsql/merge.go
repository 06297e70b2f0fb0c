package tsql

import (
	"context"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// mergeRun is a MERGE on its way. The source is read once; the target is read to find the
// source rows without a partner, then rows are deleted, updated and inserted, in this
// order. Whether an action applies depends on the target's row as it was, which no earlier
// step has touched.
type mergeRun struct {
	r         *runner
	c         *compiler
	stmt      *ast.Merge
	t         Table
	target    *source
	slots     []nullRow // of the source
	on        condFn
	actions   []mergeWhen
	source    rowOp
	rows      [][]sqltype.Row // source rows, one per slot
	matched   []bool
	out       *outputClause
	actionRow sqltype.Row // $action
	actionAt  int
	check     *rowCheck
	nulls     []sqltype.Row
}

// mergeWhen is a compiled WHEN clause.
type mergeWhen struct {
	def  *ast.MergeAction
	and  condFn
	set  []setter
	cols []int
	ins  *insertion
	vals []*expr
}

func (r *runner) merge(ctx context.Context, x *ast.Merge) error {
	if err := r.doomed(); err != nil {
		return err
	}
	m := &mergeRun{r: r, c: r.compiler(ctx), stmt: x, actionRow: make(sqltype.Row, 1)}
	if err := m.c.options(x.Options); err != nil {
		return err
	}
	if err := m.c.addCTEs(x.With); err != nil {
		return err
	}
	if err := m.resolve(); err != nil {
		return err
	}
	f := m.c.newFrame()
	f.rows[m.actionAt] = m.actionRow
	var n int64
	err := r.atomic(ctx, func() error {
		if err := m.read(f); err != nil {
			return err
		}
		for _, step := range [...]func(*frame) (int64, error){m.delete, m.update, m.insert} {
			k, err := step(f)
			if err != nil {
				return err
			}
			n += k
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := m.out.send(r, f); err != nil {
		return err
	}
	return r.changed(DoneMerge, n)
}

// atomic runs several changes as one statement: in a transaction of their own, or
// under a savepoint of the open one.
func (r *runner) atomic(ctx context.Context, fn func() error) error {
	const name = "merge"
	own := r.host.TranCount() == 0
	begin, undo := r.host.Save, name
	if own {
		begin, undo = r.host.Begin, ""
	}
	if err := begin(ctx, name); err != nil {
		return err
	}
	if err := fn(); err != nil {
		if r.host.TranCount() > 0 {
			if e := r.host.Rollback(ctx, undo); e != nil {
				return e
			}
		}
		return err
	}
	if own {
		return r.host.Commit(ctx, "")
	}
	return nil
}

func (m *mergeRun) resolve() error {
	c := m.c
	c.scope = &scope{}
	var err error
	if m.t, err = c.targetTable(m.stmt.Target, AccessUpdate); err != nil {
		return err
	}
	alias := ""
	switch x := m.stmt.Target.(type) {
	case *ast.TableRef:
		alias = x.Alias
	case *ast.VariableRef:
		if alias = x.Alias; alias == "" {
			alias = x.Name
		}
	}
	leaf, err := c.tableLeaf(m.t, alias, m.t.Name(), ObjectName{})
	if err != nil {
		return err
	}
	m.target = leaf.src
	m.target.useAll()
	node, err := c.from(m.stmt.Source, false)
	if err != nil {
		return err
	}
	m.slots = nullRows(node)
	conds, err := c.conjuncts(m.stmt.On)
	if err != nil {
		return err
	}
	m.on = andAll(conds)
	for i := range m.stmt.Actions {
		w, err := m.when(&m.stmt.Actions[i])
		if err != nil {
			return err
		}
		m.actions = append(m.actions, w)
	}
	if m.check, err = c.checks(m.t); err != nil {
		return err
	}
	action := newSource("", ObjectName{}, []sqltype.Column{{Name: "$action", Type: sqltype.NVarCharType(10)}}, c.newSlot())
	m.actionAt = action.slot
	extra := append([]*source{action}, c.scope.sources[1:]...)
	if m.out, err = c.output(m.stmt.Output, m.t, true, true, extra); err != nil {
		return err
	}
	m.source, _ = c.plan(node, nil, nil)
	for _, s := range m.slots {
		m.nulls = append(m.nulls, make(sqltype.Row, s.width))
	}
	return nil
}

// when compiles a WHEN clause. Without a match it sees the columns of the side that is there only.
func (m *mergeRun) when(a *ast.MergeAction) (mergeWhen, error) {
	both := m.c.scope
	defer func() { m.c.scope = both }()
	switch {
	case a.BySource:
		m.c.scope = &scope{sources: both.sources[:1]}
	case !a.Matched:
		m.c.scope = &scope{sources: both.sources[1:]}
	}
	w := mergeWhen{def: a}
	if a.And != nil {
		cd, err := m.c.cond(a.And)
		if err != nil {
			return w, err
		}
		w.and = cd.eval
	}
	var err error
	switch {
	case a.Insert:
		return w, m.whenInsert(&w)
	case !a.Delete:
		mod := &modification{r: m.r, c: m.c, t: m.t}
		w.set, w.cols, err = mod.setters(a.Set)
	}
	return w, err
}

func (m *mergeRun) whenInsert(w *mergeWhen) error {
	in := &insertion{r: m.r, c: m.c, t: m.t, stmt: &ast.Insert{Columns: w.def.Columns, Rows: [][]ast.Expr{w.def.Values}}}
	ok := false
	if in.into, ok = m.t.(Inserter); !ok {
		return sqlerr.Make(270, m.t.Name().String())
	}
	if err := in.columns(); err != nil {
		return err
	}
	if err := in.defaults(); err != nil {
		return err
	}
	if len(w.def.Values) != len(in.cols) {
		return in.countError(len(w.def.Values))
	}
	for i, e := range w.def.Values {
		if l, ok := e.(*ast.Literal); ok && l.Kind == ast.LitDefault {
			w.vals = append(w.vals, in.byCol[i])
			continue
		}
		x, err := m.c.expr(e)
		if err != nil {
			return err
		}
		if err := in.castable1(x, m.t.Columns()[in.cols[i]]); err != nil {
			return err
		}
		w.vals = append(w.vals, x)
	}
	w.ins = in
	return nil
}

// read stores the source and marks the rows that have a partner in the target.
func (m *mergeRun) read(f *frame) error {
	if err := m.source.run(f, func() error {
		var rows []sqltype.Row
		for _, s := range m.slots {
			rows = append(rows, append(sqltype.Row(nil), f.rows[s.slot]...))
		}
		m.rows = append(m.rows, rows)
		return nil
	}); err != nil {
		return err
	}
	m.matched = make([]bool, len(m.rows))
	for row, err := range m.t.Scan(f.ctx, ScanSpec{}) {
		if err != nil {
			return err
		}
		f.rows[m.target.slot] = row
		if _, _, err := m.choose(f); err != nil {
			return err
		}
	}
	return nil
}

func (m *mergeRun) bind(f *frame, rows []sqltype.Row) {
	for i, s := range m.slots {
		f.rows[s.slot] = rows[i]
	}
}

// choose finds the partners of the target row in the frame and the clause that applies to it;
// nil for none. The partner is in the frame afterwards.
func (m *mergeRun) choose(f *frame) (*mergeWhen, int, error) {
	partner, n := -1, 0
	for i, rows := range m.rows {
		m.bind(f, rows)
		t, err := m.on(f)
		if err != nil {
			return nil, 0, err
		}
		if t != isTrue {
			continue
		}
		m.matched[i] = true
		if n++; n == 1 {
			partner = i
		}
	}
	if partner >= 0 {
		m.bind(f, m.rows[partner])
	} else {
		m.bind(f, m.nulls)
	}
	for i := range m.actions {
		w := &m.actions[i]
		if w.def.Insert || w.def.Matched != (partner >= 0) {
			continue
		}
		if w.and != nil {
			t, err := w.and(f)
			if err != nil {
				return nil, 0, err
			}
			if t != isTrue {
				continue
			}
		}
		if n > 1 {
			return nil, 0, sqlerr.Make(8672)
		}
		return w, partner, nil
	}
	return nil, partner, nil
}

func (m *mergeRun) has(which func(*ast.MergeAction) bool) bool {
	for _, w := range m.actions {
		if which(w.def) {
			return true
		}
	}
	return false
}

func (m *mergeRun) took(f *frame, action string, before, after sqltype.Row) error {
	m.actionRow[0] = sqltype.NVarChar(action)
	f.rows[m.actionAt] = m.actionRow
	if before == nil {
		before = make(sqltype.Row, len(m.t.Columns()))
	}
	if after == nil {
		after = make(sqltype.Row, len(m.t.Columns()))
	}
	return m.out.take(f, before, after)
}

func (m *mergeRun) delete(f *frame) (int64, error) {
	if !m.has(func(a *ast.MergeAction) bool { return a.Delete }) {
		return 0, nil
	}
	del, ok := m.t.(Deleter)
	if !ok {
		return 0, sqlerr.Make(270, m.t.Name().String())
	}
	return del.Delete(f.ctx, DeleteSpec{
		Scan: ScanSpec{Update: true},
		Match: func(row sqltype.Row) (bool, error) {
			f.rows[m.target.slot] = row
			w, _, err := m.choose(f)
			return w != nil && w.def.Delete, err
		},
		Deleted: func(row sqltype.Row) error {
			if m.out == nil {
				return nil
			}
			f.rows[m.target.slot] = row
			if _, _, err := m.choose(f); err != nil {
				return err
			}
			return m.took(f, "DELETE", row, nil)
		},
	})
}

func (m *mergeRun) update(f *frame) (int64, error) {
	isUpdate := func(a *ast.MergeAction) bool { return !a.Delete && !a.Insert }
	if !m.has(isUpdate) {
		return 0, nil
	}
	up, ok := m.t.(Updater)
	if !ok {
		return 0, sqlerr.Make(270, m.t.Name().String())
	}
	var cols []int
	at := make(map[int]int)
	for _, w := range m.actions {
		for _, c := range w.cols {
			if _, ok := at[c]; !ok {
				at[c] = len(cols)
				cols = append(cols, c)
			}
		}
	}
	values := make(sqltype.Row, len(cols))
	spec := UpdateSpec{Scan: ScanSpec{Update: true}, Set: cols}
	spec.Change = func(old sqltype.Row) (sqltype.Row, bool, error) {
		f.rows[m.target.slot] = old
		w, _, err := m.choose(f)
		if err != nil || w == nil || !isUpdate(w.def) {
			return nil, false, err
		}
		for i, c := range cols {
			values[i] = old[c]
		}
		after := append(sqltype.Row(nil), old...)
		for _, s := range w.set {
			v, err := s.x.eval(f)
			if err != nil {
				return nil, false, err
			}
			c := w.cols[s.column]
			if v, err = store(m.t, m.t.Columns()[c], v, "UPDATE"); err != nil {
				return nil, false, err
			}
			values[at[c]], after[c] = v, v
		}
		return values, true, m.check.check(f, after, "UPDATE")
	}
	if m.out != nil {
		spec.Updated = func(before, after sqltype.Row) error {
			f.rows[m.target.slot] = before
			if _, _, err := m.choose(f); err != nil {
				return err
			}
			return m.took(f, "UPDATE", before, after)
		}
	}
	return up.Update(f.ctx, spec)
}

func (m *mergeRun) insert(f *frame) (int64, error) {
	var n int64
	for i, rows := range m.rows {
		if m.matched[i] {
			continue
		}
		m.bind(f, rows)
		f.rows[m.target.slot] = make(sqltype.Row, len(m.target.cols))
		for j := range m.actions {
			w := &m.actions[j]
			if !w.def.Insert {
				continue
			}
			if w.and != nil {
				t, err := w.and(f)
				if err != nil {
					return 0, err
				}
				if t != isTrue {
					continue
				}
			}
			if err := m.insertOne(f, w); err != nil {
				return 0, err
			}
			n++
			break
		}
	}
	return n, nil
}

func (m *mergeRun) insertOne(f *frame, w *mergeWhen) error {
	w.ins.check = m.check
	spec := InsertSpec{Columns: w.ins.all}
	if m.out != nil {
		spec.Inserted = func(row sqltype.Row) error { return m.took(f, "INSERT", nil, row) }
	}
	_, err := w.ins.into.Insert(f.ctx, spec, w.ins.rows(f, func(f *frame, emit func(sqltype.Row) error) error {
		out := make(sqltype.Row, len(w.vals))
		for i, x := range w.vals {
			v, err := x.eval(f)
			if err != nil {
				return err
			}
			out[i] = v
		}
		return emit(out)
	}))
	return err
}
