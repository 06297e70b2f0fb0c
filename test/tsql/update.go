package tsql

import (
	"context"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// modification is what UPDATE and DELETE have in common: a target table, the rest of the
// FROM clause and a condition.
type modification struct {
	r      *runner
	c      *compiler
	t      Table
	src    *source
	only   *onlyScan // set when there is a FROM clause
	match  rowOp     // with only: yields when the row of only has a partner
	scan   *scanOp   // without: the bounds of the scan
	filter condFn
	top    *limit
	left   int64
	extra  []*source
}

// target resolves the target and the FROM clause.
func (m *modification) target(ts ast.TableSource, from []ast.TableSource, access Access) error {
	c := m.c
	c.scope = &scope{}
	if len(from) == 0 {
		t, err := c.targetTable(ts, access)
		if err != nil {
			return err
		}
		m.t = t
		leaf, err := c.tableLeaf(t, variableName(ts), t.Name(), ObjectName{})
		if err != nil {
			return err
		}
		m.src = leaf.src
		return nil
	}
	return m.targetInFrom(ts, from, access)
}

func variableName(ts ast.TableSource) string {
	if v, ok := ts.(*ast.VariableRef); ok {
		return v.Name
	}
	return ""
}

// targetInFrom finds the target among the sources of FROM, by alias or name; one that is not
// there is joined in front.
func (m *modification) targetInFrom(ts ast.TableSource, from []ast.TableSource, access Access) error {
	c := m.c
	node, err := c.fromList(from)
	if err != nil {
		return err
	}
	var leaf *leafNode
	walkLeaves(node, func(l *leafNode) {
		if leaf == nil && l.table != nil && isTarget(ts, l) {
			leaf = l
		}
	})
	if leaf == nil {
		t, err := c.targetTable(ts, access)
		if err != nil {
			return err
		}
		if leaf, err = c.tableLeaf(t, variableName(ts), t.Name(), ObjectName{}); err != nil {
			return err
		}
		node = &joinNode{kind: ast.CrossJoin, l: leaf, r: node}
	}
	if t, err := c.updatable(leaf, from, access); err != nil {
		return err
	} else if t != nil {
		leaf.table = t
	}
	m.t, m.src = leaf.table, leaf.src
	m.only = &onlyScan{slot: leaf.src.slot}
	leaf.only = m.only
	m.extra = c.scope.sources
	m.match = &pendingMatch{node: node}
	return nil
}

// updatable asks the host again for the table, now with the right to change it.
func (c *compiler) updatable(leaf *leafNode, _ []ast.TableSource, access Access) (Table, error) {
	if _, own := leaf.table.(*memTable); own {
		return nil, nil
	}
	return c.run.host.Table(c.ctx, TableRequest{Name: leaf.table.Name(), Access: access})
}

// pendingMatch holds the FROM clause until the condition is compiled.
type pendingMatch struct{ node fromNode }

func (*pendingMatch) run(*frame, func() error) error { return nil }

func walkLeaves(n fromNode, visit func(*leafNode)) {
	switch x := n.(type) {
	case *leafNode:
		visit(x)
	case *joinNode:
		walkLeaves(x.l, visit)
		walkLeaves(x.r, visit)
	}
}

func isTarget(ts ast.TableSource, l *leafNode) bool {
	switch x := ts.(type) {
	case *ast.VariableRef:
		return strings.EqualFold(l.src.alias, x.Name)
	case *ast.TableRef:
		if x.Name.Schema == "" && x.Name.Database == "" && strings.EqualFold(l.src.alias, x.Name.Name) {
			return true
		}
		n := l.table.Name()
		return strings.EqualFold(n.Name, x.Name.Name) && (x.Name.Schema == "" || strings.EqualFold(n.Schema, x.Name.Schema)) &&
			(l.src.alias == "" || x.Name.Schema != "")
	}
	return false
}

// where compiles the condition and plans the search.
func (m *modification) where(e ast.Expr, top *ast.Top) error {
	c := m.c
	var conds []*cond
	var err error
	if e != nil {
		if conds, err = c.conjuncts(e); err != nil {
			return err
		}
	}
	if m.top, err = c.topLimit(top); err != nil {
		return err
	}
	conds, never := c.simplify(conds)
	if m.only != nil {
		p, _ := m.match.(*pendingMatch)
		m.match, _ = c.plan(p.node, conds, nil)
		m.scan = &scanOp{src: m.src, table: m.t}
	} else {
		m.scan = &scanOp{src: m.src, table: m.t, order: m.t.Order()}
		m.filter = andAll(m.scan.takeBounds(conds))
	}
	if never {
		m.filter = func(*frame) (tri, error) { return isFalse, nil }
		m.match = noRows{}
	}
	m.src.useAll()
	return nil
}

// spec gives the bounds of the search; ok is false when nothing can match.
func (m *modification) spec(f *frame) (ScanSpec, bool, error) {
	m.left = -1
	if m.top != nil {
		_, n, err := m.top.window(f)
		if err != nil {
			return ScanSpec{}, false, err
		}
		m.left = n
	} else if n := m.r.s.opt.rowCount; n > 0 {
		m.left = n
	}
	m.scan.update = true
	spec, ok, err := m.scan.spec(f)
	spec.Columns = nil
	return spec, ok, err
}

// found tells whether a row is to be changed; then it calls use with the
// row's partners in the frame.
func (m *modification) found(f *frame, row sqltype.Row, use func() error) (bool, error) {
	if m.left == 0 {
		return false, nil
	}
	f.rows[m.src.slot] = row
	hit := false
	if m.only == nil {
		if m.filter != nil {
			t, err := m.filter(f)
			if err != nil || t != isTrue {
				return false, err
			}
		}
		hit = true
		if err := use(); err != nil {
			return false, err
		}
	} else {
		m.only.row = row
		stop := &stopSignal{}
		err := m.match.run(f, func() error {
			hit = true
			if err := use(); err != nil {
				return err
			}
			return stop
		})
		if err != nil && err != error(stop) {
			return false, err
		}
	}
	if hit && m.left > 0 {
		m.left--
	}
	return hit, nil
}

// setter is one column or variable that UPDATE sets.
type setter struct {
	column int // index in the list of set columns, -1 for a variable alone
	v      *variable
	x      *expr
}

// modify starts an UPDATE or DELETE: its options, common table expressions and target.
func (r *runner) modify(ctx context.Context, options []string, with []ast.CTE, target ast.TableSource, from []ast.TableSource, access Access) (*modification, error) {
	if err := r.doomed(); err != nil {
		return nil, err
	}
	m := &modification{r: r, c: r.compiler(ctx)}
	if err := m.c.options(options); err != nil {
		return nil, err
	}
	if err := m.c.addCTEs(with); err != nil {
		return nil, err
	}
	return m, m.target(target, from, access)
}

func (r *runner) update(ctx context.Context, x *ast.Update) error {
	m, err := r.modify(ctx, x.Options, x.With, x.Target, x.From, AccessUpdate)
	if err != nil {
		return err
	}
	up, ok := m.t.(Updater)
	if !ok {
		return sqlerr.Make(270, m.t.Name().String())
	}
	for _, a := range x.Set {
		m.c.noFold = m.c.noFold || a.Variable != ""
	}
	set, cols, err := m.setters(x.Set)
	if err != nil {
		return err
	}
	if err := m.where(x.Where, x.Top); err != nil {
		return err
	}
	check, err := m.c.checks(m.t)
	if err != nil {
		return err
	}
	out, err := m.c.output(x.Output, m.t, true, true, m.extra)
	if err != nil {
		return err
	}
	f := m.c.newFrame()
	spec, ok, err := m.spec(f)
	if err != nil {
		return err
	}
	var n int64
	if ok {
		us := UpdateSpec{Scan: spec, Set: cols, Change: m.change(f, set, cols, check)}
		if out != nil {
			us.Updated = func(before, after sqltype.Row) error { return out.take(f, before, after) }
		}
		if n, err = up.Update(ctx, us); err != nil {
			return err
		}
	}
	if err := out.send(r, f); err != nil {
		return err
	}
	return r.changed(DoneUpdate, n)
}

// setters compiles SET.
func (m *modification) setters(list []ast.Assignment) (set []setter, cols []int, err error) {
	for _, a := range list {
		s := setter{column: -1}
		e := a.X
		if a.Column != nil {
			i, err := columnOf(m.t, a.Column[len(a.Column)-1])
			if err != nil {
				return nil, nil, err
			}
			if err := writable(m.t.Columns()[i], false); err != nil {
				return nil, nil, err
			}
			for _, c := range cols {
				if c == i {
					return nil, nil, sqlerr.Make(264, m.t.Columns()[i].Name)
				}
			}
			s.column = len(cols)
			cols = append(cols, i)
			if a.Op != "=" {
				e = &ast.Binary{Op: a.Op[:1], L: &ast.ColumnRef{Parts: a.Column}, R: a.X}
			}
		} else if a.Op != "=" {
			e = &ast.Binary{Op: a.Op[:1], L: &ast.Variable{Name: a.Variable}, R: a.X}
		}
		if a.Variable != "" {
			if s.v, err = m.r.lookup(a.Variable); err != nil {
				return nil, nil, err
			}
		}
		if s.x, err = m.setExpr(e, s.column, cols); err != nil {
			return nil, nil, err
		}
		set = append(set, s)
	}
	return set, cols, nil
}

func (m *modification) setExpr(e ast.Expr, column int, cols []int) (*expr, error) {
	if hasAggregate(e) {
		return nil, sqlerr.Make(157)
	}
	if l, ok := e.(*ast.Literal); ok && l.Kind == ast.LitDefault && column >= 0 {
		def, _ := m.t.(Definition)
		if def == nil || def.Default(cols[column]) == nil {
			return constant(sqltype.Null(), m.t.Columns()[cols[column]].Type), nil
		}
		return m.c.expr(def.Default(cols[column]))
	}
	x, err := m.c.expr(e)
	if err != nil || column < 0 {
		return x, err
	}
	to := m.t.Columns()[cols[column]].Type
	switch sqltype.Castable(x.typ.Kind, to.Kind) {
	case sqltype.CastNever:
		return nil, sqlerr.Make(206, x.typ.Kind.String(), to.Kind.String())
	case sqltype.CastExplicit:
		return nil, sqlerr.Make(257, x.typ.Kind.String(), to.Kind.String())
	}
	return x, nil
}

// change makes the function that computes the new values of a row.
func (m *modification) change(f *frame, set []setter, cols []int, check *rowCheck) func(sqltype.Row) (sqltype.Row, bool, error) {
	values := make(sqltype.Row, len(cols))
	table := m.t.Columns()
	return func(old sqltype.Row) (sqltype.Row, bool, error) {
		ok, err := m.found(f, old, func() error {
			for _, s := range set {
				v, err := s.x.eval(f)
				if err != nil {
					return err
				}
				if s.v != nil {
					if s.v.val, err = sqltype.Convert(v, s.v.typ, sqltype.DefaultStyle); err != nil {
						return err
					}
				}
				if s.column >= 0 {
					if values[s.column], err = store(m.t, table[cols[s.column]], v, "UPDATE"); err != nil {
						return err
					}
				}
			}
			if check == nil {
				return nil
			}
			row := append(sqltype.Row(nil), old...)
			for i, c := range cols {
				row[c] = values[i]
			}
			return check.check(f, row, "UPDATE")
		})
		return values, ok, err
	}
}

func (r *runner) delete(ctx context.Context, x *ast.Delete) error {
	m, err := r.modify(ctx, x.Options, x.With, x.Target, x.From, AccessDelete)
	if err != nil {
		return err
	}
	del, ok := m.t.(Deleter)
	if !ok {
		return sqlerr.Make(270, m.t.Name().String())
	}
	if err := m.where(x.Where, x.Top); err != nil {
		return err
	}
	out, err := m.c.output(x.Output, m.t, false, true, m.extra)
	if err != nil {
		return err
	}
	f := m.c.newFrame()
	spec, ok, err := m.spec(f)
	if err != nil {
		return err
	}
	var n int64
	if ok {
		ds := DeleteSpec{Scan: spec, Match: func(row sqltype.Row) (bool, error) {
			return m.found(f, row, func() error { return nil })
		}}
		if out != nil {
			ds.Deleted = func(row sqltype.Row) error { return out.take(f, row, nil) }
		}
		if n, err = del.Delete(ctx, ds); err != nil {
			return err
		}
	}
	if err := out.send(r, f); err != nil {
		return err
	}
	return r.changed(DoneDelete, n)
}
