package parse

import (
	"maps"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// beginEtc reads BEGIN (a block, TRY or TRAN), COMMIT, ROLLBACK and SAVE.
func (p *parser) beginEtc(word string, pos ast.Pos) ast.Statement {
	p.next()
	switch word {
	case "BEGIN":
		switch {
		case p.atAny("TRAN", "TRANSACTION"):
			p.next()
			s := &ast.Tran{Kind: ast.BeginTran}
			p.tranName(s)
			if p.acceptSeq("WITH", "MARK") && p.kind() == tokString {
				p.next()
			}
			return p.endTran(s, pos)
		case p.at("TRY") && p.peek(1).text != ".":
			return p.try(pos)
		case p.at("DISTRIBUTED"):
			p.fail()
			return nil
		}
		return p.block(pos)
	case "SAVE":
		if !p.atAny("TRAN", "TRANSACTION") {
			p.fail()
			return nil
		}
		p.next()
		s := &ast.Tran{Kind: ast.SaveTran}
		p.tranName(s)
		if s.Name == "" && s.NameVar == "" {
			p.fail()
		}
		return p.endTran(s, pos)
	}
	s := &ast.Tran{Kind: ast.CommitTran}
	if word == "ROLLBACK" {
		s.Kind = ast.RollbackTran
	}
	if p.atAny("TRAN", "TRANSACTION") {
		p.next()
		p.tranName(s)
	} else {
		p.accept("WORK")
	}
	return p.endTran(s, pos)
}

func (p *parser) endTran(s *ast.Tran, pos ast.Pos) ast.Statement {
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) tranName(s *ast.Tran) {
	switch t := p.tok(); {
	case t.kind == tokQuoted, t.kind == tokWord && t.upper != "THROW":
		s.Name = p.next().text
	case t.kind == tokVariable:
		s.NameVar = p.variable().Name
	}
}

func (p *parser) block(pos ast.Pos) ast.Statement {
	s := &ast.Block{Body: p.statementsUntilEnd()}
	p.expect("END")
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// statementsUntilEnd reads statements up to END; there must be one.
func (p *parser) statementsUntilEnd() []ast.Statement {
	var list []ast.Statement
	for p.err == nil {
		p.skipSemicolons()
		if p.at("END") && len(list) > 0 || p.kind() == tokEOF {
			break
		}
		list = append(list, p.statement(false))
	}
	if p.kind() == tokEOF {
		p.fail()
	}
	return list
}

func (p *parser) try(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.Try{}
	s.Body = p.tryBody("TRY")
	if !p.acceptSeq("BEGIN", "CATCH") {
		p.fail()
		return nil
	}
	p.inTry++
	s.Catch = p.tryBody("CATCH")
	p.inTry--
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// tryBody reads statements up to END TRY or END CATCH; a CATCH block may be empty.
func (p *parser) tryBody(word string) []ast.Statement {
	var list []ast.Statement
	for p.err == nil {
		p.skipSemicolons()
		if p.kind() == tokEOF || p.at("END") && (len(list) > 0 || word == "CATCH") {
			break
		}
		list = append(list, p.statement(false))
	}
	if !p.acceptSeq("END", word) {
		p.fail()
	}
	return list
}

func (p *parser) control(word string, pos ast.Pos) ast.Statement {
	p.next()
	switch word {
	case "IF":
		return p.ifStmt(pos)
	case "WHILE":
		s := &ast.While{Cond: p.condition()}
		p.loops++
		s.Body = p.bodyStatement()
		p.loops--
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	case "BREAK", "CONTINUE":
		return p.loopJump(word, pos)
	case "RETURN":
		s := &ast.Return{}
		if p.startsExpr() {
			s.X = p.expr()
		}
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	case "PRINT":
		s := &ast.PrintStmt{X: p.expr()}
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	case "RAISERROR":
		return p.raise(pos)
	case "WAITFOR":
		return p.waitFor(pos)
	}
	s := &ast.Use{Database: p.ident()}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) loopJump(word string, pos ast.Pos) ast.Statement {
	p.ended(&pos)
	if word == "BREAK" {
		if p.loops == 0 {
			p.lateError(sqlerr.Make(135).At(pos.Line))
		}
		return &ast.Break{Pos: pos}
	}
	if p.loops == 0 {
		p.lateError(sqlerr.Make(136).At(pos.Line))
	}
	return &ast.Continue{Pos: pos}
}

// bodyStatement reads the statement behind IF, ELSE or WHILE.
func (p *parser) bodyStatement() ast.Statement {
	if p.kind() == tokEOF || p.atOp(";") {
		p.fail()
		return nil
	}
	return p.statement(false)
}

func (p *parser) ifStmt(pos ast.Pos) ast.Statement {
	s := &ast.If{Cond: p.condition()}
	s.Then = p.bodyStatement()
	if p.accept("ELSE") {
		s.Else = p.bodyStatement()
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// startsExpr tells whether an expression begins at the current token.
func (p *parser) startsExpr() bool {
	t := p.tok()
	switch t.kind {
	case tokEOF:
		return false
	case tokOp:
		return t.text == "(" || t.text == "-" || t.text == "+" || t.text == "~"
	case tokKeyword:
		return t.upper == "CASE" || t.upper == "NULL" || t.upper == "CONVERT" || t.upper == "COALESCE"
	case tokWord:
		return t.upper != "THROW"
	}
	return true
}

func (p *parser) throw(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.Throw{}
	switch p.kind() {
	case tokInteger, tokVariable:
		s.Number = p.expr()
		p.expectOp(",")
		s.Message = p.expr()
		p.expectOp(",")
		s.State = p.expr()
	default:
		if p.inTry == 0 {
			p.lateError(sqlerr.Make(10704).At(pos.Line))
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) raise(pos ast.Pos) ast.Statement {
	s := &ast.Raise{}
	p.expectOp("(")
	s.Message = p.expr()
	p.expectOp(",")
	s.Severity = p.expr()
	p.expectOp(",")
	s.State = p.expr()
	for p.acceptOp(",") {
		s.Args = append(s.Args, p.expr())
	}
	p.expectOp(")")
	if p.at("WITH") {
		p.next()
		for p.err == nil {
			if !p.atAny("NOWAIT", "LOG", "SETERROR") {
				p.fail()
				return nil
			}
			s.Options = append(s.Options, p.next().upper)
			if !p.acceptOp(",") {
				break
			}
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) waitFor(pos ast.Pos) ast.Statement {
	s := &ast.WaitFor{}
	switch {
	case p.accept("DELAY"):
	case p.accept("TIME"):
		s.Time = true
	default:
		p.fail()
		return nil
	}
	s.X = p.execValue()
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// procedure reads CREATE [OR ALTER] and ALTER PROCEDURE; its body is the rest
// of the batch.
func (p *parser) procedure(pos ast.Pos, s *ast.CreateProcedure) ast.Statement {
	if p.firstWord() != pos.Start {
		p.failWith(sqlerr.Make(111, "CREATE/ALTER PROCEDURE").At(pos.Line))
		return nil
	}
	s.Name = p.objectName()
	outer := maps.Clone(p.vars)
	clear(p.vars)
	paren := p.acceptOp("(")
	for p.kind() == tokVariable {
		s.Params = append(s.Params, p.procParam(len(s.Params)+1))
		if !p.acceptOp(",") {
			break
		}
	}
	if paren {
		p.expectOp(")")
	}
	if p.accept("WITH") {
		for p.err == nil && !p.at("AS") {
			if !p.atAny("RECOMPILE", "ENCRYPTION") && !p.acceptSeq("EXECUTE", "AS") {
				p.fail()
				return nil
			}
			p.next()
			p.acceptOp(",")
		}
	}
	p.expect("AS")
	for p.err == nil {
		p.skipSemicolons()
		if p.kind() == tokEOF {
			break
		}
		s.Body = append(s.Body, p.statement(false))
	}
	if len(s.Body) == 0 && p.err == nil {
		p.fail()
	}
	p.vars = outer
	s.Pos = pos
	p.ended(&s.Pos)
	s.Text = p.text[s.Start:s.End]
	return s
}

// firstWord is where the first token of the batch begins.
func (p *parser) firstWord() int { return p.toks[0].start }

func (p *parser) procParam(ordinal int) ast.ProcParam {
	t := p.next()
	p.accept("AS")
	param := ast.ProcParam{Name: t.text, Type: p.declaredType(ordinal)}
	p.declare(t.text, varScalar, t.line)
	p.accept("NULL")
	if p.acceptOp("=") {
		param.Default = p.execValue()
	}
	if p.atAny("OUTPUT", "OUT") {
		p.next()
		param.Output = true
	}
	if p.at("READONLY") || strings.EqualFold(p.tok().text, "VARYING") {
		p.fail()
	}
	return param
}
