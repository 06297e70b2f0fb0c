package parse

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
)

// query reads a query expression with its WITH, ORDER BY and OFFSET.
func (p *parser) query() *ast.Query {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	q := &ast.Query{Pos: p.pos()}
	if p.at("WITH") {
		q.With = p.ctes()
	}
	p.queryRest(q)
	return q
}

// queryRest reads the body and what follows it.
func (p *parser) queryRest(q *ast.Query) {
	q.Body = p.unions()
	if p.at("ORDER") {
		q.OrderBy = p.orderBy()
		p.offsetFetch(q)
	}
	if p.at("FOR") {
		p.fail() // FOR XML, FOR JSON, FOR BROWSE
	}
	q.Options = p.optionClause()
	p.ended(&q.Pos)
}

func (p *parser) offsetFetch(q *ast.Query) {
	if !p.at("OFFSET") {
		return
	}
	p.next()
	q.Offset = p.expr()
	if !p.accept("ROWS") {
		p.expect("ROW")
	}
	if !p.accept("FETCH") {
		return
	}
	if !p.accept("NEXT") {
		p.expect("FIRST")
	}
	q.Fetch = p.expr()
	if !p.accept("ROWS") {
		p.expect("ROW")
	}
	p.expect("ONLY")
}

// optionClause reads OPTION (…) if it comes.
func (p *parser) optionClause() []string {
	if !p.accept("OPTION") {
		return nil
	}
	return p.options()
}

// options reads (…): words, numbers, parentheses.
func (p *parser) options() []string {
	var list []string
	if !p.expectOp("(") {
		return nil
	}
	var words []string
	for depth := 0; p.err == nil; {
		t := p.tok()
		switch {
		case t.kind == tokEOF:
			p.fail()
		case p.atOp("("):
			depth++
		case p.atOp(")") && depth == 0:
			p.next()
			if len(words) == 0 {
				p.i--
				p.fail()
			}
			return append(list, strings.Join(words, " "))
		case p.atOp(")"):
			depth--
		case p.atOp(",") && depth == 0:
			list = append(list, strings.Join(words, " "))
			words = nil
			p.next()
			continue
		}
		words = append(words, t.text)
		p.next()
	}
	return list
}

func (p *parser) ctes() []ast.CTE {
	p.next()
	var list []ast.CTE
	for p.err == nil {
		c := ast.CTE{Name: p.ident()}
		if p.atOp("(") {
			c.Columns = p.identList()
		}
		p.expect("AS")
		c.Query = p.parenQuery()
		list = append(list, c)
		if !p.acceptOp(",") {
			break
		}
	}
	return list
}

// unions reads operands joined by UNION [ALL] and EXCEPT; INTERSECT binds tighter.
func (p *parser) unions() ast.QueryBody {
	l := p.intersects()
	for p.err == nil {
		var op string
		switch {
		case p.acceptSeq("UNION", "ALL"):
			op = "UNION ALL"
		case p.accept("UNION"):
			op = "UNION"
		case p.accept("EXCEPT"):
			op = "EXCEPT"
		default:
			return l
		}
		l = &ast.SetOp{Op: op, L: l, R: p.intersects()}
	}
	return l
}

func (p *parser) intersects() ast.QueryBody {
	l := p.queryOperand()
	for p.err == nil && p.accept("INTERSECT") {
		l = &ast.SetOp{Op: "INTERSECT", L: l, R: p.queryOperand()}
	}
	return l
}

func (p *parser) queryOperand() ast.QueryBody {
	if p.atOp("(") {
		return &ast.Nested{Query: p.parenQuery()}
	}
	return p.selectBody()
}

func (p *parser) selectBody() ast.QueryBody {
	s := &ast.Select{Pos: p.pos()}
	if !p.expect("SELECT") {
		return s
	}
	if p.accept("DISTINCT") {
		s.Distinct = true
	} else {
		p.accept("ALL")
	}
	if p.at("TOP") {
		s.Top = p.top()
	}
	for p.err == nil {
		s.Items = append(s.Items, p.selectItem())
		if !p.acceptOp(",") {
			break
		}
	}
	if p.accept("FROM") {
		s.From = p.fromList()
	}
	if p.accept("WHERE") {
		s.Where = p.condition()
	}
	if p.at("GROUP") {
		p.next()
		p.expect("BY")
		s.GroupBy = p.exprList()
	}
	if p.accept("HAVING") {
		s.Having = p.condition()
	}
	p.ended(&s.Pos)
	return s
}

// top reads TOP n or TOP (expression) [PERCENT].
func (p *parser) top() *ast.Top {
	p.next()
	t := &ast.Top{}
	switch {
	case p.acceptOp("("):
		t.N = p.expr()
		p.expectOp(")")
	case p.kind() == tokInteger || p.kind() == tokFloat || p.kind() == tokDecimal:
		t.N = p.primary()
	case p.kind() == tokVariable: // only with parentheses in SQL Server, but old clients send it
		t.N = p.variable()
	default:
		p.fail()
	}
	if p.accept("PERCENT") {
		t.Percent = true
	}
	if p.at("WITH") && p.peek(1).upper == "TIES" {
		p.fail()
	}
	return t
}

func (p *parser) selectItem() ast.SelectItem {
	if p.acceptOp("*") {
		return ast.SelectItem{Star: true}
	}
	t := p.tok()
	if t.kind == tokVariable && p.isAssignOp(p.peek(1)) {
		p.next()
		p.useScalar(t)
		op := p.next().text
		return ast.SelectItem{Assign: t.text, AssignOp: op, X: p.expr()}
	}
	if (isName(t) || t.kind == tokString) && p.peek(1).kind == tokOp && p.peek(1).text == "=" {
		p.next()
		p.next()
		return ast.SelectItem{Alias: t.text, X: p.expr()}
	}
	if q, ok := p.qualifiedStar(); ok {
		return ast.SelectItem{Star: true, Qualifier: q}
	}
	item := ast.SelectItem{X: p.expr()}
	item.Alias = p.columnAlias()
	return item
}

func (p *parser) isAssignOp(t *token) bool {
	if t.kind != tokOp {
		return false
	}
	switch t.text {
	case "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=":
		return true
	}
	return false
}

// qualifiedStar reads a.b.* when that is what comes.
func (p *parser) qualifiedStar() ([]string, bool) {
	n := 0
	for {
		if t := p.peek(n); !isName(t) && (n == 0 || t.kind != tokKeyword) {
			return nil, false
		}
		if t := p.peek(n + 1); t.kind != tokOp || t.text != "." {
			return nil, false
		}
		n += 2
		if t := p.peek(n); t.kind == tokOp && t.text == "*" {
			break
		}
	}
	var parts []string
	for range n / 2 {
		parts = append(parts, p.next().text)
		p.next()
	}
	p.next()
	return parts, true
}

func (p *parser) columnAlias() string {
	if p.accept("AS") {
		if p.kind() == tokString || p.kind() == tokNString {
			return p.next().text
		}
		return p.ident()
	}
	switch {
	case p.kind() == tokString, p.kind() == tokQuoted:
		return p.next().text
	case p.kind() == tokWord && !p.startsClause():
		return p.next().text
	}
	return ""
}

// startsClause tells whether a word that is not reserved begins the next clause
// rather than being an alias.
func (p *parser) startsClause() bool {
	switch p.tok().upper {
	case "OFFSET":
		return p.peek(1).kind == tokInteger || p.peek(1).kind == tokVariable || p.peek(1).kind == tokOp
	case "OUTPUT", "USING", "APPLY":
		return true
	case "THROW":
		return p.peek(1).kind == tokInteger || p.peek(1).kind == tokVariable
	}
	return false
}
