// Package schema is the schema of a Delta table: its types, its JSON form as it
// stands in the log's metaData action, its Arrow form, and the rules by which a
// batch may add to it.
//
// Types are values that nobody changes once they are made: every function of
// this package that derives a schema returns a new one. They are safe for
// concurrent use.
package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Type is the type of a column: a [Primitive], a [Decimal], an [*Array], a
// [*Map] or a [*Struct], and nothing else.
type Type interface {
	// String is the type in the words of SQL, for messages: "decimal(18,2)",
	// "array<long>", "struct<a: long not null>".
	String() string

	sealed()
}

// Primitive is a type without parts.
type Primitive string

// The primitive types, by their names in the log.
const (
	String       Primitive = "string"
	Long         Primitive = "long"    // 64 bits, signed
	Integer      Primitive = "integer" // 32 bits
	Short        Primitive = "short"   // 16 bits
	Byte         Primitive = "byte"    // 8 bits
	Float        Primitive = "float"
	Double       Primitive = "double"
	Boolean      Primitive = "boolean"
	Binary       Primitive = "binary"
	Date         Primitive = "date"          // days since 1970-01-01
	Timestamp    Primitive = "timestamp"     // microseconds since the epoch, an instant
	TimestampNTZ Primitive = "timestamp_ntz" // microseconds, a wall clock without a zone; needs the table feature timestampNtz

	// Void is the type of a column that holds NULL only. Other writers make such
	// columns; they are read as NULL and never stored in a data file. FromArrow
	// does not make them.
	Void Primitive = "void"
)

// String is the name of the type in the log.
func (p Primitive) String() string { return string(p) }

func (p Primitive) sealed() {}

func (p Primitive) known() bool {
	switch p {
	case String, Long, Integer, Short, Byte, Float, Double, Boolean, Binary, Date, Timestamp, TimestampNTZ, Void:
		return true
	default:
		return false
	}
}

// MaxPrecision is the largest precision of a decimal.
const MaxPrecision = 38

// Decimal is an exact number of Precision digits, Scale of them behind the point:
// 1 <= Precision <= 38, 0 <= Scale <= Precision.
type Decimal struct {
	Precision int
	Scale     int
}

// String is decimal(p,s).
func (d Decimal) String() string { return fmt.Sprintf("decimal(%d,%d)", d.Precision, d.Scale) }

func (d Decimal) sealed() {}

func (d Decimal) check() error {
	if d.Precision < 1 || d.Precision > MaxPrecision || d.Scale < 0 || d.Scale > d.Precision {
		return fmt.Errorf("%s: the precision must be 1 to %d and the scale 0 to the precision", d, MaxPrecision)
	}
	return nil
}

// Array is a list of elements of one type.
type Array struct {
	Element      Type
	ContainsNull bool // an element may be NULL
}

// String is array<element>.
func (a *Array) String() string { return "array<" + a.Element.String() + notNull(a.ContainsNull) + ">" }

func (a *Array) sealed() {}

// Map is a list of key and value pairs. A key is never NULL.
type Map struct {
	Key               Type
	Value             Type
	ValueContainsNull bool // a value may be NULL
}

// String is map<key, value>.
func (m *Map) String() string {
	return "map<" + m.Key.String() + ", " + m.Value.String() + notNull(m.ValueContainsNull) + ">"
}

func (m *Map) sealed() {}

// Struct is a list of named fields: a whole table, or a column with parts.
type Struct struct {
	Fields []Field
}

// String is struct<name: type, …>.
func (s *Struct) String() string {
	parts := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		parts[i] = f.Name + ": " + f.Type.String() + notNull(f.Nullable)
	}
	return "struct<" + strings.Join(parts, ", ") + ">"
}

func (s *Struct) sealed() {}

func notNull(nullable bool) string {
	if nullable {
		return ""
	}
	return " not null"
}

// Field is one column, or one part of a struct.
type Field struct {
	Name     string
	Type     Type
	Nullable bool

	// Metadata is whatever engines attach to a field, as JSON values; numbers are
	// json.Number, so that they are written back digit for digit. May be nil.
	Metadata map[string]any
}

// CommentKey is the metadata key of a column's comment.
const CommentKey = "comment"

// Comment is the column's comment, "" if there is none.
func (f Field) Comment() string {
	comment, _ := f.Metadata[CommentKey].(string)
	return comment
}

// WithComment returns the field with its comment set, or taken away if it is "".
func (f Field) WithComment(comment string) Field {
	f.Metadata = maps.Clone(f.Metadata)
	if comment == "" {
		delete(f.Metadata, CommentKey)
		return f
	}
	if f.Metadata == nil {
		f.Metadata = map[string]any{}
	}
	f.Metadata[CommentKey] = comment
	return f
}

// SameName tells whether two names are one column's: they are compared ignoring
// case.
func SameName(a, b string) bool { return strings.EqualFold(a, b) }

// Index returns the position of the field of that name, ignoring case, or -1.
func (s *Struct) Index(name string) int {
	return slices.IndexFunc(s.Fields, func(f Field) bool { return SameName(f.Name, name) })
}

// Field returns the field of that name, ignoring case.
func (s *Struct) Field(name string) (Field, bool) {
	if i := s.Index(name); i >= 0 {
		return s.Fields[i], true
	}
	return Field{}, false
}

// Without returns the schema without the fields of these names, ignoring case.
// A table's data files hold its schema without the partition columns.
func (s *Struct) Without(names []string) *Struct {
	out := &Struct{}
	for _, f := range s.Fields {
		if !slices.ContainsFunc(names, func(n string) bool { return SameName(n, f.Name) }) {
			out.Fields = append(out.Fields, f)
		}
	}
	return out
}

// Equal tells whether two types are the same in every name, type and
// nullability, in the same order and case. Metadata is not compared.
func Equal(a, b Type) bool {
	switch a := a.(type) {
	case *Array:
		b, ok := b.(*Array)
		return ok && a.ContainsNull == b.ContainsNull && Equal(a.Element, b.Element)
	case *Map:
		b, ok := b.(*Map)
		return ok && a.ValueContainsNull == b.ValueContainsNull && Equal(a.Key, b.Key) && Equal(a.Value, b.Value)
	case *Struct:
		b, ok := b.(*Struct)
		return ok && slices.EqualFunc(a.Fields, b.Fields, func(x, y Field) bool {
			return x.Name == y.Name && x.Nullable == y.Nullable && Equal(x.Type, y.Type)
		})
	default:
		return a == b
	}
}

// UsesTimestampNTZ tells whether any part of the schema is a timestamp without a
// zone, which a table may hold only with the feature timestampNtz for readers and
// writers.
func UsesTimestampNTZ(t Type) bool {
	switch t := t.(type) {
	case *Array:
		return UsesTimestampNTZ(t.Element)
	case *Map:
		return UsesTimestampNTZ(t.Key) || UsesTimestampNTZ(t.Value)
	case *Struct:
		return slices.ContainsFunc(t.Fields, func(f Field) bool { return UsesTimestampNTZ(f.Type) })
	default:
		return t == TimestampNTZ
	}
}

// HasNotNull tells whether a column or a part of a struct is not nullable. Spark takes
// that for an invariant: it does not open a table at writer version 7 that has one and
// does not list the feature invariants.
func HasNotNull(t Type) bool {
	switch t := t.(type) {
	case *Array:
		return HasNotNull(t.Element)
	case *Map:
		return HasNotNull(t.Key) || HasNotNull(t.Value)
	case *Struct:
		return slices.ContainsFunc(t.Fields, func(f Field) bool { return !f.Nullable || HasNotNull(f.Type) })
	default:
		return false
	}
}

// SchemaError reports a column that does not fit: what the batch or file has and what the
// table wants. Callers that let a user decide look for it with errors.As.
type SchemaError struct {
	Column string // dotted path of names, "element", "key" and "value"
	Have   string // the type that came, in the words of Type.String, or "no such column"
	Want   string // what the table has
}

// Error names the column and both types.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("column %s: have %s, want %s", e.Column, e.Have, e.Want)
}
