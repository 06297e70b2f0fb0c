package rows

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Infer is the schema of rows: the columns in the order of their names. A column
// that is a whole number in some rows and another number in others is a double;
// any other two types are an error that names both. Names are compared ignoring
// case; the first spelling counts.
func Infer(rows []map[string]any) (*schema.Struct, error) {
	byName := map[string]*schema.Field{}
	for i, row := range rows {
		for name, v := range row {
			typ, ok := typeOf(v)
			if !ok {
				continue
			}
			key := strings.ToLower(name)
			have, known := byName[key]
			if !known {
				byName[key] = &schema.Field{Name: name, Type: typ, Nullable: true}
				continue
			}
			merged, ok := unify(have.Type, typ)
			if !ok {
				return nil, &RowError{Row: i, Err: &schema.SchemaError{Column: name, Have: typ.String(), Want: have.Type.String()}}
			}
			have.Type = merged
		}
	}
	s := &schema.Struct{}
	for _, key := range slices.Sorted(maps.Keys(byName)) {
		s.Fields = append(s.Fields, *byName[key])
	}
	return s, nil
}

// typeOf is the type of a value; not ok is null.
func typeOf(v any) (schema.Primitive, bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case bool:
		return schema.Boolean, true
	case int, int8, int16, int32, int64, uint8, uint16, uint32:
		return schema.Long, true
	case uint, uint64:
		return schema.Long, true // one that does not fit is refused when it is stored
	case float32, float64:
		return schema.Double, true
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return schema.Long, true // one of more than 64 bits is refused when it is stored
		}
		return schema.Double, true
	case time.Time:
		return schema.Timestamp, true
	case []byte:
		return schema.Binary, true
	default: // text, and what is written as JSON
		return schema.String, true
	}
}

func unify(a schema.Type, b schema.Primitive) (schema.Type, bool) {
	numbers := func(t schema.Type) bool { return t == schema.Long || t == schema.Double }
	switch {
	case a == b:
		return a, true
	case numbers(a) && numbers(b):
		return schema.Double, true
	}
	return nil, false
}

// ParseType reads the type of a declared column: the names of Delta, and those of
// SQL for the same.
func ParseType(text string) (schema.Type, error) {
	name := strings.ToLower(strings.TrimSpace(text))
	aliases := map[string]schema.Primitive{
		"bigint": schema.Long, "int": schema.Integer, "smallint": schema.Short, "tinyint": schema.Byte,
		"bool": schema.Boolean, "real": schema.Float, "float64": schema.Double, "int64": schema.Long, "text": schema.String,
	}
	if p, ok := aliases[name]; ok {
		return p, nil
	}
	primitives := []schema.Primitive{
		schema.String, schema.Long, schema.Integer, schema.Short, schema.Byte, schema.Float, schema.Double,
		schema.Boolean, schema.Binary, schema.Date, schema.Timestamp, schema.TimestampNTZ,
	}
	if slices.Contains(primitives, schema.Primitive(name)) {
		return schema.Primitive(name), nil
	}
	var d schema.Decimal
	if n, err := fmt.Sscanf(strings.ReplaceAll(name, " ", ""), "decimal(%d,%d)", &d.Precision, &d.Scale); err == nil && n == 2 {
		if d.Precision >= 1 && d.Precision <= schema.MaxPrecision && d.Scale >= 0 && d.Scale <= d.Precision {
			return d, nil
		}
		return nil, fmt.Errorf("type %q: the precision must be 1 to %d and the scale 0 to the precision", text, schema.MaxPrecision)
	}
	return nil, fmt.Errorf("unknown type %q: want string, long, integer, short, byte, float, double, boolean, binary, date, timestamp, timestamp_ntz or decimal(p,s)", text)
}

// plain turns a value into one that mssqlcdc.RowBuilder knows.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return uint64(v), nil
	case float64:
		return v, nil
	case float32:
		return float64(v), nil
	case nil, bool, int, int32, int64, uint64, string, []byte, json.Number, time.Time, map[string]any, []any:
		return v, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("a value of type %T has no JSON form: %w", v, err)
	}
	return string(text), nil
}
