package target

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// OnTypeChange says what becomes of a column whose values the table's column does not take.
type OnTypeChange string

// The policies. Values that do fit are converted under each of them.
const (
	// Fail refuses such rows; "" is the same.
	Fail OnTypeChange = "fail"
	// Widen changes the type of the table's column, where Delta can do that without
	// writing files anew, and refuses the rows otherwise.
	Widen OnTypeChange = "widen"
	// NewColumn puts the values into a new column, and leaves the old one NULL.
	NewColumn OnTypeChange = "new_column"
)

// ColumnMapping says when a table gets column mapping, which lets columns have any names.
type ColumnMapping string

// The choices. Tables that have column mapping keep it under each of them.
const (
	// MapAuto maps the columns of a table that is made with a name that needs it; "" is
	// the same.
	MapAuto ColumnMapping = "auto"
	// MapNone refuses such names.
	MapNone ColumnMapping = "none"
	// MapByName maps the columns of every table that is made, and of one that exists
	// when it gets a column with such a name.
	MapByName ColumnMapping = "name"
)

// sourceColumn is the metadata of a column that holds the values of a column of another
// name since that one changed its type. It is all that a later run needs to go on.
const sourceColumn = mssqlcdc.MetaSourceColumn

// TypeChangeError reports a column whose values the table's column does not take. It wraps
// the [*schema.SchemaError] that names both types.
type TypeChangeError struct {
	*schema.SchemaError
	Policy OnTypeChange
	Widens bool // the table's column could be widened
}

// Error names the column, both types and the ways out.
func (e *TypeChangeError) Error() string {
	var out []string
	switch {
	case e.Widens:
		out = append(out, "set on_type_change to widen (the column takes the wider type, in a table that delta-rs and Polars do not read then)",
			"or to new_column (values go to a new column from now on)")
	case e.Policy == Widen:
		out = append(out, "Delta cannot widen the one to the other: set on_type_change to new_column (values go to a new column from now on)")
	default:
		out = append(out, "set on_type_change to new_column (values go to a new column from now on)")
	}
	return fmt.Sprintf("%v: the type has changed; %s, convert the values on their way (table_overrides: column_types), or write to another path",
		e.SchemaError, strings.Join(out, " "))
}

// Unwrap returns the schema.SchemaError.
func (e *TypeChangeError) Unwrap() error { return e.SchemaError }

// placement is the columns of rows as the table has them.
type placement struct {
	rows    *schema.Struct
	columns map[string]string // of those under another name
	changes []TypeChange
}

// place finds the table's column for each column of the rows: the newest of those that hold
// its values and take its type. Where none does, the policy says what happens.
func place(table, incoming *schema.Struct, policy OnTypeChange) (*placement, error) {
	p := &placement{rows: &schema.Struct{}}
	for _, f := range incoming.Fields {
		name, err := p.placeField(table, incoming, f, policy)
		if err != nil {
			return nil, err
		}
		if !schema.SameName(name, f.Name) {
			if p.columns == nil {
				p.columns = map[string]string{}
			}
			p.columns[f.Name] = name
			if table.Index(name) < 0 {
				f.Metadata = withSource(f)
			}
			f.Name = name
		}
		p.rows.Fields = append(p.rows.Fields, f)
	}
	return p, nil
}

func withSource(f schema.Field) map[string]any {
	metadata := map[string]any{sourceColumn: f.Name}
	if comment := f.Comment(); comment != "" {
		metadata[schema.CommentKey] = comment
	}
	return metadata
}

// placeField is the name of the table's column for one column of the rows.
func (p *placement) placeField(table, incoming *schema.Struct, f schema.Field, policy OnTypeChange) (string, error) {
	columns := columnsOf(table, f.Name)
	taken, isTaken := table.Field(f.Name)
	if len(columns) == 0 && !isTaken {
		return f.Name, nil
	}
	if len(columns) == 0 { // another column's values are there
		if policy != NewColumn {
			return "", fmt.Errorf("column %s holds the values of column %s since that one changed its type: set on_type_change to new_column to store both, or leave one out",
				f.Name, taken.Metadata[sourceColumn])
		}
		return free(table, incoming, p.rows, f.Name), nil
	}
	for _, have := range columns {
		if _, ok := takes(have, f, schema.Evolution{}); ok {
			return have.Name, nil
		}
	}
	for _, have := range columns {
		if to, ok := takes(have, f, schema.Evolution{Widen: true}); ok && policy == Widen {
			p.changes = append(p.changes, TypeChange{Column: have.Name, From: have.Type, To: to})
			return have.Name, nil
		}
	}
	newest := columns[0]
	if policy == NewColumn {
		name := free(table, incoming, p.rows, f.Name+"__"+typeName(f.Type))
		p.changes = append(p.changes, TypeChange{Column: f.Name, From: newest.Type, To: f.Type, NewColumn: name})
		return name, nil
	}
	_, widens := takes(newest, f, schema.Evolution{Widen: true})
	return "", &TypeChangeError{SchemaError: conflictOf(newest, f), Policy: cmp.Or(policy, Fail), Widens: widens}
}

// columnsOf are the table's columns for values of a column, newest first.
func columnsOf(table *schema.Struct, name string) []schema.Field {
	var out []schema.Field
	for i := len(table.Fields) - 1; i >= 0; i-- {
		if source, ok := table.Fields[i].Metadata[sourceColumn].(string); ok && schema.SameName(source, name) {
			out = append(out, table.Fields[i])
		}
	}
	if own, ok := table.Field(name); ok && own.Metadata[sourceColumn] == nil {
		out = append(out, own)
	}
	return out
}

// takes tells whether a column takes values, and the type that it has then.
func takes(have, values schema.Field, e schema.Evolution) (schema.Type, bool) {
	values.Name = have.Name
	merged, _, err := e.Merge(one(have), one(values))
	if err != nil {
		return nil, false
	}
	return merged.Fields[0].Type, true
}

func one(f schema.Field) *schema.Struct { return &schema.Struct{Fields: []schema.Field{f}} }

// conflictOf says which part of the column does not take which values.
func conflictOf(have, values schema.Field) *schema.SchemaError {
	values.Name = have.Name
	_, _, err := schema.Merge(one(have), one(values))
	var conflict *schema.SchemaError
	if errors.As(err, &conflict) {
		return conflict
	}
	return &schema.SchemaError{Column: have.Name, Have: values.Type.String(), Want: have.Type.String()}
}

// free is the name, or the name with the first number from 2 on that no column has.
func free(table, incoming, placed *schema.Struct, name string) string {
	for n, candidate := 2, name; ; n++ {
		if table.Index(candidate) < 0 && incoming.Index(candidate) < 0 && placed.Index(candidate) < 0 {
			return candidate
		}
		candidate = fmt.Sprintf("%s_%d", name, n)
	}
}

// typeName is a type as a part of a column's name.
func typeName(t schema.Type) string {
	switch t := t.(type) {
	case schema.Primitive:
		return string(t)
	case schema.Decimal:
		return fmt.Sprintf("decimal_%d_%d", t.Precision, t.Scale)
	case *schema.Array:
		return "array"
	case *schema.Map:
		return "map"
	default:
		return "struct"
	}
}
