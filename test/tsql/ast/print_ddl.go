package ast

import "strings"

func (p *printer) definition(s Statement) {
	switch x := s.(type) {
	case *CreateTable:
		p.w("CREATE TABLE ")
		p.name(x.Name)
		p.w(" ")
		p.tableBody(x)
	case *AlterTable:
		p.alterTable(x)
	case *CreateIndex:
		p.createIndex(x)
	case *Drop:
		p.drop(x)
	case *CreateSchema:
		p.w("CREATE SCHEMA ", Quote(x.Name))
		if x.Owner != "" {
			p.w(" AUTHORIZATION ", Quote(x.Owner))
		}
	case *CreateDatabase:
		p.w("CREATE DATABASE ", Quote(x.Name))
		if x.Collation != "" {
			p.w(" COLLATE ", x.Collation)
		}
	case *AlterDatabase:
		p.alterDatabase(x)
	case *Kill:
		p.w("KILL ", itoa(int64(x.Session)))
	case *Checkpoint:
		p.w("CHECKPOINT")
	case *CreateProcedure:
		p.procedure(x)
	default:
		p.security(s)
	}
}

func (p *printer) tableBody(t *CreateTable) {
	p.w("(")
	for i, c := range t.Columns {
		p.comma(i)
		p.columnDef(&c)
	}
	for _, c := range t.Constraints {
		p.w(", ")
		p.constraint(&c)
	}
	p.w(")")
}

func (p *printer) columnDef(c *ColumnDef) {
	p.w(Quote(c.Name), " ")
	if c.Computed != nil {
		p.w("AS ")
		p.expr(c.Computed)
		if c.Persist {
			p.w(" PERSISTED")
		}
	} else {
		p.typ(c.Type)
	}
	if c.Type.Collation != "" {
		p.w(" COLLATE ", c.Type.Collation)
	}
	if c.Sparse {
		p.w(" SPARSE")
	}
	if c.Identity != nil {
		p.w(" IDENTITY(", itoa(c.Identity.Seed), ", ", itoa(c.Identity.Increment), ")")
	}
	if c.RowGUID {
		p.w(" ROWGUIDCOL")
	}
	if c.Null != nil {
		p.w(not(!*c.Null), " NULL")
	}
	if c.Default != nil {
		p.w(" ")
		p.constraintName(c.Default)
		p.w("DEFAULT ")
		p.expr(c.Default.Expr)
	}
	for _, con := range c.Checks {
		p.w(" ")
		p.constraint(&con)
	}
}

func (p *printer) constraintName(c *Constraint) {
	if c.Name != "" {
		p.w("CONSTRAINT ", Quote(c.Name), " ")
	}
}

func (p *printer) constraint(c *Constraint) {
	p.constraintName(c)
	switch c.Kind {
	case PrimaryKey, Unique:
		p.w(map[ConstraintKind]string{PrimaryKey: "PRIMARY KEY", Unique: "UNIQUE"}[c.Kind])
		if c.Clustered != nil {
			p.w(map[bool]string{true: " CLUSTERED", false: " NONCLUSTERED"}[*c.Clustered])
		}
		p.w(" ")
		p.indexColumns(c.Columns)
	case Check:
		p.w("CHECK (")
		p.expr(c.Expr)
		p.w(")")
	case ForeignKey:
		p.w("FOREIGN KEY ")
		p.indexColumns(c.Columns)
		p.w(" REFERENCES ")
		p.name(c.References)
		if len(c.RefColumns) > 0 {
			p.w(" ")
			p.idents(c.RefColumns)
		}
		if c.OnDelete != "" {
			p.w(" ON DELETE ", c.OnDelete)
		}
		if c.OnUpdate != "" {
			p.w(" ON UPDATE ", c.OnUpdate)
		}
	case Default:
		p.w("DEFAULT ")
		p.expr(c.Expr)
		p.w(" FOR ", Quote(c.For))
	}
}

func (p *printer) indexColumns(cols []IndexColumn) {
	p.w("(")
	for i, c := range cols {
		p.comma(i)
		p.w(Quote(c.Name))
		if c.Desc {
			p.w(" DESC")
		}
	}
	p.w(")")
}

func (p *printer) alterTable(s *AlterTable) {
	p.w("ALTER TABLE ")
	p.name(s.Name)
	switch {
	case len(s.Add)+len(s.AddConstraints) > 0:
		p.w(" ADD ")
		for i := range s.Add {
			p.comma(i)
			p.columnDef(&s.Add[i])
		}
		for i := range s.AddConstraints {
			p.comma(i + len(s.Add))
			p.constraint(&s.AddConstraints[i])
		}
	case len(s.DropColumns)+len(s.DropConstraints) > 0:
		p.alterDrop(s)
	case s.AlterColumn != nil:
		p.w(" ALTER COLUMN ")
		p.columnDef(s.AlterColumn)
	case !s.Switch.IsZero():
		p.w(" SWITCH TO ")
		p.name(s.Switch)
	case len(s.SetOptions) > 0:
		p.w(" SET (")
		for i, o := range s.SetOptions {
			p.comma(i)
			p.w(o.Name, " = ", o.Value)
		}
		p.w(")")
	case len(s.Enable) > 0:
		p.w(" CHECK CONSTRAINT ")
		p.constraintNames(s.Enable)
	default:
		p.w(" NOCHECK CONSTRAINT ")
		p.constraintNames(s.Disable)
	}
}

func (p *printer) constraintNames(names []string) {
	for i, n := range names {
		p.comma(i)
		if n == "ALL" {
			p.w(n)
		} else {
			p.w(Quote(n))
		}
	}
}

func (p *printer) alterDrop(s *AlterTable) {
	p.w(" DROP ")
	exists := ""
	if s.IfExists {
		exists = "IF EXISTS "
	}
	for i, n := range s.DropColumns {
		p.comma(i)
		p.w("COLUMN ", exists, Quote(n))
	}
	for i, n := range s.DropConstraints {
		p.comma(i + len(s.DropColumns))
		p.w("CONSTRAINT ", exists, Quote(n))
	}
}

func (p *printer) createIndex(s *CreateIndex) {
	p.w("CREATE ")
	if s.Unique {
		p.w("UNIQUE ")
	}
	if s.Clustered {
		p.w("CLUSTERED ")
	}
	p.w("INDEX ", Quote(s.Name), " ON ")
	p.name(s.Table)
	p.w(" ")
	p.indexColumns(s.Columns)
	if len(s.Include) > 0 {
		p.w(" INCLUDE ")
		p.idents(s.Include)
	}
	p.where(s.Where)
}

func (p *printer) drop(s *Drop) {
	p.w("DROP ", string(s.Kind), " ")
	if s.IfExists {
		p.w("IF EXISTS ")
	}
	for i, n := range s.Names {
		p.comma(i)
		p.name(n)
		if s.Kind == ObjIndex {
			p.w(" ON ")
			p.name(s.Tables[i])
		}
	}
}

func (p *printer) alterDatabase(s *AlterDatabase) {
	p.w("ALTER DATABASE ")
	if s.Name == "" {
		p.w("CURRENT")
	} else {
		p.w(Quote(s.Name))
	}
	if s.Collation != "" {
		p.w(" COLLATE ", s.Collation)
		return
	}
	p.w(" SET ")
	for i, o := range s.Options {
		p.comma(i)
		p.w(strings.TrimSpace(o.Name + " " + o.Value))
	}
}

func (p *printer) procedure(s *CreateProcedure) {
	switch {
	case s.Alter:
		p.w("ALTER PROCEDURE ")
	case s.OrAlter:
		p.w("CREATE OR ALTER PROCEDURE ")
	default:
		p.w("CREATE PROCEDURE ")
	}
	p.name(s.Name)
	for i, a := range s.Params {
		if i > 0 {
			p.w(",")
		}
		p.w(" ", a.Name, " ")
		p.typ(a.Type)
		if a.Default != nil {
			p.w(" = ")
			p.execValue(a.Default)
		}
		if a.Output {
			p.w(" OUTPUT")
		}
	}
	p.w(" AS\n")
	p.statements(s.Body)
}

func (p *printer) options(password string, list []Option) {
	n := 0
	if password != "" {
		p.w(" WITH PASSWORD = ", quoteString(password))
		n++
	}
	for _, o := range list {
		if o.Name == "WITHOUT LOGIN" {
			continue
		}
		if n == 0 {
			p.w(" WITH ")
		} else {
			p.w(", ")
		}
		n++
		p.w(o.Name, " = ", optionValue(o.Value))
	}
}

func optionValue(v string) string {
	switch strings.ToUpper(v) {
	case "ON", "OFF", "NULL":
		return v
	}
	return quoteString(v)
}

func (p *printer) security(s Statement) {
	switch x := s.(type) {
	case *CreatePrincipal:
		p.w("CREATE ", string(x.Kind), " ", Quote(x.Name))
		if x.Login != "" {
			p.w(" FOR LOGIN ", Quote(x.Login))
		}
		for _, o := range x.Options {
			if o.Name == "WITHOUT LOGIN" {
				p.w(" WITHOUT LOGIN")
			}
		}
		if x.Owner != "" {
			p.w(" AUTHORIZATION ", Quote(x.Owner))
		}
		if x.Kind == ObjLogin && x.Password == "" && len(x.Options) == 0 {
			p.w(" FROM WINDOWS")
		}
		p.options(x.Password, x.Options)
	case *AlterPrincipal:
		p.alterPrincipal(x)
	case *GrantStmt:
		p.grant(x)
	}
}

func (p *printer) alterPrincipal(x *AlterPrincipal) {
	p.w("ALTER ")
	if x.Server {
		p.w("SERVER ")
	}
	p.w(string(x.Kind), " ", Quote(x.Name))
	switch {
	case x.AddMember != "":
		p.w(" ADD MEMBER ", Quote(x.AddMember))
	case x.DropMember != "":
		p.w(" DROP MEMBER ", Quote(x.DropMember))
	case x.Enable:
		p.w(" ENABLE")
	case x.Disable:
		p.w(" DISABLE")
	}
	p.options(x.Password, x.Options)
}

func (p *printer) grant(x *GrantStmt) {
	p.w(string(x.Kind), " ")
	if x.Kind == Revoke && x.WithGrant {
		p.w("GRANT OPTION FOR ")
	}
	for i, perm := range x.Permissions {
		p.comma(i)
		p.w(perm.Name)
		if len(perm.Columns) > 0 {
			p.w(" ")
			p.idents(perm.Columns)
		}
	}
	if !x.On.IsZero() {
		p.w(" ON ")
		if x.Class != "" {
			p.w(x.Class, "::")
		}
		p.name(x.On)
	}
	p.w(" TO ")
	for i, t := range x.To {
		p.comma(i)
		if t == "public" {
			p.w(t)
		} else {
			p.w(Quote(t))
		}
	}
	if x.Kind != Revoke && x.WithGrant {
		p.w(" WITH GRANT OPTION")
	}
	if x.Cascade {
		p.w(" CASCADE")
	}
}
