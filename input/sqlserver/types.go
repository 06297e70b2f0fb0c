package sqlserver

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// sqlType is a declared type of SQL Server.
type sqlType struct {
	name      string // base type, lower case
	length    int    // characters or bytes; -1 is max, 0 none
	precision int32
	scale     int32 // also the fractional digits of time types
}

// String is the declaration: decimal(18,2), nvarchar(max).
func (t sqlType) String() string {
	switch t.name {
	case "decimal", "numeric":
		return fmt.Sprintf("%s(%d,%d)", t.name, t.precision, t.scale)
	case "char", "varchar", "nchar", "nvarchar", "binary", "varbinary":
		if t.length < 0 {
			return t.name + "(max)"
		}
		return fmt.Sprintf("%s(%d)", t.name, t.length)
	case "time", "datetime2", "datetimeoffset":
		return fmt.Sprintf("%s(%d)", t.name, t.scale)
	}
	return t.name
}

// kind says how values of the type come; false if they are not supported.
//
//	bit                                   bool
//	tinyint, smallint                     int16
//	int, bigint                           int32, int64
//	real, float                           float32, float64
//	decimal, numeric(p,s)                 decimal128(p,s)
//	money, smallmoney                     decimal128(19,4), decimal128(10,4)
//	date                                  date32
//	datetime, datetime2, smalldatetime    timestamp[us] as stored, without a zone
//	datetimeoffset                        timestamp[us, UTC], the instant
//	time                                  utf8 "hh:mm:ss.nnnnnnnnn"
//	character types, xml, uniqueidentifier   utf8
//	binary types, image, rowversion       binary
func (t sqlType) kind() (fetch.Column, bool) {
	switch t.name {
	case "bit":
		return fetch.Column{Kind: fetch.Bool}, true
	case "tinyint", "smallint":
		return fetch.Column{Kind: fetch.Int16}, true
	case "int":
		return fetch.Column{Kind: fetch.Int32}, true
	case "bigint":
		return fetch.Column{Kind: fetch.Int64}, true
	case "real":
		return fetch.Column{Kind: fetch.Float32}, true
	case "float":
		return fetch.Column{Kind: fetch.Float64}, true
	case "decimal", "numeric":
		return fetch.Column{Kind: fetch.Decimal, Precision: t.precision, Scale: t.scale}, true
	case "money":
		return fetch.Column{Kind: fetch.Decimal, Precision: 19, Scale: 4}, true
	case "smallmoney":
		return fetch.Column{Kind: fetch.Decimal, Precision: 10, Scale: 4}, true
	case "date":
		return fetch.Column{Kind: fetch.Date}, true
	case "datetime", "datetime2", "smalldatetime":
		return fetch.Column{Kind: fetch.Timestamp}, true
	case "datetimeoffset":
		return fetch.Column{Kind: fetch.Instant}, true
	case "time":
		return fetch.Column{Kind: fetch.TimeOfDay}, true
	case "uniqueidentifier":
		return fetch.Column{Kind: fetch.GUID}, true
	case "char", "varchar", "nchar", "nvarchar", "text", "ntext", "sysname":
		return fetch.Column{Kind: fetch.Text}, true
	case "xml":
		return fetch.Column{Kind: fetch.XML}, true
	case "binary", "varbinary", "image", "timestamp", "rowversion":
		return fetch.Column{Kind: fetch.Binary}, true
	}
	return fetch.Column{}, false
}

// known tells whether the name is a base type, supported or not.
func (t sqlType) known() bool {
	if _, ok := t.kind(); ok {
		return true
	}
	switch t.name {
	case "sql_variant", "geography", "geometry", "hierarchyid", "json", "vector", "cursor", "table":
		return true
	}
	return false
}

// capturedType reads the type of a row of sp_cdc_get_captured_columns.
func capturedType(row record) sqlType {
	t := sqlType{name: strings.ToLower(row.text("data_type"))}
	length, ok := row.number("character_maximum_length")
	if ok {
		t.length = int(length)
	}
	precision, _ := row.number("numeric_precision")
	scale, _ := row.number("numeric_scale")
	t.precision, t.scale = int32(precision), int32(scale)
	switch t.name {
	case "time", "datetime2", "datetimeoffset":
		if digits, ok := row.number("datetime_precision"); ok {
			t.scale = int32(digits)
		}
	case "sysname":
		t.name, t.length = "nvarchar", 128
	}
	return t
}

const typePattern = `^([a-z_0-9]+)\s*(?:\(\s*(max|\d{1,4})\s*(?:,\s*(\d{1,2})\s*)?\))?$`

// parseType reads the type of a columns option: a declaration, or "string".
func parseType(text string) (sqlType, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	if lower == "string" {
		return sqlType{name: "nvarchar", length: -1}, nil
	}
	parts := regexp.MustCompile(typePattern).FindStringSubmatch(lower)
	if parts == nil {
		return sqlType{}, fmt.Errorf("%q is not a type; want string or a declaration such as decimal(18,2)", text)
	}
	t := sqlType{name: parts[1]}
	if _, ok := t.kind(); !ok || t.name == "text" || t.name == "ntext" || t.name == "image" || t.name == "timestamp" || t.name == "rowversion" {
		return sqlType{}, fmt.Errorf("%q is not a type that values can be converted to; string always works", text)
	}
	first, firstErr := strconv.Atoi(parts[2])
	second, secondErr := strconv.Atoi(parts[3])
	switch t.name {
	case "decimal", "numeric":
		t.precision = 18
		if firstErr == nil {
			t.precision = int32(first)
		}
		if secondErr == nil {
			t.scale = int32(second)
		}
		if t.precision < 1 || t.precision > 38 || t.scale > t.precision {
			return sqlType{}, fmt.Errorf("%q: want a precision of 1 to 38 and a scale up to it", text)
		}
	case "char", "varchar", "nchar", "nvarchar", "binary", "varbinary":
		if t.length = first; parts[2] == "max" {
			t.length = -1
		}
		if t.length == 0 || t.length > 8000 {
			return sqlType{}, fmt.Errorf("%q: a length of 1 to 8000 or max is needed", text)
		}
	case "time", "datetime2", "datetimeoffset":
		t.scale = 7
		if firstErr == nil {
			t.scale = int32(first)
		}
		if t.scale > 7 {
			return sqlType{}, fmt.Errorf("%q: at most 7 digits of a second", text)
		}
	default:
		if parts[2] != "" {
			return sqlType{}, fmt.Errorf("%q: %s takes no length", text, t.name)
		}
	}
	return t, nil
}

// convert is the expression that converts a column from one type to another. Styles are those that lose nothing.
func convert(column string, from, to sqlType) string {
	target := to.String()
	style := ""
	if kind, _ := to.kind(); kind.Kind == fetch.Text {
		switch from.name {
		case "date", "time", "datetime", "datetime2", "smalldatetime", "datetimeoffset":
			style = ", 121"
		case "real", "float":
			style = ", 3"
		case "money", "smallmoney":
			style = ", 2"
		case "binary", "varbinary", "timestamp", "rowversion":
			style = ", 1"
		case "sql_variant":
			target = "nvarchar(4000)" // a variant holds at most 8,000 bytes and does not convert to a max type
		case "image":
			return fmt.Sprintf("CONVERT(%s, CONVERT(varbinary(max), %s), 1)", target, column)
		}
	}
	return fmt.Sprintf("CONVERT(%s, %s%s)", target, column, style)
}
