package data_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

type statistics struct {
	NumRecords int64
	MinValues  map[string]any
	MaxValues  map[string]any
	NullCount  map[string]any
}

func parseStats(t fataler, text string) statistics {
	t.Helper()
	var s statistics
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&s), text)
	return s
}

// requireBounds checks min <= value <= max for every value of a batch, in the order of
// Delta. It shares no code with the writer.
func requireBounds(t fataler, table *schema.Struct, text string, rec arrow.RecordBatch) {
	t.Helper()
	stats := parseStats(t, text)
	for i, f := range table.Fields {
		for row := range int(rec.NumRows()) {
			requireBound(t, f.Type, rec.Column(i), row, stats.MinValues[f.Name], stats.MaxValues[f.Name])
		}
	}
}

func requireBound(t fataler, typ schema.Type, arr arrow.Array, i int, lo, hi any) {
	t.Helper()
	if arr.IsNull(i) {
		return
	}
	if s, ok := typ.(*schema.Struct); ok {
		los, _ := lo.(map[string]any)
		his, _ := hi.(map[string]any)
		for j, f := range s.Fields {
			requireBound(t, f.Type, arr.(*array.Struct).Field(j), i, los[f.Name], his[f.Name])
		}
		return
	}
	if lo != nil {
		require.LessOrEqual(t, compare(t, typ, lo, arr, i), 0, "minimum %v above %s", lo, arr.ValueStr(i))
	}
	if hi != nil {
		require.GreaterOrEqual(t, compare(t, typ, hi, arr, i), 0, "maximum %v below %s", hi, arr.ValueStr(i))
	}
}

// compare orders a bound of the statistics and a value.
func compare(t fataler, typ schema.Type, bound any, arr arrow.Array, i int) int {
	t.Helper()
	switch a := arr.(type) {
	case *array.String:
		return strings.Compare(bound.(string), a.Value(i))
	case *array.Date32:
		at, err := time.Parse("2006-01-02", bound.(string))
		require.NoError(t, err)
		return big.NewInt(at.Unix()).Cmp(big.NewInt(int64(a.Value(i)) * 86400))
	case *array.Timestamp:
		layout := "2006-01-02T15:04:05"
		if typ == schema.Timestamp {
			layout += "Z"
		}
		at, err := time.Parse(layout, bound.(string))
		require.NoError(t, err)
		return big.NewInt(at.UnixMicro()).Cmp(big.NewInt(int64(a.Value(i))))
	case *array.Float32:
		return compareFloats(t, bound, float64(a.Value(i)))
	case *array.Float64:
		return compareFloats(t, bound, a.Value(i))
	case *array.Decimal128:
		text := bound.(json.Number).String()
		require.NotContains(t, text, "e")
		exact, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		value, ok := new(big.Rat).SetString(a.Value(i).ToString(int32(typ.(schema.Decimal).Scale)))
		require.True(t, ok)
		return exact.Cmp(value)
	case *array.Boolean, *array.Binary, array.ListLike:
		require.Fail(t, "statistics for a type without order", "%s", arr.DataType())
	}
	exact, ok := new(big.Int).SetString(bound.(json.Number).String(), 10)
	require.True(t, ok)
	value, ok := new(big.Int).SetString(arr.ValueStr(i), 10)
	require.True(t, ok)
	return exact.Cmp(value)
}

// compareFloats has NaN above all numbers, and negative zero below zero, which is
// stricter than Delta.
func compareFloats(t fataler, bound any, value float64) int {
	t.Helper()
	f, err := bound.(json.Number).Float64()
	require.NoError(t, err)
	switch {
	case math.IsNaN(value) || f < value:
		return -1
	case f > value:
		return 1
	case f == 0 && math.Signbit(f) != math.Signbit(value):
		if math.Signbit(f) {
			return -1
		}
		return 1
	default:
		return 0
	}
}
