package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// lexer splits a batch into tokens.
type lexer struct {
	s          string
	i          int
	line       int
	quotedName bool // "x" is a name (QUOTED_IDENTIFIER ON)
	tokens     []token
}

// lex returns all tokens, an EOF token last.
func lex(s string, quotedIdentifier bool) ([]token, *sqlerr.Error) {
	l := lexer{s: s, line: 1, quotedName: quotedIdentifier, tokens: make([]token, 0, len(s)/5+2)}
	for {
		if err := l.skipBlank(); err != nil {
			return nil, err
		}
		if l.i >= len(l.s) {
			l.tokens = append(l.tokens, token{kind: tokEOF, line: l.line, start: l.i, end: l.i})
			return l.tokens, nil
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
}

func (l *lexer) at(i int) byte {
	if i < len(l.s) {
		return l.s[i]
	}
	return 0
}

// skipBlank passes white space, -- and nested /* */ comments.
func (l *lexer) skipBlank() *sqlerr.Error {
	for l.i < len(l.s) {
		c := l.s[l.i]
		switch {
		case c == '\n':
			l.line++
			l.i++
		case c <= ' ' || c == 0x7f:
			l.i++
		case c == '-' && l.at(l.i+1) == '-':
			for l.i < len(l.s) && l.s[l.i] != '\n' {
				l.i++
			}
		case c == '/' && l.at(l.i+1) == '*':
			if err := l.blockComment(); err != nil {
				return err
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(l.s[l.i:])
			if !unicode.IsSpace(r) && r != '\uFEFF' {
				return nil
			}
			l.i += n
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) blockComment() *sqlerr.Error {
	start := l.line
	depth := 0
	for l.i < len(l.s) {
		switch {
		case l.s[l.i] == '/' && l.at(l.i+1) == '*':
			depth++
			l.i += 2
		case l.s[l.i] == '*' && l.at(l.i+1) == '/':
			depth--
			l.i += 2
			if depth == 0 {
				return nil
			}
		default:
			if l.s[l.i] == '\n' {
				l.line++
			}
			l.i++
		}
	}
	return sqlerr.Make(113).At(start)
}

func (l *lexer) emit(kind tokenKind, text string, start, line int) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, line: line, start: start, end: l.i})
}

func (l *lexer) next() *sqlerr.Error {
	start, line, c := l.i, l.line, l.s[l.i]
	switch {
	case c == '[':
		return l.quoted(']', tokQuoted)
	case c == '"':
		if l.quotedName {
			return l.quoted('"', tokQuoted)
		}
		return l.quoted('"', tokString)
	case c == '\'':
		return l.quoted('\'', tokString)
	case (c == 'N' || c == 'n') && l.at(l.i+1) == '\'':
		l.i++
		return l.quoted('\'', tokNString)
	case c == '@':
		l.i++
		for l.i < len(l.s) && l.isNamePart() {
			l.advance()
		}
		l.emit(tokVariable, l.s[start:l.i], start, line)
	case c == '0' && (l.at(l.i+1) == 'x' || l.at(l.i+1) == 'X'):
		l.i += 2
		for isHex(l.at(l.i)) {
			l.i++
		}
		l.emit(tokBinary, l.s[start+2:l.i], start, line)
	case isDigit(c) || c == '.' && isDigit(l.at(l.i+1)):
		l.number()
	case c == '$' && (isDigit(l.at(l.i+1)) || l.at(l.i+1) == '.'):
		l.i++
		l.digits()
		if l.at(l.i) == '.' {
			l.i++
			l.digits()
		}
		l.emit(tokMoney, l.s[start+1:l.i], start, line)
	case l.isNameStart():
		return l.word()
	default:
		return l.punctuation()
	}
	return nil
}

// quoted reads up to the closing mark; a doubled mark stands for itself.
func (l *lexer) quoted(mark byte, kind tokenKind) *sqlerr.Error {
	start, line := l.i, l.line
	l.i++
	begin := l.i
	doubled := false
	for l.i < len(l.s) {
		if l.s[l.i] == '\n' {
			l.line++
		}
		if l.s[l.i] != mark {
			l.i++
			continue
		}
		if l.at(l.i+1) == mark {
			doubled = true
			l.i += 2
			continue
		}
		text := l.s[begin:l.i]
		if doubled {
			text = strings.ReplaceAll(text, string([]byte{mark, mark}), string(mark))
		}
		l.i++
		l.emit(kind, text, start, line)
		return l.checkName(kind, text, line)
	}
	return sqlerr.Make(105, l.s[begin:]).At(line)
}

func (l *lexer) checkName(kind tokenKind, text string, line int) *sqlerr.Error {
	if kind != tokQuoted && kind != tokWord {
		return nil
	}
	if text == "" {
		return sqlerr.Make(1038).At(line)
	}
	if len(text) > 128 && utf8.RuneCountInString(text) > 128 {
		return sqlerr.Make(103, "identifier", cutRunes(text, 128), 128).At(line)
	}
	return nil
}

func cutRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func (l *lexer) digits() {
	for isDigit(l.at(l.i)) {
		l.i++
	}
}

func (l *lexer) number() {
	start, line := l.i, l.line
	kind := tokInteger
	l.digits()
	if l.at(l.i) == '.' {
		kind = tokDecimal
		l.i++
		l.digits()
	}
	if c := l.at(l.i); c == 'e' || c == 'E' {
		kind = tokFloat
		l.i++
		if s := l.at(l.i); (s == '+' || s == '-') && isDigit(l.at(l.i+1)) {
			l.i++
		}
		l.digits()
	}
	l.emit(kind, l.s[start:l.i], start, line)
}

func (l *lexer) isNameStart() bool {
	c := l.s[l.i]
	if c < utf8.RuneSelf {
		return c == '_' || c == '#' || c == '$' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	r, _ := utf8.DecodeRuneInString(l.s[l.i:])
	return unicode.IsLetter(r)
}

func (l *lexer) isNamePart() bool {
	c := l.s[l.i]
	if c < utf8.RuneSelf {
		return isDigit(c) || c == '@' || l.isNameStart()
	}
	r, _ := utf8.DecodeRuneInString(l.s[l.i:])
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)
}

func (l *lexer) advance() {
	if l.s[l.i] < utf8.RuneSelf {
		l.i++
		return
	}
	_, n := utf8.DecodeRuneInString(l.s[l.i:])
	l.i += n
}

func (l *lexer) word() *sqlerr.Error {
	start, line := l.i, l.line
	for l.i < len(l.s) && l.isNamePart() {
		l.advance()
	}
	text := l.s[start:l.i]
	t := token{kind: tokWord, text: text, upper: strings.ToUpper(text), line: line, start: start, end: l.i}
	if isReserved(t.upper) {
		t.kind = tokKeyword
	}
	l.tokens = append(l.tokens, t)
	return l.checkName(tokWord, text, line)
}

// punctuation reads the longest operator.
func (l *lexer) punctuation() *sqlerr.Error {
	start, line := l.i, l.line
	if l.i+1 < len(l.s) {
		two := l.s[l.i : l.i+2]
		switch two {
		case "<>", "!=", "<=", ">=", "!<", "!>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::":
			l.i += 2
			l.emit(tokOp, normalOp(two), start, line)
			return nil
		}
	}
	if strings.IndexByte("+-*/%&|^~=<>,.;()", l.s[l.i]) >= 0 {
		l.i++
		l.emit(tokOp, l.s[start:l.i], start, line)
		return nil
	}
	_, n := utf8.DecodeRuneInString(l.s[l.i:])
	return sqlerr.Syntax(strings.ToValidUTF8(l.s[l.i:l.i+n], "\uFFFD")).At(line)
}

func normalOp(op string) string {
	switch op {
	case "!=":
		return "<>"
	case "!<":
		return ">="
	case "!>":
		return "<="
	}
	return op
}
