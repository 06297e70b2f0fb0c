package sqlserver

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

const (
	capturedStatement = `EXEC sys.sp_cdc_get_captured_columns @capture_instance = @ci`

	// What the procedure does not tell: which columns are computed (matched by id, since a dropped name can come back),
	// and how the change table stores text.
	columnsStatement = `SELECT column_id, name, is_computed, collation_name FROM sys.columns WHERE object_id = OBJECT_ID(@object)`

	baseTypeStatement = `SELECT TOP (1) b.name AS base FROM sys.types AS t JOIN sys.types AS b ON b.user_type_id = t.system_type_id WHERE t.name = @name`
)

// field is one column of a layout: how it is selected and how it is decoded.
type field struct {
	expression string // of the alias c
	column     fetch.Column
	id         int64 // column_id in the source table
}

// captured is a captured column as the catalogue describes it.
type captured struct {
	name      string
	id        int64
	ordinal   int64
	typ       sqlType
	declared  string // the type as declared, for people
	computed  bool
	collation string
}

// Columns says which columns a reader of the instance delivers and how. Computed columns are left out, since CDC records
// NULL for them. A type that cannot be read and a name that is ours are a *SchemaError that says how to go on.
func (c *Client) Columns(ctx context.Context, instance mssqlcdc.CaptureInstance, options ColumnOptions) (Layout, error) {
	all, withCommandID, err := c.captured(ctx, instance)
	if err != nil {
		return Layout{}, err
	}
	if !withCommandID {
		c.notices.add(fmt.Sprintf("the change table of capture instance %s has no __$command_id: rows of one transaction are ordered by __$seqval, which can put an insert before the delete that it follows; a new capture instance has the column (KB 3030352)", instance.Name))
	}
	return layoutOf(instance, all, withCommandID, options)
}

// captured lists the captured columns in the order of the change table.
func (c *Client) captured(ctx context.Context, instance mssqlcdc.CaptureInstance) (all []captured, withCommandID bool, err error) {
	doing := "reading the columns of capture instance " + instance.Name
	var rows, source, change []record
	err = c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) (err error) {
		if rows, err = query(ctx, conn, capturedStatement, sql.Named("ci", instance.Name)); err != nil {
			return err
		}
		if source, err = query(ctx, conn, columnsStatement, sql.Named("object", instance.Table.Quoted())); err != nil {
			return err
		}
		change, err = query(ctx, conn, columnsStatement, sql.Named("object", changeTable(instance.Name)))
		return err
	})
	if err != nil {
		return nil, false, c.explain(ctx, instance, err)
	}
	if len(rows) == 0 {
		if err := c.Diagnose(ctx, instance); err != nil {
			return nil, false, fmt.Errorf("%s: %w", doing, err)
		}
		return nil, false, &SchemaError{Instance: instance.Name, Reason: "it captures no column"}
	}
	if len(change) == 0 {
		return nil, false, c.denied(changeTable(instance.Name), nil)
	}
	for _, row := range rows {
		one, err := c.describe(ctx, row, source, change)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", doing, err)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b captured) int { return cmp.Compare(a.ordinal, b.ordinal) })
	withCommandID = slices.ContainsFunc(change, func(r record) bool { return r.text("name") == "__$command_id" })
	return all, withCommandID, nil
}

func (c *Client) describe(ctx context.Context, row record, source, change []record) (captured, error) {
	one := captured{name: row.text("column_name"), typ: capturedType(row)}
	one.id, _ = row.number("column_id")
	one.ordinal, _ = row.number("column_ordinal")
	one.declared = one.typ.String()
	for _, r := range source {
		if id, _ := r.number("column_id"); id == one.id {
			computed, _ := r.number("is_computed")
			one.computed = computed == 1
		}
	}
	for _, r := range change {
		if r.text("name") == one.name {
			one.collation = r.text("collation_name")
		}
	}
	if one.typ.known() {
		return one, nil
	}
	// An alias type, such as one made by CREATE TYPE … FROM.
	err := c.ask(ctx, "looking up type "+one.typ.name, func(ctx context.Context, conn *sql.Conn) error {
		found, err := query(ctx, conn, baseTypeStatement, sql.Named("name", row.text("data_type")))
		if err == nil && len(found) == 1 {
			one.typ.name = strings.ToLower(found[0].text("base"))
		}
		return err
	})
	return one, err
}

// layoutOf applies the options to the captured columns.
func layoutOf(instance mssqlcdc.CaptureInstance, all []captured, withCommandID bool, options ColumnOptions) (Layout, error) {
	choice, err := resolve(instance.Name, all, options)
	if err != nil {
		return Layout{}, err
	}
	layout := Layout{Instance: instance, HasCommandID: withCommandID}
	for _, one := range all {
		reason := ""
		switch {
		case choice.exclude[one.name], len(choice.include) > 0 && !choice.include[one.name]:
			reason = "excluded"
		case one.computed:
			reason = "computed"
		}
		if reason != "" {
			layout.LeftOut = append(layout.LeftOut, LeftOut{Name: one.name, Reason: reason})
			continue
		}
		if err := layout.add(one, choice.types); err != nil {
			return Layout{}, err
		}
	}
	if len(layout.Columns) == 0 {
		return Layout{}, &SchemaError{Instance: instance.Name, Reason: "no column is left to read", Cure: "check the columns option"}
	}
	return layout, nil
}

func (l *Layout) add(one captured, types map[string]sqlType) error {
	for _, reserved := range mssqlcdc.ReservedColumns() {
		if strings.EqualFold(one.name, reserved) {
			return &SchemaError{Instance: l.Instance.Name, Column: one.name, Reason: "the name is used by a metadata column", Cure: "exclude the column (columns option) or rename it in the source"}
		}
	}
	typ, expression := one.typ, "c."+mssqlcdc.QuoteName(one.name)
	target, retyped := types[one.name]
	switch {
	case retyped:
		typ, expression = target, convert(expression, one.typ, target)
	case one.isUTF8():
		// The driver would take the bytes for the code page of the collation's language.
		expression = convert(expression, one.typ, sqlType{name: "nvarchar", length: -1})
	}
	column, supported := typ.kind()
	if !supported {
		return &SchemaError{
			Instance: l.Instance.Name, Column: one.name, Reason: "values of type " + one.declared + " cannot be read",
			Cure: `convert them with the columns option (type "string"), or exclude the column`,
		}
	}
	column.Name = one.name
	l.fields = append(l.fields, field{expression: expression, column: column, id: one.id})
	l.Columns = append(l.Columns, mssqlcdc.Column{
		Name: one.name, Type: column.Type(), SourceType: one.declared,
		Key: slices.Contains(l.Instance.KeyColumns, one.name),
	})
	return nil
}

func (c captured) isUTF8() bool {
	switch c.typ.name {
	case "char", "varchar", "text":
		return strings.HasSuffix(strings.ToUpper(c.collation), "_UTF8")
	}
	return false
}

// chosen is ColumnOptions with the names as the catalogue has them.
type chosen struct {
	include, exclude map[string]bool
	types            map[string]sqlType
}

func resolve(instance string, all []captured, options ColumnOptions) (chosen, error) {
	choice := chosen{include: map[string]bool{}, exclude: map[string]bool{}, types: map[string]sqlType{}}
	for _, name := range options.Include {
		found, err := findColumn(instance, all, name)
		if err != nil {
			return choice, err
		}
		choice.include[found] = true
	}
	for _, name := range options.Exclude {
		found, err := findColumn(instance, all, name)
		if err != nil {
			return choice, err
		}
		choice.exclude[found] = true
	}
	for name, text := range options.Types {
		found, err := findColumn(instance, all, name)
		if err != nil {
			return choice, err
		}
		if choice.types[found], err = parseType(text); err != nil {
			return choice, &SchemaError{Instance: instance, Column: found, Reason: err.Error()}
		}
	}
	return choice, nil
}

// findColumn looks a name of an option up: exactly, or else ignoring case if only one column matches.
func findColumn(instance string, all []captured, name string) (string, error) {
	var folded []string
	for _, one := range all {
		if one.name == name {
			return name, nil
		}
		if strings.EqualFold(one.name, name) {
			folded = append(folded, one.name)
		}
	}
	if len(folded) == 1 {
		return folded[0], nil
	}
	reason := "it does not capture this column, which the columns option names"
	if len(folded) > 1 {
		reason = "it captures several columns of this name in different letter case"
	}
	return "", &SchemaError{Instance: instance, Column: name, Reason: reason, Cure: "check the columns option"}
}
