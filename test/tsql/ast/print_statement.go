package ast

import "strings"

func (p *printer) statements(list []Statement) {
	for _, s := range list {
		p.statement(s)
		p.w(";\n")
	}
}

func (p *printer) statement(s Statement) {
	switch x := s.(type) {
	case *SelectStmt:
		p.query(x.Query)
	case *Insert:
		p.insert(x)
	case *Update:
		p.update(x)
	case *Delete:
		p.delete(x)
	case *Merge:
		p.merge(x)
	case *Truncate:
		p.w("TRUNCATE TABLE ")
		p.name(x.Table)
	case *Declare:
		p.declare(x)
	case *SetVariable:
		p.w("SET ", x.Name, " ", x.Op, " ")
		p.expr(x.X)
	case *Exec:
		p.exec(x)
	case *SetOption:
		p.setOption(x)
	default:
		if !p.control(s) {
			p.definition(s)
		}
	}
}

func (p *printer) output(o *Output) {
	if o == nil {
		return
	}
	p.w(" OUTPUT ")
	p.items(o.Items)
	if o.Into != nil {
		p.w(" INTO ")
		p.source(o.Into)
		if len(o.Columns) > 0 {
			p.w(" ")
			p.idents(o.Columns)
		}
	}
}

func (p *printer) insert(s *Insert) {
	p.with(s.With)
	p.w("INSERT ")
	p.top(s.Top)
	p.w("INTO ")
	p.source(s.Target)
	if len(s.Columns) > 0 {
		p.w(" ")
		p.idents(s.Columns)
	}
	p.output(s.Output)
	p.w(" ")
	switch {
	case s.Default:
		p.w("DEFAULT VALUES")
	case s.Exec != nil:
		p.exec(s.Exec)
	case s.Query != nil:
		p.query(s.Query)
	default:
		p.valueRows(s.Rows)
	}
}

func (p *printer) assignments(list []Assignment) {
	p.w(" SET ")
	for i, a := range list {
		p.comma(i)
		if a.Variable != "" {
			p.w(a.Variable)
			if a.Column != nil {
				p.w(" = ")
			}
		}
		if a.Column != nil {
			p.columnRef(&ColumnRef{Parts: a.Column})
		}
		p.w(" ", a.Op, " ")
		p.expr(a.X)
	}
}

func (p *printer) from(list []TableSource) {
	if len(list) > 0 {
		p.w(" FROM ")
		p.sources(list)
	}
}

func (p *printer) update(s *Update) {
	p.with(s.With)
	p.w("UPDATE ")
	p.top(s.Top)
	p.source(s.Target)
	p.assignments(s.Set)
	p.output(s.Output)
	p.from(s.From)
	p.where(s.Where)
	p.optionClause(s.Options)
}

func (p *printer) delete(s *Delete) {
	p.with(s.With)
	p.w("DELETE ")
	p.top(s.Top)
	p.w("FROM ")
	p.source(s.Target)
	p.output(s.Output)
	p.from(s.From)
	p.where(s.Where)
	p.optionClause(s.Options)
}

func (p *printer) merge(s *Merge) {
	p.with(s.With)
	p.w("MERGE INTO ")
	if t, ok := s.Target.(*TableRef); ok { // hints stand in front of the alias
		p.name(t.Name)
		p.hints(t.Hints)
		p.alias(t.Alias, nil)
	} else {
		p.source(s.Target)
	}
	p.w(" USING ")
	p.source(s.Source)
	p.w(" ON ")
	p.expr(s.On)
	for _, a := range s.Actions {
		p.mergeAction(&a)
	}
	p.output(s.Output)
	p.optionClause(s.Options)
}

func (p *printer) mergeAction(a *MergeAction) {
	switch {
	case a.Matched:
		p.w(" WHEN MATCHED")
	case a.BySource:
		p.w(" WHEN NOT MATCHED BY SOURCE")
	default:
		p.w(" WHEN NOT MATCHED")
	}
	if a.And != nil {
		p.w(" AND ")
		p.expr(a.And)
	}
	p.w(" THEN ")
	switch {
	case a.Delete:
		p.w("DELETE")
	case a.Insert:
		p.w("INSERT ")
		if len(a.Columns) > 0 {
			p.idents(a.Columns)
		}
		p.w(" VALUES (")
		p.exprs(a.Values)
		p.w(")")
	default:
		p.w("UPDATE")
		p.assignments(a.Set)
	}
}

func (p *printer) declare(s *Declare) {
	p.w("DECLARE ")
	for i, d := range s.Vars {
		p.comma(i)
		p.w(d.Name, " ")
		if d.Table != nil {
			p.w("TABLE ")
			p.tableBody(d.Table)
			continue
		}
		p.typ(d.Type)
		if d.Value != nil {
			p.w(" = ")
			p.expr(d.Value)
		}
	}
}

func (p *printer) exec(s *Exec) {
	p.w("EXEC ")
	if s.Text != nil {
		p.w("(")
		p.expr(s.Text)
		p.w(")")
		return
	}
	if s.Return != "" {
		p.w(s.Return, " = ")
	}
	if s.Variable != "" {
		p.w(s.Variable)
	} else {
		p.name(s.Procedure)
	}
	for i, a := range s.Args {
		if i > 0 {
			p.w(",")
		}
		p.w(" ")
		if a.Name != "" {
			p.w(a.Name, " = ")
		}
		p.execValue(a.X)
		if a.Output {
			p.w(" OUTPUT")
		}
	}
}

// execValue prints an argument, which may be signed but not in parentheses.
func (p *printer) execValue(e Expr) {
	if u, ok := e.(*Unary); ok {
		p.w(u.Op)
		p.execValue(u.X)
		return
	}
	p.expr(e)
}

func (p *printer) setOption(s *SetOption) {
	p.w("SET ")
	if !s.Table.IsZero() {
		p.w("IDENTITY_INSERT ")
		p.name(s.Table)
		p.w(" ", s.Value)
		return
	}
	names := s.Names
	if strings.HasPrefix(names[0], "STATISTICS ") {
		p.w("STATISTICS ")
		for i, n := range names {
			p.comma(i)
			p.w(strings.TrimPrefix(n, "STATISTICS "))
		}
		p.w(" ", s.Value)
		return
	}
	p.w(strings.Join(names, ", "), " ")
	if s.X != nil {
		p.execValue(s.X)
		return
	}
	p.w(s.Value)
}

func (p *printer) control(s Statement) bool {
	switch x := s.(type) {
	case *Block:
		p.w("BEGIN\n")
		p.statements(x.Body)
		p.w("END")
	case *If:
		p.w("IF ")
		p.expr(x.Cond)
		p.w(" ")
		p.nested(x.Then)
		if x.Else != nil {
			p.w(" ELSE ")
			p.nested(x.Else)
		}
	case *While:
		p.w("WHILE ")
		p.expr(x.Cond)
		p.w(" ")
		p.nested(x.Body)
	case *Break:
		p.w("BREAK")
	case *Continue:
		p.w("CONTINUE")
	case *Return:
		p.w("RETURN")
		if x.X != nil {
			p.w(" ")
			p.expr(x.X)
		}
	case *Try:
		p.w("BEGIN TRY\n")
		p.statements(x.Body)
		p.w("END TRY\nBEGIN CATCH\n")
		p.statements(x.Catch)
		p.w("END CATCH")
	case *Use:
		p.w("USE ", Quote(x.Database))
	case *Tran:
		p.tran(x)
	default:
		return p.messages(s)
	}
	return true
}

// nested prints the statement of an IF or WHILE.
func (p *printer) nested(s Statement) {
	p.statement(s)
	p.w(";")
}

func (p *printer) tran(x *Tran) {
	p.w([...]string{BeginTran: "BEGIN TRAN", CommitTran: "COMMIT TRAN", RollbackTran: "ROLLBACK TRAN", SaveTran: "SAVE TRAN"}[x.Kind])
	switch {
	case x.NameVar != "":
		p.w(" ", x.NameVar)
	case x.Name != "":
		p.w(" ", Quote(x.Name))
	}
}

func (p *printer) messages(s Statement) bool {
	switch x := s.(type) {
	case *Throw:
		p.w("THROW")
		if x.Number != nil {
			p.w(" ")
			p.expr(x.Number)
			p.w(", ")
			p.expr(x.Message)
			p.w(", ")
			p.expr(x.State)
		}
	case *Raise:
		p.w("RAISERROR(")
		p.exprs(append([]Expr{x.Message, x.Severity, x.State}, x.Args...))
		p.w(")")
		if len(x.Options) > 0 {
			p.w(" WITH ", strings.Join(x.Options, ", "))
		}
	case *PrintStmt:
		p.w("PRINT ")
		p.expr(x.X)
	case *WaitFor:
		if x.Time {
			p.w("WAITFOR TIME ")
		} else {
			p.w("WAITFOR DELAY ")
		}
		p.execValue(x.X)
	default:
		return false
	}
	return true
}
