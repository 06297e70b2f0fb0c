package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Follows reports why a schema must not take the place of another in a table whose files
// stay, or nil: a column that both have (by physical name, where columns are mapped) may
// change its type only as [Widens] and with that recorded, and never becomes not null.
// Columns may come and go, and be renamed where they are mapped.
func Follows(before *Struct, beforeBy Mapping, after *Struct, afterBy Mapping) error {
	f := follower{before: beforeBy, after: afterBy}
	return f.structs("", before, after)
}

type follower struct{ before, after Mapping }

func (w follower) structs(path string, before, after *Struct) error {
	had := make(map[string]Field, len(before.Fields))
	for _, f := range before.Fields {
		had[strings.ToLower(w.before.PhysicalName(f))] = f
	}
	for _, f := range after.Fields {
		column := join(path, f.Name)
		old, ok := had[strings.ToLower(w.after.PhysicalName(f))]
		if !ok {
			if _, same := had[strings.ToLower(f.Name)]; same && !w.before.Maps() {
				return fmt.Errorf("column %s: its values are in the data files under its name, and column mapping gives it the physical name %s", column, w.after.PhysicalName(f))
			}
			continue
		}
		if old.Nullable && !f.Nullable {
			return fmt.Errorf("column %s: it is nullable, and may have NULL in it: it cannot become not null", column)
		}
		if err := w.types(column, "", f, old.Type, f.Type); err != nil {
			return err
		}
	}
	return nil
}

func (w follower) types(path, within string, f Field, before, after Type) error {
	switch b := before.(type) {
	case *Struct:
		if a, ok := after.(*Struct); ok {
			return w.structs(path, b, a)
		}
	case *Array:
		if a, ok := after.(*Array); ok {
			return w.types(join(path, "element"), join(within, "element"), f, b.Element, a.Element)
		}
	case *Map:
		if a, ok := after.(*Map); ok {
			if err := w.types(join(path, "key"), join(within, "key"), f, b.Key, a.Key); err != nil {
				return err
			}
			return w.types(join(path, "value"), join(within, "value"), f, b.Value, a.Value)
		}
	default:
		if before == after || before == Void {
			return nil
		}
		if Widens(before, after) {
			return recorded(path, within, f, after)
		}
	}
	return &SchemaError{Column: path, Have: after.String(), Want: before.String()}
}

// recorded reports a type that was widened without a record of it: readers would not know
// that files hold another.
func recorded(path, within string, f Field, to Type) error {
	changes, err := f.TypeChanges()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(changes, func(c TypeChange) bool { return c.Path == within && c.To == to }) {
		return fmt.Errorf("column %s: it becomes %s, and its metadata do not say so in %s (Evolution.Merge writes that)", path, to, typeChangesKey)
	}
	return nil
}

// SamePlaces reports the first column of a schema that data files written for it have
// elsewhere than another schema says: under another physical name or id. Columns that the
// other schema does not have are reported too.
func SamePlaces(written *Struct, writtenBy Mapping, now *Struct, nowBy Mapping) error {
	p := places{written: writtenBy, now: nowBy}
	return p.structs("", written, now)
}

type places struct{ written, now Mapping }

func (p places) structs(path string, written, now *Struct) error {
	for _, f := range written.Fields {
		column := join(path, f.Name)
		other, ok := now.Field(f.Name)
		if !ok {
			return fmt.Errorf("column %s is no more", column)
		}
		if have, want := p.written.PhysicalName(f), p.now.PhysicalName(other); have != want {
			return fmt.Errorf("column %s is %s in the files, and the table has it as %s", column, have, want)
		}
		if p.written.Maps() && p.now.Maps() && f.ColumnID() != other.ColumnID() {
			return fmt.Errorf("column %s has id %d in the files, and %d in the table", column, f.ColumnID(), other.ColumnID())
		}
		if err := p.types(column, f.Type, other.Type); err != nil {
			return err
		}
	}
	return nil
}

func (p places) types(path string, written, now Type) error {
	switch w := written.(type) {
	case *Struct:
		if n, ok := now.(*Struct); ok {
			return p.structs(path, w, n)
		}
	case *Array:
		if n, ok := now.(*Array); ok {
			return p.types(join(path, "element"), w.Element, n.Element)
		}
	case *Map:
		if n, ok := now.(*Map); ok {
			if err := p.types(join(path, "key"), w.Key, n.Key); err != nil {
				return err
			}
			return p.types(join(path, "value"), w.Value, n.Value)
		}
	}
	return nil
}
