package tds

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Max is the length of varchar(max), nvarchar(max) and varbinary(max), whose values travel in chunks (PLP).
const Max = 0xFFFF

// variantMax is the largest sql_variant on the wire, its own length of 8,000 bytes and its properties.
const variantMax = 8009

// TypeInfo is a TYPE_INFO: a type with all that decides how its values are encoded (MS-TDS 2.2.5.6). Make one with the
// Type functions; a hand-made one must hold what they would put there.
type TypeInfo struct {
	ID        TypeID
	Size      int   // largest length in bytes; Max for the (max) types; 0 where the wire has none (date, time types, xml)
	Precision uint8 // of decimal and numeric
	Scale     uint8 // of decimal, numeric, time, datetime2, datetimeoffset
	Collation Collation
	Table     []string   // of text, ntext and image: the table the column belongs to, one to four names; none when it is not known
	Schema    *XMLSchema // of xml: its schema collection, nil for untyped
	UDT       *UDTInfo   // of a CLR type
}

// XMLSchema names the schema collection of a typed xml column.
type XMLSchema struct {
	Database, Owner, Collection string
}

// UDTInfo names a CLR type. Assembly is the assembly-qualified .NET name; it is absent in RPC parameters.
type UDTInfo struct {
	Database, Schema, Type, Assembly string
}

// TypeFixed gives a type of fixed length (IDInt4, IDBit, IDFloat8 …), as SQL Server declares NOT NULL columns.
func TypeFixed(id TypeID) TypeInfo { return TypeInfo{ID: id, Size: max(0, id.fixedSize())} }

// TypeBit is bit that can be NULL.
func TypeBit() TypeInfo { return TypeInfo{ID: IDBitN, Size: 1} }

// TypeInt is tinyint, smallint, int or bigint that can be NULL, by its size of 1, 2, 4 or 8 bytes.
func TypeInt(size int) TypeInfo { return TypeInfo{ID: IDIntN, Size: size} }

// TypeFloat is real or float that can be NULL, by its size of 4 or 8 bytes.
func TypeFloat(size int) TypeInfo { return TypeInfo{ID: IDFloatN, Size: size} }

// TypeDecimal is decimal(precision, scale). As SQL Server 2022 sends it, it declares 17 bytes whatever the precision, and a
// value takes the smallest of 5, 9, 13 and 17 bytes that holds it. Set Size to 5, 9 or 13 for the other form, which the
// document allows too: every value has that size.
func TypeDecimal(precision, scale uint8) TypeInfo {
	return TypeInfo{ID: IDDecimalN, Size: decimalMax, Precision: precision, Scale: scale}
}

// TypeNumeric is TypeDecimal under its other name.
func TypeNumeric(precision, scale uint8) TypeInfo {
	t := TypeDecimal(precision, scale)
	t.ID = IDNumericN
	return t
}

// TypeMoney is smallmoney or money that can be NULL, by its size of 4 or 8 bytes.
func TypeMoney(size int) TypeInfo { return TypeInfo{ID: IDMoneyN, Size: size} }

// TypeDate is date.
func TypeDate() TypeInfo { return TypeInfo{ID: IDDateN} }

// TypeTime is time(scale), scale 0 to 7.
func TypeTime(scale uint8) TypeInfo { return TypeInfo{ID: IDTimeN, Scale: scale} }

// TypeDateTime2 is datetime2(scale), scale 0 to 7.
func TypeDateTime2(scale uint8) TypeInfo { return TypeInfo{ID: IDDateTime2N, Scale: scale} }

// TypeDateTimeOffset is datetimeoffset(scale), scale 0 to 7.
func TypeDateTimeOffset(scale uint8) TypeInfo { return TypeInfo{ID: IDDateTimeOffsetN, Scale: scale} }

// TypeDateTime is smalldatetime or datetime that can be NULL, by its size of 4 or 8 bytes.
func TypeDateTime(size int) TypeInfo { return TypeInfo{ID: IDDateTimeN, Size: size} }

// TypeChar is char(n). Values are sent as they come: padding them with blanks is the engine's business.
func TypeChar(n int, c Collation) TypeInfo { return TypeInfo{ID: IDChar, Size: n, Collation: c} }

// TypeVarChar is varchar(n), n in bytes, or varchar(max) with [Max].
func TypeVarChar(n int, c Collation) TypeInfo { return TypeInfo{ID: IDVarChar, Size: n, Collation: c} }

// TypeNChar is nchar(n), n in UTF-16 units.
func TypeNChar(n int, c Collation) TypeInfo { return TypeInfo{ID: IDNChar, Size: 2 * n, Collation: c} }

// TypeNVarChar is nvarchar(n), n in UTF-16 units, or nvarchar(max) with [Max].
func TypeNVarChar(n int, c Collation) TypeInfo {
	if n != Max {
		n *= 2
	}
	return TypeInfo{ID: IDNVarChar, Size: n, Collation: c}
}

// TypeBinary is binary(n).
func TypeBinary(n int) TypeInfo { return TypeInfo{ID: IDBinary, Size: n} }

// TypeVarBinary is varbinary(n), or varbinary(max) with [Max].
func TypeVarBinary(n int) TypeInfo { return TypeInfo{ID: IDVarBinary, Size: n} }

// TypeRowVersion is rowversion, which travels as binary(8); its column also has user type 80.
func TypeRowVersion() TypeInfo { return TypeBinary(8) }

// TypeXML is xml without a schema collection.
func TypeXML() TypeInfo { return TypeInfo{ID: IDXML} }

// TypeUUID is uniqueidentifier.
func TypeUUID() TypeInfo { return TypeInfo{ID: IDGUID, Size: 16} }

// TypeVariant is sql_variant.
func TypeVariant() TypeInfo { return TypeInfo{ID: IDVariant, Size: variantMax} }

// TypeText is text, with the names of its table.
func TypeText(c Collation, table ...string) TypeInfo {
	return TypeInfo{ID: IDText, Size: 1<<31 - 1, Collation: c, Table: table}
}

// TypeNText is ntext, with the names of its table.
func TypeNText(c Collation, table ...string) TypeInfo {
	return TypeInfo{ID: IDNText, Size: 1<<31 - 2, Collation: c, Table: table}
}

// TypeImage is image, with the names of its table.
func TypeImage(table ...string) TypeInfo {
	return TypeInfo{ID: IDImage, Size: 1<<31 - 1, Table: table}
}

// TypeUDT is a CLR type such as hierarchyid or geography.
func TypeUDT(database, schema, name, assembly string) TypeInfo {
	return TypeInfo{ID: IDUDT, Size: Max, UDT: &UDTInfo{database, schema, name, assembly}}
}

// decimalMax is the largest decimal on the wire: the sign and 16 bytes.
const decimalMax = 17

// IsPLP reports whether values travel in chunks: the (max) types, xml and CLR types.
func (t *TypeInfo) IsPLP() bool {
	switch t.ID {
	case IDVarBinary, IDVarChar, IDNVarChar:
		return t.Size == Max
	case IDXML, IDUDT:
		return true
	default:
		return false
	}
}

// IsUnicode reports whether text values travel as UTF-16.
func (t *TypeInfo) IsUnicode() bool {
	switch t.ID {
	case IDNVarChar, IDNChar, IDNText, IDXML:
		return true
	default:
		return false
	}
}

// IsFixed reports whether values carry no length, so that there can be no NULL.
func (t *TypeInfo) IsFixed() bool { return t.ID.fixedSize() > 0 }

// isLOB reports the three types whose values carry a text pointer.
func (t *TypeInfo) isLOB() bool { return t.ID == IDText || t.ID == IDNText || t.ID == IDImage }

// String gives the type as it is declared in SQL: nvarchar(50), decimal(18,2), varchar(max).
func (t TypeInfo) String() string {
	name := t.ID.String()
	switch t.ID {
	case IDIntN:
		return sized(t.Size, map[int]TypeID{1: IDInt1, 2: IDInt2, 4: IDInt4, 8: IDInt8}, name)
	case IDFloatN:
		return sized(t.Size, map[int]TypeID{4: IDFloat4, 8: IDFloat8}, name)
	case IDMoneyN:
		return sized(t.Size, map[int]TypeID{4: IDMoney4, 8: IDMoney}, name)
	case IDDateTimeN:
		return sized(t.Size, map[int]TypeID{4: IDDateTime4, 8: IDDateTime}, name)
	case IDDecimalN, IDNumericN:
		return fmt.Sprintf("%s(%d,%d)", name, t.Precision, t.Scale)
	case IDTimeN, IDDateTime2N, IDDateTimeOffsetN:
		return fmt.Sprintf("%s(%d)", name, t.Scale)
	case IDChar, IDVarChar, IDBinary, IDVarBinary, IDNChar, IDNVarChar:
		return name + "(" + t.lengthText() + ")"
	case IDUDT:
		if t.UDT != nil {
			return t.UDT.Schema + "." + t.UDT.Type
		}
	}
	return name
}

// sized names an N type by its size.
func sized(size int, names map[int]TypeID, other string) string {
	if id, ok := names[size]; ok {
		return id.String()
	}
	return other
}

// lengthText gives the declared length of a text or binary type.
func (t *TypeInfo) lengthText() string {
	switch {
	case t.IsPLP():
		return "max"
	case t.IsUnicode():
		return strconv.Itoa(t.Size / 2)
	default:
		return strconv.Itoa(t.Size)
	}
}

// appendTypeInfo appends the TYPE_INFO. A column carries more than a parameter or a return value: the table of a LOB, and
// size and assembly of a CLR type.
func appendTypeInfo(dst []byte, t *TypeInfo, column bool) []byte {
	dst = append(dst, byte(t.ID))
	switch t.ID {
	case IDIntN, IDBitN, IDFloatN, IDMoneyN, IDDateTimeN, IDGUID:
		return append(dst, byte(t.Size))
	case IDTimeN, IDDateTime2N, IDDateTimeOffsetN:
		return append(dst, t.Scale)
	case IDDecimalN, IDNumericN:
		return append(dst, byte(t.Size), t.Precision, t.Scale)
	case IDBinary, IDVarBinary:
		return binary.LittleEndian.AppendUint16(dst, uint16(t.Size))
	case IDChar, IDVarChar, IDNChar, IDNVarChar:
		return append(binary.LittleEndian.AppendUint16(dst, uint16(t.Size)), t.Collation[:]...)
	case IDText, IDNText, IDImage:
		return appendLOBInfo(dst, t, column)
	case IDVariant:
		return binary.LittleEndian.AppendUint32(dst, uint32(t.Size))
	case IDXML:
		if t.Schema == nil {
			return append(dst, 0)
		}
		dst = appendBVarchar(append(dst, 1), t.Schema.Database)
		return appendUSVarchar(appendBVarchar(dst, t.Schema.Owner), t.Schema.Collection)
	case IDUDT:
		return appendUDTInfo(dst, t, column)
	default:
		return dst // fixed length, date: the byte alone
	}
}

// appendLOBInfo appends the rest of a text, ntext or image TYPE_INFO.
func appendLOBInfo(dst []byte, t *TypeInfo, column bool) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(t.Size))
	if t.ID != IDImage {
		dst = append(dst, t.Collation[:]...)
	}
	if column {
		if len(t.Table) == 0 { // a table that is not known has one empty name: jdbc takes none for a broken stream
			return append(dst, 1, 0, 0)
		}
		dst = append(dst, byte(len(t.Table)))
		for _, name := range t.Table {
			dst = appendUSVarchar(dst, name)
		}
	}
	return dst
}

// appendUDTInfo appends the rest of a CLR type's TYPE_INFO.
func appendUDTInfo(dst []byte, t *TypeInfo, column bool) []byte {
	u := t.UDT
	if u == nil {
		u = &UDTInfo{}
	}
	if column {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(t.Size))
	}
	dst = appendBVarchar(appendBVarchar(appendBVarchar(dst, u.Database), u.Schema), u.Type)
	if column {
		dst = appendUSVarchar(dst, u.Assembly)
	}
	return dst
}
