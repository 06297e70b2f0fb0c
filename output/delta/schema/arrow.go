package schema

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// UTC is the zone of the Arrow type of a Timestamp.
const UTC = "UTC"

// FromArrow is the table schema for batches of this Arrow schema. A dictionary
// counts as its values, large_utf8 as utf8, large_binary and fixed_size_binary as
// binary, a timestamp with any zone as Timestamp. The field metadata "comment"
// becomes the column's comment; all other Arrow metadata is dropped.
//
// An Arrow type without a Delta type is an error that names the column and what to
// convert it to. FromArrow does not check names: see [Struct.Validate].
func FromArrow(as *arrow.Schema) (*Struct, error) {
	s, err := structFromArrow("", as.Fields())
	if err != nil {
		return nil, fmt.Errorf("taking the table schema from Arrow: %w", err)
	}
	return s, nil
}

func structFromArrow(path string, fields []arrow.Field) (*Struct, error) {
	s := &Struct{Fields: make([]Field, len(fields))}
	for i, f := range fields {
		t, err := typeFromArrow(join(path, f.Name), f.Type)
		if err != nil {
			return nil, err
		}
		s.Fields[i] = Field{Name: f.Name, Type: t, Nullable: f.Nullable}
		if comment, ok := f.Metadata.GetValue(CommentKey); ok {
			s.Fields[i] = s.Fields[i].WithComment(comment)
		}
	}
	return s, nil
}

func typeFromArrow(path string, at arrow.DataType) (Type, error) {
	switch at := at.(type) {
	case *arrow.DictionaryType:
		return typeFromArrow(path, at.ValueType)
	case *arrow.Decimal128Type:
		d := Decimal{Precision: int(at.Precision), Scale: int(at.Scale)}
		if err := d.check(); err != nil {
			return nil, fmt.Errorf("column %s: %w", path, err)
		}
		return d, nil
	case *arrow.TimestampType:
		if at.Unit != arrow.Microsecond {
			return nil, noDeltaType(path, at, "timestamp[us]")
		}
		if at.TimeZone == "" {
			return TimestampNTZ, nil
		}
		return Timestamp, nil
	case *arrow.ListType:
		element, err := typeFromArrow(join(path, "element"), at.Elem())
		if err != nil {
			return nil, err
		}
		return &Array{Element: element, ContainsNull: at.ElemField().Nullable}, nil
	case *arrow.MapType:
		key, err := typeFromArrow(join(path, "key"), at.KeyType())
		if err != nil {
			return nil, err
		}
		value, err := typeFromArrow(join(path, "value"), at.ItemType())
		if err != nil {
			return nil, err
		}
		return &Map{Key: key, Value: value, ValueContainsNull: at.ItemField().Nullable}, nil
	case *arrow.StructType:
		return structFromArrow(path, at.Fields())
	}
	if p, ok := primitiveFromArrow(at.ID()); ok {
		return p, nil
	}
	return nil, noDeltaType(path, at, wayOut(at.ID()))
}

func primitiveFromArrow(id arrow.Type) (Primitive, bool) {
	switch id {
	case arrow.BOOL:
		return Boolean, true
	case arrow.INT8:
		return Byte, true
	case arrow.INT16:
		return Short, true
	case arrow.INT32:
		return Integer, true
	case arrow.INT64:
		return Long, true
	case arrow.FLOAT32:
		return Float, true
	case arrow.FLOAT64:
		return Double, true
	case arrow.STRING, arrow.LARGE_STRING:
		return String, true
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return Binary, true
	case arrow.DATE32:
		return Date, true
	default:
		return "", false
	}
}

// wayOut names the type to convert a column to that Delta cannot hold.
func wayOut(id arrow.Type) string {
	switch id {
	case arrow.UINT8:
		return "int16"
	case arrow.UINT16:
		return "int32"
	case arrow.UINT32:
		return "int64"
	case arrow.UINT64:
		return "decimal128(20,0)"
	case arrow.FLOAT16:
		return "float32"
	case arrow.DATE64:
		return "date32"
	case arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL256:
		return "decimal128 of at most 38 digits"
	case arrow.TIME32, arrow.TIME64, arrow.DURATION:
		return "int64 or utf8"
	case arrow.STRING_VIEW:
		return "utf8"
	case arrow.BINARY_VIEW:
		return "binary"
	case arrow.LARGE_LIST, arrow.FIXED_SIZE_LIST, arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW:
		return "list"
	case arrow.EXTENSION:
		return "its storage type"
	case arrow.NULL:
		return "the type that it shall have"
	default:
		return "utf8"
	}
}

func noDeltaType(path string, have arrow.DataType, wayOut string) error {
	return fmt.Errorf("column %s: Arrow type %s has no Delta type: convert it to %s or leave it out", path, have, wayOut)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Arrow is the Arrow schema of the table's rows, as they are read from it. Comments
// become the field metadata "comment".
func (s *Struct) Arrow() *arrow.Schema {
	return arrow.NewSchema(arrowFields(s), nil)
}

func arrowFields(s *Struct) []arrow.Field {
	fields := make([]arrow.Field, len(s.Fields))
	for i, f := range s.Fields {
		fields[i] = f.Arrow()
	}
	return fields
}

// Arrow is the Arrow field of the column.
func (f Field) Arrow() arrow.Field {
	out := arrow.Field{Name: f.Name, Type: ArrowType(f.Type), Nullable: f.Nullable}
	if comment := f.Comment(); comment != "" {
		out.Metadata = arrow.NewMetadata([]string{CommentKey}, []string{comment})
	}
	return out
}

// ArrowType is the Arrow type of a Delta type: utf8, binary, the integers of their
// width, decimal128, date32, timestamp[us, UTC] for Timestamp and timestamp[us]
// without a zone for TimestampNTZ, list, map, struct.
func ArrowType(t Type) arrow.DataType {
	switch t := t.(type) {
	case Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case *Array:
		return arrow.ListOfField(arrow.Field{Name: "element", Type: ArrowType(t.Element), Nullable: t.ContainsNull})
	case *Map:
		return arrow.MapOfFields(
			arrow.Field{Name: "key", Type: ArrowType(t.Key)},
			arrow.Field{Name: "value", Type: ArrowType(t.Value), Nullable: t.ValueContainsNull})
	case *Struct:
		return arrow.StructOf(arrowFields(t)...)
	}
	switch t {
	case String:
		return arrow.BinaryTypes.String
	case Binary:
		return arrow.BinaryTypes.Binary
	case Long:
		return arrow.PrimitiveTypes.Int64
	case Integer:
		return arrow.PrimitiveTypes.Int32
	case Short:
		return arrow.PrimitiveTypes.Int16
	case Byte:
		return arrow.PrimitiveTypes.Int8
	case Float:
		return arrow.PrimitiveTypes.Float32
	case Double:
		return arrow.PrimitiveTypes.Float64
	case Boolean:
		return arrow.FixedWidthTypes.Boolean
	case Date:
		return arrow.FixedWidthTypes.Date32
	case Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: UTC}
	case TimestampNTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	default: // Void
		return arrow.Null
	}
}
