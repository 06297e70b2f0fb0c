package data_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// fataler is what *testing.T and *rapid.T have in common.
type fataler interface {
	require.TestingT
	Helper()
}

// checked is an allocator whose memory must all be given back when the test ends.
func checked(t *testing.T) *memory.CheckedAllocator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// write puts batches through a writer and returns its files.
func write(t *testing.T, st data.Store, table *schema.Struct, o data.WriterOptions, recs ...arrow.RecordBatch) []data.File {
	t.Helper()
	w, err := data.NewWriter(t.Context(), st, table, o)
	require.NoError(t, err)
	for _, rec := range recs {
		require.NoError(t, w.Write(rec))
	}
	files, err := w.Close()
	require.NoError(t, err)
	return files
}

// read is the rows of files, each value as text; columns nil is all.
func read(t *testing.T, st data.Store, table *schema.Struct, columns []string, files ...data.File) [][]string {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	var rows [][]string
	for _, f := range files {
		for rec, err := range data.ReadFileWith(t.Context(), mem, st, table, data.Input{Path: f.Path, Size: f.Size, PartitionValues: f.PartitionValues}, columns) {
			require.NoError(t, err)
			rows = append(rows, rowsOf(rec)...)
		}
	}
	mem.AssertSize(t, 0)
	return rows
}

func rowsOf(rec arrow.RecordBatch) [][]string {
	rows := make([][]string, rec.NumRows())
	for _, column := range rec.Columns() {
		for i := range rows {
			rows[i] = append(rows[i], cell(column, i))
		}
	}
	return rows
}

// cell is a value as text, such that two values have the same text if and only if they
// are the same: NaN, the sign of zero and every digit included.
func cell(arr arrow.Array, i int) string {
	if arr.IsNull(i) || arr.DataType().ID() == arrow.NULL {
		return "NULL"
	}
	switch a := arr.(type) {
	case *array.Float32:
		return fmt.Sprintf("%v/%08x", a.Value(i), math.Float32bits(a.Value(i)))
	case *array.Float64:
		return fmt.Sprintf("%v/%016x", a.Value(i), math.Float64bits(a.Value(i)))
	case *array.Dictionary:
		return cell(a.Dictionary(), a.GetValueIndex(i))
	case *array.Timestamp:
		return fmt.Sprint(int64(a.Value(i)))
	case *array.Date32:
		return fmt.Sprint(int32(a.Value(i)))
	case *array.String:
		return fmt.Sprintf("%q", a.Value(i))
	case *array.LargeString:
		return fmt.Sprintf("%q", a.Value(i))
	case *array.Binary:
		return fmt.Sprintf("%x", a.Value(i))
	case *array.LargeBinary:
		return fmt.Sprintf("%x", a.Value(i))
	case *array.FixedSizeBinary:
		return fmt.Sprintf("%x", a.Value(i))
	case *array.Decimal128:
		return decimalText(a.Value(i), int(a.DataType().(*arrow.Decimal128Type).Scale))
	case *array.Struct:
		text := "{"
		for j := range a.NumField() {
			text += cell(a.Field(j), i) + ";"
		}
		return text + "}"
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		text := "["
		for j := from; j < to; j++ {
			text += cell(a.ListValues(), int(j)) + ";"
		}
		return text + "]"
	default:
		return arr.ValueStr(i)
	}
}

// decimalText is a decimal in plain notation with all of its digits.
func decimalText(n decimal128.Num, scale int) string {
	digits := n.Abs().BigInt().String()
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if scale > 0 {
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

// retyped is a batch whose only column is taken for another type of the same layout.
func retyped(rec arrow.RecordBatch, typ arrow.DataType) arrow.RecordBatch {
	d := rec.Column(0).Data()
	column := array.MakeFromData(array.NewData(typ, d.Len(), d.Buffers(), nil, d.NullN(), d.Offset()))
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: rec.ColumnName(0), Type: typ, Nullable: true}}, nil), []arrow.Array{column}, rec.NumRows())
}

func recordFromJSON(as *arrow.Schema, json string) (arrow.RecordBatch, int64, error) {
	return array.RecordFromJSON(memory.DefaultAllocator, as, strings.NewReader(json))
}

// batch makes a record batch of a table's schema from JSON rows.
func batch(t *testing.T, mem memory.Allocator, table *schema.Struct, json string) arrow.RecordBatch {
	t.Helper()
	return arrowBatch(t, mem, table.Arrow(), json)
}
