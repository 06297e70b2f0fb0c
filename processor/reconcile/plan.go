package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// plan is what is read of both sides.
type plan struct {
	instance  mssqlcdc.CaptureInstance   // columns and keys are its
	instances []mssqlcdc.CaptureInstance // of the table, oldest first
	cut       sqlserver.SnapshotKey      // what the source is read in the order of
	whole     sqlserver.Layout           // the compared columns
	keysOnly  sqlserver.Layout           // the key columns
	columns   []column
	skipped   []string // captured columns that the target does not have
}

// column is a compared column.
type column struct {
	name   string // as captured
	target string // as the Delta table has it
	key    bool
	form   form
}

// newPlan chooses instance, key and columns.
func newPlan(ctx context.Context, c Config, target *schema.Struct) (*plan, error) {
	p := &plan{}
	if err := p.findInstance(ctx, c); err != nil {
		return nil, err
	}
	keys := c.Keys
	if len(keys) == 0 {
		keys = p.instance.KeyColumns
	}
	if len(keys) == 0 {
		return nil, &NoKeyError{Table: c.Table}
	}
	if err := p.chooseColumns(ctx, c, target, keys); err != nil {
		return nil, err
	}
	var err error
	if p.cut, err = c.Client.SnapshotKey(ctx, p.whole, c.Keys); err != nil {
		return nil, err
	}
	p.cut.Isolation = c.Isolation
	return p, nil
}

func (p *plan) findInstance(ctx context.Context, c Config) error {
	all, err := c.Client.Instances(ctx)
	if err != nil {
		return err
	}
	for _, instance := range all {
		if instance.Table == c.Table || strings.EqualFold(instance.Table.String(), c.Table.String()) {
			p.instances = append(p.instances, instance)
		}
	}
	if len(p.instances) == 0 {
		var known []string
		for _, instance := range all {
			known = append(known, instance.Table.String())
		}
		return fmt.Errorf("table %s: %w; there are instances of %s", c.Table, sqlserver.ErrUnknownInstance, strings.Join(slices.Compact(known), ", "))
	}
	slices.SortStableFunc(p.instances, func(a, b mssqlcdc.CaptureInstance) int { return a.StartLSN.Compare(b.StartLSN) })
	p.instance = p.instances[len(p.instances)-1]
	if c.Instance != "" {
		p.instance, err = sqlserver.FindInstance(p.instances, c.Instance)
	}
	return err
}

// chooseColumns takes the captured columns that the target has, and lays them out.
func (p *plan) chooseColumns(ctx context.Context, c Config, target *schema.Struct, keys []string) error {
	all, err := c.Client.Columns(ctx, p.instance, c.Columns)
	if err != nil {
		return err
	}
	var names []string
	for _, source := range all.Columns {
		isKey := slices.ContainsFunc(keys, func(key string) bool { return strings.EqualFold(key, source.Name) })
		field, ok := target.Field(renamed(c.Target.Rename, source.Name))
		if !ok && isKey {
			return &TargetError{Target: c.Target.Name, Missing: []string{source.Name}, Cure: "name other key columns, or another table"}
		}
		if !ok {
			p.skipped = append(p.skipped, source.Name)
			continue
		}
		common, ok := commonForm(source.Type, schema.ArrowType(field.Type))
		if !ok {
			return &ColumnError{
				Column: source.Name, Reason: fmt.Sprintf("the source gives %s (%s) and the table has %s, which cannot be compared", source.Type, source.SourceType, field.Type),
				Cure: "convert or leave out the column as the pipeline does (column types, exclude)",
			}
		}
		names = append(names, source.Name)
		p.columns = append(p.columns, column{name: source.Name, target: field.Name, key: isKey, form: common})
	}
	for _, key := range keys {
		if !slices.ContainsFunc(p.columns, func(col column) bool { return col.key && strings.EqualFold(col.name, key) }) {
			return &ColumnError{Column: key, Reason: "rows cannot be told apart by it: it is not among the captured columns that are compared", Cure: "name other key columns"}
		}
	}
	if p.whole, err = p.layout(ctx, c, p.instance, names); err != nil {
		return err
	}
	p.keysOnly, err = p.layout(ctx, c, p.instance, p.keyNames())
	return err
}

// renamed is the name that the target has for a column of the source.
func renamed(names map[string]string, name string) string {
	for from, to := range names {
		if strings.EqualFold(from, name) {
			return to
		}
	}
	return name
}

func (p *plan) keyNames() []string {
	var names []string
	for _, col := range p.columns {
		if col.key {
			names = append(names, col.name)
		}
	}
	return names
}

// layout is that of some columns of an instance, converted as configured.
func (p *plan) layout(ctx context.Context, c Config, instance mssqlcdc.CaptureInstance, names []string) (sqlserver.Layout, error) {
	options := sqlserver.ColumnOptions{Include: names, Types: map[string]string{}}
	for name, typ := range c.Columns.Types {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			options.Types[name] = typ
		}
	}
	return c.Client.Columns(ctx, instance, options)
}

// changeLayout is how changes of an instance are read. An older instance may lack columns: then only the keys are known.
func (p *plan) changeLayout(ctx context.Context, c Config, instance mssqlcdc.CaptureInstance) (layout sqlserver.Layout, whole bool, err error) {
	if instance.Name == p.instance.Name {
		return p.whole, true, nil
	}
	var names []string
	for _, col := range p.columns {
		names = append(names, col.name)
	}
	layout, err = p.layout(ctx, c, instance, names)
	var lacking *sqlserver.SchemaError
	if !errors.As(err, &lacking) {
		return layout, err == nil && sameTypes(layout, p.whole), err
	}
	layout, err = p.layout(ctx, c, instance, p.keyNames())
	return layout, false, err
}

func sameTypes(a, b sqlserver.Layout) bool {
	for _, x := range a.Columns {
		if !slices.ContainsFunc(b.Columns, func(y mssqlcdc.Column) bool { return x.Name == y.Name && arrow.TypeEqual(x.Type, y.Type) }) {
			return false
		}
	}
	return len(a.Columns) == len(b.Columns)
}

// side names the columns of a record.
type side func(column) string

func ofSource(c column) string { return c.name }
func ofTarget(c column) string { return c.target }

// bind prepares the digests of a record's rows; without values for a record of key columns.
func (p *plan) bind(rec arrow.RecordBatch, names side, values bool) (*rowDigests, error) {
	d := &rowDigests{buf: make([]byte, 0, 256)}
	for _, col := range p.columns {
		if !col.key && !values {
			continue
		}
		add, err := p.encoder(rec, col, names)
		if err != nil {
			return nil, err
		}
		if col.key {
			d.keys = append(d.keys, add)
		} else {
			d.values = append(d.values, add)
		}
	}
	return d, nil
}

func (p *plan) encoder(rec arrow.RecordBatch, col column, names side) (appender, error) {
	at := rec.Schema().FieldIndices(names(col))
	if len(at) != 1 {
		return nil, fmt.Errorf("column %s is not in what was read", mssqlcdc.QuoteName(names(col)))
	}
	add, err := col.form.encoder(rec.Column(at[0]))
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", mssqlcdc.QuoteName(names(col)), err)
	}
	return add, nil
}
