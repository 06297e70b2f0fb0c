package parse

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// Options change how a batch is read.
type Options struct {
	// QuotedIdentifierOff makes "x" a string (SET QUOTED_IDENTIFIER OFF).
	QuotedIdentifierOff bool
	// Variables are declared before the batch begins: the parameters of
	// sp_executesql. Names include the at sign.
	Variables []string
}

// maxDepth bounds the nesting of expressions, queries and blocks (Msg 191).
const maxDepth = 300

// Batch parses a batch. The error is an *sqlerr.Error with its line.
func Batch(text string, opt Options) (*ast.Batch, error) {
	toks, lexErr := lex(text, !opt.QuotedIdentifierOff)
	if lexErr != nil {
		return nil, lexErr
	}
	p := parser{text: text, toks: toks, vars: make(map[string]varKind)}
	for _, v := range opt.Variables {
		p.vars[strings.ToLower(v)] = varScalar
	}
	b := &ast.Batch{Text: text}
	for p.err == nil {
		p.skipSemicolons()
		if p.kind() == tokEOF {
			break
		}
		if s := p.statement(len(b.Statements) == 0); s != nil {
			b.Statements = append(b.Statements, s)
		}
	}
	if p.err == nil {
		p.err = p.late
	}
	if p.err != nil {
		return nil, p.err
	}
	return b, nil
}

// varKind is what a declared variable holds.
type varKind uint8

const (
	varScalar varKind = iota + 1
	varTable
)

// parser is a recursive descent parser. After the first error the current token
// is EOF for ever, so every loop ends.
type parser struct {
	text  string
	toks  []token
	i     int
	err   *sqlerr.Error
	late  *sqlerr.Error // first semantic error; counts when the syntax is right
	vars  map[string]varKind
	depth int
	loops int    // nesting of WHILE
	inTry int    // nesting of CATCH blocks
	cond  *token // operator of the last parenthesised condition
}

func (p *parser) tok() *token { return &p.toks[p.i] }

func (p *parser) kind() tokenKind { return p.toks[p.i].kind }

func (p *parser) peek(n int) *token {
	return &p.toks[min(p.i+n, len(p.toks)-1)]
}

func (p *parser) next() *token {
	t := &p.toks[p.i]
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

// fail records the error at the current token: 156 for a reserved word, 102 for
// anything else; at the end of the batch the last token is named.
func (p *parser) fail() {
	t := p.tok()
	switch {
	case t.kind == tokEOF && p.i > 0:
		last := &p.toks[p.i-1]
		p.failWith(sqlerr.Syntax(last.near()).At(last.line))
	case t.kind == tokKeyword:
		p.failWith(sqlerr.SyntaxKeyword(t.text).At(t.line))
	default:
		p.failWith(sqlerr.Syntax(t.near()).At(max(t.line, 1)))
	}
}

func (p *parser) failWith(e *sqlerr.Error) {
	if p.err == nil {
		p.err = e
	}
	p.i = len(p.toks) - 1
}

// lateError records a semantic error, which a syntax error further on outranks.
func (p *parser) lateError(e *sqlerr.Error) {
	if p.late == nil {
		p.late = e
	}
}

// enter bounds recursion; it pairs with leave.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		p.failWith(sqlerr.Make(191).At(p.tok().line))
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// at tells whether the current token is that unquoted word.
func (p *parser) at(word string) bool { return p.tok().upper == word }

func (p *parser) atAny(words ...string) bool {
	u := p.tok().upper
	if u == "" {
		return false
	}
	for _, w := range words {
		if u == w {
			return true
		}
	}
	return false
}

// atSeq tells whether the next tokens are those words.
func (p *parser) atSeq(words ...string) bool {
	for i, w := range words {
		if p.peek(i).upper != w {
			return false
		}
	}
	return true
}

func (p *parser) accept(word string) bool {
	if p.at(word) {
		p.next()
		return true
	}
	return false
}

// acceptSeq takes all the words or none.
func (p *parser) acceptSeq(words ...string) bool {
	if !p.atSeq(words...) {
		return false
	}
	for range words {
		p.next()
	}
	return true
}

func (p *parser) expect(word string) bool {
	if p.accept(word) {
		return true
	}
	p.fail()
	return false
}

func (p *parser) atOp(op string) bool {
	t := p.tok()
	return t.kind == tokOp && t.text == op
}

func (p *parser) acceptOp(op string) bool {
	if p.atOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(op string) bool {
	if p.acceptOp(op) {
		return true
	}
	p.fail()
	return false
}

func (p *parser) skipSemicolons() {
	for p.acceptOp(";") {
	}
}

// isName tells whether a token can be an identifier.
func isName(t *token) bool { return t.kind == tokWord || t.kind == tokQuoted }

// ident reads an identifier.
func (p *parser) ident() string {
	if isName(p.tok()) {
		return p.next().text
	}
	p.fail()
	return ""
}

// identList reads (a, b, …).
func (p *parser) identList() []string {
	if !p.expectOp("(") {
		return nil
	}
	list := []string{p.ident()}
	for p.acceptOp(",") {
		list = append(list, p.ident())
	}
	p.expectOp(")")
	return list
}

// dotted reads one to four parts; parts in the middle may be empty (db..t).
func (p *parser) dotted() []string {
	parts := []string{p.ident()}
	for p.atOp(".") && p.err == nil {
		p.next()
		if p.atOp(".") {
			parts = append(parts, "")
			continue
		}
		if p.kind() == tokKeyword { // a.key: after a point reserved words are names
			parts = append(parts, p.next().text)
			continue
		}
		parts = append(parts, p.ident())
	}
	if len(parts) > 4 {
		p.failWith(sqlerr.Make(117, "object", strings.Join(parts, "."), 4).At(p.tok().line))
	}
	return parts
}

func (p *parser) objectName() ast.ObjectName { return ast.Name(p.dotted()...) }

// pos begins the position of a statement at the current token.
func (p *parser) pos() ast.Pos { return ast.Pos{Line: p.tok().line, Start: p.tok().start} }

// ended sets the end of a position behind the last token that was read.
func (p *parser) ended(pos *ast.Pos) {
	if p.i > 0 {
		pos.End = p.toks[p.i-1].end
	}
	if p.err != nil {
		pos.End = pos.Start
	}
}

// declare enters a variable; 134 when it exists.
func (p *parser) declare(name string, kind varKind, line int) {
	key := strings.ToLower(name)
	if p.vars[key] != 0 {
		p.lateError(sqlerr.Make(134, name).At(line))
	}
	p.vars[key] = kind
}

// variable reads @x or @@x as a scalar; 137 when it is not declared.
func (p *parser) variable() *ast.Variable {
	t := p.next()
	p.useScalar(t)
	return &ast.Variable{Name: t.text, Line: t.line}
}

func (p *parser) useScalar(t *token) {
	if !strings.HasPrefix(t.text, "@@") && p.vars[strings.ToLower(t.text)] != varScalar {
		p.lateError(sqlerr.Undeclared(t.text).At(t.line))
	}
}

func (p *parser) useTable(t *token) {
	if p.vars[strings.ToLower(t.text)] != varTable {
		p.lateError(sqlerr.Make(1087, t.text).At(t.line))
	}
}

// integer reads an integer literal, with a sign if it has one.
func (p *parser) integer() int64 {
	neg := p.acceptOp("-")
	if p.kind() != tokInteger || len(p.tok().text) > 18 {
		p.fail()
		return 0
	}
	var n int64
	for _, c := range []byte(p.next().text) {
		n = n*10 + int64(c-'0')
	}
	if neg {
		return -n
	}
	return n
}
