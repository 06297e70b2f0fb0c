package target

import (
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// LayoutError reports that the table has changed such that it would look for a column's
// values elsewhere than files that were just written have them. The rows must be written
// again.
type LayoutError struct {
	Table string
	Err   error
}

// Error names the table and the column.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("the columns of table %s were changed by somebody else while rows were written for it, which must be written again: %v", e.Table, e.Err)
}

// Unwrap returns the reason.
func (e *LayoutError) Unwrap() error { return e.Err }

// Rebase says how rows that were written for one state of the table go into another, which
// a different writer may have made of it. The error is a [*SchemaConflictError] if they do
// not fit any more, and a [*LayoutError] if they must be written again. A nil fit stays nil.
func (t *Target) Rebase(s *delta.Snapshot, written *Fitted) (*Fitted, error) {
	if written == nil || s.Schema() == written.began || s.Mapping().Same(written.Mapping) && s.Schema().JSON() == written.Schema.JSON() {
		return written, nil
	}
	merged, changed, err := schema.Evolution{Widen: t.spec.OnTypeChange == Widen}.Merge(s.Schema(), written.Schema)
	if err != nil {
		return nil, &SchemaConflictError{Table: t.spec.Name, Err: err}
	}
	mapping := s.Mapping()
	if mapping.Maps() != written.Mapping.Maps() {
		// One of the two turned column mapping on: what was there keeps its names in files.
		if !mapping.Maps() {
			mapping = written.Mapping
			merged = schema.CarryMapping(written.Schema, merged)
		}
		merged, _ = mapping.Assign(merged, s.LastColumnID(), func(f schema.Field) string { return f.Name })
	}
	if err := t.checkLayout(s, written, merged, mapping); err != nil {
		return nil, &LayoutError{Table: t.spec.Name, Err: err}
	}
	return &Fitted{Schema: merged, Mapping: mapping, Changed: changed, Columns: written.Columns, Changes: written.Changes, began: s.Schema()}, nil
}

// checkLayout reports a column that files have elsewhere than the schema says.
func (t *Target) checkLayout(s *delta.Snapshot, written *Fitted, merged *schema.Struct, mapping schema.Mapping) error {
	if err := schema.SamePlaces(written.Schema, written.Mapping, merged, mapping); err != nil {
		return err
	}
	if err := mapping.Check(merged); err != nil {
		return err
	}
	if !s.Mapping().Maps() {
		return nil
	}
	had := schema.ColumnIDs(s.Schema())
	for id, name := range schema.ColumnIDs(merged) {
		if _, ok := had[id]; !ok && id <= s.LastColumnID() {
			return fmt.Errorf("column %s has the id %d, which was given to another", name, id)
		}
	}
	return nil
}

// Metadata is the table's metadata with what fitted rows and some properties change in it,
// for a delta.Change; nil if there is nothing to change.
func Metadata(s *delta.Snapshot, f *Fitted, properties map[string]string) *action.Metadata {
	m := s.Metadata()
	changed := false
	if f != nil && (!schema.Equal(s.Schema(), f.Schema) || !s.Mapping().Same(f.Mapping)) {
		m.SchemaString = f.Schema.JSON()
		properties = f.enabled(properties)
		changed = true
	}
	for name, value := range properties {
		if have, ok := m.Configuration[name]; ok && have == value {
			continue
		}
		if m.Configuration == nil {
			m.Configuration = map[string]string{}
		}
		m.Configuration[name] = value
		changed = true
	}
	if !changed {
		return nil
	}
	return &m
}
