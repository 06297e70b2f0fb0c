package data

import (
	"slices"

	pqschema "github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// physical says how the values of a leaf lie in a Parquet file.
type physical int

const (
	asBits   physical = iota // boolean: one bit a value
	asInt32                  // 4 bytes, little endian
	asInt64                  // 8 bytes, little endian
	asFloat                  // 4 bytes
	asDouble                 // 8 bytes
	asFixed                  // decimal above 18 digits: width bytes, big endian
	asBytes                  // length and bytes
)

// leaf is one column of a Parquet file: a primitive column of the table, or a primitive
// part of a nested one.
type leaf struct {
	column int      // position of the table's column in the file's schema
	path   []string // names from the table's column down, without list and map levels
	steps  []step   // what lies on the way from the column to the values; the last is the values
	typ    schema.Type
	phys   physical
	width  int // bytes of a fixed value; 0 for asBits and asBytes
	desc   *pqschema.Column

	maxDef, maxRep uint32
	// presentDef is the definition level from which on the outermost list or map above
	// the values, or the values if there is none, is not NULL.
	presentDef uint32
}

// step is one level of nesting.
type step struct {
	kind     stepKind
	child    int // of a struct: which field is taken
	nullable bool
	repLevel uint32 // of a list or map: the repetition level of its elements
}

type stepKind int

const (
	stepValue stepKind = iota
	stepStruct
	stepList
	stepMapKey
	stepMapValue
)

// leavesOf lists the leaves of a schema in the order of the file's columns. Columns of
// type void have none.
func leavesOf(table *schema.Struct) []leaf {
	var leaves []leaf
	for i, f := range table.Fields {
		addLeaves(&leaves, leaf{column: i, path: []string{f.Name}}, f.Type, f.Nullable)
	}
	return leaves
}

func addLeaves(leaves *[]leaf, l leaf, t schema.Type, nullable bool) {
	if nullable {
		l.maxDef++
	}
	if l.maxRep == 0 {
		l.presentDef = l.maxDef
	}
	next := func(s step) leaf {
		out := l
		s.nullable = nullable
		out.steps = append(slices.Clone(l.steps), s)
		return out
	}
	switch t := t.(type) {
	case *schema.Struct:
		for i, f := range t.Fields {
			child := next(step{kind: stepStruct, child: i})
			if l.maxRep == 0 {
				child.path = append(slices.Clone(l.path), f.Name)
			}
			addLeaves(leaves, child, f.Type, f.Nullable)
		}
	case *schema.Array:
		l.maxDef, l.maxRep = l.maxDef+1, l.maxRep+1
		addLeaves(leaves, next(step{kind: stepList, repLevel: l.maxRep}), t.Element, t.ContainsNull)
	case *schema.Map:
		l.maxDef, l.maxRep = l.maxDef+1, l.maxRep+1
		addLeaves(leaves, next(step{kind: stepMapKey, repLevel: l.maxRep}), t.Key, false)
		addLeaves(leaves, next(step{kind: stepMapValue, repLevel: l.maxRep}), t.Value, t.ValueContainsNull)
	default:
		if t == schema.Void {
			return
		}
		l = next(step{kind: stepValue})
		l.typ = t
		l.phys, l.width = physicalOf(t)
		*leaves = append(*leaves, l)
	}
}

func physicalOf(t schema.Type) (phys physical, width int) {
	if d, ok := t.(schema.Decimal); ok {
		switch {
		case d.Precision <= 9:
			return asInt32, 4
		case d.Precision <= 18:
			return asInt64, 8
		default:
			return asFixed, decimalWidth(d.Precision)
		}
	}
	switch t {
	case schema.Boolean:
		return asBits, 0
	case schema.Long, schema.Timestamp, schema.TimestampNTZ:
		return asInt64, 8
	case schema.Float:
		return asFloat, 4
	case schema.Double:
		return asDouble, 8
	case schema.String, schema.Binary:
		return asBytes, 0
	default: // byte, short, integer, date
		return asInt32, 4
	}
}
