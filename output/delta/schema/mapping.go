package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Mapping says by what the columns of a table are found in its data files ("Column Mapping"
// in PROTOCOL.md).
type Mapping string

// The mappings, by the values of the table property delta.columnMapping.mode.
const (
	// MapNone finds columns by their names.
	MapNone Mapping = "none"
	// MapByName finds columns by their physical names.
	MapByName Mapping = "name"
	// MapByID finds columns by the field ids of the Parquet schema.
	MapByID Mapping = "id"
)

// The metadata of a field in a table with column mapping.
const (
	columnIDKey     = "delta.columnMapping.id"
	physicalNameKey = "delta.columnMapping.physicalName"
)

// ParseMapping reads the table property; "" is MapNone.
func ParseMapping(mode string) (Mapping, error) {
	switch m := Mapping(strings.ToLower(mode)); m {
	case "", MapNone:
		return MapNone, nil
	case MapByName, MapByID:
		return m, nil
	default:
		return "", fmt.Errorf("column mapping mode %q is none of none, name, id", mode)
	}
}

// PhysicalName is the name of a field in the table's files, statistics and partition
// values.
func (m Mapping) PhysicalName(f Field) string {
	if m.Maps() {
		if name, ok := f.Metadata[physicalNameKey].(string); ok {
			return name
		}
	}
	return f.Name
}

// Maps tells whether columns are found by other things than their names.
func (m Mapping) Maps() bool { return m == MapByName || m == MapByID }

// Same tells whether two mappings find columns alike; "" is MapNone.
func (m Mapping) Same(other Mapping) bool { return m == other || !m.Maps() && !other.Maps() }

// ColumnID is the field's id in a table with column mapping, a number of 31 bits; -1 if it
// has none.
func (f Field) ColumnID() int64 {
	number, ok := f.Metadata[columnIDKey].(json.Number)
	if !ok {
		return -1
	}
	id, err := number.Int64()
	if err != nil || id < 0 || id > math.MaxInt32 {
		return -1
	}
	return id
}

// Check reports the first field that lacks its physical name or id, or shares it with
// another: rows of such a table cannot be told apart.
func (m Mapping) Check(s *Struct) error {
	if !m.Maps() {
		return nil
	}
	return m.checkStruct("", s, map[int64]string{})
}

func (m Mapping) checkStruct(path string, s *Struct, ids map[int64]string) error {
	names := map[string]string{}
	for _, f := range s.Fields {
		column := join(path, f.Name)
		name, _ := f.Metadata[physicalNameKey].(string)
		id := f.ColumnID()
		switch {
		case name == "":
			return fmt.Errorf("column %s has no %s, which a table with column mapping must have", column, physicalNameKey)
		case id < 0:
			return fmt.Errorf("column %s has no %s, which a table with column mapping must have", column, columnIDKey)
		case names[strings.ToLower(name)] != "":
			return fmt.Errorf("columns %s and %s have the physical name %s both", names[strings.ToLower(name)], column, name)
		case ids[id] != "":
			return fmt.Errorf("columns %s and %s have the column id %d both", ids[id], column, id)
		}
		names[strings.ToLower(name)], ids[id] = column, column
		if err := m.checkType(column, f.Type, ids); err != nil {
			return err
		}
	}
	return nil
}

func (m Mapping) checkType(path string, t Type, ids map[int64]string) error {
	switch t := t.(type) {
	case *Struct:
		return m.checkStruct(path, t, ids)
	case *Array:
		return m.checkType(join(path, "element"), t.Element, ids)
	case *Map:
		if err := m.checkType(join(path, "key"), t.Key, ids); err != nil {
			return err
		}
		return m.checkType(join(path, "value"), t.Value, ids)
	default:
		return nil
	}
}
