package sqltype

import (
	"strconv"
)

// Kind is a SQL Server data type without its parameters. It tags both a [Type]
// and a [Value]; on a value KindNull means NULL.
type Kind uint8

// The kinds, in no order that means anything; type precedence is
// [Kind.Precedence].
const (
	KindNull Kind = iota // the type of a bare NULL literal; as a value: NULL
	KindBit
	KindTinyInt
	KindSmallInt
	KindInt
	KindBigInt
	KindReal
	KindFloat
	KindDecimal // decimal and numeric
	KindMoney
	KindSmallMoney
	KindDate
	KindTime
	KindDateTime2
	KindDateTimeOffset
	KindDateTime
	KindSmallDateTime
	KindChar
	KindVarChar
	KindNChar
	KindNVarChar
	KindText
	KindNText
	KindXML
	KindBinary
	KindVarBinary
	KindRowVersion
	KindImage
	KindUniqueIdentifier
	KindVariant // only as a Type: a value inside it has the kind of its base type
	kindCount
)

// Max is the Length of the (max) types.
const Max = -1

// DefaultCollation is the collation of a type that names none.
const DefaultCollation = "SQL_Latin1_General_CP1_CI_AS"

// Type is a declared SQL Server type.
type Type struct {
	Kind Kind
	// Length is in bytes for char, varchar, binary and varbinary, in UTF-16
	// units for nchar and nvarchar; Max for the (max) types; 0 for the others.
	Length int
	// Precision and Scale are those of decimal; the temporal types with a
	// fraction (time, datetime2, datetimeoffset) use Scale alone, 0 to 7.
	Precision, Scale uint8
	// Collation names the collation of a character type; empty means the
	// database's.
	Collation string
}

// TypeOf gives the type of that kind with the parameters that CAST assumes when none
// are written: 30 for character and binary types, decimal(18,0), scale 7.
func TypeOf(k Kind) Type {
	t := Type{Kind: k}
	switch k {
	case KindChar, KindVarChar, KindNChar, KindNVarChar, KindBinary, KindVarBinary:
		t.Length = 30
	case KindDecimal:
		t.Precision = 18
	case KindTime, KindDateTime2, KindDateTimeOffset:
		t.Scale = 7
	case KindRowVersion:
		t.Length = 8
	}
	return t
}

// VarCharType is varchar(n); n may be Max.
func VarCharType(n int) Type { return Type{Kind: KindVarChar, Length: n} }

// NVarCharType is nvarchar(n); n may be Max.
func NVarCharType(n int) Type { return Type{Kind: KindNVarChar, Length: n} }

// BinaryType is binary(n).
func BinaryType(n int) Type { return Type{Kind: KindBinary, Length: n} }

// VarBinaryType is varbinary(n); n may be Max.
func VarBinaryType(n int) Type { return Type{Kind: KindVarBinary, Length: n} }

// DecimalType is decimal(p, s).
func DecimalType(p, s uint8) Type { return Type{Kind: KindDecimal, Precision: p, Scale: s} }

// SysName is nvarchar(128), the type of identifiers in the catalogue.
func SysName() Type { return NVarCharType(128) }

// String gives the type as it is declared: decimal(18,2), nvarchar(max). The
// collation is not part of it.
func (t Type) String() string {
	name := t.Kind.String()
	switch t.Kind {
	case KindChar, KindVarChar, KindNChar, KindNVarChar, KindBinary, KindVarBinary:
		if t.Length == Max {
			return name + "(max)"
		}
		return name + "(" + strconv.Itoa(t.Length) + ")"
	case KindDecimal:
		return name + "(" + strconv.Itoa(int(t.Precision)) + "," + strconv.Itoa(int(t.Scale)) + ")"
	case KindTime, KindDateTime2, KindDateTimeOffset:
		return name + "(" + strconv.Itoa(int(t.Scale)) + ")"
	}
	return name
}

// Equal tells whether two types declare the same, the collation included
// (compared without case).
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Length != u.Length || t.Precision != u.Precision || t.Scale != u.Scale {
		return false
	}
	return !t.Kind.IsText() || equalFoldASCII(t.Collation, u.Collation)
}

var kindNames = [kindCount]string{
	KindNull: "NULL", KindBit: "bit", KindTinyInt: "tinyint", KindSmallInt: "smallint", KindInt: "int",
	KindBigInt: "bigint", KindReal: "real", KindFloat: "float", KindDecimal: "decimal", KindMoney: "money",
	KindSmallMoney: "smallmoney", KindDate: "date", KindTime: "time", KindDateTime2: "datetime2",
	KindDateTimeOffset: "datetimeoffset", KindDateTime: "datetime", KindSmallDateTime: "smalldatetime",
	KindChar: "char", KindVarChar: "varchar", KindNChar: "nchar", KindNVarChar: "nvarchar", KindText: "text",
	KindNText: "ntext", KindXML: "xml", KindBinary: "binary", KindVarBinary: "varbinary",
	KindRowVersion: "timestamp", KindImage: "image", KindUniqueIdentifier: "uniqueidentifier",
	KindVariant: "sql_variant",
}

// String is the name of the kind in sys.types (rowversion is timestamp there).
func (k Kind) String() string {
	if k < kindCount {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// IsInteger tells whether the kind is bit, tinyint, smallint, int or bigint.
func (k Kind) IsInteger() bool { return k >= KindBit && k <= KindBigInt }

// IsFloat tells whether the kind is real or float.
func (k Kind) IsFloat() bool { return k == KindReal || k == KindFloat }

// IsMoney tells whether the kind is money or smallmoney.
func (k Kind) IsMoney() bool { return k == KindMoney || k == KindSmallMoney }

// IsNumeric tells whether the kind is a number, bit included.
func (k Kind) IsNumeric() bool { return k >= KindBit && k <= KindSmallMoney }

// IsTemporal tells whether the kind is a date or time type.
func (k Kind) IsTemporal() bool { return k >= KindDate && k <= KindSmallDateTime }

// IsText tells whether values of the kind are character strings.
func (k Kind) IsText() bool { return k >= KindChar && k <= KindXML }

// IsUnicode tells whether the kind is nchar, nvarchar, ntext or xml.
func (k Kind) IsUnicode() bool {
	return k == KindNChar || k == KindNVarChar || k == KindNText || k == KindXML
}

// IsBinary tells whether values of the kind are byte strings.
func (k Kind) IsBinary() bool { return k >= KindBinary && k <= KindImage }

// Precedence ranks the kinds for mixed expressions: the lower one is converted
// to the higher (documentation page "Data type precedence").
func (k Kind) Precedence() int { return int(kindPrecedence[k]) }

var kindPrecedence = [kindCount]uint8{
	KindNull: 0, KindBinary: 1, KindVarBinary: 2, KindChar: 3, KindVarChar: 4, KindNChar: 5, KindNVarChar: 6,
	KindUniqueIdentifier: 7, KindRowVersion: 8, KindImage: 9, KindText: 10, KindNText: 11, KindBit: 12,
	KindTinyInt: 13, KindSmallInt: 14, KindInt: 15, KindBigInt: 16, KindSmallMoney: 17, KindMoney: 18,
	KindDecimal: 19, KindReal: 20, KindFloat: 21, KindTime: 22, KindDate: 23, KindSmallDateTime: 24,
	KindDateTime: 25, KindDateTime2: 26, KindDateTimeOffset: 27, KindXML: 28, KindVariant: 29,
}

func equalFoldASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lowerASCII(a[i]) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
