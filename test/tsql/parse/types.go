package parse

import (
	"errors"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// typeName reads a type as in CAST: missing lengths are 30.
func (p *parser) typeName() sqltype.Type {
	t, name, params, line := p.typeParts()
	if p.err != nil {
		return t
	}
	t, err := sqltype.ParseType(name, params...)
	if err != nil {
		p.typeError(err, name, line, 0)
		return t
	}
	if len(params) == 0 && !strings.EqualFold(name, "sysname") {
		return sqltype.TypeOf(t.Kind)
	}
	return t
}

// declaredType reads a type as in DECLARE and CREATE TABLE: missing lengths are
// 1. ordinal is the position for message 2715.
func (p *parser) declaredType(ordinal int) sqltype.Type {
	_, name, params, line := p.typeParts()
	if p.err != nil {
		return sqltype.Type{}
	}
	t, err := sqltype.ParseType(name, params...)
	if err != nil {
		p.typeError(err, name, line, ordinal)
	}
	return t
}

// typeParts reads the name, of one or more words, and the parameters.
func (p *parser) typeParts() (t sqltype.Type, name string, params []int, line int) {
	line = p.tok().line
	switch {
	case p.atAny("DOUBLE"):
		p.next()
		p.expect("PRECISION")
		name = "double precision"
	case p.at("NATIONAL"):
		p.next()
		name = "national " + strings.ToLower(p.ident())
		if p.accept("VARYING") {
			name += " varying"
		}
	default:
		name = p.ident()
		if p.acceptOp(".") { // sys.int
			name = p.ident()
		}
		if p.accept("VARYING") {
			name = strings.ToLower(name) + " varying"
		}
	}
	if p.acceptOp("(") {
		params = p.typeParams()
	}
	return t, name, params, line
}

func (p *parser) typeParams() []int {
	var params []int
	for p.err == nil {
		switch {
		case p.accept("MAX"):
			params = append(params, sqltype.Max)
		case p.kind() == tokInteger:
			n, err := strconv.Atoi(p.tok().text)
			if err != nil {
				p.fail()
				return nil
			}
			p.next()
			params = append(params, n)
		default:
			p.fail()
			return nil
		}
		if !p.acceptOp(",") {
			break
		}
	}
	p.expectOp(")")
	return params
}

func (p *parser) typeError(err error, name string, line, ordinal int) {
	var param *sqltype.TypeParamError
	var e *sqlerr.Error
	switch {
	case errors.Is(err, sqltype.ErrUnknownType) && ordinal > 0:
		e = sqlerr.Make(2715, ordinal, name)
	case errors.Is(err, sqltype.ErrUnknownType):
		e = sqlerr.Make(243, name)
	case errors.As(err, &param) && param.NotAllowed:
		e = sqlerr.Make(2716, max(ordinal, 1), name)
	case errors.As(err, &param):
		e = sqlerr.Make(1001, line, param.Value)
	default:
		e = sqlerr.Make(243, name)
	}
	p.lateError(e.At(line))
}

// collation reads and checks the name of a collation.
func (p *parser) collation() string {
	line := p.tok().line
	name := p.ident()
	if p.err != nil {
		return ""
	}
	if _, ok := sqltype.LookupCollation(name); !ok {
		p.lateError(sqlerr.Make(448, name).At(line))
	}
	return name
}
