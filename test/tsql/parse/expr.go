package parse

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// expr reads a scalar expression.
func (p *parser) expr() ast.Expr {
	e := p.additive()
	if ast.IsCondition(e) && p.err == nil {
		p.failCondition()
	}
	return e
}

// failCondition reports a condition in parentheses where a value belongs.
func (p *parser) failCondition() {
	if p.cond == nil {
		p.fail()
		return
	}
	if p.cond.kind == tokKeyword {
		p.failWith(sqlerr.SyntaxKeyword(p.cond.text).At(p.cond.line))
		return
	}
	p.failWith(sqlerr.Syntax(p.cond.near()).At(p.cond.line))
}

// condition reads a search condition; a bare value is Msg 4145.
func (p *parser) condition() ast.Expr {
	e := p.or()
	p.wantCondition(e)
	return e
}

func (p *parser) wantCondition(e ast.Expr) {
	if p.err == nil && !ast.IsCondition(e) {
		near := p.tok()
		if near.kind == tokEOF && p.i > 0 {
			near = &p.toks[p.i-1]
		}
		p.failWith(sqlerr.Make(4145, near.near()).At(near.line))
	}
}

func (p *parser) or() ast.Expr {
	l := p.and()
	for p.at("OR") {
		p.wantCondition(l)
		p.next()
		r := p.and()
		p.wantCondition(r)
		l = &ast.Binary{Op: "OR", L: l, R: r}
	}
	return l
}

func (p *parser) and() ast.Expr {
	l := p.not()
	for p.at("AND") {
		p.wantCondition(l)
		p.next()
		r := p.not()
		p.wantCondition(r)
		l = &ast.Binary{Op: "AND", L: l, R: r}
	}
	return l
}

func (p *parser) not() ast.Expr {
	if p.at("NOT") {
		if !p.enter() {
			return nil
		}
		defer p.leave()
		p.next()
		x := p.not()
		p.wantCondition(x)
		return &ast.Unary{Op: "NOT", X: x}
	}
	return p.predicate()
}

func (p *parser) predicate() ast.Expr {
	if p.at("EXISTS") {
		p.cond = p.next()
		return &ast.Exists{Query: p.parenQuery()}
	}
	l := p.additive()
	if p.err != nil {
		return l
	}
	if t := p.tok(); t.kind == tokOp {
		switch t.text {
		case "=", "<>", "<", "<=", ">", ">=":
			return p.comparison(l)
		}
		return l
	}
	not := p.at("NOT") && p.peek(1).kind == tokKeyword
	word := p.tok()
	if not {
		word = p.peek(1)
	}
	switch word.upper {
	case "IS", "BETWEEN", "IN", "LIKE":
	default:
		return l
	}
	if ast.IsCondition(l) {
		p.fail()
		return nil
	}
	if not {
		p.next()
	}
	p.cond = p.next()
	return p.wordPredicate(word.upper, l, not)
}

func (p *parser) wordPredicate(word string, l ast.Expr, not bool) ast.Expr {
	switch word {
	case "IS":
		if not {
			p.fail()
			return nil
		}
		not = p.accept("NOT")
		p.expect("NULL")
		return &ast.IsNull{X: l, Not: not}
	case "BETWEEN":
		lo := p.expr()
		p.expect("AND")
		return &ast.Between{X: l, Lo: lo, Hi: p.expr(), Not: not}
	case "LIKE":
		like := &ast.Like{X: l, Pattern: p.expr(), Not: not}
		if p.accept("ESCAPE") {
			like.Escape = p.expr()
		}
		return like
	}
	in := &ast.In{X: l, Not: not}
	if !p.expectOp("(") {
		return nil
	}
	if p.atQuery() {
		in.Query = p.query()
	} else {
		in.List = p.exprList()
	}
	p.expectOp(")")
	return in
}

func (p *parser) comparison(l ast.Expr) ast.Expr {
	if ast.IsCondition(l) {
		p.fail()
		return nil
	}
	p.cond = p.next()
	op := p.cond.text
	if p.atAny("ANY", "SOME", "ALL") {
		all := p.next().upper == "ALL"
		return &ast.Quantified{X: l, Op: op, All: all, Query: p.parenQuery()}
	}
	return &ast.Binary{Op: op, L: l, R: p.expr()}
}

func (p *parser) exprList() []ast.Expr {
	list := []ast.Expr{p.expr()}
	for p.acceptOp(",") {
		list = append(list, p.expr())
	}
	return list
}

// atQuery tells whether a query begins here: SELECT, WITH, or parentheses around one.
func (p *parser) atQuery() bool {
	n := 0
	for p.peek(n).kind == tokOp && p.peek(n).text == "(" {
		n++
	}
	return p.peek(n).upper == "SELECT" || n == 0 && p.at("WITH")
}

// parenQuery reads (query).
func (p *parser) parenQuery() *ast.Query {
	if !p.expectOp("(") {
		return nil
	}
	q := p.query()
	p.expectOp(")")
	return q
}

func (p *parser) additive() ast.Expr {
	l := p.multiplicative()
	for {
		t := p.tok()
		if t.kind != tokOp {
			return l
		}
		switch t.text {
		case "+", "-", "&", "|", "^":
		default:
			return l
		}
		l = p.binary(l, p.multiplicative)
	}
}

func (p *parser) multiplicative() ast.Expr {
	l := p.unary()
	for p.atOp("*") || p.atOp("/") || p.atOp("%") {
		l = p.binary(l, p.unary)
	}
	return l
}

// binary reads an operator and its right operand; neither side may be a condition.
func (p *parser) binary(l ast.Expr, operand func() ast.Expr) ast.Expr {
	if ast.IsCondition(l) {
		p.failCondition()
		return nil
	}
	op := p.next().text
	r := operand()
	if p.err == nil && ast.IsCondition(r) {
		p.failCondition()
	}
	return &ast.Binary{Op: op, L: l, R: r}
}

func (p *parser) unary() ast.Expr {
	if t := p.tok(); t.kind == tokOp && (t.text == "-" || t.text == "+" || t.text == "~") {
		if !p.enter() {
			return nil
		}
		defer p.leave()
		op := p.next().text
		x := p.unary()
		if p.err == nil && ast.IsCondition(x) {
			p.failCondition()
		}
		return &ast.Unary{Op: op, X: x}
	}
	return p.postfix(p.primary())
}

// postfix reads COLLATE and AT TIME ZONE behind an operand.
func (p *parser) postfix(x ast.Expr) ast.Expr {
	for p.err == nil {
		switch {
		case p.at("COLLATE"):
			p.next()
			x = &ast.Collate{X: x, Collation: p.collation()}
		case p.atSeq("AT", "TIME", "ZONE"):
			p.acceptSeq("AT", "TIME", "ZONE")
			x = &ast.AtTimeZone{X: x, Zone: p.primary()}
		default:
			return x
		}
	}
	return x
}

func (p *parser) primary() ast.Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := p.tok()
	switch t.kind {
	case tokInteger, tokDecimal, tokFloat, tokMoney, tokString, tokNString, tokBinary:
		p.next()
		return &ast.Literal{Kind: literalKind(t.kind), Text: t.text}
	case tokVariable:
		return p.variable()
	case tokWord, tokQuoted:
		return p.nameOrCall()
	case tokKeyword:
		return p.keywordPrimary()
	}
	if p.atOp("(") {
		return p.parenthesised()
	}
	p.fail()
	return nil
}

func literalKind(k tokenKind) ast.LiteralKind {
	switch k {
	case tokInteger:
		return ast.LitInteger
	case tokDecimal:
		return ast.LitDecimal
	case tokFloat:
		return ast.LitFloat
	case tokMoney:
		return ast.LitMoney
	case tokString:
		return ast.LitString
	case tokNString:
		return ast.LitNString
	}
	return ast.LitBinary
}

func (p *parser) parenthesised() ast.Expr {
	if p.peekQueryInParens() {
		p.next()
		q := p.query()
		p.expectOp(")")
		return &ast.Subquery{Query: q}
	}
	p.next()
	x := p.or()
	p.expectOp(")")
	return x
}

// peekQueryInParens tells whether the parenthesis at the current token opens a
// query: ( SELECT or ( WITH.
func (p *parser) peekQueryInParens() bool {
	u := p.peek(1).upper
	return u == "SELECT" || u == "WITH"
}

func (p *parser) keywordPrimary() ast.Expr {
	t := p.tok()
	switch t.upper {
	case "NULL":
		p.next()
		return &ast.Literal{Kind: ast.LitNull}
	case "CASE":
		return p.caseExpr()
	case "CONVERT", "TRY_CONVERT":
		return p.convert()
	case "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER":
		p.next()
		return &ast.Call{Name: ast.Name(t.upper), Line: t.line}
	case "COALESCE", "NULLIF", "LEFT", "RIGHT":
		if op := p.peek(1); op.kind == tokOp && op.text == "(" {
			p.next()
			return p.call(ast.Name(t.upper), t.line)
		}
	}
	p.fail()
	return nil
}

func (p *parser) caseExpr() ast.Expr {
	p.next()
	c := &ast.Case{}
	if !p.at("WHEN") {
		c.Operand = p.expr()
	}
	for p.accept("WHEN") {
		var w ast.When
		if c.Operand == nil {
			w.Cond = p.condition()
		} else {
			w.Cond = p.expr()
		}
		p.expect("THEN")
		w.Then = p.expr()
		c.Whens = append(c.Whens, w)
	}
	if len(c.Whens) == 0 {
		p.fail()
		return nil
	}
	if p.accept("ELSE") {
		c.Else = p.expr()
	}
	p.expect("END")
	return c
}
