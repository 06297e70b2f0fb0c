package delta

import (
	"fmt"
	"strconv"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// evolve checks the schema of new metadata against the table's, and completes what column
// mapping keeps in metadata. It returns the schema.
func (c *Change) evolve(base *Snapshot, o Options, m *action.Metadata) (*schema.Struct, error) {
	sc, err := schema.Parse(m.SchemaString)
	if err != nil {
		return nil, &ChangeError{Reason: fmt.Sprintf("the new schema cannot be read: %v", err)}
	}
	mapping, err := schema.ParseMapping(m.Configuration[PropColumnMappingMode])
	if err != nil {
		return nil, &ChangeError{Reason: err.Error()}
	}
	if mapping != base.mapping && (base.mapping != schema.MapNone || mapping != schema.MapByName) {
		return nil, &ChangeError{Reason: fmt.Sprintf("the table property %s changes from %s to %s: only none can become name", PropColumnMappingMode, base.mapping, mapping)}
	}
	if mapping.Maps() {
		if sc, err = c.mapColumns(base, o, mapping, sc, m); err != nil {
			return nil, err
		}
	}
	if schema.Equal(sc, base.schema) && mapping == base.mapping {
		return sc, nil
	}
	if err := mapping.Validate(sc); err != nil {
		return nil, fmt.Errorf("checking the new schema: %w", err)
	}
	if err := schema.Follows(base.schema, base.mapping, sc, mapping); err != nil {
		return nil, fmt.Errorf("checking the new schema: %w", err)
	}
	return sc, nil
}

// mapColumns gives new columns their physical names and ids, unless files come along that
// were written without knowing them, and counts the ids on. Columns of a table that turns
// column mapping on keep their names in the files.
func (c *Change) mapColumns(base *Snapshot, o Options, mapping schema.Mapping, sc *schema.Struct, m *action.Metadata) (*schema.Struct, error) {
	before := base.LastColumnID()
	if len(c.Add) == 0 {
		if !base.mapping.Maps() {
			sc = schema.CarryMapping(mapping.Upgrade(base.schema), sc)
		}
		sc, _ = mapping.Assign(sc, before, physicalNames(o))
		m.SchemaString = sc.JSON()
	}
	if err := newIDs(base, sc, before); err != nil {
		return nil, err
	}
	m.Configuration[PropColumnMappingMaxID] = strconv.FormatInt(max(before, schema.MaxColumnID(sc)), 10)
	return sc, nil
}

// LastColumnID is the highest column id that the table ever had, as far as it says; 0
// without column mapping. New columns get higher ones.
func (s *Snapshot) LastColumnID() int64 {
	if !s.mapping.Maps() {
		return 0
	}
	last, err := strconv.ParseInt(s.state.Metadata.Configuration[PropColumnMappingMaxID], 10, 64)
	if err != nil {
		last = 0 // the columns tell
	}
	return max(last, schema.MaxColumnID(s.schema))
}

// newIDs reports a new column with an id that a dropped one may have had.
func newIDs(base *Snapshot, sc *schema.Struct, before int64) error {
	if !base.mapping.Maps() {
		return nil
	}
	had := schema.ColumnIDs(base.schema)
	for id, name := range schema.ColumnIDs(sc) {
		if _, ok := had[id]; !ok && id <= before {
			return &ChangeError{Reason: fmt.Sprintf("the new column %s has the column id %d, and ids up to %d were given to other columns", name, id, before)}
		}
	}
	return nil
}

// partitionKeys are the names of the partition columns in partition values: the physical
// ones under column mapping.
func partitionKeys(m action.Metadata) ([]string, error) {
	mapping, err := schema.ParseMapping(m.Configuration[PropColumnMappingMode])
	if err != nil {
		return nil, &ChangeError{Reason: err.Error()}
	}
	if !mapping.Maps() || len(m.PartitionColumns) == 0 {
		return m.PartitionColumns, nil
	}
	sc, err := schema.Parse(m.SchemaString)
	if err != nil {
		return nil, &ChangeError{Reason: fmt.Sprintf("the schema cannot be read: %v", err)}
	}
	keys := make([]string, len(m.PartitionColumns))
	for i, name := range m.PartitionColumns {
		f, ok := sc.Field(name)
		if !ok {
			return nil, &ChangeError{Reason: fmt.Sprintf("partition column %s is not in the schema", name)}
		}
		keys[i] = mapping.PhysicalName(f)
	}
	return keys, nil
}
