package parse

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// optionValue is what a SET option takes.
type optionValue uint8

const (
	valueNone  optionValue = iota // unknown option
	valueOnOff                    // ON or OFF, several options at once
	valueAny                      // a number, word, string or variable
)

// setOption knows the SET options by name.
func setOption(name string) optionValue {
	switch name {
	case "ANSI_DEFAULTS", "ANSI_NULL_DFLT_OFF", "ANSI_NULL_DFLT_ON", "ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS",
		"ARITHABORT", "ARITHIGNORE", "CONCAT_NULL_YIELDS_NULL", "CURSOR_CLOSE_ON_COMMIT", "FMTONLY", "FORCEPLAN",
		"IMPLICIT_TRANSACTIONS", "NOCOUNT", "NOEXEC", "NUMERIC_ROUNDABORT", "PARSEONLY", "QUOTED_IDENTIFIER",
		"REMOTE_PROC_TRANSACTIONS", "XACT_ABORT", "NO_BROWSETABLE":
		return valueOnOff
	case "CONTEXT_INFO", "DATEFIRST", "DATEFORMAT", "DEADLOCK_PRIORITY", "LANGUAGE", "LOCK_TIMEOUT",
		"QUERY_GOVERNOR_COST_LIMIT", "ROWCOUNT", "TEXTSIZE":
		return valueAny
	}
	return valueNone
}

// set reads SET @v = x and SET options.
func (p *parser) set(pos ast.Pos) ast.Statement {
	p.next()
	t := p.tok()
	if t.kind == tokVariable && !strings.HasPrefix(t.text, "@@") {
		return p.setVariable(pos)
	}
	switch t.upper {
	case "TRANSACTION":
		return p.setIsolation(pos)
	case "IDENTITY_INSERT":
		p.next()
		s := &ast.SetOption{Names: []string{"IDENTITY_INSERT"}, Table: p.objectName()}
		s.Value = p.onOff()
		return p.endSet(s, pos)
	case "STATISTICS":
		p.next()
		s := &ast.SetOption{}
		for p.err == nil {
			if !p.atAny("IO", "TIME", "XML", "PROFILE") {
				p.fail()
				return nil
			}
			s.Names = append(s.Names, "STATISTICS "+p.next().upper)
			if !p.acceptOp(",") {
				break
			}
		}
		s.Value = p.onOff()
		return p.endSet(s, pos)
	}
	switch setOption(t.upper) {
	case valueOnOff:
		return p.setOnOff(pos)
	case valueAny:
		return p.setValue(pos)
	}
	if t.upper != "" {
		p.failWith(unknownOption(t))
		return nil
	}
	p.fail()
	return nil
}

func unknownOption(t *token) *sqlerr.Error {
	return sqlerr.New(195, 15, 5, "'%s' is not a recognized SET option.", t.text).At(t.line)
}

func (p *parser) endSet(s *ast.SetOption, pos ast.Pos) ast.Statement {
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) onOff() string {
	if p.atAny("ON", "OFF") {
		return p.next().upper
	}
	p.fail()
	return ""
}

func (p *parser) setOnOff(pos ast.Pos) ast.Statement {
	s := &ast.SetOption{}
	for p.err == nil {
		t := p.tok()
		if setOption(t.upper) != valueOnOff {
			p.fail()
			return nil
		}
		s.Names = append(s.Names, p.next().upper)
		if !p.acceptOp(",") {
			break
		}
	}
	s.Value = p.onOff()
	return p.endSet(s, pos)
}

func (p *parser) setValue(pos ast.Pos) ast.Statement {
	s := &ast.SetOption{Names: []string{p.next().upper}}
	t := p.tok()
	switch {
	case t.kind == tokWord:
		s.Value = p.next().upper
	case t.kind == tokQuoted:
		s.Value = p.next().text
	case t.kind == tokString, t.kind == tokNString, t.kind == tokInteger, t.kind == tokBinary, t.kind == tokVariable, p.atOp("-"):
		start := p.tok().start
		s.X = p.execValue()
		s.Value = p.text[start:p.toks[max(p.i-1, 0)].end]
		if lit, ok := s.X.(*ast.Literal); ok {
			s.Value = lit.Text
		}
	default:
		p.fail()
		return nil
	}
	return p.endSet(s, pos)
}

func (p *parser) setIsolation(pos ast.Pos) ast.Statement {
	if !p.acceptSeq("TRANSACTION", "ISOLATION", "LEVEL") {
		p.next()
		p.fail()
		return nil
	}
	s := &ast.SetOption{Names: []string{"TRANSACTION ISOLATION LEVEL"}}
	for _, level := range [...][2]string{{"READ", "UNCOMMITTED"}, {"READ", "COMMITTED"}, {"REPEATABLE", "READ"}} {
		if p.acceptSeq(level[0], level[1]) {
			s.Value = level[0] + " " + level[1]
			return p.endSet(s, pos)
		}
	}
	if !p.atAny("SNAPSHOT", "SERIALIZABLE") {
		p.fail()
		return nil
	}
	s.Value = p.next().upper
	return p.endSet(s, pos)
}

func (p *parser) setVariable(pos ast.Pos) ast.Statement {
	t := p.next()
	p.useScalar(t)
	if !p.isAssignOp(p.tok()) {
		p.fail()
		return nil
	}
	s := &ast.SetVariable{Name: t.text, Op: p.next().text}
	s.X = p.expr()
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}
