package tds

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Value is a value of a column, a parameter or a sql_variant. Its dynamic type is one of
//
//	nil             NULL of any type
//	bool            bit
//	int64           tinyint, smallint, int, bigint
//	float32         real
//	float64         float
//	Decimal         decimal, numeric
//	Money           money, smallmoney
//	Date            date
//	Time            time
//	DateTime2       datetime2
//	DateTimeOffset  datetimeoffset
//	DateTime        datetime
//	SmallDateTime   smalldatetime
//	string          char, varchar, nchar, nvarchar, text, ntext, xml
//	[]byte          binary, varbinary, rowversion, image, CLR types
//	UUID            uniqueidentifier
//	Variant         sql_variant
//
// Encoding also takes int for the integer types and time.Time for all date and time types. Strings are UTF-8; a UTF-16
// surrogate without its partner, which SQL Server stores and sends, is the three bytes that UTF-8 would have for it
// (WTF-8), so that such values survive both directions.
type Value = any

// UUID is a uniqueidentifier in the order of its text form. On the wire the first three groups are little-endian.
type UUID [16]byte

// ParseUUID reads the form 01234567-89AB-CDEF-0123-456789ABCDEF, in either case, with or without braces.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	t := strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
	if len(t) != 36 || t[8] != '-' || t[13] != '-' || t[18] != '-' || t[23] != '-' {
		return u, fmt.Errorf("parsing uniqueidentifier %q: want 8-4-4-4-12 hex digits", s)
	}
	b, err := hex.DecodeString(t[0:8] + t[9:13] + t[14:18] + t[19:23] + t[24:])
	if err != nil {
		return u, fmt.Errorf("parsing uniqueidentifier %q: %w", s, err)
	}
	copy(u[:], b)
	return u, nil
}

// String gives the upper-case text form, as SQL Server converts it.
func (u UUID) String() string {
	return fmt.Sprintf("%X-%X-%X-%X-%X", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// wire gives the byte order of the wire; it is its own inverse.
func (u UUID) wire() UUID {
	return UUID{u[3], u[2], u[1], u[0], u[5], u[4], u[7], u[6], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]}
}

// Variant is a value of sql_variant: the value and the type it was stored with. A Variant of a nil Value is NULL.
type Variant struct {
	Type  TypeInfo
	Value Value
}
