package main

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// copyOf is a record of one column with one value.
func copyOf(name string, typ arrow.DataType, add func(array.Builder)) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: name, Type: typ, Nullable: true}}, nil))
	add(builder.Field(0))
	return builder.NewRecordBatch()
}

// Values of a copy come exactly, or not at all, and no error holds a value.
func TestColumnsOfACopy(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seconds, micros := &arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Microsecond}
	zoned := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	money := &arrow.Decimal128Type{Precision: 10, Scale: 2}
	text := func(s string) func(array.Builder) {
		return func(b array.Builder) {
			if err := b.AppendValueFromString(s); err != nil {
				panic(err) // the test's own
			}
		}
	}
	for name, test := range map[string]struct {
		column   string
		from, to arrow.DataType
		value    string
		want     string // the value as text
		fails    string // of the columns
		refused  bool   // the value
	}{
		"as it is":               {column: "v", from: arrow.BinaryTypes.String, to: arrow.BinaryTypes.String, value: "abc", want: "abc"},
		"another letter case":    {column: "V", from: arrow.BinaryTypes.String, to: arrow.BinaryTypes.String, value: "abc", want: "abc"},
		"large text":             {column: "v", from: arrow.BinaryTypes.LargeString, to: arrow.BinaryTypes.String, value: "abc", want: "abc"},
		"a wider integer":        {column: "v", from: arrow.PrimitiveTypes.Int64, to: arrow.PrimitiveTypes.Int16, value: "321", want: "321"},
		"one that does not fit":  {column: "v", from: arrow.PrimitiveTypes.Int64, to: arrow.PrimitiveTypes.Int16, value: "54321", refused: true},
		"a coarser time":         {column: "v", from: seconds, to: micros, value: "2026-03-01 12:00:01", want: "2026-03-01T12:00:01"},
		"a wider decimal":        {column: "v", from: &arrow.Decimal128Type{Precision: 20, Scale: 2}, to: money, value: "12.34", want: "12.34"},
		"one of too many digits": {column: "v", from: &arrow.Decimal128Type{Precision: 20, Scale: 3}, to: money, value: "12.345", refused: true},
		"an instant for a time":  {column: "v", from: zoned, to: micros, fails: "does not become"},
		"text for a number":      {column: "v", from: arrow.BinaryTypes.String, to: arrow.PrimitiveTypes.Int32, fails: "does not become"},
		"a float for a decimal":  {column: "v", from: arrow.PrimitiveTypes.Float64, to: money, fails: "does not become"},
		"another column":         {column: "w", from: arrow.BinaryTypes.String, to: arrow.BinaryTypes.String, fails: "the copy has no column v"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layout := sqlserver.Layout{Columns: []mssqlcdc.Column{{Name: "v", Type: test.to}}}
			record := copyOf(test.column, test.from, func(array.Builder) {})
			shape, err := newShape(layout, record.Schema(), false)
			if test.fails != "" {
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			got, err := shape.convert(t.Context(), copyOf(test.column, test.from, text(test.value)), sqlserver.Head{LSN: mssqlcdc.LSN{9: 7}, Time: at})
			if test.refused {
				require.ErrorContains(t, err, "column v")
				require.NotContains(t, err.Error(), test.value)
				return
			}
			require.NoError(t, err)
			require.True(t, got.Schema().Equal(layout.Schema()))
			require.Contains(t, got.Column(mssqlcdc.FirstCaptured).ValueStr(0), test.want)
			row := mssqlcdc.RowReader(got, 0)(0)
			require.Equal(t, int64(mssqlcdc.Read), row[mssqlcdc.ColOperation])
			require.Equal(t, at, row[mssqlcdc.ColCommitTime])
			require.Nil(t, row[mssqlcdc.ColSeqVal])
		})
	}
}

// A column that the copy lacks is NULL where that is asked for; a copy without any is none.
func TestMissingColumnsOfACopy(t *testing.T) {
	t.Parallel()
	layout := sqlserver.Layout{Columns: []mssqlcdc.Column{{Name: "v", Type: arrow.BinaryTypes.String}, {Name: "new", Type: arrow.PrimitiveTypes.Int64}}}
	record := copyOf("v", arrow.BinaryTypes.String, func(b array.Builder) { b.AppendNull() })
	_, err := newShape(layout, record.Schema(), false)
	require.ErrorContains(t, err, "--allow-missing-columns")
	shape, err := newShape(layout, record.Schema(), true)
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, shape.missing)
	got, err := shape.convert(t.Context(), record, sqlserver.Head{LSN: mssqlcdc.LSN{9: 7}})
	require.NoError(t, err)
	require.True(t, got.Column(mssqlcdc.FirstCaptured+1).IsNull(0))
	require.True(t, got.Column(mssqlcdc.IdxCommitTime).IsNull(0), "a time that is not known")
	_, err = newShape(layout, copyOf("other", arrow.BinaryTypes.String, func(array.Builder) {}).Schema(), true)
	require.Error(t, err)
	twice := arrow.NewSchema([]arrow.Field{{Name: "V", Type: arrow.BinaryTypes.String}, {Name: "NEW", Type: arrow.PrimitiveTypes.Int64}, {Name: "New", Type: arrow.PrimitiveTypes.Int64}}, nil)
	_, err = newShape(layout, twice, true)
	require.ErrorContains(t, err, "several columns new")
}
