package silver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// prepareTarget opens the table or makes it, checks that it is this bronze's and this
// configuration's, and gives it the columns and types that bronze has got.
func (c *call) prepareTarget(ctx context.Context) error {
	if err := c.openTarget(ctx); err != nil {
		return err
	}
	s := c.target.Snapshot()
	if err := c.checkTarget(s); err != nil {
		return err
	}
	metadata, err := c.metadata(s)
	if err != nil || metadata == nil {
		return err
	}
	_, err = c.target.Commit(ctx, delta.Change{
		Operation: delta.OpAddColumns, Metadata: metadata, ReadVersion: s.Version(),
		Rebase: func(_ context.Context, s *delta.Snapshot) (delta.Change, error) {
			again, err := c.metadata(s)
			return delta.Change{Operation: delta.OpAddColumns, Metadata: again, ReadVersion: s.Version()}, err
		},
	})
	if err != nil {
		return fmt.Errorf("giving table %s the columns of bronze: %w", c.cfg.TargetName, err)
	}
	return nil
}

func (c *call) openTarget(ctx context.Context) error {
	if c.target != nil {
		if _, err := c.target.Refresh(ctx); err != nil {
			if errors.Is(err, delta.ErrTableReplaced) {
				c.target = nil // the next call looks at what is there now
			}
			return fmt.Errorf("reading table %s: %w", c.cfg.TargetName, err)
		}
		return nil
	}
	o := c.cfg.Delta
	if o.Upkeep == nil {
		auto := c.cfg.Upkeep
		auto.Writer = c.cfg.Writer
		o.Upkeep = auto.Upkeep
	}
	table, err := delta.Open(ctx, c.cfg.Target, o)
	if errors.Is(err, delta.ErrNotTable) {
		table, err = delta.Create(ctx, c.cfg.Target, c.spec(), o)
	}
	if err != nil {
		return fmt.Errorf("opening table %s: %w", c.cfg.TargetName, err)
	}
	c.target = table
	return nil
}

// spec is the table as it is made.
func (c *call) spec() delta.Spec {
	properties := c.properties()
	maps.Copy(properties, c.layout.extra)
	if c.cfg.Strategy == merge.DeletionVectors {
		properties[delta.PropDeletionVectors] = "true"
	}
	maps.Copy(properties, c.cfg.Properties)
	comment := c.cfg.Comment
	if comment == "" {
		source, _ := c.s.Property(mssqlcdc.PropSourceTable)
		comment = "The rows of " + source + ", built from its changes"
		if c.cfg.Mode == History {
			comment = "Every image of the rows of " + source + " and the time it was valid, built from its changes"
		}
	}
	return delta.Spec{Schema: c.layout.wanted, Properties: properties, Comment: comment}
}

// properties say what the table is built from and how.
func (c *call) properties() map[string]string {
	p := map[string]string{
		PropMode: c.cfg.kind(), PropBronzeID: c.s.Metadata().ID, mssqlcdc.PropKeyColumns: mssqlcdc.EncodeKeyColumns(c.layout.keys),
	}
	for _, name := range []string{mssqlcdc.PropSourceTable, mssqlcdc.PropSourceDatabase} {
		if value, ok := c.s.Property(name); ok {
			p[name] = value
		}
	}
	return p
}

// checkTarget refuses a table that is built otherwise, or from something else.
func (c *call) checkTarget(s *delta.Snapshot) error {
	refuse := func(format string, args ...any) error {
		return &ConfigError{Target: c.cfg.TargetName, Reason: fmt.Sprintf(format, args...)}
	}
	for property, want := range c.properties() {
		have, ok := s.Property(property)
		if !ok || have == want {
			continue
		}
		switch property {
		case PropMode:
			return refuse("it holds %s (property %s), and %s is configured: write to another path, or delete it to have it built anew", have, property, want)
		case PropBronzeID:
			return refuse("it was built from another bronze table than %s (its id is %s, not %s): write to another path, or delete it to have it built anew", c.cfg.BronzeName, want, have)
		case mssqlcdc.PropKeyColumns:
			names, _ := mssqlcdc.DecodeKeyColumns(have)
			return &KeyError{Target: c.cfg.TargetName, Column: strings.Join(c.layout.keys, ", "), Reason: fmt.Sprintf(
				"is not what its rows were told apart by so far (%s): set keys to that, or delete the table to have it built anew", strings.Join(names, ", "))}
		default:
			return refuse("its property %s is %s, and bronze table %s has %s: it holds another source table; write to another path", property, have, c.cfg.BronzeName, want)
		}
	}
	if _, ours := s.Property(PropMode); !ours && s.NumFiles() > 0 {
		if _, ok := s.Schema().Field(mssqlcdc.ColStartLSN); !ok || c.cfg.Mode == History {
			return refuse("it has rows that apply_changes did not write: write to another path")
		}
	}
	if have, _ := s.Property(delta.PropDeletionVectors); c.cfg.Strategy == merge.DeletionVectors && have != "true" && c.cfg.Properties[delta.PropDeletionVectors] != "true" {
		return refuse("merge_strategy: %s would keep readers out that do not know deletion vectors, which it has none of so far, for good: allow it with properties: { %s: \"true\" }, or write to another path",
			c.cfg.Strategy, delta.PropDeletionVectors)
	}
	return c.checkKeys(s)
}

// checkKeys refuses key columns of another type: rows of old and new values of a key could
// not be told apart, or not be put together.
func (c *call) checkKeys(s *delta.Snapshot) error {
	for _, key := range c.layout.keys {
		have, ok := s.Schema().Field(key)
		want, _ := c.layout.wanted.Field(key)
		if !ok && s.NumFiles() == 0 || ok && have.Type == want.Type {
			continue
		}
		reason := "is not in it: set keys to columns that it has, or delete the table to have it built anew"
		if ok {
			reason = fmt.Sprintf("is of type %s in it, and of type %s in bronze table %s now: delete the table, or write to another path, to have it built anew", have.Type, want.Type, c.cfg.BronzeName)
		}
		return &KeyError{Target: c.cfg.TargetName, Column: key, Reason: reason}
	}
	return nil
}

// metadata is what a version of the table lacks, nil if nothing.
func (c *call) metadata(s *delta.Snapshot) (*action.Metadata, error) {
	merged, changed, err := schema.Evolution{Widen: true}.Merge(s.Schema(), c.layout.wanted)
	if err != nil {
		return nil, &ConfigError{Target: c.cfg.TargetName, Reason: fmt.Sprintf(
			"a column of bronze table %s does not fit into it: %v; leave the column out with columns.exclude, or delete the table to have it built anew", c.cfg.BronzeName, err)}
	}
	m := s.Metadata()
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	if changed {
		m.SchemaString = merged.JSON()
	}
	if schema.HasTypeChanges(merged) && m.Configuration[delta.PropTypeWidening] != "true" {
		m.Configuration[delta.PropTypeWidening], changed = "true", true
	}
	for name, value := range c.properties() {
		if m.Configuration[name] != value {
			m.Configuration[name], changed = value, true
		}
	}
	if !changed {
		return nil, nil
	}
	return &m, nil
}
