package data

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// storedArrow is the Arrow schema of data files with these columns: under column mapping
// they have their physical names and field ids, at any depth.
func storedArrow(m schema.Mapping, columns *schema.Struct) *arrow.Schema {
	return arrow.NewSchema(storedFields(m, columns), nil)
}

func storedFields(m schema.Mapping, s *schema.Struct) []arrow.Field {
	fields := make([]arrow.Field, len(s.Fields))
	for i, f := range s.Fields {
		fields[i] = arrow.Field{Name: m.PhysicalName(f), Type: storedType(m, f.Type), Nullable: f.Nullable}
		if m.Maps() {
			fields[i].Metadata = arrow.NewMetadata([]string{fieldIDKey}, []string{strconv.FormatInt(f.ColumnID(), 10)})
		}
	}
	return fields
}

func storedType(m schema.Mapping, t schema.Type) arrow.DataType {
	switch t := t.(type) {
	case *schema.Struct:
		return arrow.StructOf(storedFields(m, t)...)
	case *schema.Array:
		return arrow.ListOfField(arrow.Field{Name: "element", Type: storedType(m, t.Element), Nullable: t.ContainsNull})
	case *schema.Map:
		return arrow.MapOfFields(
			arrow.Field{Name: "key", Type: storedType(m, t.Key)},
			arrow.Field{Name: "value", Type: storedType(m, t.Value), Nullable: t.ValueContainsNull})
	default:
		return schema.ArrowType(t)
	}
}
