package schema

import (
	"fmt"
	"strings"
)

// Evolution says what a merge may change beside adding columns. The zero value changes no
// type and no nullability.
type Evolution struct {
	// Widen gives a column the type of the batch where the protocol lets it ([Widens]),
	// and records the change in the field's metadata. The table needs the feature
	// typeWidening then.
	Widen bool
	// Relax makes a column nullable that is nullable in the batch, or that the batch
	// does not have.
	Relax bool
}

// Merge is the schema of a table after rows of the incoming schema were added to it:
// [Evolution.Merge] of the zero Evolution.
func Merge(table, incoming *Struct) (merged *Struct, changed bool, err error) {
	return Evolution{}.Merge(table, incoming)
}

// Merge is the schema of a table after rows of the incoming schema were added to it, by
// the rules that Spark calls mergeSchema:
//
//   - names match ignoring case; the table's names, case and order stay;
//   - a column the table does not have goes to the end (of its struct) and is
//     nullable; a column the batch does not have stays, if it is nullable;
//   - the table's nullability and metadata stay, whatever the batch says (the writer
//     checks values against them), unless Relax is set; nothing ever becomes not null;
//   - a void column takes the type of the batch;
//   - a type whose values are all values of the table's type ([Fits]) is fine, and the
//     table's type stays; a wider one takes its place if Widen is set;
//   - structs, elements, keys and values are merged likewise;
//   - every other difference of types is a [*SchemaError].
//
// changed tells whether the result differs from the table. Neither argument is
// modified; the result shares parts with them.
func (e Evolution) Merge(table, incoming *Struct) (merged *Struct, changed bool, err error) {
	return e.mergeStruct("", table, incoming)
}

func (e Evolution) mergeStruct(path string, table, incoming *Struct) (*Struct, bool, error) {
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
		if !ok {
			in = Field{Type: have.Type, Nullable: true}
		}
		if !have.Nullable && in.Nullable && e.Relax {
			have.Nullable, changed = true, true
		}
		switch {
		case ok:
			f, differs, err := e.mergeField(join(path, have.Name), have, in)
			if err != nil {
				return nil, false, err
			}
			have, changed = f, changed || differs
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

func (e Evolution) mergeField(path string, have, in Field) (merged Field, changed bool, err error) {
	m := typeMerge{Evolution: e}
	if have.Type, changed, err = m.merge(path, "", have.Type, in.Type); err != nil {
		return Field{}, false, err
	}
	for _, c := range m.changes {
		have = have.withTypeChange(c)
	}
	return have, changed, nil
}

// typeMerge merges the types of one field and collects the changes to be recorded there.
type typeMerge struct {
	Evolution
	changes []TypeChange
}

// merge merges types; within is the way from the field to this part of it.
func (m *typeMerge) merge(path, within string, table, incoming Type) (merged Type, changed bool, err error) {
	switch t := table.(type) {
	case *Struct:
		if in, ok := incoming.(*Struct); ok {
			return m.mergeStruct(path, t, in)
		}
	case *Array:
		if in, ok := incoming.(*Array); ok {
			element, changed, err := m.merge(join(path, "element"), join(within, "element"), t.Element, in.Element)
			null := t.ContainsNull || m.Relax && in.ContainsNull
			return &Array{Element: element, ContainsNull: null}, changed || null != t.ContainsNull, err
		}
	case *Map:
		if in, ok := incoming.(*Map); ok {
			key, keyChanged, err := m.merge(join(path, "key"), join(within, "key"), t.Key, in.Key)
			if err != nil {
				return nil, false, err
			}
			value, valueChanged, err := m.merge(join(path, "value"), join(within, "value"), t.Value, in.Value)
			null := t.ValueContainsNull || m.Relax && in.ValueContainsNull
			return &Map{Key: key, Value: value, ValueContainsNull: null}, keyChanged || valueChanged || null != t.ValueContainsNull, err
		}
	default:
		switch {
		case Fits(incoming, table):
			return table, false, nil
		case table == Void:
			return incoming, true, nil
		case m.Widen && Widens(table, incoming):
			m.changes = append(m.changes, TypeChange{From: table, To: incoming, Path: within})
			return incoming, true, nil
		}
	}
	return nil, false, &SchemaError{Column: path, Have: incoming.String(), Want: table.String()}
}
