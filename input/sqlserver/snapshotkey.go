package sqlserver

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// SnapshotKey is the columns that a snapshot cuts a table on, in the order of the index. Key order is ascending on every
// column as the server compares, NULL first. It is a value that can be stored as JSON and used again: the order depends on
// the columns alone.
type SnapshotKey struct {
	Columns []KeyColumn `json:"columns,omitempty"` // none: the table is one chunk
	Unique  bool        `json:"unique"`            // there is a unique index on these columns or some of them: no two rows share a value

	// Isolation is that of the statements that look for bounds (MaxKey, NextBound, EndBound). Under the default they wait
	// for the locks of writers.
	Isolation SnapshotIsolation `json:"isolation,omitempty"`
}

// KeyColumn is a column of the source table.
type KeyColumn struct {
	Name     string `json:"name"` // as captured
	Type     string `json:"type"` // as declared, for casts: decimal(18,2), "varchar(10) COLLATE Greek_CI_AS"
	Nullable bool   `json:"nullable,omitempty"`
}

// Bound is a place in key order: before the first row whose key is not less than it. It holds a text per column of the key
// that the server itself wrote and reads back exactly (text as is, numbers in decimal, binary values as 0x and hex, times with
// all their digits), and nil for NULL. An empty Bound is open. Only the server can compare two of them.
type Bound []*string

// open tells whether there is no bound.
func (b Bound) open() bool { return len(b) == 0 }

// sameText tells whether two values are written alike. Such values are equal; values written differently can be equal, too.
func sameText(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

const (
	sourceColumnsStatement = `SELECT c.column_id, c.name, c.is_computed, c.is_nullable, c.collation_name, c.max_length, c.[precision], c.scale, b.name AS base
FROM sys.columns AS c LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id WHERE c.object_id = OBJECT_ID(@object)`

	uniqueIndexesStatement = `SELECT i.index_id, k.column_id, k.is_descending_key
FROM sys.indexes AS i JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
WHERE i.object_id = OBJECT_ID(@object) AND i.is_unique = 1 AND i.is_disabled = 0 AND i.is_hypothetical = 0 AND i.has_filter = 0 AND k.key_ordinal > 0
ORDER BY i.index_id, k.key_ordinal`
)

// SnapshotKey decides which columns a snapshot of the layout's table is cut on.
//
// With names it is these captured columns, matched exactly or else ignoring case. A column that is not captured, is computed,
// is gone from the source table, or whose type cannot be sorted or bound is a *SchemaError that says how to go on. They need
// no index, but without one that begins with these columns each bound and each chunk costs a scan of the table.
//
// Without names it is the unique index that CDC uses. One that cannot be used leaves the table in one chunk, with a warning in
// the next window; so does a table without such an index, without a warning. Of an index whose columns sort in
// different directions only the first columns that sort alike are used.
func (c *Client) SnapshotKey(ctx context.Context, layout Layout, names []string) (SnapshotKey, error) {
	instance := layout.Instance
	if len(names) == 0 && len(instance.KeyColumns) == 0 {
		return SnapshotKey{}, nil
	}
	doing := "choosing the columns that a snapshot of " + instance.Table.String() + " is cut on"
	source, indexes, err := c.describeSource(ctx, layout, doing)
	if err != nil {
		return SnapshotKey{}, err
	}
	if len(names) == 0 {
		key, problem := indexKey(source, indexes, instance.KeyColumns)
		if problem != "" {
			c.notices.add(fmt.Sprintf("table %s: %s", instance.Table, problem))
		}
		return key, nil
	}
	captured, _, err := c.captured(ctx, instance)
	if err != nil {
		return SnapshotKey{}, err
	}
	key, err := namedKey(instance, captured, source, names)
	if err != nil {
		return SnapshotKey{}, fmt.Errorf("%s: %w", doing, err)
	}
	key.Unique = source.unique(indexes, key.Columns)
	return key, nil
}

// describeSource asks for the columns and the unique indexes of the source table.
func (c *Client) describeSource(ctx context.Context, layout Layout, doing string) (sourceTable, []uniqueIndex, error) {
	table := layout.Instance.Table.Quoted()
	var columns, indexes []record
	err := c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) (err error) {
		if columns, err = query(ctx, conn, sourceColumnsStatement, sql.Named("object", table)); err != nil {
			return err
		}
		if len(columns) == 0 {
			// What is not visible is gone or denied; reading it tells which.
			_, err = query(ctx, conn, "SELECT TOP (0) 1 AS none FROM "+table)
			return err
		}
		indexes, err = query(ctx, conn, uniqueIndexesStatement, sql.Named("object", table))
		return err
	})
	if err != nil {
		return nil, nil, c.explainSource(ctx, layout.Instance, err)
	}
	if len(columns) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", doing, goneTable(layout.Instance, nil))
	}
	source := make(sourceTable, len(columns))
	for i, row := range columns {
		source[i] = sourceColumnOf(row)
	}
	return source, indexesOf(indexes), nil
}

// sourceColumn is a column of the source table as it is now.
type sourceColumn struct {
	id        int64
	computed  bool
	KeyColumn // its Type is empty if values cannot be sorted or bound
	declared  sqlType
}

// sourceTable is the columns of the source table.
type sourceTable []sourceColumn

func sourceColumnOf(row record) sourceColumn {
	var column sourceColumn
	column.id, _ = row.number("column_id")
	computed, _ := row.number("is_computed")
	nullable, known := row.number("is_nullable")
	column.Name, column.computed, column.Nullable = row.text("name"), computed == 1, nullable == 1 || !known
	column.declared = sourceType(row)
	if typ, ok := keyTypeOf(column.declared, row.text("collation_name")); ok {
		column.Type = typ.String()
	}
	return column
}

// sourceType reads the type of a row of sys.columns, whose lengths are in bytes.
func sourceType(row record) sqlType {
	t := sqlType{name: strings.ToLower(row.text("base"))}
	length, _ := row.number("max_length")
	precision, _ := row.number("precision")
	scale, _ := row.number("scale")
	t.length, t.precision, t.scale = int(length), int32(precision), int32(scale)
	if t.length > 0 && (t.name == "nchar" || t.name == "nvarchar") {
		t.length /= 2
	}
	return t
}

func (s sourceTable) byName(name string) (sourceColumn, bool) {
	for _, column := range s {
		if column.Name == name {
			return column, true
		}
	}
	return sourceColumn{}, false
}

// uniqueIndex is the columns of a unique index in its order.
type uniqueIndex []indexColumn

type indexColumn struct {
	id         int64
	descending bool
}

func indexesOf(rows []record) []uniqueIndex {
	var indexes []uniqueIndex
	last := int64(-1)
	for _, row := range rows {
		index, _ := row.number("index_id")
		if index != last {
			indexes, last = append(indexes, nil), index
		}
		id, _ := row.number("column_id")
		descending, _ := row.number("is_descending_key")
		i := len(indexes) - 1
		indexes[i] = append(indexes[i], indexColumn{id: id, descending: descending == 1})
	}
	return indexes
}

// unique tells whether a unique index has no other columns than these.
func (s sourceTable) unique(indexes []uniqueIndex, columns []KeyColumn) bool {
	ids := map[int64]bool{}
	for _, column := range columns {
		if found, ok := s.byName(column.Name); ok {
			ids[found.id] = true
		}
	}
	for _, index := range indexes {
		covered := true
		for _, column := range index {
			covered = covered && ids[column.id]
		}
		if covered {
			return true
		}
	}
	return false
}

// indexKey is the key of the index that CDC uses, and what kept it from being the whole of it.
func indexKey(source sourceTable, indexes []uniqueIndex, names []string) (SnapshotKey, string) {
	var key SnapshotKey
	for _, name := range names {
		column, ok := source.byName(name)
		if !ok {
			return SnapshotKey{}, fmt.Sprintf("a snapshot reads it in one chunk, since column %s of its unique index is gone; name other columns to cut it on", mssqlcdc.QuoteName(name))
		}
		if column.Type == "" {
			return SnapshotKey{}, fmt.Sprintf("a snapshot reads it in one chunk, since values of column %s of its unique index (%s) cannot be sorted or bound; name other columns to cut it on",
				mssqlcdc.QuoteName(name), column.declared)
		}
		key.Columns = append(key.Columns, column.KeyColumn)
	}
	alike := source.alike(indexes, key.Columns)
	problem := ""
	if alike < len(key.Columns) {
		problem = fmt.Sprintf("a snapshot is cut on the first %d of the %d columns of its unique index, since the next sorts the other way; name columns to cut it finer", alike, len(key.Columns))
		key.Columns = key.Columns[:alike]
	}
	key.Unique = source.unique(indexes, key.Columns)
	return key, problem
}

// alike is how many of the columns, from the first on, the index on them sorts in one direction. Without an index on them it is
// all: whatever their order, the rows have to be sorted.
func (s sourceTable) alike(indexes []uniqueIndex, columns []KeyColumn) int {
	alike := len(columns)
	for _, index := range indexes {
		if !s.indexed(index, columns) {
			continue
		}
		n := 1
		for n < len(index) && index[n].descending == index[0].descending {
			n++
		}
		if n == len(columns) {
			return n
		}
		alike = n
	}
	return alike
}

// indexed tells whether an index is on exactly these columns, in this order.
func (s sourceTable) indexed(index uniqueIndex, columns []KeyColumn) bool {
	if len(index) != len(columns) {
		return false
	}
	for i, column := range columns {
		if found, ok := s.byName(column.Name); !ok || found.id != index[i].id {
			return false
		}
	}
	return true
}

// namedKey is the key of columns that the configuration names.
func namedKey(instance mssqlcdc.CaptureInstance, captured []captured, source sourceTable, names []string) (SnapshotKey, error) {
	var key SnapshotKey
	for _, name := range names {
		one, reason := findCaptured(captured, name)
		refuse := func(reason string) error {
			return &SchemaError{
				Instance: instance.Name, Column: name, Reason: "a snapshot cannot be cut on it: " + reason,
				Cure: "name other columns, or none to cut on the unique index",
			}
		}
		if reason != "" {
			return SnapshotKey{}, refuse(reason)
		}
		column, live := source.byName(one.name)
		switch {
		case !live || column.id != one.id:
			return SnapshotKey{}, refuse("the source table no longer has it")
		case column.computed:
			return SnapshotKey{}, refuse("it is computed")
		case column.Type == "":
			return SnapshotKey{}, refuse("values of type " + one.declared + " cannot be sorted or bound")
		}
		for _, before := range key.Columns {
			if before.Name == column.Name {
				return SnapshotKey{}, refuse("it is named twice")
			}
		}
		key.Columns = append(key.Columns, column.KeyColumn)
	}
	return key, nil
}

// findCaptured looks a captured column up: exactly, or else ignoring case if only one matches. It returns the reason if not.
func findCaptured(all []captured, name string) (captured, string) {
	var folded []captured
	for _, one := range all {
		if one.name == name {
			return one, ""
		}
		if strings.EqualFold(one.name, name) {
			folded = append(folded, one)
		}
	}
	switch len(folded) {
	case 1:
		return folded[0], ""
	case 0:
		return captured{}, "it is not captured"
	}
	return captured{}, "several captured columns have this name in different letter case"
}
