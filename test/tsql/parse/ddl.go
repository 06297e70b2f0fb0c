package parse

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// define reads CREATE, ALTER, DROP and the other statements that the host executes.
func (p *parser) define(word string, pos ast.Pos) ast.Statement {
	p.next()
	switch word {
	case "CREATE":
		return p.create(pos)
	case "ALTER":
		return p.alter(pos)
	case "DROP":
		return p.drop(pos)
	case "GRANT", "DENY", "REVOKE":
		return p.permission(ast.PermissionKind(word), pos)
	case "TRUNCATE":
		p.expect("TABLE")
		s := &ast.Truncate{Table: p.objectName()}
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	case "KILL":
		s := &ast.Kill{Session: int(p.integer())}
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	}
	s := &ast.Checkpoint{Pos: pos}
	if p.kind() == tokInteger {
		p.next()
	}
	p.ended(&s.Pos)
	return s
}

func (p *parser) create(pos ast.Pos) ast.Statement {
	t := p.tok()
	switch t.upper {
	case "OR":
		p.next()
		p.expect("ALTER")
		if !p.atAny("PROCEDURE", "PROC") {
			p.fail()
			return nil
		}
		p.next()
		return p.procedure(pos, &ast.CreateProcedure{OrAlter: true})
	case "PROCEDURE", "PROC":
		p.next()
		return p.procedure(pos, &ast.CreateProcedure{})
	case "TABLE":
		p.next()
		s := &ast.CreateTable{Name: p.objectName()}
		p.tableBody(s)
		p.tableOptions()
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	case "UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX":
		return p.createIndex(pos)
	case "SCHEMA":
		return p.createSchema(pos)
	case "DATABASE":
		p.next()
		s := &ast.CreateDatabase{Name: p.ident()}
		if p.accept("COLLATE") {
			s.Collation = p.collation()
		}
		s.Pos = pos
		p.ended(&s.Pos)
		return s
	case "LOGIN", "USER", "ROLE":
		return p.createPrincipal(ast.ObjectKind(t.upper), pos)
	}
	p.fail()
	return nil
}

func (p *parser) createSchema(pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.CreateSchema{}
	if !p.at("AUTHORIZATION") {
		s.Name = p.ident()
	}
	if p.accept("AUTHORIZATION") {
		s.Owner = p.ident()
		if s.Name == "" {
			s.Name = s.Owner
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// tableBody reads the columns and constraints of a table.
func (p *parser) tableBody(s *ast.CreateTable) {
	p.expectOp("(")
	for p.err == nil {
		if p.atConstraint() {
			s.Constraints = append(s.Constraints, p.tableConstraint())
		} else {
			s.Columns = append(s.Columns, p.columnDef(len(s.Columns)+1))
		}
		if !p.acceptOp(",") || p.atOp(")") {
			break
		}
	}
	p.expectOp(")")
	if e := checkDuplicates(s.Columns, s.Name.Name); e != nil {
		p.lateError(e.At(p.tok().line))
	}
}

// tableOptions passes ON filegroup, TEXTIMAGE_ON and WITH (…), which change
// nothing here.
func (p *parser) tableOptions() {
	for p.err == nil {
		switch {
		case p.accept("ON"), p.accept("TEXTIMAGE_ON"):
			p.fileGroup()
		case p.at("WITH") && p.peek(1).kind == tokOp && p.peek(1).text == "(":
			p.next()
			p.options()
		default:
			return
		}
	}
}

func (p *parser) fileGroup() {
	if p.kind() == tokString || p.at("PRIMARY") || p.at("DEFAULT") {
		p.next()
		return
	}
	p.ident()
}

func (p *parser) atConstraint() bool {
	return p.atAny("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
}

func (p *parser) columnDef(ordinal int) ast.ColumnDef {
	c := ast.ColumnDef{Name: p.ident()}
	if p.accept("AS") {
		c.Computed = p.expr()
		c.Persist = p.accept("PERSISTED")
	} else {
		c.Type = p.declaredType(ordinal)
	}
	for p.err == nil && p.columnOption(&c) {
	}
	return c
}

// columnOption reads one clause behind the type; false when there is none.
func (p *parser) columnOption(c *ast.ColumnDef) bool {
	switch t := p.tok(); t.upper {
	case "COLLATE":
		p.next()
		c.Type.Collation = p.collation()
	case "SPARSE":
		p.next()
		c.Sparse = true
	case "ROWGUIDCOL":
		p.next()
		c.RowGUID = true
	case "NULL":
		p.next()
		c.Null = new(true)
	case "NOT":
		if p.acceptSeq("NOT", "FOR", "REPLICATION") {
			return true
		}
		p.next()
		p.expect("NULL")
		c.Null = new(false)
	case "IDENTITY":
		c.Identity = p.identity()
	case "CONSTRAINT", "DEFAULT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "REFERENCES":
		p.columnConstraint(c)
	default:
		return false
	}
	return true
}

func (p *parser) identity() *ast.Identity {
	p.next()
	id := &ast.Identity{Seed: 1, Increment: 1}
	if p.acceptOp("(") {
		id.Seed = p.integer()
		p.expectOp(",")
		id.Increment = p.integer()
		p.expectOp(")")
	}
	return id
}

func (p *parser) columnConstraint(c *ast.ColumnDef) {
	var name string
	if p.accept("CONSTRAINT") {
		name = p.ident()
	}
	if p.accept("DEFAULT") {
		c.Default = &ast.Constraint{Name: name, Kind: ast.Default, Expr: p.expr(), For: c.Name}
		if p.atSeq("WITH", "VALUES") {
			p.acceptSeq("WITH", "VALUES")
		}
		return
	}
	if name != "" && p.at("NULL") || p.at("NOT") {
		return // CONSTRAINT n NOT NULL
	}
	con := p.constraintBody(name, c.Name)
	if p.err == nil {
		c.Checks = append(c.Checks, con)
	}
}

func (p *parser) tableConstraint() ast.Constraint {
	var name string
	if p.accept("CONSTRAINT") {
		name = p.ident()
	}
	return p.constraintBody(name, "")
}

// constraintBody reads a constraint behind its name. column is set for one that
// is written at a column.
func (p *parser) constraintBody(name, column string) ast.Constraint {
	c := ast.Constraint{Name: name}
	switch t := p.tok(); t.upper {
	case "PRIMARY":
		p.next()
		p.expect("KEY")
		c.Kind = ast.PrimaryKey
		p.keyBody(&c, column)
	case "UNIQUE":
		p.next()
		c.Kind = ast.Unique
		p.keyBody(&c, column)
	case "CHECK":
		p.next()
		c.Kind = ast.Check
		p.acceptSeq("NOT", "FOR", "REPLICATION")
		p.expectOp("(")
		c.Expr = p.condition()
		p.expectOp(")")
		if column != "" {
			c.Columns = []ast.IndexColumn{{Name: column}}
		}
	case "FOREIGN", "REFERENCES":
		c.Kind = ast.ForeignKey
		p.foreignKey(&c, column)
	default:
		p.fail()
	}
	return c
}

func (p *parser) keyBody(c *ast.Constraint, column string) {
	switch {
	case p.accept("CLUSTERED"):
		c.Clustered = new(true)
	case p.accept("NONCLUSTERED"):
		c.Clustered = new(false)
	}
	if p.atOp("(") {
		c.Columns = p.indexColumns()
	} else if column != "" {
		c.Columns = []ast.IndexColumn{{Name: column}}
	} else {
		p.fail()
	}
	p.tableOptions()
}

func (p *parser) foreignKey(c *ast.Constraint, column string) {
	if p.accept("FOREIGN") {
		p.expect("KEY")
		if p.atOp("(") {
			c.Columns = p.indexColumns()
		}
	}
	if len(c.Columns) == 0 && column != "" {
		c.Columns = []ast.IndexColumn{{Name: column}}
	}
	p.expect("REFERENCES")
	c.References = p.objectName()
	if p.atOp("(") {
		c.RefColumns = p.identList()
	}
	for p.err == nil && p.at("ON") && (p.peek(1).upper == "DELETE" || p.peek(1).upper == "UPDATE") {
		p.next()
		which := p.next().upper
		var action string
		switch {
		case p.acceptSeq("NO", "ACTION"):
			action = "NO ACTION"
		case p.accept("CASCADE"):
			action = "CASCADE"
		case p.acceptSeq("SET", "NULL"):
			action = "SET NULL"
		case p.acceptSeq("SET", "DEFAULT"):
			action = "SET DEFAULT"
		default:
			p.fail()
		}
		if which == "DELETE" {
			c.OnDelete = action
		} else {
			c.OnUpdate = action
		}
	}
	p.acceptSeq("NOT", "FOR", "REPLICATION")
}

// indexColumns reads (a [ASC|DESC], …).
func (p *parser) indexColumns() []ast.IndexColumn {
	p.expectOp("(")
	var list []ast.IndexColumn
	for p.err == nil {
		c := ast.IndexColumn{Name: p.ident()}
		if p.accept("DESC") {
			c.Desc = true
		} else {
			p.accept("ASC")
		}
		list = append(list, c)
		if !p.acceptOp(",") {
			break
		}
	}
	p.expectOp(")")
	return list
}

func (p *parser) createIndex(pos ast.Pos) ast.Statement {
	s := &ast.CreateIndex{Unique: p.accept("UNIQUE")}
	if p.accept("CLUSTERED") {
		s.Clustered = true
	} else {
		p.accept("NONCLUSTERED")
	}
	p.expect("INDEX")
	s.Name = p.ident()
	p.expect("ON")
	s.Table = p.objectName()
	s.Columns = p.indexColumns()
	if p.accept("INCLUDE") {
		s.Include = p.identList()
	}
	s.Where = p.whereClause()
	p.tableOptions()
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) drop(pos ast.Pos) ast.Statement {
	s := &ast.Drop{}
	t := p.tok()
	switch t.upper {
	case "TABLE", "VIEW", "PROCEDURE", "FUNCTION", "SCHEMA", "DATABASE", "INDEX", "USER", "ROLE", "LOGIN", "TRIGGER":
		s.Kind = ast.ObjectKind(t.upper)
	case "PROC":
		s.Kind = ast.ObjProcedure
	default:
		p.fail()
		return nil
	}
	p.next()
	s.IfExists = p.acceptSeq("IF", "EXISTS")
	for p.err == nil {
		s.Names = append(s.Names, p.objectName())
		if s.Kind == ast.ObjIndex {
			if p.accept("ON") {
				s.Tables = append(s.Tables, p.objectName())
			} else { // old form: table.index
				n := &s.Names[len(s.Names)-1]
				if n.Schema == "" {
					p.fail()
					return nil
				}
				s.Tables = append(s.Tables, ast.ObjectName{Schema: n.Database, Name: n.Schema})
				*n = ast.Name(n.Name)
			}
		}
		if !p.acceptOp(",") {
			break
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// checkDuplicates reports a column defined twice.
func checkDuplicates(columns []ast.ColumnDef, table string) *sqlerr.Error {
	for i := range columns {
		for j := range i {
			if equalName(columns[i].Name, columns[j].Name) {
				return sqlerr.Make(2705, columns[i].Name, table)
			}
		}
	}
	return nil
}

func equalName(a, b string) bool {
	return (*sqltype.Collation)(nil).CompareText(a, b) == 0
}
