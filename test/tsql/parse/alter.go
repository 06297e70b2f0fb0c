package parse

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
)

func (p *parser) alter(pos ast.Pos) ast.Statement {
	switch t := p.tok(); t.upper {
	case "TABLE":
		return p.alterTable(pos)
	case "DATABASE":
		return p.alterDatabase(pos)
	case "PROCEDURE", "PROC":
		p.next()
		return p.procedure(pos, &ast.CreateProcedure{Alter: true})
	case "ROLE", "LOGIN", "USER", "SERVER":
		return p.alterPrincipal(pos)
	}
	p.fail()
	return nil
}

func (p *parser) alterTable(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.AlterTable{Name: p.objectName()}
	if p.at("WITH") && (p.peek(1).upper == "CHECK" || p.peek(1).upper == "NOCHECK") {
		p.next()
		p.next()
		if !p.atAny("ADD", "CHECK") {
			p.fail()
			return nil
		}
	}
	switch {
	case p.accept("ADD"):
		p.alterAdd(s)
	case p.accept("DROP"):
		p.alterDrop(s)
	case p.acceptSeq("ALTER", "COLUMN"):
		p.alterColumn(s)
	case p.acceptSeq("SWITCH", "TO"):
		s.Switch = p.objectName()
	case p.accept("SET"):
		for _, o := range p.options() {
			name, value, _ := strings.Cut(o, " = ")
			s.SetOptions = append(s.SetOptions, ast.Option{Name: strings.ToUpper(name), Value: value})
		}
	case p.at("CHECK"), p.at("NOCHECK"), p.at("ENABLE"), p.at("DISABLE"):
		on := p.atAny("CHECK", "ENABLE")
		p.next()
		if !p.accept("CONSTRAINT") {
			p.expect("TRIGGER")
		}
		names := []string{p.allOrIdent()}
		for p.acceptOp(",") {
			names = append(names, p.ident())
		}
		if on {
			s.Enable = names
		} else {
			s.Disable = names
		}
	default:
		p.fail()
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) allOrIdent() string {
	if p.accept("ALL") {
		return "ALL"
	}
	return p.ident()
}

func (p *parser) alterAdd(s *ast.AlterTable) {
	for p.err == nil {
		switch {
		case p.at("DEFAULT") || p.at("CONSTRAINT") && p.peek(2).upper == "DEFAULT":
			s.AddConstraints = append(s.AddConstraints, p.addDefault())
		case p.atConstraint():
			s.AddConstraints = append(s.AddConstraints, p.tableConstraint())
		default:
			s.Add = append(s.Add, p.columnDef(len(s.Add)+1))
		}
		if !p.acceptOp(",") {
			break
		}
	}
}

// addDefault reads [CONSTRAINT n] DEFAULT x FOR column.
func (p *parser) addDefault() ast.Constraint {
	c := ast.Constraint{Kind: ast.Default}
	if p.accept("CONSTRAINT") {
		c.Name = p.ident()
	}
	p.expect("DEFAULT")
	c.Expr = p.expr()
	p.expect("FOR")
	c.For = p.ident()
	p.acceptSeq("WITH", "VALUES")
	return c
}

func (p *parser) alterDrop(s *ast.AlterTable) {
	column := false
	for p.err == nil {
		switch {
		case p.accept("COLUMN"):
			column = true
			s.IfExists = p.acceptSeq("IF", "EXISTS") || s.IfExists
		case p.accept("CONSTRAINT"):
			column = false
			s.IfExists = p.acceptSeq("IF", "EXISTS") || s.IfExists
		}
		if name := p.ident(); column {
			s.DropColumns = append(s.DropColumns, name)
		} else {
			s.DropConstraints = append(s.DropConstraints, name)
		}
		if !p.acceptOp(",") {
			break
		}
	}
}

func (p *parser) alterColumn(s *ast.AlterTable) {
	c := ast.ColumnDef{Name: p.ident(), Type: p.declaredType(1)}
	for p.err == nil && p.atAny("COLLATE", "NULL", "NOT", "SPARSE") {
		p.columnOption(&c)
	}
	s.AlterColumn = &c
}

func (p *parser) alterDatabase(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.AlterDatabase{}
	if p.at("CURRENT") {
		p.next()
	} else {
		s.Name = p.ident()
	}
	if p.accept("COLLATE") {
		s.Collation = p.collation()
	} else {
		p.expect("SET")
		for p.err == nil {
			s.Options = append(s.Options, p.databaseOption())
			if !p.acceptOp(",") {
				break
			}
		}
		if p.accept("WITH") {
			p.termination()
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// databaseOption reads NAME [ON|OFF|word|= value].
func (p *parser) databaseOption() ast.Option {
	var o ast.Option
	t := p.tok()
	if t.upper == "" {
		p.fail()
		return o
	}
	o.Name = p.next().upper
	p.acceptOp("=")
	t = p.tok()
	switch {
	case t.upper == "ON" || t.upper == "OFF" || t.kind == tokWord && t.upper != "WITH":
		o.Value = p.next().upper
	case t.kind == tokInteger:
		o.Value = p.next().text
	}
	if p.acceptOp("(") {
		p.i--
		o.Value += " (" + strings.Join(p.options(), ", ") + ")"
	}
	return o
}

// termination reads ROLLBACK IMMEDIATE, ROLLBACK AFTER n [SECONDS] or NO_WAIT.
func (p *parser) termination() {
	switch {
	case p.accept("NO_WAIT"):
	case p.acceptSeq("ROLLBACK", "IMMEDIATE"):
	case p.acceptSeq("ROLLBACK", "AFTER"):
		p.integer()
		p.accept("SECONDS")
	default:
		p.fail()
	}
}
