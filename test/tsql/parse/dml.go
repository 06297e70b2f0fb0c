package parse

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// target reads the table that a statement changes: a name or a table variable.
func (p *parser) target() ast.TableSource {
	t := p.tok()
	if t.kind == tokVariable {
		p.next()
		p.useTable(t)
		return &ast.VariableRef{Name: t.text, Line: t.line}
	}
	r := &ast.TableRef{Name: p.objectName(), Line: t.line}
	if p.at("WITH") && p.peek(1).kind == tokOp && p.peek(1).text == "(" {
		p.next()
		r.Hints = p.hints()
	}
	return r
}

// parenTop reads TOP (n) of INSERT, UPDATE and DELETE.
func (p *parser) parenTop() *ast.Top {
	if !p.at("TOP") {
		return nil
	}
	return p.top()
}

func (p *parser) insert(pos ast.Pos, with []ast.CTE) ast.Statement {
	p.next()
	s := &ast.Insert{With: with, Top: p.parenTop()}
	p.accept("INTO")
	s.Target = p.target()
	if p.atOp("(") && !p.atQueryInParens() {
		s.Columns = p.columnList()
	}
	s.Output = p.output()
	switch {
	case p.at("VALUES"):
		p.next()
		s.Rows = p.valueRows()
	case p.acceptSeq("DEFAULT", "VALUES"):
		s.Default = true
	case p.atAny("EXEC", "EXECUTE"):
		e, ok := p.exec(p.pos()).(*ast.Exec)
		if ok {
			s.Exec = e
		}
	case p.at("SELECT"), p.at("WITH"), p.atOp("("):
		s.Query = p.query()
	default:
		p.fail()
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// atQueryInParens tells whether (SELECT … comes, so that no column list does.
func (p *parser) atQueryInParens() bool {
	n := 0
	for p.peek(n).kind == tokOp && p.peek(n).text == "(" {
		n++
	}
	return p.peek(n).upper == "SELECT"
}

// columnList reads (a, b) where a column may carry a table's name in front.
func (p *parser) columnList() []string {
	if !p.expectOp("(") {
		return nil
	}
	var list []string
	for p.err == nil {
		parts := p.dotted()
		list = append(list, parts[len(parts)-1])
		if !p.acceptOp(",") {
			break
		}
	}
	p.expectOp(")")
	return list
}

// output reads an OUTPUT clause if there is one.
func (p *parser) output() *ast.Output {
	if !p.at("OUTPUT") {
		return nil
	}
	p.next()
	o := &ast.Output{}
	for p.err == nil {
		o.Items = append(o.Items, p.selectItem())
		if !p.acceptOp(",") {
			break
		}
	}
	if p.accept("INTO") {
		o.Into = p.target()
		if p.atOp("(") {
			o.Columns = p.identList()
		}
	}
	return o
}

func (p *parser) update(pos ast.Pos, with []ast.CTE) ast.Statement {
	p.next()
	s := &ast.Update{With: with, Top: p.parenTop(), Target: p.target()}
	p.expect("SET")
	s.Set = p.assignments()
	s.Output = p.output()
	if p.accept("FROM") {
		s.From = p.fromList()
	}
	s.Where = p.whereClause()
	s.Options = p.optionClause()
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// whereClause reads WHERE; WHERE CURRENT OF is not known.
func (p *parser) whereClause() ast.Expr {
	if !p.accept("WHERE") {
		return nil
	}
	return p.condition()
}

func (p *parser) assignments() []ast.Assignment {
	var list []ast.Assignment
	for p.err == nil {
		list = append(list, p.assignment())
		if !p.acceptOp(",") {
			break
		}
	}
	return list
}

// assignment reads col = x, @v = x or @v = col = x.
func (p *parser) assignment() ast.Assignment {
	var a ast.Assignment
	if t := p.tok(); t.kind == tokVariable {
		p.next()
		p.useScalar(t)
		a.Variable = t.text
		if !p.isAssignOp(p.tok()) {
			p.fail()
			return a
		}
		a.Op = p.next().text
		if !isName(p.tok()) || !p.isAssignOp(p.peek(1)) {
			a.X = p.expr()
			return a
		}
	}
	a.Column = p.dotted()
	if !p.isAssignOp(p.tok()) {
		p.fail()
		return a
	}
	a.Op = p.next().text
	if p.accept("DEFAULT") {
		a.X = &ast.Literal{Kind: ast.LitDefault}
		return a
	}
	a.X = p.expr()
	return a
}

func (p *parser) delete(pos ast.Pos, with []ast.CTE) ast.Statement {
	p.next()
	s := &ast.Delete{With: with, Top: p.parenTop()}
	p.accept("FROM")
	s.Target = p.target()
	s.Output = p.output()
	if p.accept("FROM") {
		s.From = p.fromList()
	}
	s.Where = p.whereClause()
	s.Options = p.optionClause()
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) merge(pos ast.Pos, with []ast.CTE) ast.Statement {
	p.next()
	s := &ast.Merge{With: with}
	p.accept("INTO")
	target := p.target()
	alias := p.tableAlias()
	switch t := target.(type) {
	case *ast.TableRef:
		t.Alias = alias
	case *ast.VariableRef:
		t.Alias = alias
	}
	s.Target = target
	p.expect("USING")
	s.Source = p.tableSource()
	p.expect("ON")
	s.On = p.condition()
	for p.at("WHEN") {
		s.Actions = append(s.Actions, p.mergeAction())
	}
	if len(s.Actions) == 0 {
		p.fail()
	}
	s.Output = p.output()
	s.Options = p.optionClause()
	if p.err == nil && !p.atOp(";") {
		p.failWith(sqlerr.Make(10713).At(pos.Line))
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) mergeAction() ast.MergeAction {
	p.next()
	var a ast.MergeAction
	if p.accept("NOT") {
		p.expect("MATCHED")
		switch {
		case p.acceptSeq("BY", "SOURCE"):
			a.BySource = true
		default:
			p.acceptSeq("BY", "TARGET")
		}
	} else {
		p.expect("MATCHED")
		a.Matched = true
	}
	if p.accept("AND") {
		a.And = p.condition()
	}
	p.expect("THEN")
	switch {
	case p.accept("DELETE"):
		a.Delete = true
	case p.accept("UPDATE"):
		p.expect("SET")
		a.Set = p.assignments()
	default:
		p.expect("INSERT")
		a.Insert = true
		if p.atOp("(") {
			a.Columns = p.columnList()
		}
		p.expect("VALUES")
		p.expectOp("(")
		a.Values = p.callArgs()
		p.expectOp(")")
	}
	if a.Insert == (a.Matched || a.BySource) && p.err == nil {
		p.fail()
	}
	return a
}
