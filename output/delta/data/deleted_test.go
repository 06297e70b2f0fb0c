package data_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// vector is the deletion vector of ascending rows below 65,536.
func vector(t require.TestingT, rows ...uint16) *dv.Rows {
	le := binary.LittleEndian
	content := le.AppendUint64(le.AppendUint32(nil, 1681511377), 1)
	content = le.AppendUint32(content, 0) // the key
	content = le.AppendUint32(le.AppendUint32(content, 12346), 1)
	content = le.AppendUint16(le.AppendUint16(content, 0), uint16(len(rows)-1))
	content = le.AppendUint32(content, 16)
	for _, row := range rows {
		content = le.AppendUint16(content, row)
	}
	out, err := dv.Decode(content)
	require.NoError(t, err)
	require.EqualValues(t, len(rows), out.Len())
	return out
}

// Whatever types a table has and however its file is cut, the rows of the vector are left
// out and no other.
func TestDeletedRowsAreLeftOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		table := drawStruct(r, 3)
		n := rapid.IntRange(1, 60).Draw(r, "rows")
		rec := drawBatch(r, memory.DefaultAllocator, table, n)
		st := mem.New()
		w, err := data.NewWriter(t.Context(), st, table, data.WriterOptions{RowGroupRows: int64(rapid.IntRange(1, 40).Draw(r, "group"))})
		require.NoError(r, err)
		require.NoError(r, w.Write(rec))
		files, err := w.Close()
		require.NoError(r, err)
		gone := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n, rapid.ID).Draw(r, "deleted")
		deleted := map[int]bool{}
		for _, row := range gone {
			deleted[row] = true
		}
		var rows []uint16
		want := [][]string{}
		for i, row := range rowsOf(rec) {
			if deleted[i] {
				rows = append(rows, uint16(i))
			} else {
				want = append(want, row)
			}
		}
		alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
		got := [][]string{}
		in := data.Input{Path: files[0].Path, Deleted: vector(r, rows...)}
		for rec, err := range data.ReadFileWith(t.Context(), alloc, st, table, in, nil) {
			require.NoError(r, err)
			require.Positive(r, rec.NumRows())
			got = append(got, rowsOf(rec)...)
		}
		require.Equal(r, want, got)
		alloc.AssertSize(r, 0)
	})
}

func TestDeletedRowsOfAnotherFile(t *testing.T) {
	t.Parallel()
	st, table := mem.New(), columns("a")
	files := write(t, st, table, data.WriterOptions{}, batch(t, memory.DefaultAllocator, table, `[{"a":1},{"a":2}]`))
	for _, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: files[0].Path, Deleted: vector(t, 0, 2)}, nil) {
		require.ErrorContains(t, err, "deletes row 2, and it has 2 rows")
	}
	n := 0
	for rec, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: files[0].Path, Deleted: vector(t, 1)}, []string{}) {
		require.NoError(t, err)
		n += int(rec.NumRows())
	}
	require.Equal(t, 1, n, "rows count without columns too")
}

// mapped gives a field its id and physical name.
func mapped(f schema.Field, id int) schema.Field {
	f.Nullable = true
	f.Metadata = map[string]any{"delta.columnMapping.id": number(id), "delta.columnMapping.physicalName": fmt.Sprintf("col-%d", id)}
	return f
}

// Every change of a column's type that the protocol has, at the top and inside of lists,
// maps and structs.
func TestWidenedTypes(t *testing.T) {
	t.Parallel()
	dec := func(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }
	double := func(f float64) string { return fmt.Sprintf("%v/%016x", f, math.Float64bits(f)) }
	for _, c := range []struct {
		from, to    schema.Type
		value, want string
	}{
		{schema.Byte, schema.Short, "-128", "-128"},
		{schema.Byte, schema.Integer, "127", "127"},
		{schema.Byte, schema.Long, "-1", "-1"},
		{schema.Short, schema.Integer, "-32768", "-32768"},
		{schema.Short, schema.Long, "32767", "32767"},
		{schema.Integer, schema.Long, "-2147483648", "-2147483648"},
		{schema.Float, schema.Double, "3.4", double(float64(float32(3.4)))},
		{schema.Byte, schema.Double, "5", double(5)},
		{schema.Short, schema.Double, "-6", double(-6)},
		{schema.Integer, schema.Double, "2147483647", double(2147483647)},
		{schema.Byte, dec(10, 0), "-128", "-128"},
		{schema.Byte, dec(4, 1), "-128", "-128.0"}, // below what the protocol asks, seen of the preview
		{schema.Short, dec(12, 2), "32767", "32767.00"},
		{schema.Integer, dec(10, 0), "-2147483648", "-2147483648"},
		{schema.Integer, dec(38, 28), "2147483647", "2147483647.0000000000000000000000000000"},
		{schema.Long, dec(20, 0), "-9223372036854775808", "-9223372036854775808"},
		{schema.Long, dec(38, 18), "9223372036854775807", "9223372036854775807.000000000000000000"},
		{dec(5, 2), dec(9, 2), `"-999.99"`, "-999.99"}, // int32 in the file
		{dec(9, 2), dec(18, 4), `"1.25"`, "1.2500"},    // int32 to int64
		{dec(18, 4), dec(38, 20), `"-1.25"`, "-1.25" + zeros(18)},
		{dec(38, 10), dec(38, 10), `"12345678901234567890.0123456789"`, "12345678901234567890.0123456789"},
		{schema.Date, schema.TimestampNTZ, `"1969-12-31"`, "-86400000000"},
		{schema.Date, schema.TimestampNTZ, `"9999-12-31"`, "253402214400000000"},
	} {
		t.Run(fmt.Sprint(c.from, " to ", c.to), func(t *testing.T) {
			t.Parallel()
			shape := func(typ schema.Type) *schema.Struct {
				return &schema.Struct{Fields: []schema.Field{
					{Name: "v", Type: typ, Nullable: true},
					{Name: "l", Type: &schema.Array{Element: typ, ContainsNull: true}, Nullable: true},
					{Name: "m", Type: &schema.Map{Key: typ, Value: typ, ValueContainsNull: true}, Nullable: true},
					{Name: "s", Type: &schema.Struct{Fields: []schema.Field{{Name: "x", Type: typ, Nullable: true}}}, Nullable: true},
				}}
			}
			st, before := mem.New(), shape(c.from)
			rows := fmt.Sprintf(`[{"v":%[1]s,"l":[%[1]s,null],"m":[{"key":%[1]s,"value":%[1]s}],"s":{"x":%[1]s}},{"v":null,"l":null,"m":null,"s":null}]`, c.value)
			files := write(t, st, before, data.WriterOptions{}, batch(t, memory.DefaultAllocator, before, rows))
			w := c.want
			want := [][]string{{w, "[" + w + ";NULL;]", "[{" + w + ";" + w + ";};]", "{" + w + ";}"}, {"NULL", "NULL", "NULL", "NULL"}}
			require.Equal(t, want, read(t, st, shape(c.to), nil, files...))

			// Rows of the old type that come after the change are written in the new one.
			alloc := checked(t)
			old := batch(t, alloc, before, rows)
			defer old.Release()
			files = write(t, st, shape(c.to), data.WriterOptions{Allocator: alloc}, old)
			require.Equal(t, want, read(t, st, shape(c.to), nil, files...))
			require.Equal(t, footer(t, st, files[0]).Schema.Column(0).PhysicalType(),
				footer(t, st, write(t, st, shape(c.to), data.WriterOptions{}, batch(t, memory.DefaultAllocator, shape(c.to), "[{}]"))[0]).Schema.Column(0).PhysicalType())
		})
	}
}
