package fetch_test

import (
	"database/sql/driver"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

func schemaOf(columns ...fetch.Column) *arrow.Schema {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type(), Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

func buffersOf(t require.TestingT, columns ...fetch.Column) *fetch.Buffers {
	b, err := fetch.NewBuffers(schemaOf(columns...), columns)
	require.NoError(t, err)
	return b
}

func utc(text string) time.Time {
	parsed, err := time.Parse("2006-01-02 15:04:05.999999999", text)
	if err != nil {
		panic(err)
	}
	return parsed
}

func TestValues(t *testing.T) {
	t.Parallel()
	money := fetch.Column{Kind: fetch.Decimal, Precision: 19, Scale: 4}
	cases := []struct {
		name   string
		column fetch.Column
		value  driver.Value
		want   string // ValueStr of the array
	}{
		{"bit", fetch.Column{Kind: fetch.Bool}, true, "true"},
		{"tinyint", fetch.Column{Kind: fetch.Int16}, int64(255), "255"},
		{"smallint min", fetch.Column{Kind: fetch.Int16}, int64(math.MinInt16), "-32768"},
		{"int min", fetch.Column{Kind: fetch.Int32}, int64(math.MinInt32), "-2147483648"},
		{"bigint min", fetch.Column{Kind: fetch.Int64}, int64(math.MinInt64), "-9223372036854775808"},
		{"real", fetch.Column{Kind: fetch.Float32}, float64(float32(0.1)), "0.1"},
		{"float", fetch.Column{Kind: fetch.Float64}, math.SmallestNonzeroFloat64, "5e-324"},
		{"decimal(38,38)", fetch.Column{Kind: fetch.Decimal, Precision: 38, Scale: 38}, []byte("-0.99999999999999999999999999999999999999"), "-0.99999999999999999999999999999999999999"},
		{"decimal(38,0)", fetch.Column{Kind: fetch.Decimal, Precision: 38}, []byte("99999999999999999999999999999999999999"), "99999999999999999999999999999999999999"},
		{"money max", money, []byte("922337203685477.5807"), "922337203685477.5807"},
		{"money min", money, []byte("-922337203685477.5808"), "-922337203685477.5808"},
		{"money small", money, []byte("-0.0001"), "-0.0001"},
		{"date first", fetch.Column{Kind: fetch.Date}, utc("0001-01-01 00:00:00"), "0001-01-01"},
		{"date last", fetch.Column{Kind: fetch.Date}, utc("9999-12-31 00:00:00"), "9999-12-31"},
		{"date before 1970", fetch.Column{Kind: fetch.Date}, utc("1969-12-31 00:00:00"), "1969-12-31"},
		{"datetime2 cut", fetch.Column{Kind: fetch.Timestamp}, utc("2024-02-29 23:59:59.9999999"), "2024-02-29 23:59:59.999999"},
		{"datetime2 cut before 1970", fetch.Column{Kind: fetch.Timestamp}, utc("1900-01-01 00:00:00.0000009"), "1900-01-01 00:00:00"},
		{"datetimeoffset", fetch.Column{Kind: fetch.Instant}, time.Date(2026, 6, 23, 0, 1, 5, 90094800, time.FixedZone("", -7*3600)), "2026-06-23 07:01:05.090094Z"},
		{"time", fetch.Column{Kind: fetch.TimeOfDay}, utc("0001-01-01 23:59:59.9999999"), "23:59:59.999999900"},
		{"time midnight", fetch.Column{Kind: fetch.TimeOfDay}, utc("0001-01-01 00:00:00"), "00:00:00.000000000"},
		{"guid", fetch.Column{Kind: fetch.GUID}, []byte{0xBA, 0x47, 0x98, 0x0E, 0x1C, 0xC5, 0xF4, 0x4B, 0x99, 0x60, 0xE1, 0xC8, 0x0E, 0x27, 0xAB, 0xA0}, "0E9847BA-C51C-4BF4-9960-E1C80E27ABA0"},
		{"text", fetch.Column{Kind: fetch.Text}, "Füße 表 \U0001F600", "Füße 表 \U0001F600"},
		{"xml", fetch.Column{Kind: fetch.XML}, "\uFEFF<a/>", "<a/>"},
		{"empty text", fetch.Column{Kind: fetch.Text}, "", ""},
		{"binary", fetch.Column{Kind: fetch.Binary}, []byte{0, 255}, "AP8="},
		{"empty binary", fetch.Column{Kind: fetch.Binary}, []byte{}, ""},
		{"lsn", fetch.Column{Kind: fetch.LSN}, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "AAECAwQFBgcICQ=="},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := buffersOf(t, c.column)
			for _, v := range []driver.Value{c.value, nil, c.value} {
				require.NoError(t, b.Append([]driver.Value{v}))
			}
			record := b.Flush().Record
			require.EqualValues(t, 3, record.NumRows())
			column := record.Column(0)
			require.Equal(t, 1, column.NullN())
			require.True(t, column.IsNull(1))
			for _, i := range []int{0, 2} {
				got := column.ValueStr(i)
				if timestamps, ok := column.(*array.Timestamp); ok {
					// The zone is checked by its name; the rest as the time is read.
					got = timestamps.Value(i).ToTime(arrow.Microsecond).Format("2006-01-02 15:04:05.999999")
					if c.column.Kind == fetch.Instant {
						got += "Z"
					}
				}
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestRefusedValuesNameTheColumnAndNotTheValue(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		column fetch.Column
		value  driver.Value
	}{
		"wrong type":               {fetch.Column{Kind: fetch.Text}, int64(4711)},
		"integer too large":        {fetch.Column{Kind: fetch.Int16}, int64(47110)},
		"not a decimal":            {fetch.Column{Kind: fetch.Decimal, Precision: 5, Scale: 2}, []byte("47x11")},
		"decimal with more scale":  {fetch.Column{Kind: fetch.Decimal, Precision: 5, Scale: 2}, []byte("4.711")},
		"decimal with more digits": {fetch.Column{Kind: fetch.Decimal, Precision: 5, Scale: 2}, []byte("4711.00")},
		"short guid":               {fetch.Column{Kind: fetch.GUID}, []byte("4711")},
		"short lsn":                {fetch.Column{Kind: fetch.LSN}, []byte("4711")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.column.Name = "amount"
			err := buffersOf(t, c.column).Append([]driver.Value{c.value})
			var typed *fetch.ValueError
			require.ErrorAs(t, err, &typed)
			require.Equal(t, "amount", typed.Column)
			require.NotContains(t, err.Error(), "4711")
		})
	}
}

func TestSchemaMustFit(t *testing.T) {
	t.Parallel()
	columns := []fetch.Column{{Name: "a", Kind: fetch.Int32}}
	_, err := fetch.NewBuffers(schemaOf(), columns)
	require.ErrorContains(t, err, "0 fields for 1 columns")
	_, err = fetch.NewBuffers(schemaOf(fetch.Column{Name: "a", Kind: fetch.Text}), columns)
	require.ErrorContains(t, err, `column "a" is utf8 in the schema, want int32`)
	_, err = fetch.NewBuffers(arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.Null}}, nil), []fetch.Column{{Name: "a", Kind: 99}})
	require.ErrorContains(t, err, "unknown kind")
}

// TestBuffersEqualBuilders fills buffers and arrow-go's builders with the same random values and flushes at random places.
func TestBuffersEqualBuilders(t *testing.T) {
	t.Parallel()
	columns := []fetch.Column{
		{Name: "b", Kind: fetch.Bool}, {Name: "i", Kind: fetch.Int32}, {Name: "s", Kind: fetch.Text}, {Name: "x", Kind: fetch.Binary},
		{Name: "l", Kind: fetch.LSN}, {Name: "f", Kind: fetch.Float64},
	}
	rapid.Check(t, func(t *rapid.T) {
		b := buffersOf(t, columns...)
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schemaOf(columns...))
		draw := []func(i int) driver.Value{
			func(i int) driver.Value {
				v := rapid.Bool().Draw(t, "bool")
				builder.Field(i).(*array.BooleanBuilder).Append(v)
				return v
			},
			func(i int) driver.Value {
				v := rapid.Int32().Draw(t, "int")
				builder.Field(i).(*array.Int32Builder).Append(v)
				return int64(v)
			},
			func(i int) driver.Value {
				v := rapid.String().Draw(t, "text")
				builder.Field(i).(*array.StringBuilder).Append(v)
				return v
			},
			func(i int) driver.Value {
				v := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
				builder.Field(i).(*array.BinaryBuilder).Append(v)
				return v
			},
			func(i int) driver.Value {
				v := rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "lsn")
				builder.Field(i).(*array.FixedSizeBinaryBuilder).Append(v)
				return v
			},
			func(i int) driver.Value {
				v := rapid.Float64().Draw(t, "float")
				builder.Field(i).(*array.Float64Builder).Append(v)
				return v
			},
		}
		nulls := rapid.SampledFrom([]int{0, 1, 5, 10}).Draw(t, "nulls of ten")
		for range rapid.IntRange(1, 4).Draw(t, "records") {
			for range rapid.IntRange(0, 40).Draw(t, "rows") {
				row := make([]driver.Value, len(columns))
				for i := range columns {
					if rapid.IntRange(1, 10).Draw(t, "null") <= nulls {
						builder.Field(i).AppendNull()
						continue
					}
					row[i] = draw[i](i)
				}
				require.NoError(t, b.Append(row))
			}
			want := builder.NewRecordBatch()
			if want.NumRows() == 0 {
				continue
			}
			rows, size := b.Rows(), b.Bytes()
			batch := b.Flush()
			require.Equal(t, want.NumRows(), rows)
			require.Equal(t, size, batch.Bytes)
			require.Truef(t, array.RecordEqual(want, batch.Record), "want %v\ngot %v", want, batch.Record)
			for i := range columns {
				require.Equal(t, want.Column(i).NullN(), batch.Record.Column(i).NullN())
			}
		}
	})
}

// TestRecordsDoNotShareMemory changes nothing of a record by what follows it.
func TestRecordsDoNotShareMemory(t *testing.T) {
	t.Parallel()
	b := buffersOf(t, fetch.Column{Name: "s", Kind: fetch.Text}, fetch.Column{Name: "i", Kind: fetch.Int64})
	require.NoError(t, b.Append([]driver.Value{"first", int64(1)}))
	first := b.Flush().Record
	require.NoError(t, b.Append([]driver.Value{"other", int64(2)}))
	second := b.Flush().Record
	require.Equal(t, "first", first.Column(0).ValueStr(0))
	require.Equal(t, "1", first.Column(1).ValueStr(0))
	require.Equal(t, "other", second.Column(0).ValueStr(0))
}

func BenchmarkAppend(b *testing.B) {
	columns := []fetch.Column{
		{Name: "l", Kind: fetch.LSN}, {Name: "i", Kind: fetch.Int64}, {Name: "s", Kind: fetch.Text},
		{Name: "d", Kind: fetch.Decimal, Precision: 18, Scale: 4}, {Name: "t", Kind: fetch.Timestamp},
	}
	buffers := buffersOf(b, columns...)
	row := []driver.Value{make([]byte, 10), int64(1 << 40), "twenty characters ..", []byte("12345678901.2345"), utc("2024-02-29 23:59:59.9999999")}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, buffers.Append(row))
		if buffers.Rows() == 16384 {
			buffers.Flush()
		}
	}
}
