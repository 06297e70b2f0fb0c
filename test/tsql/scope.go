package tsql

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// source is a row source that expressions can name: a table, a derived table, inserted …
type source struct {
	alias    string     // the exposed name; empty for none
	name     ObjectName // of a table without an alias
	written  ObjectName // as the statement writes it
	cols     []sqltype.Column
	index    map[string]int // lower-case name → first ordinal
	slot     int
	used     []bool // columns that are read
	outer    bool   // on the inner side of an outer join: every column may be NULL
	def      Definition
	computed map[int]*expr
}

func newSource(alias string, name ObjectName, cols []sqltype.Column, slot int) *source {
	s := &source{alias: alias, name: name, cols: cols, slot: slot, used: make([]bool, len(cols)),
		index: make(map[string]int, len(cols))}
	for i, c := range cols {
		key := sqltype.DefaultKey(c.Name)
		if _, dup := s.index[key]; !dup && c.Name != "" {
			s.index[key] = i
		}
	}
	return s
}

// neededColumns lists the columns that expressions read.
func (s *source) neededColumns() []int {
	cols := make([]int, 0, len(s.used))
	for i, u := range s.used {
		if u {
			cols = append(cols, i)
		}
	}
	return cols
}

func (s *source) useAll() {
	for i := range s.used {
		s.used[i] = true
	}
}

// scope is a set of sources that names are looked up in; parent is the scope of
// the query around it.
type scope struct {
	parent  *scope
	sources []*source
	group   *grouping // set while the items of a grouped query are compiled
}

// matches tells whether the qualifying parts of a column name mean this source.
func (s *source) matches(qualifier []string) bool {
	if len(qualifier) == 0 {
		return true
	}
	last := qualifier[len(qualifier)-1]
	if s.alias != "" {
		return len(qualifier) == 1 && strings.EqualFold(last, s.alias)
	}
	if !strings.EqualFold(last, s.name.Name) {
		return false
	}
	if len(qualifier) >= 2 && s.name.Schema != "" && qualifier[len(qualifier)-2] != "" &&
		!strings.EqualFold(qualifier[len(qualifier)-2], s.name.Schema) {
		return false
	}
	return len(qualifier) < 3 || s.name.Database == "" || strings.EqualFold(qualifier[len(qualifier)-3], s.name.Database)
}

// exposed is the name that the FROM clause gives the source.
func (s *source) exposed() string {
	if s.alias != "" {
		return s.alias
	}
	if !s.written.IsZero() {
		return s.written.String()
	}
	return s.name.String()
}

// sameName tells whether two sources expose one name, where at least one of them has
// no alias.
func (s *source) sameName(o *source) bool {
	switch {
	case s.alias != "" && o.alias != "":
		return false
	case s.alias != "" || o.alias != "":
		return s.exposed() != "" && strings.EqualFold(s.exposed(), o.exposed())
	}
	return s.name.Name != "" && strings.EqualFold(s.name.String(), o.name.String())
}

// add enters a source; 1011 and 1013 for a name that is taken.
func (sc *scope) add(s *source) error {
	for _, o := range sc.sources {
		switch {
		case s.alias != "" && strings.EqualFold(s.alias, o.alias):
			return sqlerr.Make(1011, s.alias)
		case s.sameName(o):
			return sqlerr.Make(1013, o.exposed(), s.exposed())
		}
	}
	sc.sources = append(sc.sources, s)
	return nil
}

// resolve finds a column in this scope or an outer one. The scope in which it was
// found comes back too.
func (sc *scope) resolve(ref *ast.ColumnRef) (*source, int, *scope, error) {
	qualifier := ref.Parts[:len(ref.Parts)-1]
	key := sqltype.DefaultKey(ref.Column())
	for s := sc; s != nil; s = s.parent {
		var found *source
		ordinal := 0
		for _, src := range s.sources {
			if !src.matches(qualifier) {
				continue
			}
			if i, ok := src.index[key]; ok {
				if found != nil {
					return nil, 0, nil, sqlerr.Make(209, ref.Column())
				}
				found, ordinal = src, i
			}
		}
		if found != nil {
			return found, ordinal, s, nil
		}
		if len(qualifier) > 0 {
			for _, src := range s.sources {
				if src.matches(qualifier) { // the table is here, the column is not
					return nil, 0, nil, sqlerr.InvalidColumn(ref.Column())
				}
			}
		}
	}
	if len(qualifier) > 0 {
		return nil, 0, nil, sqlerr.Make(4104, strings.Join(ref.Parts, "."))
	}
	return nil, 0, nil, sqlerr.InvalidColumn(ref.Column())
}
