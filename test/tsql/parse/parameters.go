package parse

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Parameter is one parameter of a definition as sp_executesql takes it.
type Parameter struct {
	Name   string
	Type   sqltype.Type
	Output bool
}

// Parameters parses a definition: @a int, @b nvarchar(10) OUTPUT. An empty text has
// none.
func Parameters(def string) ([]Parameter, error) {
	toks, lexErr := lex(def, true)
	if lexErr != nil {
		return nil, lexErr
	}
	p := parser{text: def, toks: toks, vars: make(map[string]varKind)}
	var list []Parameter
	for p.kind() != tokEOF {
		if p.kind() != tokVariable {
			p.fail()
			break
		}
		pp := p.procParam(len(list) + 1)
		list = append(list, Parameter{Name: pp.Name, Type: pp.Type, Output: pp.Output})
		if !p.acceptOp(",") {
			break
		}
	}
	if p.err == nil && p.kind() != tokEOF {
		p.fail()
	}
	if p.err == nil {
		p.err = p.late
	}
	if p.err != nil {
		return nil, p.err
	}
	return list, nil
}
