package delta

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Spec describes a table to create.
type Spec struct {
	// Schema is the table's schema, partition columns included. With the property
	// delta.columnMapping.mode (name or id) columns may have any names; those that
	// bring no physical name and id get them.
	Schema *schema.Struct
	// PartitionBy are the names of the partition columns; nil for none.
	PartitionBy []string
	// Properties of the table. Those that begin with "delta." mean something to
	// Delta; features come with the properties that use them.
	Properties map[string]string
	// Name and Comment describe the table; "" for none.
	Name, Comment string
}

// Create makes a table, or opens the one that is there if rows of the wanted
// schema can go into it: its schema then has the spec's columns or can take them
// by schema.Merge, and the partition columns are the same. Its properties and
// comment are left as they are. Of several processes that create a table at the
// same time, one makes it and the others open that.
func Create(ctx context.Context, st store.Store, spec Spec, o Options) (*Table, error) {
	o = o.withDefaults()
	t, err := Open(ctx, st, o)
	switch {
	case err == nil:
		return spec.adopt(t)
	case !errors.Is(err, ErrNotTable):
		return nil, err
	}
	commit, err := spec.commit(o)
	if err != nil {
		return nil, fmt.Errorf("creating table %s: %w", st.URL(), err)
	}
	data, err := commit.Encode()
	if err != nil {
		return nil, fmt.Errorf("creating table %s: %w", st.URL(), err)
	}
	a := &attempt{
		t:        &Table{st: st, o: o, unresolved: map[string]unresolved{}},
		change:   &Change{ID: commit.Info.TxnID},
		deadline: deadline(o),
	}
	if _, err := a.create(ctx, 0, data); err != nil {
		return nil, fmt.Errorf("creating table %s: %w", st.URL(), err)
	}
	if t, err = Open(ctx, st, o); err != nil {
		return nil, err
	}
	return spec.adopt(t)
}

// adopt returns the table if rows of the spec can go into it.
func (spec Spec) adopt(t *Table) (*Table, error) {
	if err := spec.agrees(t.Snapshot()); err != nil {
		return nil, err
	}
	return t, nil
}

// agrees reports why rows of the spec cannot go into a table, or nil.
func (spec Spec) agrees(s *Snapshot) error {
	if spec.Schema == nil {
		return &ChangeError{Reason: "a table without a schema"}
	}
	if _, _, err := schema.Merge(s.Schema(), spec.Schema); err != nil {
		return fmt.Errorf("opening table %s, which has another schema: %w", s.st.URL(), err)
	}
	have := s.state.Metadata.PartitionColumns
	if !slices.EqualFunc(have, spec.PartitionBy, strings.EqualFold) {
		return fmt.Errorf("opening table %s: it is partitioned by %q, not by %q", s.st.URL(), have, spec.PartitionBy)
	}
	return nil
}

// commit is version 0 of the table.
func (spec Spec) commit(o Options) (action.Commit, error) {
	if err := spec.check(); err != nil {
		return action.Commit{}, err
	}
	features, err := neededFeatures(spec.Schema, spec.Properties)
	if err != nil {
		return action.Commit{}, err
	}
	protocol := createProtocol(features)
	now := o.Now().UnixMilli()
	sc, properties, err := spec.mapped(o)
	if err != nil {
		return action.Commit{}, err
	}
	metadata := action.Metadata{
		ID:               o.NewID(),
		Name:             spec.Name,
		Description:      spec.Comment,
		Format:           action.Format{Provider: "parquet"},
		SchemaString:     sc.JSON(),
		PartitionColumns: slices.Clone(spec.PartitionBy),
		Configuration:    properties,
		CreatedTime:      &now,
	}
	if err := canWrite(protocol, metadata, sc); err != nil {
		return action.Commit{}, err
	}
	info := &action.CommitInfo{
		Timestamp:           now,
		Operation:           OpCreateTable,
		OperationParameters: spec.parameters(),
		IsolationLevel:      isolationSerializable,
		IsBlindAppend:       new(true),
		EngineInfo:          o.Engine,
		TxnID:               o.NewID(),
	}
	if isTrue(spec.Properties, PropInCommitTimestamps) {
		info.InCommitTimestamp = &now
	}
	return action.Commit{Info: info, Protocol: &protocol, Metadata: &metadata}, nil
}

// mapped are the schema and the properties of the table: where columns are mapped, those
// that have no physical name and id yet get them.
func (spec Spec) mapped(o Options) (*schema.Struct, map[string]string, error) {
	properties := maps.Clone(spec.Properties)
	mapping, err := schema.ParseMapping(properties[PropColumnMappingMode])
	if err != nil {
		return nil, nil, &ChangeError{Reason: err.Error()}
	}
	if !mapping.Maps() {
		return spec.Schema, properties, spec.Schema.Validate()
	}
	sc, last := mapping.Assign(spec.Schema, 0, physicalNames(o))
	properties[PropColumnMappingMaxID] = strconv.FormatInt(last, 10)
	return sc, properties, mapping.Validate(sc)
}

// physicalNames chooses names of new columns, each unlike any other that there was.
func physicalNames(o Options) func(schema.Field) string {
	return func(schema.Field) string { return "col-" + o.NewID() }
}

func (spec Spec) check() error {
	if spec.Schema == nil {
		return &ChangeError{Reason: "a table without a schema"}
	}
	seen := map[string]bool{}
	for _, column := range spec.PartitionBy {
		f, ok := spec.Schema.Field(column)
		switch {
		case !ok || f.Name != column:
			return &ChangeError{Reason: fmt.Sprintf("partition column %q is not in the schema", column)}
		case seen[column]:
			return &ChangeError{Reason: fmt.Sprintf("partition column %q comes twice", column)}
		}
		if _, ok := f.Type.(schema.Primitive); !ok {
			if _, ok := f.Type.(schema.Decimal); !ok {
				return &ChangeError{Reason: fmt.Sprintf("partition column %q is of type %s: only simple types can partition", column, f.Type)}
			}
		}
		seen[column] = true
	}
	if len(spec.PartitionBy) == len(spec.Schema.Fields) {
		return &ChangeError{Reason: "all columns are partition columns, so the files would be empty"}
	}
	return nil
}

// parameters are the operation parameters of CREATE TABLE as Spark writes them:
// lists and maps are JSON text.
func (spec Spec) parameters() map[string]string {
	out := map[string]string{
		"isManaged":   "false",
		"partitionBy": jsonText(append([]string{}, spec.PartitionBy...)),
		"properties":  jsonText(nonNil(spec.Properties)),
	}
	if spec.Comment != "" {
		out["description"] = spec.Comment
	}
	return out
}
