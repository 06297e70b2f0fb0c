package schema_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func TestArrowAndBack(t *testing.T) {
	t.Parallel()
	s := everything()
	s.Fields[0] = s.Fields[0].WithComment("the first")
	back, err := schema.FromArrow(s.Arrow())
	require.NoError(t, err)
	require.Equal(t, s, back)
}

func TestArrowTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arrow arrow.DataType
		delta schema.Type
	}{
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, schema.String},
		{arrow.BinaryTypes.LargeString, schema.String},
		{arrow.BinaryTypes.LargeBinary, schema.Binary},
		{&arrow.FixedSizeBinaryType{ByteWidth: 10}, schema.Binary},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}, schema.Timestamp},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, schema.TimestampNTZ},
		{&arrow.Decimal128Type{Precision: 38, Scale: 38}, schema.Decimal{Precision: 38, Scale: 38}},
		{arrow.FixedWidthTypes.Date32, schema.Date},
		{arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int8), &schema.Array{Element: schema.Byte}},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int16), &schema.Map{Key: schema.String, Value: schema.Short, ValueContainsNull: true}},
	} {
		got, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{{Name: "a", Type: c.arrow, Nullable: true}}, nil))
		require.NoError(t, err, c.arrow)
		require.Equal(t, &schema.Struct{Fields: []schema.Field{{Name: "a", Type: c.delta, Nullable: true}}}, got)
	}
}

func TestArrowTypesWithoutDeltaType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arrow  arrow.DataType
		wayOut string
	}{
		{arrow.PrimitiveTypes.Uint8, "int16"},
		{arrow.PrimitiveTypes.Uint16, "int32"},
		{arrow.PrimitiveTypes.Uint32, "int64"},
		{arrow.PrimitiveTypes.Uint64, "decimal128(20,0)"},
		{arrow.FixedWidthTypes.Float16, "float32"},
		{arrow.FixedWidthTypes.Date64, "date32"},
		{arrow.FixedWidthTypes.Time64us, "int64 or utf8"},
		{arrow.FixedWidthTypes.Duration_s, "int64 or utf8"},
		{arrow.FixedWidthTypes.MonthDayNanoInterval, "utf8"},
		{arrow.FixedWidthTypes.Timestamp_ns, "timestamp[us]"},
		{arrow.FixedWidthTypes.Timestamp_ms, "timestamp[us]"},
		{&arrow.Decimal256Type{Precision: 40}, "decimal128"},
		{&arrow.Decimal128Type{Precision: 10, Scale: -2}, "scale"},
		{arrow.BinaryTypes.StringView, "utf8"},
		{arrow.LargeListOf(arrow.PrimitiveTypes.Int8), "list"},
		{arrow.Null, "the type that it shall have"},
	} {
		nested := arrow.StructOf(arrow.Field{Name: "inner", Type: arrow.ListOf(c.arrow)})
		_, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{{Name: "outer", Type: nested}}, nil))
		require.ErrorContains(t, err, "column outer.inner.element: ", c.arrow)
		require.ErrorContains(t, err, c.wayOut, c.arrow)
	}
}
