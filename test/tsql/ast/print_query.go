package ast

import "strings"

func (p *printer) with(ctes []CTE) {
	for i, c := range ctes {
		if i == 0 {
			p.w("WITH ")
		}
		p.comma(i)
		p.w(Quote(c.Name))
		if len(c.Columns) > 0 {
			p.w(" ")
			p.idents(c.Columns)
		}
		p.w(" AS (")
		p.query(c.Query)
		p.w(")")
	}
	if len(ctes) > 0 {
		p.w(" ")
	}
}

func (p *printer) query(q *Query) {
	p.with(q.With)
	p.body(q.Body)
	if len(q.OrderBy) > 0 {
		p.w(" ")
		p.orderBy(q.OrderBy)
	}
	if q.Offset != nil {
		p.w(" OFFSET ")
		p.expr(q.Offset)
		p.w(" ROWS")
	}
	if q.Fetch != nil {
		p.w(" FETCH NEXT ")
		p.expr(q.Fetch)
		p.w(" ROWS ONLY")
	}
	p.optionClause(q.Options)
}

func (p *printer) optionClause(list []string) {
	if len(list) > 0 {
		p.w(" OPTION (", strings.Join(list, ", "), ")")
	}
}

func (p *printer) body(b QueryBody) {
	switch x := b.(type) {
	case *Select:
		p.selectBody(x)
	case *SetOp:
		p.body(x.L)
		p.w(" ", x.Op, " ")
		p.operand(x.R)
	case *Nested:
		p.w("(")
		p.query(x.Query)
		p.w(")")
	}
}

// operand prints the right side of a set operation.
func (p *printer) operand(b QueryBody) { p.body(b) }

func (p *printer) top(t *Top) {
	if t == nil {
		return
	}
	p.w("TOP (")
	p.expr(t.N)
	p.w(") ")
	if t.Percent {
		p.w("PERCENT ")
	}
}

func (p *printer) selectBody(s *Select) {
	p.w("SELECT ")
	if s.Distinct {
		p.w("DISTINCT ")
	}
	p.top(s.Top)
	p.items(s.Items)
	if len(s.From) > 0 {
		p.w(" FROM ")
		p.sources(s.From)
	}
	p.where(s.Where)
	if len(s.GroupBy) > 0 {
		p.w(" GROUP BY ")
		p.exprs(s.GroupBy)
	}
	if s.Having != nil {
		p.w(" HAVING ")
		p.expr(s.Having)
	}
}

func (p *printer) where(e Expr) {
	if e != nil {
		p.w(" WHERE ")
		p.expr(e)
	}
}

func (p *printer) items(items []SelectItem) {
	for i, it := range items {
		p.comma(i)
		switch {
		case it.Star:
			for _, q := range it.Qualifier {
				p.w(Quote(q), ".")
			}
			p.w("*")
		case it.Assign != "":
			p.w(it.Assign, " ", it.AssignOp, " ")
			p.expr(it.X)
		default:
			p.expr(it.X)
			if it.Alias != "" {
				p.w(" AS ", Quote(it.Alias))
			}
		}
	}
}

func (p *printer) sources(list []TableSource) {
	for i, s := range list {
		p.comma(i)
		p.source(s)
	}
}

func (p *printer) alias(a string, cols []string) {
	if a != "" {
		p.w(" AS ", Quote(a))
	}
	if len(cols) > 0 {
		p.w(" ")
		p.idents(cols)
	}
}

func (p *printer) source(s TableSource) {
	switch x := s.(type) {
	case *TableRef:
		p.name(x.Name)
		p.alias(x.Alias, nil)
		p.hints(x.Hints)
	case *VariableRef:
		p.w(x.Name)
		p.alias(x.Alias, nil)
	case *FunctionRef:
		p.name(x.Name)
		p.w("(")
		p.exprs(x.Args)
		p.w(")")
		p.alias(x.Alias, x.Columns)
	case *Derived:
		p.w("(")
		p.query(x.Query)
		p.w(")")
		p.alias(x.Alias, x.Columns)
	case *Values:
		p.w("(")
		p.valueRows(x.Rows)
		p.w(")")
		p.alias(x.Alias, x.Columns)
	case *Join:
		p.join(x)
	}
}

func (p *printer) hints(hints []Hint) {
	for i, h := range hints {
		if i == 0 {
			p.w(" WITH (")
		}
		p.comma(i)
		p.w(h.Name)
		for j, a := range h.Args {
			if j == 0 {
				p.w("(")
			}
			p.comma(j)
			p.w(hintArg(a))
			if j == len(h.Args)-1 {
				p.w(")")
			}
		}
		if i == len(hints)-1 {
			p.w(")")
		}
	}
}

// hintArg writes a number as it is and a name in brackets.
func hintArg(a string) string {
	for i := range len(a) {
		if a[i] < '0' || a[i] > '9' {
			return Quote(a)
		}
	}
	return a
}

func (p *printer) valueRows(rows [][]Expr) {
	p.w("VALUES ")
	for i, r := range rows {
		p.comma(i)
		p.w("(")
		p.exprs(r)
		p.w(")")
	}
}

func (p *printer) join(j *Join) {
	p.source(j.L)
	p.w([...]string{InnerJoin: " JOIN ", LeftJoin: " LEFT JOIN ", RightJoin: " RIGHT JOIN ", FullJoin: " FULL JOIN ",
		CrossJoin: " CROSS JOIN ", CrossApply: " CROSS APPLY ", OuterApply: " OUTER APPLY "}[j.Kind])
	if _, nested := j.R.(*Join); nested {
		p.w("(")
		p.source(j.R)
		p.w(")")
	} else {
		p.source(j.R)
	}
	if j.On != nil {
		p.w(" ON ")
		p.expr(j.On)
	}
}
