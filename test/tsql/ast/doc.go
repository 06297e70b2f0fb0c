// Package ast holds the syntax tree of the T-SQL subset that the simulator
// speaks, and a printer ([Print]) whose output parses to the same tree.
//
// Nodes are plain structs made by package parse and read by everyone else;
// nobody changes a tree after parsing, so trees may be shared and cached.
package ast

import "strings"

// ObjectName is a name of one to four parts. Parts that were not written are
// empty; db..t has an empty Schema. Parts are without brackets or quotes.
type ObjectName struct {
	Server, Database, Schema, Name string
}

// Name makes an ObjectName of up to three parts: name, schema.name or
// database.schema.name.
func Name(parts ...string) ObjectName {
	var n ObjectName
	slots := []*string{&n.Name, &n.Schema, &n.Database, &n.Server}
	for i := range min(len(parts), len(slots)) {
		*slots[i] = parts[len(parts)-1-i]
	}
	return n
}

// String joins the parts with points as error messages do, without brackets.
func (n ObjectName) String() string {
	var b strings.Builder
	written := false
	for _, p := range []string{n.Server, n.Database, n.Schema} {
		if p != "" || written {
			b.WriteString(p)
			b.WriteByte('.')
			written = true
		}
	}
	b.WriteString(n.Name)
	return b.String()
}

// IsZero tells whether no name is given.
func (n ObjectName) IsZero() bool { return n == ObjectName{} }

// Is compares the last part, and the schema where both have one, without case.
func (n ObjectName) Is(schema, name string) bool {
	return strings.EqualFold(n.Name, name) && (n.Schema == "" || strings.EqualFold(n.Schema, schema))
}

// Pos is where a statement or expression stands in the text of its batch.
type Pos struct {
	Line       int // 1-based
	Start, End int // byte offsets; End is behind the last byte, 0 when not recorded
}

// Place returns the position; it is what makes Pos satisfy [Statement].
func (p Pos) Place() Pos { return p }

// Batch is a parsed batch.
type Batch struct {
	Text       string
	Statements []Statement
}

// Statement is any statement of the subset.
type Statement interface {
	Place() Pos
	statement()
}

// Expr is a scalar expression or a condition.
type Expr interface{ expr() }

// TableSource is an item of a FROM clause.
type TableSource interface{ tableSource() }

// QueryBody is a SELECT, a VALUES list or a set operation.
type QueryBody interface{ queryBody() }
