package ast

import (
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Print writes a statement as T-SQL that parses to an equal tree, but for
// positions. Expressions carry more parentheses than they need.
func Print(s Statement) string {
	var p printer
	p.statement(s)
	return p.b.String()
}

// PrintBatch writes the statements of a batch, each with a semicolon.
func PrintBatch(b *Batch) string {
	var p printer
	p.statements(b.Statements)
	return p.b.String()
}

// PrintExpr writes an expression. column, if not nil, writes column references
// instead of the printer; it may return false to leave one to it.
func PrintExpr(e Expr, column func(*ColumnRef) (string, bool)) string {
	p := printer{column: column}
	p.expr(e)
	return p.b.String()
}

type printer struct {
	b      strings.Builder
	column func(*ColumnRef) (string, bool)
}

func (p *printer) w(parts ...string) {
	for _, s := range parts {
		p.b.WriteString(s)
	}
}

// Quote writes a name in brackets.
func Quote(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }

func quoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func (p *printer) name(n ObjectName) {
	written := false
	for _, part := range []string{n.Server, n.Database, n.Schema} {
		if part != "" {
			p.w(Quote(part))
		}
		if part != "" || written {
			p.w(".")
			written = true
		}
	}
	p.w(Quote(n.Name))
}

func (p *printer) idents(names []string) {
	p.w("(")
	for i, n := range names {
		p.comma(i)
		p.w(Quote(n))
	}
	p.w(")")
}

func (p *printer) comma(i int) {
	if i > 0 {
		p.w(", ")
	}
}

func (p *printer) exprs(list []Expr) {
	for i, e := range list {
		p.comma(i)
		p.expr(e)
	}
}

func (p *printer) typ(t sqltype.Type) {
	name := t.String()
	if t.Kind == sqltype.KindNVarChar && t.Length == 128 {
		name = "nvarchar(128)"
	}
	p.w(name)
}

func (p *printer) expr(e Expr) {
	switch x := e.(type) {
	case nil:
	case *Literal:
		p.literal(x)
	case *Variable:
		p.w(x.Name)
	case *ColumnRef:
		p.columnRef(x)
	case *Unary:
		p.w("(", x.Op, " ")
		p.expr(x.X)
		p.w(")")
	case *Binary:
		p.w("(")
		p.expr(x.L)
		p.w(" ", x.Op, " ")
		p.expr(x.R)
		p.w(")")
	case *Case:
		p.caseExpr(x)
	case *Call:
		p.call(x)
	case *Subquery:
		p.w("(")
		p.query(x.Query)
		p.w(")")
	default:
		if !p.predicate(e) {
			p.conversion(e)
		}
	}
}

func (p *printer) literal(x *Literal) {
	switch x.Kind {
	case LitNull:
		p.w("NULL")
	case LitDefault:
		p.w("DEFAULT")
	case LitString:
		p.w(quoteString(x.Text))
	case LitNString:
		p.w("N", quoteString(x.Text))
	case LitBinary:
		p.w("0x", x.Text)
	case LitMoney:
		p.w("$", x.Text)
	default:
		p.w(x.Text)
	}
}

func (p *printer) columnRef(x *ColumnRef) {
	if p.column != nil {
		if s, ok := p.column(x); ok {
			p.w(s)
			return
		}
	}
	for i, part := range x.Parts {
		if i > 0 {
			p.w(".")
		}
		if part != "" {
			p.w(Quote(part))
		}
	}
}

func not(b bool) string {
	if b {
		return " NOT"
	}
	return ""
}

func (p *printer) predicate(e Expr) bool {
	switch x := e.(type) {
	case *IsNull:
		p.w("(")
		p.expr(x.X)
		p.w(" IS", not(x.Not), " NULL)")
	case *Between:
		p.w("(")
		p.expr(x.X)
		p.w(not(x.Not), " BETWEEN ")
		p.expr(x.Lo)
		p.w(" AND ")
		p.expr(x.Hi)
		p.w(")")
	case *In:
		p.w("(")
		p.expr(x.X)
		p.w(not(x.Not), " IN (")
		if x.Query != nil {
			p.query(x.Query)
		} else {
			p.exprs(x.List)
		}
		p.w("))")
	case *Like:
		p.w("(")
		p.expr(x.X)
		p.w(not(x.Not), " LIKE ")
		p.expr(x.Pattern)
		if x.Escape != nil {
			p.w(" ESCAPE ")
			p.expr(x.Escape)
		}
		p.w(")")
	case *Exists:
		p.w("EXISTS (")
		p.query(x.Query)
		p.w(")")
	case *Quantified:
		p.w("(")
		p.expr(x.X)
		p.w(" ", x.Op)
		if x.All {
			p.w(" ALL (")
		} else {
			p.w(" ANY (")
		}
		p.query(x.Query)
		p.w("))")
	default:
		return false
	}
	return true
}

func (p *printer) conversion(e Expr) {
	try := func(b bool, name string) string {
		if b {
			return "TRY_" + name
		}
		return name
	}
	switch x := e.(type) {
	case *Cast:
		p.w(try(x.Try, "CAST"), "(")
		p.expr(x.X)
		p.w(" AS ")
		p.typ(x.Type)
		p.w(")")
	case *Convert:
		p.w(try(x.Try, "CONVERT"), "(")
		p.typ(x.Type)
		p.w(", ")
		p.expr(x.X)
		if x.Style != nil {
			p.w(", ")
			p.expr(x.Style)
		}
		p.w(")")
	case *ParseText:
		p.w(try(x.Try, "PARSE"), "(")
		p.expr(x.X)
		p.w(" AS ")
		p.typ(x.Type)
		if x.Culture != nil {
			p.w(" USING ")
			p.expr(x.Culture)
		}
		p.w(")")
	case *Collate:
		p.w("(")
		p.expr(x.X)
		p.w(" COLLATE ", x.Collation, ")")
	case *AtTimeZone:
		p.w("(")
		p.expr(x.X)
		p.w(" AT TIME ZONE ")
		p.expr(x.Zone)
		p.w(")")
	}
}

func (p *printer) caseExpr(x *Case) {
	p.w("CASE")
	if x.Operand != nil {
		p.w(" ")
		p.expr(x.Operand)
	}
	for _, w := range x.Whens {
		p.w(" WHEN ")
		p.expr(w.Cond)
		p.w(" THEN ")
		p.expr(w.Then)
	}
	if x.Else != nil {
		p.w(" ELSE ")
		p.expr(x.Else)
	}
	p.w(" END")
}

// niladic tells the functions that are written without parentheses.
func niladic(n ObjectName) bool {
	switch n.Name {
	case "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER":
		return n.Schema == ""
	}
	return false
}

// plainWord tells whether a name can be written without brackets, as far as its
// letters go.
func plainWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		case i > 0 && '0' <= c && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}

func (p *printer) call(x *Call) {
	switch {
	case niladic(x.Name) && len(x.Args) == 0:
		p.w(x.Name.Name)
		return
	case x.Name.Schema == "" && plainWord(x.Name.Name): // reserved words and special forms must stay bare
		p.w(x.Name.Name)
	default:
		p.name(x.Name)
	}
	p.w("(")
	switch {
	case x.Star:
		p.w("*")
	case x.Name.Name == "TRIM" && len(x.Args) == 2:
		p.expr(x.Args[1])
		p.w(" FROM ")
		p.expr(x.Args[0])
	default:
		if x.Distinct {
			p.w("DISTINCT ")
		}
		p.exprs(x.Args)
	}
	p.w(")")
	if len(x.Within) > 0 {
		p.w(" WITHIN GROUP (")
		p.orderBy(x.Within)
		p.w(")")
	}
	if x.Over != nil {
		p.over(x.Over)
	}
}

func (p *printer) over(o *Over) {
	p.w(" OVER (")
	if len(o.Partition) > 0 {
		p.w("PARTITION BY ")
		p.exprs(o.Partition)
		p.w(" ")
	}
	if len(o.Order) > 0 {
		p.orderBy(o.Order)
	}
	if f := o.Frame; f != nil {
		if f.Rows {
			p.w(" ROWS BETWEEN ")
		} else {
			p.w(" RANGE BETWEEN ")
		}
		p.frameBound(f.Lo, f.LoN)
		p.w(" AND ")
		p.frameBound(f.Hi, f.HiN)
	}
	p.w(")")
}

func (p *printer) frameBound(b FrameBound, n Expr) {
	switch b {
	case UnboundedPreceding:
		p.w("UNBOUNDED PRECEDING")
	case UnboundedFollowing:
		p.w("UNBOUNDED FOLLOWING")
	case CurrentRow:
		p.w("CURRENT ROW")
	default:
		p.expr(n)
		p.w(map[FrameBound]string{Preceding: " PRECEDING", Following: " FOLLOWING"}[b])
	}
}

func (p *printer) orderBy(list []OrderBy) {
	p.w("ORDER BY ")
	for i, o := range list {
		p.comma(i)
		p.expr(o.X)
		if o.Desc {
			p.w(" DESC")
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
