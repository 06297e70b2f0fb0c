package schema

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Assign gives every field, at any depth, that lacks them what a table with this mapping
// must have: the physical name that name chooses and a column id, counted up from last.
// Fields that have theirs keep them. The result is the schema and the highest id in use,
// which is what the table remembers as delta.columnMapping.maxColumnId.
func (m Mapping) Assign(s *Struct, last int64, name func(Field) string) (*Struct, int64) {
	if !m.Maps() {
		return s, last
	}
	a := assigner{last: max(last, MaxColumnID(s)), name: name}
	return a.fields(s), a.last
}

// Upgrade gives the fields of the schema of a table without column mapping, whose data
// files have its names, physical names that are the same.
func (m Mapping) Upgrade(s *Struct) *Struct {
	out, _ := m.Assign(s, 0, func(f Field) string { return f.Name })
	return out
}

// CarryMapping gives the fields of a schema that lack them, at any depth, the physical
// names and ids that fields of the same names have in another.
func CarryMapping(from, to *Struct) *Struct {
	out := &Struct{Fields: slices.Clone(to.Fields)}
	for i, f := range out.Fields {
		source, ok := from.Field(f.Name)
		if !ok {
			continue
		}
		for _, key := range []string{columnIDKey, physicalNameKey} {
			value, has := source.Metadata[key]
			if _, own := f.Metadata[key]; has && !own {
				f = f.with(key, value)
			}
		}
		f.Type = carryType(source.Type, f.Type)
		out.Fields[i] = f
	}
	return out
}

func carryType(from, to Type) Type {
	switch t := to.(type) {
	case *Struct:
		if f, ok := from.(*Struct); ok {
			return CarryMapping(f, t)
		}
	case *Array:
		if f, ok := from.(*Array); ok {
			return &Array{Element: carryType(f.Element, t.Element), ContainsNull: t.ContainsNull}
		}
	case *Map:
		if f, ok := from.(*Map); ok {
			return &Map{Key: carryType(f.Key, t.Key), Value: carryType(f.Value, t.Value), ValueContainsNull: t.ValueContainsNull}
		}
	}
	return to
}

// MaxColumnID is the highest column id at any depth, 0 if there is none.
func MaxColumnID(s *Struct) int64 {
	var last int64
	_ = eachField(s, func(f Field) error {
		last = max(last, f.ColumnID())
		return nil
	})
	return last
}

// ColumnIDs are the column ids at any depth, with the names of their fields.
func ColumnIDs(s *Struct) map[int64]string {
	ids := map[int64]string{}
	_ = eachField(s, func(f Field) error {
		if id := f.ColumnID(); id >= 0 {
			ids[id] = f.Name
		}
		return nil
	})
	return ids
}

type assigner struct {
	last int64
	name func(Field) string
}

func (a *assigner) fields(s *Struct) *Struct {
	out := &Struct{Fields: make([]Field, len(s.Fields))}
	for i, f := range s.Fields {
		if f.ColumnID() < 0 {
			a.last++
			f = f.with(columnIDKey, json.Number(strconv.FormatInt(a.last, 10)))
		}
		if name, _ := f.Metadata[physicalNameKey].(string); name == "" {
			f = f.with(physicalNameKey, a.name(f))
		}
		f.Type = a.typ(f.Type)
		out.Fields[i] = f
	}
	return out
}

func (a *assigner) typ(t Type) Type {
	switch t := t.(type) {
	case *Struct:
		return a.fields(t)
	case *Array:
		return &Array{Element: a.typ(t.Element), ContainsNull: t.ContainsNull}
	case *Map:
		key := a.typ(t.Key) // before the value, so that ids rise from left to right
		return &Map{Key: key, Value: a.typ(t.Value), ValueContainsNull: t.ValueContainsNull}
	default:
		return t
	}
}
