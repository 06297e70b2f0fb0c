package input

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/redpanda-data/benthos/v4/public/schema"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// rowSchema is the common schema of a row, as the metadata key "schema" of other
// CDC inputs holds it: an object named after the table with one optional child
// per captured column.
func rowSchema(table mssqlcdc.TableID, record *arrow.Schema) (any, error) {
	object := schema.Common{Name: table.Name, Type: schema.Object}
	for _, field := range record.Fields()[mssqlcdc.FirstCaptured:] {
		child, err := columnSchema(field)
		if err != nil {
			return nil, fmt.Errorf("describing column %q of %s: %w", field.Name, table, err)
		}
		object.Children = append(object.Children, child)
	}
	return object.ToAny(), nil
}

// columnSchema describes what a row holds, which is wider than the column: every
// integer is an int64.
func columnSchema(field arrow.Field) (schema.Common, error) {
	simple := map[arrow.Type]schema.CommonType{
		arrow.BOOL: schema.Boolean, arrow.INT16: schema.Int64, arrow.INT32: schema.Int64, arrow.INT64: schema.Int64,
		arrow.FLOAT32: schema.Float64, arrow.FLOAT64: schema.Float64, arrow.TIMESTAMP: schema.Timestamp,
		arrow.STRING: schema.String, arrow.DATE32: schema.String, arrow.BINARY: schema.ByteArray,
	}
	if t, ok := simple[field.Type.ID()]; ok {
		return schema.Common{Name: field.Name, Type: t, Optional: true}, nil
	}
	if t, ok := field.Type.(*arrow.Decimal128Type); ok {
		return schema.NewDecimal(field.Name, t.Precision, t.Scale, true)
	}
	return schema.Common{}, fmt.Errorf("no common type for %s", field.Type)
}
