package parse

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// nameOrCall reads a column reference or a function call.
func (p *parser) nameOrCall() ast.Expr {
	t := p.tok()
	if t.kind == tokWord && p.peek(1).kind == tokOp && p.peek(1).text == "(" {
		if x, ok := p.specialCall(t); ok {
			return x
		}
	}
	parts := p.dotted()
	if p.atOp("(") && p.err == nil {
		return p.call(ast.Name(parts...), t.line)
	}
	return &ast.ColumnRef{Parts: parts, Line: t.line}
}

// specialCall reads the functions with a syntax of their own.
func (p *parser) specialCall(t *token) (ast.Expr, bool) {
	switch t.upper {
	case "CAST", "TRY_CAST":
		p.next()
		p.next()
		c := &ast.Cast{X: p.expr(), Try: t.upper == "TRY_CAST"}
		p.expect("AS")
		c.Type = p.typeName()
		p.expectOp(")")
		return c, true
	case "PARSE", "TRY_PARSE":
		p.next()
		p.next()
		c := &ast.ParseText{X: p.expr(), Try: t.upper == "TRY_PARSE"}
		p.expect("AS")
		c.Type = p.typeName()
		if p.accept("USING") {
			c.Culture = p.expr()
		}
		p.expectOp(")")
		return c, true
	case "TRIM":
		return p.trim(), true
	case "IIF":
		return p.iif(), true
	}
	return nil, false
}

// iif reads IIF(condition, a, b), which is a CASE.
func (p *parser) iif() ast.Expr {
	p.next()
	p.next()
	c := &ast.Case{}
	cond := p.condition()
	p.expectOp(",")
	c.Whens = []ast.When{{Cond: cond, Then: p.expr()}}
	p.expectOp(",")
	c.Else = p.expr()
	p.expectOp(")")
	return c
}

// trim reads TRIM([characters FROM] x).
func (p *parser) trim() ast.Expr {
	t := p.next()
	p.next()
	c := &ast.Call{Name: ast.Name("TRIM"), Line: t.line}
	c.Args = append(c.Args, p.expr())
	if p.accept("FROM") {
		c.Args = []ast.Expr{p.expr(), c.Args[0]}
	}
	p.expectOp(")")
	return c
}

// convert reads CONVERT(type, x [, style]).
func (p *parser) convert() ast.Expr {
	t := p.next()
	if !p.expectOp("(") {
		return nil
	}
	c := &ast.Convert{Type: p.typeName(), Try: t.upper == "TRY_CONVERT"}
	p.expectOp(",")
	c.X = p.expr()
	if p.acceptOp(",") {
		c.Style = p.expr()
	}
	p.expectOp(")")
	return c
}

// call reads the arguments of a function and its OVER clause.
func (p *parser) call(name ast.ObjectName, line int) ast.Expr {
	p.next()
	c := &ast.Call{Name: name, Line: line}
	switch {
	case p.atOp("*"):
		p.next()
		c.Star = true
	case p.atOp(")"):
	default:
		if p.accept("DISTINCT") {
			c.Distinct = true
		} else {
			p.accept("ALL")
		}
		c.Args = p.callArgs()
	}
	p.expectOp(")")
	if p.atSeq("WITHIN", "GROUP") {
		p.acceptSeq("WITHIN", "GROUP")
		p.expectOp("(")
		c.Within = p.orderBy()
		p.expectOp(")")
	}
	if p.accept("OVER") {
		c.Over = p.over()
	}
	return c
}

func (p *parser) callArgs() []ast.Expr {
	var args []ast.Expr
	for {
		if p.at("DEFAULT") {
			p.next()
			args = append(args, &ast.Literal{Kind: ast.LitDefault})
		} else {
			args = append(args, p.expr())
		}
		if !p.acceptOp(",") {
			return args
		}
	}
}

func (p *parser) over() *ast.Over {
	o := &ast.Over{}
	if !p.expectOp("(") {
		return o
	}
	if p.at("PARTITION") {
		p.next()
		p.expect("BY")
		o.Partition = p.exprList()
	}
	if p.at("ORDER") {
		o.Order = p.orderBy()
	}
	if p.atAny("ROWS", "RANGE") {
		o.Frame = p.frame()
	}
	p.expectOp(")")
	return o
}

func (p *parser) frame() *ast.Frame {
	f := &ast.Frame{Rows: p.next().upper == "ROWS", Hi: ast.CurrentRow}
	if p.accept("BETWEEN") {
		f.Lo, f.LoN = p.frameBound()
		p.expect("AND")
		f.Hi, f.HiN = p.frameBound()
		return f
	}
	f.Lo, f.LoN = p.frameBound()
	return f
}

func (p *parser) frameBound() (ast.FrameBound, ast.Expr) {
	switch {
	case p.acceptSeq("UNBOUNDED", "PRECEDING"):
		return ast.UnboundedPreceding, nil
	case p.acceptSeq("UNBOUNDED", "FOLLOWING"):
		return ast.UnboundedFollowing, nil
	case p.acceptSeq("CURRENT", "ROW"):
		return ast.CurrentRow, nil
	}
	n := p.expr()
	if p.accept("PRECEDING") {
		return ast.Preceding, n
	}
	if !p.accept("FOLLOWING") {
		p.fail()
	}
	return ast.Following, n
}

// orderBy reads ORDER BY x [ASC|DESC], ….
func (p *parser) orderBy() []ast.OrderBy {
	p.expect("ORDER")
	p.expect("BY")
	var list []ast.OrderBy
	for p.err == nil {
		o := ast.OrderBy{X: p.expr()}
		if p.accept("DESC") {
			o.Desc = true
		} else {
			p.accept("ASC")
		}
		list = append(list, o)
		if !p.acceptOp(",") {
			break
		}
	}
	return list
}

// isHintName knows the table hints that are accepted.
func isHintName(upper string) bool {
	switch upper {
	case "NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "REPEATABLEREAD", "SERIALIZABLE",
		"HOLDLOCK", "SNAPSHOT", "UPDLOCK", "XLOCK", "TABLOCK", "TABLOCKX", "PAGLOCK", "ROWLOCK", "READPAST",
		"NOWAIT", "NOEXPAND", "INDEX", "FORCESEEK", "FORCESCAN", "KEEPIDENTITY", "KEEPDEFAULTS", "IGNORE_CONSTRAINTS",
		"IGNORE_TRIGGERS", "FORCE":
		return true
	}
	return false
}

// hints reads the list in parentheses behind WITH.
func (p *parser) hints() []ast.Hint {
	if !p.expectOp("(") {
		return nil
	}
	var list []ast.Hint
	for p.err == nil && !p.atOp(")") {
		t := p.tok()
		if t.upper == "" {
			p.fail()
			return nil
		}
		if !isHintName(t.upper) {
			p.failWith(sqlerr.Make(321, t.text).At(t.line))
			return nil
		}
		p.next()
		h := ast.Hint{Name: t.upper}
		if p.acceptOp("(") {
			h.Args = p.hintArgs()
		} else if p.acceptOp("=") {
			h.Args = p.hintArgs()
		}
		list = append(list, h)
		p.acceptOp(",")
	}
	p.expectOp(")")
	return list
}

// hintArgs reads up to the closing parenthesis of a hint, or one word behind =.
func (p *parser) hintArgs() []string {
	p.acceptOp("(")
	var args []string
	for p.err == nil {
		t := p.tok()
		if !isName(t) && t.kind != tokInteger {
			p.fail()
			return nil
		}
		args = append(args, p.next().text)
		if !p.acceptOp(",") {
			break
		}
	}
	p.acceptOp(")")
	return args
}
