package sqlserver

import (
	"database/sql"
	"fmt"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// keyType is the type of a column that a snapshot is cut on. Its values travel as nvarchar(max) both ways: the server writes
// them, and reads them back as this type, so that no client's type is in between, and the declaration of a parameter never
// depends on its value.
type keyType struct {
	sqlType

	collation string // of character types
}

const collateKeyword = " COLLATE "

// keyTypeOf is the type for casts; false for types that cannot be sorted, or whose values have no text that reads back.
func keyTypeOf(t sqlType, collation string) (keyType, bool) {
	switch t.name {
	case "bit", "tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney", "real", "float",
		"date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset", "uniqueidentifier":
		return keyType{sqlType: t}, true
	case "timestamp", "rowversion":
		return keyType{sqlType: sqlType{name: "binary", length: 8}}, true
	case "binary", "varbinary":
		return keyType{sqlType: t}, t.length > 0
	case "char", "varchar", "nchar", "nvarchar":
		return keyType{sqlType: t, collation: collation}, t.length > 0 && isCollation(collation)
	}
	return keyType{}, false
}

// isCollation keeps everything out of a statement that cannot be the name of a collation.
func isCollation(name string) bool {
	for _, r := range name {
		if r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return name != ""
}

// parseKeyType is the inverse of String.
func parseKeyType(text string) (keyType, error) {
	declared, collation, _ := strings.Cut(text, collateKeyword)
	t, err := parseType(declared)
	if err != nil {
		return keyType{}, err
	}
	typ, ok := keyTypeOf(t, collation)
	if !ok || typ.String() != text {
		return keyType{}, fmt.Errorf("%q is not a type that a snapshot can be cut on", text)
	}
	return typ, nil
}

// String is the type as declared, with its collation.
func (t keyType) String() string {
	if t.collation != "" {
		return t.sqlType.String() + collateKeyword + t.collation
	}
	return t.sqlType.String()
}

// write is the expression that writes a column's value as text.
func (t keyType) write(column string) string {
	if t.isBinary() {
		column = fmt.Sprintf("CONVERT(%s, %s)", t.sqlType, column) // a rowversion does not convert to Unicode text
	}
	return convert(column, t.sqlType, sqlType{name: "nvarchar", length: -1})
}

// read is the expression that reads a value back from text. A text is given the column's collation first: that one's code
// page, and not the database's, holds its letters.
func (t keyType) read(text string) string {
	switch {
	case t.collation != "":
		return fmt.Sprintf("CAST(%s COLLATE %s AS %s)", text, t.collation, t.sqlType)
	case t.isBinary():
		return fmt.Sprintf("CONVERT(%s, %s, 1)", t.sqlType, text)
	}
	switch t.name {
	case "date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset":
		return fmt.Sprintf("CONVERT(%s, %s, 121)", t.sqlType, text)
	}
	return fmt.Sprintf("CAST(%s AS %s)", text, t.sqlType)
}

func (t keyType) isBinary() bool { return t.name == "binary" || t.name == "varbinary" }

// keyColumn is a column of a key, ready for statements.
type keyColumn struct {
	name     string // quoted, of the alias c
	typ      keyType
	nullable bool
}

// compile reads the types of the key's columns.
func (k SnapshotKey) compile() ([]keyColumn, error) {
	columns := make([]keyColumn, len(k.Columns))
	for i, column := range k.Columns {
		typ, err := parseKeyType(column.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s of the snapshot key: %w", mssqlcdc.QuoteName(column.Name), err)
		}
		columns[i] = keyColumn{name: "c." + mssqlcdc.QuoteName(column.Name), typ: typ, nullable: column.Nullable}
	}
	return columns, nil
}

// edge is one end of a range of keys.
type edge struct {
	bound     Bound
	inclusive bool
	param     string // what its parameters' names begin with
}

// check says whether the bound belongs to a key of so many columns.
func (e edge) check(columns int) error {
	if !e.bound.open() && len(e.bound) != columns {
		return fmt.Errorf("a bound of %d values for a key of %d columns", len(e.bound), columns)
	}
	return nil
}

func (e edge) name(i int) string { return fmt.Sprintf("%s%d", e.param, i) }

// args are the parameters of the values from a column on.
func (e edge) args(first int) []sql.NamedArg {
	var args []sql.NamedArg
	for i := first; i < len(e.bound); i++ {
		if e.bound[i] != nil {
			args = append(args, sql.Named(e.name(i), mssql.NVarCharMax(*e.bound[i])))
		}
	}
	return args
}
