package tds

import "fmt"

// TypeID is the first byte of a TYPE_INFO (MS-TDS 2.2.5.4).
type TypeID uint8

// Types of a fixed length, whose values carry no length and cannot be NULL.
const (
	IDNull      TypeID = 0x1F // a parameter without a type: always NULL, no bytes
	IDInt1      TypeID = 0x30
	IDBit       TypeID = 0x32
	IDInt2      TypeID = 0x34
	IDInt4      TypeID = 0x38
	IDDateTime4 TypeID = 0x3A // smalldatetime
	IDFloat4    TypeID = 0x3B
	IDMoney     TypeID = 0x3C
	IDDateTime  TypeID = 0x3D
	IDFloat8    TypeID = 0x3E
	IDMoney4    TypeID = 0x7A
	IDInt8      TypeID = 0x7F
)

// Types whose values carry a length.
const (
	IDImage           TypeID = 0x22
	IDText            TypeID = 0x23
	IDGUID            TypeID = 0x24
	IDIntN            TypeID = 0x26
	IDDateN           TypeID = 0x28
	IDTimeN           TypeID = 0x29
	IDDateTime2N      TypeID = 0x2A
	IDDateTimeOffsetN TypeID = 0x2B
	IDVariant         TypeID = 0x62
	IDNText           TypeID = 0x63
	IDBitN            TypeID = 0x68
	IDDecimalN        TypeID = 0x6A
	IDNumericN        TypeID = 0x6C
	IDFloatN          TypeID = 0x6D
	IDMoneyN          TypeID = 0x6E
	IDDateTimeN       TypeID = 0x6F
	IDVarBinary       TypeID = 0xA5
	IDVarChar         TypeID = 0xA7
	IDBinary          TypeID = 0xAD
	IDChar            TypeID = 0xAF
	IDNVarChar        TypeID = 0xE7
	IDNChar           TypeID = 0xEF
	IDUDT             TypeID = 0xF0
	IDXML             TypeID = 0xF1
	IDTVP             TypeID = 0xF3 // table-valued parameter: recognised, refused by name
)

// kind groups the types that take the same typed values.
type kind uint8

const (
	kindNone kind = iota
	kindNull
	kindInt
	kindBit
	kindFloat
	kindDecimal
	kindMoney
	kindDateTime
	kindSmallDateTime
	kindDate
	kindTime
	kindDateTime2
	kindDateTimeOffset
	kindString
	kindBytes
	kindUUID
	kindVariant
)

// kindOf classifies a type; datetimn depends on its size.
func kindOf(t *TypeInfo) kind {
	switch t.ID {
	case IDNull:
		return kindNull
	case IDInt1, IDInt2, IDInt4, IDInt8, IDIntN:
		return kindInt
	case IDBit, IDBitN:
		return kindBit
	case IDFloat4, IDFloat8, IDFloatN:
		return kindFloat
	case IDDecimalN, IDNumericN:
		return kindDecimal
	case IDMoney, IDMoney4, IDMoneyN:
		return kindMoney
	case IDDateTime:
		return kindDateTime
	case IDDateTime4:
		return kindSmallDateTime
	case IDDateTimeN:
		if t.Size == 4 {
			return kindSmallDateTime
		}
		return kindDateTime
	case IDDateN:
		return kindDate
	case IDTimeN:
		return kindTime
	case IDDateTime2N:
		return kindDateTime2
	case IDDateTimeOffsetN:
		return kindDateTimeOffset
	case IDChar, IDVarChar, IDNChar, IDNVarChar, IDText, IDNText, IDXML:
		return kindString
	case IDBinary, IDVarBinary, IDImage, IDUDT:
		return kindBytes
	case IDGUID:
		return kindUUID
	case IDVariant:
		return kindVariant
	default:
		return kindNone
	}
}

// fixedSize gives the bytes of a value of a fixed-length type, or -1 for other types.
func (id TypeID) fixedSize() int {
	switch id {
	case IDNull:
		return 0
	case IDInt1, IDBit:
		return 1
	case IDInt2:
		return 2
	case IDInt4, IDDateTime4, IDFloat4, IDMoney4:
		return 4
	case IDMoney, IDDateTime, IDFloat8, IDInt8:
		return 8
	default:
		return -1
	}
}

// String gives the SQL name of the type, without length; for the N types the name of the group.
func (id TypeID) String() string {
	switch id {
	case IDNull:
		return "null"
	case IDInt1:
		return "tinyint"
	case IDInt2:
		return "smallint"
	case IDInt4, IDIntN:
		return "int"
	case IDInt8:
		return "bigint"
	case IDBit, IDBitN:
		return "bit"
	case IDFloat4:
		return "real"
	case IDFloat8, IDFloatN:
		return "float"
	case IDMoney, IDMoneyN:
		return "money"
	case IDMoney4:
		return "smallmoney"
	case IDDateTime, IDDateTimeN:
		return "datetime"
	case IDDateTime4:
		return "smalldatetime"
	case IDDecimalN:
		return "decimal"
	case IDNumericN:
		return "numeric"
	default:
		return id.lengthName()
	}
}

// lengthName is the second half of String.
func (id TypeID) lengthName() string {
	switch id {
	case IDImage:
		return "image"
	case IDText:
		return "text"
	case IDNText:
		return "ntext"
	case IDGUID:
		return "uniqueidentifier"
	case IDDateN:
		return "date"
	case IDTimeN:
		return "time"
	case IDDateTime2N:
		return "datetime2"
	case IDDateTimeOffsetN:
		return "datetimeoffset"
	case IDVariant:
		return "sql_variant"
	case IDVarBinary:
		return "varbinary"
	case IDVarChar:
		return "varchar"
	case IDBinary:
		return "binary"
	case IDChar:
		return "char"
	case IDNVarChar:
		return "nvarchar"
	case IDNChar:
		return "nchar"
	case IDUDT:
		return "CLR type"
	case IDXML:
		return "xml"
	case IDTVP:
		return "table-valued parameter"
	default:
		return fmt.Sprintf("type 0x%02X", uint8(id))
	}
}
