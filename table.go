package mssqlcdc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrInvalidTable is the error that every failed parse of a table name wraps.
var ErrInvalidTable = errors.New("invalid table name")

// TableID names a source table within its database. Names keep the case that
// the server stores.
type TableID struct {
	Schema string
	Name   string
}

// ParseTableID reads schema.name, each part bare or in brackets with ] doubled.
func ParseTableID(text string) (TableID, error) {
	schema, rest, err := cutIdentifier(text)
	if err != nil {
		return TableID{}, err
	}
	if !strings.HasPrefix(rest, ".") {
		return TableID{}, fmt.Errorf("%w %q: want schema.name", ErrInvalidTable, text)
	}
	name, rest, err := cutIdentifier(rest[1:])
	if err != nil {
		return TableID{}, err
	}
	if rest != "" || schema == "" || name == "" {
		return TableID{}, fmt.Errorf("%w %q: want schema.name", ErrInvalidTable, text)
	}
	return TableID{Schema: schema, Name: name}, nil
}

// cutIdentifier takes one identifier off the front of text.
func cutIdentifier(text string) (identifier, rest string, err error) {
	if !strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, '.')
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != ']' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == ']' {
			b.WriteByte(']')
			i++
			continue
		}
		return b.String(), text[i+1:], nil
	}
	return "", "", fmt.Errorf("%w %q: a bracket is not closed", ErrInvalidTable, text)
}

// String is schema.name. A part that holds a dot or a bracket is written in
// brackets, so that ParseTableID reads it back.
func (t TableID) String() string { return quotePart(t.Schema) + "." + quotePart(t.Name) }

// Quoted is [schema].[name], for statements.
func (t TableID) Quoted() string { return QuoteName(t.Schema) + "." + QuoteName(t.Name) }

// IsZero tells whether the name is none.
func (t TableID) IsZero() bool { return t == TableID{} }

// MarshalText writes [TableID.String]; none is the empty text.
func (t TableID) MarshalText() ([]byte, error) {
	if t.IsZero() {
		return []byte{}, nil
	}
	return []byte(t.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (t *TableID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = TableID{}
		return nil
	}
	parsed, err := ParseTableID(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

func quotePart(name string) string {
	if strings.ContainsAny(name, ".[]") || name == "" {
		return QuoteName(name)
	}
	return name
}

// QuoteName is QUOTENAME of T-SQL: the identifier in brackets, ] doubled. Every
// identifier that enters a statement goes through it.
func QuoteName(identifier string) string {
	return "[" + strings.ReplaceAll(identifier, "]", "]]") + "]"
}

// CaptureInstance is one row of sys.sp_cdc_help_change_data_capture.
type CaptureInstance struct {
	Name       string
	Table      TableID
	StartLSN   LSN       // commit LSN of the enable; below it this instance holds no change
	CreateDate time.Time // the server's clock, without a zone
	KeyColumns []string  // columns of the unique index that CDC uses; nil if none
}

// Column is one captured column that a reader delivers.
type Column struct {
	Name       string
	Type       arrow.DataType // what the record batch holds
	SourceType string         // as declared: decimal(18,2), nvarchar(max)
	Key        bool           // part of the capture instance's unique index
}

// The keys of the metadata of a captured column's Arrow field.
const (
	FieldSourceType = "mssql.type" // Column.SourceType
	FieldKey        = "mssql.key"  // "true" on key columns, absent otherwise
)

// Field is the Arrow field of the column: nullable, as every column of a change
// table is, with the source type and the key mark as metadata.
func (c Column) Field() arrow.Field {
	keys, values := []string{FieldSourceType}, []string{c.SourceType}
	if c.Key {
		keys, values = append(keys, FieldKey), append(values, "true")
	}
	return arrow.Field{Name: c.Name, Type: c.Type, Nullable: true, Metadata: arrow.NewMetadata(keys, values)}
}
