package input

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// pattern is schema.name with * and ? as wildcards, compared ignoring case.
type pattern struct {
	text         string
	schema, name string
}

func parsePattern(text string) (pattern, error) {
	table, err := mssqlcdc.ParseTableID(text)
	if err != nil {
		return pattern{}, err
	}
	return pattern{text: text, schema: table.Schema, name: table.Name}, nil
}

func (p pattern) hasWildcard() bool { return strings.ContainsAny(p.schema+p.name, "*?") }

func (p pattern) matches(table mssqlcdc.TableID) bool {
	return wildcard(p.schema, table.Schema) && wildcard(p.name, table.Name)
}

// exact tells whether the pattern is the table's name, case included.
func (p pattern) exact(table mssqlcdc.TableID) bool {
	return p.schema == table.Schema && p.name == table.Name
}

// wildcard matches ignoring case. It backs up to the last star only, so its time
// is at most the product of the lengths.
func wildcard(pattern, text string) bool {
	p, s := []rune(strings.ToLower(pattern)), []rune(strings.ToLower(text))
	i, j, star, mark := 0, 0, -1, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// tableFilter is the field tables.
type tableFilter struct {
	include, exclude []pattern
}

func parseTableFilter(entries []string) (tableFilter, error) {
	var f tableFilter
	for _, entry := range entries {
		text, excluded := strings.CutPrefix(entry, "!")
		p, err := parsePattern(text)
		if err != nil {
			return tableFilter{}, err
		}
		if excluded {
			f.exclude = append(f.exclude, p)
		} else {
			f.include = append(f.include, p)
		}
	}
	if len(f.include) == 0 {
		return tableFilter{}, errors.New(`no table is named; write at least one, for example "dbo.orders" or "dbo.*"`)
	}
	return f, nil
}

// ChooseTables returns the tables that entries of the field tables name, in the
// given order; the error is for people, and lists what there is.
func ChooseTables(entries []string, tables []mssqlcdc.TableID) ([]mssqlcdc.TableID, error) {
	f, err := parseTableFilter(entries)
	if err != nil {
		return nil, err
	}
	return f.choose(tables)
}

// choose returns the tables that the filter names, in the given order. An entry
// without wildcard that matches nothing, or a filter that matches nothing at
// all, is an error that lists what there is.
func (f tableFilter) choose(tables []mssqlcdc.TableID) ([]mssqlcdc.TableID, error) {
	chosen := map[mssqlcdc.TableID]bool{}
	for _, p := range f.include {
		matched := f.matchesOf(p, tables)
		if len(matched) == 0 && !p.hasWildcard() {
			return nil, fmt.Errorf("table %q has no capture instance that the login can see: enable CDC for it (sql/enable_table.sql) or grant SELECT on it (sql/grant_reader.sql); %s", p.text, visible(tables))
		}
		for _, table := range matched {
			chosen[table] = true
		}
	}
	all := tables
	tables = slices.DeleteFunc(slices.Clone(all), func(t mssqlcdc.TableID) bool { return !chosen[t] })
	if len(tables) == 0 {
		return nil, fmt.Errorf("no table matches %s; %s", f.describe(), visible(all))
	}
	return tables, nil
}

// unmatched lists the patterns that none of the tables in use goes back to: a typo,
// or tables that are still to come.
func (f tableFilter) unmatched(all []found) []string {
	var texts []string
	for _, p := range f.include {
		if p.hasWildcard() && !slices.ContainsFunc(all, func(t found) bool { return p.matches(t.table) }) {
			texts = append(texts, p.text)
		}
	}
	return texts
}

// matchesOf prefers the table of exactly this name, so that two tables that
// differ in case only can be told apart.
func (f tableFilter) matchesOf(p pattern, tables []mssqlcdc.TableID) []mssqlcdc.TableID {
	var matched []mssqlcdc.TableID
	for _, table := range tables {
		if slices.ContainsFunc(f.exclude, func(x pattern) bool { return x.matches(table) }) {
			continue
		}
		if p.exact(table) {
			return []mssqlcdc.TableID{table}
		}
		if p.matches(table) {
			matched = append(matched, table)
		}
	}
	return matched
}

func (f tableFilter) describe() string {
	var texts []string
	for _, p := range f.include {
		texts = append(texts, fmt.Sprintf("%q", p.text))
	}
	for _, p := range f.exclude {
		texts = append(texts, fmt.Sprintf("%q", "!"+p.text))
	}
	return strings.Join(texts, ", ")
}

// visible lists tables for a message, a few of them if they are many.
func visible(tables []mssqlcdc.TableID) string {
	const most = 10
	var names []string
	for _, table := range tables {
		names = append(names, table.String())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return "the login sees no table with a capture instance: enable CDC for the table (sql/enable_table.sql) or grant SELECT on it (sql/grant_reader.sql)"
	case len(names) > most:
		return fmt.Sprintf("visible are %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "visible are " + strings.Join(names, ", ")
}
