package tds

import "encoding/binary"

// ColumnFlags describe a result column (MS-TDS 2.2.7.4, Flags).
type ColumnFlags uint16

// Column flags. SQL Server sends 0x0009 for a nullable column of a table, 0x0008 for a NOT NULL one, 0x0020 for a
// constant.
const (
	FlagNullable         ColumnFlags = 0x0001
	FlagCaseSensitive    ColumnFlags = 0x0002
	FlagUpdatable        ColumnFlags = 0x0004
	FlagUpdatableUnknown ColumnFlags = 0x0008
	FlagIdentity         ColumnFlags = 0x0010
	FlagComputed         ColumnFlags = 0x0020
	FlagSparseSet        ColumnFlags = 0x0400
	FlagFixedLengthCLR   ColumnFlags = 0x0100
	FlagHidden           ColumnFlags = 0x2000
	FlagKey              ColumnFlags = 0x4000
	FlagNullableUnknown  ColumnFlags = 0x8000
	FlagsNullableOfTable             = FlagNullable | FlagUpdatableUnknown
	FlagsNotNullOfTable              = FlagUpdatableUnknown
	UserTypeRowVersion   uint32      = 80 // user type of a rowversion column, whose type is binary(8)
)

// Column describes a column of a rowset.
type Column struct {
	Name     string
	Type     TypeInfo
	Flags    ColumnFlags
	UserType uint32 // 0 for the built-in types, as SQL Server sends them since 2008
}

// appendColumns appends COLMETADATA.
func appendColumns(dst []byte, columns []Column) []byte {
	dst = binary.LittleEndian.AppendUint16(append(dst, tokenColMetadata), uint16(len(columns)))
	for i := range columns {
		c := &columns[i]
		dst = binary.LittleEndian.AppendUint32(dst, c.UserType)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(c.Flags))
		dst = appendBVarchar(appendTypeInfo(dst, &c.Type, true), c.Name)
	}
	return dst
}
