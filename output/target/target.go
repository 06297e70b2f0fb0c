package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Spec says how a table is made and written. Comment, Properties and PartitionBy
// count only when the table is made; a table that exists keeps its own.
type Spec struct {
	// Name is the table as the user wrote it, for messages.
	Name string
	// Comment is the table's description.
	Comment string
	// ColumnComments are comments by column name, ignoring case. They win over
	// what the schema brings along, and count for columns that are added later.
	ColumnComments map[string]string
	// Properties are the table's properties.
	Properties map[string]string
	// PartitionBy are the partition columns, ignoring case.
	PartitionBy []string
	// Fixed refuses rows with columns that an existing table does not have.
	Fixed bool
	// OnTypeChange is about columns whose values an existing table does not take.
	OnTypeChange OnTypeChange
	// ColumnMapping is about names of columns that need it.
	ColumnMapping ColumnMapping
	// Writer are the choices for data files.
	Writer data.WriterOptions
	// Delta are the options of the opened table.
	Delta delta.Options
	// Upkeep keeps the table in shape, unless Delta has an upkeep of its own: the zero
	// value compacts small files and cleans the log. Its files are written like ours.
	Upkeep maintain.Auto
}

// delta are the options of the opened table.
func (spec Spec) delta() delta.Options {
	o := spec.Delta
	if o.Upkeep == nil {
		auto := spec.Upkeep
		auto.Writer = spec.Writer
		o.Upkeep = auto.Upkeep
	}
	return o
}

// SchemaConflictError reports rows that do not fit into a table, and never will
// as both stand. It wraps what package schema says of the column.
type SchemaConflictError struct {
	Table string
	Err   error
}

// Error names the table, the column and both types.
func (e *SchemaConflictError) Error() string {
	return fmt.Sprintf("the rows do not fit into table %s: %v", e.Table, e.Err)
}

// Unwrap returns the reason.
func (e *SchemaConflictError) Unwrap() error { return e.Err }

// Target is one table, which may not exist yet. It is used from one goroutine at
// a time, except that files may be written by another.
type Target struct {
	st    store.Store
	spec  Spec
	table *delta.Table // nil until the table exists
}

// Open opens the table if it is there.
func Open(ctx context.Context, st store.Store, spec Spec) (*Target, error) {
	t := &Target{st: st, spec: spec}
	table, err := delta.Open(ctx, st, spec.delta())
	switch {
	case err == nil:
		t.table = table
		if err := t.checkPartitions(); err != nil {
			return nil, errors.Join(err, table.Close(ctx))
		}
	case !errors.Is(err, delta.ErrNotTable):
		return nil, err
	}
	return t, nil
}

// checkPartitions compares the partition columns that were asked for with those of
// the table, which cannot change.
func (t *Target) checkPartitions() error {
	have := t.table.Snapshot().Metadata().PartitionColumns
	if len(t.spec.PartitionBy) == 0 || slices.EqualFunc(have, t.spec.PartitionBy, strings.EqualFold) {
		return nil
	}
	return &SchemaConflictError{Table: t.spec.Name, Err: fmt.Errorf(
		"partition_by is %q, and the table is partitioned by %q: leave partition_by out, or write to another path", t.spec.PartitionBy, have)}
}

// Name is the table as the user wrote it.
func (t *Target) Name() string { return t.spec.Name }

// Table is the opened table, nil while there is none.
func (t *Target) Table() *delta.Table { return t.table }

// Snapshot is the newest version seen, nil while there is no table.
func (t *Target) Snapshot() *delta.Snapshot {
	if t.table == nil {
		return nil
	}
	return t.table.Snapshot()
}

// Refresh looks for a table that was made meanwhile, and for newer commits.
func (t *Target) Refresh(ctx context.Context) error {
	if t.table == nil {
		opened, err := Open(ctx, t.st, t.spec)
		if err != nil {
			return err
		}
		t.table = opened.table
		return nil
	}
	_, err := t.table.Refresh(ctx)
	return err
}

func (t *Target) withComments(s *schema.Struct) *schema.Struct {
	if len(t.spec.ColumnComments) == 0 {
		return s
	}
	out := &schema.Struct{Fields: slices.Clone(s.Fields)}
	for i, f := range out.Fields {
		for name, comment := range t.spec.ColumnComments {
			if schema.SameName(name, f.Name) {
				out.Fields[i] = f.WithComment(comment)
			}
		}
	}
	return out
}

// Create makes the table for fitted rows, or opens the one that somebody made
// meanwhile if such rows can go into it. It does nothing if the table is
// open. The properties are set beside those of the Spec, which win, and the comment
// stands in where the Spec has none.
func (t *Target) Create(ctx context.Context, f *Fitted, properties map[string]string, comment string) error {
	if t.table != nil {
		return nil
	}
	all := maps.Clone(properties)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, t.spec.Properties)
	all = f.enabled(all)
	partitionBy, err := t.partitionColumns(f.Schema)
	if err != nil {
		return err
	}
	table, err := delta.Create(ctx, t.st, delta.Spec{
		Schema: f.Schema, PartitionBy: partitionBy, Properties: all, Comment: cmp.Or(t.spec.Comment, comment),
	}, t.spec.delta())
	var conflict *schema.SchemaError
	if errors.As(err, &conflict) {
		return &SchemaConflictError{Table: t.spec.Name, Err: conflict}
	}
	if err != nil {
		return err
	}
	t.table = table
	return nil
}

// partitionColumns are the partition columns in the spelling of the schema: the
// table's own if it exists.
func (t *Target) partitionColumns(s *schema.Struct) ([]string, error) {
	if t.table != nil {
		return t.table.Snapshot().PartitionColumns(), nil
	}
	var names []string
	for _, name := range t.spec.PartitionBy {
		f, ok := s.Field(name)
		if !ok {
			return nil, &SchemaConflictError{Table: t.spec.Name, Err: fmt.Errorf("partition_by names column %q, which the rows do not have", name)}
		}
		names = append(names, f.Name)
	}
	return names, nil
}

// Close waits for what the table does in the background.
func (t *Target) Close(ctx context.Context) error {
	if t.table == nil {
		return nil
	}
	return t.table.Close(ctx)
}
