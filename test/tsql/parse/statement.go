package parse

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// statement reads one statement with its semicolon. first is set for the first one of
// the batch, which may be a procedure call without EXEC.
func (p *parser) statement(first bool) ast.Statement {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := p.tok()
	pos := p.pos()
	var s ast.Statement
	switch {
	case t.kind == tokKeyword:
		s = p.keywordStatement(t.upper, pos)
	case p.atOp("("):
		s = p.selectStmt(pos, nil)
	case t.upper == "THROW":
		s = p.throw(pos)
	case first && isName(t):
		s = p.bareCall(pos)
	default:
		p.fail()
	}
	p.acceptOp(";")
	return s
}

func (p *parser) keywordStatement(word string, pos ast.Pos) ast.Statement {
	switch word {
	case "SELECT":
		return p.selectStmt(pos, nil)
	case "WITH":
		return p.withStatement(pos)
	case "INSERT":
		return p.insert(pos, nil)
	case "UPDATE":
		return p.update(pos, nil)
	case "DELETE":
		return p.delete(pos, nil)
	case "MERGE":
		return p.merge(pos, nil)
	case "DECLARE":
		return p.declareStmt(pos)
	case "SET":
		return p.set(pos)
	case "EXEC", "EXECUTE":
		return p.exec(pos)
	case "BEGIN", "COMMIT", "ROLLBACK", "SAVE":
		return p.beginEtc(word, pos)
	case "IF", "WHILE", "BREAK", "CONTINUE", "RETURN", "PRINT", "RAISERROR", "WAITFOR", "USE":
		return p.control(word, pos)
	case "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "DENY", "REVOKE", "KILL", "CHECKPOINT":
		return p.define(word, pos)
	}
	p.fail()
	return nil
}

func (p *parser) selectStmt(pos ast.Pos, with []ast.CTE) ast.Statement {
	q := &ast.Query{Pos: pos, With: with}
	p.queryRest(q)
	s := &ast.SelectStmt{Pos: pos, Query: q}
	p.ended(&s.Pos)
	return s
}

// withStatement reads WITH … and the statement that uses it.
func (p *parser) withStatement(pos ast.Pos) ast.Statement {
	with := p.ctes()
	switch p.tok().upper {
	case "INSERT":
		return p.insert(pos, with)
	case "UPDATE":
		return p.update(pos, with)
	case "DELETE":
		return p.delete(pos, with)
	case "MERGE":
		return p.merge(pos, with)
	}
	return p.selectStmt(pos, with)
}

func (p *parser) declareStmt(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.Declare{}
	for p.err == nil {
		t := p.tok()
		if t.kind != tokVariable || strings.HasPrefix(t.text, "@@") {
			p.fail()
			return nil
		}
		p.next()
		p.accept("AS")
		d := ast.Declaration{Name: t.text}
		if p.at("TABLE") {
			p.next()
			d.Table = &ast.CreateTable{Pos: pos}
			p.tableBody(d.Table)
			p.declare(t.text, varTable, t.line)
		} else {
			d.Type = p.declaredType(len(s.Vars) + 1)
			p.declare(t.text, varScalar, t.line)
			if p.acceptOp("=") {
				d.Value = p.expr()
			}
		}
		s.Vars = append(s.Vars, d)
		if !p.acceptOp(",") {
			break
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) exec(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.Exec{}
	if p.acceptOp("(") {
		s.Text = p.expr()
		p.expectOp(")")
		if p.at("AS") || p.at("AT") {
			p.fail()
		}
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	}
	if p.kind() == tokVariable {
		t := p.next()
		p.useScalar(t)
		if p.acceptOp("=") {
			s.Return = t.text
		} else {
			s.Variable = t.text
		}
	}
	if s.Variable == "" {
		if p.kind() == tokVariable {
			t := p.next()
			p.useScalar(t)
			s.Variable = t.text
		} else {
			s.Procedure = p.objectName()
		}
	}
	s.Args = p.execArgs()
	if p.at("WITH") && p.peek(1).upper == "RECOMPILE" {
		p.acceptSeq("WITH", "RECOMPILE")
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// bareCall reads a procedure call without EXEC.
func (p *parser) bareCall(pos ast.Pos) ast.Statement {
	s := &ast.Exec{Procedure: p.objectName()}
	s.Args = p.execArgs()
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) execArgs() []ast.ExecArg {
	var args []ast.ExecArg
	if !p.atExecArg() {
		return nil
	}
	named := 0
	for p.err == nil {
		var a ast.ExecArg
		t := p.tok()
		if t.kind == tokVariable && p.peek(1).kind == tokOp && p.peek(1).text == "=" {
			a.Name = t.text
			p.next()
			p.next()
			named = len(args) + 1
		} else if named > 0 {
			p.lateError(sqlerr.Make(119, len(args)+1).At(t.line))
		}
		a.X = p.execValue()
		if p.atAny("OUTPUT", "OUT") {
			p.next()
			a.Output = true
		}
		args = append(args, a)
		if !p.acceptOp(",") {
			break
		}
	}
	return args
}

// atExecArg tells whether an argument begins here.
func (p *parser) atExecArg() bool {
	t := p.tok()
	switch t.kind {
	case tokEOF:
		return false
	case tokKeyword:
		return t.upper == "NULL" || t.upper == "DEFAULT"
	case tokOp:
		return t.text == "-" || t.text == "+"
	case tokWord:
		return t.upper != "THROW"
	}
	return true
}

// execValue reads the value of an argument: a constant, a variable, DEFAULT, or
// a bare word, which is a string.
func (p *parser) execValue() ast.Expr {
	t := p.tok()
	switch t.kind {
	case tokWord, tokQuoted:
		p.next()
		return &ast.Literal{Kind: ast.LitNString, Text: t.text}
	case tokVariable:
		return p.variable()
	case tokKeyword:
		switch t.upper {
		case "NULL":
			p.next()
			return &ast.Literal{Kind: ast.LitNull}
		case "DEFAULT":
			p.next()
			return &ast.Literal{Kind: ast.LitDefault}
		}
	case tokOp:
		if (t.text == "-" || t.text == "+") && isNumber(p.peek(1).kind) {
			p.next()
			return &ast.Unary{Op: t.text, X: p.execValue()}
		}
	case tokEOF:
	default:
		p.next()
		return &ast.Literal{Kind: literalKind(t.kind), Text: t.text}
	}
	p.fail()
	return nil
}

func isNumber(k tokenKind) bool {
	return k == tokInteger || k == tokDecimal || k == tokFloat || k == tokMoney
}
