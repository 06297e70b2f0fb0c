package schema

import (
	"fmt"
	"strings"
)

// forbidden are the characters that Spark takes in no column name, unless the table
// has column mapping.
const forbidden = " ,;{}()\n\t="

// Validate reports the first rule that the schema breaks as one of a table without
// column mapping:
//
//   - there is at least one column, and no struct without fields;
//   - no name is empty;
//   - names are unique within their struct, ignoring case;
//   - no name has a space or one of , ; { } ( ) = tab and line feed;
//   - every decimal has 1 to 38 digits;
//   - no map has a key of type void.
func (s *Struct) Validate() error { return MapNone.Validate(s) }

// Validate reports the first rule that the schema breaks as one of a table with this
// mapping: those of [Struct.Validate], where a mapped column may have any name, and those
// of [Mapping.Check].
func (m Mapping) Validate(s *Struct) error {
	if err := m.ValidateNames(s); err != nil {
		return err
	}
	return m.Check(s)
}

// ValidateNames is [Mapping.Validate] without physical names and ids, which columns get
// later.
func (m Mapping) ValidateNames(s *Struct) error { return m.validateType("", s) }

// NeedsMapping tells whether any name, at any depth, is one that a table may have only with
// column mapping.
func NeedsMapping(s *Struct) bool {
	return eachField(s, func(f Field) error { return validateName("", f.Name) }) != nil
}

func (m Mapping) validateType(path string, t Type) error {
	switch t := t.(type) {
	case *Struct:
		return m.validateStruct(path, t)
	case *Array:
		return m.validateType(join(path, "element"), t.Element)
	case *Map:
		if t.Key == Void {
			return fmt.Errorf("column %s: the key of a map cannot be void", path)
		}
		if err := m.validateType(join(path, "key"), t.Key); err != nil {
			return err
		}
		return m.validateType(join(path, "value"), t.Value)
	case Decimal:
		if err := t.check(); err != nil {
			return fmt.Errorf("column %s: %w", path, err)
		}
	}
	return nil
}

func (m Mapping) validateStruct(path string, s *Struct) error {
	if len(s.Fields) == 0 {
		if path == "" {
			return fmt.Errorf("the schema has no columns")
		}
		return fmt.Errorf("column %s: a struct without fields cannot be stored", path)
	}
	seen := make(map[string]string, len(s.Fields))
	for _, f := range s.Fields {
		if err := validateName(path, f.Name); err != nil && (!m.Maps() || f.Name == "") {
			return err
		}
		key := strings.ToLower(f.Name)
		if other, twice := seen[key]; twice {
			return fmt.Errorf("columns %s and %s: names must differ in more than case: rename one", join(path, other), join(path, f.Name))
		}
		seen[key] = f.Name
		if err := m.validateType(join(path, f.Name), f.Type); err != nil {
			return err
		}
	}
	return nil
}

func validateName(path, name string) error {
	if name == "" {
		return fmt.Errorf("column %q: a name must not be empty", join(path, name))
	}
	if i := strings.IndexAny(name, forbidden); i >= 0 {
		return fmt.Errorf("column %q: the name has the character %q, which Delta allows only with column mapping (table property delta.columnMapping.mode=name): turn that on, or rename the column",
			join(path, name), name[i])
	}
	return nil
}
