package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// DefaultStatsColumns is how many leaf columns get statistics unless the table says
// otherwise.
const DefaultStatsColumns = 32

// StatsColumns says which columns get statistics. The zero value is the first
// DefaultStatsColumns leaf columns of the schema without partition columns. An array or
// a map counts as one leaf and has a count of NULLs only.
type StatsColumns struct {
	// First is how many leaf columns, in the order of the schema; 0 is
	// DefaultStatsColumns, AllColumns all of them, NoColumns none.
	First int
	// Only names the columns instead, each as its path of names; a struct stands for
	// all of its leaves. nil means that First counts.
	Only [][]string
}

// Values of StatsColumns.First with a meaning of their own.
const (
	AllColumns = -1
	NoColumns  = -2
)

// The table properties that StatsColumnsOf reads.
const (
	PropertyNumIndexedCols = "delta.dataSkippingNumIndexedCols"
	PropertyStatsColumns   = "delta.dataSkippingStatsColumns"
)

// StatsColumnsOf reads the table properties delta.dataSkippingStatsColumns (a list of
// column names, with dots for parts of structs and backquotes around names that need
// them) and, where that is absent, delta.dataSkippingNumIndexedCols.
func StatsColumnsOf(properties map[string]string) (StatsColumns, error) {
	if list, ok := properties[PropertyStatsColumns]; ok {
		only, err := parseColumnList(list)
		if err != nil {
			return StatsColumns{}, fmt.Errorf("reading table property %s %q: %w", PropertyStatsColumns, list, err)
		}
		return StatsColumns{Only: only}, nil
	}
	text, ok := properties[PropertyNumIndexedCols]
	if !ok {
		return StatsColumns{}, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	switch {
	case err != nil || n < AllColumns:
		return StatsColumns{}, fmt.Errorf("reading table property %s %q: want a number of columns, or -1 for all", PropertyNumIndexedCols, text)
	case n == 0:
		return StatsColumns{First: NoColumns}, nil
	default:
		return StatsColumns{First: n}, nil
	}
}

// parseColumnList reads a, b.c, `d e`.`f“g`.
func parseColumnList(list string) ([][]string, error) {
	out := [][]string{}
	rest := strings.TrimSpace(list)
	for rest != "" {
		var path []string
		for {
			name, after, err := cutName(rest)
			if err != nil {
				return nil, err
			}
			path, rest = append(path, name), strings.TrimLeft(after, " ")
			if !strings.HasPrefix(rest, ".") {
				break
			}
			rest = rest[1:]
		}
		out = append(out, path)
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("want a comma before %q", rest)
		}
		if rest = strings.TrimLeft(rest[1:], " "); rest == "" {
			return nil, fmt.Errorf("a name is missing at the end")
		}
	}
	return out, nil
}

// cutName takes one name off the front.
func cutName(text string) (name, rest string, err error) {
	if !strings.HasPrefix(text, "`") {
		end := strings.IndexAny(text, ".,`")
		if end < 0 {
			end = len(text)
		}
		if name = strings.TrimRight(text[:end], " "); name == "" {
			return "", "", fmt.Errorf("a name is missing before %q", text)
		}
		return name, text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != '`' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		return b.String(), text[i+1:], nil
	}
	return "", "", fmt.Errorf("a backquote is not closed in %q", text)
}

// statsNode is a column with statistics, or a struct with such columns.
type statsNode struct {
	name     string      // physical
	leaf     int         // of a column: the leaf whose bounds are its
	children []statsNode // of a struct
}

// statsTree finds the columns with statistics.
func statsTree(stored *schema.Struct, leaves []leaf, sel StatsColumns, m schema.Mapping) []statsNode {
	left := sel.First
	switch {
	case sel.Only != nil || left == AllColumns:
		left = len(leaves)
	case left == 0:
		left = DefaultStatsColumns
	}
	b := statsBuilder{leaves: leaves, only: sel.Only, left: left, mapping: m}
	return b.fields(nil, stored.Fields)
}

type statsBuilder struct {
	leaves  []leaf
	only    [][]string
	left    int
	mapping schema.Mapping
}

func (b *statsBuilder) fields(path []string, fields []schema.Field) []statsNode {
	var nodes []statsNode
	for _, f := range fields {
		path := append(slices.Clone(path), f.Name)
		if s, ok := f.Type.(*schema.Struct); ok {
			if children := b.fields(path, s.Fields); children != nil {
				nodes = append(nodes, statsNode{name: b.mapping.PhysicalName(f), children: children})
			}
			continue
		}
		leaf := slices.IndexFunc(b.leaves, func(l leaf) bool { return slices.Equal(l.path, path) })
		if leaf < 0 || b.left <= 0 || !b.wanted(path) {
			continue
		}
		b.left--
		nodes = append(nodes, statsNode{name: b.mapping.PhysicalName(f), leaf: leaf})
	}
	return nodes
}

// wanted tells whether a column or one of the structs around it is named.
func (b *statsBuilder) wanted(path []string) bool {
	if b.only == nil {
		return true
	}
	return slices.ContainsFunc(b.only, func(named []string) bool {
		return len(named) <= len(path) && slices.EqualFunc(named, path[:len(named)], schema.SameName)
	})
}
