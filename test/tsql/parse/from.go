package parse

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

func (p *parser) fromList() []ast.TableSource {
	list := []ast.TableSource{p.tableSource()}
	for p.acceptOp(",") {
		list = append(list, p.tableSource())
	}
	return list
}

// tableSource reads a source and the joins behind it.
func (p *parser) tableSource() ast.TableSource {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	l := p.tablePrimary()
	for p.err == nil {
		kind, ok := p.joinKind()
		if !ok {
			return l
		}
		l = p.joinRight(kind, l)
	}
	return l
}

// joinKind reads the words of a join.
func (p *parser) joinKind() (ast.JoinKind, bool) {
	switch {
	case p.acceptSeq("CROSS", "JOIN"):
		return ast.CrossJoin, true
	case p.acceptSeq("CROSS", "APPLY"):
		return ast.CrossApply, true
	case p.acceptSeq("OUTER", "APPLY"):
		return ast.OuterApply, true
	}
	kind := ast.InnerJoin
	switch {
	case p.at("JOIN"):
	case p.accept("INNER"):
	case p.at("LEFT"), p.at("RIGHT"), p.at("FULL"):
		kind = map[string]ast.JoinKind{"LEFT": ast.LeftJoin, "RIGHT": ast.RightJoin, "FULL": ast.FullJoin}[p.next().upper]
		p.accept("OUTER")
	default:
		return 0, false
	}
	if p.atAny("LOOP", "HASH", "MERGE", "REMOTE") && p.peek(1).upper == "JOIN" {
		p.next()
	}
	p.expect("JOIN")
	return kind, true
}

func (p *parser) joinRight(kind ast.JoinKind, l ast.TableSource) ast.TableSource {
	j := &ast.Join{Kind: kind, L: l, R: p.tablePrimary()}
	switch kind {
	case ast.CrossJoin, ast.CrossApply, ast.OuterApply:
		return j
	}
	for p.err == nil && !p.at("ON") { // a JOIN b JOIN c ON … ON …
		if !p.enter() {
			return j
		}
		inner, ok := p.joinKind()
		if !ok {
			p.fail()
			return j
		}
		j.R = p.joinRight(inner, j.R)
		p.leave()
	}
	p.expect("ON")
	j.On = p.condition()
	return j
}

func (p *parser) tablePrimary() ast.TableSource {
	t := p.tok()
	switch {
	case p.atOp("("):
		return p.parenSource()
	case t.kind == tokVariable:
		p.next()
		p.useTable(t)
		return &ast.VariableRef{Name: t.text, Alias: p.tableAlias(), Line: t.line}
	}
	name := p.objectName()
	if p.err != nil {
		return nil
	}
	if p.atOp("(") && !p.atOldHint() {
		f := &ast.FunctionRef{Name: name, Line: t.line}
		p.next()
		if !p.atOp(")") {
			f.Args = p.callArgs()
		}
		p.expectOp(")")
		f.Alias = p.tableAlias()
		if f.Alias != "" && p.atOp("(") {
			f.Columns = p.identList()
		}
		return f
	}
	r := &ast.TableRef{Name: name, Line: t.line}
	if p.atOldHint() {
		r.Hints = p.hints()
	}
	r.Alias = p.tableAlias()
	switch {
	case p.at("WITH") && p.peek(1).kind == tokOp && p.peek(1).text == "(":
		p.next()
		r.Hints = append(r.Hints, p.hints()...)
	case p.atOldHint():
		r.Hints = append(r.Hints, p.hints()...)
	}
	if p.atAny("TABLESAMPLE", "PIVOT", "UNPIVOT") || p.at("FOR") && p.peek(1).upper == "SYSTEM_TIME" {
		p.fail()
	}
	return r
}

// atOldHint tells whether (NOLOCK) without WITH comes.
func (p *parser) atOldHint() bool {
	return p.atOp("(") && isHintName(p.peek(1).upper) && p.peek(2).kind == tokOp &&
		(p.peek(2).text == ")" || p.peek(2).text == ",")
}

// parenSource reads a derived table, VALUES or a join in parentheses.
func (p *parser) parenSource() ast.TableSource {
	if p.peek(1).upper == "VALUES" {
		p.next()
		p.next()
		v := &ast.Values{Rows: p.valueRows()}
		p.expectOp(")")
		v.Alias, v.Columns = p.derivedAlias()
		return v
	}
	if p.atQuery() && p.err == nil && p.queryNotJoin() {
		d := &ast.Derived{Query: p.parenQuery()}
		d.Alias, d.Columns = p.derivedAlias()
		return d
	}
	p.next()
	src := p.tableSource()
	p.expectOp(")")
	return src
}

// queryNotJoin tells a query in parentheses from a join whose first operand is
// a derived table: ((SELECT …) a JOIN …).
func (p *parser) queryNotJoin() bool {
	n, depth := 0, 0
	for n = 0; p.peek(n).kind == tokOp && p.peek(n).text == "("; n++ {
		depth++
	}
	if depth == 1 {
		return true
	}
	for ; p.i+n < len(p.toks); n++ { // to the end of the inner query
		t := p.peek(n)
		if t.kind == tokEOF {
			break
		}
		if t.kind != tokOp {
			continue
		}
		switch t.text {
		case "(":
			depth++
		case ")":
			if depth--; depth == 1 {
				u := p.peek(n + 1)
				return u.kind == tokOp && u.text == ")" || u.upper == "UNION" || u.upper == "EXCEPT" ||
					u.upper == "INTERSECT" || u.upper == "ORDER"
			}
		}
	}
	return true
}

func (p *parser) derivedAlias() (string, []string) {
	alias := p.tableAlias()
	if alias == "" && p.err == nil {
		p.fail()
		return "", nil
	}
	if p.atOp("(") {
		return alias, p.identList()
	}
	return alias, nil
}

func (p *parser) tableAlias() string {
	if p.accept("AS") {
		return p.ident()
	}
	if p.kind() == tokQuoted || p.kind() == tokWord && !p.startsClause() {
		return p.next().text
	}
	return ""
}

// valueRows reads (a, b), (c, d) ….
func (p *parser) valueRows() [][]ast.Expr {
	var rows [][]ast.Expr
	for p.err == nil {
		line := p.tok().line
		if !p.expectOp("(") {
			return rows
		}
		row := p.callArgs()
		p.expectOp(")")
		if len(rows) > 0 && len(row) != len(rows[0]) {
			p.lateError(sqlerr.Make(10709).At(line))
		}
		rows = append(rows, row)
		if !p.acceptOp(",") {
			break
		}
	}
	return rows
}
