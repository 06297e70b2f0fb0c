package parse

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
)

// createPrincipal reads CREATE LOGIN, USER and ROLE.
func (p *parser) createPrincipal(kind ast.ObjectKind, pos ast.Pos) ast.Statement {
	p.next()
	s := &ast.CreatePrincipal{Kind: kind, Name: p.ident()}
	switch kind {
	case ast.ObjLogin:
		if p.acceptSeq("FROM", "WINDOWS") {
			break
		}
		p.expect("WITH")
		p.principalOptions(&s.Password, &s.Options)
	case ast.ObjUser:
		p.userLogin(s)
		if p.accept("WITH") {
			p.principalOptions(&s.Password, &s.Options)
		}
	case ast.ObjRole:
		if p.accept("AUTHORIZATION") {
			s.Owner = p.ident()
		}
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// userLogin reads FOR LOGIN x, FROM LOGIN x or WITHOUT LOGIN.
func (p *parser) userLogin(s *ast.CreatePrincipal) {
	switch {
	case p.acceptSeq("FOR", "LOGIN"), p.acceptSeq("FROM", "LOGIN"):
		s.Login = p.ident()
	case p.acceptSeq("WITHOUT", "LOGIN"):
		s.Options = append(s.Options, ast.Option{Name: "WITHOUT LOGIN"})
	}
}

// principalOptions reads PASSWORD = 'x' [MUST_CHANGE], NAME = value, ….
func (p *parser) principalOptions(password *string, options *[]ast.Option) {
	for p.err == nil {
		if p.tok().upper == "" {
			p.fail()
			return
		}
		name := p.next().upper
		p.expectOp("=")
		t := p.tok()
		switch t.kind {
		case tokString, tokNString:
			p.next()
		case tokBinary, tokWord, tokQuoted, tokInteger:
			p.next()
		case tokKeyword:
			if !p.atAny("ON", "OFF", "NULL") {
				p.fail()
				return
			}
			p.next()
		default:
			p.fail()
			return
		}
		if name == "PASSWORD" {
			*password = t.text
			p.accept("MUST_CHANGE")
			p.accept("HASHED")
		} else {
			*options = append(*options, ast.Option{Name: name, Value: t.text})
		}
		if !p.acceptOp(",") {
			return
		}
	}
}

// alterPrincipal reads ALTER [SERVER] ROLE … ADD|DROP MEMBER, ALTER LOGIN and ALTER USER.
func (p *parser) alterPrincipal(pos ast.Pos) ast.Statement {
	s := &ast.AlterPrincipal{}
	if p.accept("SERVER") {
		s.Server = true
		if !p.at("ROLE") {
			p.fail()
			return nil
		}
	}
	s.Kind = ast.ObjectKind(p.next().upper)
	s.Name = p.ident()
	switch {
	case s.Kind == ast.ObjRole && p.acceptSeq("ADD", "MEMBER"):
		s.AddMember = p.ident()
	case s.Kind == ast.ObjRole && p.acceptSeq("DROP", "MEMBER"):
		s.DropMember = p.ident()
	case s.Kind == ast.ObjLogin && p.accept("ENABLE"):
		s.Enable = true
	case s.Kind == ast.ObjLogin && p.accept("DISABLE"):
		s.Disable = true
	case p.accept("WITH"):
		p.principalOptions(&s.Password, &s.Options)
	default:
		p.fail()
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

// permission reads GRANT, DENY and REVOKE.
func (p *parser) permission(kind ast.PermissionKind, pos ast.Pos) ast.Statement {
	s := &ast.GrantStmt{Kind: kind}
	if kind == ast.Revoke && p.acceptSeq("GRANT", "OPTION", "FOR") {
		s.WithGrant = true
	}
	for p.err == nil {
		s.Permissions = append(s.Permissions, p.permissionName())
		if !p.acceptOp(",") {
			break
		}
	}
	if p.accept("ON") {
		p.securable(s)
	}
	if kind != ast.Revoke || !p.accept("FROM") {
		p.expect("TO")
	}
	s.To = append(s.To, p.principal())
	for p.acceptOp(",") {
		s.To = append(s.To, p.principal())
	}
	if p.acceptSeq("WITH", "GRANT", "OPTION") {
		s.WithGrant = true
	}
	s.Cascade = p.accept("CASCADE")
	if p.accept("AS") {
		p.ident()
	}
	s.Pos = pos
	p.ended(&s.Pos)
	return s
}

func (p *parser) principal() string {
	if p.at("PUBLIC") {
		return strings.ToLower(p.next().text)
	}
	return p.ident()
}

// permissionName reads words such as SELECT or VIEW SERVER STATE, and columns
// in parentheses.
func (p *parser) permissionName() ast.Permission {
	var words []string
	for p.tok().upper != "" && !p.atAny("ON", "TO", "FROM") {
		words = append(words, p.next().upper)
	}
	if len(words) == 0 {
		p.fail()
	}
	perm := ast.Permission{Name: strings.Join(words, " ")}
	if p.atOp("(") {
		perm.Columns = p.identList()
	}
	return perm
}

// securable reads [class::]name.
func (p *parser) securable(s *ast.GrantStmt) {
	n := 0
	for p.peek(n).upper != "" {
		n++
	}
	if t := p.peek(n); n > 0 && t.kind == tokOp && t.text == "::" {
		var words []string
		for range n {
			words = append(words, p.next().upper)
		}
		p.next()
		s.Class = strings.Join(words, " ")
	}
	s.On = p.objectName()
	if p.atOp("(") && len(s.Permissions) > 0 { // GRANT SELECT ON t (a, b)
		last := &s.Permissions[len(s.Permissions)-1]
		last.Columns = p.identList()
	}
}
