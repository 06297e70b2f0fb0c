package builtin

import (
	"unicode"
	"unicode/utf8"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func translateError() error {
	return sqlerr.New(9828, 16, 1, "The second and third arguments of the TRANSLATE built-in function must contain an equal number of characters.")
}

type patternKind uint8

const (
	patRune patternKind = iota
	patAny              // _
	patMany             // %
	patSet              // [a-z], [^a-z]
)

type patternItem struct {
	kind   patternKind
	r      rune
	ranges [][2]rune
	not    bool
}

// Pattern is a compiled LIKE pattern.
type Pattern struct {
	items []patternItem
	exact bool // case matters
}

// CompilePattern compiles a LIKE pattern. escape is 0 for none. The collation
// decides about case; nil ignores it.
func CompilePattern(pattern string, escape rune, c *sqltype.Collation) *Pattern {
	p := &Pattern{exact: c != nil && c.CaseSensitive}
	rs := []rune(pattern)
	for i := 0; i < len(rs); i++ {
		r := rs[i]
		switch {
		case escape != 0 && r == escape && i+1 < len(rs):
			i++
			p.add(patternItem{kind: patRune, r: rs[i]})
		case r == '%':
			if n := len(p.items); n == 0 || p.items[n-1].kind != patMany {
				p.add(patternItem{kind: patMany})
			}
		case r == '_':
			p.add(patternItem{kind: patAny})
		case r == '[':
			if item, n, ok := patternSet(rs[i+1:], escape); ok {
				p.add(item)
				i += n
				continue
			}
			p.add(patternItem{kind: patRune, r: r})
		default:
			p.add(patternItem{kind: patRune, r: r})
		}
	}
	return p
}

func (p *Pattern) add(item patternItem) {
	item.r = p.fold(item.r)
	for i := range item.ranges {
		item.ranges[i][0], item.ranges[i][1] = p.fold(item.ranges[i][0]), p.fold(item.ranges[i][1])
	}
	p.items = append(p.items, item)
}

func (p *Pattern) fold(r rune) rune {
	switch {
	case p.exact:
		return r
	case r < utf8.RuneSelf:
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(r)
}

// patternSet reads a set behind its opening bracket; n runes belong to it.
func patternSet(rs []rune, escape rune) (item patternItem, n int, ok bool) {
	item.kind = patSet
	i := 0
	if i < len(rs) && rs[i] == '^' {
		item.not = true
		i++
	}
	for first := true; i < len(rs); i++ {
		r := rs[i]
		if r == ']' && !first {
			return item, i + 1, true
		}
		first = false
		if escape != 0 && r == escape && i+1 < len(rs) {
			i++
			r = rs[i]
		}
		hi := r
		if i+2 < len(rs) && rs[i+1] == '-' && rs[i+2] != ']' {
			hi = rs[i+2]
			i += 2
		}
		item.ranges = append(item.ranges, [2]rune{r, hi})
	}
	return item, 0, false
}

// TrimPrefixAny is the pattern without a leading %.
func (p *Pattern) TrimPrefixAny() *Pattern {
	if len(p.items) > 0 && p.items[0].kind == patMany {
		return &Pattern{items: p.items[1:], exact: p.exact}
	}
	return p
}

// Match tells whether the whole of s matches. It takes time proportional to the product
// of the lengths at worst.
func (p *Pattern) Match(s string) bool {
	pi, si := 0, 0
	star, mark := -1, 0
	for si < len(s) {
		r, n := utf8.DecodeRuneInString(s[si:])
		switch {
		case pi < len(p.items) && p.items[pi].kind == patMany:
			star, mark = pi, si
			pi++
		case pi < len(p.items) && p.items[pi].matches(p.fold(r)):
			pi++
			si += n
		case star >= 0:
			_, n := utf8.DecodeRuneInString(s[mark:])
			mark += n
			pi, si = star+1, mark
		default:
			return false
		}
	}
	for pi < len(p.items) && p.items[pi].kind == patMany {
		pi++
	}
	return pi == len(p.items)
}

func (it *patternItem) matches(r rune) bool {
	switch it.kind {
	case patRune:
		return it.r == r
	case patAny:
		return true
	}
	for _, rg := range it.ranges {
		if r >= rg[0] && r <= rg[1] {
			return !it.not
		}
	}
	return it.not
}
