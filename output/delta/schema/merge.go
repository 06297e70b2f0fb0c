package schema

import (
	"fmt"
	"strings"
)

// Merge is the schema of a table after rows of the incoming schema were added to it,
// by the rules that Spark calls mergeSchema:
//
//   - names match ignoring case; the table's names, case and order stay;
//   - a column the table does not have goes to the end (of its struct) and is
//     nullable; a column the batch does not have stays, if it is nullable;
//   - the table's nullability and metadata stay, whatever the batch says (the writer
//     checks values against them);
//   - a void column takes the type of the batch;
//   - structs, elements, keys and values are merged likewise;
//   - every other difference of types is a [*SchemaError]: a type never changes here.
//
// changed tells whether the result differs from the table. Neither argument is
// modified; the result shares parts with them.
func Merge(table, incoming *Struct) (merged *Struct, changed bool, err error) {
	return mergeStruct("", table, incoming)
}

func mergeStruct(path string, table, incoming *Struct) (*Struct, bool, error) {
	byName := make(map[string]Field, len(incoming.Fields))
	for _, f := range incoming.Fields {
		key := strings.ToLower(f.Name)
		if _, twice := byName[key]; twice {
			return nil, false, fmt.Errorf("column %s: comes twice (names are compared ignoring case)", join(path, f.Name))
		}
		byName[key] = f
	}
	merged, changed := &Struct{Fields: make([]Field, 0, len(table.Fields))}, false
	for _, have := range table.Fields {
		in, ok := byName[strings.ToLower(have.Name)]
		delete(byName, strings.ToLower(have.Name))
		switch {
		case ok:
			t, differs, err := mergeType(join(path, have.Name), have.Type, in.Type)
			if err != nil {
				return nil, false, err
			}
			have.Type, changed = t, changed || differs
		case !have.Nullable:
			return nil, false, &SchemaError{Column: join(path, have.Name), Have: "no such column", Want: have.Type.String() + " not null"}
		}
		merged.Fields = append(merged.Fields, have)
	}
	for _, f := range incoming.Fields {
		if _, isNew := byName[strings.ToLower(f.Name)]; isNew {
			f.Nullable = true
			merged.Fields, changed = append(merged.Fields, f), true
		}
	}
	return merged, changed, nil
}

func mergeType(path string, table, incoming Type) (merged Type, changed bool, err error) {
	switch t := table.(type) {
	case *Struct:
		if in, ok := incoming.(*Struct); ok {
			return mergeStruct(path, t, in)
		}
	case *Array:
		if in, ok := incoming.(*Array); ok {
			element, changed, err := mergeType(join(path, "element"), t.Element, in.Element)
			return &Array{Element: element, ContainsNull: t.ContainsNull}, changed, err
		}
	case *Map:
		if in, ok := incoming.(*Map); ok {
			key, keyChanged, err := mergeType(join(path, "key"), t.Key, in.Key)
			if err != nil {
				return nil, false, err
			}
			value, valueChanged, err := mergeType(join(path, "value"), t.Value, in.Value)
			return &Map{Key: key, Value: value, ValueContainsNull: t.ValueContainsNull}, keyChanged || valueChanged, err
		}
	default:
		if table == incoming {
			return table, false, nil
		}
		if table == Void {
			return incoming, true, nil
		}
	}
	return nil, false, &SchemaError{Column: path, Have: incoming.String(), Want: table.String()}
}
