package target

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Fitted is how rows of a schema go into a table. It is not changed once it is made.
type Fitted struct {
	// Schema is the table's once the rows are in it.
	Schema *schema.Struct
	// Mapping is the table's column mapping then.
	Mapping schema.Mapping
	// Changed tells whether that differs from the base of the fit.
	Changed bool
	// Columns are the table's columns for columns of the rows that go elsewhere than
	// their names say, by the names in the rows; nil for none.
	Columns map[string]string
	// Changes are the changes of types since the table as it stands.
	Changes []TypeChange

	// began is the table's schema that all fits began with; nil where there was no table.
	began *schema.Struct
}

// Steady tells whether a table at a snapshot takes the rows as the fit says, without being
// changed.
func (f *Fitted) Steady(s *delta.Snapshot) bool { return !f.Changed && s.Schema() == f.began }

// TypeChange is a column of the rows that got another type.
type TypeChange struct {
	Column   string
	From, To schema.Type
	// NewColumn is the column that takes the values from now on; "" if the column was
	// widened.
	NewColumn string
}

// String says what became of the column.
func (c TypeChange) String() string {
	if c.NewColumn == "" {
		return fmt.Sprintf("column %s was widened from %s to %s", c.Column, c.From, c.To)
	}
	return fmt.Sprintf("column %s changed from %s to %s: its values go to column %s from now on", c.Column, c.From, c.To, c.NewColumn)
}

// Rename is the record with its columns named as the table has them. The caller releases
// it.
func (f *Fitted) Rename(record arrow.RecordBatch) arrow.RecordBatch {
	if len(f.Columns) == 0 {
		record.Retain()
		return record
	}
	fields := record.Schema().Fields()
	for i := range fields {
		if name, ok := f.Columns[fields[i].Name]; ok {
			fields[i].Name = name
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), record.Columns(), record.NumRows())
}

// Fit says how rows of the incoming schema go into the table. A nil base is the table as it
// stands; where there is no table either, the incoming schema is what the table will be made
// with. Another base is what an earlier Fit gave for rows of the same commit. The error is a
// [*SchemaConflictError].
func (t *Target) Fit(base *Fitted, incoming *schema.Struct) (*Fitted, error) {
	return t.fitBy(base, incoming, place)
}

// FitByName is [Target.Fit] for rows whose columns are the table's by their names, also
// where a column has changed its type before: their types were chosen after the table.
func (t *Target) FitByName(incoming *schema.Struct) (*Fitted, error) {
	return t.fitBy(nil, incoming, func(_, incoming *schema.Struct, _ OnTypeChange) (*placement, error) {
		return &placement{rows: incoming}, nil
	})
}

// placer finds the table's columns for those of rows.
type placer func(table, incoming *schema.Struct, policy OnTypeChange) (*placement, error)

func (t *Target) fitBy(base *Fitted, incoming *schema.Struct, by placer) (*Fitted, error) {
	if base == nil && t.table != nil {
		base = At(t.table.Snapshot())
	}
	incoming = t.withComments(incoming)
	var out *Fitted
	var err error
	if base == nil {
		out, err = t.fitNew(incoming)
	} else {
		out, err = t.fit(base, incoming, by)
	}
	if err != nil {
		return nil, &SchemaConflictError{Table: t.spec.Name, Err: err}
	}
	return out, nil
}

// At is the table as a snapshot has it, as a base for [Target.Fit].
func At(s *delta.Snapshot) *Fitted {
	return &Fitted{Schema: s.Schema(), Mapping: s.Mapping(), began: s.Schema()}
}

// fitNew is the schema of a table to be made.
func (t *Target) fitNew(incoming *schema.Struct) (*Fitted, error) {
	mapping, err := schema.ParseMapping(t.spec.Properties[delta.PropColumnMappingMode])
	if err != nil {
		return nil, err
	}
	choice := t.spec.ColumnMapping
	if choice == MapByName || choice != MapNone && schema.NeedsMapping(incoming) {
		if !mapping.Maps() {
			mapping = schema.MapByName
		}
	}
	s, _ := mapping.Assign(incoming, 0, physicalName)
	if err := mapping.Validate(s); err != nil {
		return nil, err
	}
	return &Fitted{Schema: s, Mapping: mapping}, nil
}

// physicalName is the name of a new column in files: one that no other column had.
func physicalName(schema.Field) string { return "col-" + uuid.NewString() }

func (t *Target) fit(base *Fitted, incoming *schema.Struct, by placer) (*Fitted, error) {
	placed, err := by(base.Schema, incoming, t.spec.OnTypeChange)
	if err != nil {
		return nil, err
	}
	merged, changed, err := schema.Evolution{Widen: t.spec.OnTypeChange == Widen}.Merge(base.Schema, placed.rows)
	if err != nil {
		return nil, err
	}
	if err := t.allows(base.Schema, merged, changed, placed.changes); err != nil {
		return nil, err
	}
	out := &Fitted{
		Schema: merged, Mapping: base.Mapping, Changed: changed, Columns: placed.columns,
		Changes: slices.Concat(base.Changes, placed.changes), began: base.began,
	}
	if !changed {
		out.Schema = base.Schema
		return out, nil
	}
	return out, t.mapColumns(base, out)
}

// mapColumns gives new columns what column mapping wants, and turns it on where a new name
// needs it and the table may have it.
func (t *Target) mapColumns(base, out *Fitted) error {
	if !out.Mapping.Maps() && schema.NeedsMapping(out.Schema) {
		switch {
		case t.table == nil && t.spec.ColumnMapping != MapNone, t.spec.ColumnMapping == MapByName:
			out.Mapping = schema.MapByName
			out.Schema = schema.CarryMapping(out.Mapping.Upgrade(base.Schema), out.Schema)
		case t.table != nil && t.spec.ColumnMapping != MapNone:
			return fmt.Errorf("%w; column_mapping: name turns it on for a table that exists, which needs readers that know it", out.Schema.Validate())
		}
	}
	var last int64
	if s := t.Snapshot(); s != nil {
		last = s.LastColumnID()
	}
	out.Schema, _ = out.Mapping.Assign(out.Schema, last, physicalName)
	return out.Mapping.Validate(out.Schema)
}

// allows reports why the table must not change in such a way.
func (t *Target) allows(base, merged *schema.Struct, changed bool, changes []TypeChange) error {
	if changed && t.spec.Fixed && t.table != nil {
		what := newColumns(base, merged)
		for _, c := range changes {
			if c.NewColumn == "" {
				what = append(what, c.Column+" as "+c.To.String())
			}
		}
		return fmt.Errorf("new columns %s, and schema_evolution.enabled is false: add them to the table or allow it", strings.Join(what, ", "))
	}
	widened := slices.ContainsFunc(changes, func(c TypeChange) bool { return c.NewColumn == "" })
	if off := t.properties()[delta.PropTypeWidening]; widened && strings.EqualFold(off, "false") {
		return fmt.Errorf("%s, and the table property %s is false: set it to true, or on_type_change to new_column", changes[0], delta.PropTypeWidening)
	}
	return nil
}

// properties are those of the table, or those that it will be made with.
func (t *Target) properties() map[string]string {
	if t.table == nil {
		return t.spec.Properties
	}
	return t.table.Snapshot().Metadata().Configuration
}

// enabled are the properties that a table with the fitted schema needs.
func (f *Fitted) enabled(properties map[string]string) map[string]string {
	out := maps.Clone(properties)
	if out == nil {
		out = map[string]string{}
	}
	if f.Mapping.Maps() {
		out[delta.PropColumnMappingMode] = string(f.Mapping)
	}
	if slices.ContainsFunc(f.Changes, func(c TypeChange) bool { return c.NewColumn == "" }) {
		out[delta.PropTypeWidening] = "true"
	}
	return out
}

// newColumns are the names in merged that have is without.
func newColumns(have, merged *schema.Struct) []string {
	var names []string
	for _, f := range merged.Fields {
		if have.Index(f.Name) < 0 {
			names = append(names, f.Name)
		}
	}
	return names
}
