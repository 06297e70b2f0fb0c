package schema

import (
	"fmt"
	"maps"
	"slices"
)

// Widens tells whether the type of a column may be changed from one to the other while
// files of the old type stay as they are ("Type Widening" in PROTOCOL.md). Types with
// parts do not widen as a whole, but their parts do.
func Widens(from, to Type) bool {
	switch to := to.(type) {
	case Decimal:
		return widensToDecimal(from, to)
	case Primitive:
		switch to {
		case Short:
			return from == Byte
		case Integer:
			return from == Byte || from == Short
		case Long:
			return from == Byte || from == Short || from == Integer
		case Double:
			return from == Float || from == Byte || from == Short || from == Integer
		case TimestampNTZ:
			return from == Date
		}
	}
	return false
}

func widensToDecimal(from Type, to Decimal) bool {
	if to.check() != nil {
		return false
	}
	switch from := from.(type) {
	case Decimal:
		return from != to && to.Scale >= from.Scale && to.whole() >= from.whole()
	case Primitive:
		switch from {
		case Byte, Short, Integer:
			return to.whole() >= 10
		case Long:
			return to.whole() >= 20
		}
	}
	return false
}

// whole is the number of digits before the point.
func (d Decimal) whole() int { return d.Precision - d.Scale }

// Fits tells whether every value of one type is a value of the other: the types are
// equal, or the first widens to the second, or the second is a decimal with as many
// digits before the point as the integer has. Such values can be written to a column of
// the wider type.
func Fits(values, column Type) bool {
	if values == column || Widens(values, column) {
		return true
	}
	d, ok := column.(Decimal)
	if !ok || d.check() != nil {
		return false
	}
	switch values {
	case Byte:
		return d.whole() >= 3
	case Short:
		return d.whole() >= 5
	case Integer:
		return d.whole() >= 10
	case Long:
		return d.whole() >= 19
	}
	return false
}

// typeChangesKey is the metadata of a field whose type was changed.
const typeChangesKey = "delta.typeChanges"

// TypeChange is one change of the type of a field, or of a part of it.
type TypeChange struct {
	From, To Type
	// Path leads from the field to the part whose type was changed: "element", "key",
	// "value", or several of them with dots between; "" is the field itself.
	Path string
}

// String is the change in words.
func (c TypeChange) String() string { return fmt.Sprintf("%s -> %s", c.From, c.To) }

// TypeChanges are the changes of the field's type, oldest first. Data files from before
// them hold the old types. A change to a type that does not take all values of the one
// before ([Fits]) is an error.
func (f Field) TypeChanges() ([]TypeChange, error) {
	value, ok := f.Metadata[typeChangesKey]
	if !ok {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s of column %s is no list", typeChangesKey, f.Name)
	}
	changes := make([]TypeChange, len(list))
	for i, one := range list {
		c, err := parseTypeChange(one)
		if err != nil {
			return nil, fmt.Errorf("%s of column %s: %w", typeChangesKey, f.Name, err)
		}
		changes[i] = c
	}
	return changes, nil
}

func parseTypeChange(value any) (c TypeChange, err error) {
	entry, _ := value.(map[string]any)
	from, _ := entry["fromType"].(string)
	to, _ := entry["toType"].(string)
	c.Path, _ = entry["fieldPath"].(string)
	if c.From, err = parsePrimitive(from); err != nil {
		return c, fmt.Errorf("fromType: %w", err)
	}
	if c.To, err = parsePrimitive(to); err != nil {
		return c, fmt.Errorf("toType: %w", err)
	}
	// More than Widens allows, since others have widened a byte to a decimal(4,1).
	if !Fits(c.From, c.To) {
		return c, fmt.Errorf("values of type %s cannot be read as %s", c.From, c.To)
	}
	return c, nil
}

// withTypeChange returns the field with one more change recorded.
func (f Field) withTypeChange(c TypeChange) Field {
	entry := map[string]any{"fromType": c.From.String(), "toType": c.To.String()}
	if c.Path != "" {
		entry["fieldPath"] = c.Path
	}
	list, _ := f.Metadata[typeChangesKey].([]any)
	return f.with(typeChangesKey, append(slices.Clone(list), entry))
}

// with returns the field with one entry of its metadata set.
func (f Field) with(key string, value any) Field {
	f.Metadata = maps.Clone(f.Metadata)
	if f.Metadata == nil {
		f.Metadata = map[string]any{}
	}
	f.Metadata[key] = value
	return f
}

// CheckTypeChanges reports the first change of a type, at any depth, that values of old
// files cannot follow.
func CheckTypeChanges(s *Struct) error {
	return eachField(s, func(f Field) error {
		_, err := f.TypeChanges()
		return err
	})
}

// HasTypeChanges tells whether the type of any part of the schema was changed, which a
// table may have only with the feature typeWidening.
func HasTypeChanges(s *Struct) bool {
	found := false
	_ = eachField(s, func(f Field) error {
		_, has := f.Metadata[typeChangesKey]
		found = found || has
		return nil
	})
	return found
}

// eachField visits the fields of a type at any depth, outer ones first, until an error.
func eachField(t Type, visit func(Field) error) error {
	switch t := t.(type) {
	case *Struct:
		for _, f := range t.Fields {
			if err := visit(f); err != nil {
				return err
			}
			if err := eachField(f.Type, visit); err != nil {
				return err
			}
		}
	case *Array:
		return eachField(t.Element, visit)
	case *Map:
		if err := eachField(t.Key, visit); err != nil {
			return err
		}
		return eachField(t.Value, visit)
	}
	return nil
}
